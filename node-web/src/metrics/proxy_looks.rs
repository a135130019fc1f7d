//! Series of the AMRMProxy's looks at nodes.

use amrm_proxy::observe::LookNumbers;
use node_view::outcome::CallOutcome;
use prometheus::{Histogram, IntCounter};

use super::family::{Maker, PerLabel};

/// Seconds that a call waits for its looks: 20 ms at most.
const LOOK_BUCKETS: [f64; 7] = [0.000_5, 0.001, 0.002, 0.003, 0.005, 0.01, 0.02];

/// See the help texts.
#[derive(Debug)]
pub(super) struct LookSeries {
    looks: PerLabel<CallOutcome, IntCounter>,
    seconds: Histogram,
    held_back: IntCounter,
    unseen: IntCounter,
}

impl LookSeries {
    pub(super) fn new(maker: &Maker<'_>) -> Self {
        Self {
            looks: maker.counters(
                "nm_agent_amrmproxy_looks_total",
                "Nodes asked for their load before opportunistic containers were placed.",
            ),
            seconds: maker.histogram(
                "nm_agent_amrmproxy_look_seconds",
                "Time that a call of an ApplicationMaster waited for the looks at nodes.",
                &LOOK_BUCKETS,
            ),
            held_back: maker.counter(
                "nm_agent_amrmproxy_held_back_containers_total",
                "Containers left to a later call because no node that was seen has room, each time.",
            ),
            unseen: maker.counter(
                "nm_agent_amrmproxy_unseen_containers_total",
                "Containers placed by looks of which no look reached a node.",
            ),
        }
    }

    pub(super) fn observe(&self, numbers: &LookNumbers) {
        let LookNumbers {
            asked,
            answered,
            held_back,
            unseen,
            took,
        } = *numbers;
        self.looks.of(CallOutcome::Ok).inc_by(answered.into());
        let failed = asked.saturating_sub(answered);
        self.looks.of(CallOutcome::Error).inc_by(failed.into());
        if asked > 0 {
            self.seconds.observe(took.as_secs_f64());
        }
        self.held_back.inc_by(held_back.into());
        self.unseen.inc_by(unseen.into());
    }
}
