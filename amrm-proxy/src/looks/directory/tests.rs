//! Nodes that come, go and stay silent.

use test_support::ids::node as node_id;

use super::Outcome::{Answered, Failed, Late};
use super::*;

const T0: MonoMillis = MonoMillis(1_000_000);

fn remote(host: &str) -> RemoteNode {
    RemoteNode {
        node_id: node_id(host),
        http_address: format!("{host}:8042"),
        rack: "/rack".to_owned(),
        partition: String::new(),
    }
}

fn reported(hosts: &[&str]) -> Vec<ReportedNode> {
    let report = |host: &&str| ReportedNode {
        node: remote(host),
        capability: Some(Resource::new(8_192, 8)),
    };
    hosts.iter().map(report).collect()
}

fn list<const N: usize>(hosts: [&str; N]) -> NodeList {
    NodeList::from(Vec::from(hosts.map(remote)))
}

fn hosts(directory: &mut Directory, now: MonoMillis) -> Vec<String> {
    let nodes = directory.view(now).nodes.iter();
    nodes
        .map(|known| known.node().node_id.host.clone())
        .collect()
}

fn none(_: u64) -> u64 {
    0
}

/// A directory with the nodes of one answer.
fn answered(names: &[&str]) -> Directory {
    let mut directory = Directory::default();
    assert!(directory.wanted(Some(3), T0, none));
    let bytes = 200 * u64::try_from(names.len()).unwrap();
    directory.answered(reported(names), bytes, T0, none);
    directory
}

#[test]
fn all_nodes_of_a_cluster_stay_within_a_megabyte_and_ten_calls_a_second() {
    for (nodes, expected_s) in [(1, 10), (100, 10), (1_000, 200), (10_000, 20_000)] {
        let interval = interval_ms(nodes, 200);
        assert_eq!(interval, expected_s * 1_000, "{nodes}");
    }
    assert_eq!(interval_ms(300, 10), 30_000, "calls bind");
    assert_eq!(interval_ms(u64::MAX, u64::MAX), INTERVAL_MAX_MS);
}

