//! Connections that users' jobs hold: one user gets most of all places, never the last ones.
//!
//! What one address may hold says little of a user, whose containers are on many nodes. So once a
//! request has shown whose it is, its connection counts for that user. A reducer that gets 429 then
//! comes again after a second and loses nothing.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Part of all places that is left for users who hold less than half.
const RESERVE_PART: usize = 8;

/// Counts of connections by user.
#[derive(Debug)]
pub struct Shares {
    total_max: usize,
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    held: usize,
    by_user: HashMap<Arc<str>, usize>,
}

/// Place of a connection that counts for a user until this is dropped.
#[derive(Debug)]
pub struct Share {
    shares: Arc<Shares>,
    user: Arc<str>,
}

impl Shares {
    /// Shares of this many places.
    #[must_use]
    pub fn new(total_max: usize) -> Self {
        Self {
            total_max,
            table: Mutex::default(),
        }
    }

    /// Counts one more connection for a user. `None`: it holds half of all, and no more than an
    /// eighth is left.
    #[must_use]
    pub fn take(self: &Arc<Self>, user: &Arc<str>) -> Option<Share> {
        let mut table = self.lock();
        let own = table.by_user.get(user).copied().unwrap_or(0);
        let left = self.total_max.saturating_sub(table.held);
        if own >= self.total_max.div_ceil(2) && left <= self.total_max / RESERVE_PART {
            return None;
        }
        table.held += 1;
        table.by_user.insert(Arc::clone(user), own + 1);
        drop(table);
        Some(Share {
            shares: Arc::clone(self),
            user: Arc::clone(user),
        })
    }

    // No code that may panic runs under the lock, so the table is whole even if it is poisoned.
    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Share {
    /// Returns whether the place counts for this user.
    #[must_use]
    pub fn is_of(&self, user: &str) -> bool {
        *self.user == *user
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut table = self.shares.lock();
        table.held = table.held.saturating_sub(1);
        if let Entry::Occupied(mut own) = table.by_user.entry(Arc::clone(&self.user)) {
            match own.get().checked_sub(1) {
                None | Some(0) => drop(own.remove()),
                Some(less) => *own.get_mut() = less,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn users() -> [Arc<str>; 3] {
        ["ann", "bob", "eve"].map(Arc::from)
    }

    /// Takes until it gets no more, at most this often.
    fn take_all(shares: &Arc<Shares>, user: &Arc<str>, most: usize) -> Vec<Share> {
        (0..most).map_while(|_| shares.take(user)).collect()
    }

    #[test]
    fn one_user_alone_leaves_an_eighth_and_two_together_none() {
        let shares = Arc::new(Shares::new(64));
        let [ann, bob, _] = users();
        let of_ann = take_all(&shares, &ann, 64);
        assert_eq!(of_ann.len(), 56);
        let of_bob = take_all(&shares, &bob, 64);
        assert_eq!(of_bob.len(), 32);
        // The table of connections bounds both together; here bob got what ann must give back.
        assert!(shares.take(&ann).is_none());
        drop(of_ann);
        assert_eq!(take_all(&shares, &ann, 64).len(), 32);
    }

    #[test]
    fn of_few_places_one_user_may_have_all() {
        for total in 1..8 {
            let shares = Arc::new(Shares::new(total));
            let [ann, ..] = users();
            assert_eq!(take_all(&shares, &ann, total).len(), total);
        }
    }

    proptest! {
        #[test]
        fn nothing_is_counted_once_all_are_given_back(
            steps in prop::collection::vec((0_usize..3, any::<bool>()), 0..200),
        ) {
            let shares = Arc::new(Shares::new(16));
            let users = users();
            let mut held: Vec<Share> = Vec::new();
            for (user, takes) in steps {
                let own = |held: &[Share]| held.iter().filter(|it| it.is_of(&users[user])).count();
                if takes {
                    let before = own(&held);
                    let share = shares.take(&users[user]);
                    prop_assert!(share.is_some() || before >= 8);
                    prop_assert!(share.is_none() || before < 8 || held.len() < 14);
                    held.extend(share);
                } else if let Some(position) = held.iter().position(|it| it.is_of(&users[user])) {
                    held.swap_remove(position);
                }
                prop_assert_eq!(shares.lock().held, held.len());
            }
            drop(held);
            let table = shares.lock();
            prop_assert_eq!((table.held, table.by_user.len()), (0, 0));
        }
    }
}
