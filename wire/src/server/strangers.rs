//! Peers that have not authenticated themselves yet: their places, apart from those of callers.
//!
//! A newcomer always gets a place while there is one. When all are taken, an address that holds
//! more than its share loses one at once, so peers at a few addresses delay nobody, however many
//! connections they open. It loses the oldest of those that have sent a whole frame or of those
//! that have not, whichever are more. So an honest handshake at the same address survives any
//! number of silent newcomers once its first frame is read, and before that as many as half of
//! what the address holds. When no address holds more than its share, all may be honest. Then a
//! newcomer evicts a peer that has sent no frame for a moment, or one that has taken very long,
//! and waits until there is one: honest peers send at once and are through in some milliseconds.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

/// Age at which a peer that has sent no whole frame may be evicted. Longer than a round trip, and
/// than a busy machine takes to read what has arrived.
const SILENT_AGE: Duration = Duration::from_millis(250);

/// Age at which a peer that has sent a frame may be evicted. A handshake on a busy machine takes
/// less, also beside hundreds of others.
const UNFINISHED_AGE: Duration = Duration::from_secs(5);

/// Pause before the next look for a place. The kernel queues further newcomers meanwhile.
const FULL_PAUSE: Duration = Duration::from_millis(20);

/// Share of an address: one in so many places. Peers at as many addresses have to cooperate before
/// a newcomer from elsewhere waits.
const SHARES: usize = 16;

/// Places of one server.
#[derive(Debug)]
pub(super) struct Strangers {
    table: Mutex<Table>,
    total_max: usize,
}

#[derive(Debug, Default)]
struct Table {
    /// In the order of their arrival.
    present: Vec<Stranger>,
    /// Number of those per address, without zeros.
    held: HashMap<IpAddr, usize>,
    next_id: u64,
}

#[derive(Debug)]
struct Stranger {
    id: u64,
    address: IpAddr,
    since: Instant,
    has_begun: Arc<AtomicBool>,
    evicted: CancellationToken,
}

/// Place of one peer, given back on drop.
#[derive(Debug)]
pub(super) struct StrangerPlace {
    id: u64,
    /// Set once the peer has sent a whole frame.
    pub(super) has_begun: Arc<AtomicBool>,
    /// Cancelled when the connection must close.
    pub(super) evicted: CancellationToken,
    strangers: Arc<Strangers>,
}

impl Strangers {
    pub(super) fn new(total_max: usize) -> Self {
        Self {
            table: Mutex::default(),
            total_max: total_max.max(1),
        }
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        // Strangers are inserted and removed whole, so a panic of another thread leaves nothing
        // half done.
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives a place to a peer with this address, after an eviction if none is free; waits until
    /// there is one that may be evicted.
    pub(super) async fn admit(self: &Arc<Self>, peer: IpAddr) -> StrangerPlace {
        loop {
            if let Some(place) = self.try_admit(peer) {
                return place;
            }
            sleep(FULL_PAUSE).await;
        }
    }

    fn try_admit(self: &Arc<Self>, peer: IpAddr) -> Option<StrangerPlace> {
        let address = network_of(peer);
        let mut table = self.table();
        if table.present.len() >= self.total_max && !table.evict(self.share(), Some(address)) {
            return None;
        }
        Some(table.insert(address, self))
    }

    /// Returns the number of places above which an address loses them when all are taken.
    fn share(&self) -> usize {
        self.total_max.div_ceil(SHARES)
    }

    /// Evicts a peer for its descriptor, if one may be evicted.
    pub(super) fn evict_one(&self) {
        self.table().evict(self.share(), None);
    }
}

impl Table {
    fn insert(&mut self, address: IpAddr, strangers: &Arc<Strangers>) -> StrangerPlace {
        let place = StrangerPlace {
            id: self.next_id,
            has_begun: Arc::default(),
            evicted: CancellationToken::new(),
            strangers: Arc::clone(strangers),
        };
        self.next_id += 1;
        *self.held.entry(address).or_default() += 1;
        self.present.push(Stranger {
            id: place.id,
            address,
            since: Instant::now(),
            has_begun: Arc::clone(&place.has_begun),
            evicted: place.evicted.clone(),
        });
        place
    }

