//! The owner of the host's lives: one thread, which sends what services must learn, and begins
//! another life when one has ended.

use std::io;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use records::ApplicationId;

use crate::config::{Folders, HostConfig};
use crate::error::{DataRefused, HostError, HostFault};
use crate::message;
use crate::model::{ContainerFacts, Model};
use crate::restarts::Restarts;
use crate::shared::{Shared, fault};
use crate::start::{Life, Metadata, out_of_turn};

/// Bytes that are sent at a time.
const BATCH_BYTES_MAX: usize = 1 << 20;

/// Interval at which folders and metrics are looked at.
const TICK: Duration = Duration::from_secs(5);

/// Time in which a host tells its metrics, or it hangs.
const METRICS_PATIENCE: Duration = Duration::from_secs(60);

/// Longest text about a host's health, in characters.
const REPORT_CHARS_MAX: usize = 1_000;

/// Whether the node can do with its host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostHealth {
    /// Whether it can.
    pub is_healthy: bool,
    /// Reason if it cannot: classes, and the last line of the host's output.
    pub report: String,
}

/// Functions of the agent that a host's supervisor calls.
pub struct Watch {
    /// Returns the node's local folders of now.
    pub folders: Box<dyn Fn() -> Folders + Send>,
    /// Takes each change of the health.
    pub health: Box<dyn Fn(HostHealth) + Send>,
}

/// A host whose services run, and that learns of nothing yet.
#[derive(Debug)]
pub struct StartedHost {
    config: HostConfig,
    shared: Arc<Shared>,
    life: Life,
    metadata: Metadata,
}

impl StartedHost {
    /// Starts a host and its services, and waits for them.
    ///
    /// # Errors
    /// [`HostError`] when Java, the host or a service does not start.
    pub fn start(config: HostConfig) -> Result<Self, HostError> {
        let shared = Arc::new(Shared::new(config.services.len()));
        let (life, metadata) = Life::start(&config, &shared)?;
        Ok(Self {
            config,
            shared,
            life,
            metadata,
        })
    }

    /// Returns the metadata of the services, in their order. `None` is no metadata, which is
    /// something else than empty metadata.
    #[must_use]
    pub fn metadata(&self) -> &[Option<Vec<u8>>] {
        &self.metadata
    }

    /// Lets the services learn of applications and containers, and begins the host anew when it
    /// has ended.
    ///
    /// # Errors
    /// A thread cannot be had.
    pub fn supervise(self, watch: Watch) -> io::Result<(AuxHost, HostThread)> {
        let shared = Arc::clone(&self.shared);
        let supervisor = Supervisor {
            config: self.config,
            shared: Arc::clone(&shared),
            metadata: self.metadata,
            watch,
            folders: Folders::default(),
            restarts: Restarts::default(),
            begun: Instant::now(),
            is_healthy: true,
        };
        let thread = thread::Builder::new().name("aux-host".to_owned());
        let life = self.life;
        let thread = thread.spawn(move || supervisor.run(life))?;
        let host = AuxHost {
            shared: Arc::clone(&shared),
        };
        Ok((host, HostThread { shared, thread }))
    }
}

/// The host as those see it who have something to tell. No call waits.
#[derive(Clone, Debug)]
pub struct AuxHost {
    shared: Arc<Shared>,
}

impl AuxHost {
    /// Takes what a container brings for the service of this index.
    ///
    /// # Errors
    /// The data is longer than what is kept.
    pub fn application_begins(
        &self,
        service: usize,
        id: ApplicationId,
        user: &Arc<str>,
        data: &[u8],
    ) -> Result<(), DataRefused> {
        let mut state = self.shared.state();
        let taken = state.model.application_begins(service, id, user, data);
        self.shared.changed.notify_all();
        taken
    }

    /// Takes the end of an application, also of one that no service saw.
    pub fn application_ends(&self, id: ApplicationId) {
        self.shared.state().model.application_ends(id);
        self.shared.changed.notify_all();
    }

    /// Takes the beginning of a container.
    pub fn container_begins(&self, facts: ContainerFacts) {
        self.shared.state().model.container_begins(facts);
        self.shared.changed.notify_all();
    }

    /// Takes the end of a container.
    pub fn container_ends(&self, facts: ContainerFacts) {
        self.shared.state().model.container_ends(facts);
        self.shared.changed.notify_all();
    }

    /// Returns the last numbers of the services by their names.
    #[must_use]
    pub fn metrics(&self) -> Vec<(String, f64)> {
        self.shared.state().metrics.clone()
    }

    /// Returns how many lives the host has begun.
    #[must_use]
    pub fn lives(&self) -> u64 {
        self.shared.state().life
    }
}

/// The supervisor's thread.
#[derive(Debug)]
pub struct HostThread {
    shared: Arc<Shared>,
    thread: JoinHandle<()>,
}

impl HostThread {
    /// Stops the services, and ends the host. Not for a task.
    pub fn stop(self) {
        self.shared.state().stops = true;
        self.shared.changed.notify_all();
        if self.thread.join().is_err() {
            tracing::error!("the thread of the host of auxiliary services panicked");
        }
    }
}

struct Supervisor {
    config: HostConfig,
    shared: Arc<Shared>,
    /// Metadata that the node publishes.
    metadata: Metadata,
    watch: Watch,
    /// Folders that the host knows.
    folders: Folders,
    restarts: Restarts,
    begun: Instant,
    is_healthy: bool,
}

