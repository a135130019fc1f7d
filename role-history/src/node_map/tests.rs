use records::Resource;

use super::*;
use crate::container_outcome::ContainerOutcome;
use crate::node_entry::Phase;
use crate::role::PlacementPolicy;

const STORE: RoleId = RoleId::new(1).unwrap();

fn role() -> Role {
    Role::new(STORE, "store", Resource::new(256, 1))
}

/// Creates a map where the role was last used at these times.
fn map(role: &Role, used: &[(&str, i64)]) -> NodeMap {
    let mut map = NodeMap::default();
    map.add_role(role);
    map.restore(
        used.iter()
            .map(|&(host, at)| (host, STORE, EpochMillis(at))),
    );
    map
}

fn ready(map: &NodeMap) -> Vec<&str> {
    map.ready(STORE).map(|node| node.host().as_ref()).collect()
}

fn fail(map: &mut NodeMap, host: &str, times: usize) {
    let node = map.find(host).unwrap();
    for _ in 0..times {
        map.update(node, STORE, |entry| {
            entry.add(Phase::Live);
            let at = entry.last_used();
            entry.complete(Phase::Live, ContainerOutcome::Failed, false, at);
        });
    }
}

#[test]
fn nodes_are_ready_most_recently_used_first() {
    let map = map(&role(), &[("old", 10), ("new", 30), ("mid", 20)]);
    assert_eq!(ready(&map), ["new", "mid", "old"]);
}

#[test]
fn equally_recent_nodes_are_in_the_order_of_their_names() {
    let map = map(&role(), &[("c", 10), ("a", 10), ("b", 10)]);
    assert_eq!(ready(&map), ["a", "b", "c"]);
}

#[test]
fn a_node_that_the_file_names_twice_counts_with_its_most_recent_use() {
    let map = map(&role(), &[("a", 20), ("b", 15), ("a", 10)]);
    assert_eq!(ready(&map), ["a", "b"]);
    assert_eq!(map.entries(), 2);
}

#[test]
fn a_node_at_the_threshold_stays_and_one_above_it_is_left_out() {
    let mut map = map(&role(), &[("a", 20), ("b", 10)]);
    fail(&mut map, "a", 3);
    assert_eq!(ready(&map), ["a", "b"]);
    fail(&mut map, "a", 1);
    assert_eq!(ready(&map), ["b"]);
    assert_eq!(map.unreliable().len(), 1);
}

#[test]
fn a_reset_returns_unreliable_nodes_to_their_place() {
    let mut map = map(&role(), &[("a", 20), ("b", 10)]);
    fail(&mut map, "a", 4);
    map.reset_failed_recently();
    assert_eq!(ready(&map), ["a", "b"]);
    assert!(map.unreliable().is_empty());
    assert_eq!(map.get("a").unwrap().entry(STORE).unwrap().failed(), 4);
}

#[test]
fn without_a_threshold_no_number_of_failures_rules_a_node_out() {
    let mut role = role();
    role.node_failure_threshold = None;
    let mut map = map(&role, &[("a", 20)]);
    fail(&mut map, "a", 100);
    assert_eq!(ready(&map), ["a"]);
    assert!(map.unreliable().is_empty());
}

#[test]
fn strict_roles_ignore_failures_and_state() {
    let mut role = role();
    role.placement_policy = PlacementPolicy::STRICT;
    let mut map = map(&role, &[("a", 20)]);
    fail(&mut map, "a", 100);
    map.report("a", NodeState::Lost, "");
    assert_eq!(ready(&map), ["a"]);
}

#[test]
fn roles_placed_anywhere_have_no_ready_nodes() {
    let mut role = role();
    role.placement_policy = PlacementPolicy::ANYWHERE;
    assert!(ready(&map(&role, &[("a", 20)])).is_empty());
}

#[test]
fn a_lost_node_keeps_its_place_for_its_return() {
    let mut map = map(&role(), &[("a", 20), ("b", 10)]);
    let effect = map.report("a", NodeState::Lost, "");
    assert!(effect.lost && !effect.significant);
    assert_eq!(ready(&map), ["b"]);
    let effect = map.report("a", NodeState::Running, "");
    assert!(effect.significant && !effect.lost);
    assert_eq!(ready(&map), ["a", "b"]);
}

#[test]
fn a_node_that_lost_the_roles_label_is_not_asked_for() {
    let mut role = role();
    role.label = Some("ssd".into());
    let mut map = map(&role, &[("a", 20), ("b", 10)]);
    assert_eq!(
        ready(&map),
        ["a", "b"],
        "labels are unknown before the first report"
    );
    map.report("a", NodeState::Running, "gpu");
    map.report("b", NodeState::Running, " ssd ");
    assert_eq!(ready(&map), ["b"]);
}

#[test]
fn reports_are_significant_by_the_three_rules() {
    let mut map = NodeMap::default();
    map.add_role(&role());
    let mut significant = |state, label| map.report("a", state, label).significant;
    assert!(significant(NodeState::Running, ""), "an unknown host");
    assert!(!significant(NodeState::Running, ""), "a repetition");
    assert!(
        significant(NodeState::Running, "ssd"),
        "a new label on a usable node"
    );
    assert!(
        !significant(NodeState::Unhealthy, "ssd"),
        "usable to unusable"
    );
    assert!(
        !significant(NodeState::Lost, "gpu"),
        "a new label on an unusable node"
    );
    assert!(significant(NodeState::Running, "gpu"), "unusable to usable");
    assert!(
        map.report("b", NodeState::Lost, "").significant,
        "an unknown host, whatever its state"
    );
}

#[test]
fn candidates_of_an_anti_affine_role_are_usable_labelled_and_free_by_name() {
    let mut role = role();
    role.placement_policy = PlacementPolicy::ANTI_AFFINITY_REQUIRED;
    role.label = Some("ssd".into());
    let mut map = map(&role, &[("d", 20)]);
    for host in ["d", "c", "b", "a"] {
        map.report(host, NodeState::Running, "ssd");
    }
    map.report("e", NodeState::Running, "gpu");
    map.report("f", NodeState::Lost, "ssd");
    let busy = map.find("c").unwrap();
    map.update(busy, STORE, |entry| entry.add(Phase::Starting));
    let candidates = map.anti_affine_candidates(STORE);
    let hosts: Vec<_> = candidates
        .iter()
        .map(|&node| map.node(node).host().as_ref())
        .collect();
    assert_eq!(hosts, ["a", "b", "d"]);
    assert_eq!(map.entries(), 2, "the question created no entry");
}
