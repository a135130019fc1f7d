//! Series of what each port refuses its peers, read from the counts when scraped.

use std::sync::Arc;

use prometheus::IntCounter;
use refusals::{Reason, Refusals};

use super::family::{Maker, PerPair};
use super::labels::{Label as _, Port};

/// See the help text.
#[derive(Debug)]
pub(super) struct RefusalSeries {
    refusals: PerPair<Port, Reason, IntCounter>,
    /// Counts of the ports, in the order of [`Port::ALL`].
    counts: Vec<Arc<Refusals>>,
}

impl RefusalSeries {
    pub(super) fn new(maker: &Maker<'_>) -> Self {
        Self {
            refusals: maker.counter_pairs(
                "nm_agent_refusals_total",
                "Connections and requests of peers that a port of this node refused.",
            ),
            counts: Port::ALL.iter().map(|_| Arc::default()).collect(),
        }
    }

    pub(super) fn of(&self, port: Port) -> Arc<Refusals> {
        Arc::clone(&self.counts[port.index()])
    }

    pub(super) fn refresh(&self) {
        for (port, counts) in Port::ALL.iter().zip(&self.counts) {
            for reason in Reason::ALL {
                let counter = self.refusals.of(*port, *reason);
                counter.inc_by(counts.of(*reason).saturating_sub(counter.get()));
            }
        }
    }
}
