//! Waiting containers start in the order in which they joined the queue of their type, also after a
//! restart of the agent. Frozen containers, which are thawed before others start, are not in the
//! queue.

use std::collections::BTreeMap;

use super::Checker;
use super::queues::Queues;
use crate::finding::Checked;
use crate::observation::Observation;

/// The property.
#[derive(Debug, Default)]
pub(super) struct Fifo {
    nodes: BTreeMap<usize, Queues>,
}

impl Checker for Fifo {
    fn name(&self) -> &'static str {
        "fifo"
    }

    fn observe(&mut self, _: u64, observation: &Observation) -> Checked {
        let Some(node) = observation.node() else {
            return Ok(());
        };
        self.nodes.entry(node).or_default().observe(observation)
    }
}