    /// Evicts a peer of the address that holds most, the newcomer counted, if that is more than
    /// `share`: the oldest of those that have sent a frame or of the others, whichever are more.
    /// Otherwise evicts a peer of any address that has had its time. Returns whether there was one.
    fn evict(&mut self, share: usize, newcomer: Option<IpAddr>) -> bool {
        let with_newcomer = |(address, held): (&IpAddr, &usize)| {
            (held + usize::from(newcomer == Some(*address)), *address)
        };
        let most = self.held.iter().map(with_newcomer).max();
        let victim = match most {
            Some((held, address)) if held > share => {
                let own = |each: &Stranger| each.address == address;
                let begun = |each: &Stranger| own(each) && each.has_begun();
                let begun_count = self.present.iter().filter(|each| begun(each)).count();
                let first = if begun_count * 2 > held {
                    self.oldest(begun)
                } else {
                    self.oldest(|each| own(each) && !each.has_begun())
                };
                first.or_else(|| self.oldest(own))
            }
            Some(_) | None => {
                let unfinished = |each: &Stranger| each.since.elapsed() >= UNFINISHED_AGE;
                let silent = self.oldest(Stranger::is_silent);
                silent.or_else(|| self.oldest(unfinished))
            }
        };
        let Some(at) = victim else {
            return false;
        };
        self.remove(at).evicted.cancel();
        true
    }

    fn oldest(&self, may_go: impl Fn(&Stranger) -> bool) -> Option<usize> {
        self.present.iter().position(may_go)
    }

    fn remove(&mut self, at: usize) -> Stranger {
        let removed = self.present.remove(at);
        if let Entry::Occupied(mut held) = self.held.entry(removed.address) {
            *held.get_mut() -= 1;
            if *held.get() == 0 {
                held.remove();
            }
        }
        removed
    }
}

impl Stranger {
    fn has_begun(&self) -> bool {
        self.has_begun.load(Ordering::Relaxed)
    }

