//! The threads that get labels and attributes: from the configuration's files, which are read
//! again, or from a script.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender, TryRecvError};
use std::thread::JoinHandle;
use std::time::Duration;

use node_script::{Output, Printed, Script, ScriptError};
use records::error_chain;
use thiserror::Error;
use threads::ThreadOwner;
use tokio::sync::watch;

use super::NodeReports;
use super::report::Report;
use super::value::{Described, ValueError};
use crate::config::{NodeLabelsConfig, ProviderConfig, ProviderSource};

/// Returns the present value of a property in the configuration's files, without restart; `None`
/// when the files cannot be read now.
pub type Reread = Arc<dyn Fn(&str) -> Option<String> + Send + Sync>;

/// Why there is no new value.
#[derive(Debug, Error)]
enum FetchError {
    #[error("cannot read the configuration again")]
    Configuration,
    #[error(transparent)]
    Script(#[from] ScriptError),
    #[error("the script ended with {0}: {1}")]
    Status(std::process::ExitStatus, String),
    #[error("the script printed more than {} bytes", node_script::OUTPUT_BYTES_MAX)]
    TooMuch,
    #[error(transparent)]
    Value(#[from] ValueError),
}

/// Why the providers cannot be started.
#[derive(Debug, Error)]
pub enum ProviderError {
    /// A script that cannot be executed (Hadoop: `verifyConfiguredScript`).
    #[error("the script of the {what} cannot be run")]
    Script {
        /// Purpose of the script.
        what: &'static str,
        /// Reason of the system.
        #[source]
        source: ScriptError,
    },
    /// A thread cannot be had.
    #[error("starting the thread of the {what}")]
    Thread {
        /// Purpose of the thread.
        what: &'static str,
        /// Reason of the system.
        #[source]
        source: io::Error,
    },
}

/// The providers' threads. Dropping it ends them without waiting.
#[derive(Debug, Default)]
pub struct Providers(Vec<Provider>);

/// One thread. Fields are dropped in this order.
struct Provider {
    owner: ThreadOwner,
    /// The end of this value is the thread's.
    stop: Sender<()>,
    thread: JoinHandle<()>,
}

impl fmt::Debug for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Provider({:?})", self.thread.thread().name())
    }
}

impl Providers {
    /// Starts a thread for each provider that is configured, and returns what they will report.
    /// Scripts get exactly this environment. Without `reread` properties keep the values that they
    /// have at the start.
    ///
    /// # Errors
    /// [`ProviderError`] when a script cannot be run or a thread cannot be had.
    pub fn start(
        config: &NodeLabelsConfig,
        environment: &Arc<BTreeMap<String, String>>,
        reread: Option<&Reread>,
    ) -> Result<(Self, NodeReports), ProviderError> {
        let inputs = (environment, reread);
        let mut providers = Self::default();
        let labels = config.labels.as_ref();
        let attributes = config.attributes.as_ref();
        let reports = NodeReports {
            labels: labels.map(|it| providers.add(it, inputs)).transpose()?,
            attributes: attributes.map(|it| providers.add(it, inputs)).transpose()?,
        };
        Ok((providers, reports))
    }

    /// Ends the threads with their scripts, and waits for them.
    pub fn stop(self) {
        for Provider {
            owner,
            stop,
            thread,
        } in self.0
        {
            drop(owner);
            drop(stop);
            if thread.join().is_err() {
                tracing::error!("a provider's thread panicked");
            }
        }
    }

    fn add<T: Described>(
        &mut self,
        config: &ProviderConfig,
        (environment, reread): (&Arc<BTreeMap<String, String>>, Option<&Reread>),
    ) -> Result<Report<T>, ProviderError> {
        let what = T::WHAT;
        let first = match &config.source {
            // What was configured at the start was checked with the rest of the configuration.
            ProviderSource::Property { configured, .. } => T::from_property(configured).ok(),
            ProviderSource::Script(script) => {
                let checked = script.check();
                checked.map_err(|source| ProviderError::Script { what, source })?;
                None
            }
        };
        let (newest, reported) = watch::channel(first);
        let (stop, stopping) = mpsc::channel();
        let work = Work {
            source: config.source.clone(),
            interval: config.fetch_interval,
            environment: Arc::clone(environment),
            reread: reread.map(Arc::clone),
            newest,
            stopping,
        };
        let owner = ThreadOwner::default();
        let thread = owner.start(&what.replace(' ', "-"), move || work.serve());
        let thread = thread.map_err(|source| ProviderError::Thread { what, source })?;
        self.0.push(Provider {
            owner,
            stop,
            thread,
        });
        Ok(Report::new(reported, config.resync_interval))
    }
}

/// Work of a thread until it is stopped.
struct Work<T> {
    source: ProviderSource,
    /// Interval between two fetches; `None`: one is enough.
    interval: Option<Duration>,
    environment: Arc<BTreeMap<String, String>>,
    reread: Option<Reread>,
    newest: watch::Sender<Option<T>>,
    stopping: Receiver<()>,
}

impl<T: Described> Work<T> {
    fn serve(self) {
        // A property has its value from the start.
        let mut is_due = matches!(self.source, ProviderSource::Script(_));
        loop {
            if is_due {
                self.fetch_and_publish();
            }
            is_due = true;
            let stopped = match self.interval {
                Some(interval) => self.stopping.recv_timeout(interval),
                None => self.stopping.recv().map_err(RecvTimeoutError::from),
            };
            if !matches!(stopped, Err(RecvTimeoutError::Timeout)) {
                return;
            }
        }
    }

    fn fetch_and_publish(&self) {
        match self.fetch() {
            Ok(value) => {
                self.newest.send_if_modified(|newest| {
                    let is_new = newest.as_ref() != Some(&value);
                    if is_new {
                        tracing::info!(now = %value, "the {} have changed", T::WHAT);
                        *newest = Some(value);
                    }
                    is_new
                });
            }
            Err(FetchError::Script(ScriptError::Stopped(_))) => {}
            Err(error) => {
                tracing::error!(error = %error_chain(&error), "the {} stay as they are", T::WHAT);
            }
        }
    }

    fn fetch(&self) -> Result<T, FetchError> {
        match &self.source {
            ProviderSource::Property { name, configured } => {
                let text = match &self.reread {
                    Some(reread) => reread(name).ok_or(FetchError::Configuration)?,
                    None => configured.clone(),
                };
                Ok(T::from_property(&text)?)
            }
            ProviderSource::Script(script) => Ok(T::from_output(&self.output_of(script)?)?),
        }
    }

    /// Returns the standard output of a script that succeeded.
    fn output_of(&self, script: &Script) -> Result<String, FetchError> {
        let is_stopping = || !matches!(self.stopping.try_recv(), Err(TryRecvError::Empty));
        let Output {
            status,
            stdout,
            stderr,
        } = script.run(&self.environment, Printed::default(), is_stopping)?;
        if !status.success() {
            let text = stderr.text();
            let last = text.lines().last().unwrap_or_default();
            return Err(FetchError::Status(status, last.chars().take(200).collect()));
        }
        if stdout.is_cut() {
            return Err(FetchError::TooMuch);
        }
        Ok(stdout.text().into_owned())
    }
}

#[cfg(test)]
mod tests;
