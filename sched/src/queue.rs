//! Queue of one execution type: frozen containers first, in the order of arrival, then those that
//! have not started, in the order in force.
//!
//! Frozen containers go first although they joined later than some others: they hold memory, may
//! stay frozen for a limited time only, and lose their work if they are not resumed in time. Hadoop
//! appends them, and its queue never gets as far as a frozen container. One that does not fit may
//! be passed (`container_scheduler::room`).

use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Add, Bound};

use records::{ApplicationAttemptId, ApplicationId, ContainerId};

use crate::queue_order::QueuePlace;
use crate::utilization::Amount;

/// Waiting container and its size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Waiting {
    pub(crate) id: ContainerId,
    pub(crate) amount: Amount,
}

/// Queue of waiting containers. Entries are keyed by place, so that any of them can be removed
/// without a search.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Queue {
    entries: BTreeMap<QueuePlace, Waiting>,
    /// Memory held, in mebibytes, by place, of the frozen containers.
    paused: BTreeMap<QueuePlace, u64>,
    /// Places of the containers that have not started yet.
    unstarted: BTreeSet<QueuePlace>,
    /// Unstarted containers with an expected run; none in the order of arrival, which has no use
    /// for it.
    ranked: Ranked,
    total: Amount,
    frozen_mb: u128,
}

/// Containers whose place was made with an expected run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Ranked {
    by_attempt: BTreeSet<(ApplicationAttemptId, QueuePlace)>,
    /// Places by their arrivals.
    by_arrival: BTreeMap<u64, QueuePlace>,
    work: Work,
}

/// Work that waits: the sum of size × expected run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Work {
    memory_mb_ms: u128,
    vcores_ms: u128,
}

impl Add for Work {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            memory_mb_ms: self.memory_mb_ms + other.memory_mb_ms,
            vcores_ms: self.vcores_ms + other.vcores_ms,
        }
    }
}

impl Work {
    /// Adds the run of a container.
    pub(crate) fn count(&mut self, amount: Amount, expected_ms: u64) {
        self.memory_mb_ms += amount.memory_mb() * u128::from(expected_ms);
        self.vcores_ms += u128::from(amount.vcores()) * u128::from(expected_ms);
    }

    fn subtract(&mut self, amount: Amount, expected_ms: u64) {
        self.memory_mb_ms -= amount.memory_mb() * u128::from(expected_ms);
        self.vcores_ms -= u128::from(amount.vcores()) * u128::from(expected_ms);
    }

    /// Returns the milliseconds that a node of this size needs for the work at least.
    pub(crate) fn takes_ms(self, node: Amount) -> u64 {
        let memory_ms = self.memory_mb_ms.checked_div(node.memory_mb());
        let vcores_ms = self.vcores_ms.checked_div(u128::from(node.vcores()));
        let ms = memory_ms.unwrap_or(0).max(vcores_ms.unwrap_or(0));
        u64::try_from(ms).unwrap_or(u64::MAX)
    }
}

impl Queue {
    /// Adds a container at its place; `frozen_mb` is the memory that it holds if it is frozen.
    pub(crate) fn insert(&mut self, place: QueuePlace, waiting: Waiting, frozen_mb: Option<u64>) {
        self.total += waiting.amount;
        if let Some(held_mb) = frozen_mb {
            self.frozen_mb += u128::from(held_mb);
            self.paused.insert(place, held_mb);
        } else {
            self.unstarted.insert(place);
            if place.is_ranked() {
                let ranked = &mut self.ranked;
                ranked.by_attempt.insert((waiting.id.attempt, place));
                ranked.by_arrival.insert(place.arrival(), place);
                ranked.work.count(waiting.amount, place.expected_ms());
            }
        }
        let before = self.entries.insert(place, waiting);
        assert!(before.is_none(), "{place:?} is used twice");
    }

    /// Removes the container at a place.
    pub(crate) fn remove(&mut self, place: QueuePlace) {
        let waiting = self
            .entries
            .remove(&place)
            .expect("every place belongs to a waiting container");
        self.total -= waiting.amount;
        if let Some(held_mb) = self.paused.remove(&place) {
            self.frozen_mb -= u128::from(held_mb);
        }
        if self.unstarted.remove(&place) && place.is_ranked() {
            let ranked = &mut self.ranked;
            ranked.by_attempt.remove(&(waiting.id.attempt, place));
            ranked.by_arrival.remove(&place.arrival());
            ranked.work.subtract(waiting.amount, place.expected_ms());
        }
    }

