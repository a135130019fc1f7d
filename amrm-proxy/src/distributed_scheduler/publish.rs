//! Publishes a scheduler's gauges beside the numbers of its attempt.

use std::sync::Arc;

use super::DistributedScheduler;
use super::gauges::Gauges;
use crate::attempts::PublishedNumbers;
use crate::interceptor::Performer;

/// Performer of a scheduler.
#[derive(Debug)]
pub(crate) struct GaugePublisher(pub(crate) Arc<PublishedNumbers>);

impl DistributedScheduler {
    pub(super) fn gauges(&self) -> Gauges {
        Gauges {
            containers_outstanding: self.allocator.asks().containers(),
            nodes_at: self.allocator.nodes_received(),
            containers_live: u64::try_from(self.live.len()).unwrap_or(u64::MAX),
        }
    }
}

impl Performer<DistributedScheduler> for GaugePublisher {
    fn perform(&mut self, gauges: Gauges) {
        self.0.change(|numbers| numbers.gauges = gauges);
    }
}
