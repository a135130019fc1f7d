//! The attacks: what a peer does with connections of any port. Each holds what it has while a
//! polite peer is served.

use std::io::{self, Read as _, Write as _};
use std::net::Ipv4Addr;
use std::thread;
use std::time::Duration;

use super::node::Node;
use super::peer::Peer;
use super::targets::Target;

/// Connections that are opened and kept.
const CONNECTIONS: usize = 2_000;

/// Connections whose peer vanishes, or sends byte by byte.
const FEW: usize = 100;

/// Calls of one attack, on one connection or several.
const CALLS: i32 = 10_000;

/// Connections that share those calls.
const SEVERAL: i32 = 10;

/// Bytes that a slow writer sends before it gives up.
const TRICKLED_BYTES: usize = 8;

/// Deadline of a peer for an answer on a machine that is busy building.
const ANSWER_DEADLINE: Duration = Duration::from_secs(60);

/// Time without progress after which the node has stopped reading.
const READING_PAUSE: Duration = Duration::from_secs(1);

/// Addresses of attackers, that of the polite peers among them.
const ADDRESSES: [u8; 4] = [1, 2, 3, 4];

/// An attack: its name, and how it is made.
pub(super) struct Attack {
    pub(super) name: &'static str,
    make: fn(&Node, &Target, &dyn Fn()),
}

impl Attack {
    /// Makes the attack on a port; calls `served` while it is under way.
    pub(super) fn make(&self, node: &Node, target: &Target, served: &dyn Fn()) {
        (self.make)(node, target, served);
    }
}

/// Every attack.
pub(super) const ALL: [Attack; 7] = [
    Attack {
        name: "idle connections",
        make: |node, target, served| hold(node, target, &[], served),
    },
    Attack {
        name: "unfinished requests",
        make: |node, target, served| hold(node, target, target.half, served),
    },
    Attack {
        name: "vanished peers",
        make: vanish,
    },
    Attack {
        name: "calls on one connection",
        make: |node, target, served| call(node, target, 1, served),
    },
    Attack {
        name: "calls on several connections",
        make: |node, target, served| call(node, target, SEVERAL, served),
    },
    Attack {
        name: "unread answers",
        make: leave_unread,
    },
    Attack {
        name: "bytes one by one",
        make: trickle,
    },
];

/// Opens connections from each address. Those that are refused or closed meanwhile are left out.
fn open<'a>(
    node: &'a Node,
    target: &'a Target,
    count: usize,
) -> impl Iterator<Item = Peer> + use<'a> {
    let addresses = ADDRESSES.map(|last| Ipv4Addr::new(127, 0, 0, last));
    let addresses = addresses.into_iter().cycle().take(count);
    addresses.filter_map(|from| (target.open)(node, from).ok())
}

/// Opens many connections and sends these bytes on each.
fn hold(node: &Node, target: &Target, bytes: &[u8], served: &dyn Fn()) {
    let peers = open(node, target, CONNECTIONS);
    let held: Vec<Peer> = peers
        .filter_map(|mut peer| peer.write_all(bytes).is_ok().then_some(peer))
        .collect();
    served();
    drop(held);
}

/// Leaves connections in the middle of a request, without a sign for the node.
fn vanish(node: &Node, target: &Target, served: &dyn Fn()) {
    for mut peer in open(node, target, FEW) {
        // The node may have closed.
        let _sent = peer.write_all(target.half);
        peer.vanish();
    }
    served();
}

/// Sends calls without waiting for an answer, and reads all answers.
fn call(node: &Node, target: &Target, connections: i32, served: &dyn Fn()) {
    let each = CALLS / connections;
    let peers: Vec<Peer> = (0..connections)
        .map(|_| (target.open)(node, Ipv4Addr::LOCALHOST).unwrap())
        .collect();
    thread::scope(|scope| {
        let answered: Vec<_> = peers
            .into_iter()
            .map(|peer| scope.spawn(|| converse(peer, target, node, each)))
            .collect();
        served();
        for answered in answered {
            let answered = answered.join().unwrap();
            let expected = if target.answers_all { each } else { 0 };
            assert!(answered >= expected, "{answered} of {each} are answered");
        }
    });
}

/// Sends so many calls at once and reads until there are as many answers, or the end. Returns the
/// number of answers.
fn converse(mut peer: Peer, target: &Target, node: &Node, count: i32) -> i32 {
    peer.set_timeouts(ANSWER_DEADLINE, ANSWER_DEADLINE).unwrap();
    let mut sending = peer.try_clone().unwrap();
    thread::scope(|scope| {
        scope.spawn(move || {
            for first in (0..count).step_by(100) {
                let numbers = first..(first + 100).min(count);
                let requests: Vec<u8> = numbers.flat_map(|n| (target.request)(node, n)).collect();
                // The node may close after a request that it refuses.
                if sending.write_all(&requests).is_err() {
                    return;
                }
            }
            if !target.answers_all {
                let _closed = sending.shutdown_write();
            }
        });
        let mut received = Vec::new();
        let mut answered = 0;
        let mut bytes = vec![0; 64 * 1024];
        while answered < count {
            match peer.read(&mut bytes) {
                Ok(0) => break,
                Ok(length) => received.extend_from_slice(&bytes[..length]),
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => break,
                Err(error) => panic!("{}: {error} after {answered} answers", target.name),
            }
            answered += (target.take_answers)(&mut received);
        }
        answered
    })
}

/// Sends calls with long answers until the node reads no more, and reads none of the answers.
fn leave_unread(node: &Node, target: &Target, served: &dyn Fn()) {
    let requests: Vec<u8> = (0..200).flat_map(|n| (target.long)(node, n)).collect();
    let peers: Vec<Peer> = open(node, target, FEW).collect();
    let peers: Vec<Peer> = thread::scope(|scope| {
        let sending: Vec<_> = peers
            .into_iter()
            .map(|mut peer| {
                let requests = &requests;
                scope.spawn(move || {
                    peer.set_timeouts(ANSWER_DEADLINE, READING_PAUSE).unwrap();
                    // The node may have closed, or reads no more.
                    let _sent = peer.write_all(requests);
                    peer
                })
            })
            .collect();
        sending
            .into_iter()
            .map(|peer| peer.join().unwrap())
            .collect()
    });
    served();
    drop(peers);
}

/// Sends a request byte by byte on each connection; a polite peer is served between two bytes.
fn trickle(node: &Node, target: &Target, served: &dyn Fn()) {
    let mut peers: Vec<Peer> = open(node, target, FEW).collect();
    for byte in target.half.iter().take(TRICKLED_BYTES) {
        peers.retain_mut(|peer| peer.write_all(&[*byte]).is_ok());
        served();
    }
}
