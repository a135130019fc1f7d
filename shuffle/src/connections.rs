//! Table of open connections: who may open one more, and who closes for it. Pure: the accept loop
//! owns it.
//!
//! A reducer that gets 429 comes again after a second and loses nothing, and one whose connection
//! is closed counts a failure. So a newcomer beyond the bound is refused, unless a connection is
//! open that no fetcher would miss.

use std::cmp::Reverse;
use std::hash::Hash;
use std::time::Duration;

use http_server::{PeerKey, Phase, Place, Places};

/// Time without a request after which a connection may be evicted. A fetcher sends its request as
/// soon as it is connected.
const IDLE: Duration = Duration::from_secs(1);

/// Time after which an answer may be evicted whose reducer takes nothing.
const STALLED: Duration = Duration::from_secs(30);

/// Open connections by the id of their task.
pub(crate) struct Connections<Id> {
    places: Places<Id>,
    peer_max: usize,
}

impl<Id: Copy + Eq + Hash> Connections<Id> {
    pub(crate) fn new(total_max: usize) -> Self {
        let total_max = total_max.max(1);
        let peer_max = total_max.div_ceil(2);
        Self {
            places: Places::new(total_max, peer_max),
            peer_max,
        }
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
        !self.places.is_full() || self.evict(|_| true)
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
                Phase::Idle | Phase::Receiving => IDLE,
                Phase::Answering => STALLED,
            };
            let past = since.checked_sub(limit)?;
            eligible(place).then_some(Reverse(past))
        })
    }
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
                connections: Connections::new(total_max),
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