    /// Returns the container that starts next.
    pub(crate) fn head(&self) -> Option<Waiting> {
        let frozen = self.paused.first_key_value().map(|(place, _)| place);
        let place = frozen.or_else(|| self.unstarted.first())?;
        self.entries.get(place).copied()
    }

    /// Returns the container whose turn comes last among those that have not started: in the order
    /// of arrival the one that joined last.
    pub(crate) fn last_unstarted(&self) -> Option<ContainerId> {
        self.unstarted_last_first().next()
    }

    /// Returns the containers that have not started, the one whose turn comes last first.
    pub(crate) fn unstarted_last_first(&self) -> impl Iterator<Item = ContainerId> + '_ {
        let places = self.unstarted.iter().rev();
        places.filter_map(|place| self.entries.get(place).map(|waiting| waiting.id))
    }

    /// Returns all containers in queue order, with true for frozen ones.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Waiting, bool)> + '_ {
        let frozen = self.paused.keys().map(|place| (place, true));
        let unstarted = self.unstarted.iter().map(|place| (place, false));
        frozen
            .chain(unstarted)
            .filter_map(|(place, frozen)| Some((*self.entries.get(place)?, frozen)))
    }

    /// Returns the containers that have not started and whose turn comes after a place, with their
    /// places, in queue order.
    pub(crate) fn unstarted_behind(
        &self,
        place: QueuePlace,
    ) -> impl Iterator<Item = (QueuePlace, Waiting)> + '_ {
        let behind = (Bound::Excluded(place), Bound::Unbounded);
        let places = self.unstarted.range(behind);
        places.filter_map(|place| Some((*place, *self.entries.get(place)?)))
    }

    /// Returns the place of the container that waits longest among those that have not started.
    pub(crate) fn oldest_unstarted(&self) -> Option<(QueuePlace, Waiting)> {
        let first = self.unstarted.first().filter(|place| !place.is_ranked());
        let ranked = self.ranked.by_arrival.values().next();
        let oldest = first.into_iter().chain(ranked);
        let place = oldest.min_by_key(|place| place.arrival())?;
        Some((*place, *self.entries.get(place)?))
    }

    /// Returns the places of an attempt's containers that have not started, as far as they were
    /// made with an expected run.
    pub(crate) fn ranked_of(
        &self,
        attempt: ApplicationAttemptId,
    ) -> impl Iterator<Item = QueuePlace> + '_ {
        let range = (attempt, QueuePlace::FIRST)..=(attempt, QueuePlace::LAST);
        self.ranked.by_attempt.range(range).map(|(_, place)| *place)
    }

    /// Returns the places of an application's containers that have not started, with their
    /// attempts, as far as they were made with an expected run.
    pub(crate) fn ranked_of_application(
        &self,
        application: ApplicationId,
    ) -> impl Iterator<Item = (ApplicationAttemptId, QueuePlace)> + '_ {
        let first = (application.attempt(i32::MIN), QueuePlace::FIRST);
        let last = (application.attempt(i32::MAX), QueuePlace::LAST);
        self.ranked.by_attempt.range(first..=last).copied()
    }

    /// Returns the number of containers that have not started and whose turn comes before a place.
    pub(crate) fn unstarted_before(&self, place: QueuePlace) -> usize {
        self.unstarted.range(..place).count()
    }

    /// Returns the container at a place.
    pub(crate) fn at(&self, place: QueuePlace) -> Option<Waiting> {
        self.entries.get(&place).copied()
    }

    /// Returns the work of the containers that have not started, as far as their places were made
    /// with an expected run.
    pub(crate) fn work(&self) -> Work {
        self.ranked.work
    }

    /// Returns the position of a container in queue order, from 1. Costs a step for each container
    /// behind it among those that wait like it. The last one, where arrivals in order go, is known
    /// without a search.
    pub(crate) fn position(&self, place: QueuePlace) -> usize {
        if self.unstarted.last() == Some(&place) {
            return self.entries.len();
        }
        let behind = (Bound::Excluded(place), Bound::Unbounded);
        if self.paused.contains_key(&place) {
            self.paused.len() - self.paused.range(behind).count()
        } else {
            self.entries.len() - self.unstarted.range(behind).count()
        }
    }

    /// Returns the container that was frozen last among those that hold memory.
    pub(crate) fn newest_frozen_with_memory(&self) -> Option<ContainerId> {
        let mut newest_first = self.paused.iter().rev();
        let (place, _) = newest_first.find(|(_, held_mb)| **held_mb > 0)?;
        self.entries.get(place).map(|waiting| waiting.id)
    }

    /// Returns the memory that frozen containers hold, in mebibytes.
    pub(crate) fn frozen_mb(&self) -> u128 {
        self.frozen_mb
    }

    /// Returns the number of containers, including frozen ones.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns the number of containers that have not started.
    pub(crate) fn unstarted_len(&self) -> usize {
        self.unstarted.len()
    }

    /// Returns the number of frozen containers.
    pub(crate) fn paused_len(&self) -> usize {
        self.paused.len()
    }

    /// Returns the sum of what all containers ask for.
    pub(crate) fn total(&self) -> Amount {
        self.total
    }
}