    /// Returns whether the peer has sent no whole frame for a moment.
    fn is_silent(&self) -> bool {
        !self.has_begun() && self.since.elapsed() >= SILENT_AGE
    }
}

impl Drop for StrangerPlace {
    fn drop(&mut self) {
        let mut table = self.strangers.table();
        // The ids ascend. An evicted one is gone already.
        let at = table.present.binary_search_by_key(&self.id, |each| each.id);
        if let Ok(at) = at {
            table.remove(at);
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

    const SHARE: usize = 2;

    /// Returns places of which an address may hold [`SHARE`] when all are taken.
    fn strangers(total: usize) -> Arc<Strangers> {
        let strangers = Strangers::new(total);
        assert_eq!(strangers.share(), SHARE, "of {total} places");
        Arc::new(strangers)
    }

    fn try_admit(strangers: &Arc<Strangers>, address: &str) -> Option<StrangerPlace> {
        strangers.try_admit(address.parse().unwrap())
    }

    /// Fills all places, two for each address.
    fn filled(strangers: &Arc<Strangers>) -> Vec<StrangerPlace> {
        let peers = (0..strangers.total_max).map(|n| format!("10.0.1.{}", n / SHARE));
        peers
            .map(|address| try_admit(strangers, &address).unwrap())
            .collect()
    }

    /// Returns the numbers of those that are evicted.
    fn evicted(places: &[StrangerPlace]) -> Vec<usize> {
        let is_evicted = |at: &usize| places[*at].evicted.is_cancelled();
        (0..places.len()).filter(is_evicted).collect()
    }

    fn begin(place: &StrangerPlace) {
        place.has_begun.store(true, Ordering::Relaxed);
    }

    #[tokio::test(start_paused = true)]
    async fn the_oldest_silent_peer_goes_first_and_none_before_its_time() {
        let strangers = strangers(20);
        let places = filled(&strangers);
        begin(&places[0]);
        assert!(try_admit(&strangers, "10.0.0.1").is_none());
        advance(SILENT_AGE).await;
        let newcomer = try_admit(&strangers, "10.0.0.1").unwrap();
        assert_eq!(evicted(&places), [1]);
        let _second = try_admit(&strangers, "10.0.0.2").unwrap();
        assert_eq!(evicted(&places), [1, 2]);
        drop(newcomer);
        let _third = try_admit(&strangers, "10.0.0.3").unwrap();
        assert_eq!(evicted(&places), [1, 2]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_peer_that_has_begun_something_goes_when_it_takes_too_long() {
        let strangers = strangers(20);
        let places = filled(&strangers);
        places.iter().for_each(begin);
        advance(SILENT_AGE).await;
        assert!(try_admit(&strangers, "10.0.0.1").is_none());
        strangers.admit("10.0.0.1".parse().unwrap()).await;
        assert_eq!(evicted(&places), [0]);
    }

    /// Neither what attackers have sent nor the age of their connections matters.
    #[tokio::test(start_paused = true)]
    async fn peers_at_a_few_addresses_delay_nobody() {
        let strangers = strangers(20);
        let attackers = ["10.0.0.1", "10.0.0.2", "::ffff:10.0.0.3"];
        let take = |n: usize| try_admit(&strangers, attackers[n % attackers.len()]).unwrap();
        let places: Vec<StrangerPlace> = (0..20).map(take).collect();
        places.iter().for_each(begin);
        let others: Vec<StrangerPlace> = (0..10)
            .map(|n| try_admit(&strangers, &format!("10.0.1.{n}")).unwrap())
            .collect();
        assert_eq!(evicted(&places).len(), 10);
        // Those lose none to further attackers, at old addresses or at new ones.
        let _more: Vec<StrangerPlace> = (0..40).map(take).collect();
        assert_eq!(evicted(&others), Vec::<usize>::new());
    }

    #[tokio::test(start_paused = true)]
    async fn a_newcomer_of_an_address_that_holds_most_evicts_its_own() {
        let strangers = strangers(20);
        let ten = |address| -> Vec<StrangerPlace> {
            let admit = |_| try_admit(&strangers, address).unwrap();
            (0..10).map(admit).collect()
        };
        let (first, second) = (ten("10.0.0.1"), ten("10.0.0.2"));
        let newcomer = try_admit(&strangers, "10.0.0.1").unwrap();
        assert_eq!((evicted(&first), evicted(&second)), (vec![0], vec![]));
        assert!(!newcomer.evicted.is_cancelled());
    }

    /// Attackers at the same address have sent nothing, or more than the honest peer.
    #[tokio::test(start_paused = true)]
    async fn a_handshake_survives_newcomers_that_are_not_as_far() {
        for honest_begins in [true, false] {
            let strangers = strangers(20);
            let admit = || try_admit(&strangers, "10.0.0.1").unwrap();
            let honest = admit();
            if honest_begins {
                begin(&honest);
            }
            let mut others = Vec::new();
            for _ in 0..100 {
                let other = admit();
                if !honest_begins {
                    begin(&other);
                }
                others.push(other);
            }
            assert!(!honest.evicted.is_cancelled(), "{honest_begins}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_peer_that_leaves_gives_its_place_back_at_once() {
        let strangers = strangers(20);
        let mut places = filled(&strangers);
        assert!(try_admit(&strangers, "10.0.0.1").is_none());
        places.pop();
        assert!(try_admit(&strangers, "10.0.0.1").is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn a_descriptor_is_taken_from_a_silent_peer_though_places_are_free() {
        let strangers = strangers(20);
        let place = try_admit(&strangers, "10.0.0.1").unwrap();
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
