//! Tests of the allocation on a node: no more than asked, nothing twice, nothing lost, and nothing
//! on unknown nodes.

mod bound;
mod look;
mod sequences;
mod spread;

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;

use super::*;
use crate::allocator::{
    ASK_LINES_MAX, AskError, DistributedAllocation, DistributedAllocatorConfig,
    DistributedAllocatorState, DistributedGrant, DistributedOpportunisticContainerAllocator,
    HostPreferences, Placement, RemoteNode,
};

type Allocator = DistributedOpportunisticContainerAllocator;

/// Start from which ids count down.
const START: i64 = 1 << 40;

/// Default configuration with Hadoop's placement, whose choices can be foretold.
const LIST_ORDER: DistributedAllocatorConfig = DistributedAllocatorConfig {
    max_per_heartbeat: None,
    node_local_max: NonZeroU32::new(10).unwrap(),
    elsewhere_max: NonZeroU32::MIN,
    placement: Placement::ListOrder,
    nodes_age_max_ms: 60_000,
};

const GRANT: DistributedGrant = DistributedGrant {
    limits: ResourceLimits {
        minimum: SIZE,
        maximum: Resource::new(8_192, 4),
        increment: SIZE,
    },
    token_life_ms: 600_000,
    container_id_start: START,
};

fn remote(host: &str, rack: &str) -> RemoteNode {
    RemoteNode {
        node_id: node_id(host),
        http_address: format!("{host}:8042"),
        rack: rack.to_owned(),
        partition: String::new(),
    }
}

/// Returns nodes on rack 1: `n0`, `n1`, …
fn nodes(count: usize) -> Vec<RemoteNode> {
    (0..count)
        .map(|n| remote(&format!("n{n}"), RACK_1))
        .collect()
}

fn configured(config: DistributedAllocatorConfig, offered: Vec<RemoteNode>) -> Allocator {
    let mut allocator = Allocator::new(attempt(1), config);
    allocator.registered(GRANT, offered, T0);
    allocator
}

fn registered(offered: Vec<RemoteNode>) -> Allocator {
    configured(LIST_ORDER, offered)
}

/// Runs a heartbeat that the ResourceManager answers with the same nodes.
fn heartbeat(
    allocator: &mut Allocator,
    offered: &[RemoteNode],
    now: MonoMillis,
) -> Vec<DistributedAllocation> {
    let sent = allocator.allocate(now).to_vec();
    let confirmed = allocator.confirmed(offered.to_vec(), now);
    assert_eq!(sent, confirmed);
    confirmed
}

fn where_to(allocations: &[DistributedAllocation]) -> Vec<(&str, Locality)> {
    let containers = allocations.iter().map(|allocation| &allocation.container);
    containers
        .map(|container| (container.node_id.host.as_str(), container.locality))
        .collect()
}

fn ids_of(allocations: &[DistributedAllocation]) -> Vec<i64> {
    let containers = allocations
        .iter()
        .map(|allocation| allocation.container.container_id);
    containers.map(|id| id.id).collect()
}

#[test]
fn hosts_come_before_racks_and_racks_before_the_rest() {
    let mut allocator = registered(vec![
        remote("x", RACK_2),
        remote("b", RACK_1),
        remote("a", RACK_1),
    ]);
    let asks = [ask("a", 1), ask(RACK_1, 2), ask("*", 3)];
    allocator.update_asks(&asks, T0).unwrap();
    let allocations = allocator.allocate(T0);
    assert_eq!(
        where_to(allocations),
        [
            ("a", Locality::NodeLocal),
            ("b", Locality::RackLocal),
            ("x", Locality::OffSwitch)
        ]
    );
    assert!(allocator.asks().is_empty());
}

#[test]
fn an_ask_that_names_only_a_rack_finds_it() {
    let offered = vec![remote("x", RACK_2), remote("a", RACK_1)];
    let mut allocator = registered(offered);
    allocator
        .update_asks(&[ask(RACK_1, 1), ask("*", 1)], T0)
        .unwrap();
    let allocations = allocator.allocate(T0);
    assert_eq!(where_to(allocations), [("a", Locality::RackLocal)]);
}

