//! Turns of downloads at the threads, and the downloads under way.
//!
//! ```text
//!            ask                next                  ended
//!  (nothing) ────► Queued, for ──────► UnderWay ─────────────────► (nothing)
//!      ▲           each user              │ stalled                    ▲
//!      └────────────── leave (the last)   └──────► UnderWay, stalled ──┘ ended
//! ```
//! A download is queued for every user that waits for it and starts at the first turn of any of
//! them, so that nobody waits behind the queue of the user who asked first.
//!
//! Public resources and users' own have a lane of threads each (Hadoop: `PublicLocalizer` beside
//! one `LocalizerRunner` for each container). A lane shares some threads fairly; beyond them a user
//! with nothing under way gets a thread of its own, so that long downloads of others delay nobody.
//! A thread that hangs in its source cannot be stopped. It stays charged to its user, and no longer
//! takes one of the shared.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::super::progress::Progress;
use super::super::turns::Turns;
use super::super::user_name::UserName;
use super::EntryId;

/// Threads of a lane beyond the shared ones: for as many users whose downloads find all shared
/// threads taken, or for threads that hang.
const OWN_THREADS_MAX: usize = 32;

/// Limit on the threads of one user in a lane, as a multiple of the shared ones: all of these, and
/// as many again in place of some that hang.
const USER_THREADS_FACTOR: usize = 2;

/// Kind of resource by who may share it. Each has threads of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lane {
    /// Public resources, shared by all users.
    Public,
    /// Private resources and those of applications.
    Own,
}

/// Queued downloads and those under way.
#[derive(Debug)]
pub(super) struct Downloads {
    public: LaneTurns,
    own: LaneTurns,
    states: BTreeMap<EntryId, (Lane, State)>,
}

#[derive(Debug)]
enum State {
    /// Number of requests that wait, by user; never empty.
    Queued(BTreeMap<UserName, usize>),
    UnderWay(UnderWay),
}

#[derive(Debug)]
struct UnderWay {
    /// User whose turn it was.
    charged: UserName,
    progress: Arc<Progress>,
    /// Number of steps at the last change that a check saw, and the time of that check.
    seen: Option<(u64, u64)>,
    is_stalled: bool,
}

#[derive(Debug)]
struct LaneTurns {
    turns: Turns<EntryId>,
    shared_threads: usize,
    /// Number of downloads under way, with those that stalled.
    under_way: usize,
    stalled: usize,
}

impl LaneTurns {
    fn new(shared_threads: usize) -> Self {
        Self {
            turns: Turns::default(),
            shared_threads: shared_threads.max(1),
            under_way: 0,
            stalled: 0,
        }
    }

    fn next(&mut self) -> Option<(UserName, EntryId)> {
        let shared = self.shared_threads;
        let has_thread = self.under_way < shared.saturating_add(OWN_THREADS_MAX);
        let has_shared = self.under_way - self.stalled < shared;
        let user_max = shared.saturating_mul(USER_THREADS_FACTOR);
        let started = self
            .turns
            .next(|of_user| has_thread && (of_user == 0 || (has_shared && of_user < user_max)));
        self.under_way += usize::from(started.is_some());
        started
    }

    fn ended(&mut self, user: &UserName, was_stalled: bool) {
        self.turns.ended(user);
        self.under_way -= 1;
        self.stalled -= usize::from(was_stalled);
    }
}

impl Downloads {
    /// Returns no downloads; each lane shares `shared_threads`.
    pub(super) fn new(shared_threads: usize) -> Self {
        Self {
            public: LaneTurns::new(shared_threads),
            own: LaneTurns::new(shared_threads),
            states: BTreeMap::new(),
        }
    }

    fn lane(&mut self, lane: Lane) -> &mut LaneTurns {
        match lane {
            Lane::Public => &mut self.public,
            Lane::Own => &mut self.own,
        }
    }

    /// Records that a request of a user waits for this download.
    pub(super) fn ask(&mut self, entry: EntryId, lane: Lane, user: &UserName) {
        let new = || (lane, State::Queued(BTreeMap::new()));
        let (lane, state) = self.states.entry(entry).or_insert_with(new);
        let lane = *lane;
        match state {
            State::Queued(users) => {
                *users.entry(user.clone()).or_default() += 1;
                self.lane(lane).turns.queue(user, entry);
            }
            State::UnderWay(_) => {}
        }
    }

