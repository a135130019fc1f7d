//! Every port of a node under every attack that needs no more than connections: each leaves polite
//! peers served meanwhile, takes no more than the port's bound, and gives everything back.
//!
//! Also for a tenant with a token, beside strangers. [`super::soak`] makes many of them at once and
//! claims times.

mod attacks;
mod node;
mod peer;
mod targets;

use std::cell::Cell;
use std::time::Duration;

use self::node::Node;
use self::targets::Target;
use super::limits::allow_many_files;
use super::usage::{self, Usage};

/// Deadline for the node to give back what the attacks took. Peers that vanish are noticed
/// within half a minute.
const BACK_DEADLINE: Duration = Duration::from_secs(120);

/// Memory that an attack may take at most, in KiB.
const MEMORY_MAX_KB: u64 = 128 * 1024;

/// Sockets of the polite peers, and those that are being closed for others.
const POLITE_SOCKETS: usize = 160;

/// Makes each attack on a port.
#[track_caller]
fn withstand(target: &Target) {
    allow_many_files();
    let node = Node::start();
    let pid = node.cluster.node.process.id();
    let serve = || (target.serve)(&node);
    serve();
    let before = Usage::of(pid);
    eprintln!("{}: {before}", target.name);
    for attack in attacks::ALL {
        let peak = Cell::new(before);
        attack.make(&node, target, &|| {
            peak.set(peak.get().max(Usage::of(pid)));
            serve();
            peak.set(peak.get().max(Usage::of(pid)));
        });
        eprintln!("{}, {}: {}", target.name, attack.name, peak.get());
        let sockets = target.sockets_max + POLITE_SOCKETS;
        peak.get().assert_within(&before, MEMORY_MAX_KB, sockets);
    }
    for reason in target.reasons {
        let count = node.refusals(target.label, reason);
        assert!(count > 0, "{}: {reason}", target.name);
    }
    let after = usage::wait_sockets_back(pid, &before, BACK_DEADLINE);
    serve();
    eprintln!("{}, after: {after}", target.name);
}

#[test]
fn the_port_of_masters_withstands_strangers() {
    withstand(&targets::MASTERS_BY_STRANGERS);
}

#[test]
fn the_port_of_masters_withstands_a_tenant() {
    withstand(&targets::MASTERS_BY_TENANT);
}

#[test]
fn the_amrm_proxy_withstands_strangers() {
    withstand(&targets::PROXY_BY_STRANGERS);
}

#[test]
fn the_amrm_proxy_withstands_a_tenant() {
    withstand(&targets::PROXY_BY_TENANT);
}

#[test]
fn the_web_port_withstands_strangers() {
    withstand(&targets::WEB);
}

#[test]
fn the_shuffle_withstands_everybody() {
    withstand(&targets::SHUFFLE);
}

#[test]
fn the_admin_socket_withstands_local_users() {
    withstand(&targets::ADMIN);
}
