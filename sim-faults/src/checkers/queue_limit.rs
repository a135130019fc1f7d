//! A node obeys the ResourceManager's limit on its queue as soon as it has read it: with the answer
//! of one heartbeat.

use std::collections::BTreeMap;

use super::Checker;
use super::queues::Queues;
use crate::finding::{Checked, Finding};
use crate::observation::Observation;

/// The property.
#[derive(Debug, Default)]
pub(super) struct QueueLimit {
    nodes: BTreeMap<usize, Queues>,
}

impl Checker for QueueLimit {
    fn name(&self) -> &'static str {
        "queue-limit"
    }

    fn observe(&mut self, _: u64, observation: &Observation) -> Checked {
        let Some(node) = observation.node() else {
            return Ok(());
        };
        let queues = self.nodes.entry(node).or_default();
        // Their order is the subject of another checker.
        let _order = queues.observe(observation);
        match observation {
            Observation::HeartbeatHandled {
                limit: Some(limit), ..
            } if queues.opportunistic() > *limit => {
                let queued = queues.opportunistic();
                Err(Finding {
                    what: format!("node {node}: {queued} containers wait after a limit of {limit}"),
                    containers: Vec::new(),
                    node: Some(node),
                })
            }
            _ => Ok(()),
        }
    }
}
