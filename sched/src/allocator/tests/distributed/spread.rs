//! Placement over the nodes of several lists.

use records::ContainerExitStatus;

use super::*;

fn spread(offered: Vec<RemoteNode>) -> Allocator {
    configured(DistributedAllocatorConfig::default(), offered)
}

fn hosts_of(given: &[DistributedAllocation]) -> BTreeSet<String> {
    let hosts = given.iter().map(|given| &given.container.node_id.host);
    hosts.cloned().collect()
}

fn range(from: usize, to: usize) -> Vec<RemoteNode> {
    (from..to)
        .map(|n| remote(&format!("n{n}"), RACK_1))
        .collect()
}

#[test]
fn nodes_of_earlier_lists_are_used_for_half_a_minute() {
    let mut allocator = spread(range(0, 10));
    allocator.allocate(T0);
    allocator.confirmed(range(10, 20), T0 + 1_000);
    allocator.update_asks(&[ask("*", 50)], T0).unwrap();
    assert_eq!(hosts_of(allocator.allocate(T0 + 30_000)).len(), 20);
    allocator.confirmed(range(10, 20), T0 + 30_001);
    assert_eq!(hosts_of(allocator.allocate(T0 + 30_001)).len(), 10);
}

#[test]
fn nodes_of_a_former_resource_manager_are_forgotten() {
    let mut allocator = spread(range(0, 10));
    allocator.registered(GRANT, range(5, 8), T0 + 1_000);
    allocator.update_asks(&[ask("*", 50)], T0).unwrap();
    assert_eq!(hosts_of(allocator.allocate(T0 + 1_000)).len(), 3);
}

#[test]
fn an_empty_list_means_that_no_node_takes_any() {
    let mut allocator = spread(range(0, 10));
    allocator.confirmed(Vec::new(), T0 + 1_000);
    allocator.update_asks(&[ask("*", 5)], T0).unwrap();
    assert!(allocator.allocate(T0 + 1_000).is_empty());
}

#[test]
fn attempts_with_the_same_list_choose_different_nodes() {
    let mut firsts = BTreeSet::new();
    for number in 1..=20 {
        let config = DistributedAllocatorConfig::default();
        let mut allocator = Allocator::new(attempt(number), config);
        allocator.registered(GRANT, nodes(10), T0);
        allocator.update_asks(&[ask("*", 1)], T0).unwrap();
        firsts.extend(hosts_of(allocator.allocate(T0)));
    }
    assert!(firsts.len() >= 6, "{firsts:?}");
}

#[test]
fn a_node_that_refused_a_container_is_left_alone_for_five_seconds() {
    let mut allocator = spread(nodes(4));
    allocator.update_asks(&[ask("*", 4)], T0).unwrap();
    let given = heartbeat(&mut allocator, &nodes(4), T0);
    let refused = &given[0].container;
    let status = ContainerExitStatus::KILLED_BY_CONTAINER_SCHEDULER;
    allocator.container_ended(refused.container_id, status, T0 + 1_000);
    allocator
        .update_asks(&[ask("*", 4), ask(&refused.node_id.host, 4)], T0)
        .unwrap();
    let next = heartbeat(&mut allocator, &nodes(4), T0 + 5_999);
    assert_eq!(next.len(), 3);
    assert!(!hosts_of(&next).contains(&refused.node_id.host));
    let last = heartbeat(&mut allocator, &nodes(4), T0 + 6_000);
    assert_eq!(hosts_of(&last), [refused.node_id.host.clone()].into());
}

