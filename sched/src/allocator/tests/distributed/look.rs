//! Placement on nodes that were looked at just before.

use records::ContainerExitStatus;

use super::*;
use crate::allocator::{KnownNode, KnownNodes, LookOutcome, LookPlan};
use crate::look::{LOOKS_PER_CALL_MAX, LookAnswer, Sight};

/// Places of a node for containers of [`SIZE`].
const PLACES: u32 = 8;

fn look(listed: Vec<RemoteNode>) -> Allocator {
    let placement = Placement::Look;
    let config = DistributedAllocatorConfig {
        placement,
        ..LIST_ORDER
    };
    configured(config, listed)
}

fn known(nodes: Vec<RemoteNode>) -> KnownNodes {
    nodes.into_iter().map(KnownNode::from).collect()
}

/// Returns the load of a node of [`PLACES`] at `seen_at`.
fn sight(running: u32, queued: u32, seen_at: MonoMillis) -> Sight {
    let free = PLACES - running;
    Sight {
        running,
        queued,
        free: Resource::new(u64::from(free) * SIZE.memory_mb, free),
        seen_at,
    }
}

/// Shows a plan all nodes with the load that `load_of` knows for their host.
fn show(plan: &mut LookPlan, load_of: impl Fn(&str) -> Option<Sight>) {
    for (position, node) in plan.nodes().to_vec().iter().enumerate() {
        if let Some(sight) = load_of(&node.node().node_id.host) {
            plan.hears(position, LookAnswer::Seen(sight));
        }
    }
}

fn hosts(allocator: &Allocator) -> Vec<&str> {
    let given = allocator.unconfirmed().iter();
    given
        .map(|given| given.container.node_id.host.as_str())
        .collect()
}

#[test]
fn containers_go_where_looks_show_room_though_no_list_has_the_node() {
    let mut allocator = look(nodes(1));
    let known = known(vec![remote("far", RACK_2), remote("full", RACK_2)]);
    allocator.update_asks(&[ask("*", 20)], T0).unwrap();
    assert!(allocator.allocate(T0).is_empty(), "without a look");
    let mut plan = allocator.plan_looks(&known, T0).unwrap();
    assert_eq!(plan.nodes().len(), 2);
    show(&mut plan, |host| match host {
        "far" => Some(sight(2, 0, T0)),
        _ => Some(sight(PLACES, 2, T0)),
    });
    let outcome = allocator.allocate_seen(plan, Some(2), T0);
    // Six places and a queue of two; nothing on the node whose queue is full.
    assert_eq!(hosts(&allocator), ["far"; 8]);
    let held = LookOutcome {
        held_back: 12,
        unseen: 0,
    };
    assert_eq!(outcome, held);
    assert_eq!(allocator.asks().containers(), 12);
    let given = allocator.confirmed(nodes(1), T0);
    assert_eq!(given[0].http_address, "far:8042");
    // The next heartbeat places what was held back.
    let mut plan = allocator.plan_looks(&known, T0 + 1_000).unwrap();
    show(&mut plan, |_| Some(sight(0, 0, T0 + 1_000)));
    allocator.allocate_seen(plan, Some(2), T0 + 1_000);
    assert_eq!(allocator.unconfirmed().len(), 12);
    assert!(allocator.asks().is_empty());
}

#[test]
fn nodes_that_no_look_reaches_get_a_share_by_the_attempts_own_counts() {
    let mut allocator = look(nodes(1));
    let known = known(vec![remote("a", RACK_1), remote("b", RACK_1)]);
    let mut all = Vec::new();
    for (heartbeat, expected) in [(0, 1), (1, 1), (2, 2)] {
        let now = T0 + heartbeat * 1_000;
        let wanted = if heartbeat < 2 { 1 } else { 5 };
        allocator.update_asks(&[ask("*", wanted)], now).unwrap();
        let plan = allocator.plan_looks(&known, now).unwrap();
        let outcome = allocator.allocate_seen(plan, Some(2), now);
        assert_eq!(outcome.unseen, expected);
        assert_eq!(outcome.held_back, wanted - expected);
        all.extend(hosts(&allocator).into_iter().map(str::to_owned));
        allocator.confirmed(nodes(1), now);
    }
    // One each, since the second goes to the node with fewer; then one each of the five.
    all[..2].sort();
    all[2..].sort();
    assert_eq!(all, ["a", "b", "a", "b"]);
}

#[test]
fn a_node_of_unknown_load_gets_what_has_no_room_until_its_queue_may_be_full() {
    let mut allocator = look(nodes(1));
    let known = known(vec![remote("seen", RACK_1), remote("unknown", RACK_1)]);
    allocator.update_asks(&[ask("*", 20)], T0).unwrap();
    let mut given = Vec::new();
    for second in 0..5 {
        let now = T0 + second * 1_000;
        let mut plan = allocator.plan_looks(&known, now).unwrap();
        for (position, node) in plan.nodes().to_vec().iter().enumerate() {
            let answer = match &*node.node().node_id.host {
                "seen" => LookAnswer::Seen(sight(PLACES, 3, now)),
                _ => LookAnswer::Unknown { free: SIZE },
            };
            plan.hears(position, answer);
        }
        let outcome = allocator.allocate_seen(plan, Some(3), now);
        given.push((hosts(&allocator).len(), outcome.unseen, outcome.held_back));
        assert!(hosts(&allocator).iter().all(|host| *host == "unknown"));
        allocator.confirmed(nodes(1), now);
    }
    let one = |left| (1, 1, left);
    assert_eq!(given, [one(19), one(18), one(17), (0, 0, 17), (0, 0, 17)]);
}

