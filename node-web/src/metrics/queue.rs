//! Gauges of the opportunistic queue: how long it may be, and how long one more would wait in it.

use prometheus::{Gauge, IntGauge};

use super::family::Maker;
use crate::snapshot::NodeSnapshot;

/// See the help texts.
#[derive(Debug)]
pub(super) struct QueueGauges {
    queue_capacity: IntGauge,
    estimated_wait_seconds: Gauge,
    queue_limit: Gauge,
    queue_wait_limit_seconds: Gauge,
}

impl QueueGauges {
    pub(super) fn new(maker: &Maker<'_>) -> Self {
        Self {
            queue_capacity: maker.gauge(
                "nm_agent_queue_capacity_containers",
                "Opportunistic containers that may wait, by this node's configuration.",
            ),
            estimated_wait_seconds: maker.float_gauge(
                "nm_agent_queue_wait_estimate_seconds",
                "Wait of one more opportunistic container as last told to the RM; NaN if none would be taken.",
            ),
            queue_limit: maker.float_gauge(
                "nm_agent_queue_limit_containers",
                "Opportunistic containers that may wait, by the RM; +Inf without a limit.",
            ),
            queue_wait_limit_seconds: maker.float_gauge(
                "nm_agent_queue_wait_limit_seconds",
                "Estimated wait that the RM allows; +Inf without a limit.",
            ),
        }
    }

    pub(super) fn set(&self, node: &NodeSnapshot) {
        self.queue_capacity
            .set(i64::from(node.opportunistic.opport_queue_capacity));
        self.estimated_wait_seconds.set(
            node.opportunistic
                .estimated_queue_wait_ms
                .map_or(f64::NAN, |millis| f64::from(millis) / 1000.0),
        );
        let limit = node.queuing_limit.as_ref();
        self.queue_limit.set(
            limit
                .and_then(|limit| limit.max_queue_length)
                .map_or(f64::INFINITY, |length| length as f64),
        );
        self.queue_wait_limit_seconds.set(
            limit
                .and_then(|limit| limit.max_queue_wait_time_ms)
                .map_or(f64::INFINITY, |millis| millis as f64 / 1000.0),
        );
    }
}
