//! The table of open connections, and the choice of a victim. Pure: the accept loop owns it.

use std::collections::HashMap;
use std::hash::Hash;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use crate::activity::Activity;

/// Evicted connections at most that have not ended. They end as soon as their tasks run.
const CLOSING_MAX: usize = 64;

/// Peer as the limits count it. An IPv6 peer is its /64 network, which one host usually has whole;
/// a peer of this machine that the kernel names is its user.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PeerKey(Key);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Key {
    Network(IpAddr),
    User(u32),
}

impl PeerKey {
    /// Returns the key of a peer at this address.
    #[must_use]
    pub fn of(address: IpAddr) -> Self {
        Self(Key::Network(match address.to_canonical() {
            IpAddr::V6(address) => {
                let network = address.to_bits() & (u128::MAX << 64);
                IpAddr::V6(Ipv6Addr::from_bits(network))
            }
            address @ IpAddr::V4(_) => address,
        }))
    }

    /// Returns the key of a peer that is this user of the machine.
    #[must_use]
    pub const fn of_user(uid: u32) -> Self {
        Self(Key::User(uid))
    }
}

/// An open connection.
#[derive(Debug)]
pub struct Place {
    /// Peer of the connection.
    pub peer: PeerKey,
    /// Phase of the connection and the time of its last progress.
    pub activity: Arc<Activity>,
    /// Cancelled when the connection must close at once.
    pub evicted: CancellationToken,
}

/// Open connections by the id of their task, and the bounds on their number. Who is refused and who
/// is evicted for a newcomer is the server's choice.
#[derive(Debug)]
pub struct Places<Id> {
    open: HashMap<Id, Place>,
    total_max: usize,
    per_peer_max: usize,
}

impl<Id: Copy + Eq + Hash> Places<Id> {
    /// Returns an empty table with bounds on all connections and on those of one peer.
    #[must_use]
    pub fn new(total_max: usize, per_peer_max: usize) -> Self {
        Self {
            open: HashMap::new(),
            total_max,
            per_peer_max,
        }
    }

    /// Returns whether one more connection may be accepted beside those of these tasks. Each task
    /// has a connection, also one that is evicted and has not ended: while many of those are left,
    /// newcomers wait, or a burst of them would have more descriptors than any bound.
    #[must_use]
    pub fn may_accept(&self, tasks: usize) -> bool {
        tasks < self.open.len() + CLOSING_MAX
    }

    /// Returns the number of open connections.
    #[must_use]
    pub fn count(&self) -> usize {
        self.open.len()
    }

    /// Returns the open connections, in no order.
    pub fn open(&self) -> impl Iterator<Item = &Place> {
        self.open.values()
    }

