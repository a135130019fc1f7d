//! Peers that have not authenticated themselves yet: their places, apart from those of callers.
//!
//! Honest peers send at once and are through in some milliseconds. So a newcomer evicts a peer that
//! has sent nothing for a moment, or one that has taken very long, the oldest first. If there is
//! none, it waits in the kernel's queue until there is. A newcomer from an address that has its
//! share evicts the oldest peer of that address at once: a handshake survives as long as fewer
//! newcomers than the share arrive meanwhile, and whoever holds many places holds up itself alone.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use super::ServerLimits;

/// Age at which a peer that has sent nothing may be evicted. Longer than a round trip, and than a
/// busy machine takes to read what has arrived.
const SILENT_AGE: Duration = Duration::from_millis(250);

/// Age at which a peer that has sent something may be evicted. A handshake on a busy machine takes
/// less, also beside hundreds of others.
const UNFINISHED_AGE: Duration = Duration::from_secs(5);

/// Pause before the next look for a place. The kernel queues newcomers meanwhile.
const FULL_PAUSE: Duration = Duration::from_millis(20);

/// Places of one server.
#[derive(Debug)]
pub(super) struct Strangers {
    table: Mutex<Table>,
    total_max: usize,
    per_address_max: usize,
}

#[derive(Debug, Default)]
struct Table {
    /// In the order of their arrival.
    present: Vec<Stranger>,
    next_id: u64,
}

#[derive(Debug)]
struct Stranger {
    id: u64,
    address: IpAddr,
    since: Instant,
    has_sent: Arc<AtomicBool>,
    evicted: CancellationToken,
}

/// Place of one peer, given back on drop.
#[derive(Debug)]
pub(super) struct StrangerPlace {
    id: u64,
    /// Set once the peer has sent something.
    pub(super) has_sent: Arc<AtomicBool>,
    /// Cancelled when the connection must close.
    pub(super) evicted: CancellationToken,
    strangers: Arc<Strangers>,
}

impl Strangers {
    pub(super) fn new(limits: &ServerLimits) -> Self {
        Self {
            table: Mutex::default(),
            total_max: limits.strangers_max.max(1),
            per_address_max: limits.strangers_per_address_max.max(1),
        }
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        // Strangers are inserted and removed whole, so a panic of another thread leaves nothing
        // half done.
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until there is a place for one more peer, after an eviction if none is free.
    pub(super) async fn place_free(&self) {
        while !self.has_place() {
            sleep(FULL_PAUSE).await;
        }
    }

    fn has_place(&self) -> bool {
        let mut table = self.table();
        table.present.len() < self.total_max || table.evict()
    }

    /// Gives a place to a peer with this address; evicts the oldest peer of the address if that has
    /// its share.
    pub(super) fn admit(self: &Arc<Self>, peer: IpAddr) -> StrangerPlace {
        let address = network_of(peer);
        let own = |stranger: &Stranger| stranger.address == address;
        let mut table = self.table();
        let present = table.present.iter().filter(|stranger| own(stranger));
        if present.count() >= self.per_address_max
            && let Some(oldest) = table.present.iter().position(own)
        {
            table.evict_at(oldest);
        }
        let id = table.next_id;
        table.next_id += 1;
        let place = StrangerPlace {
            id,
            has_sent: Arc::default(),
            evicted: CancellationToken::new(),
            strangers: Arc::clone(self),
        };
        table.present.push(Stranger {
            id,
            address,
            since: Instant::now(),
            has_sent: Arc::clone(&place.has_sent),
            evicted: place.evicted.clone(),
        });
        place
    }

    /// Evicts a peer for its descriptor, if one may be evicted.
    pub(super) fn evict_one(&self) {
        self.table().evict();
    }
}

impl Table {
    /// Evicts the oldest peer that has been silent for a moment, or else the oldest one that has
    /// taken very long. Returns whether there was one.
    fn evict(&mut self) -> bool {
        let silent = self.present.iter().position(|each| {
            let has_sent = each.has_sent.load(Ordering::Relaxed);
            !has_sent && each.since.elapsed() >= SILENT_AGE
        });
        // The first is the oldest.
        let first = self.present.first();
        let unfinished = || (first?.since.elapsed() >= UNFINISHED_AGE).then_some(0);
        let Some(at) = silent.or_else(unfinished) else {
            return false;
        };
        self.evict_at(at);
        true
    }