    /// Records that a request of a user no longer waits for this download. It leaves the queue with
    /// the last, and aborts if it is under way and nobody waits.
    pub(super) fn leave(&mut self, entry: EntryId, user: &UserName, is_waited_for: bool) {
        let Some((lane, state)) = self.states.get_mut(&entry) else {
            return;
        };
        let lane = *lane;
        match state {
            State::Queued(users) => {
                let left = users.get_mut(user).map(|asks| {
                    *asks -= 1;
                    *asks
                });
                if left == Some(0) {
                    users.remove(user);
                    if users.is_empty() {
                        self.states.remove(&entry);
                    }
                    self.lane(lane).turns.withdraw(user, &entry);
                }
            }
            State::UnderWay(under_way) if !is_waited_for => under_way.progress.give_up(),
            State::UnderWay(_) => {}
        }
    }

    /// Starts the download whose turn it is, if there is a thread for it.
    pub(super) fn next(&mut self) -> Option<(EntryId, Arc<Progress>)> {
        let (lane, (charged, entry)) = match self.public.next() {
            Some(started) => (Lane::Public, started),
            None => (Lane::Own, self.own.next()?),
        };
        let progress = Arc::new(Progress::default());
        let under_way = UnderWay {
            charged,
            progress: progress.clone(),
            seen: None,
            is_stalled: false,
        };
        let was = self
            .states
            .insert(entry, (lane, State::UnderWay(under_way)));
        if let Some((_, State::Queued(users))) = was {
            for user in users.keys() {
                self.lane(lane).turns.withdraw(user, &entry);
            }
        }
        Some((entry, progress))
    }

    /// Records that the thread of a download is free again.
    pub(super) fn ended(&mut self, entry: EntryId) {
        if let Some((lane, State::UnderWay(ended))) = self.states.remove(&entry) {
            self.lane(lane).ended(&ended.charged, ended.is_stalled);
        }
    }

    /// Returns the number of threads that download.
    pub(super) fn threads(&self) -> usize {
        self.public.under_way + self.own.under_way
    }

    /// Makes all downloads under way abort at their next step.
    pub(super) fn give_up_all(&self) {
        for (_, state) in self.states.values() {
            if let State::UnderWay(under_way) = state {
                under_way.progress.give_up();
            }
        }
    }

    /// Returns the downloads that made no progress for `limit_ms` by the checks so far, each once.
    /// They abort at their next step.
    pub(super) fn check_progress(&mut self, now_ms: u64, limit_ms: u64) -> Vec<EntryId> {
        let mut found = Vec::new();
        for (entry, (lane, state)) in &mut self.states {
            let State::UnderWay(under_way) = state else {
                continue;
            };
            let steps = under_way.progress.steps();
            let (seen, since_ms) = *under_way.seen.get_or_insert((steps, now_ms));
            if steps != seen {
                under_way.seen = Some((steps, now_ms));
            } else if !under_way.is_stalled && now_ms.saturating_sub(since_ms) >= limit_ms {
                under_way.is_stalled = true;
                under_way.progress.give_up();
                found.push((*entry, *lane));
            }
        }
        for (_, lane) in &found {
            self.lane(*lane).stalled += 1;
        }
        found.into_iter().map(|(entry, _)| entry).collect()
    }

    /// Returns whether a download is queued or under way.
    #[cfg(test)]
    pub(super) fn is_known(&self, entry: EntryId) -> bool {
        self.states.contains_key(&entry)
    }

