//! Containers on nodes to whose room tasks were bound.

use std::collections::VecDeque;

use records::ContainerExitStatus;

use super::*;
use crate::allocator::KnownNode;
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

#[test]
fn containers_go_to_the_nodes_that_are_bound_as_far_as_the_master_still_asks() {
    let mut allocator = binding();
    allocator.update_asks(&[ask("*", 2)], T0).unwrap();
    let bound = known(&["a", "a", "b"]);
    let left = allocator.allocate_bound("", SIZE, bound, T0);
    assert_eq!(left, known(&["b"]));
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
        let left = allocator.allocate_bound(partition, size, known(&["a"]), T0);
        assert_eq!(left, known(&["a"]));
    }
    assert!(
        allocator
            .allocate_bound("", SIZE, known(&["a"]), T0)
            .is_empty()
    );
    // The call with it has failed.
    let left = allocator.allocate_bound("", SIZE, known(&["b"]), T0);
    assert_eq!((left.len(), allocator.unconfirmed().len()), (1, 1));
    allocator.confirmed(nodes(1), T0);
    assert!(allocator.allocate_bound("", SIZE, left, T0).is_empty());
}

#[test]
fn a_run_is_expected_to_take_what_others_took_or_at_least_what_one_has_taken_so_far() {
    let mut allocator = binding();
    let at_least = |ran_ms| ExpectedRun::AtLeast(ran_ms);
    assert_eq!(allocator.expected_run(T0), at_least(0));
    allocator.update_asks(&[ask("*", 2)], T0).unwrap();
    allocator.allocate_bound("", SIZE, known(&["a"]), T0);
    let first = allocator.confirmed(nodes(1), T0)[0].container.container_id;
    allocator.allocate_bound("", SIZE, known(&["a"]), T0 + 4_000);
    allocator.confirmed(nodes(1), T0 + 4_000);
    assert_eq!(allocator.expected_run(T0 + 5_000), at_least(5_000));
    let ended = ContainerExitStatus::SUCCESS;
    allocator.container_ended(first, ended, T0 + 7_000);
    assert_eq!(
        allocator.expected_run(T0 + 60_000),
        ExpectedRun::Mean(7_000)
    );
}
