//! What a node has acknowledged survives its agent: a container whose start was accepted is known
//! to the next agent until its AM has learned of its end, and a stop that was accepted is carried
//! out.

use std::collections::{BTreeMap, BTreeSet};

use records::ContainerId;

use super::Checker;
use crate::finding::{Checked, Finding};
use crate::observation::{Known, Observation};

/// Longest time from the acknowledgement of a stop, or from the next start of the agent, to the
/// end of the container's processes, unless a signal ends them: milliseconds.
const STOP_MS: u64 = 5_000;

/// The property.
#[derive(Debug, Default)]
pub(super) struct Acknowledged {
    /// Containers that were given out and that no node may forget yet. An answer that waited for a
    /// slow disk promises nothing any more.
    given: BTreeSet<ContainerId>,
    /// Containers that each node must know.
    promised: BTreeMap<usize, BTreeSet<ContainerId>>,
    /// Containers to stop, with their nodes and the time from which the agent could; `None`: no
    /// agent runs.
    to_stop: BTreeMap<ContainerId, (usize, Option<u64>)>,
}

impl Acknowledged {
    fn started(&mut self, at_ms: u64, node: usize, known: &Known) -> Checked {
        for (of, since) in self.to_stop.values_mut() {
            if *of == node {
                *since = Some(at_ms);
            }
        }
        let mut promised = self.promised.entry(node).or_default().iter();
        match promised.find(|id| !known.all.contains(id)) {
            Some(id) => Err(Finding::of(
                *id,
                "its start was accepted, and it is forgotten",
            )),
            None => Ok(()),
        }
    }

    fn ended(&mut self, at_ms: u64, id: ContainerId, by_itself: bool) -> Checked {
        match self.to_stop.remove(&id) {
            Some((_, Some(since))) if by_itself && at_ms > since + STOP_MS => {
                Err(Finding::of(id, "its stop was accepted, and it ran on"))
            }
            _ => Ok(()),
        }
    }
}

impl Checker for Acknowledged {
    fn name(&self) -> &'static str {
        "acknowledged"
    }

    fn observe(&mut self, at_ms: u64, observation: &Observation) -> Checked {
        match observation {
            Observation::Allocated { id, .. } | Observation::MasterLaunched { id, .. } => {
                self.given.insert(*id);
            }
            Observation::StartAcknowledged { node, id } if self.given.contains(id) => {
                self.promised.entry(*node).or_default().insert(*id);
            }
            Observation::StopAcknowledged { node, id } => {
                self.to_stop.entry(*id).or_insert((*node, Some(at_ms)));
            }
            Observation::ProcessEnded { id, by_itself, .. } => {
                return self.ended(at_ms, *id, *by_itself);
            }
            Observation::Forgettable { node, id } => {
                self.given.remove(id);
                self.promised.entry(*node).or_default().remove(id);
            }
            Observation::ApplicationOver { node, id } => {
                self.given
                    .retain(|container| container.application_id() != *id);
                let promised = self.promised.entry(*node).or_default();
                promised.retain(|container| container.application_id() != *id);
            }
            Observation::AgentGone { node, .. } => {
                let here = self.to_stop.values_mut().filter(|(of, _)| of == node);
                here.for_each(|(_, since)| *since = None);
            }
            Observation::AgentStarted { node, known } => return self.started(at_ms, *node, known),
            // Its nodes are told to forget what it does not know.
            Observation::ResourceManagerRestarted => {
                self.given.clear();
                self.promised.clear();
            }
            _ => {}
        }
        Ok(())
    }
}
