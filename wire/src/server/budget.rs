//! Memory that callers may take, counted in bytes: the one owner of it, with a bound for all
//! callers together and a share for each user. A user's connections are counted here, too.
//!
//! There are two budgets, so that requests and answers never wait for each other's memory:
//! - *requests*: bytes of long frames as they arrive, and what decoding takes. Taken step by step,
//!   so a caller's requests do it in turns ([`Account::turn`]): of two that each held a part, both
//!   would wait for the rest. Callers of one owner do not share their turns: one that stops in the
//!   middle of a request holds up no other.
//! - *answers*: reserved before a call starts, corrected once the answer's length is known, and
//!   released when the socket has taken the answer. Also bounds the calls in flight. An answer that
//!   is longer than the memory left queues for the rest like a call.
//!
//! A user who has proved a token gets half of each budget, for all attempts of all applications
//! together. Without proof a name is no identity: all
//! nodes of a cluster may claim the same. Such callers share the whole.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::task::{Context, Poll, Waker};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::ServerLimits;
use crate::outbound::Held;
use crate::service::Caller;

/// Unit of the budgets, in bytes; a semaphore cannot count that many single bytes.
const UNIT: usize = 1024;

/// The budgets of one server.
#[derive(Debug)]
pub(super) struct Budgets {
    requests: Arc<Semaphore>,
    answers: Arc<Semaphore>,
    limits: ServerLimits,
    known: Mutex<Known>,
}

/// Connected callers and their owners, by name and whether it is proven, and some former ones: of
/// each at most twice as many as connections are allowed.
#[derive(Debug, Default)]
struct Known {
    accounts: HashMap<(String, bool), Weak<Account>>,
    shares: HashMap<(String, bool), Weak<Shares>>,
}

/// Shares and turn of one caller, an attempt or a user, for all its connections.
#[derive(Debug)]
pub(super) struct Account {
    shares: Arc<Shares>,
    /// Held while a request takes memory step by step.
    turn: Arc<Semaphore>,
}

/// The shares of one user, for all connections of all attempts of that user.
#[derive(Debug)]
struct Shares {
    requests: Budget,
    answers: Budget,
    /// Connections that the user may have.
    connections: Arc<Semaphore>,
}

/// A user's share of a budget, and the whole.
#[derive(Clone, Debug)]
struct Budget {
    own: Arc<Semaphore>,
    all: Arc<Semaphore>,
}

/// Memory that one request or answer has. Released on drop.
pub(super) struct Share {
    own: OwnedSemaphorePermit,
    all: OwnedSemaphorePermit,
    /// Reservation of what an answer lacks that was encoded while memory was short. Stands in the
    /// queue of the user's calls: memory that is released completes it before those behind it.
    lacking: Option<Reservation>,
}

/// A wait for memory.
type Reservation = Pin<Box<dyn Future<Output = Share> + Send + Sync>>;

impl Budgets {
    pub(super) fn new(limits: &ServerLimits) -> Self {
        let pool = |bytes: usize| Arc::new(Semaphore::new(bytes / UNIT));
        Self {
            requests: pool(limits.requests_bytes_max),
            answers: pool(limits.answers_bytes_max),
            limits: limits.clone(),
            known: Mutex::default(),
        }
    }

    /// Returns the account that this caller's connections share.
    pub(super) fn account_of(&self, caller: &Caller) -> Arc<Account> {
        let is_proven = caller.token_identifier.is_some();
        let known_max = 2 * self.limits.connections_max;
        // Entries are inserted and removed whole, so a panic of another thread leaves nothing half
        // done.
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let Known { accounts, shares } = &mut *known;
        let key = (caller.user.clone(), is_proven);
        present_or(accounts, key, known_max, || Account {
            shares: present_or(shares, (caller.owner.clone(), is_proven), known_max, || {
                self.shares(is_proven)
            }),
            turn: Arc::new(Semaphore::new(if is_proven {
                1
            } else {
                Semaphore::MAX_PERMITS
            })),
        })
    }

