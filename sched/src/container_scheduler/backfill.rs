//! Starts of containers behind one that does not fit, under orders that know expected runs.
//!
//! A container may pass the one whose turn it is if that one is not expected to start later for it:
//! because its run is expected to be over when the node has room for the other, or because both fit
//! then (EASY backfilling: Lifka 1995). What is expected may be wrong. So the time that was
//! expected when the container was first passed is kept, and nobody passes it after that.
//!
//! Ends of guaranteed containers are not foreseen: one that only such an end lets start is not
//! passed.

use records::{ContainerId, MonoMillis};

use super::{ContainerScheduler, Turn};
use crate::action::{Note, PassReason};
use crate::queue::Waiting;
use crate::queue_order::QueuePlace;
use crate::run_times::{WHOLE, remaining_ms};
use crate::utilization::Amount;

/// Most containers behind the one that does not fit that are looked at.
const CANDIDATES_MAX: usize = 16;

/// Most running containers whose ends are foreseen. With more nobody is passed: a decision must
/// not take longer than some microseconds.
const RUNNING_MAX: usize = 64;

/// Container that may start before the one whose turn it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Backfill {
    pub(super) id: ContainerId,
    /// Container whose turn it is.
    pub(super) next: ContainerId,
    /// Milliseconds until the node is expected to have room for that one.
    pub(super) room_in_ms: u64,
}

/// Expected room for a container.
#[derive(Clone, Copy, Debug)]
struct Room {
    in_ms: u64,
    /// Allocations that are still held then.
    held: Amount,
}

impl ContainerScheduler {
    /// Returns a container that may start before the one at `place`, which does not fit.
    pub(super) fn backfill(
        &self,
        next: Waiting,
        place: QueuePlace,
        now: MonoMillis,
    ) -> Option<Backfill> {
        if !self.config.queue_order.uses_lengths() || self.run_times.is_empty() {
            return None;
        }
        let behind = self.index.opportunistic().unstarted_behind(place);
        let mut fitting = behind
            .take(CANDIDATES_MAX)
            .map(|(_, waiting)| waiting)
            .filter(|waiting| self.has_room(waiting.amount))
            .peekable();
        fitting.peek()?;
        let passed_until = self.containers.get(&next.id)?.passed_until;
        if passed_until.is_some_and(|until| until <= now) {
            return None;
        }
        let room = self.expected_room(next.amount, now)?;
        let room_in_ms = passed_until.map_or(room.in_ms, |until| until.since(now).min(room.in_ms));
        let delays_nobody = |waiting: &Waiting| {
            let beside = room.held + next.amount + waiting.amount;
            self.longest_run_ms(waiting.id) <= room_in_ms || beside.fits_in(self.node_amount())
        };
        fitting.find(delays_nobody).map(|waiting| Backfill {
            id: waiting.id,
            next: next.id,
            room_in_ms,
        })
    }

    /// Returns when the node is expected to have room for a container that does not fit; `None`: it
    /// does not, as far as ends are foreseen.
    fn expected_room(&self, amount: Amount, now: MonoMillis) -> Option<Room> {
        let mut ends = Vec::new();
        for (id, amount) in self.index.evictable_newest_first() {
            if ends.len() == RUNNING_MAX {
                return None;
            }
            let container = self.containers.get(&id)?;
            let known = self.expected_runs(&container.spec);
            ends.push((
                remaining_ms(known, container.ran_ms(now), WHOLE / 2),
                amount,
            ));
        }
        ends.sort_by_key(|(ends_in_ms, _)| *ends_in_ms);
        let mut room = Room {
            in_ms: 0,
            held: self.index.kept(),
        };
        for (ends_in_ms, ended) in ends {
            if (room.held + amount).fits_in(self.node_amount()) {
                return Some(room);
            }
            room.in_ms = ends_in_ms;
            room.held -= ended;
        }
        (room.held + amount)
            .fits_in(self.node_amount())
            .then_some(room)
    }

    /// Returns the longest known run, in milliseconds, of containers like this one.
    fn longest_run_ms(&self, id: ContainerId) -> u64 {
        let container = self.containers.get(&id);
        let known = container.map(|container| self.expected_runs(&container.spec));
        known.and_then(<[u64]>::last).copied().unwrap_or(u64::MAX)
    }

    /// Starts a container before the one whose turn it is.
    pub(super) fn start_backfill(&mut self, backfill: Backfill, turn: &mut Turn<'_>) {
        let Backfill {
            id,
            next,
            room_in_ms,
        } = backfill;
        if let Some(container) = self.containers.get_mut(&next) {
            container
                .passed_until
                .get_or_insert(turn.now.mono + room_in_ms);
        }
        let reason = PassReason::Backfill { room_in_ms };
        turn.note(Note::Passed {
            id,
            passed: next,
            reason,
        });
        self.start_or_resume(id, turn);
    }
}
