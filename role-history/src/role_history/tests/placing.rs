//! Which node an ask names.

use super::*;
use crate::action::AskReason;

#[test]
fn without_history_every_ask_is_open() {
    let mut service = Service::new();
    service.flex(STORE, 2);
    assert_eq!(service.done(), ["request 1: any", "request 2: any"]);
}

#[test]
fn asks_name_the_most_recently_used_nodes_in_order_and_then_none() {
    let mut service = Service::new().thawed(&[("old", 30), ("new", 10), ("mid", 20)]);
    service.flex(STORE, 4);
    assert_eq!(
        service.done(),
        [
            "request 1: new",
            "request 2: mid",
            "request 3: old",
            "request 4: any"
        ]
    );
}

#[test]
fn a_node_is_asked_for_once_per_role() {
    let mut service = Service::new().thawed(&[("n1", 10)]);
    service.flex(STORE, 2);
    assert_eq!(service.done(), ["request 1: n1", "request 2: any"]);
    assert!(service.entry("n1").is_requested());
    assert!(!service.entry("n1").is_available());
    assert!(service.ready().is_empty());
}

#[test]
fn roles_are_independent_of_each_other() {
    let mut service = Service::new().thawed(&[("n1", 10)]);
    service.flex(QUERY, 1);
    assert_eq!(service.done(), ["request 1: any"]);
    service.flex(STORE, 1);
    assert_eq!(service.done(), ["request 2: n1"]);
}

#[test]
fn a_node_that_runs_the_role_is_not_asked_for() {
    let mut service = Service::new().thawed(&[("n1", 10)]);
    service.run(&["n1"]);
    service.flex(STORE, 2);
    assert_eq!(service.done(), ["request 2: any"]);
}

#[test]
fn a_container_on_a_listed_node_takes_the_node_off_the_list() {
    let mut service = Service::new().thawed(&[("n1", 10), ("n2", 20), ("n3", 30)]);
    service.flex(STORE, 2);
    assert_eq!(service.ready(), ["n3"]);
    // Nobody asked for n3.
    service.allocate(&["n3"]);
    assert_eq!(service.entry("n3").starting(), 1);
    assert!(!service.ready().contains(&"n3"));
}

#[test]
fn anywhere_roles_never_name_a_node() {
    let mut service = Service::with_policy(PlacementPolicy::ANYWHERE).thawed(&[("n1", 10)]);
    service.flex(STORE, 1);
    assert_eq!(service.done(), ["request 1: any"]);
    let reasons: Vec<_> = service.history.outstanding().map(|o| o.0.reason).collect();
    assert_eq!(reasons, [AskReason::Anywhere]);
}

#[test]
fn a_placed_ask_is_strict_and_names_no_label() {
    let mut store = role(STORE, "store");
    store.label = Some("ssd".into());
    let mut service = Service::with(RoleHistoryConfig::default(), store).thawed(&[("n1", 10)]);
    service.flex(STORE, 2);
    let asks: Vec<_> = service.history.outstanding().map(|o| o.0).collect();
    assert!(!asks[0].relax_locality);
    assert_eq!(asks[0].label, None);
    assert_eq!(asks[0].priority.pack().0, 1);
    let last_used = EpochMillis(BEGIN - 10);
    assert_eq!(asks[0].reason, AskReason::History { last_used });
    assert!(asks[1].relax_locality);
    assert_eq!(asks[1].label.as_deref(), Some("ssd"));
    assert_eq!(asks[1].priority.pack().0, 1 + (1 << 30));
    assert_eq!(asks[1].reason, AskReason::NoHistory);
}

#[test]
fn an_unreliable_node_is_passed_over_and_comes_back_with_the_reset() {
    let mut service = Service::new().thawed(&[("n1", 10), ("n2", 20)]);
    let node = service.history.nodes.find("n1").unwrap();
    for _ in 0..4 {
        service.history.nodes.update(node, STORE, |entry| {
            entry.add(crate::node_entry::Phase::Live);
            let (failed, at) = (crate::ContainerOutcome::Failed, entry.last_used());
            entry.complete(crate::node_entry::Phase::Live, failed, false, at);
        });
    }
    assert_eq!(service.ready(), ["n2"]);
    service.pass(21_600_000);
    service.tick();
    assert_eq!(service.ready(), ["n1", "n2"]);
}

#[test]
fn strict_roles_ask_for_their_node_whatever_happened_there() {
    let mut service = Service::with_policy(PlacementPolicy::STRICT).thawed(&[("n1", 10)]);
    service.report(&[("n1", NodeState::Lost, "")]);
    service.flex(STORE, 1);
    assert_eq!(service.done(), ["request 1: n1"]);
}

#[test]
fn a_strict_role_without_history_asks_openly_at_first() {
    let mut service = Service::with_policy(PlacementPolicy::STRICT);
    service.flex(STORE, 1);
    assert_eq!(service.done(), ["request 1: any"]);
}