impl Supervisor {
    fn run(mut self, first: Life) {
        let mut next = Ok(first);
        loop {
            let error = match next {
                Ok(mut life) => {
                    self.shared.state().model.host_runs();
                    self.restarts.ready(self.begun.elapsed());
                    self.folders = Folders::default();
                    match self.serve(&mut life) {
                        Ok(()) => return life.stop(&self.config),
                        Err(fault) => life.end(fault),
                    }
                }
                Err(error) => error,
            };
            let pause = self.restarts.died(self.begun.elapsed());
            let text = records::error_chain(&error);
            let pause_s = pause.as_secs();
            tracing::error!(
                error = text,
                pause_s,
                "the host of auxiliary services is started again"
            );
            self.judge(&text);
            // A host that is gone learns of nothing, and what runs is told to the next.
            self.shared.state().model.host_ended();
            if self.shared.wait_for_stop(pause) {
                return;
            }
            next = Life::start(&self.config, &self.shared).map(|(life, metadata)| {
                self.compare(&metadata);
                life
            });
        }
    }

    /// Containers have the metadata of the first life in their environment.
    fn compare(&self, metadata: &Metadata) {
        let pairs = self.metadata.iter().zip(metadata);
        for (service, _) in self
            .config
            .services
            .iter()
            .zip(pairs)
            .filter(|(_, (old, new))| old != new)
        {
            tracing::error!(
                service = service.name,
                "an auxiliary service publishes something else than before, such as another port; \
                 containers know what it published first"
            );
        }
    }

    /// Serves a life until the agent stops.
    fn serve(&mut self, life: &mut Life) -> Result<(), HostFault> {
        let mut tick = Instant::now();
        let mut asked: Option<Instant> = None;
        loop {
            if Instant::now() >= tick {
                tick = Instant::now() + TICK;
                self.send_folders(life)?;
                self.judge("");
                self.ask_metrics(life, &mut asked)?;
            }
            let Some(frames) = self.next_frames(tick)? else {
                return Ok(());
            };
            if !frames.is_empty() {
                life.send(&frames, &self.config)?;
            }
        }
    }

    /// Waits for events until this moment, and returns their frames; `None`: the agent stops.
    fn next_frames(&self, until: Instant) -> Result<Option<Vec<u8>>, HostFault> {
        let mut state = self.shared.state();
        loop {
            if state.stops {
                return Ok(None);
            }
            if let Some(closed) = state.closed.take() {
                return Err(fault(closed, None));
            }
            if let Some(answer) = state.answers.pop_front() {
                return Err(out_of_turn(&answer));
            }
            if let Some(service) = state.model.lagging() {
                let service = self.config.services.get(service);
                let name = service.map(|service| service.name.clone());
                return Err(HostFault::Lags(name.unwrap_or_default()));
            }
            let frames = take_frames(&mut state.model);
            let left = until.saturating_duration_since(Instant::now());
            if !frames.is_empty() || left.is_zero() {
                return Ok(Some(frames));
            }
            state = self.shared.wait(state, left);
        }
    }

    fn send_folders(&mut self, life: &mut Life) -> Result<(), HostFault> {
        let folders = (self.watch.folders)();
        if folders != self.folders
            && let Ok(frame) = message::folders(&folders)
        {
            life.send(&frame, &self.config)?;
            self.folders = folders;
        }
        Ok(())
    }

    /// Asks for metrics unless they are awaited, which also shows that the host still reads.
    fn ask_metrics(&self, life: &mut Life, asked: &mut Option<Instant>) -> Result<(), HostFault> {
        {
            let mut state = self.shared.state();
            if state.awaits_metrics {
                let late = asked.is_some_and(|at| at.elapsed() > METRICS_PATIENCE);
                let no_answer = HostFault::NoAnswer {
                    within: METRICS_PATIENCE,
                    during: None,
                };
                return if late { Err(no_answer) } else { Ok(()) };
            }
            state.awaits_metrics = true;
        }
        *asked = Some(Instant::now());
        life.send(&message::metrics(), &self.config)
    }

    /// Tells the health, if it has changed.
    fn judge(&mut self, reason: &str) {
        let is_healthy = !self.restarts.is_unfit(self.begun.elapsed());
        if is_healthy == self.is_healthy {
            return;
        }
        self.is_healthy = is_healthy;
        let classes = self.config.services.iter().map(|service| &*service.class);
        let classes: Vec<_> = classes.collect();
        let report = format!(
            "the host of auxiliary services ({}) does not stay up: {reason}",
            classes.join(", ")
        );
        let report = if is_healthy { String::new() } else { report };
        (self.watch.health)(HostHealth {
            is_healthy,
            report: report.chars().take(REPORT_CHARS_MAX).collect(),
        });
    }
}

/// Takes events out of the model, as frames.
fn take_frames(model: &mut Model) -> Vec<u8> {
    let mut frames = Vec::new();
    while frames.len() < BATCH_BYTES_MAX
        && let Some((service, sequence, event)) = model.next()
    {
        // Data is bounded far below a frame.
        let frame = message::event(service, sequence, &event);
        frames.extend(frame.unwrap_or_default());
    }
    frames
}