#[test]
fn nodes_of_unknown_load_alone_get_what_their_places_and_queues_may_take() {
    let mut allocator = look(nodes(1));
    let known = known(vec![remote("a", RACK_1), remote("b", RACK_1)]);
    allocator.update_asks(&[ask("*", 20)], T0).unwrap();
    let mut given = Vec::new();
    for second in 0..5 {
        let now = T0 + second * 1_000;
        let mut plan = allocator.plan_looks(&known, now).unwrap();
        for position in 0..2 {
            plan.hears(position, LookAnswer::Unknown { free: SIZE });
        }
        let outcome = allocator.allocate_seen(plan, Some(2), now);
        given.push((hosts(&allocator).len(), outcome.held_back));
        allocator.confirmed(nodes(1), now);
    }
    // A place and a queue of two, on each.
    assert_eq!(given, [(2, 18), (2, 16), (2, 14), (0, 14), (0, 14)]);
}

#[test]
fn containers_that_a_sight_does_not_show_yet_keep_their_room() {
    let mut allocator = look(nodes(1));
    let known = known(vec![remote("far", RACK_2)]);
    allocator.update_asks(&[ask("*", 30)], T0).unwrap();
    let mut given = Vec::new();
    for (at_ms, shown) in [(0, 0), (3_000, 0), (3_100, 4), (9_000, 10), (10_000, 0)] {
        let now = T0 + at_ms;
        let mut plan = allocator.plan_looks(&known, now).unwrap();
        let seen = sight(shown.min(PLACES), shown.saturating_sub(PLACES), now);
        show(&mut plan, |_| Some(seen));
        allocator.allocate_seen(plan, Some(2), now);
        given.push(hosts(&allocator).len());
        allocator.confirmed(nodes(1), now);
    }
    // After ten seconds they are not expected any more: the node has ended them, or lies.
    assert_eq!(given, [10, 0, 0, 0, 10]);
}

#[test]
fn where_no_node_answers_every_container_has_one_while_there_are_nodes() {
    let mut allocator = look(nodes(1));
    let known = known(nodes(100));
    allocator.update_asks(&[ask("*", 130)], T0).unwrap();
    let plan = allocator.plan_unseen(&known, T0).unwrap();
    let outcome = allocator.allocate_seen(plan, None, T0);
    assert_eq!((outcome.unseen, outcome.held_back), (100, 30));
    let distinct: BTreeSet<&str> = hosts(&allocator).into_iter().collect();
    assert_eq!(distinct.len(), 100);
    // The next ones go to nodes with fewer containers of this attempt.
    let given = allocator.confirmed(nodes(1), T0);
    for ended in &given[..40] {
        allocator.container_ended(ended.container.container_id, ContainerExitStatus(0), T0);
    }
    let free: BTreeSet<&str> = given[..40]
        .iter()
        .map(|given| given.container.node_id.host.as_str())
        .collect();
    let plan = allocator.plan_unseen(&known, T0 + 1_000).unwrap();
    allocator.allocate_seen(plan, None, T0 + 1_000);
    let to_free = hosts(&allocator)
        .into_iter()
        .filter(|host| free.contains(host));
    // One of two random nodes is free with probability 0.64, and a single random one with 0.4.
    let to_free = to_free.count();
    assert!(to_free >= 14, "{to_free} of 30");
}

#[test]
fn a_node_that_hides_this_attempts_containers_loses_its_weight() {
    let mut allocator = look(nodes(1));
    let known = known(vec![remote("liar", RACK_1), remote("honest", RACK_1)]);
    let mut on_liar = Vec::new();
    let mut honest = 0;
    // Containers run for longer than the test, one is asked for each second.
    for second in 0..60 {
        let now = T0 + second * 1_000;
        allocator.update_asks(&[ask("*", 1)], now).unwrap();
        let mut plan = allocator.plan_looks(&known, now).unwrap();
        let running = PLACES.min(honest);
        show(&mut plan, |host| match host {
            "liar" => Some(sight(0, 0, now)),
            _ => Some(sight(running, honest - running, now)),
        });
        allocator.allocate_seen(plan, Some(2), now);
        match hosts(&allocator)[..] {
            ["liar"] => on_liar.push(second),
            ["honest"] => honest += 1,
            // The liar's last containers keep their room for ten seconds, and the other is full.
            [] => {}
            ref others => panic!("{others:?}"),
        }
        allocator.confirmed(nodes(1), now);
    }
    // The first claim may be right: the container of the second before may not have been started.
    // That of ten seconds later is checked when answers have told the ends of ten seconds more.
    assert!(
        on_liar.last().is_some_and(|last| (15..25).contains(last)),
        "{on_liar:?}"
    );
    // The places and the queue.
    assert_eq!(honest, PLACES + 2);
}

