//! Peers that have not authenticated themselves yet: their places, apart from those of callers.
//!
//! A newcomer never waits: if the places are taken, it evicts the peer that has been here longest.
//! Honest peers are through in some milliseconds, so that is one that stays silent. An address
//! that has its share evicts one of its own.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio_util::sync::CancellationToken;

use super::ServerLimits;

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
    evicted: CancellationToken,
}

/// Place of one peer, given back on drop.
#[derive(Debug)]
pub(super) struct StrangerPlace {
    id: u64,
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

    /// Gives a place to a peer with this address, after an eviction if there is none left.
    pub(super) fn admit(self: &Arc<Self>, peer: IpAddr) -> StrangerPlace {
        let address = network_of(peer);
        let evicted = CancellationToken::new();
        let mut table = self.table();
        let own = |stranger: &Stranger| stranger.address == address;
        if table
            .present
            .iter()
            .filter(|stranger| own(stranger))
            .count()
            >= self.per_address_max
        {
            table.evict_first(own);
        } else if table.present.len() >= self.total_max {
            table.evict_first(|_| true);
        }
        let id = table.next_id;
        table.next_id += 1;
        table.present.push(Stranger {
            id,
            address,
            evicted: evicted.clone(),
        });
        drop(table);
        StrangerPlace {
            id,
            evicted,
            strangers: Arc::clone(self),
        }
    }

    /// Evicts the peer that has been here longest, for its descriptor.
    pub(super) fn evict_one(&self) {
        self.table().evict_first(|_| true);
    }
}

impl Table {
    fn evict_first(&mut self, may_go: impl Fn(&Stranger) -> bool) {
        if let Some(first) = self.present.iter().position(may_go) {
            self.present.remove(first).evicted.cancel();
        }
    }
}

impl Drop for StrangerPlace {
    fn drop(&mut self) {
        let mut table = self.strangers.table();
        // The ids ascend. An evicted one is gone already.
        if let Ok(at) = table
            .present
            .binary_search_by_key(&self.id, |stranger| stranger.id)
        {
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
        places
            .iter()
            .map(|place| place.evicted.is_cancelled())
            .collect()
    }

    #[test]
    fn a_newcomer_evicts_who_has_been_here_longest() {
        let strangers = strangers(2, 2);
        let mut places = vec![admit(&strangers, "10.0.0.1"), admit(&strangers, "10.0.0.2")];
        places.push(admit(&strangers, "10.0.0.3"));
        assert_eq!(evicted(&places), [true, false, false]);
        // A place that was given back is free.
        drop(places.remove(1));
        places.push(admit(&strangers, "10.0.0.4"));
        assert_eq!(evicted(&places), [true, false, false]);
    }

    #[test]
    fn an_address_with_its_share_evicts_its_own() {
        let strangers = strangers(10, 2);
        let addresses = ["10.0.0.1", "10.0.0.2", "10.0.0.2", "::ffff:10.0.0.2"];
        let places: Vec<_> = addresses
            .iter()
            .map(|address| admit(&strangers, address))
            .collect();
        assert_eq!(evicted(&places), [false, true, false, false]);
    }

    #[test]
    fn peers_are_counted_by_network_where_one_host_has_many_addresses() {
        let network = |address: &str| network_of(address.parse().unwrap());
        assert_eq!(network("2001:db8::1"), network("2001:db8::ffff:1"));
        assert_ne!(network("2001:db8::1"), network("2001:db8:0:1::1"));
        assert_ne!(network("10.0.0.1"), network("10.0.0.2"));
    }
}
