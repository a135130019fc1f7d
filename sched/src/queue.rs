//! Queue of one execution type: frozen containers first, then those that have not started, each in
//! the order of arrival.
//!
//! Frozen containers go first although they joined later than some others: they hold memory, may
//! stay frozen for a limited time only, and lose their work if they are not resumed in time. Hadoop
//! appends them, and its queue never gets as far as a frozen container. One that does not fit may
//! be passed (`container_scheduler::room`).

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use records::ContainerId;

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
    total: Amount,
    frozen_mb: u128,
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
        self.unstarted.remove(&place);
    }

    /// Returns the container that starts next.
    pub(crate) fn head(&self) -> Option<Waiting> {
        let frozen = self.paused.first_key_value().map(|(place, _)| place);
        let place = frozen.or_else(|| self.unstarted.first())?;
        self.entries.get(place).copied()
    }

    /// Returns the container that joined last among those that have not started.
    pub(crate) fn newest_unstarted(&self) -> Option<ContainerId> {
        self.unstarted_newest_first().next()
    }

    /// Returns the containers that have not started, newest first.
    pub(crate) fn unstarted_newest_first(&self) -> impl Iterator<Item = ContainerId> + '_ {
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
    fn frozen_ones_count_and_go_first_but_are_not_the_newest_unstarted() {
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
        assert_eq!(queue.newest_unstarted(), Some(waiting(1).id));
        queue.remove(at(1));
        assert_eq!(queue.newest_unstarted(), None);
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
