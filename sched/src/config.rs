//! Configuration of the container scheduler, and the bounds of everything in it that grows.

use serde::{Deserialize, Serialize};

use crate::node_load::LoadComparator;
use crate::queue_order::{QUEUE_BOUND_FACTOR_DEFAULT, QueueOrder};
use crate::utilization::VmemPmemRatio;
use crate::victims::VictimsOrder;

/// Most opportunistic containers admitted to the queue, whatever is configured. A waiting container
/// keeps its launch context (about 8 KiB) in memory, so a full queue costs about 80 MiB.
pub const QUEUE_LENGTH_MAX: usize = 10_000;

/// Most containers known at a time, including finished ones that the ResourceManager has not
/// acknowledged. A full opportunistic queue takes half; a node that runs more than the other half
/// has run out of processes long before.
pub const CONTAINERS_MAX: usize = 2 * QUEUE_LENGTH_MAX;

/// Hadoop's default of `yarn.nodemanager.container-diagnostics-maximum-size`.
pub const DIAGNOSTICS_CHARS_DEFAULT: usize = 10_000;

/// Default limit for the time that a container stays frozen. MapReduce fails a task that has not
/// reported for 600 s (`mapreduce.task.timeout`): half of that leaves a thawed task time to report.
pub const PAUSE_MAX_MS_DEFAULT: u64 = 300_000;

const _: () = assert!(
    QUEUE_LENGTH_MAX < CONTAINERS_MAX,
    "a full queue must leave room for containers that run"
);

/// Bound of the opportunistic queue (`yarn.nodemanager.opportunistic-containers-queue-policy`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum OpportunisticContainersQueuePolicy {
    /// Hadoop's `BY_QUEUE_LEN`: the number of waiting containers is bounded.
    #[default]
    ByQueueLen,
    /// Hadoop's `BY_RESOURCES`: running and waiting containers together must fit the node.
    ByResources,
}

/// Slice of the configuration that the scheduler needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContainerSchedulerConfig {
    /// `yarn.nodemanager.opportunistic-containers-queue-policy`: bound of the queue.
    pub queue_policy: OpportunisticContainersQueuePolicy,
    /// `yarn.nodemanager.opportunistic-containers-max-queue-length`, clamped to
    /// [`QUEUE_LENGTH_MAX`]. 0 under `BY_QUEUE_LEN` admits no opportunistic container and starts
    /// guaranteed ones without checking for free resources.
    pub queue_length_max: usize,
    /// `yarn.nodemanager.agent.queue.order`: which of the waiting opportunistic containers starts
    /// first.
    #[serde(default, skip_serializing_if = "is_default")]
    pub queue_order: QueueOrder,
    /// `yarn.nodemanager.agent.queue.bound-factor`: how many times its expected run a container may
    /// wait for others that came later. Without effect under `fifo`.
    #[serde(
        default = "queue_bound_factor_default",
        skip_serializing_if = "is_default_bound_factor"
    )]
    pub queue_bound_factor: u32,
    /// `yarn.resourcemanager.nm-container-queuing.load-comparator`, the ResourceManager's setting:
    /// decides what [`ContainerSchedulerConfig::reported_queue_capacity`] must say.
    pub load_comparator: LoadComparator,
    /// `yarn.nodemanager.agent.victims.order`: which running opportunistic containers make room for
    /// guaranteed ones.
    #[serde(default, skip_serializing_if = "is_default")]
    pub victims_order: VictimsOrder,
    /// `yarn.nodemanager.opportunistic-containers-use-pause-for-preemption`: freeze victims instead
    /// of killing them.
    pub use_pause_for_preemption: bool,
    /// Milliseconds that an opportunistic container may stay frozen before it is killed.
    pub pause_max_ms: u64,
    /// Most memory, in mebibytes, of running containers (by allocation) and frozen ones (by memory
    /// held) together. Raised to what the node offers if it is less. Frozen containers are killed
    /// to stay below it; no start waits for it.
    pub memory_ceiling_mb: u64,
    /// `yarn.nodemanager.vmem-pmem-ratio`, or `None` when `yarn.nodemanager.vmem-check-enabled` is
    /// false.
    pub vmem_check: Option<VmemPmemRatio>,
    /// `yarn.nodemanager.sleep-delay-before-sigkill.ms`: milliseconds from SIGTERM to SIGKILL. 0
    /// (Hadoop: 0 or less) sends SIGKILL at once.
    pub sigkill_delay_ms: u64,
    /// `yarn.nodemanager.container-retry-minimum-interval-ms`: least milliseconds from a failure to
    /// the next start of the container.
    pub retry_minimum_interval_ms: u64,
    /// `yarn.nodemanager.container-diagnostics-maximum-size`, in characters.
    pub diagnostics_max_chars: usize,
    /// Offset of local time from UTC at the start, in seconds, positive east;
    /// [`crate::Event::UtcOffset`] changes it.
    pub utc_offset_s: i32,
}

