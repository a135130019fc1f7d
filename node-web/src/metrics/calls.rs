//! Counters and histograms of calls: to the RM, and from AMs to this node.

use std::time::Duration;

use node_view::outcome::CallOutcome;
use prometheus::{Histogram, IntCounter};

use super::family::{Maker, PerLabel, PerPair};
use super::labels::RpcMethod;

/// Seconds. A round trip near by takes a millisecond, the RPC time-out is the worst.
const CALL_BUCKETS: [f64; 11] = [
    0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 30.0,
];

/// Calls of a method that this node has answered since the agent started.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Answered {
    /// Number of calls.
    pub count: u64,
    /// Calls that were done.
    pub done: u64,
    /// How long they took together, from the whole request until the answer is handed over.
    pub seconds: f64,
}

/// See the help texts.
#[derive(Debug)]
pub(super) struct CallSeries {
    heartbeats: PerLabel<CallOutcome, IntCounter>,
    heartbeat_seconds: Histogram,
    registrations: PerLabel<CallOutcome, IntCounter>,
    rpc_calls: PerPair<RpcMethod, CallOutcome, IntCounter>,
    rpc_seconds: PerLabel<RpcMethod, Histogram>,
}

impl CallSeries {
    pub(super) fn new(maker: &Maker<'_>) -> Self {
        Self {
            heartbeats: maker.counters("nm_agent_heartbeats_total", "Heartbeats sent to the RM."),
            heartbeat_seconds: maker.histogram(
                "nm_agent_heartbeat_seconds",
                "From sending a heartbeat until its answer, error or time-out.",
                &CALL_BUCKETS,
            ),
            registrations: maker.counters(
                "nm_agent_registrations_total",
                "Registrations with the RM that were tried.",
            ),
            rpc_calls: maker.counter_pairs(
                "nm_agent_rpc_calls_total",
                "Calls of ContainerManagementProtocol that this node answered.",
            ),
            rpc_seconds: maker.histograms(
                "nm_agent_rpc_seconds",
                "From a call's whole request until its answer is handed over.",
                &CALL_BUCKETS,
            ),
        }
    }

    pub(super) fn observe_heartbeat(&self, outcome: CallOutcome, took: Duration) {
        self.heartbeats.of(outcome).inc();
        self.heartbeat_seconds.observe(took.as_secs_f64());
    }

    pub(super) fn count_registration(&self, outcome: CallOutcome) {
        self.registrations.of(outcome).inc();
    }

    pub(super) fn answered(&self, method: RpcMethod) -> Answered {
        let took = self.rpc_seconds.of(method);
        Answered {
            count: took.get_sample_count(),
            done: self.rpc_calls.of(method, CallOutcome::Ok).get(),
            seconds: took.get_sample_sum(),
        }
    }

    pub(super) fn observe_rpc(&self, method: RpcMethod, outcome: CallOutcome, took: Duration) {
        self.rpc_calls.of(method, outcome).inc();
        self.rpc_seconds.of(method).observe(took.as_secs_f64());
    }
}
