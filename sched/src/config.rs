//! What an operator decides about scheduling, and the bounds of everything here that grows.

use crate::queue_policy::OpportunisticContainersQueuePolicy;
use crate::utilization::VmemPmemRatio;

/// Most opportunistic containers that are admitted to the queue, whatever is configured. A waiting container keeps its
/// launch context (about 8 KiB) in memory, so a full queue costs about 80 MiB.
pub const QUEUE_LENGTH_MAX: usize = 10_000;

/// Most containers known at a time, finished ones that the ResourceManager has not acknowledged included. A full
/// opportunistic queue takes half; a node that runs more than the other half has run out of processes long before.
pub const CONTAINERS_MAX: usize = 2 * QUEUE_LENGTH_MAX;

/// Hadoop's default of `yarn.nodemanager.container-diagnostics-maximum-size`.
pub const DIAGNOSTICS_CHARS_DEFAULT: usize = 10_000;

/// How long a container may stay frozen unless the operator says otherwise. MapReduce gives a task up that says nothing
/// for 600 s (`mapreduce.task.timeout`): half of that leaves a thawed task time to report.
pub const PAUSE_MAX_MS_DEFAULT: u64 = 300_000;

const _: () = assert!(
    QUEUE_LENGTH_MAX < CONTAINERS_MAX,
    "a full queue must leave room for containers that run"
);

/// What the scheduler needs of the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContainerSchedulerConfig {
    /// `yarn.nodemanager.opportunistic-containers-queue-policy`.
    pub queue_policy: OpportunisticContainersQueuePolicy,
    /// `yarn.nodemanager.opportunistic-containers-max-queue-length`; more than [`QUEUE_LENGTH_MAX`] counts as that.
    /// 0 under `BY_QUEUE_LEN` admits no opportunistic container and starts guaranteed ones without asking for room.
    pub queue_length_max: usize,
    /// `yarn.nodemanager.opportunistic-containers-use-pause-for-preemption`: freeze victims instead of killing them.
    pub use_pause_for_preemption: bool,
    /// Milliseconds that an opportunistic container may stay frozen; then it is killed.
    pub pause_max_ms: u64,
    /// Mebibytes that running containers, by what they were given, and frozen ones, by what they hold, may take together.
    /// Less than what the node offers counts as that. Frozen containers are killed to keep to it; no start waits for it.
    pub memory_ceiling_mb: u64,
    /// `yarn.nodemanager.vmem-pmem-ratio`, or `None` when `yarn.nodemanager.vmem-check-enabled` is false.
    pub vmem_check: Option<VmemPmemRatio>,
    /// `yarn.nodemanager.sleep-delay-before-sigkill.ms`: milliseconds from SIGTERM to SIGKILL. 0 (Hadoop: 0 or less)
    /// kills at once.
    pub sigkill_delay_ms: u64,
    /// `yarn.nodemanager.container-diagnostics-maximum-size`, in characters.
    pub diagnostics_max_chars: usize,
    /// Seconds by which local time is ahead of UTC at the start; [`crate::Event::UtcOffset`] changes it.
    pub utc_offset_s: i32,
}

impl Default for ContainerSchedulerConfig {
    /// Hadoop's defaults, in UTC.
    fn default() -> Self {
        Self {
            queue_policy: OpportunisticContainersQueuePolicy::ByQueueLen,
            queue_length_max: 0,
            use_pause_for_preemption: false,
            pause_max_ms: PAUSE_MAX_MS_DEFAULT,
            memory_ceiling_mb: 0,
            vmem_check: Some(VmemPmemRatio::DEFAULT),
            sigkill_delay_ms: 250,
            diagnostics_max_chars: DIAGNOSTICS_CHARS_DEFAULT,
            utc_offset_s: 0,
        }
    }
}
