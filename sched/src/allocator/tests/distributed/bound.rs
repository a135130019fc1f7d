//! Containers on nodes to whose room tasks were bound.

use std::collections::VecDeque;

use records::ContainerExitStatus;

use super::*;
use crate::allocator::{BoundNodes, KnownNode, KnownNodes, Wish};
use crate::look::{LookAnswer, Sight};
use crate::reservation::ExpectedRun;

fn binding() -> Allocator {
    let config = DistributedAllocatorConfig {
        placement: Placement::Look,
        ..LIST_ORDER
    };
    configured(config, nodes(1))
}

fn known(hosts: &[&str]) -> VecDeque<KnownNode> {
    let nodes = hosts.iter().map(|host| remote(host, RACK_2));
    nodes.map(KnownNode::from).collect()
}

fn bound(hosts: &[&str]) -> Vec<BoundNodes> {
    vec![BoundNodes {
        partition: String::new(),
        size: SIZE,
        nodes: known(hosts),
    }]
}

#[test]
fn containers_go_to_the_nodes_that_are_bound_as_far_as_the_master_still_asks() {
    let mut allocator = binding();
    allocator.update_asks(&[ask("*", 2)], T0).unwrap();
    let left = allocator.allocate_bound(bound(&["a", "a", "b"]), None, T0);
    assert_eq!(left, bound(&["b"]));
    let given = allocator.unconfirmed().iter();
    let given: Vec<_> = given.map(|c| c.container.node_id.host.clone()).collect();
    assert_eq!(given, ["a", "a"]);
    assert!(allocator.asks().is_empty());
}

#[test]
fn what_is_bound_waits_for_the_answer_to_a_failed_call_and_for_asks_of_its_size_and_partition() {
    let mut allocator = binding();
    allocator.update_asks(&[ask("*", 3)], T0).unwrap();
    for (partition, size) in [("gpu", SIZE), ("", Resource::new(9_999, 3))] {
        let other = vec![BoundNodes {
            partition: partition.to_owned(),
            size,
            nodes: known(&["a"]),
        }];
        assert_eq!(allocator.allocate_bound(other.clone(), None, T0), other);
    }
    assert_eq!(allocator.allocate_bound(bound(&["a"]), None, T0), []);
    // The call with it has failed.
    let left = allocator.allocate_bound(bound(&["b"]), None, T0);
    assert_eq!((left.len(), allocator.unconfirmed().len()), (1, 1));
    allocator.confirmed(nodes(1), T0);
    assert_eq!(allocator.allocate_bound(left, None, T0), []);
}

#[test]
fn a_wish_is_for_what_may_go_anywhere_on_nodes_that_the_attempt_does_not_exclude() {
    let mut allocator = binding();
    let nodes: KnownNodes = known(&["a", "b"]).into_iter().collect();
    assert_eq!(allocator.wishes(&nodes, T0), None);
    allocator.update_asks(&[ask("*", 2)], T0).unwrap();
    let wish = |usable| Wish {
        partition: String::new(),
        size: SIZE,
        wanted: 2,
        usable,
    };
    assert_eq!(allocator.wishes(&nodes, T0), Some(vec![wish(None)]));
    allocator.update_blacklist(&["a".to_owned()], &[]).unwrap();
    let usable = known(&["b"]).into();
    assert_eq!(allocator.wishes(&nodes, T0), Some(vec![wish(Some(usable))]));
    // Bound before the attempt excluded it.
    assert_eq!(allocator.allocate_bound(bound(&["a"]), None, T0), []);
    assert_eq!(allocator.unconfirmed(), []);
    // Containers of a failed call come first.
    allocator.allocate_bound(bound(&["b"]), None, T0);
    assert_eq!(allocator.wishes(&nodes, T0), None);
}

#[test]
fn nodes_that_were_seen_to_have_room_get_what_is_not_bound() {
    let mut allocator = binding();
    allocator.update_asks(&[ask("*", 3)], T0).unwrap();
    let others: KnownNodes = known(&["java"]).into_iter().collect();
    let mut plan = allocator.plan_looks(&others, T0).unwrap();
    assert_eq!(plan.nodes().len(), 1);
    let sight = |free| {
        LookAnswer::Seen(Sight {
            running: 7,
            queued: 0,
            free,
            seen_at: T0,
        })
    };
    // Room for one, and none for those that would wait there.
    plan.hears(0, sight(SIZE));
    let left = allocator.allocate_bound(bound(&["a"]), Some(plan), T0);
    assert_eq!(left, []);
    let given = allocator.confirmed(nodes(1), T0);
    let given: Vec<_> = given.iter().map(|c| &c.container.node_id.host).collect();
    assert_eq!(given, ["a", "java"]);
    // All is bound.
    let mut plan = allocator.plan_looks(&others, T0 + 1_000).unwrap();
    plan.hears(0, sight(SIZE));
    let left = allocator.allocate_bound(bound(&["a", "b"]), Some(plan), T0 + 1_000);
    assert_eq!(left, bound(&["b"]));
}

#[test]
fn a_run_is_expected_to_take_what_others_took_or_at_least_what_one_has_taken_so_far() {
    let mut allocator = binding();
    let at_least = |ran_ms| ExpectedRun::AtLeast(ran_ms);
    assert_eq!(allocator.expected_run(T0), at_least(0));
    allocator.update_asks(&[ask("*", 2)], T0).unwrap();
    allocator.allocate_bound(bound(&["a"]), None, T0);
    let first = allocator.confirmed(nodes(1), T0)[0].container.container_id;
    allocator.allocate_bound(bound(&["a"]), None, T0 + 4_000);
    allocator.confirmed(nodes(1), T0 + 4_000);
    assert_eq!(allocator.expected_run(T0 + 5_000), at_least(5_000));
    let ended = ContainerExitStatus::SUCCESS;
    allocator.container_ended(first, ended, T0 + 7_000);
    assert_eq!(
        allocator.expected_run(T0 + 60_000),
        ExpectedRun::Mean(7_000)
    );
}
