//! Memory that callers may take, counted in bytes: the one owner of it, with a bound for all
//! callers together and a share for each user. A user's connections are counted here, too.
//!
//! There are two budgets, so that requests and answers never wait for each other's memory:
//! - *requests*: bytes of long frames as they arrive, and what decoding takes. Taken step by step,
//!   so a user's requests do it in turns ([`Account::turn`]): two that each held a part and waited
//!   for the rest would wait for ever.
//! - *answers*: reserved before a call starts, corrected once the answer's length is known, and
//!   released when the socket has taken the answer. Also bounds the calls in flight.
//!
//! A user who has proved a token gets half of each budget. Without proof a name is no identity: all
//! nodes of a cluster may claim the same. Such callers share the whole.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::ServerLimits;
use crate::outbound::Held;
use crate::rpc::Caller;

/// Unit of the budgets, in bytes; a semaphore cannot count that many single bytes.
const UNIT: usize = 1024;

/// Returns the units that this many bytes take, rounded up.
fn units(bytes: usize) -> u32 {
    u32::try_from(bytes.div_ceil(UNIT)).unwrap_or(u32::MAX)
}

/// The budgets of one server.
#[derive(Debug)]
pub(super) struct Budgets {
    requests: Arc<Semaphore>,
    answers: Arc<Semaphore>,
    limits: ServerLimits,
    /// Accounts of connected users and of some former ones: at most twice as many as connections
    /// are allowed.
    accounts: Mutex<HashMap<(String, bool), Weak<Account>>>,
}

/// The shares of one user, for all connections of that user.
#[derive(Debug)]
pub(super) struct Account {
    requests: Budget,
    answers: Budget,
    /// Held while a request takes memory step by step.
    turn: Arc<Semaphore>,
    /// Connections that the user may have.
    connections: Arc<Semaphore>,
}

/// A user's share of a budget, and the whole.
#[derive(Debug)]
struct Budget {
    own: Arc<Semaphore>,
    all: Arc<Semaphore>,
}

/// Memory that one request or answer has. Released on drop.
#[derive(Debug)]
pub(super) struct Share {
    own: OwnedSemaphorePermit,
    all: OwnedSemaphorePermit,
}

impl Budgets {
    pub(super) fn new(limits: &ServerLimits) -> Self {
        let pool = |bytes: usize| Arc::new(Semaphore::new(bytes / UNIT));
        Self {
            requests: pool(limits.requests_bytes_max),
            answers: pool(limits.answers_bytes_max),
            limits: limits.clone(),
            accounts: Mutex::default(),
        }
    }

    /// Returns the account that this caller's connections share.
    pub(super) fn account_of(&self, caller: &Caller) -> Arc<Account> {
        let is_proven = caller.token_identifier.is_some();
        // Entries are inserted and removed whole, so a panic of another thread leaves nothing half
        // done.
        let mut accounts = self.accounts.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (caller.user.clone(), is_proven);
        if let Some(known) = accounts.get(&key).and_then(Weak::upgrade) {
            return known;
        }
        if accounts.len() >= 2 * self.limits.connections_max {
            accounts.retain(|_, known| known.strong_count() > 0);
        }
        let share = |whole: usize| {
            let share = if is_proven { whole.div_ceil(2) } else { whole };
            Arc::new(Semaphore::new(share))
        };
        let budget = |all: &Arc<Semaphore>, bytes: usize| Budget {
            own: share(bytes / UNIT),
            all: Arc::clone(all),
        };
        let account = Arc::new(Account {
            requests: budget(&self.requests, self.limits.requests_bytes_max),
            answers: budget(&self.answers, self.limits.answers_bytes_max),
            turn: Arc::new(Semaphore::new(if is_proven {
                1
            } else {
                Semaphore::MAX_PERMITS
            })),
            connections: share(self.limits.connections_max),
        });
        accounts.insert(key, Arc::downgrade(&account));
        account
    }
}

impl Account {
    /// Waits for one of the user's connections.
    pub(super) async fn connection(&self) -> OwnedSemaphorePermit {
        let connection = Arc::clone(&self.connections).acquire_owned().await;
        connection.expect("the semaphore is never closed")
    }

    /// Waits until no other request of this user takes memory step by step.
    pub(super) async fn turn(&self) -> OwnedSemaphorePermit {
        let turn = Arc::clone(&self.turn).acquire_owned().await;
        turn.expect("the semaphore is never closed")
    }

    /// Waits for memory for a request.
    pub(super) async fn reserve_request(&self, bytes: usize) -> Share {
        self.requests.reserve(bytes).await
    }

