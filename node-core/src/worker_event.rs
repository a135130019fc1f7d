//! Results that workers report to the core.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use container_runtime::isolation::IsolationEvent;
use container_runtime::launch::LaunchEvent;
use container_runtime::monitor::MemoryExceeded;
use localize::LocalizedResource;
use log_aggregation::Outcome;
use records::{ContainerId, NodeId};
use sched::{OfferAnswer, OfferId};

use super::{HealthEvent, LocalizeFor};

/// Result that a worker reports to the core.
#[derive(Debug)]
pub enum WorkerEvent {
    /// The resources of a container are on the local disk.
    Localized {
        /// Id of the container.
        id: ContainerId,
        /// Use that the resources were asked for.
        purpose: LocalizeFor,
        /// Time from the order to the localizer until its answer.
        took: Duration,
        /// Paths and sizes of the resources.
        resources: Vec<LocalizedResource>,
    },
    /// A resource of a container cannot be localized.
    LocalizationFailed {
        /// Id of the container.
        id: ContainerId,
        /// Use that the resource was asked for.
        purpose: LocalizeFor,
        /// Time from the order to the localizer until its answer.
        took: Duration,
        /// Reason, for the AM and people.
        diagnostics: String,
    },
    /// Resources of a container were gone from their paths, and were localized again elsewhere.
    Moved {
        /// Id of the container.
        id: ContainerId,
        /// Earlier and present paths.
        paths: BTreeMap<PathBuf, PathBuf>,
    },
    /// A launch was not queued; no other event follows.
    LaunchRefused {
        /// Id of the container.
        id: ContainerId,
        /// Reason, for the AM.
        diagnostics: String,
    },
    /// A proxy has answered an offer of room, or has not in time: then it wants none.
    OfferAnswered {
        /// Node of the proxy.
        from: NodeId,
        /// Offer that it answers.
        id: OfferId,
        /// Its answer.
        answer: OfferAnswer,
    },
    /// Event of the launcher.
    Launch(LaunchEvent),
    /// Event of the owner of the cgroups.
    Isolation(IsolationEvent),
    /// Finding of the monitor, at most one for each container.
    MemoryExceeded(MemoryExceeded),
    /// An upload of logs has ended.
    LogsUploaded(Outcome),
    /// A part of the node's health was looked at.
    Health(HealthEvent),
    /// The record of the scheduler's events must begin anew: a file is full, or entries are lost.
    RecordAnew,
    /// A signal was sent to a container that has a process.
    Signalled {
        /// Id of the container.
        id: ContainerId,
        /// Text for the container's diagnostics.
        diagnostics: String,
    },
}