#[test]
fn containers_that_may_not_be_elsewhere_wait() {
    let offered = vec![remote("x", RACK_2), remote("a", RACK_1)];
    let mut allocator = registered(offered);
    let asks = [ask("z", 1), strict(RACK_2, 1), strict("*", 1)];
    allocator.update_asks(&asks, T0).unwrap();
    assert!(allocator.allocate(T0).is_empty());
    allocator.confirmed(vec![remote("z", RACK_2)], T0);
    let allocations = allocator.allocate(T0);
    assert_eq!(where_to(allocations), [("z", Locality::NodeLocal)]);
}

#[test]
fn a_burst_goes_to_every_node_once_in_the_order_of_the_list() {
    let offered = nodes(3);
    let mut allocator = registered(offered.clone());
    allocator.update_asks(&[ask("*", 7)], T0).unwrap();
    let mut turn = || -> Vec<String> {
        let given = heartbeat(&mut allocator, &offered, T0);
        given
            .iter()
            .map(|allocation| allocation.container.node_id.host.clone())
            .collect()
    };
    assert_eq!(turn(), ["n0", "n1", "n2"]);
    assert_eq!(turn(), ["n0", "n1", "n2"]);
    assert_eq!(turn(), ["n0"]);
    assert!(turn().is_empty());
}

#[test]
fn who_asks_often_does_not_send_everything_to_the_first_of_the_list() {
    let offered = nodes(3);
    let mut allocator = registered(offered.clone());
    let mut counts = BTreeMap::new();
    for ms in 0..9 {
        allocator.update_asks(&[ask("*", 1)], T0).unwrap();
        for given in heartbeat(&mut allocator, &offered, MonoMillis(ms * 10)) {
            *counts.entry(given.container.node_id.host).or_insert(0) += 1;
        }
    }
    assert_eq!(counts.into_values().collect::<Vec<_>>(), [3, 3, 3]);
    // Later the list reflects the containers, and its order counts again.
    for (ms, host) in [(100, "n0"), (5_000, "n0"), (5_010, "n1"), (5_020, "n2")] {
        allocator.update_asks(&[ask("*", 1)], T0).unwrap();
        let given = heartbeat(&mut allocator, &offered, MonoMillis(ms));
        assert_eq!(where_to(&given), [(host, Locality::OffSwitch)]);
    }
}

#[test]
fn a_host_that_is_asked_for_gets_its_share_and_the_rest_waits_for_it() {
    let offered = nodes(3);
    let mut allocator = registered(offered.clone());
    let asks = [ask("n1", 15), ask(RACK_1, 15), ask("*", 15)];
    allocator.update_asks(&asks, T0).unwrap();
    let first = heartbeat(&mut allocator, &offered, T0);
    assert_eq!(where_to(&first), [("n1", Locality::NodeLocal); 10]);
    let second = heartbeat(&mut allocator, &offered, T0);
    assert_eq!(where_to(&second), [("n1", Locality::NodeLocal); 5]);
}

#[test]
fn asks_take_turns_and_the_more_urgent_comes_first() {
    let mut allocator = registered(nodes(5));
    let asks = [at_priority(2, ask("*", 9)), at_priority(1, ask("*", 2))];
    allocator.update_asks(&asks, T0).unwrap();
    let priorities: Vec<i32> = allocator
        .allocate(T0)
        .iter()
        .map(|allocation| allocation.container.priority.0)
        .collect();
    assert_eq!(priorities, [1, 2, 1, 2, 2]);
}

#[test]
fn a_heartbeat_gets_no_more_than_configured() {
    let config = DistributedAllocatorConfig {
        max_per_heartbeat: NonZeroU32::new(2),
        ..LIST_ORDER
    };
    let offered = nodes(5);
    let mut allocator = configured(config, offered.clone());
    allocator.update_asks(&[ask("*", 3)], T0).unwrap();
    assert_eq!(heartbeat(&mut allocator, &offered, T0).len(), 2);
    assert_eq!(heartbeat(&mut allocator, &offered, T0).len(), 1);
}

