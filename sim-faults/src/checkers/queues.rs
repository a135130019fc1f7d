//! A model of a node's two queues, from the notes of its scheduler.

use std::collections::BTreeSet;

use records::{ContainerId, ExecutionType};
use sched::Note;

use crate::finding::{Checked, Finding};
use crate::observation::{Known, Observation};

/// Waiting containers of a node, first come first.
#[derive(Debug, Default)]
pub(super) struct Queues {
    guaranteed: Vec<ContainerId>,
    opportunistic: Vec<ContainerId>,
    /// Containers that have started before, and wait only while frozen.
    started: BTreeSet<ContainerId>,
}

impl Queues {
    /// Follows a fact of the node.
    ///
    /// # Errors
    /// A container starts before one that waits longer.
    pub(super) fn observe(&mut self, observation: &Observation) -> Checked {
        match observation {
            Observation::Noted { note, .. } => self.note(note),
            Observation::Done { id, .. } => {
                self.remove(*id);
                self.started.remove(id);
                Ok(())
            }
            // It waits in its queue once more.
            Observation::Restarts { id, .. } => {
                self.started.remove(id);
                Ok(())
            }
            Observation::AgentStarted { known, .. } => self.restarted(known),
            _ => Ok(()),
        }
    }

    /// Returns the number of opportunistic containers that wait and have not started.
    pub(super) fn opportunistic(&self) -> usize {
        self.opportunistic.len()
    }

    const fn of(&mut self, execution_type: ExecutionType) -> &mut Vec<ContainerId> {
        match execution_type {
            ExecutionType::Guaranteed => &mut self.guaranteed,
            ExecutionType::Opportunistic => &mut self.opportunistic,
        }
    }

    fn remove(&mut self, id: ContainerId) {
        self.guaranteed.retain(|waiting| *waiting != id);
        self.opportunistic.retain(|waiting| *waiting != id);
    }

    fn note(&mut self, note: &Note) -> Checked {
        match note {
            Note::Queued {
                id, execution_type, ..
            } if !self.started.contains(id) => {
                self.remove(*id);
                self.of(*execution_type).push(*id);
            }
            Note::Started {
                id, resumed: true, ..
            } => {
                self.remove(*id);
                self.started.insert(*id);
            }
            Note::Started {
                id, execution_type, ..
            } => {
                let first = self.of(*execution_type).first().copied();
                if let Some(first) = first.filter(|first| first != id) {
                    return Err(
                        Finding::of(*id, format!("starts although {first} is before it"))
                            .and(first),
                    );
                }
                self.remove(*id);
                self.started.insert(*id);
            }
            Note::Shed { id, .. }
            | Note::Rejected { id, .. }
            | Note::Promoted(id)
            | Note::Demoted(id) => self.remove(*id),
            _ => {}
        }
        Ok(())
    }

    /// Compares the queues after a restart with those before it. Containers that are not in the
    /// queue any more join it again later.
    fn restarted(&mut self, known: &Known) -> Checked {
        for execution_type in [ExecutionType::Guaranteed, ExecutionType::Opportunistic] {
            let waiting = known.waiting.iter();
            let after: Vec<ContainerId> = waiting
                .filter(|(_, of)| *of == execution_type)
                .map(|(id, _)| *id)
                .collect();
            let before = self.of(execution_type);
            let places = after
                .iter()
                .filter_map(|id| before.iter().position(|old| old == id));
            if !places.is_sorted() {
                let what = format!("the queue was {before:?} and is {after:?} after a restart");
                return Err(Finding::of(after[0], what));
            }
            *before = after;
        }
        self.started.clone_from(&known.begun);
        Ok(())
    }
}