#[test]
fn nodes_are_asked_for_on_demand_once_and_again_after_the_interval() {
    let mut directory = Directory::default();
    assert!(directory.wanted(Some(1_000), T0, none));
    assert!(!directory.wanted(Some(1_000), T0 + 60_000, none), "asking");
    let names: Vec<String> = (0..1_000).map(|number| format!("n{number}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    directory.answered(reported(&names), 200_000, T0, none);
    assert!(!directory.wanted(Some(1_000), T0 + 199_999, none));
    assert!(directory.wanted(Some(1_000), T0 + 200_000, none));
    // Answers of twice the size come half as often.
    directory.answered(reported(&names), 400_000, T0, |bound| bound);
    assert!(!directory.wanted(Some(1_000), T0 + 599_999, none));
    assert!(directory.wanted(Some(1_000), T0 + 600_000, none));
}

#[test]
fn after_a_new_resource_manager_the_nodes_of_a_large_cluster_ask_one_after_the_other() {
    let mut directory = answered(&["a"]);
    directory.resource_manager(Some(1));
    directory.resource_manager(Some(1));
    assert_eq!(hosts(&mut directory, T0), ["a"]);
    directory.resource_manager(Some(2));
    assert_eq!(hosts(&mut directory, T0), [""; 0]);
    let last = |bound| bound;
    assert!(!directory.wanted(Some(1_000), T0, last));
    let late = T0 + 199_000;
    assert!(!directory.wanted(Some(1_000), late, last));
    assert!(directory.wanted(Some(1_000), T0 + 200_000, last));
    // An answer that was asked of its predecessor is not used.
    directory.resource_manager(None);
    directory.answered(reported(&["a"]), 200, T0 + 200_000, none);
    assert_eq!(hosts(&mut directory, T0 + 200_000), [""; 0]);
}

#[test]
fn a_resource_manager_that_does_not_answer_is_asked_less_and_less() {
    let mut directory = Directory::default();
    let mut now = T0;
    for (number, pause_s) in [10, 20, 40, 80].into_iter().enumerate() {
        assert!(directory.wanted(None, now, none), "{number}");
        assert_eq!(directory.failed(now, none), number == 0);
        assert!(!directory.wanted(None, now + (pause_s * 1_000 - 1), none));
        now = now + pause_s * 1_000;
    }
}

#[test]
fn nodes_of_lists_join_at_once_and_nodes_that_the_answer_lacks_go() {
    let mut directory = answered(&["a", "b"]);
    directory.listed(&list(["c", "b"]), T0 + 1);
    assert_eq!(hosts(&mut directory, T0 + 1), ["a", "b", "c"]);
    directory.gone(&BTreeSet::from([node_id("a"), node_id("x")]));
    assert_eq!(hosts(&mut directory, T0 + 1), ["b", "c"]);
    let again = list(["a"]);
    directory.listed(&again, T0 + 1);
    directory.gone(&BTreeSet::from([node_id("a")]));
    directory.listed(&again, T0 + 1);
    assert_eq!(hosts(&mut directory, T0 + 1), ["a", "b", "c"]);
    directory.gone(&BTreeSet::from([node_id("a")]));
    assert!(directory.wanted(Some(3), T0 + 20_000, none));
    directory.listed(&list(["d"]), T0 + 20_001);
    directory.answered(reported(&["a", "c"]), 400, T0 + 20_002, none);
    assert_eq!(hosts(&mut directory, T0 + 20_002), ["a", "c", "d"]);
    assert_eq!(
        directory.capability(&node_id("c")),
        Some(Resource::new(8_192, 8))
    );
}

#[test]
fn doubled_empty_and_endless_names_and_a_million_nodes_are_bounded() {
    let endless = "x".repeat(256);
    let mut directory = answered(&["a", "a", "", &endless]);
    assert_eq!(hosts(&mut directory, T0), ["a"]);
    let many = (0..NODES_MAX + 10).map(|number| remote(&format!("n{number}")));
    directory.listed(&many.collect::<Vec<_>>().into(), T0);
    assert_eq!(directory.nodes.len(), NODES_MAX);
}

#[test]
fn a_node_that_does_not_answer_pauses_twice_as_long_each_time() {
    let mut directory = answered(&["a", "b"]);
    let (a, b) = (node_id("a"), node_id("b"));
    let mut now = T0;
    for pause_ms in [1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000] {
        assert_eq!(hosts(&mut directory, now), ["a", "b"]);
        directory.looked([(&a, Failed), (&b, Answered)], now);
        assert_eq!(hosts(&mut directory, now + (pause_ms - 1)), ["b"]);
        now = now + pause_ms;
    }
    directory.looked([(&a, Answered)], now);
    directory.looked([(&a, Failed)], now);
    assert_eq!(hosts(&mut directory, now + 999), ["b"]);
    assert_eq!(hosts(&mut directory, now + 1_000), ["a", "b"]);
}

#[test]
fn where_no_node_answers_all_are_used_without_looks_and_that_is_said_once() {
    let names: Vec<String> = (0..20).map(|number| format!("n{number:02}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut directory = answered(&names);
    let mut said = Vec::new();
    for host in &names[..10] {
        assert!(directory.view(T0).answers_looks, "{host}");
        said.extend(directory.looked([(&node_id(host), Failed)], T0));
    }
    assert_eq!(said, [Change::Blind]);
    assert!(!directory.view(T0 + (BLIND_MIN_MS - 1)).answers_looks);
    assert_eq!(hosts(&mut directory, T0), names);
    let later = T0 + BLIND_MIN_MS;
    assert!(directory.view(later).answers_looks, "one more try");
    let first = node_id("n00");
    assert_eq!(directory.looked([(&first, Failed)], later), None);
    assert!(!directory.view(later + BLIND_MIN_MS).answers_looks);
    let later = later + 2 * BLIND_MIN_MS;
    assert!(directory.view(later).answers_looks);
    let sees = directory.looked([(&first, Answered)], later);
    assert_eq!(sees, Some(Change::Sees));
    assert_eq!(directory.looked([(&node_id("n01"), Failed)], later), None);
    assert!(directory.view(later).answers_looks);
}

#[test]
fn many_dead_nodes_among_living_ones_do_not_end_looks() {
    let names: Vec<String> = (0..20).map(|number| format!("n{number:02}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut directory = answered(&names);
    let ids: Vec<NodeId> = names.iter().map(|name| node_id(name)).collect();
    let outcome = |id: &NodeId| if *id == ids[0] { Answered } else { Failed };
    let one_of_all = ids.iter().map(|id| (id, outcome(id)));
    assert_eq!(directory.looked(one_of_all, T0), None);
    assert!(directory.view(T0).answers_looks);
    assert_eq!(hosts(&mut directory, T0), ["n00"]);
}

#[test]
fn the_view_is_made_again_only_when_something_has_changed() {
    let mut directory = answered(&["a"]);
    let first = Arc::clone(&directory.view(T0).nodes);
    directory.looked([(&node_id("a"), Answered)], T0);
    directory.listed(&list(["a"]), T0);
    let second = Arc::clone(&directory.view(T0 + 9_000_000).nodes);
    assert!(Arc::ptr_eq(&first, &second));
}

#[test]
fn only_names_of_other_hosts_of_the_cluster_are_strange() {
    let directory = answered(&["a", "b"]);
    assert!(directory.is_other_host("b", &node_id("a")));
    for name in ["a", "localhost", "", "ab"] {
        assert!(!directory.is_other_host(name, &node_id("a")), "{name}");
    }
}

#[test]
fn a_node_that_answers_late_pauses_for_seconds_only_and_one_that_is_silent_again_does_not() {
    let mut directory = answered(&["a", "b"]);
    let a = node_id("a");
    let mut now = T0;
    let fail = |directory: &mut Directory, now, is_late| {
        directory.looked([(&a, Late), (&node_id("b"), Answered)], now);
        directory.ended_late(&a, is_late, now);
        assert_eq!(directory.speaks(&a), is_late);
    };
    let back_after = |directory: &mut Directory, now: MonoMillis, pause_ms: u64| {
        assert_eq!(hosts(directory, now + (pause_ms - 1)), ["b"]);
        assert_eq!(hosts(directory, now + pause_ms), ["a", "b"]);
    };
    for (is_late, pause_ms) in [
        (false, 1_000),
        (false, 2_000),
        (false, 4_000),
        (false, 8_000),
        (true, 4_000),
        (true, 4_000),
        // Taken for late when it fails, until it is known that it was not.
        (false, 4_000),
        (false, 60_000),
    ] {
        fail(&mut directory, now, is_late);
        back_after(&mut directory, now, pause_ms);
        now = now + pause_ms;
    }
    directory.looked([(&a, Answered)], now);
    assert!(directory.speaks(&a));
    assert_eq!(hosts(&mut directory, now), ["a", "b"]);
}

#[test]
fn nodes_that_are_all_late_are_looked_at_further() {
    let mut directory = answered(&["a", "b"]);
    let (a, b) = (node_id("a"), node_id("b"));
    directory.looked([(&a, Answered), (&b, Failed)], T0);
    for _ in 0..2 * FAILURES_MAX {
        assert_eq!(directory.looked([(&a, Late)], T0), None);
        assert!(directory.view(T0).answers_looks);
        assert_eq!(hosts(&mut directory, T0), ["a"]);
    }
    // Without any that speaks, all are used without looks.
    directory.ended_late(&a, false, T0);
    assert!(!directory.view(T0).answers_looks);
    assert_eq!(hosts(&mut directory, T0), ["a", "b"]);
}
