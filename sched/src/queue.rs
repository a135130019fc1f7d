//! Containers of one execution type that wait for room: frozen ones, then those that have not started, each first come
//! first served.
//!
//! Frozen ones go first although they joined later than some: they hold memory, may be frozen for so long only, and lose
//! what they have done if room comes too late. Hadoop, which never gets as far as a frozen container, appends them.

use std::collections::{BTreeMap, BTreeSet};

use records::ContainerId;

use crate::utilization::Amount;

/// One that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Waiting {
    pub(crate) id: ContainerId,
    pub(crate) amount: Amount,
}

/// A queue. Its entries are kept by their place, so that any of them can leave without a search.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Queue {
    entries: BTreeMap<u64, Waiting>,
    /// Places of those that are frozen, and the mebibytes that each holds.
    paused: BTreeMap<u64, u64>,
    /// Places of those that have not started yet.
    unstarted: BTreeSet<u64>,
    total: Amount,
    frozen_mb: u128,
}

impl Queue {
    /// Adds a container at its place; `frozen_mb`: what it holds if it is frozen.
    pub(crate) fn insert(&mut self, place: u64, waiting: Waiting, frozen_mb: Option<u64>) {
        self.total += waiting.amount;
        if let Some(held_mb) = frozen_mb {
            self.frozen_mb += u128::from(held_mb);
            self.paused.insert(place, held_mb);
        } else {
            self.unstarted.insert(place);
        }
        let before = self.entries.insert(place, waiting);
        assert!(before.is_none(), "place {place} is given twice");
    }

    /// Takes out the container at a place.
    pub(crate) fn remove(&mut self, place: u64) {
        let waiting = self
            .entries
            .remove(&place)
            .expect("places are of containers that wait");
        self.total -= waiting.amount;
        if let Some(held_mb) = self.paused.remove(&place) {
            self.frozen_mb -= u128::from(held_mb);
        }
        self.unstarted.remove(&place);
    }

    /// The one whose turn is next.
    pub(crate) fn head(&self) -> Option<Waiting> {
        let frozen = self.paused.first_key_value().map(|(place, _)| place);
        let place = frozen.or_else(|| self.unstarted.first())?;
        self.entries.get(place).copied()
    }

    /// The last one that joined and has not started yet.
    pub(crate) fn newest_unstarted(&self) -> Option<ContainerId> {
        self.unstarted_newest_first().next()
    }

    /// Those that have not started yet, the one that joined last first.
    pub(crate) fn unstarted_newest_first(&self) -> impl Iterator<Item = ContainerId> + '_ {
        let places = self.unstarted.iter().rev();
        places.filter_map(|place| self.entries.get(place).map(|waiting| waiting.id))
    }

    /// All that wait, in their order; true for those that are frozen.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Waiting, bool)> + '_ {
        let frozen = self.paused.keys().map(|place| (place, true));
        let unstarted = self.unstarted.iter().map(|place| (place, false));
        frozen
            .chain(unstarted)
            .filter_map(|(place, frozen)| Some((*self.entries.get(place)?, frozen)))
    }

    /// The one that was frozen last, of those that hold memory.
    pub(crate) fn newest_frozen_with_memory(&self) -> Option<ContainerId> {
        let mut newest_first = self.paused.iter().rev();
        let (place, _) = newest_first.find(|(_, held_mb)| **held_mb > 0)?;
        self.entries.get(place).map(|waiting| waiting.id)
    }

    /// Mebibytes that frozen ones hold.
    pub(crate) fn frozen_mb(&self) -> u128 {
        self.frozen_mb
    }

    /// How many wait, frozen ones included.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// How many wait for their first start.
    pub(crate) fn unstarted_len(&self) -> usize {
        self.unstarted.len()
    }

    /// How many are frozen.
    pub(crate) fn paused_len(&self) -> usize {
        self.paused.len()
    }

    /// What all of them ask for together.
    pub(crate) fn total(&self) -> Amount {
        self.total
    }
}

#[cfg(test)]
mod tests {
    use records::Resource;

    use super::*;
    use crate::fixture::container;

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
            queue.insert(place, waiting(i64::try_from(place).unwrap()), None);
        }
        queue.remove(1);
        assert_eq!(queue.head(), Some(waiting(2)));
        queue.remove(3);
        assert_eq!(queue.head(), Some(waiting(2)));
        assert_eq!(queue.total(), waiting(2).amount);
    }

    #[test]
    fn frozen_ones_count_and_go_first_but_are_not_the_newest_unstarted() {
        let mut queue = Queue::default();
        queue.insert(1, waiting(1), None);
        queue.insert(2, waiting(2), Some(7));
        queue.insert(3, waiting(3), Some(0));
        assert_eq!(queue.len(), 3);
        assert_eq!((queue.unstarted_len(), queue.paused_len()), (1, 2));
        assert_eq!(queue.head(), Some(waiting(2)));
        let order: Vec<_> = queue.iter().map(|(waiting, _)| waiting.id.id).collect();
        assert_eq!(order, [2, 3, 1]);
        assert_eq!(queue.newest_unstarted(), Some(waiting(1).id));
        queue.remove(1);
        assert_eq!(queue.newest_unstarted(), None);
    }

    #[test]
    fn the_newest_frozen_one_with_memory_is_found_behind_those_without() {
        let mut queue = Queue::default();
        queue.insert(1, waiting(1), Some(3));
        queue.insert(2, waiting(2), Some(4));
        queue.insert(3, waiting(3), Some(0));
        assert_eq!(queue.frozen_mb(), 7);
        assert_eq!(queue.newest_frozen_with_memory(), Some(waiting(2).id));
        queue.remove(2);
        assert_eq!(queue.newest_frozen_with_memory(), Some(waiting(1).id));
        queue.remove(1);
        assert_eq!(queue.newest_frozen_with_memory(), None);
    }

    #[test]
    fn an_emptied_queue_is_like_a_new_one() {
        let mut queue = Queue::default();
        queue.insert(1, waiting(1), Some(5));
        queue.insert(2, waiting(2), None);
        queue.remove(2);
        queue.remove(1);
        assert_eq!(queue, Queue::default());
    }
}
