//! No process of a container is left when its node cleans up after it, nor on any node when all
//! applications are over.

use std::collections::BTreeMap;

use records::ContainerId;

use super::Checker;
use crate::finding::{Checked, Finding};
use crate::observation::Observation;

/// The property.
#[derive(Debug, Default)]
pub(super) struct Leftovers {
    running: BTreeMap<ContainerId, usize>,
}

impl Checker for Leftovers {
    fn name(&self) -> &'static str {
        "leftovers"
    }

    fn observe(&mut self, _: u64, observation: &Observation) -> Checked {
        match observation {
            Observation::ProcessStarted { node, id, .. } => {
                self.running.insert(*id, *node);
            }
            Observation::ProcessEnded { id, .. } => {
                self.running.remove(id);
            }
            Observation::Done { node, id } if self.running.get(id) == Some(node) => {
                return Err(Finding::of(*id, "is cleaned up after, and has a process"));
            }
            _ => {}
        }
        Ok(())
    }

    fn end(&mut self, _: u64) -> Checked {
        match self.running.first_key_value() {
            Some((id, node)) => Err(Finding::of(*id, format!("runs on node {node} at the end"))),
            None => Ok(()),
        }
    }
}
