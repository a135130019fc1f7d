//! Health scripts: an operator's programs that say whether the machine is fit for containers
//! (Hadoop: `NodeHealthScriptRunner`).
//!
//! ```text
//! Scripts ── one thread for each ── run: a process and its verdict ── output: what it says (pure)
//! ```
//! Owns the threads and what the scripts print. In: paths, arguments,
//! intervals, an environment. Out: a [`Verdict`] after each run. May not know YARN, nor any crate
//! of the workspace but `threads` and `node-script`, which runs the processes.

#[doc(hidden)]
pub mod fuzzing;
mod output;
mod run;

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};
use nix::unistd::{AccessFlags, access};
use threads::ThreadOwner;

/// A script and when to run it (`yarn.nodemanager.health-checker.NAME.*`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HealthScript {
    /// Name of the script among `yarn.nodemanager.health-checker.scripts`.
    pub name: String,
    /// Path of the program to run.
    pub path: PathBuf,
    /// Arguments of the program.
    pub opts: Vec<String>,
    /// Duration in milliseconds after which a run is ended; the machine is unhealthy then.
    pub timeout_ms: u64,
    /// Time between the beginnings of two runs, in milliseconds.
    pub interval_ms: u64,
}

impl HealthScript {
    /// Returns whether there is a program to run; logs why not. Hadoop ignores a script that is
    /// missing or not executable when the node starts (`NodeHealthScriptRunner.shouldRun`).
    #[must_use]
    pub fn can_run(&self) -> bool {
        let (script, path) = (&self.name, self.path.display());
        if !self.path.exists() {
            tracing::warn!(script, %path, "this health script does not exist and is ignored");
            return false;
        }
        if access(&self.path, AccessFlags::X_OK).is_err() {
            tracing::warn!(script, %path, "this health script cannot be executed and is ignored");
            return false;
        }
        true
    }
}

/// Result of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Whether the machine is fit for containers.
    pub is_healthy: bool,
    /// Why not, at most some kilobytes; empty if it is.
    pub report: String,
}

impl Verdict {
    /// Returns the verdict on a machine that is fit for containers.
    #[must_use]
    pub fn healthy() -> Self {
        Self {
            is_healthy: true,
            report: String::new(),
        }
    }

    fn unhealthy(report: String) -> Self {
        Self {
            is_healthy: false,
            report,
        }
    }
}

/// Threads that run the scripts.
#[must_use]
pub struct Scripts {
    owner: ThreadOwner,
    stop: Sender<Infallible>,
    threads: Vec<JoinHandle<()>>,
}

impl Scripts {
    /// Starts a thread for each script, `health-script-0` and so on, whose first run begins at
    /// once. The processes get exactly this environment. `listener` is called after each run with
    /// the index of the script.
    ///
    /// # Errors
    /// The system cannot start another thread.
    pub fn start(
        scripts: Vec<HealthScript>,
        environment: BTreeMap<String, String>,
        listener: impl Fn(usize, Verdict) + Send + Sync + 'static,
    ) -> io::Result<Self> {
        let (stop, stopped) = bounded(0);
        let mut started = Self {
            owner: ThreadOwner::default(),
            stop,
            threads: Vec::new(),
        };
        let (environment, listener) = (Arc::new(environment), Arc::new(listener));
        for (index, script) in scripts.into_iter().enumerate() {
            let (environment, listener) = (Arc::clone(&environment), Arc::clone(&listener));
            let stopped = stopped.clone();
            let name = format!("health-script-{index}");
            let thread = started.owner.start(&name, move || {
                let tell = |verdict| listener(index, verdict);
                serve(&script, &environment, &stopped, tell);
            })?;
            started.threads.push(thread);
        }
        Ok(started)
    }

    /// Ends the threads and the runs under way, and waits for them.
    pub fn stop(self) {
        self.owner.end();
        drop(self.stop);
        for thread in self.threads {
            if thread.join().is_err() {
                tracing::error!("the thread of a health script panicked");
            }
        }
    }
}

/// Runs a script at its interval until the stop. After a run that took longer, the next begins at
/// once.
fn serve(
    script: &HealthScript,
    environment: &BTreeMap<String, String>,
    stopped: &Receiver<Infallible>,
    tell: impl Fn(Verdict),
) {
    let interval = Duration::from_millis(script.interval_ms);
    loop {
        let began = Instant::now();
        let Some(verdict) = run::run(script, environment, stopped) else {
            return;
        };
        if !verdict.is_healthy {
            let (name, report) = (&script.name, &verdict.report);
            tracing::warn!(script = name, report, "this health script finds a fault");
        }
        tell(verdict);
        let pause = interval.saturating_sub(began.elapsed());
        if stopped.recv_timeout(pause) != Err(RecvTimeoutError::Timeout) {
            return;
        }
    }
}

#[cfg(test)]
mod tests;
