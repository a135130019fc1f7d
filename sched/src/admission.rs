//! Admission to the opportunistic queue, and the excess to shed when the ResourceManager lowers its
//! limit (Hadoop: `OpportunisticContainersQueuePolicy`,
//! `ContainerScheduler.resourceAvailableToQueueOppContainer`).

use crate::action::{ContainerQueuingLimit, RejectReason};
use crate::config::{ContainerSchedulerConfig, OpportunisticContainersQueuePolicy};
use crate::index::Index;
use crate::utilization::Amount;

/// Checks whether an opportunistic container of this size may join the queue.
pub(crate) fn admit(
    config: &ContainerSchedulerConfig,
    amount: Amount,
    index: &Index,
    node: Amount,
) -> Result<(), RejectReason> {
    if index.opportunistic().len() >= config.queue_capacity() {
        return Err(RejectReason::QueueFull);
    }
    if !amount.fits_in(node) {
        return Err(RejectReason::NeverFits);
    }
    match config.queue_policy {
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
