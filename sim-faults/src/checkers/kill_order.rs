//! The opportunistic container that started last gives way first: none gives way while another
//! that started later, and would free at least as much, stays.

use std::collections::BTreeMap;

use records::{ContainerId, ExecutionType, Resource};
use sched::Note;

use super::Checker;
use crate::finding::{Checked, Finding};
use crate::observation::{Known, Observation};

/// Milliseconds before the end of an agent in which a start may be on no record: one commit of a
/// slow disk is under way, and the next, with this start, has not ended.
const UNRECORDED_MS: u64 = 20_000;

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
    /// Times and numbers of the starts of containers that have a process, thaws included.
    decisions: BTreeMap<ContainerId, Vec<(u64, u64)>>,
    /// Number of starts so far.
    decided: u64,
    /// Time at which each node's agent ended last.
    gone: BTreeMap<usize, u64>,
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

    /// Returns the numbers of a container's starts that records may have told when its agent ended.
    fn recorded(&self, id: &ContainerId, gone_ms: u64) -> impl Iterator<Item = u64> {
        let starts = self.decisions.get(id).map_or(&[][..], Vec::as_slice);
        let since = gone_ms.saturating_sub(UNRECORDED_MS);
        let certain = starts.iter().rposition(|(at_ms, _)| *at_ms < since);
        starts[certain.unwrap_or(0)..]
            .iter()
            .map(|(_, number)| *number)
    }

    /// Compares the order of starts after a restart with that before it. First starts that are on
    /// no record are known by their processes, and threads make those in an order of their own; of
    /// a thaw that is on no record nothing is known. Two containers are in the wrong order if
    /// neither decisions have it, as far as records tell them, nor processes.
    fn restarted(&mut self, node: usize, known: &Known) -> Checked {
        let started = known.started.iter();
        let started = started.filter(|(_, of)| *of == ExecutionType::Opportunistic);
        let after: Vec<ContainerId> = started.map(|(id, _)| *id).collect();
        let gone_ms = self.gone.get(&node).copied().unwrap_or(0);
        let before = self.started.get(&node).map_or(&[][..], Vec::as_slice);
        let place = |id: &ContainerId| before.iter().position(|old| old == id);
        let number = |id: &ContainerId| self.processes.get(id).map(|process| process.number);
        for (count, later) in after.iter().enumerate() {
            let is_wrong = |earlier: &&ContainerId| {
                let decided = place(earlier).zip(place(later));
                let made = number(earlier).zip(number(later));
                decided.is_some_and(|(earlier, later)| earlier > later)
                    && self.recorded(earlier, gone_ms).min() > self.recorded(later, gone_ms).max()
                    && made.is_none_or(|(earlier, later)| earlier > later)
            };
            if let Some(earlier) = after[..count].iter().find(is_wrong) {
                let what = format!("{before:?} had started, and it is {after:?} after a restart");
                return Err(Finding::of(*earlier, what).and(*later));
            }
        }
        self.started.insert(node, after);
        Ok(())
    }
}

impl Checker for KillOrder {
    fn name(&self) -> &'static str {
        "kill-order"
    }

    fn observe(&mut self, at_ms: u64, observation: &Observation) -> Checked {
        match observation {
            Observation::Noted { node, note } => match note {
                Note::Started {
                    id,
                    execution_type: ExecutionType::Opportunistic,
                    ..
                } => {
                    self.leave(*node, *id);
                    self.started.entry(*node).or_default().push(*id);
                    self.decided += 1;
                    let starts = self.decisions.entry(*id).or_default();
                    starts.push((at_ms, self.decided));
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
                self.decisions.remove(id);
                self.leave(*node, *id);
            }
            Observation::EndOrdered { node, id, .. } | Observation::Done { node, id } => {
                self.leave(*node, *id);
            }
            Observation::AgentGone { node, .. } => {
                self.gone.insert(*node, at_ms);
            }
            Observation::AgentStarted { node, known } => return self.restarted(*node, known),
            _ => {}
        }
        Ok(())
    }
}