    /// Returns the shares of a user none of whose callers is connected.
    fn shares(&self, is_proven: bool) -> Shares {
        let share = |whole: usize| {
            let share = if is_proven { whole.div_ceil(2) } else { whole };
            Arc::new(Semaphore::new(share))
        };
        let budget = |all: &Arc<Semaphore>, bytes: usize| Budget {
            own: share(bytes / UNIT),
            all: Arc::clone(all),
        };
        Shares {
            requests: budget(&self.requests, self.limits.requests_bytes_max),
            answers: budget(&self.answers, self.limits.answers_bytes_max),
            connections: share(self.limits.connections_max),
        }
    }
}

/// Returns what is in use under this key, or a new one. Drops entries out of use at `known_max`.
fn present_or<T>(
    known: &mut HashMap<(String, bool), Weak<T>>,
    key: (String, bool),
    known_max: usize,
    new: impl FnOnce() -> T,
) -> Arc<T> {
    if let Some(present) = known.get(&key).and_then(Weak::upgrade) {
        return present;
    }
    if known.len() >= known_max {
        known.retain(|_, entry| entry.strong_count() > 0);
    }
    let new = Arc::new(new());
    known.insert(key, Arc::downgrade(&new));
    new
}

impl Account {
    /// Waits for one of the user's connections.
    pub(super) async fn connection(&self) -> OwnedSemaphorePermit {
        let connection = Arc::clone(&self.shares.connections).acquire_owned().await;
        connection.expect("the semaphore is never closed")
    }

    /// Waits until no other request of this caller takes memory step by step.
    pub(super) async fn turn(&self) -> OwnedSemaphorePermit {
        let turn = Arc::clone(&self.turn).acquire_owned().await;
        turn.expect("the semaphore is never closed")
    }

    /// Waits for memory for a request.
    pub(super) async fn reserve_request(&self, bytes: usize) -> Share {
        self.shares.requests.reserve(bytes.div_ceil(UNIT)).await
    }

    /// Waits for memory for an answer.
    pub(super) async fn reserve_answer(&self, bytes: usize) -> Share {
        self.shares.answers.reserve(bytes.div_ceil(UNIT)).await
    }
}

impl Budget {
    /// Waits for the user's own share, then for the whole: a request that waits for the first takes
    /// nothing from other users.
    fn reserve(&self, units: usize) -> impl Future<Output = Share> + use<> {
        let Self { own, all } = self.clone();
        let units = u32::try_from(units).unwrap_or(u32::MAX);
        async move {
            let own = own.acquire_many_owned(units).await;
            let all = all.acquire_many_owned(units).await;
            Share {
                own: own.expect("the semaphore is never closed"),
                all: all.expect("the semaphore is never closed"),
                lacking: None,
            }
        }
    }
}

impl Share {
    /// Bytes that it covers, in whole units.
    pub(super) fn bytes(&self) -> usize {
        self.own.num_permits() * UNIT
    }

    /// Takes this many bytes off, in whole units; all if there are no more.
    pub(super) fn split(&mut self, bytes: usize) -> Self {
        let units = bytes.div_ceil(UNIT).min(self.own.num_permits());
        let (own, all) = (self.own.split(units), self.all.split(units));
        Self {
            own: own.expect("not more than there are"),
            all: all.expect("as many as of the user"),
            lacking: None,
        }
    }

    /// Adds another share of the same account.
    pub(super) fn merge(&mut self, more: Self) {
        self.own.merge(more.own);
        self.all.merge(more.all);
    }

    /// Adds what is reserved, or keeps the place in the queue for it.
    fn add(&mut self, mut more: Reservation) {
        match more.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(more) => self.merge(more),
            Poll::Pending => self.lacking = Some(more),
        }
    }
}

