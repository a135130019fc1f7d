//! Table of open connections: who may open one more, and who closes for it. Pure: the accept loop
//! owns it.
//!
//! A reducer that gets 429 comes again after a second and loses nothing, and one whose connection
//! is closed counts a failure. So a newcomer beyond the bound is refused, unless a connection is
//! open that no fetcher would miss.
//!
//! A connection is unproven until a request with a job's secret has come: a fetcher's for a round
//! trip or two. Who keeps many of them, and replaces each before it is silent for long, is crowding
//! others out: of such a peer the oldest makes place at once.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::hash::Hash;
use std::time::Duration;

use http_server::{PeerKey, Phase, Place, Places};

/// Time without a request after which a connection may be evicted. A fetcher sends its request as
/// soon as it is connected.
const IDLE: Duration = Duration::from_secs(1);

/// Time after which an answer may be evicted whose reducer takes nothing.
const STALLED: Duration = Duration::from_secs(30);

/// Part of the unproven connections that a peer has when it crowds others out.
const CROWD_PART: usize = 8;

/// Part of all connections that it has unproven then. Fetchers on one host that are all on their
/// way to a busy node have fewer.
const CROWD_PART_OF_ALL: usize = 64;

/// Least number of such connections, however few all are.
const CROWD_MIN: usize = 8;

/// Open connections by the id of their task.
pub(crate) struct Connections<Id> {
    places: Places<Id>,
    peer_max: usize,
    crowd_min: usize,
    threads: usize,
}

impl<Id: Copy + Eq + Hash> Connections<Id> {
    /// Returns an empty table of at most this number of connections, which so many threads serve.
    pub(crate) fn new(total_max: usize, threads: usize) -> Self {
        let total_max = total_max.max(1);
        let peer_max = total_max.div_ceil(2);
        Self {
            places: Places::new(total_max, peer_max),
            peer_max,
            crowd_min: total_max.div_ceil(CROWD_PART_OF_ALL).max(CROWD_MIN),
            threads,
        }
    }

    /// Returns whether one more connection may be accepted beside those of these tasks, evicted
    /// ones included. Each thread may have one that waits for a disk long after its eviction; those
    /// keep nobody out.
    pub(crate) fn may_accept(&self, tasks: usize) -> bool {
        self.places.may_accept(tasks.saturating_sub(self.threads))
    }

    /// Returns the number of open connections.
    pub(crate) fn len(&self) -> usize {
        self.places.count()
    }

    /// Returns whether a newcomer may open a connection. One peer gets half of all.
    pub(crate) fn admit(&mut self, peer: PeerKey) -> bool {
        if self.len() > self.peer_max && self.places.has_share(peer) {
            return self.evict(|place| place.peer == peer);
        }
        !self.places.is_full() || self.evict(|_| true) || self.evict_of_crowd(peer)
    }

    pub(crate) fn insert(&mut self, id: Id, place: Place) {
        self.places.insert(id, place);
    }

    pub(crate) fn remove(&mut self, id: Id) {
        self.places.remove(id);
    }

    /// Closes the connection without progress for longest, if nobody would miss it.
    pub(crate) fn evict(&mut self, eligible: impl Fn(&Place) -> bool) -> bool {
        self.places.evict(|place| {
            let (phase, since) = place.activity.phase_and_time();
            let limit = match phase {
                Phase::Idle | Phase::Receiving | Phase::Kept => IDLE,
                Phase::Answering => STALLED,
            };
            let past = since.checked_sub(limit)?;
            eligible(place).then_some(Reverse(past))
        })
    }
}

impl<Id: Copy + Eq + Hash> Connections<Id> {
    /// Closes the oldest unproven connection of the peer with most of them, if they are a crowd
    /// and the newcomer is not of it.
    fn evict_of_crowd(&mut self, newcomer: PeerKey) -> bool {
        let mut counts = HashMap::new();
        for place in self.places.open().filter(|place| is_unproven(place)) {
            *counts.entry(place.peer).or_insert(0) += 1;
        }
        let unproven: usize = counts.values().sum();
        let crowd = unproven.div_ceil(CROWD_PART).max(self.crowd_min);
        let largest = counts.into_iter().max_by_key(|(_, count)| *count);
        let Some((peer, _)) = largest.filter(|(_, count)| *count >= crowd) else {
            return false;
        };
        let rank = |place: &Place| {
            let (_, since) = place.activity.phase_and_time();
            (place.peer == peer && is_unproven(place)).then_some(Reverse(since))
        };
        peer != newcomer && self.places.evict(rank)
    }
}

