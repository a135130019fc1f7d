//! What reservations cost the node at which they are made.

use std::sync::Arc;
use std::time::Duration;

use late_binding::{PeerIdentifier, PeerTokens, Peers};
use records::NodeId;
use sched::{Digest, ExpectedRun, Reservation};
use test_support::ids;
use tests::proc::processor_time;
use tests::proxy_cluster::{CAPACITY, ProxyCluster};
use tokio::time::{MissedTickBehavior, interval};
use wire::protection::Protections;
use wire::token::{MasterKey, Token};

/// Reservations of a second.
pub(crate) const PER_S: u32 = 200;

/// Attempts that reserve by turns, so that most reservations are news of one that is there.
const ATTEMPTS: u32 = 50;

/// Another node of the cluster, which has the key of container tokens.
struct Neighbour {
    id: NodeId,
    key: MasterKey,
}

impl PeerTokens for Neighbour {
    fn token_for(&self, node: &NodeId) -> Option<Token> {
        Some(PeerIdentifier::token(&self.id, node, &self.key))
    }
}

/// Returns the part of a processor that the node uses for so long without reservations, and for so
/// long with [`PER_S`]. No room is free for one, so that they all wait.
pub(crate) async fn cost(peers: &ProxyCluster, period: Duration) -> [f64; 2] {
    let node = peers.rm.wait_registered();
    let neighbour = Neighbour {
        id: NodeId {
            host: "neighbour.example.org".to_owned(),
            port: node.port,
        },
        key: peers.rm.secrets().container_token_key,
    };
    let calls = Peers::new(Arc::new(neighbour), Protections::default());
    let id = peers.node.process.id();
    let used = |before: Duration| {
        let used = processor_time(id).saturating_sub(before);
        used.as_secs_f64() / period.as_secs_f64()
    };
    let before = processor_time(id);
    tokio::time::sleep(period).await;
    let idle = used(before);
    let mut due = interval(Duration::from_secs(1) / PER_S);
    due.set_missed_tick_behavior(MissedTickBehavior::Burst);
    let before = processor_time(id);
    let reservations = u32::try_from(period.as_secs()).expect("a short time") * PER_S;
    for number in 0..reservations {
        due.tick().await;
        let reservation = Reservation {
            attempt: ids::attempt((number % ATTEMPTS).cast_signed()),
            user: Digest([1, 2, 3, 4]),
            // Masters run, so there is never so much.
            size: CAPACITY,
            waiting: number % 7 + 1,
            run: ExpectedRun::Mean(u64::from(number % 5 + 1) * 1_000),
            given_back: 0,
        };
        let answer = calls.reserve(&node, &reservation).await;
        answer.expect("the node takes reservations");
    }
    [idle, used(before)]
}
