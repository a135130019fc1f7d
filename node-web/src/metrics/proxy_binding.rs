//! Series of late binding.

use amrm_proxy::observe::BindNumbers;
use prometheus::{Histogram, IntCounter};

use super::family::Maker;

/// Seconds that a call waits for the first offers: 3 ms at most.
const WAIT_BUCKETS: [f64; 6] = [0.000_2, 0.000_5, 0.001, 0.002, 0.003, 0.005];

/// Series of the attempts on this node. See the help texts.
#[derive(Debug)]
pub(super) struct BindingSeries {
    placed: IntCounter,
    seconds: Histogram,
}

impl BindingSeries {
    pub(super) fn new(maker: &Maker<'_>) -> Self {
        Self {
            placed: maker.counter(
                "nm_agent_amrmproxy_bound_containers_total",
                "Containers given to ApplicationMasters on nodes that had offered room for them.",
            ),
            seconds: maker.histogram(
                "nm_agent_amrmproxy_bind_seconds",
                "Time that a call of an ApplicationMaster waited for offers after it had reserved.",
                &WAIT_BUCKETS,
            ),
        }
    }

    pub(super) fn observe(&self, numbers: &BindNumbers) {
        let BindNumbers {
            reserved,
            placed,
            took,
        } = *numbers;
        self.placed.inc_by(placed.into());
        if reserved {
            self.seconds.observe(took.as_secs_f64());
        }
    }
}

/// Series of the offers of this node. See the help texts.
#[derive(Debug)]
pub(super) struct OfferSeries {
    offers: IntCounter,
    rooms: IntCounter,
    bound: IntCounter,
}

impl OfferSeries {
    pub(super) fn new(maker: &Maker<'_>) -> Self {
        Self {
            offers: maker.counter(
                "nm_agent_offers_total",
                "Offers of room to proxies that had reserved.",
            ),
            rooms: maker.counter(
                "nm_agent_offered_containers_total",
                "Containers that there was room for in these offers.",
            ),
            bound: maker.counter(
                "nm_agent_bound_containers_total",
                "Containers of these that proxies have bound tasks to.",
            ),
        }
    }

    pub(super) fn offered(&self, rooms: u32) {
        self.offers.inc();
        self.rooms.inc_by(rooms.into());
    }

    pub(super) fn answered(&self, bound: u32) {
        self.bound.inc_by(bound.into());
    }
}
