//! Room of a node that is offered, or held for containers on their way.

use std::collections::BTreeMap;

use records::{ApplicationAttemptId, MonoMillis, Resource};

use super::{OfferId, SizeKey};

/// Room of one offer.
#[derive(Clone, Debug)]
pub(super) struct Held<P> {
    pub(super) to: P,
    pub(super) attempt: ApplicationAttemptId,
    pub(super) size: SizeKey,
    /// Containers that the room is for.
    pub(super) rooms: u32,
    /// Time at which the room is free again.
    until: MonoMillis,
    /// Whether tasks are bound to it.
    pub(super) is_bound: bool,
}

/// Room that offers hold, by their numbers. Each holds room for at least one container, so there
/// are no more than the node has room for.
#[derive(Clone, Debug)]
pub(super) struct HeldRooms<P> {
    rooms: BTreeMap<OfferId, Held<P>>,
    /// Sum of all that is held.
    total: Resource,
}

/// Returns the room of so many containers.
fn sum(size: SizeKey, count: u32) -> Resource {
    Resource::new(
        size.memory_mb.saturating_mul(count.into()),
        size.vcores.saturating_mul(count),
    )
}

impl<P> HeldRooms<P> {
    pub(super) const fn new() -> Self {
        Self {
            rooms: BTreeMap::new(),
            total: Resource::new(0, 0),
        }
    }

    /// Returns the sum of all that is held.
    pub(super) const fn total(&self) -> Resource {
        self.total
    }

    /// Holds the room of an offer until its answer.
    pub(super) fn insert(
        &mut self,
        id: OfferId,
        (to, attempt): (P, ApplicationAttemptId),
        (size, rooms): (SizeKey, u32),
        until: MonoMillis,
    ) {
        let held = Held {
            to,
            attempt,
            size,
            rooms,
            until,
            is_bound: false,
        };
        self.total = self.total.saturating_add(sum(size, rooms));
        self.rooms.insert(id, held);
    }

    /// Returns an offer that has no answer.
    pub(super) fn open(&self, id: OfferId) -> Option<&Held<P>> {
        self.rooms.get(&id).filter(|held| !held.is_bound)
    }

    /// Holds the room of so many of an offer's containers until a time, and frees the rest.
    pub(super) fn bind(&mut self, id: OfferId, bound: u32, until: MonoMillis) {
        let Some(mut held) = self.remove(id) else {
            return;
        };
        held.rooms = held.rooms.min(bound);
        if held.rooms > 0 {
            held.until = until;
            held.is_bound = true;
            self.total = self.total.saturating_add(sum(held.size, held.rooms));
            self.rooms.insert(id, held);
        }
    }

    /// Frees the room of one container of an attempt to which a task was bound, the one that was
    /// offered first. Returns whether there was one.
    pub(super) fn release(&mut self, attempt: ApplicationAttemptId, size: SizeKey) -> bool {
        let is_one = |held: &Held<P>| held.is_bound && held.attempt == attempt && held.size == size;
        let first = self.rooms.iter_mut().find(|(_, held)| is_one(held));
        let Some((id, held)) = first else {
            return false;
        };
        let id = *id;
        held.rooms -= 1;
        if held.rooms == 0 {
            self.rooms.remove(&id);
        }
        self.total = self.total.saturating_sub(sum(size, 1));
        true
    }

    fn remove(&mut self, id: OfferId) -> Option<Held<P>> {
        let held = self.rooms.remove(&id)?;
        self.total = self.total.saturating_sub(sum(held.size, held.rooms));
        Some(held)
    }

    /// Frees what is held for an attempt.
    pub(super) fn forget(&mut self, attempt: ApplicationAttemptId) {
        self.take(|held| held.attempt == attempt);
    }

    /// Frees what was held up to now, and returns it.
    pub(super) fn expire(&mut self, now: MonoMillis) -> Vec<Held<P>> {
        if self.next_deadline().is_none_or(|until| now < until) {
            return Vec::new();
        }
        self.take(|held| held.until <= now)
    }

    fn take(&mut self, is_taken: impl Fn(&Held<P>) -> bool) -> Vec<Held<P>> {
        let taken = self.rooms.iter().filter(|(_, held)| is_taken(held));
        let taken: Vec<OfferId> = taken.map(|(id, _)| *id).collect();
        taken.into_iter().filter_map(|id| self.remove(id)).collect()
    }

    /// Returns the time at which the next room is free again.
    pub(super) fn next_deadline(&self) -> Option<MonoMillis> {
        self.rooms.values().map(|held| held.until).min()
    }
}
