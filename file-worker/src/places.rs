//! Places of workers: who has one, and whose turn the next is. Pure: events and time in, the next
//! start or end out.
//!
//! ```text
//!  wait(key) ─► waiting ─ next(): Start ─► held, with sessions ─► idle
//!                                  (free) ◄─ ending ◄─ next(): End ─┘
//! ```
//! A user whose callers wait has the next place before users that hold more. An idle worker gives
//! its place to whoever waits, the longest idle one first.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use namenode_access::Proof;
use users::AccountIds;

/// Workers at the same time, at most.
pub(crate) const PLACES_MAX: usize = 64;

/// Places that one user takes at most, so that others find some.
pub(crate) const USER_MAX: usize = PLACES_MAX / 2;

/// Sessions of a worker at the same time, at most, for which a file system is opened.
pub(crate) const SESSIONS_MAX: usize = 32;

/// Sessions of a worker at the same time, at most, for which an archive is read. Whoever reads one
/// may have a session with its content: so there is room when all of those are taken.
const SESSIONS_WITH_ARCHIVES_MAX: usize = 2 * SESSIONS_MAX;

/// Time without a session after which a worker ends.
pub(crate) const IDLE_MAX: Duration = Duration::from_secs(60);

/// Work that shares a worker.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    /// Whether it is the program's own.
    pub(crate) is_own: bool,
    /// User in whose name it is done.
    pub(crate) user: String,
    /// Work, such as an application.
    pub(crate) work: String,
    /// Whether the worker has a secret, by which it proves itself to NameNodes.
    pub(crate) has_secret: bool,
}

/// Purpose of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    FileSystem,
    Archive,
}

/// Facts about a worker that is wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wanted {
    /// User whose share of the places it takes.
    pub(crate) charged: String,
    /// Account that it becomes.
    pub(crate) account: Option<AccountIds>,
    /// How it proves itself to NameNodes.
    pub(crate) proof: Option<Proof>,
}

#[derive(Debug)]
struct Waiting {
    wanted: Wanted,
    callers: usize,
    since: u64,
}

#[derive(Debug)]
struct Held {
    charged: String,
    sessions: usize,
    /// Moment since which there is no session; `None`: there is one, or the worker is starting.
    idle_since: Option<Instant>,
}

/// Step that is due.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Start a worker, which has its place from now on.
    Start(Key, Wanted),
    /// End the idle worker of this key, which is ending from now on.
    End(Key),
}

/// Table of all places.
#[derive(Debug, Default)]
pub(crate) struct Places {
    waiting: BTreeMap<Key, Waiting>,
    held: BTreeMap<Key, Held>,
    /// Users of workers that are ending.
    ending: BTreeMap<Key, Vec<String>>,
    tick: u64,
}

impl Places {
    /// Records a caller that waits for a worker.
    pub(crate) fn wait(&mut self, key: &Key, wanted: Wanted) {
        self.tick += 1;
        let since = self.tick;
        let new = || Waiting {
            wanted,
            callers: 0,
            since,
        };
        self.waiting.entry(key.clone()).or_insert_with(new).callers += 1;
    }

    /// Records that a caller waits no more.
    pub(crate) fn leave(&mut self, key: &Key) {
        if let Some(waiting) = self.waiting.get_mut(key) {
            waiting.callers -= 1;
            if waiting.callers == 0 {
                self.waiting.remove(key);
            }
        }
    }

    /// Returns whether callers wait for a worker of this key.
    pub(crate) fn is_awaited(&self, key: &Key) -> bool {
        self.waiting.contains_key(key)
    }

    /// Takes a session of a worker, unless it has as many as it may.
    pub(crate) fn take_session(&mut self, key: &Key, of_use: Use) -> bool {
        let Some(held) = self.held.get_mut(key) else {
            return false;
        };
        let max = match of_use {
            Use::FileSystem => SESSIONS_MAX,
            Use::Archive => SESSIONS_WITH_ARCHIVES_MAX,
        };
        if held.sessions >= max {
            return false;
        }
        held.sessions += 1;
        held.idle_since = None;
        true
    }

