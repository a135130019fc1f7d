//! What happens to a container that was allocated.

use super::*;

fn allocated(number: i64, host: &str, asked_by: AskedBy, resource: Resource) -> AllocatedContainer {
    AllocatedContainer {
        container: id(number),
        host: host.to_owned(),
        asked_by,
        resource,
    }
}

fn packed(no_location: bool) -> AskedBy {
    AskedBy::Priority(ContainerPriority {
        role: STORE,
        no_location,
    })
}

fn receive(service: &mut Service, container: AllocatedContainer) {
    let now = service.now();
    service
        .history
        .on_containers_allocated(vec![container], now, &mut service.actions);
}

#[test]
fn a_container_on_the_node_asked_for_is_placed() {
    let mut service = Service::new().thawed(&[("n1", 10)]);
    service.flex(STORE, 1);
    service.done();
    service.allocate(&["n1"]);
    assert_eq!(
        service.done(),
        ["satisfied 1 by 1", "assign 1 on n1 Placed"]
    );
    assert_eq!(service.status().actual, 1);
    assert_eq!(service.history.requested(STORE), 0);
    assert_eq!(service.entry("n1").starting(), 1);
    assert!(!service.entry("n1").is_requested());
}

#[test]
fn a_container_elsewhere_answers_the_open_ask_and_leaves_the_placed_one() {
    let mut service = Service::new().thawed(&[("n1", 10)]);
    service.flex(STORE, 2);
    service.done();
    service.allocate(&["n2"]);
    assert_eq!(service.done(), ["satisfied 2 by 1", "assign 1 on n2 Open"]);
    assert!(service.entry("n1").is_requested());
}

#[test]
fn in_one_batch_placed_asks_are_answered_before_open_ones() {
    let mut service = Service::new().thawed(&[("n1", 10)]);
    service.flex(STORE, 2);
    service.done();
    service.allocate(&["n9", "n1"]);
    assert_eq!(
        service.done(),
        [
            "satisfied 1 by 2",
            "assign 2 on n1 Placed",
            "satisfied 2 by 1",
            "assign 1 on n9 Open"
        ]
    );
}

#[test]
fn a_batch_is_taken_most_recently_used_node_first() {
    let mut service = Service::with_policy(PlacementPolicy::ANYWHERE).thawed(&[
        ("old", 30),
        ("new", 10),
        ("mid", 20),
    ]);
    service.flex(STORE, 2);
    service.done();
    service.allocate(&["never", "old", "mid", "new"]);
    let assigned: Vec<_> = service
        .done()
        .into_iter()
        .filter(|line| line.starts_with("assign"))
        .collect();
    assert_eq!(assigned, ["assign 4 on new Open", "assign 3 on mid Open"]);
}

#[test]
fn a_satisfied_role_withdraws_its_asks_and_gets_their_nodes_back_in_order() {
    let mut service = Service::new().thawed(&[("n1", 10), ("n2", 20), ("n3", 30)]);
    service.flex(STORE, 2);
    service.done();
    service.allocate(&["n8", "n9"]);
    assert_eq!(
        service.done(),
        [
            "assign 1 on n8 Unallocated",
            "cancel 2: n2",
            "cancel 1: n1",
            "assign 2 on n9 Unallocated"
        ]
    );
    assert_eq!(service.ready(), ["n1", "n2", "n3"]);
}

#[test]
fn an_unexplained_container_is_accepted_while_the_role_wants_more() {
    let mut service = Service::new().thawed(&[("n1", 10), ("n2", 20)]);
    service.flex(STORE, 2);
    service.done();
    service.allocate(&["n9"]);
    // One ask is now too much.
    assert_eq!(
        service.done(),
        ["assign 1 on n9 Unallocated", "cancel 2: n2"]
    );
    assert_eq!(service.status().actual, 1);
    assert_eq!(service.history.requested(STORE), 1);
}

#[test]
fn a_surplus_container_is_released_and_its_end_ignored() {
    let mut service = Service::new();
    service.flex(STORE, 1);
    service.done();
    service.allocate(&["n1", "n2"]);
    assert_eq!(
        service.done(),
        ["satisfied 1 by 1", "assign 1 on n1 Open", "release 2"]
    );
    let before = service.status().clone();
    service.complete(id(2), -100);
    assert_eq!(service.status(), &before);
    assert!(service.done().is_empty());
    assert_eq!(service.history.ignored().surplus_allocations, 1);
    assert!(
        service
            .history
            .nodes()
            .get("n2")
            .unwrap()
            .entries()
            .is_empty()
    );
}