    /// Waits for memory for an answer.
    pub(super) async fn reserve_answer(&self, bytes: usize) -> Share {
        self.answers.reserve(bytes).await
    }
}

impl Budget {
    /// Waits for the user's own share, then for the whole: a request that waits for the first takes
    /// nothing from other users.
    async fn reserve(&self, bytes: usize) -> Share {
        let units = units(bytes);
        let own = Arc::clone(&self.own).acquire_many_owned(units).await;
        let all = Arc::clone(&self.all).acquire_many_owned(units).await;
        Share {
            own: own.expect("the semaphore is never closed"),
            all: all.expect("the semaphore is never closed"),
        }
    }
}

impl Share {
    /// Bytes that it covers, in whole units.
    pub(super) fn bytes(&self) -> usize {
        self.own.num_permits() * UNIT
    }

    /// Adds another share of the same account.
    pub(super) fn merge(&mut self, more: Self) {
        self.own.merge(more.own);
        self.all.merge(more.all);
    }
}

impl Held for Share {
    /// Keeps as much as an answer of this length takes. What exceeds the reservation is added as
    /// far as there is memory left: the answer exists already, but no further call starts.
    fn resize(&mut self, bytes: usize) {
        let wanted = usize::try_from(units(bytes)).unwrap_or(usize::MAX);
        let held = self.own.num_permits();
        if let Some(surplus) = held.checked_sub(wanted) {
            drop((self.own.split(surplus), self.all.split(surplus)));
            return;
        }
        let left = |permit: &OwnedSemaphorePermit| permit.semaphore().available_permits();
        let more = (wanted - held).min(left(&self.own)).min(left(&self.all));
        let more = u32::try_from(more).unwrap_or(u32::MAX);
        let take = |permit: &OwnedSemaphorePermit| {
            Arc::clone(permit.semaphore())
                .try_acquire_many_owned(more)
                .ok()
        };
        if let (Some(own), Some(all)) = (take(&self.own), take(&self.all)) {
            self.merge(Self { own, all });
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use bytes::Bytes;

    use super::*;

    /// Returns the result of a future that need not wait.
    fn now<T>(future: impl Future<Output = T>) -> Option<T> {
        match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(value) => Some(value),
            Poll::Pending => None,
        }
    }

    fn budgets() -> Budgets {
        Budgets::new(&ServerLimits {
            connections_max: 4,
            requests_bytes_max: 64 * UNIT,
            answers_bytes_max: 64 * UNIT,
            ..ServerLimits::default()
        })
    }

    fn caller(user: &str, token: Option<&'static [u8]>) -> Caller {
        Caller {
            user: user.to_owned(),
            real_user: None,
            token_identifier: token.map(Bytes::from_static),
            token_kind: None,
            peer: (Ipv4Addr::LOCALHOST, 1).into(),
        }
    }

    fn proven(budgets: &Budgets, user: &str) -> Arc<Account> {
        budgets.account_of(&caller(user, Some(b"token")))
    }

    #[test]
    fn accounts_of_disconnected_users_are_dropped() {
        let budgets = budgets();
        let present = proven(&budgets, "present");
        for user in 0..100 {
            proven(&budgets, &user.to_string());
        }
        assert!(budgets.accounts.lock().unwrap().len() <= 8);
        assert!(Arc::ptr_eq(&present, &proven(&budgets, "present")));
    }

    #[test]
    fn a_user_gets_half_and_a_claimed_name_the_whole() {
        let budgets = budgets();
        let one = proven(&budgets, "one");
        let held = now(one.reserve_request(32 * UNIT)).unwrap();
        assert!(now(proven(&budgets, "one").reserve_request(1)).is_none());
        let other = now(proven(&budgets, "other").reserve_request(32 * UNIT)).unwrap();
        assert!(now(proven(&budgets, "third").reserve_request(1)).is_none());
        drop((held, other));
        let claimed = budgets.account_of(&caller("one", None));
        assert!(now(claimed.reserve_request(64 * UNIT)).is_some());
    }

    #[test]
    fn an_answer_keeps_its_length_and_one_that_is_too_long_takes_what_is_left() {
        let budgets = budgets();
        let account = proven(&budgets, "one");
        let mut short = now(account.reserve_answer(16 * UNIT)).unwrap();
        short.resize(10);
        assert_eq!(short.bytes(), UNIT);
        let mut long = now(account.reserve_answer(16 * UNIT)).unwrap();
        long.resize(100 * UNIT);
        assert_eq!(long.bytes(), 31 * UNIT);
        assert!(now(account.reserve_answer(1)).is_none());
        drop(long);
        assert!(now(account.reserve_answer(31 * UNIT)).is_some());
    }
}
