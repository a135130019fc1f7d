//! Memory budget for large requests, counted in bytes: a limit for all callers together, and one
//! for each user.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::ServerLimits;

/// Unit of the budget, in bytes; a semaphore cannot count that many single bytes.
const UNIT: usize = 1024;

/// Returns the units that a request of this length takes, rounded up.
const fn units(length: usize) -> usize {
    length.div_ceil(UNIT)
}

/// The budget for large requests of all users.
#[derive(Debug)]
pub(super) struct LargeRequests {
    all: Arc<Semaphore>,
    per_user_units: usize,
    /// Budgets of connected users and of some former ones: at most twice as many as connections are
    /// allowed.
    by_user: Mutex<HashMap<String, Weak<Semaphore>>>,
    users_max: usize,
}

/// The units that one request occupies. Released on drop.
#[derive(Debug)]
pub(super) struct Share {
    _own: OwnedSemaphorePermit,
    _all: OwnedSemaphorePermit,
}

impl LargeRequests {
    pub(super) fn new(limits: &ServerLimits) -> Self {
        let at_least_a_frame = |bytes: usize| units(bytes.max(limits.frame_length_max));
        Self {
            all: Arc::new(Semaphore::new(at_least_a_frame(
                limits.large_requests_bytes_max,
            ))),
            per_user_units: at_least_a_frame(limits.large_requests_bytes_per_user_max),
            by_user: Mutex::default(),
            users_max: 2 * limits.connections_max,
        }
    }

    /// Returns the budget that this user's connections share.
    pub(super) fn of_user(&self, user: &str) -> Arc<Semaphore> {
        // Entries are inserted and removed whole, so a panic of another thread leaves nothing half
        // done.
        let mut by_user = self.by_user.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = by_user.get(user).and_then(Weak::upgrade) {
            return known;
        }
        if by_user.len() >= self.users_max {
            by_user.retain(|_, known| known.strong_count() > 0);
        }
        let own = Arc::new(Semaphore::new(self.per_user_units));
        by_user.insert(user.to_owned(), Arc::downgrade(&own));
        own
    }

    /// Waits for units of the user's own budget, then of the common one: a request that waits for
    /// the first takes nothing from other users.
    pub(super) async fn reserve(&self, own: &Arc<Semaphore>, length: usize) -> Share {
        let units = u32::try_from(units(length)).unwrap_or(u32::MAX);
        let own = Arc::clone(own).acquire_many_owned(units).await;
        let all = Arc::clone(&self.all).acquire_many_owned(units).await;
        Share {
            _own: own.expect("the semaphore is never closed"),
            _all: all.expect("the semaphore is never closed"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn budgets_of_disconnected_users_are_dropped() {
        let limits = ServerLimits {
            connections_max: 4,
            ..ServerLimits::default()
        };
        let large = LargeRequests::new(&limits);
        let present = large.of_user("present");
        for user in 0..100 {
            large.of_user(&user.to_string());
        }
        assert!(large.by_user.lock().unwrap().len() <= 8);
        assert!(Arc::ptr_eq(&present, &large.of_user("present")));
    }
}
