//! Table of open connections: who may open one more, and who closes for it. Pure: the accept loop
//! owns it.
//!
//! A reducer that gets 429 comes again after a second and loses nothing, and one whose connection
//! is closed counts a failure. So a newcomer beyond the bound is refused, unless a connection is
//! open that no fetcher would miss.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use http_server::{Activity, PeerKey, Phase};
use tokio_util::sync::CancellationToken;

/// Time without a request after which a connection may be evicted. A fetcher sends its request as
/// soon as it is connected.
const IDLE: Duration = Duration::from_secs(1);

/// Time after which an answer may be evicted whose reducer takes nothing.
const STALLED: Duration = Duration::from_secs(30);

/// An open connection.
pub(crate) struct Place {
    pub(crate) peer: PeerKey,
    pub(crate) activity: Arc<Activity>,
    /// Cancelled when the connection must close at once.
    pub(crate) evicted: CancellationToken,
}

/// Open connections by the id of their task.
pub(crate) struct Connections<Id> {
    open: HashMap<Id, Place>,
    total_max: usize,
}

impl<Id: Copy + Eq + Hash> Connections<Id> {
    pub(crate) fn new(total_max: usize) -> Self {
        Self {
            open: HashMap::new(),
            total_max: total_max.max(1),
        }
    }

    /// Returns the number of open connections.
    pub(crate) fn len(&self) -> usize {
        self.open.len()
    }

    /// Returns whether a newcomer may open a connection. One peer gets half of all.
    pub(crate) fn admit(&mut self, peer: PeerKey) -> bool {
        let own = self.open.values().filter(|place| place.peer == peer);
        let peer_max = self.total_max.div_ceil(2);
        if self.open.len() > peer_max && own.count() >= peer_max {
            return self.evict(|place| place.peer == peer);
        }
        self.open.len() < self.total_max || self.evict(|_| true)
    }

    pub(crate) fn insert(&mut self, id: Id, place: Place) {
        self.open.insert(id, place);
    }

    pub(crate) fn remove(&mut self, id: Id) {
        self.open.remove(&id);
    }

    /// Closes the connection without progress for longest, if nobody would miss it.
    pub(crate) fn evict(&mut self, eligible: impl Fn(&Place) -> bool) -> bool {
        let candidates = self.open.iter().filter(|(_, place)| eligible(place));
        let dispensable = candidates.filter_map(|(id, place)| {
            let (phase, since) = place.activity.phase_and_time();
            let limit = match phase {
                Phase::Idle | Phase::Receiving => IDLE,
                Phase::Answering => STALLED,
            };
            let past = since.checked_sub(limit)?;
            Some((past, *id))
        });
        let Some((_, id)) = dispensable.max_by_key(|(past, _)| *past) else {
            return false;
        };
        if let Some(place) = self.open.remove(&id) {
            place.evicted.cancel();
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::{Instant, advance};

    use super::*;

    fn peer(n: u8) -> PeerKey {
        PeerKey::of([10, 0, 0, n].into())
    }

    struct Table {
        epoch: Instant,
        connections: Connections<u32>,
    }

    impl Table {
        fn new(total_max: usize) -> Self {
            Self {
                epoch: Instant::now(),
                connections: Connections::new(total_max),
            }
        }

        /// Opens a connection; returns whether there was a place for it.
        fn open(&mut self, id: u32, from: u8, phase: Phase) -> bool {
            let admitted = self.connections.admit(peer(from));
            if admitted {
                let activity = Arc::new(Activity::new(self.epoch));
                activity.enter(phase);
                let place = Place {
                    peer: peer(from),
                    activity,
                    evicted: CancellationToken::new(),
                };
                self.connections.insert(id, place);
            }
            admitted
        }

        fn ids(&self) -> Vec<u32> {
            let mut ids: Vec<_> = self.connections.open.keys().copied().collect();
            ids.sort_unstable();
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
