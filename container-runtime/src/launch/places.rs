//! Places for work on what containers leave behind, shared fairly among their users.
//!
//! Work that hangs keeps its place. No user has more than half of the places, and users take turns
//! at the others, so that however much one of them leaves behind, another's next end waits for
//! nobody.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use localize::{Turns, UserName};
use tokio::sync::oneshot;

/// Places of one kind of work. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct UserPlaces(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    turns: Turns<u64>,
    free: usize,
    each_user_max: usize,
    /// Number of the next request.
    next: u64,
    /// Requests that have no place yet; each is in `turns` too.
    waiting: BTreeMap<u64, oneshot::Sender<Place>>,
}

/// A place. Dropping it gives it to the next.
#[derive(Debug)]
pub(super) struct Place {
    places: UserPlaces,
    user: UserName,
}

impl UserPlaces {
    /// Makes this many places, half of them for any one user.
    pub(super) fn new(places: usize) -> Self {
        Self(Arc::new(Mutex::new(State {
            turns: Turns::default(),
            free: places,
            each_user_max: places.div_ceil(2),
            next: 0,
            waiting: BTreeMap::new(),
        })))
    }

    /// A panic while the lock is held leaves at worst a finished operation behind.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a place in the user's turn. Whoever stops waiting loses the turn.
    pub(super) async fn take(&self, user: &UserName) -> Place {
        let granted = {
            let mut state = self.lock();
            let number = state.next;
            state.next += 1;
            state.turns.queue(user, number);
            let (grant, granted) = oneshot::channel();
            state.waiting.insert(number, grant);
            granted
        };
        self.grant();
        match granted.await {
            Ok(place) => place,
            // Requests are dropped with the places only, and this is a handle on them.
            Err(_dropped) => std::future::pending().await,
        }
    }

    /// Gives free places to those whose turn it is.
    fn grant(&self) {
        // Places that nobody has waited for are given back without the lock.
        let mut refused = Vec::new();
        let mut state = self.lock();
        while state.free > 0 {
            let each_user_max = state.each_user_max;
            let Some((user, number)) = state.turns.next(|under_way| under_way < each_user_max)
            else {
                break;
            };
            let waiting = state.waiting.remove(&number);
            let Some(grant) = waiting.filter(|grant| !grant.is_closed()) else {
                state.turns.ended(&user);
                continue;
            };
            state.free -= 1;
            let places = self.clone();
            refused.extend(grant.send(Place { places, user }).err());
        }
        drop(state);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut state = self.places.lock();
        state.turns.ended(&self.user);
        state.free += 1;
        drop(state);
        self.places.grant();
    }
}

/// Returns the name under which a user takes turns. Names that cannot be parts of paths share one:
/// nothing is launched for them.
pub(super) fn turns_of(user: &str) -> UserName {
    let name = user.parse();
    name.unwrap_or_else(|_| "nobody".parse().expect("letters are a safe name"))
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    fn user(name: &str) -> UserName {
        name.parse().unwrap()
    }

    /// Returns a place that needs no wait.
    fn now(taking: impl Future<Output = Place>) -> Option<Place> {
        match pin!(taking).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(place) => Some(place),
            Poll::Pending => None,
        }
    }

    #[test]
    fn a_user_with_much_work_leaves_places_to_others() {
        let (places, many, few) = (UserPlaces::new(4), user("many"), user("few"));
        let held: Vec<_> = (0..9).map_while(|_| now(places.take(&many))).collect();
        assert_eq!(held.len(), 2);
        let other = now(places.take(&few));
        assert!(other.is_some(), "a place was left");
        drop((held, other));
        assert_eq!(places.lock().free, 4);
    }

    #[tokio::test]
    async fn users_take_turns_however_much_one_of_them_has_queued() {
        let (places, many, few) = (UserPlaces::new(2), user("many"), user("few"));
        let (first, second) = (places.take(&many).await, places.take(&user("third")).await);
        let mut context = Context::from_waker(Waker::noop());
        let mut queued: Vec<_> = (0..5).map(|_| Box::pin(places.take(&many))).collect();
        for each in &mut queued {
            assert!(each.as_mut().poll(&mut context).is_pending());
        }
        let mut late = Box::pin(places.take(&few));
        assert!(late.as_mut().poll(&mut context).is_pending());
        drop(second);
        let late = late.as_mut().poll(&mut context);
        assert!(late.is_ready(), "before those of the first user");
        drop(first);
        let polled = queued
            .iter_mut()
            .map(|each| each.as_mut().poll(&mut context));
        let polled: Vec<_> = polled.collect();
        let ready: Vec<bool> = polled.iter().map(Poll::is_ready).collect();
        assert_eq!(ready, [true, false, false, false, false]);
    }

    #[tokio::test]
    async fn whoever_stops_waiting_keeps_no_place() {
        let (places, joe) = (UserPlaces::new(1), user("joe"));
        let held = places.take(&joe).await;
        for _ in 0..1_000 {
            assert!(now(places.take(&joe)).is_none());
        }
        drop(held);
        let state = places.lock();
        assert_eq!((state.free, state.waiting.len()), (1, 0));
        assert!(state.turns.is_empty());
    }
}