#[test]
fn nodes_of_one_host_are_several_nodes() {
    let mut offered = vec![remote("a", RACK_1), remote("a", RACK_1)];
    offered[1].node_id.port += 1;
    let mut allocator = registered(offered.clone());
    let asks = [ask("a", 4), ask("*", 4)];
    allocator.update_asks(&asks, T0).unwrap();
    let given = heartbeat(&mut allocator, &offered, T0);
    let ports: Vec<u16> = given.iter().map(|a| a.container.node_id.port).collect();
    assert_eq!(ports, [8041, 8042, 8041, 8042]);
}

#[test]
fn a_partition_gets_what_is_asked_for_it_and_nothing_else() {
    let labelled = RemoteNode {
        partition: "gpu".to_owned(),
        ..remote("g", RACK_1)
    };
    let mut allocator = registered(vec![labelled, remote("a", RACK_1)]);
    let for_gpu = ResourceRequest {
        node_label_expression: Some("gpu".to_owned()),
        ..at_priority(2, ask("*", 2))
    };
    allocator.update_asks(&[ask("*", 2), for_gpu], T0).unwrap();
    let allocations = allocator.allocate(T0);
    let partitions: Vec<_> = allocations
        .iter()
        .map(|a| (a.container.priority.0, a.partition.as_str()))
        .collect();
    assert_eq!(partitions, [(1, ""), (2, "gpu")]);
}

#[test]
fn sizes_are_brought_to_those_that_exist_and_counts_still_replace_each_other() {
    let sized = |memory_mb, vcores, count| ResourceRequest {
        capability: Resource::new(memory_mb, vcores),
        ..ask("*", count)
    };
    let mut allocator = registered(nodes(4));
    let asks = [sized(10, 0, 5), sized(1 << 40, 9, 1), sized(10, 0, 1)];
    allocator.update_asks(&asks, T0).unwrap();
    let sizes: Vec<Resource> = allocator
        .allocate(T0)
        .iter()
        .map(|allocation| allocation.container.resource)
        .collect();
    assert_eq!(sizes, [SIZE, Resource::new(8_192, 4)]);
}

#[test]
fn an_old_list_is_not_used() {
    let offered = nodes(2);
    let mut allocator = registered(offered.clone());
    allocator.update_asks(&[ask("*", 1)], T0).unwrap();
    allocator.update_asks(&[ask("*", 3)], T0).unwrap();
    let in_time = allocator.allocate(MonoMillis(60_000)).len();
    assert_eq!(in_time, 2);
    allocator.confirmed(offered.clone(), T0);
    let late = MonoMillis(60_001);
    assert!(heartbeat(&mut allocator, &offered, late).is_empty());
    assert_eq!(heartbeat(&mut allocator, &offered, late).len(), 1);
}

#[test]
fn an_empty_list_takes_the_place_of_the_last() {
    let mut allocator = registered(nodes(2));
    allocator.confirmed(Vec::new(), T0);
    allocator.update_asks(&[ask("*", 1)], T0).unwrap();
    assert!(allocator.allocate(T0).is_empty());
}

#[test]
fn nothing_is_given_before_the_registration() {
    let mut allocator = Allocator::new(attempt(1), LIST_ORDER);
    allocator.update_asks(&[ask("*", 1)], T0).unwrap();
    allocator.confirmed(nodes(1), T0);
    assert!(allocator.allocate(T0).is_empty());
    allocator.registered(GRANT, nodes(1), T0);
    assert_eq!(allocator.allocate(T0).len(), 1);
}

#[test]
fn a_failed_call_loses_nothing_and_gives_nothing_twice() {
    let mut allocator = registered(nodes(3));
    allocator.update_asks(&[ask("*", 5)], T0).unwrap();
    let sent = allocator.allocate(T0).to_vec();
    // No answer; meanwhile the master asks for more.
    allocator.update_asks(&[ask("*", 9)], T0).unwrap();
    let late = MonoMillis(100_000);
    assert_eq!(allocator.allocate(late), sent);
    assert_eq!(allocator.confirmed(nodes(3), late), sent);
    let next = heartbeat(&mut allocator, &nodes(3), late);
    assert_eq!(ids_of(&next), [START - 4, START - 5, START - 6]);
}

