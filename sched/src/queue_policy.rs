//! Admission to the opportunistic queue, and the excess to shed when the ResourceManager lowers its
//! limit (Hadoop: `OpportunisticContainersQueuePolicy`,
//! `ContainerScheduler.resourceAvailableToQueueOppContainer`).

use crate::action::{ContainerQueuingLimit, RejectReason};
use crate::config::{ContainerSchedulerConfig, QUEUE_LENGTH_MAX};
use crate::index::Index;
use crate::node_load::LoadComparator;
use crate::utilization::Amount;

/// Bound of the opportunistic queue (`yarn.nodemanager.opportunistic-containers-queue-policy`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OpportunisticContainersQueuePolicy {
    /// Hadoop's `BY_QUEUE_LEN`: the number of waiting containers is bounded.
    #[default]
    ByQueueLen,
    /// Hadoop's `BY_RESOURCES`: running and waiting containers together must fit the node.
    ByResources,
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
        self.queue_policy == OpportunisticContainersQueuePolicy::ByQueueLen
            && self.queue_length_max == 0
    }

    /// Checks whether an opportunistic container of this size may join the queue.
    pub(crate) fn admit(
        &self,
        amount: Amount,
        index: &Index,
        node: Amount,
    ) -> Result<(), RejectReason> {
        if index.opportunistic().len() >= self.queue_capacity() {
            return Err(RejectReason::QueueFull);
        }
        if !amount.fits_in(node) {
            return Err(RejectReason::NeverFits);
        }
        match self.queue_policy {
            OpportunisticContainersQueuePolicy::ByQueueLen => Ok(()),
            OpportunisticContainersQueuePolicy::ByResources => {
                let promised =
                    index.allocated() + index.guaranteed().total() + index.opportunistic().total();
                if (promised + amount).fits_in(node) {
                    Ok(())
                } else {
                    Err(RejectReason::QueueFull)
                }
            }
        }
    }
}

impl ContainerQueuingLimit {
    /// Returns how many of `unstarted` waiting opportunistic containers exceed the limit of their
    /// number.
    pub(crate) fn excess(&self, unstarted: usize) -> usize {
        self.max_queue_length
            .map_or(0, |limit| unstarted.saturating_sub(limit))
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

    #[test]
    fn no_limit_sheds_nobody_and_a_limit_of_zero_sheds_all() {
        let limit = |max_queue_length| ContainerQueuingLimit {
            max_queue_length,
            max_queue_wait_time_ms: Some(0),
        };
        assert_eq!(limit(None).excess(7), 0);
        assert_eq!(limit(Some(0)).excess(7), 7);
        assert_eq!(limit(Some(5)).excess(7), 2);
        assert_eq!(limit(Some(9)).excess(7), 0);
    }
}
