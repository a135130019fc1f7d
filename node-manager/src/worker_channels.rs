//! Channels that carry the results of worker threads to the core's task.
//!
//! | channel | sent by | capacity | when full |
//! |---|---|---|---|
//! | `launches` | launch threads, exit watches | [`EVENTS_MAX`] | launches and exit reports wait |
//! | `isolation` | owner of the cgroups | [`EVENTS_MAX`] | events wait in its outbox |
//! | `exceeded` | the monitor's thread | [`EVENTS_MAX`] | sampling waits |
//! | `logs` | threads that upload logs | [`EVENTS_MAX`] | uploads wait |
//! | `health` | the thread that checks directories, health scripts | [`EVENTS_MAX`] | checks wait |
//! | `answers` | answers of proxies to offers of room | [`EVENTS_MAX`] | answers wait |
//! | `localizations` | localizer, core's task | unbounded | |
//!
//! No deadlock can arise: the core's task drains all channels and never waits for a worker.
//! The queues in the other direction either refuse work (launches) or hold at most a few entries
//! for each container (localizations, cgroups, deletion), of which the scheduler bounds the number.
//! The owner of the cgroups does not wait either, since watches of containers wait for it; its
//! outbox holds a few events for each frozen container.
//!
//! Localization results differ from the others because the localizer reports some of them on the
//! core's own task, where waiting would be for ever. There is one for each localization that the
//! core orders, and at most one more for each launch, so their number is bounded by that of the
//! containers.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use container_runtime::isolation::IsolationEvent;
use container_runtime::launch::LaunchEvent;
use container_runtime::monitor::MemoryExceeded;
use localize::{LocalizeError, LocalizedResource};
use log_aggregation::Outcome;
use node_core::{HealthEvent, LocalizeFor, WorkerEvent};
use records::ContainerId;
use tokio::sync::mpsc;

/// Capacity of each channel whose senders can wait: a burst of ends of a full node, in some hundred
/// kilobytes.
pub const EVENTS_MAX: usize = 1024;

/// Sending ends, one for each kind of worker.
#[derive(Clone, Debug)]
pub struct WorkerSenders {
    /// Sender of the launcher.
    pub launches: mpsc::Sender<LaunchEvent>,
    /// Sender of the owner of the cgroups.
    pub isolation: mpsc::Sender<IsolationEvent>,
    /// Sender of the monitor.
    pub exceeded: mpsc::Sender<MemoryExceeded>,
    /// Sender of the threads that upload logs.
    pub logs: mpsc::Sender<Outcome>,
    /// Sender of what looks at the node's health.
    pub health: mpsc::Sender<HealthEvent>,
    /// Sender of the answers of proxies to offers.
    pub answers: mpsc::Sender<WorkerEvent>,
    /// Sender of localization results.
    pub localizations: LocalizationSender,
}

/// Receiving ends, for the core's task.
#[derive(Debug)]
pub struct WorkerEvents {
    launches: mpsc::Receiver<LaunchEvent>,
    isolation: mpsc::Receiver<IsolationEvent>,
    exceeded: mpsc::Receiver<MemoryExceeded>,
    logs: mpsc::Receiver<Outcome>,
    health: mpsc::Receiver<HealthEvent>,
    answers: mpsc::Receiver<WorkerEvent>,
    localizations: mpsc::UnboundedReceiver<WorkerEvent>,
}

/// Creates the channels.
#[must_use]
pub fn channels() -> (WorkerSenders, WorkerEvents) {
    let (launches, launches_in) = mpsc::channel(EVENTS_MAX);
    let (isolation, isolation_in) = mpsc::channel(EVENTS_MAX);
    let (exceeded, exceeded_in) = mpsc::channel(EVENTS_MAX);
    let (logs, logs_in) = mpsc::channel(EVENTS_MAX);
    let (health, health_in) = mpsc::channel(EVENTS_MAX);
    let (answers, answers_in) = mpsc::channel(EVENTS_MAX);
    let (localizations, localizations_in) = mpsc::unbounded_channel();
    let senders = WorkerSenders {
        launches,
        isolation,
        exceeded,
        logs,
        health,
        answers,
        localizations: LocalizationSender(localizations),
    };
    let events = WorkerEvents {
        launches: launches_in,
        isolation: isolation_in,
        exceeded: exceeded_in,
        logs: logs_in,
        health: health_in,
        answers: answers_in,
        localizations: localizations_in,
    };
    (senders, events)
}

impl WorkerEvents {
    /// Returns the next event of any worker; events of one kind keep their order. Never returns
    /// once all senders are gone. Cancel-safe.
    pub async fn next(&mut self) -> WorkerEvent {
        tokio::select! {
            Some(event) = self.launches.recv() => WorkerEvent::Launch(event),
            Some(event) = self.isolation.recv() => WorkerEvent::Isolation(event),
            Some(exceeded) = self.exceeded.recv() => WorkerEvent::MemoryExceeded(exceeded),
            Some(outcome) = self.logs.recv() => WorkerEvent::LogsUploaded(outcome),
            Some(event) = self.health.recv() => WorkerEvent::Health(event),
            Some(event) = self.answers.recv() => event,
            Some(event) = self.localizations.recv() => event,
            else => std::future::pending().await,
        }
    }

    /// Returns the next event that has been sent already, if there is one; events of one kind keep
    /// their order.
    pub fn take(&mut self) -> Option<WorkerEvent> {
        let launch = self.launches.try_recv().map(WorkerEvent::Launch);
        launch
            .or_else(|_| self.isolation.try_recv().map(WorkerEvent::Isolation))
            .or_else(|_| self.exceeded.try_recv().map(WorkerEvent::MemoryExceeded))
            .or_else(|_| self.logs.try_recv().map(WorkerEvent::LogsUploaded))
            .or_else(|_| self.health.try_recv().map(WorkerEvent::Health))
            .or_else(|_| self.answers.try_recv())
            .or_else(|_| self.localizations.try_recv())
            .ok()
    }
}

/// Sender of localization results.
#[derive(Clone, Debug)]
pub struct LocalizationSender(mpsc::UnboundedSender<WorkerEvent>);

impl LocalizationSender {
    /// Sends the result of a container's localization, which took this long. Does not wait; without
    /// effect once the core has ended.
    pub fn send(
        &self,
        id: ContainerId,
        purpose: LocalizeFor,
        took: Duration,
        result: Result<Vec<LocalizedResource>, LocalizeError>,
    ) {
        drop(self.0.send(match result {
            Ok(resources) => WorkerEvent::Localized {
                id,
                purpose,
                took,
                resources,
            },
            Err(error) => WorkerEvent::LocalizationFailed {
                id,
                purpose,
                took,
                diagnostics: error.diagnostics(),
            },
        }));
    }

    /// Sends the earlier and the present paths of resources of a container. Does not wait; without
    /// effect once the core has ended.
    pub fn moved(&self, id: ContainerId, paths: BTreeMap<PathBuf, PathBuf>) {
        drop(self.0.send(WorkerEvent::Moved { id, paths }));
    }
}

#[cfg(test)]
mod tests {
    use test_support::ids::container;

    use super::*;

    #[tokio::test]
    async fn events_of_one_worker_keep_their_order() {
        let (senders, mut events) = channels();
        for n in 1..=3 {
            let event = LaunchEvent::ProcessesGone(container(n));
            senders.launches.send(event).await.unwrap();
        }
        for n in 1..=3 {
            let event = events.next().await;
            assert!(
                matches!(event, WorkerEvent::Launch(LaunchEvent::ProcessesGone(id)) if id == container(n)),
                "{event:?}"
            );
        }
    }
}
