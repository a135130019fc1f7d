//! Tests of the guaranteed allocator: first come first served, local where that costs nothing,
//! never over capacity.

use super::*;
use crate::allocator::{
    AskError, BLACKLIST_MAX, ChargeError, GuaranteedAllocator, RESOURCE_NAME_BYTES_MAX, Released,
};

/// Adds a node with resources for this many containers of [`SIZE`].
fn add(allocator: &mut GuaranteedAllocator, host: &str, rack: &str, containers: u32) {
    let capability = Resource::new(u64::from(containers) * SIZE.memory_mb, containers);
    let lost = allocator.add_node(node_id(host), rack.to_owned(), capability);
    assert!(lost.is_empty());
}

fn cluster(nodes: &[(&str, &str, u32)]) -> GuaranteedAllocator {
    let mut allocator = GuaranteedAllocator::new();
    for (host, rack, containers) in nodes {
        add(&mut allocator, host, rack, *containers);
    }
    allocator
}

fn want(allocator: &mut GuaranteedAllocator, of: i32, requests: &[ResourceRequest]) {
    allocator.add_attempt(attempt(of));
    allocator.update_asks(attempt(of), requests, T0).unwrap();
}

#[test]
fn the_first_attempt_is_served_first_and_its_most_urgent_ask_before_its_others() {
    let mut allocator = cluster(&[("a", RACK_1, 3)]);
    want(&mut allocator, 2, &[ask("*", 1)]);
    want(
        &mut allocator,
        1,
        &[at_priority(2, ask("*", 5)), at_priority(1, ask("*", 1))],
    );
    let served: Vec<_> = allocator
        .allocate(ids())
        .iter()
        .map(|a| (a.container_id.application_id().id, a.priority.0))
        .collect();
    assert_eq!(served, [(2, 1), (1, 1), (1, 2)]);
    assert_eq!(allocator.asks(attempt(1)).unwrap().containers(), 4);
}

#[test]
fn an_ask_that_fits_nowhere_does_not_hold_up_smaller_ones() {
    let mut allocator = cluster(&[("a", RACK_1, 2)]);
    let large = ResourceRequest {
        capability: Resource::new(4_096, 1),
        ..ask("*", 1)
    };
    want(&mut allocator, 1, &[large]);
    want(&mut allocator, 2, &[ask("*", 1)]);
    assert_eq!(allocator.allocate(ids()).len(), 1);
}

#[test]
fn containers_spread_over_equal_nodes() {
    let mut allocator = cluster(&[("a", RACK_1, 4), ("b", RACK_1, 4), ("c", RACK_2, 4)]);
    want(&mut allocator, 1, &[ask("*", 6)]);
    allocator.allocate(ids());
    for (_, node) in allocator.nodes() {
        assert_eq!(node.containers().len(), 2);
    }
}

#[test]
fn hosts_come_before_racks_and_racks_before_the_rest_while_they_have_room() {
    let mut allocator = cluster(&[("a", RACK_1, 1), ("b", RACK_1, 1), ("c", RACK_2, 9)]);
    want(
        &mut allocator,
        1,
        &[ask("a", 3), ask(RACK_1, 3), ask("*", 3)],
    );
    assert_eq!(
        places(&allocator.allocate(ids())),
        [
            ("a", Locality::NodeLocal),
            ("b", Locality::RackLocal),
            ("c", Locality::OffSwitch)
        ]
    );
}

#[test]
fn an_ask_that_insists_waits_for_its_place() {
    let mut allocator = cluster(&[("a", RACK_1, 1), ("b", RACK_1, 9)]);
    let lines = [ask("a", 2), strict(RACK_1, 2), strict("*", 2)];
    want(&mut allocator, 1, &lines);
    let first = allocator.allocate(ids());
    assert_eq!(places(&first), [("a", Locality::NodeLocal)]);
    assert!(allocator.allocate(ids()).is_empty());
    allocator.release(first[0].container_id);
    assert_eq!(
        places(&allocator.allocate(ids())),
        [("a", Locality::NodeLocal)]
    );
}