impl Held for Share {
    /// Keeps as much as an answer of this length takes. What exceeds the reservation is added at
    /// once as far as there is memory left, and the rest as memory is released: the answer exists
    /// already, but no further call starts.
    fn resize(&mut self, bytes: usize) {
        let wanted = bytes.div_ceil(UNIT);
        let held = self.own.num_permits();
        if let Some(surplus) = held.checked_sub(wanted) {
            drop((self.own.split(surplus), self.all.split(surplus)));
            return;
        }
        let lacking = self.lacking.take().unwrap_or_else(|| {
            let budget = Budget {
                own: Arc::clone(self.own.semaphore()),
                all: Arc::clone(self.all.semaphore()),
            };
            let left = |semaphore: &Semaphore| semaphore.available_permits();
            let left = left(&budget.own).min(left(&budget.all));
            let at_once = left.min(wanted - held);
            self.add(Box::pin(budget.reserve(at_once)));
            Box::pin(budget.reserve(wanted - held - at_once))
        });
        self.add(lacking);
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;
    use std::pin::pin;

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
            owner: user.to_owned(),
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
        let known = budgets.known.lock().unwrap();
        assert!(known.accounts.len() <= 8 && known.shares.len() <= 8);
        drop(known);
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
    fn requests_of_one_token_take_turns_and_those_of_a_claimed_name_do_not() {
        let budgets = budgets();
        let one = proven(&budgets, "one");
        let turn = now(one.turn()).unwrap();
        assert!(now(proven(&budgets, "one").turn()).is_none());
        assert!(now(proven(&budgets, "other").turn()).is_some());
        drop(turn);
        assert!(now(one.turn()).is_some());
        let claimed = budgets.account_of(&caller("one", None));
        let _first = now(claimed.turn()).unwrap();
        assert!(now(claimed.turn()).is_some());
    }

    #[test]
    fn half_of_one_connection_is_one() {
        let budgets = Budgets::new(&ServerLimits {
            connections_max: 1,
            ..ServerLimits::default()
        });
        assert!(now(proven(&budgets, "one").connection()).is_some());
    }

    #[test]
    fn the_attempts_of_one_user_share_the_half() {
        let budgets = budgets();
        let attempt = |name: &str| Caller {
            owner: "one".to_owned(),
            ..caller(name, Some(b"token"))
        };
        let first = budgets.account_of(&attempt("appattempt_1_0001_000001"));
        let second = budgets.account_of(&attempt("appattempt_1_0002_000001"));
        let _held = now(first.reserve_request(32 * UNIT)).unwrap();
        assert!(now(second.reserve_request(1)).is_none());
        assert!(now(proven(&budgets, "other").reserve_request(32 * UNIT)).is_some());
    }

    #[test]
    fn an_answer_keeps_its_length_and_one_that_is_too_long_takes_what_is_left() {
        let budgets = budgets();
        let account = proven(&budgets, "one");
        let mut short = now(account.reserve_answer(16 * UNIT)).unwrap();
        short.resize(10);
        assert_eq!(short.bytes(), UNIT);
        let mut long = now(account.reserve_answer(16 * UNIT)).unwrap();
        long.resize(20 * UNIT);
        assert_eq!(long.bytes(), 20 * UNIT);
        long.resize(100 * UNIT);
        assert_eq!(long.bytes(), 31 * UNIT);
        assert!(now(account.reserve_answer(1)).is_none());
        drop(long);
        assert!(now(account.reserve_answer(31 * UNIT)).is_some());
    }
    #[test]
    fn an_answer_that_found_too_little_memory_takes_what_is_released_before_any_call() {
        let budgets = budgets();
        let account = proven(&budgets, "one");
        let sent = now(account.reserve_answer(24 * UNIT)).unwrap();
        let mut waiting = now(account.reserve_answer(8 * UNIT)).unwrap();
        waiting.resize(20 * UNIT);
        drop(sent);
        assert!(now(account.reserve_answer(13 * UNIT)).is_none());
        waiting.resize(20 * UNIT);
        assert_eq!(waiting.bytes(), 20 * UNIT);
        let other = proven(&budgets, "other");
        assert!(now(other.reserve_answer(32 * UNIT)).is_some());
        let rest = now(account.reserve_answer(12 * UNIT)).unwrap();
        drop((waiting, rest));
        assert!(now(account.reserve_answer(32 * UNIT)).is_some());
    }
}
