//! A node as a scenario describes it: size, pace, and how often its work fails.

use std::sync::Arc;

use records::{NodeId, Resource};
use sched::ContainerSchedulerConfig;
use sim::Distribution;

/// Configuration of a node.
#[derive(Clone, Debug)]
pub struct NodeConfig {
    /// Id of the node.
    pub id: NodeId,
    /// Capacity of the node.
    pub capacity: Resource,
    /// Configuration of the scheduler.
    pub scheduler: ContainerSchedulerConfig,
    /// Whether containers live through a resync.
    pub keeps_containers_on_resync: bool,
    /// Whether logs are aggregated.
    pub aggregates_logs: bool,
    /// An open directory, in place of those of containers.
    pub directory: Arc<dir_handle::DirHandle>,
}

/// Durations of work on a node, in milliseconds.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// Time to create a process.
    pub launch: Distribution,
    /// Time of a localization.
    pub localize: Distribution,
    /// Time of a freeze or a thaw.
    pub freeze: Distribution,
    /// Time of a commit of the store.
    pub commit: Distribution,
}

/// Failures of work on a node, in parts per million.
#[derive(Clone, Copy, Debug, Default)]
pub struct Failures {
    /// Failures to create a process.
    pub launch: u32,
    /// Failed localizations.
    pub localize: u32,
    /// Freezes and thaws that fail.
    pub freeze: u32,
    /// Crashes of the agent a moment after its answer that a container is started.
    pub after_start: u32,
    /// Crashes of the agent a moment after its answer that a container is stopped.
    pub after_stop: u32,
    /// Killed processes of no container that the kernel lets live on for a while.
    pub stuck: u32,
    /// Virtual time from which agents do not fail any more.
    pub agents_until_ms: u64,
}
