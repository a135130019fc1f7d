//! A container that ignores SIGTERM gets SIGKILL after the configured delay.

use std::collections::{BTreeMap, BTreeSet};

use records::ContainerId;

use super::{Checker, Facts};
use crate::finding::{Checked, Finding};
use crate::observation::Observation;

/// Tolerance in milliseconds.
const SLACK_MS: u64 = 100;

/// The property.
#[derive(Debug)]
pub(super) struct BoundedKill {
    delay_ms: u64,
    /// Containers with SIGTERM and without SIGKILL, by the time until which that must come.
    deadlines: BTreeSet<(u64, ContainerId)>,
    /// The same by container, with its node.
    ordered: BTreeMap<ContainerId, (u64, usize)>,
}

impl BoundedKill {
    pub(super) const fn new(facts: &Facts) -> Self {
        Self {
            delay_ms: facts.sigkill_delay_ms,
            deadlines: BTreeSet::new(),
            ordered: BTreeMap::new(),
        }
    }

    fn done(&mut self, id: ContainerId) {
        if let Some((deadline, _)) = self.ordered.remove(&id) {
            self.deadlines.remove(&(deadline, id));
        }
    }
}

impl Checker for BoundedKill {
    fn name(&self) -> &'static str {
        "bounded-kill"
    }

    fn observe(&mut self, at_ms: u64, observation: &Observation) -> Checked {
        match observation {
            Observation::EndOrdered {
                node,
                id,
                by_force: false,
                reaches: true,
            } if !self.ordered.contains_key(id) => {
                let deadline = at_ms + self.delay_ms + SLACK_MS;
                self.ordered.insert(*id, (deadline, *node));
                self.deadlines.insert((deadline, *id));
            }
            Observation::EndOrdered {
                id, by_force: true, ..
            }
            | Observation::ProcessEnded { id, .. }
            | Observation::Done { id, .. } => self.done(*id),
            Observation::AgentGone { node, .. } => {
                let ordered = self.ordered.iter();
                let of_node = ordered.filter(|(_, (_, on))| on == node);
                let ids: Vec<ContainerId> = of_node.map(|(id, _)| *id).collect();
                ids.into_iter().for_each(|id| self.done(id));
            }
            _ => {}
        }
        match self.deadlines.first() {
            Some((deadline, id)) if *deadline < at_ms => {
                Err(Finding::of(*id, "got SIGTERM, lives, and got no SIGKILL"))
            }
            _ => Ok(()),
        }
    }
}