    /// Gives a session back.
    pub(crate) fn release_session(&mut self, key: &Key, now: Instant) {
        if let Some(held) = self.held.get_mut(key) {
            held.sessions = held.sessions.saturating_sub(1);
            if held.sessions == 0 {
                held.idle_since = Some(now);
            }
        }
    }

    /// Records that a new worker serves; without a session it is idle.
    pub(crate) fn started(&mut self, key: &Key, now: Instant) {
        if let Some(held) = self.held.get_mut(key) {
            held.idle_since = Some(now);
        }
    }

    /// Records that a worker is of no use any more: its place is free once it has ended.
    pub(crate) fn retire(&mut self, key: &Key) {
        if let Some(held) = self.held.remove(key) {
            let ending = self.ending.entry(key.clone()).or_default();
            ending.push(held.charged);
        }
    }

    /// Records the end of a retired worker.
    pub(crate) fn ended(&mut self, key: &Key) {
        if let Some(ending) = self.ending.get_mut(key) {
            ending.pop();
            if ending.is_empty() {
                self.ending.remove(key);
            }
        }
    }

    /// Returns the step that is due, which is taken with it.
    pub(crate) fn next(&mut self, now: Instant) -> Option<Next> {
        let expired = self.longest_idle(|_| true);
        let expired = expired.filter(|(_, since)| now.duration_since(*since) >= IDLE_MAX);
        if let Some((key, _)) = expired {
            return Some(self.end(key));
        }
        let new = self.waiting.iter();
        let new = new.filter(|(key, _)| !self.held.contains_key(*key));
        let mut turns: Vec<_> = new
            .map(|(key, waiting)| {
                let charged = &waiting.wanted.charged;
                (self.places_of(charged), waiting.since, key, charged)
            })
            .collect();
        turns.sort_unstable_by_key(|(places, since, ..)| (*places, *since));
        for (places, _, key, charged) in turns {
            let idle = if places >= USER_MAX {
                self.longest_idle(|held| held.charged == *charged)
            } else if self.taken() >= PLACES_MAX {
                self.longest_idle(|_| true)
            } else {
                let key = key.clone();
                return self.start(key);
            };
            if let Some((idle, _)) = idle {
                return Some(self.end(idle));
            }
        }
        None
    }

    /// Returns the moment at which the longest idle worker has been so for long enough.
    pub(crate) fn next_expiry(&self) -> Option<Instant> {
        let (_, since) = self.longest_idle(|_| true)?;
        Some(since + IDLE_MAX)
    }

    fn start(&mut self, key: Key) -> Option<Next> {
        let wanted = self.waiting.get(&key)?.wanted.clone();
        let held = Held {
            charged: wanted.charged.clone(),
            sessions: 0,
            idle_since: None,
        };
        self.held.insert(key.clone(), held);
        Some(Next::Start(key, wanted))
    }

    fn end(&mut self, key: Key) -> Next {
        self.retire(&key);
        Next::End(key)
    }

    fn taken(&self) -> usize {
        self.held.len() + self.ending.values().map(Vec::len).sum::<usize>()
    }

    fn places_of(&self, user: &str) -> usize {
        let held = self.held.values().filter(|held| held.charged == user);
        let ending = self.ending.values().flatten();
        held.count() + ending.filter(|charged| *charged == user).count()
    }