    /// Returns whether no further connection fits.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.open.len() >= self.total_max
    }

    /// Returns whether a peer has as many connections as one peer may.
    #[must_use]
    pub fn has_share(&self, peer: PeerKey) -> bool {
        let own = self.open.values().filter(|place| place.peer == peer);
        own.count() >= self.per_peer_max
    }

    /// Evicts the connection with the least rank; one without a rank stays. Returns whether one was
    /// evicted.
    pub fn evict<R: Ord>(&mut self, rank: impl Fn(&Place) -> Option<R>) -> bool {
        let ranked = self.open.iter();
        let ranked = ranked.filter_map(|(id, place)| Some((rank(place)?, *id)));
        let Some((_, id)) = ranked.min_by(|(one, _), (other, _)| one.cmp(other)) else {
            return false;
        };
        if let Some(place) = self.open.remove(&id) {
            tracing::debug!(peer = ?place.peer.0, "closing a connection to make room");
            place.evicted.cancel();
        }
        true
    }

    /// Evicts until one more connection of `peer` fits: first of its own, if it has its share, then
    /// of anybody, in the order of [`Activity::eviction_rank`].
    pub(crate) fn make_room(&mut self, peer: PeerKey) {
        if self.has_share(peer) {
            self.evict(|place| (place.peer == peer).then(|| place.activity.eviction_rank()));
        }
        if self.is_full() {
            self.evict(|place| Some(place.activity.eviction_rank()));
        }
    }

    /// Adds a connection.
    pub fn insert(&mut self, id: Id, place: Place) {
        self.open.insert(id, place);
    }

    /// Forgets a connection that has ended; no effect after its eviction.
    pub fn remove(&mut self, id: Id) {
        self.open.remove(&id);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::{Instant, advance};

    use super::*;
    use crate::activity::Phase;

    fn peer(address: &str) -> PeerKey {
        PeerKey::of(address.parse().unwrap())
    }

    struct Table {
        places: Places<u32>,
        epoch: Instant,
    }

    impl Table {
        fn new(connections: usize, connections_per_address: usize) -> Self {
            Self {
                places: Places::new(connections, connections_per_address),
                epoch: Instant::now(),
            }
        }

        /// Adds a connection one second after the one before.
        async fn open(&mut self, id: u32, from: &str, phase: Phase) {
            advance(Duration::from_secs(1)).await;
            let activity = Arc::new(Activity::new(self.epoch));
            activity.enter(phase);
            self.places.make_room(peer(from));
            let place = Place {
                peer: peer(from),
                activity,
                evicted: CancellationToken::new(),
            };
            self.places.insert(id, place);
        }

        fn ids(&self) -> Vec<u32> {
            let mut ids: Vec<u32> = self.places.open.keys().copied().collect();
            ids.sort_unstable();
            ids
        }
    }

    #[tokio::test(start_paused = true)]
    async fn newcomers_wait_while_many_evicted_connections_have_not_ended() {
        let mut table = Table::new(2, 2);
        let few = u32::try_from(CLOSING_MAX).unwrap() + 1;
        for id in 0..few {
            table.open(id, "10.0.0.1", Phase::Receiving).await;
        }
        // Two are open, the tasks of all others are left.
        assert!(table.places.may_accept(few as usize));
        table.open(few, "10.0.0.1", Phase::Receiving).await;
        assert!(!table.places.may_accept(few as usize + 1));
        assert!(table.places.may_accept(few as usize));
    }

    #[tokio::test(start_paused = true)]
    async fn a_full_table_evicts_the_longest_idle_and_answers_last() {
        let mut table = Table::new(3, 3);
        table.open(1, "10.0.0.1", Phase::Answering).await;
        table.open(2, "10.0.0.2", Phase::Receiving).await;
        table.open(3, "10.0.0.3", Phase::Idle).await;
        table.open(4, "10.0.0.4", Phase::Answering).await;
        assert_eq!(table.ids(), [1, 3, 4]);
        table.open(5, "10.0.0.5", Phase::Answering).await;
        assert_eq!(table.ids(), [1, 4, 5]);
        table.open(6, "10.0.0.6", Phase::Answering).await;
        assert_eq!(table.ids(), [4, 5, 6]);
    }

    #[tokio::test(start_paused = true)]
    async fn an_address_with_its_share_evicts_its_own() {
        let mut table = Table::new(10, 2);
        table.open(1, "10.0.0.1", Phase::Idle).await;
        for id in 2..6 {
            table.open(id, "10.0.0.2", Phase::Idle).await;
        }
        assert_eq!(table.ids(), [1, 4, 5]);
    }

    #[test]
    fn peers_are_counted_by_network_where_one_host_has_many_addresses() {
        assert_eq!(peer("2001:db8::1"), peer("2001:db8::ffff:1"));
        assert_ne!(peer("2001:db8::1"), peer("2001:db8:0:1::1"));
        assert_eq!(peer("::ffff:10.0.0.1"), peer("10.0.0.1"));
        assert_ne!(peer("10.0.0.1"), peer("10.0.0.2"));
    }
}