    fn evict_at(&mut self, at: usize) {
        self.present.remove(at).evicted.cancel();
    }
}

impl Drop for StrangerPlace {
    fn drop(&mut self) {
        let mut table = self.strangers.table();
        // The ids ascend. An evicted one is gone already.
        let at = table.present.binary_search_by_key(&self.id, |each| each.id);
        if let Ok(at) = at {
            table.present.remove(at);
        }
    }
}

/// Returns the address by which a peer is counted: for IPv6 its /64 network, which one host usually
/// has whole.
fn network_of(peer: IpAddr) -> IpAddr {
    match peer.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & (u128::MAX << 64)).into(),
        address @ IpAddr::V4(_) => address,
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    fn strangers(total: usize, per_address: usize) -> Arc<Strangers> {
        Arc::new(Strangers::new(&ServerLimits {
            strangers_max: total,
            strangers_per_address_max: per_address,
            ..ServerLimits::default()
        }))
    }

    fn admit(strangers: &Arc<Strangers>, address: &str) -> StrangerPlace {
        strangers.admit(address.parse().unwrap())
    }

    fn evicted(places: &[StrangerPlace]) -> Vec<bool> {
        let is_evicted = |place: &StrangerPlace| place.evicted.is_cancelled();
        places.iter().map(is_evicted).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn the_oldest_silent_peer_goes_first_and_none_before_its_time() {
        let strangers = strangers(3, 3);
        let addresses = ["10.0.0.1", "10.0.0.2", "10.0.0.3"];
        let places = addresses.map(|address| admit(&strangers, address));
        places[0].has_sent.store(true, Ordering::Relaxed);
        assert!(!strangers.has_place());
        advance(SILENT_AGE).await;
        assert!(strangers.has_place());
        assert_eq!(evicted(&places), [false, true, false]);
        let newcomer = admit(&strangers, "10.0.0.4");
        advance(SILENT_AGE).await;
        assert!(strangers.has_place());
        assert_eq!(evicted(&places), [false, true, true]);
        drop(newcomer);
        assert!(strangers.has_place());
    }

    #[tokio::test(start_paused = true)]
    async fn a_peer_that_has_sent_something_goes_when_it_takes_too_long() {
        let strangers = strangers(1, 1);
        let place = admit(&strangers, "10.0.0.1");
        place.has_sent.store(true, Ordering::Relaxed);
        advance(SILENT_AGE).await;
        assert!(!strangers.has_place());
        strangers.place_free().await;
        assert!(place.evicted.is_cancelled());
    }

    #[tokio::test(start_paused = true)]
    async fn an_address_with_its_share_evicts_its_own_oldest_at_once() {
        let strangers = strangers(10, 2);
        let addresses = ["10.0.0.1", "10.0.0.2", "::ffff:10.0.0.2"];
        let places = addresses.map(|address| admit(&strangers, address));
        places[1].has_sent.store(true, Ordering::Relaxed);
        let first = admit(&strangers, "10.0.0.2");
        assert_eq!(evicted(&places), [false, true, false]);
        let _second = admit(&strangers, "10.0.0.2");
        assert_eq!(evicted(&places), [false, true, true]);
        assert!(!first.evicted.is_cancelled());
    }

    #[tokio::test(start_paused = true)]
    async fn a_peer_that_leaves_gives_its_place_back_at_once() {
        let strangers = strangers(1, 1);
        let place = admit(&strangers, "10.0.0.1");
        assert!(!strangers.has_place());
        drop(place);
        assert!(strangers.has_place());
    }

    #[tokio::test(start_paused = true)]
    async fn a_descriptor_is_taken_from_a_silent_peer_though_places_are_free() {
        let strangers = strangers(10, 10);
        let place = admit(&strangers, "10.0.0.1");
        strangers.evict_one();
        assert!(!place.evicted.is_cancelled());
        advance(SILENT_AGE).await;
        strangers.evict_one();
        assert!(place.evicted.is_cancelled());
    }

    #[test]
    fn peers_are_counted_by_network_where_one_host_has_many_addresses() {
        let network = |address: &str| network_of(address.parse().unwrap());
        assert_eq!(network("2001:db8::1"), network("2001:db8::ffff:1"));
        assert_ne!(network("2001:db8::1"), network("2001:db8:0:1::1"));
        assert_ne!(network("10.0.0.1"), network("10.0.0.2"));
    }
}