#[test]
fn a_container_that_comes_twice_counts_once() {
    let mut service = Service::new();
    service.flex(STORE, 2);
    service.allocate(&["n1"]);
    service.done();
    receive(&mut service, allocated(1, "n1", AskedBy::Role(STORE), SIZE));
    assert!(service.done().is_empty());
    assert_eq!(service.status().actual, 1);
    assert_eq!(service.history.ignored().duplicate_allocations, 1);
}

#[test]
fn a_container_of_an_unknown_role_is_released() {
    let mut service = Service::new();
    let unknown = RoleId::new(99).unwrap();
    receive(
        &mut service,
        allocated(1, "n1", AskedBy::Role(unknown), SIZE),
    );
    assert_eq!(service.done(), ["release 1"]);
}

#[test]
fn a_container_smaller_than_the_ask_does_not_answer_it() {
    let mut service = Service::new();
    service.flex(STORE, 2);
    service.done();
    let small = Resource::new(255, 1);
    receive(
        &mut service,
        allocated(1, "n1", AskedBy::Role(STORE), small),
    );
    assert_eq!(
        service.done(),
        ["assign 1 on n1 Unallocated", "cancel 1: any"]
    );
}

#[test]
fn a_larger_container_answers_the_ask() {
    let mut service = Service::new();
    service.flex(STORE, 1);
    service.done();
    let large = Resource::new(1_024, 2);
    receive(
        &mut service,
        allocated(1, "n1", AskedBy::Role(STORE), large),
    );
    assert_eq!(service.done(), ["satisfied 1 by 1", "assign 1 on n1 Open"]);
}

#[test]
fn a_priority_without_location_answers_only_asks_without_location() {
    let mut service = Service::new();
    service.flex(STORE, 2);
    service.done();
    receive(&mut service, allocated(1, "n1", packed(true), SIZE));
    assert_eq!(service.done(), ["satisfied 1 by 1", "assign 1 on n1 Open"]);
    receive(&mut service, allocated(2, "n2", packed(false), SIZE));
    assert_eq!(
        service.done(),
        ["cancel 2: any", "assign 2 on n2 Unallocated"]
    );
}

#[test]
fn a_late_answer_to_an_ask_that_was_relaxed_is_unexplained_and_accepted() {
    let mut service = Service::new().thawed(&[("n1", 10)]);
    service.flex(STORE, 1);
    service.pass(30_001);
    service.tick();
    service.done();
    receive(&mut service, allocated(1, "n1", packed(false), SIZE));
    assert_eq!(
        service.done(),
        ["cancel 1: n1 or any", "assign 1 on n1 Unallocated"]
    );
}

#[test]
fn an_open_ask_may_bring_a_second_container_to_a_node() {
    let mut service = Service::new();
    service.run(&["n1"]);
    service.flex(STORE, 2);
    assert_eq!(service.done(), ["request 2: any"]);
    let second = service.allocate(&["n1"]);
    service.start(&second);
    assert_eq!(service.entry("n1").live(), 2);
    assert_eq!(service.done(), ["satisfied 2 by 2", "assign 2 on n1 Open"]);
}

#[test]
fn a_batch_is_taken_in_the_order_of_the_roles() {
    let mut service = Service::new();
    service.flex(QUERY, 1);
    service.flex(STORE, 1);
    service.actions.clear();
    let of_role = |container, role| AllocatedContainer {
        container: id(container),
        host: "n1".to_owned(),
        asked_by: AskedBy::Role(role),
        resource: SIZE,
    };
    let now = service.now();
    service.history.on_containers_allocated(
        vec![of_role(1, QUERY), of_role(2, STORE)],
        now,
        &mut service.actions,
    );
    let assigned: Vec<_> = service
        .done()
        .into_iter()
        .filter(|line| line.starts_with("assign"))
        .collect();
    assert_eq!(assigned, ["assign 2 on n1 Open", "assign 1 on n1 Open"]);
}