/// Part of the configuration that may change while the scheduler runs. The fields are those of
/// [`ContainerSchedulerConfig`].
///
/// A shorter queue admits nobody until it has shrunk, and sheds nobody. A container that is frozen
/// keeps the time at which its pause ends, one that waits for its next launch the time of that.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuntimeSettings {
    /// Bound of the queue.
    pub queue_policy: OpportunisticContainersQueuePolicy,
    /// Opportunistic containers that may wait under `BY_QUEUE_LEN`.
    pub queue_length_max: usize,
    /// Order of the queue. What waits is sorted by it in the same decision.
    #[serde(default, skip_serializing_if = "is_default")]
    pub queue_order: QueueOrder,
    /// Expected runs that a container may wait for others that came later.
    #[serde(
        default = "queue_bound_factor_default",
        skip_serializing_if = "is_default_bound_factor"
    )]
    pub queue_bound_factor: u32,
    /// Choice of the running opportunistic containers that make room.
    #[serde(default, skip_serializing_if = "is_default")]
    pub victims_order: VictimsOrder,
    /// Milliseconds that an opportunistic container may stay frozen.
    pub pause_max_ms: u64,
    /// Least milliseconds from a failure to the next start of the container.
    pub retry_minimum_interval_ms: u64,
    /// Bound of a container's diagnostics, in characters.
    pub diagnostics_max_chars: usize,
}

