//! Containers whose processes run together never take more than their node offers. Frozen ones do
//! not count.

use std::collections::BTreeMap;

use records::{ContainerId, Resource};

use super::{Checker, Facts};
use crate::finding::{Checked, Finding};
use crate::observation::Observation;

/// The property.
#[derive(Debug)]
pub(super) struct Overcommit {
    capacity: Resource,
    /// Processes that run, by node.
    running: Vec<BTreeMap<ContainerId, Resource>>,
    /// Frozen containers.
    frozen: Vec<BTreeMap<ContainerId, Resource>>,
}

impl Overcommit {
    pub(super) fn new(facts: &Facts) -> Self {
        Self {
            capacity: facts.capacity,
            running: vec![BTreeMap::new(); facts.nodes],
            frozen: vec![BTreeMap::new(); facts.nodes],
        }
    }

    fn check(&self, node: usize, id: ContainerId) -> Checked {
        let none = Resource::new(0, 0);
        let running = self.running[node].values();
        let taken = running.fold(none, |sum, resource| sum.saturating_add(*resource));
        if taken.fits_in(self.capacity) {
            return Ok(());
        }
        let what = format!(
            "its node {node} has {}, and its containers take {taken}",
            self.capacity
        );
        Err(Finding {
            node: Some(node),
            ..Finding::of(id, what)
        })
    }
}

impl Checker for Overcommit {
    fn name(&self) -> &'static str {
        "overcommit"
    }

    fn observe(&mut self, _: u64, observation: &Observation) -> Checked {
        match observation {
            Observation::ProcessStarted { node, id, resource } => {
                self.running[*node].insert(*id, *resource);
                return self.check(*node, *id);
            }
            Observation::ProcessEnded { node, id, .. } => {
                self.running[*node].remove(id);
                self.frozen[*node].remove(id);
            }
            Observation::Frozen {
                node,
                id,
                is_frozen,
            } => {
                let (from, to) = if *is_frozen {
                    (&mut self.running[*node], &mut self.frozen[*node])
                } else {
                    (&mut self.frozen[*node], &mut self.running[*node])
                };
                if let Some(resource) = from.remove(id) {
                    to.insert(*id, resource);
                }
            }
            _ => {}
        }
        Ok(())
    }
}