#[cfg(test)]
mod tests {
    use records::Resource;

    use super::*;
    use test_support::ids::container;

    fn at(arrival: u64) -> QueuePlace {
        QueuePlace::fifo(arrival)
    }

    fn waiting(id: i64) -> Waiting {
        let amount = Amount::new(Resource::new(10, 1), None);
        Waiting {
            id: container(id),
            amount,
        }
    }

    #[test]
    fn the_head_is_the_smallest_place_whoever_left_before() {
        let mut queue = Queue::default();
        for place in 1..=3 {
            queue.insert(at(place), waiting(i64::try_from(place).unwrap()), None);
        }
        queue.remove(at(1));
        assert_eq!(queue.head(), Some(waiting(2)));
        queue.remove(at(3));
        assert_eq!(queue.head(), Some(waiting(2)));
        assert_eq!(queue.total(), waiting(2).amount);
    }

    #[test]
    fn frozen_ones_count_and_go_first_but_are_not_the_last_unstarted() {
        let mut queue = Queue::default();
        queue.insert(at(1), waiting(1), None);
        queue.insert(at(2), waiting(2), Some(7));
        queue.insert(at(3), waiting(3), Some(0));
        assert_eq!(queue.len(), 3);
        assert_eq!((queue.unstarted_len(), queue.paused_len()), (1, 2));
        assert_eq!(queue.head(), Some(waiting(2)));
        let order: Vec<_> = queue.iter().map(|(waiting, _)| waiting.id.id).collect();
        assert_eq!(order, [2, 3, 1]);
        let positions = [2, 3, 1].map(|place| queue.position(at(place)));
        assert_eq!(positions, [1, 2, 3]);
        assert_eq!(queue.last_unstarted(), Some(waiting(1).id));
        queue.remove(at(1));
        assert_eq!(queue.last_unstarted(), None);
    }

    #[test]
    fn the_newest_frozen_one_with_memory_is_found_behind_those_without() {
        let mut queue = Queue::default();
        queue.insert(at(1), waiting(1), Some(3));
        queue.insert(at(2), waiting(2), Some(4));
        queue.insert(at(3), waiting(3), Some(0));
        assert_eq!(queue.frozen_mb(), 7);
        assert_eq!(queue.newest_frozen_with_memory(), Some(waiting(2).id));
        queue.remove(at(2));
        assert_eq!(queue.newest_frozen_with_memory(), Some(waiting(1).id));
        queue.remove(at(1));
        assert_eq!(queue.newest_frozen_with_memory(), None);
    }

    #[test]
    fn an_emptied_queue_is_like_a_new_one() {
        let mut queue = Queue::default();
        queue.insert(at(1), waiting(1), Some(5));
        queue.insert(at(2), waiting(2), None);
        queue.remove(at(2));
        queue.remove(at(1));
        assert_eq!(queue, Queue::default());
    }
}
