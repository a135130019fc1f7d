//! What looks at the node's health: the checks of the directories and the health scripts.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use health_script::{Scripts, Verdict};
use localize::{DeletionService, DiskChecker, DiskChecks, NodeDirs};
use node_core::HealthEvent;
use tokio::sync::{mpsc, oneshot};

use super::error::{AgentError, starting};
use crate::config::Config;

/// Threads that look at the node's health.
pub(super) struct HealthThreads {
    /// `None`: directories are not checked.
    disks: Option<DiskChecker>,
    scripts: Scripts,
}

/// First verdicts of the scripts that the registration waits for, by their indexes.
pub(super) type FirstVerdicts = Vec<(usize, oneshot::Receiver<Verdict>)>;

impl HealthThreads {
    /// Starts the threads, which tell the core what they find. Scripts run in this environment.
    /// With `run-before-startup`, their first verdicts are returned instead.
    pub(super) fn start(
        config: &Config,
        environment: BTreeMap<String, String>,
        (dirs, checks, deletion): (NodeDirs, DiskChecks, DeletionService),
        health: mpsc::Sender<HealthEvent>,
    ) -> Result<(Self, FirstVerdicts), AgentError> {
        let telling = health.clone();
        // Waits while the channel is full; fails once the core has ended.
        let tell = move |event| drop(telling.blocking_send(event));
        let disks = match &config.health.disks {
            Some(disks) => {
                let interval = Duration::from_millis(disks.interval_ms);
                let wall_clock = crate::clock::wall_now;
                let tell = move |report| tell(HealthEvent::Disks(report));
                let checker =
                    DiskChecker::start(dirs, checks, interval, deletion, wall_clock, tell);
                Some(checker.map_err(starting("the thread that checks the directories"))?)
            }
            None => None,
        };
        let scripts = config
            .health
            .scripts
            .iter()
            .filter(|script| script.can_run());
        let scripts: Vec<_> = scripts.cloned().collect();
        let awaited = if config.health.run_before_startup {
            scripts.len()
        } else {
            0
        };
        let (senders, verdicts): (Vec<_>, Vec<_>) =
            (0..awaited).map(|_| oneshot::channel()).unzip();
        let senders: Vec<_> = senders
            .into_iter()
            .map(|sender| Mutex::new(Some(sender)))
            .collect();
        let listener = move |index: usize, verdict: Verdict| {
            let first = senders.get(index).and_then(take);
            match first {
                // Nobody waits once the agent stops.
                Some(first) => drop(first.send(verdict)),
                None => drop(health.blocking_send(HealthEvent::Script { index, verdict })),
            }
        };
        let scripts = Scripts::start(scripts, environment, listener)
            .map_err(starting("the threads of the health scripts"))?;
        let verdicts = verdicts.into_iter().enumerate().collect();
        Ok((Self { disks, scripts }, verdicts))
    }

    /// Ends the threads and the script that each may be running.
    pub(super) fn stop(self) {
        if let Some(disks) = self.disks {
            disks.stop();
        }
        self.scripts.stop();
    }
}

fn take<T>(once: &Mutex<Option<T>>) -> Option<T> {
    let mut once = once
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    once.take()
}