#[test]
fn a_registration_with_the_same_start_goes_on_and_with_another_goes_on_counting_there() {
    let mut allocator = registered(nodes(1));
    allocator.update_asks(&[ask("*", 9)], T0).unwrap();
    assert_eq!(
        ids_of(&heartbeat(&mut allocator, &nodes(1), T0)),
        [START - 1]
    );
    allocator.registered(GRANT, nodes(1), T0);
    assert_eq!(
        ids_of(&heartbeat(&mut allocator, &nodes(1), T0)),
        [START - 2]
    );
    let restarted = DistributedGrant {
        container_id_start: 2 * START,
        ..GRANT
    };
    allocator.registered(restarted, nodes(1), T0);
    let ids = ids_of(&heartbeat(&mut allocator, &nodes(1), T0));
    assert_eq!(ids, [2 * START - 3]);
}

#[test]
fn what_is_taken_back_is_wanted_again_as_it_was_and_its_ids_are_not() {
    let mut allocator = registered(vec![remote("n0", RACK_1), remote("n1", RACK_2)]);
    let asked = [
        ask("n0", 1),
        ask(RACK_1, 2),
        strict("*", 2),
        at_priority(2, ask("*", 3)),
    ];
    allocator.update_asks(&asked, T0).unwrap();
    let before: Vec<_> = allocator.asks().requests().collect();
    let delivered = {
        allocator.allocate(T0);
        allocator.confirmed(nodes(2), T0)
    };
    let undelivered = allocator.allocate(T0).to_vec();
    assert!(!delivered.is_empty() && !undelivered.is_empty());
    allocator.ask_again_for(delivered.clone()).unwrap();
    assert_eq!(allocator.asks().requests().collect::<Vec<_>>(), before);
    let again = allocator.allocate(T0 + 5_000).to_vec();
    let used = ids_of(&[delivered, undelivered].concat());
    assert!(ids_of(&again).iter().all(|id| !used.contains(id)));
    assert!(again.iter().all(|given| given.container.asked_at == T0));
}

#[test]
fn a_restart_forgets_nothing_but_the_nodes() {
    let mut allocator = registered(nodes(2));
    let asks = [ask("n1", 2), strict(RACK_1, 2), strict("*", 6)];
    allocator.update_asks(&asks, T0).unwrap();
    allocator.update_blacklist(&["n0".to_owned()], &[]).unwrap();
    let sent = allocator.allocate(T0).to_vec();
    assert_eq!(sent.len(), 2);
    let state = allocator.state();
    let config = LIST_ORDER;
    let mut restored = Allocator::restore(attempt(1), config, state.clone(), T0).unwrap();
    assert_eq!(restored.state(), state);
    assert_eq!(restored.asks(), allocator.asks());
    assert_eq!(restored.allocate(T0), sent);
    let next = |allocator: &mut Allocator| {
        allocator.confirmed(nodes(2), T0);
        allocator.update_asks(&[ask("*", 4)], T0).unwrap();
        ids_of(allocator.allocate(T0))
    };
    assert_eq!(next(&mut restored), next(&mut allocator));
}

#[test]
fn a_state_that_no_allocator_was_in_is_refused() {
    let lines = (0..=ASK_LINES_MAX).map(|n| ask(&n.to_string(), 1));
    let state = DistributedAllocatorState {
        asks: lines.collect(),
        ..DistributedAllocatorState::default()
    };
    let config = LIST_ORDER;
    let restored = Allocator::restore(attempt(1), config, state, T0);
    assert_eq!(restored.map(|_| ()), Err(AskError::TooManyLines));
}

#[test]
fn all_nodes_of_a_long_list_are_used_and_one_on_it_twice_is_one() {
    let mut offered = nodes(3_000);
    offered[1] = offered[0].clone();
    let mut allocator = registered(offered);
    allocator.update_asks(&[ask("*", u32::MAX)], T0).unwrap();
    let allocations = allocator.allocate(T0);
    assert_eq!(allocations.len(), 2_999);
    let distinct: BTreeSet<&NodeId> = allocations.iter().map(|a| &a.container.node_id).collect();
    assert_eq!(distinct.len(), 2_999);
}

#[test]
fn containers_keep_the_time_at_which_they_were_asked_for() {
    let mut allocator = registered(nodes(1));
    let asked = T0 + 500;
    allocator.update_asks(&[ask("*", 1)], asked).unwrap();
    let given = allocator.allocate(T0 + 900);
    assert_eq!(given[0].container.asked_at, asked);
}
