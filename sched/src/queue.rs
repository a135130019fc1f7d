//! Containers of one execution type that wait for room, first come first served.

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
    /// Places of those that are frozen. They wait like the others but are not shed.
    paused: BTreeSet<u64>,
    /// Places of those that have not started yet.
    unstarted: BTreeSet<u64>,
    total: Amount,
}

impl Queue {
    /// Adds a container at its place.
    pub(crate) fn insert(&mut self, place: u64, waiting: Waiting, paused: bool) {
        self.total += waiting.amount;
        let places = if paused {
            &mut self.paused
        } else {
            &mut self.unstarted
        };
        places.insert(place);
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
        self.paused.remove(&place);
        self.unstarted.remove(&place);
    }

    /// The one whose turn is next.
    pub(crate) fn head(&self) -> Option<Waiting> {
        self.entries.first_key_value().map(|(_, waiting)| *waiting)
    }

    /// The last one that joined and has not started yet.
    pub(crate) fn newest_unstarted(&self) -> Option<ContainerId> {
        let place = self.unstarted.last()?;
        self.entries.get(place).map(|waiting| waiting.id)
    }

    /// All that wait, in their order; true for those that are frozen.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Waiting, bool)> + '_ {
        self.entries
            .iter()
            .map(|(place, waiting)| (*waiting, self.paused.contains(place)))
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
    use records::{ApplicationAttemptId, ApplicationId, Resource};

    use super::*;

    fn waiting(id: i64) -> Waiting {
        let application_id = ApplicationId {
            cluster_timestamp: 1,
            id: 1,
        };
        let attempt = ApplicationAttemptId {
            application_id,
            attempt_id: 1,
        };
        let amount = Amount::new(Resource::new(10, 1), None);
        Waiting {
            id: ContainerId { attempt, id },
            amount,
        }
    }

    #[test]
    fn the_head_is_the_smallest_place_whoever_left_before() {
        let mut queue = Queue::default();
        for place in 1..=3 {
            queue.insert(place, waiting(i64::try_from(place).unwrap()), false);
        }
        queue.remove(1);
        assert_eq!(queue.head(), Some(waiting(2)));
        queue.remove(3);
        assert_eq!(queue.head(), Some(waiting(2)));
        assert_eq!(queue.total(), waiting(2).amount);
    }

    #[test]
    fn frozen_ones_count_and_keep_their_turn_but_are_not_the_newest_unstarted() {
        let mut queue = Queue::default();
        queue.insert(1, waiting(1), true);
        queue.insert(2, waiting(2), false);
        queue.insert(3, waiting(3), true);
        assert_eq!(queue.len(), 3);
        assert_eq!((queue.unstarted_len(), queue.paused_len()), (1, 2));
        assert_eq!(queue.head(), Some(waiting(1)));
        assert_eq!(queue.newest_unstarted(), Some(waiting(2).id));
        queue.remove(2);
        assert_eq!(queue.newest_unstarted(), None);
    }

    #[test]
    fn an_emptied_queue_is_like_a_new_one() {
        let mut queue = Queue::default();
        queue.insert(1, waiting(1), true);
        queue.insert(2, waiting(2), false);
        queue.remove(2);
        queue.remove(1);
        assert_eq!(queue, Queue::default());
    }
}