#[test]
fn a_node_with_containers_of_the_attempt_loses_against_one_without() {
    let mut allocator = spread(nodes(2));
    allocator
        .update_asks(&[ask("n0", 1), ask("*", 1)], T0)
        .unwrap();
    let first = heartbeat(&mut allocator, &nodes(2), T0);
    assert_eq!(where_to(&first), [("n0", Locality::NodeLocal)]);
    let mut counts = BTreeMap::new();
    let mut number_at = |allocator: &mut Allocator| {
        allocator.update_asks(&[ask("*", 1)], T0).unwrap();
        let given = heartbeat(allocator, &nodes(2), T0);
        let container = &given[0].container;
        *counts.entry(container.node_id.host.clone()).or_insert(0) += 1;
        allocator.container_ended(container.container_id, ContainerExitStatus::SUCCESS, T0);
    };
    for _ in 0..400 {
        number_at(&mut allocator);
    }
    // Both are drawn in half of the cases, and then the empty one wins; one of four draws has the
    // other node twice.
    assert!((60..140).contains(&counts["n0"]), "{counts:?}");
}

/// Returns a configuration that places up to two containers on a node in one heartbeat.
fn two_a_node() -> DistributedAllocatorConfig {
    DistributedAllocatorConfig {
        elsewhere_max: NonZeroU32::new(2).unwrap(),
        ..DistributedAllocatorConfig::default()
    }
}

#[test]
fn a_node_with_a_container_of_the_same_heartbeat_loses_against_one_without() {
    let mut allocator = configured(two_a_node(), nodes(2));
    let mut on_one_node = 0;
    for _ in 0..400 {
        allocator.update_asks(&[ask("*", 2)], T0).unwrap();
        let given = heartbeat(&mut allocator, &nodes(2), T0);
        assert_eq!(given.len(), 2);
        on_one_node += usize::from(hosts_of(&given).len() == 1);
        for DistributedAllocation { container, .. } in &given {
            allocator.container_ended(container.container_id, ContainerExitStatus::SUCCESS, T0);
        }
    }
    // The second goes to the node of the first only if both draws have that node: one in four.
    assert!((60..140).contains(&on_one_node), "{on_one_node}");
}

/// Places 40 containers on 40 nodes, of which 30 are refused after `after_ms`. Returns the
/// allocator once no node is left alone any more, and the time.
fn after_thirty_refusals(after_ms: u64) -> (Allocator, MonoMillis) {
    let mut allocator = spread(nodes(40));
    allocator.update_asks(&[ask("*", 200)], T0).unwrap();
    let given = heartbeat(&mut allocator, &nodes(40), T0);
    assert_eq!(given.len(), 40);
    let status = ContainerExitStatus::KILLED_BY_CONTAINER_SCHEDULER;
    for refused in &given[..30] {
        allocator.container_ended(refused.container.container_id, status, T0 + after_ms);
    }
    (allocator, T0 + after_ms + 5_000)
}

#[test]
fn after_refusals_no_more_is_placed_at_once_than_nodes_took() {
    let (mut allocator, now) = after_thirty_refusals(1_000);
    let mut placed_at = |ms| heartbeat(&mut allocator, &nodes(40), now + ms).len();
    let counts = [0, 1_000, 2_000, 3_000, 4_000].map(&mut placed_at);
    assert_eq!(counts, [10, 20, 30, 40, 40]);
}

#[test]
fn after_refusals_of_everything_one_container_is_placed() {
    let mut allocator = spread(nodes(2));
    allocator.update_asks(&[ask("*", 9)], T0).unwrap();
    let given = heartbeat(&mut allocator, &nodes(2), T0);
    let status = ContainerExitStatus::KILLED_BY_CONTAINER_SCHEDULER;
    for refused in &given {
        allocator.container_ended(refused.container.container_id, status, T0 + 1_000);
    }
    let again = heartbeat(&mut allocator, &nodes(2), T0 + 6_000);
    assert_eq!(again.len(), 1);
}

