//! The part of a node's reservations that each user has.

use std::collections::{BTreeMap, BTreeSet};

use super::table::Key;
use crate::run_profile::Digest;

/// Reservations by user.
#[derive(Clone, Debug)]
pub(super) struct Shares {
    /// Reservations of each user who has some, by what is left of their attempts.
    of_users: BTreeMap<Digest, BTreeSet<(u64, Key)>>,
    /// Users by the number of their reservations.
    by_count: BTreeSet<(usize, Digest)>,
}

impl Shares {
    pub(super) const fn new() -> Self {
        Self {
            of_users: BTreeMap::new(),
            by_count: BTreeSet::new(),
        }
    }

    /// Returns the number of a user's reservations.
    pub(super) fn count(&self, user: &Digest) -> usize {
        self.of_users.get(user).map_or(0, BTreeSet::len)
    }

    pub(super) fn insert(&mut self, user: Digest, left_ms: u64, key: Key) {
        self.change(user, |reservations| {
            reservations.insert((left_ms, key));
        });
    }

    pub(super) fn remove(&mut self, user: Digest, left_ms: u64, key: Key) {
        self.change(user, |reservations| {
            reservations.remove(&(left_ms, key));
        });
    }

    fn change(&mut self, user: Digest, change: impl FnOnce(&mut BTreeSet<(u64, Key)>)) {
        let reservations = self.of_users.entry(user).or_default();
        self.by_count.remove(&(reservations.len(), user));
        change(reservations);
        if reservations.is_empty() {
            self.of_users.remove(&user);
        } else {
            self.by_count.insert((reservations.len(), user));
        }
    }

    /// Returns the reservation that gives way to one more of a user, where there is no place left:
    /// of the user who has most, the one with the most left. `None`: nobody would have more than he
    /// then.
    pub(super) fn gives_way(&self, user: &Digest) -> Option<Key> {
        let (most, fullest) = self.by_count.last()?;
        if *most <= self.count(user) + 1 {
            return None;
        }
        self.of_users.get(fullest)?.last().map(|(_, key)| *key)
    }
}