    fn longest_idle(&self, of: impl Fn(&Held) -> bool) -> Option<(Key, Instant)> {
        let idle = self.held.iter().filter(|(_, held)| of(held));
        let idle = idle.filter_map(|(key, held)| Some((key, held.idle_since?)));
        let (key, since) = idle.min_by_key(|(_, since)| *since)?;
        Some((key.clone(), since))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(user: &str, work: usize) -> Key {
        Key {
            has_secret: false,
            is_own: false,
            user: user.to_owned(),
            work: work.to_string(),
        }
    }

    fn wanted(user: &str) -> Wanted {
        Wanted {
            charged: user.to_owned(),
            account: None,
            proof: None,
        }
    }

    /// Has callers of a user wait for this many workers.
    fn wait(places: &mut Places, user: &str, works: std::ops::Range<usize>) {
        for work in works {
            places.wait(&key(user, work), wanted(user));
        }
    }

    /// Takes every start that is due, each with a session that stays, and returns the keys.
    fn start_all(places: &mut Places, now: Instant) -> Vec<Key> {
        let mut started = Vec::new();
        while let Some(next) = places.next(now) {
            let Next::Start(key, _) = next else {
                panic!("{next:?}");
            };
            places.started(&key, now);
            assert!(places.take_session(&key, Use::FileSystem));
            places.leave(&key);
            started.push(key);
        }
        started
    }

    #[test]
    fn a_user_takes_half_of_the_places_and_leaves_the_others_to_others() {
        let (mut places, now) = (Places::default(), Instant::now());
        wait(&mut places, "joe", 0..100);
        assert_eq!(start_all(&mut places, now).len(), USER_MAX);
        wait(&mut places, "ann", 0..1);
        assert_eq!(start_all(&mut places, now), [key("ann", 0)]);
    }

    #[test]
    fn whoever_holds_the_fewest_places_has_the_next() {
        let (mut places, now) = (Places::default(), Instant::now());
        for user in ["joe", "sue"] {
            wait(&mut places, user, 0..USER_MAX);
        }
        assert_eq!(start_all(&mut places, now).len(), PLACES_MAX);
        wait(&mut places, "eve", 0..2);
        wait(&mut places, "ann", 0..1);
        assert_eq!(places.next(now), None);
        for work in 0..2 {
            places.retire(&key("joe", work));
        }
        assert_eq!(places.next(now), None, "the processes have not ended");
        for work in 0..2 {
            places.ended(&key("joe", work));
        }
        assert_eq!(
            start_all(&mut places, now),
            [key("eve", 0), key("ann", 0)],
            "not two of one user"
        );
    }

    #[test]
    fn an_idle_worker_gives_its_place_and_ends_after_a_minute() {
        let (mut places, now) = (Places::default(), Instant::now());
        for user in ["joe", "sue"] {
            wait(&mut places, user, 0..USER_MAX);
        }
        start_all(&mut places, now);
        let later = now + Duration::from_secs(1);
        places.release_session(&key("joe", 4), later);
        places.release_session(&key("joe", 7), now);
        assert_eq!(places.next(later), None, "nobody waits");
        wait(&mut places, "ann", 0..1);
        assert_eq!(places.next(later), Some(Next::End(key("joe", 7))));
        places.ended(&key("joe", 7));
        assert_eq!(start_all(&mut places, later), [key("ann", 0)]);
        let expiry = places.next_expiry().unwrap();
        assert_eq!(expiry, later + IDLE_MAX);
        assert_eq!(places.next(expiry), Some(Next::End(key("joe", 4))));
        assert_eq!(places.next_expiry(), None);
    }

    #[test]
    fn a_worker_has_a_bounded_number_of_sessions() {
        let (mut places, now) = (Places::default(), Instant::now());
        wait(&mut places, "joe", 0..1);
        start_all(&mut places, now);
        let taken = (0..100).filter(|_| places.take_session(&key("joe", 0), Use::FileSystem));
        assert_eq!(taken.count(), SESSIONS_MAX - 1);
    }

    #[test]
    fn archives_find_room_when_all_sessions_with_contents_are_taken() {
        let (mut places, now) = (Places::default(), Instant::now());
        wait(&mut places, "joe", 0..1);
        start_all(&mut places, now);
        let key = key("joe", 0);
        while places.take_session(&key, Use::FileSystem) {}
        let archives = (0..100).filter(|_| places.take_session(&key, Use::Archive));
        assert_eq!(archives.count(), SESSIONS_MAX);
        assert!(!places.take_session(&key, Use::FileSystem));
    }
}