fn is_unproven(place: &Place) -> bool {
    let (phase, _) = place.activity.phase_and_time();
    matches!(phase, Phase::Idle | Phase::Receiving)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use http_server::Activity;
    use tokio::time::{Instant, advance};
    use tokio_util::sync::CancellationToken;

    use super::*;

    fn peer(n: u8) -> PeerKey {
        PeerKey::of([10, 0, 0, n].into())
    }

    struct Table {
        epoch: Instant,
        connections: Connections<u32>,
        /// Signals to close, by the connection's id.
        evicted: BTreeMap<u32, CancellationToken>,
    }

    impl Table {
        fn new(total_max: usize) -> Self {
            Self {
                epoch: Instant::now(),
                connections: Connections::new(total_max, 2),
                evicted: BTreeMap::new(),
            }
        }

        /// Opens a connection; returns whether there was a place for it.
        fn open(&mut self, id: u32, from: u8, phase: Phase) -> bool {
            let admitted = self.connections.admit(peer(from));
            if admitted {
                let activity = Arc::new(Activity::new(self.epoch));
                activity.enter(phase);
                let evicted = CancellationToken::new();
                self.evicted.insert(id, evicted.clone());
                let place = Place {
                    peer: peer(from),
                    activity,
                    evicted,
                };
                self.connections.insert(id, place);
            }
            admitted
        }

        /// Ends a connection as its peer does.
        fn end(&mut self, id: u32) {
            self.evicted.remove(&id);
            self.connections.remove(id);
        }

        fn ids(&self) -> Vec<u32> {
            let open = self.evicted.iter().filter(|(_, it)| !it.is_cancelled());
            let ids: Vec<_> = open.map(|(id, _)| *id).collect();
            assert_eq!(ids.len(), self.connections.len());
            ids
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_full_table_refuses_and_evicts_only_who_sends_nothing() {
        let mut table = Table::new(3);
        assert!(table.open(1, 1, Phase::Answering));
        assert!(table.open(2, 2, Phase::Idle));
        assert!(table.open(3, 3, Phase::Receiving));
        assert!(!table.open(4, 4, Phase::Idle));
        advance(IDLE).await;
        assert!(table.open(5, 5, Phase::Answering));
        assert!(table.open(6, 6, Phase::Answering));
        assert_eq!(table.ids(), [1, 5, 6]);
        assert!(!table.open(7, 7, Phase::Answering));
        advance(STALLED - IDLE).await;
        assert!(table.open(8, 8, Phase::Answering));
        assert_eq!(table.ids(), [5, 6, 8]);
    }

    #[tokio::test(start_paused = true)]
    async fn connections_that_are_evicted_and_do_not_end_are_bounded() {
        let mut table = Table::new(3);
        let mut tasks = 0;
        // Each newcomer takes the place of one whose task never runs.
        while table.connections.may_accept(tasks) {
            tasks += 1;
            assert!(table.open(u32::try_from(tasks).unwrap(), 1, Phase::Idle));
            advance(IDLE).await;
            assert!(tasks < 1_000, "descriptors without a bound");
        }
        let closing = tasks - table.connections.len();
        // As many as threads may wait for disks, and still others are accepted.
        assert!(closing > 2, "{closing}");
        assert!(table.connections.may_accept(tasks - 1));
    }

    #[tokio::test(start_paused = true)]
    async fn two_peers_that_replace_silent_connections_for_ever_keep_nobody_out() {
        let mut table = Table::new(64);
        let mut next = 0..;
        let mut open = |table: &mut Table, from, phase| {
            let id = next.next().unwrap();
            table.open(id, from, phase).then_some(id)
        };
        let answered = open(&mut table, 3, Phase::Answering).unwrap();
        let kept = open(&mut table, 3, Phase::Kept).unwrap();
        for _ in 0..64 {
            for crowd in [1, 2] {
                open(&mut table, crowd, Phase::Idle);
            }
        }
        for round in 0..200 {
            advance(IDLE / 100).await;
            let reducer = open(&mut table, 4, Phase::Idle);
            let reducer = reducer.unwrap_or_else(|| panic!("refused in round {round}"));
            // All others of both are replaced before its request comes.
            let silent: Vec<_> = table.ids().into_iter().filter(|id| *id > kept).collect();
            for id in silent.into_iter().filter(|id| *id != reducer) {
                table.end(id);
            }
            for _ in 0..64 {
                for crowd in [1, 2] {
                    open(&mut table, crowd, Phase::Receiving);
                }
            }
            assert!(table.ids().contains(&reducer), "evicted in round {round}");
            table.end(reducer);
            // Their next connection takes the place.
            open(&mut table, 1, Phase::Idle);
            open(&mut table, 2, Phase::Idle);
        }
        assert_eq!(table.ids()[..1], [answered]);
    }

    /// Slow reducers of one user hold what they may, and silent connections all the rest.
    #[tokio::test(start_paused = true)]
    async fn two_peers_with_a_secret_and_silent_connections_keep_nobody_out() {
        let mut table = Table::new(1_024);
        for id in 0..896 {
            assert!(table.open(id, 1 + u8::try_from(id % 2).unwrap(), Phase::Answering));
        }
        for id in 896..1_024 {
            assert!(table.open(id, 1 + u8::try_from(id % 2).unwrap(), Phase::Idle));
        }
        assert!(table.open(1_024, 3, Phase::Idle));
        assert_eq!(table.ids()[..896], (0..896).collect::<Vec<_>>());
    }

    #[tokio::test(start_paused = true)]
    async fn a_few_requests_on_their_way_are_no_crowd() {
        let mut table = Table::new(64);
        for id in 0..64 {
            let phase = if id < 7 {
                Phase::Idle
            } else {
                Phase::Answering
            };
            assert!(table.open(id, u8::try_from(id).unwrap() % 4, phase));
        }
        assert!(!table.open(64, 9, Phase::Idle));
        // Nor are connections that have had an answer, however many.
        let mut table = Table::new(64);
        for id in 0..64 {
            assert!(table.open(id, u8::try_from(id % 2).unwrap(), Phase::Kept));
        }
        assert!(!table.open(64, 9, Phase::Idle));
    }

    #[tokio::test(start_paused = true)]
    async fn one_peer_gets_half_and_evicts_its_own() {
        let mut table = Table::new(4);
        assert!(table.open(1, 1, Phase::Idle));
        assert!(table.open(2, 2, Phase::Answering));
        assert!(table.open(3, 2, Phase::Answering));
        assert!(!table.open(4, 2, Phase::Answering));
        advance(STALLED).await;
        assert!(table.open(5, 2, Phase::Answering));
        assert!(table.open(6, 3, Phase::Answering));
        assert!(table.ids().contains(&1));
        assert_eq!(table.ids().len(), 4);
    }
}