#[test]
fn refusals_are_set_against_the_last_heartbeat_that_placed_any() {
    let (mut allocator, now) = after_thirty_refusals(1_000);
    assert_eq!(heartbeat(&mut allocator, &nodes(40), now).len(), 10);
    let given = {
        let given = heartbeat(&mut allocator, &nodes(40), now);
        assert_eq!(given.len(), 20);
        given
    };
    allocator.update_asks(&[ask("*", 0)], now).unwrap();
    assert!(heartbeat(&mut allocator, &nodes(40), now).is_empty());
    let status = ContainerExitStatus::KILLED_BY_CONTAINER_SCHEDULER;
    allocator.container_ended(given[0].container.container_id, status, now);
    allocator.update_asks(&[ask("*", 200)], now).unwrap();
    assert_eq!(heartbeat(&mut allocator, &nodes(40), now).len(), 19);
}

#[test]
fn a_heartbeat_that_finds_no_node_is_not_the_last_that_placed_any() {
    let (mut allocator, now) = after_thirty_refusals(1_000);
    assert_eq!(heartbeat(&mut allocator, &nodes(40), now).len(), 10);
    let given = heartbeat(&mut allocator, &nodes(40), now);
    assert_eq!(given.len(), 20);
    let hosts: Vec<String> = (0..40).map(|n| format!("n{n}")).collect();
    allocator.update_blacklist(&hosts, &[]).unwrap();
    assert!(heartbeat(&mut allocator, &nodes(40), now).is_empty());
    allocator.update_blacklist(&[], &hosts).unwrap();
    let status = ContainerExitStatus::KILLED_BY_CONTAINER_SCHEDULER;
    allocator.container_ended(given[0].container.container_id, status, now);
    assert_eq!(heartbeat(&mut allocator, &nodes(40), now).len(), 19);
}

#[test]
fn racks_are_respected_and_their_nodes_drawn() {
    let offered = [nodes(4), vec![remote("x", RACK_2), remote("y", RACK_2)]].concat();
    let mut allocator = spread(offered.clone());
    allocator
        .update_asks(&[ask(RACK_2, 2), strict("*", 2)], T0)
        .unwrap();
    let given = heartbeat(&mut allocator, &offered, T0);
    assert_eq!(hosts_of(&given), ["x".to_owned(), "y".to_owned()].into());
    let given = given.iter().map(|given| given.container.locality);
    assert!(given.eq([Locality::RackLocal; 2]));
}

#[test]
fn a_named_partition_takes_its_asks_alone() {
    let labelled = RemoteNode {
        partition: "gpu".to_owned(),
        ..remote("x", RACK_1)
    };
    let offered = [nodes(4), vec![labelled]].concat();
    let mut allocator = spread(offered.clone());
    let wanted = ResourceRequest {
        node_label_expression: Some("gpu".to_owned()),
        ..ask("*", 9)
    };
    allocator.update_asks(&[wanted], T0).unwrap();
    let given = heartbeat(&mut allocator, &offered, T0);
    assert_eq!(where_to(&given), [("x", Locality::OffSwitch)]);
}

#[test]
fn an_eviction_long_after_the_start_lowers_nothing() {
    let (mut allocator, now) = after_thirty_refusals(10_001);
    assert_eq!(heartbeat(&mut allocator, &nodes(40), now).len(), 40);
}

#[test]
fn hadoops_order_places_as_much_after_refusals_as_before() {
    let mut allocator = registered(nodes(10));
    allocator.update_asks(&[ask("*", 30)], T0).unwrap();
    let given = heartbeat(&mut allocator, &nodes(10), T0);
    let status = ContainerExitStatus::KILLED_BY_CONTAINER_SCHEDULER;
    for refused in &given {
        allocator.container_ended(refused.container.container_id, status, T0 + 1_000);
    }
    assert_eq!(
        heartbeat(&mut allocator, &nodes(10), T0 + 1_000).len(),
        given.len()
    );
}

#[test]
fn a_lost_node_is_no_candidate_until_a_list_has_it_again() {
    let mut allocator = spread(range(0, 4));
    allocator.confirmed(range(4, 8), T0 + 1_000);
    let lost = remote("n1", RACK_1);
    allocator.remove_nodes(&[lost.node_id.clone()].into());
    allocator.update_asks(&[ask("*", 50)], T0).unwrap();
    let given = heartbeat(&mut allocator, &range(4, 8), T0 + 1_000);
    assert_eq!(given.len(), 7);
    assert!(!hosts_of(&given).contains("n1"));
    let again = [range(4, 8), vec![lost]].concat();
    heartbeat(&mut allocator, &again, T0 + 1_000);
    assert!(hosts_of(allocator.allocate(T0 + 2_000)).contains("n1"));
}