#[test]
fn excluded_nodes_and_other_partitions_are_not_looked_at() {
    let gpu = |host| RemoteNode {
        partition: "gpu".to_owned(),
        ..remote(host, RACK_1)
    };
    let mut allocator = look(nodes(1));
    let all = ["a", "b", "c"].map(|host| remote(host, RACK_1));
    let known = known([&all[..], &[gpu("d"), gpu("e")]].concat());
    let looked_at = |allocator: &mut Allocator, now| {
        let plan = allocator.plan_looks(&known, now).unwrap();
        let hosts = plan.nodes().iter();
        let hosts = hosts.map(|node| node.node().node_id.host.clone());
        hosts.collect::<BTreeSet<_>>()
    };
    allocator.update_asks(&[ask("*", 50)], T0).unwrap();
    assert_eq!(
        looked_at(&mut allocator, T0),
        BTreeSet::from(["a", "b", "c"].map(str::to_owned))
    );
    allocator.update_blacklist(&["a".to_owned()], &[]).unwrap();
    assert_eq!(
        looked_at(&mut allocator, T0),
        BTreeSet::from(["b", "c"].map(str::to_owned))
    );
    // A node that refuses a container is left alone for a while.
    let mut plan = allocator.plan_looks(&known, T0).unwrap();
    show(&mut plan, |_| Some(sight(0, 0, T0)));
    allocator.allocate_seen(plan, Some(2), T0);
    let given = allocator.confirmed(nodes(1), T0);
    let refused = &given[0].container;
    let refusal = ContainerExitStatus::KILLED_BY_CONTAINER_SCHEDULER;
    allocator.container_ended(refused.container_id, refusal, T0);
    let left = looked_at(&mut allocator, T0 + 1_000);
    assert_eq!(left.len(), 1);
    assert!(!left.contains(&refused.node_id.host));
    let labelled = ResourceRequest {
        node_label_expression: Some("gpu".to_owned()),
        ..ask("*", 50)
    };
    allocator.update_asks(&[labelled], T0).unwrap();
    assert_eq!(
        looked_at(&mut allocator, T0 + 1_000),
        BTreeSet::from(["d", "e"].map(str::to_owned))
    );
}

#[test]
fn hosts_that_an_ask_names_come_first_and_what_was_seen_for_them_is_free_again() {
    let mut allocator = look(nodes(1));
    let known = known(vec![remote("far", RACK_2)]);
    let lines = [ask("n0", 3), ask(RACK_1, 3), ask("*", 3)];
    for now in [T0, T0 + 10] {
        allocator.update_asks(&lines, now).unwrap();
        let mut plan = allocator.plan_looks(&known, now).unwrap();
        show(&mut plan, |_| Some(sight(5, 0, now)));
        // All places of the node are still free in the second heartbeat.
        let outcome = allocator.allocate_seen(plan, Some(0), now);
        assert_eq!(outcome, LookOutcome::default());
        assert_eq!(hosts(&allocator), ["n0"; 3]);
        allocator.confirmed(nodes(1), now);
    }
}

#[test]
fn asks_of_two_sizes_look_at_a_node_once_and_share_its_room() {
    let mut allocator = look(nodes(1));
    let known = known(vec![remote("far", RACK_2)]);
    let large = ResourceRequest {
        capability: Resource::new(2 * SIZE.memory_mb, 2 * SIZE.vcores),
        ..ask("*", 2)
    };
    let lines = [at_priority(1, ask("*", 2)), at_priority(2, large)];
    allocator.update_asks(&lines, T0).unwrap();
    let mut plan = allocator.plan_looks(&known, T0).unwrap();
    assert_eq!(plan.nodes().len(), 1);
    show(&mut plan, |_| Some(sight(PLACES - 2, 0, T0)));
    let outcome = allocator.allocate_seen(plan, Some(0), T0);
    // The first two take both places.
    assert_eq!((allocator.unconfirmed().len(), outcome.held_back), (2, 2));
}

#[test]
fn a_master_that_calls_without_end_has_a_bounded_number_of_looks() {
    let mut allocator = look(nodes(1));
    let names = (0..2_000).map(|number| remote(&format!("far{number}"), RACK_2));
    let known = known(names.collect());
    allocator.update_asks(&[ask("*", 10_000)], T0).unwrap();
    let mut looks = 0;
    for call in 0..1_000 {
        let now = T0 + call;
        let mut plan = allocator.plan_looks(&known, now).unwrap();
        assert!(plan.nodes().len() <= LOOKS_PER_CALL_MAX);
        looks += plan.nodes().len();
        show(&mut plan, |_| Some(sight(PLACES, 2, now)));
        allocator.allocate_seen(plan, Some(2), now);
    }
    assert!((2_000..4_000).contains(&looks), "{looks}");
    assert_eq!(allocator.asks().containers(), 10_000);
}
