//! Places of callers: who may have one more connection, and who an answer. One user of the machine
//! gets half of either, so that none keeps another out.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError};

use http_server::{PeerKey, Phase, Place, Places};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Open connections at most. One that has sent no request costs a descriptor and a few KiB.
const CONNECTIONS_MAX: usize = 256;

/// Requests under way at most, of which each has its answer in memory until the caller has it.
const ANSWERS_MAX: usize = 16;

/// Open connections by the id of their task. Pure: the accept loop owns it.
pub(crate) struct Callers<Id>(Places<Id>);

impl<Id: Copy + Eq + Hash> Callers<Id> {
    pub(crate) fn new() -> Self {
        Self(Places::new(CONNECTIONS_MAX, CONNECTIONS_MAX / 2))
    }

    /// Returns whether a newcomer may have a connection. It gets the place of the one that has been
    /// without a request for longest: a caller sends its request as soon as it is connected.
    pub(crate) fn admit(&mut self, peer: PeerKey) -> bool {
        if self.0.has_share(peer) {
            return self.evict(|place| place.peer == peer);
        }
        !self.0.is_full() || self.evict(|_| true)
    }

    /// Returns whether one more connection may be accepted beside those of these tasks.
    pub(crate) fn may_accept(&self, tasks: usize) -> bool {
        self.0.may_accept(tasks)
    }

    pub(crate) fn insert(&mut self, id: Id, place: Place) {
        self.0.insert(id, place);
    }

    pub(crate) fn remove(&mut self, id: Id) {
        self.0.remove(id);
    }

    /// Closes the connection that has been without a request for longest; returns whether there was
    /// one.
    pub(crate) fn evict(&mut self, eligible: impl Fn(&Place) -> bool) -> bool {
        self.0.evict(|place| {
            let (phase, since) = place.activity.phase_and_time();
            let is_waiting = phase != Phase::Answering && eligible(place);
            is_waiting.then_some(std::cmp::Reverse(since))
        })
    }
}

/// Places of requests under way.
#[derive(Debug)]
pub(crate) struct Answers {
    all: Arc<Semaphore>,
    /// Shares of users with a caller, and of some that had one: at most as many as connections.
    shares: Mutex<HashMap<u32, Arc<Semaphore>>>,
}

impl Answers {
    pub(crate) fn new() -> Self {
        Self {
            all: Arc::new(Semaphore::new(ANSWERS_MAX)),
            shares: Mutex::default(),
        }
    }

    /// Waits for a place in the user's share, then among all: who waits for the first takes nothing
    /// from other users.
    pub(crate) async fn place(&self, uid: u32) -> [OwnedSemaphorePermit; 2] {
        let own = self.share(uid).acquire_owned().await;
        let all = Arc::clone(&self.all).acquire_owned().await;
        [own, all].map(|place| place.expect("the semaphore is never closed"))
    }

    fn share(&self, uid: u32) -> Arc<Semaphore> {
        // Entries are inserted and removed whole, so a panic of another thread leaves nothing half
        // done.
        let mut shares = self.shares.lock().unwrap_or_else(PoisonError::into_inner);
        if shares.len() >= CONNECTIONS_MAX {
            shares.retain(|_, share| Arc::strong_count(share) > 1);
        }
        let share = shares.entry(uid);
        Arc::clone(share.or_insert_with(|| Arc::new(Semaphore::new(ANSWERS_MAX / 2))))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use http_server::Activity;
    use tokio::time::{Instant, advance, timeout};
    use tokio_util::sync::CancellationToken;

    use super::*;

    const ROOT: u32 = 0;
    const OTHER: u32 = 1_000;

    /// Opens a connection of a user; returns its sign to close, if it was admitted.
    fn open(
        callers: &mut Callers<usize>,
        id: usize,
        uid: u32,
        activity: &Arc<Activity>,
    ) -> Option<CancellationToken> {
        let peer = PeerKey::of_user(uid);
        callers.admit(peer).then(|| {
            let evicted = CancellationToken::new();
            let place = Place {
                peer,
                activity: Arc::clone(activity),
                evicted: evicted.clone(),
            };
            callers.insert(id, place);
            evicted
        })
    }

    #[tokio::test(start_paused = true)]
    async fn a_user_with_half_of_the_places_loses_its_own_and_never_one_that_is_answered() {
        let epoch = Instant::now();
        let mut callers = Callers::new();
        let answered = Arc::new(Activity::new(epoch));
        answered.enter(Phase::Answering);
        let first = open(&mut callers, 0, OTHER, &answered).unwrap();
        advance(Duration::from_secs(1)).await;
        let root = open(&mut callers, 1, ROOT, &Arc::new(Activity::new(epoch))).unwrap();
        let mut silent = Vec::new();
        for id in 2..3 * CONNECTIONS_MAX {
            advance(Duration::from_millis(1)).await;
            let activity = Arc::new(Activity::new(epoch));
            silent.push(open(&mut callers, id, OTHER, &activity).unwrap());
        }
        assert!(!first.is_cancelled() && !root.is_cancelled());
        let open_count = silent.iter().filter(|each| !each.is_cancelled()).count();
        assert_eq!(open_count, CONNECTIONS_MAX / 2 - 1);
        assert!(!silent.last().unwrap().is_cancelled());
    }

    #[tokio::test(start_paused = true)]
    async fn a_user_whose_requests_are_all_under_way_gets_no_further_place() {
        let mut callers = Callers::new();
        let answered = Arc::new(Activity::new(Instant::now()));
        answered.enter(Phase::Answering);
        for id in 0..CONNECTIONS_MAX / 2 {
            assert!(open(&mut callers, id, OTHER, &answered).is_some());
        }
        assert!(open(&mut callers, CONNECTIONS_MAX, OTHER, &answered).is_none());
        assert!(open(&mut callers, CONNECTIONS_MAX, ROOT, &answered).is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn a_user_that_leaves_answers_unread_keeps_half_of_the_places_from_nobody() {
        let answers = Answers::new();
        let mut held = Vec::new();
        for _ in 0..ANSWERS_MAX / 2 {
            held.push(answers.place(OTHER).await);
        }
        let wait = Duration::from_secs(60);
        assert!(timeout(wait, answers.place(OTHER)).await.is_err());
        assert!(timeout(wait, answers.place(ROOT)).await.is_ok());
        held.pop();
        assert!(timeout(wait, answers.place(OTHER)).await.is_ok());
    }
}