#[test]
fn a_restored_ask_has_the_lines_that_its_container_lowered() {
    let on_a_host = [ask("a", 1), strict(RACK_1, 1), strict("*", 1)];
    let on_a_rack = [ask(RACK_1, 1), strict("*", 1)];
    let anywhere = [ask("*", 2)];
    for lines in [&on_a_host[..], &on_a_rack, &anywhere] {
        let mut allocator = cluster(&[("a", RACK_1, 1)]);
        want(&mut allocator, 1, lines);
        let before = allocator.asks(attempt(1)).cloned();
        let lost = allocator.allocate(ids()).remove(0);
        allocator.release(lost.container_id);
        allocator.restore_ask(&lost, RACK_1);
        assert_eq!(allocator.asks(attempt(1)).cloned(), before);
        let asks = before.unwrap();
        assert_eq!(asks.counted(), asks.recounted());
        assert_eq!(places(&allocator.allocate(ids())), [("a", lost.locality)]);
    }
}

#[test]
fn an_ask_for_a_rack_that_insists_stays_on_it() {
    let mut allocator = cluster(&[("a", RACK_1, 9), ("b", RACK_2, 1)]);
    want(&mut allocator, 1, &[ask(RACK_2, 2), strict("*", 2)]);
    assert_eq!(
        places(&allocator.allocate(ids())),
        [("b", Locality::RackLocal)]
    );
}

#[test]
fn blacklisted_hosts_get_nothing_until_they_are_taken_off() {
    let mut allocator = cluster(&[("a", RACK_1, 9)]);
    want(
        &mut allocator,
        1,
        &[ask("a", 1), ask(RACK_1, 1), ask("*", 1)],
    );
    let a = ["a".to_owned()];
    allocator.update_blacklist(attempt(1), &a, &a).unwrap();
    assert!(allocator.allocate(ids()).is_empty());
    allocator.update_blacklist(attempt(1), &[], &a).unwrap();
    assert_eq!(allocator.allocate(ids()).len(), 1);
}

#[test]
fn a_blacklist_is_bounded() {
    let mut allocator = cluster(&[]);
    want(&mut allocator, 1, &[]);
    let hosts: Vec<String> = (0..=BLACKLIST_MAX).map(|h| h.to_string()).collect();
    let mut update = |added: &[String], removed: &[String]| {
        allocator.update_blacklist(attempt(1), added, removed)
    };
    let too_long = Err(AskError::BlacklistTooLong);
    assert_eq!(update(&hosts, &[]), too_long);
    // A full list is accepted, again too, and another host in place of one that leaves.
    let (last, full) = hosts.split_last().unwrap();
    let (last, first) = ([last.clone()], [full[0].clone()]);
    assert_eq!(update(full, &[]), Ok(()));
    assert_eq!(update(full, &[]), Ok(()));
    assert_eq!(update(&last, &[]), too_long);
    assert_eq!(update(&last, &first), Ok(()));
    assert_eq!(update(&first, &[]), too_long);
    let name = "x".repeat(RESOURCE_NAME_BYTES_MAX + 1);
    let no_name = Err(AskError::NameTooLong(name.len()));
    assert_eq!(update(&[name], &first), no_name);
}

#[test]
fn room_comes_back_when_a_container_is_released_and_only_once() {
    let mut allocator = cluster(&[("a", RACK_1, 1)]);
    want(&mut allocator, 1, &[ask("*", 2)]);
    let container = allocator.allocate(ids())[0].container_id;
    assert_eq!(allocator.free(), Resource::default());
    let released = Released {
        node_id: node_id("a"),
        resource: SIZE,
    };
    assert_eq!(allocator.held(container), Some(&released));
    assert_eq!(allocator.release(container), Some(released));
    assert_eq!(allocator.release(container), None);
    assert_eq!(allocator.free(), SIZE);
    assert_eq!(allocator.allocate(ids()).len(), 1);
}

#[test]
fn a_node_that_leaves_takes_its_containers_along() {
    let mut allocator = cluster(&[("a", RACK_1, 1)]);
    want(&mut allocator, 1, &[ask("*", 1)]);
    let container = allocator.allocate(ids())[0].container_id;
    assert_eq!(allocator.remove_node(&node_id("a")), [container]);
    assert_eq!(allocator.release(container), None);
    assert!(allocator.remove_node(&node_id("a")).is_empty());
}

#[test]
fn a_node_that_registers_anew_has_nothing_on_it() {
    let mut allocator = cluster(&[("a", RACK_1, 1)]);
    want(&mut allocator, 1, &[ask("*", 1)]);
    let container = allocator.allocate(ids())[0].container_id;
    let lost = allocator.add_node(node_id("a"), RACK_2.to_owned(), SIZE);
    assert_eq!(lost, [container]);
    assert_eq!(allocator.free(), SIZE);
}