/// Returns whether a setting that records of events did not have at first is Hadoop's choice: such
/// records keep their form.
fn is_default<T: Default + PartialEq>(setting: &T) -> bool {
    *setting == T::default()
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
const fn is_default_bound_factor(factor: &u32) -> bool {
    *factor == QUEUE_BOUND_FACTOR_DEFAULT
}

const fn queue_bound_factor_default() -> u32 {
    QUEUE_BOUND_FACTOR_DEFAULT
}

impl ContainerSchedulerConfig {
    /// Returns the most opportunistic containers that may wait.
    #[must_use]
    pub fn queue_capacity(&self) -> usize {
        match self.queue_policy {
            OpportunisticContainersQueuePolicy::ByQueueLen => {
                self.queue_length_max.min(QUEUE_LENGTH_MAX)
            }
            OpportunisticContainersQueuePolicy::ByResources => QUEUE_LENGTH_MAX,
        }
    }

    /// Returns the capacity to report to the ResourceManager.
    ///
    /// `BY_RESOURCES` bounds the queue by resources, and no number says that to every comparator.
    /// `QUEUE_LENGTH_THEN_RESOURCES` takes 0, which Hadoop reports, for "place here what fits the
    /// free resources, and nothing in the queue". With any larger number it sends containers to a
    /// full node, which rejects them. `QUEUE_LENGTH` takes 0 for "no place at all" (Hadoop:
    /// `ClusterNode.compareAndIncrementAllocation`), so it and `QUEUE_WAIT_TIME` get the bound.
    #[must_use]
    pub fn reported_queue_capacity(&self) -> usize {
        match (self.queue_policy, self.load_comparator) {
            (
                OpportunisticContainersQueuePolicy::ByResources,
                LoadComparator::QueueLengthThenResources,
            ) => 0,
            (
                OpportunisticContainersQueuePolicy::ByResources,
                LoadComparator::QueueLength | LoadComparator::QueueWaitTime,
            )
            | (OpportunisticContainersQueuePolicy::ByQueueLen, _) => self.queue_capacity(),
        }
    }

    /// Returns whether guaranteed containers start without a check for free resources. On a node
    /// that takes no opportunistic containers the ResourceManager's allocation suffices, as in
    /// Hadoop before there were any.
    #[must_use]
    pub fn forces_guaranteed(&self) -> bool {
        self.queue_capacity() == 0
    }

    /// Returns the part that may change while the scheduler runs.
    #[must_use]
    pub const fn runtime_settings(&self) -> RuntimeSettings {
        RuntimeSettings {
            queue_policy: self.queue_policy,
            queue_length_max: self.queue_length_max,
            queue_order: self.queue_order,
            queue_bound_factor: self.queue_bound_factor,
            victims_order: self.victims_order,
            pause_max_ms: self.pause_max_ms,
            retry_minimum_interval_ms: self.retry_minimum_interval_ms,
            diagnostics_max_chars: self.diagnostics_max_chars,
        }
    }

    /// Takes new settings in place of the old ones.
    pub(crate) const fn change(&mut self, settings: RuntimeSettings) {
        let RuntimeSettings {
            queue_policy,
            queue_length_max,
            queue_order,
            queue_bound_factor,
            victims_order,
            pause_max_ms,
            retry_minimum_interval_ms,
            diagnostics_max_chars,
        } = settings;
        self.queue_policy = queue_policy;
        self.queue_length_max = queue_length_max;
        self.queue_order = queue_order;
        self.queue_bound_factor = queue_bound_factor;
        self.victims_order = victims_order;
        self.pause_max_ms = pause_max_ms;
        self.retry_minimum_interval_ms = retry_minimum_interval_ms;
        self.diagnostics_max_chars = diagnostics_max_chars;
    }
}

impl Default for ContainerSchedulerConfig {
    /// Returns Hadoop's defaults, in UTC.
    fn default() -> Self {
        Self {
            queue_policy: OpportunisticContainersQueuePolicy::ByQueueLen,
            queue_length_max: 0,
            queue_order: QueueOrder::Fifo,
            queue_bound_factor: QUEUE_BOUND_FACTOR_DEFAULT,
            load_comparator: LoadComparator::default(),
            victims_order: VictimsOrder::Newest,
            use_pause_for_preemption: false,
            pause_max_ms: PAUSE_MAX_MS_DEFAULT,
            memory_ceiling_mb: 0,
            vmem_check: Some(VmemPmemRatio::DEFAULT),
            sigkill_delay_ms: 250,
            retry_minimum_interval_ms: 1_000,
            diagnostics_max_chars: DIAGNOSTICS_CHARS_DEFAULT,
            utc_offset_s: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_configured_length_is_bounded() {
        let config = ContainerSchedulerConfig {
            queue_length_max: usize::MAX,
            ..ContainerSchedulerConfig::default()
        };
        assert_eq!(config.queue_capacity(), QUEUE_LENGTH_MAX);
    }

    #[test]
    fn only_a_node_without_a_queue_forces_guaranteed_containers() {
        let by_length = |queue_length_max| ContainerSchedulerConfig {
            queue_length_max,
            ..ContainerSchedulerConfig::default()
        };
        assert!(by_length(0).forces_guaranteed());
        assert!(!by_length(1).forces_guaranteed());
        let by_resources = ContainerSchedulerConfig {
            queue_policy: OpportunisticContainersQueuePolicy::ByResources,
            ..by_length(0)
        };
        assert!(!by_resources.forces_guaranteed());
    }
}
