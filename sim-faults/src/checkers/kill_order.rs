//! The opportunistic container that started last gives way first: none gives way while another
//! that started later, and would free at least as much, stays.

use std::collections::BTreeMap;

use records::{ContainerId, ExecutionType, Resource};
use sched::Note;

use super::Checker;
use crate::observation::{Known, Observation};
use crate::watch::{Checked, Finding};

/// The property.
#[derive(Debug, Default)]
pub(super) struct KillOrder {
    /// Opportunistic containers that hold an allocation and were not told to end, by node, in the
    /// order of their starts.
    started: BTreeMap<usize, Vec<ContainerId>>,
    /// Processes that exist.
    processes: BTreeMap<ContainerId, Process>,
    /// Number of processes so far.
    begun: u64,
}

#[derive(Debug)]
struct Process {
    /// Size of its container.
    size: Resource,
    /// Number of the process.
    number: u64,
}

impl KillOrder {
    fn leave(&mut self, node: usize, id: ContainerId) {
        let started = self.started.entry(node).or_default();
        started.retain(|other| *other != id);
    }

    fn evicted(&mut self, node: usize, id: ContainerId) -> Checked {
        let started = self.started.entry(node).or_default();
        let place = started.iter().position(|other| *other == id);
        if let (Some(place), Some(freed)) = (place, self.processes.get(&id)) {
            let mut later = started[place + 1..].iter();
            let stays = later.find(|other| {
                let other = self.processes.get(*other);
                other.is_some_and(|other| freed.size.fits_in(other.size))
            });
            if let Some(stays) = stays {
                let what = format!("gives way although {stays} started later and is as large");
                return Err(Finding::of(id, what));
            }
        }
        self.leave(node, id);
        Ok(())
    }

    /// Compares the order of starts after a restart with that before it. Starts that are on no
    /// record are known by their processes, and threads make those in an order of their own: two
    /// containers are in the wrong order if neither decisions nor processes have it.
    fn restarted(&mut self, node: usize, known: &Known) -> Checked {
        let started = known.started.iter();
        let started = started.filter(|(_, of)| *of == ExecutionType::Opportunistic);
        let after: Vec<ContainerId> = started.map(|(id, _)| *id).collect();
        let before = self.started.entry(node).or_default();
        let place = |id: &ContainerId| before.iter().position(|old| old == id);
        let number = |id: &ContainerId| self.processes.get(id).map(|process| process.number);
        for (count, later) in after.iter().enumerate() {
            let is_wrong = |earlier: &&ContainerId| {
                let decided = place(earlier).zip(place(later));
                let made = number(earlier).zip(number(later));
                decided.is_some_and(|(earlier, later)| earlier > later)
                    && made.is_none_or(|(earlier, later)| earlier > later)
            };
            if let Some(earlier) = after[..count].iter().find(is_wrong) {
                let what = format!("{before:?} had started, and it is {after:?} after a restart");
                return Err(Finding::of(*earlier, what).and(*later));
            }
        }
        *before = after;
        Ok(())
    }
}

impl Checker for KillOrder {
    fn name(&self) -> &'static str {
        "kill-order"
    }

    fn observe(&mut self, _: u64, observation: &Observation) -> Checked {
        match observation {
            Observation::Noted { node, note } => match note {
                Note::Started {
                    id,
                    execution_type: ExecutionType::Opportunistic,
                    ..
                } => {
                    self.leave(*node, *id);
                    self.started.entry(*node).or_default().push(*id);
                }
                Note::Evicted { id, .. } => return self.evicted(*node, *id),
                Note::Promoted(id) => self.leave(*node, *id),
                _ => {}
            },
            Observation::ProcessStarted { id, resource, .. } => {
                self.begun += 1;
                let process = Process {
                    size: *resource,
                    number: self.begun,
                };
                self.processes.insert(*id, process);
            }
            Observation::ProcessEnded { node, id, .. } => {
                self.processes.remove(id);
                self.leave(*node, *id);
            }
            Observation::EndOrdered { node, id, .. } | Observation::Done { node, id } => {
                self.leave(*node, *id);
            }
            Observation::AgentStarted { node, known } => return self.restarted(*node, known),
            _ => {}
        }
        Ok(())
    }
}