    /// Returns whether no download is queued or under way.
    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        let lanes = [&self.public, &self.own];
        self.states.is_empty() && lanes.iter().all(|lane| lane.turns.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(name: &str) -> UserName {
        name.parse().unwrap()
    }

    /// Returns downloads of which `joe` asks for the first so many.
    fn asked_by_joe(shared_threads: usize, entries: u64) -> Downloads {
        let mut downloads = Downloads::new(shared_threads);
        (0..entries).for_each(|n| downloads.ask(EntryId(n), Lane::Own, &user("joe")));
        downloads
    }

    /// Starts all that may start, and returns the ids.
    fn start(downloads: &mut Downloads) -> Vec<u64> {
        let next = || Some(downloads.next()?.0.0);
        std::iter::from_fn(next).collect()
    }

    #[test]
    fn a_user_whose_downloads_take_all_shared_threads_delays_no_other() {
        let mut downloads = asked_by_joe(4, 100);
        assert_eq!(start(&mut downloads), [0, 1, 2, 3]);
        for n in 200..203 {
            downloads.ask(EntryId(n), Lane::Own, &user("ann"));
        }
        assert_eq!(start(&mut downloads), [200]);
        downloads.ended(EntryId(200));
        assert_eq!(start(&mut downloads), [201]);
        // A shared thread that becomes free is again the turn of the user with the fewest.
        downloads.ended(EntryId(0));
        assert_eq!(start(&mut downloads), [0_u64; 0]);
        downloads.ended(EntryId(1));
        assert_eq!(start(&mut downloads), [202]);
    }

    #[test]
    fn public_resources_and_users_own_do_not_wait_for_each_other() {
        let mut downloads = asked_by_joe(2, 9);
        start(&mut downloads);
        for n in 100..109 {
            downloads.ask(EntryId(n), Lane::Public, &user("joe"));
        }
        assert_eq!(start(&mut downloads), [100, 101]);
        assert_eq!(downloads.threads(), 4);
    }

    #[test]
    fn a_resource_that_several_users_wait_for_starts_at_the_first_turn_of_any() {
        let mut downloads = asked_by_joe(1, 9);
        assert_eq!(start(&mut downloads), [0]);
        downloads.ask(EntryId(8), Lane::Own, &user("ann"));
        assert_eq!(start(&mut downloads), [8]);
        for n in 0..8 {
            downloads.ended(EntryId(n));
            start(&mut downloads);
        }
        downloads.ended(EntryId(8));
        assert!(downloads.is_empty());
    }

    #[test]
    fn a_queued_download_leaves_with_the_last_request_that_waits() {
        let mut downloads = asked_by_joe(1, 2);
        start(&mut downloads);
        downloads.ask(EntryId(1), Lane::Own, &user("joe"));
        downloads.ask(EntryId(1), Lane::Own, &user("ann"));
        downloads.leave(EntryId(1), &user("joe"), true);
        downloads.leave(EntryId(1), &user("ann"), true);
        assert!(downloads.is_known(EntryId(1)));
        downloads.leave(EntryId(1), &user("joe"), false);
        assert!(!downloads.is_known(EntryId(1)));
        downloads.ended(EntryId(0));
        assert!(start(&mut downloads).is_empty() && downloads.is_empty());
    }

    #[test]
    fn threads_that_hang_are_replaced_within_a_bound_for_the_user() {
        let mut downloads = asked_by_joe(2, 9);
        assert_eq!(start(&mut downloads), [0, 1]);
        let stalled = |downloads: &mut Downloads, now_ms| {
            let stalled = downloads.check_progress(now_ms, 10);
            stalled.into_iter().map(|entry| entry.0).collect::<Vec<_>>()
        };
        assert_eq!(stalled(&mut downloads, 0), [0_u64; 0]);
        assert_eq!(stalled(&mut downloads, 10), [0, 1]);
        assert_eq!(start(&mut downloads), [2, 3]);
        stalled(&mut downloads, 10);
        assert_eq!(stalled(&mut downloads, 20), [2, 3]);
        assert_eq!(start(&mut downloads), [0_u64; 0]);
        for n in 100..103 {
            downloads.ask(EntryId(n), Lane::Own, &user("ann"));
        }
        assert_eq!(start(&mut downloads), [100, 101]);
        // A hanging thread that comes back serves its user again.
        downloads.ended(EntryId(100));
        downloads.ended(EntryId(0));
        assert_eq!(start(&mut downloads), [102]);
        downloads.ended(EntryId(101));
        assert_eq!(start(&mut downloads), [4]);
    }

    #[test]
    fn the_threads_of_a_lane_are_bounded() {
        let mut downloads = Downloads::new(4);
        let bound = 4 + OWN_THREADS_MAX;
        for (n, entry) in (0..bound + 5).zip(0..) {
            downloads.ask(EntryId(entry), Lane::Own, &user(&format!("user{n}")));
        }
        assert_eq!(start(&mut downloads).len(), bound);
        downloads.ended(EntryId(0));
        assert_eq!(start(&mut downloads).len(), 1);
    }
}