/// Makes asks of the tests' priority prefer these hosts.
fn prefer(allocator: &mut Allocator, hosts: &[&str], wait_max_ms: u64) {
    let line = ask("*", 1);
    let hosts = hosts.iter().map(|&host| host.into()).collect();
    let mut preferences = HostPreferences::new(wait_max_ms);
    preferences.set(line.priority, line.allocation_request_id, hosts);
    allocator.set_preferences(preferences);
}

#[test]
fn preferred_hosts_come_first_and_the_rest_goes_elsewhere() {
    let mut allocator = spread(range(0, 10));
    prefer(&mut allocator, &["n7", "gone", "n3"], 0);
    allocator.update_asks(&[ask("*", 4)], T0).unwrap();
    let given = allocator.allocate(T0);
    let hosts: Vec<_> = given
        .iter()
        .map(|given| &given.container.node_id.host)
        .collect();
    assert_eq!(hosts.len(), 4);
    assert_eq!(hosts[..2], ["n7", "n3"]);
    assert!(
        given
            .iter()
            .all(|given| given.container.locality == Locality::OffSwitch)
    );
}

#[test]
fn hosts_that_the_ask_names_come_before_preferred_ones() {
    let mut allocator = spread(range(0, 10));
    prefer(&mut allocator, &["n7"], 0);
    allocator
        .update_asks(&[ask("*", 1), ask(RACK_1, 1), ask("n2", 1)], T0)
        .unwrap();
    assert_eq!(
        hosts_of(allocator.allocate(T0)),
        BTreeSet::from(["n2".to_owned()])
    );
}

#[test]
fn a_preferred_host_is_given_up_when_its_containers_run_longer_than_the_bound() {
    for (ran_ms, wait_max_ms, is_kept) in [(20_000, 30_000, true), (40_000, 30_000, false)] {
        let mut allocator = spread(range(0, 4));
        prefer(&mut allocator, &["n3"], wait_max_ms);
        allocator.update_asks(&[ask("*", 1)], T0).unwrap();
        let first = allocator.allocate(T0)[0].container.clone();
        allocator.confirmed(range(0, 4), T0 + 1_000);
        // One container has ended, so run times are known; the next one still runs.
        let ended = T0 + ran_ms;
        allocator.container_ended(first.container_id, ContainerExitStatus(0), ended);
        allocator.confirmed(range(0, 4), ended);
        for at in [ended, ended + 1_000] {
            allocator.update_asks(&[ask("*", 1)], at).unwrap();
            let host = allocator.allocate(at)[0].container.node_id.host.clone();
            let is_preferred = at == ended || is_kept;
            assert_eq!(host == "n3", is_preferred, "{ran_ms} ms, {host}");
            allocator.confirmed(range(0, 4), at);
        }
    }
}

#[test]
fn a_preferred_host_gets_more_containers_of_a_heartbeat_while_the_wait_is_accepted() {
    let mut allocator = configured(two_a_node(), range(0, 4));
    prefer(&mut allocator, &["n3"], 30_000);
    allocator.update_asks(&[ask("*", 1)], T0).unwrap();
    let first = allocator.allocate(T0)[0].container.clone();
    allocator.confirmed(range(0, 4), T0);
    let ended = T0 + 20_000;
    allocator.container_ended(first.container_id, ContainerExitStatus::SUCCESS, ended);
    allocator.confirmed(range(0, 4), ended);
    allocator.update_asks(&[ask("*", 2)], ended).unwrap();
    let given = allocator.allocate(ended);
    assert_eq!(where_to(given), [("n3", Locality::OffSwitch); 2]);
}
