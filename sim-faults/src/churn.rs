//! A long run in which applications come and faults happen to the end, and what the nodes hold
//! meanwhile: nothing of it may grow for ever.

use sim::plot::Series;

use crate::node::{Holds, Node};
use crate::scenario::{Scenario, Size};
use crate::world::{Outcome, run_and_look};

/// Virtual milliseconds between two samples.
pub const SAMPLE_MS: u64 = 60_000;

/// Growth from the second to the last quarter of a run that its randomness explains, in percent.
pub const GROWTH_PERCENT: f64 = 25.0;

/// The same as a number, for quantities that are near zero.
pub const GROWTH_SLACK: f64 = 5.0;

/// Totals of all nodes over time.
#[derive(Clone, Debug)]
pub struct Churn {
    /// Result of the run.
    pub outcome: Outcome,
    /// Quantities, sampled each [`SAMPLE_MS`].
    pub series: Vec<Series>,
}

impl Churn {
    /// Returns the quantities that grow.
    #[must_use]
    pub fn growing(&self) -> Vec<&Series> {
        let grows = |series: &&Series| !series.is_flat(GROWTH_PERCENT, GROWTH_SLACK);
        self.series.iter().filter(grows).collect()
    }
}

/// Quantity of one node.
type Read = fn(&Holds) -> usize;

/// Quantities by name.
const QUANTITIES: [(&str, Read); 6] = [
    ("size of the stores, bytes", |holds| holds.store_bytes),
    ("records in the stores", |holds| holds.records),
    ("containers in the agents' memory", |holds| holds.containers),
    ("containers that wait", |holds| holds.waiting),
    ("applications in the agents' memory", |holds| {
        holds.applications
    }),
    ("processes in the keepers' memory", |holds| holds.remembered),
];

/// Runs the churn of a seed to its end or to the first violation.
///
/// # Panics
/// As [`crate::run`] does.
#[must_use]
pub fn churn(seed: u64, size: Size) -> Churn {
    let mut series: Vec<Series> = QUANTITIES.map(|(name, _)| Series::new(name)).into();
    let mut next_ms = 0;
    let until_ms = size.seconds * 1_000;
    let look = |now: u64, nodes: &[Node]| {
        while now >= next_ms && next_ms <= until_ms {
            next_ms += SAMPLE_MS;
            let holds: Vec<Holds> = nodes.iter().map(Node::holds).collect();
            for (series, (_, read)) in series.iter_mut().zip(QUANTITIES) {
                let sum = holds.iter().map(read).sum::<usize>();
                series
                    .values
                    .push(f64::from(u32::try_from(sum).unwrap_or(u32::MAX)));
            }
        }
    };
    let outcome = run_and_look(&Scenario::churn(seed, size), look);
    Churn { outcome, series }
}