#[test]
fn a_node_being_decommissioned_keeps_what_it_has_and_gets_nothing() {
    let mut allocator = cluster(&[("a", RACK_1, 2)]);
    want(&mut allocator, 1, &[ask("*", 1)]);
    allocator.allocate(ids());
    assert!(allocator.set_schedulable(&node_id("a"), false));
    want(
        &mut allocator,
        2,
        &[ask("a", 1), ask(RACK_1, 1), ask("*", 1)],
    );
    assert!(allocator.allocate(ids()).is_empty());
    assert_eq!(allocator.free(), Resource::default());
    assert!(allocator.set_schedulable(&node_id("a"), true));
    let mut next = ids();
    next(attempt(2));
    assert_eq!(allocator.allocate(next).len(), 1);
    assert!(!allocator.set_schedulable(&node_id("b"), true));
}

#[test]
fn a_node_that_shrinks_below_what_it_runs_gets_nothing_until_that_is_gone() {
    let mut allocator = cluster(&[("a", RACK_1, 3)]);
    want(&mut allocator, 1, &[ask("*", 3)]);
    let containers = allocator.allocate(ids());
    allocator.set_capability(&node_id("a"), SIZE);
    want(&mut allocator, 2, &[ask("*", 1)]);
    for container in &containers[..2] {
        allocator.release(container.container_id);
        assert!(allocator.allocate(ids()).is_empty());
    }
    allocator.release(containers[2].container_id);
    assert_eq!(allocator.allocate(ids()).len(), 1);
}

#[test]
fn a_charge_needs_room_and_a_recovery_does_not() {
    let mut allocator = cluster(&[("a", RACK_1, 1)]);
    let id = |number| ids_from(number);
    let a = node_id("a");
    assert_eq!(allocator.charge(id(1), &a, SIZE), Ok(()));
    assert_eq!(
        allocator.charge(id(2), &a, SIZE),
        Err(ChargeError::NoRoom {
            node: a.clone(),
            free: Resource::default(),
            wanted: SIZE,
        })
    );
    assert_eq!(allocator.recover(id(2), &a, SIZE), Ok(()));
    assert!(matches!(
        allocator.recover(id(2), &a, SIZE),
        Err(ChargeError::AlreadyCharged { .. })
    ));
    assert!(matches!(
        allocator.charge(id(3), &node_id("b"), SIZE),
        Err(ChargeError::UnknownNode(_))
    ));
    allocator.release(id(1));
    assert_eq!(allocator.free(), Resource::default());
    allocator.release(id(2));
    assert_eq!(allocator.free(), SIZE);
}

fn ids_from(id: i64) -> ContainerId {
    attempt(1).container(id)
}

#[test]
fn what_an_attempt_that_has_ended_wanted_is_forgotten_but_not_what_it_holds() {
    let mut allocator = cluster(&[("a", RACK_1, 1)]);
    want(&mut allocator, 1, &[ask("*", 2)]);
    let container = allocator.allocate(ids())[0].container_id;
    allocator.remove_attempt(attempt(1));
    assert!(allocator.asks(attempt(1)).is_none());
    assert_eq!(allocator.free(), Resource::default());
    allocator.release(container);
    assert!(allocator.allocate(ids()).is_empty());
    assert_eq!(
        allocator.update_asks(attempt(1), &[ask("*", 1)], T0),
        Ok(())
    );
    assert!(allocator.allocate(ids()).is_empty());
}

#[test]
fn an_id_that_was_given_before_is_not_given_room_twice() {
    let mut allocator = cluster(&[("a", RACK_1, 3)]);
    want(&mut allocator, 1, &[ask("*", 3)]);
    let allocations = allocator.allocate(|_| ids_from(1));
    assert_eq!(allocations.len(), 1);
    assert_eq!(allocator.asks(attempt(1)).unwrap().containers(), 2);
}

#[test]
fn an_answer_is_bounded_and_the_rest_comes_with_the_next_call() {
    let most = crate::ALLOCATIONS_PER_CALL_MAX;
    let mut allocator = cluster(&[("a", RACK_1, most + 1)]);
    want(&mut allocator, 1, &[ask("*", u32::MAX)]);
    let mut next = ids();
    assert_eq!(allocator.allocate(&mut next).len(), most as usize);
    assert_eq!(allocator.allocate(&mut next).len(), 1);
    assert!(allocator.allocate(&mut next).is_empty());
}
