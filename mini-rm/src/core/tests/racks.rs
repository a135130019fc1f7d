//! Racks: reported to clients and nodes, and respected while there is capacity.

use super::*;

const NEAR: &str = "/near";

/// Returns a world whose emptier node is far and whose other node is near.
fn world() -> World {
    let mut world = World::new(&[]);
    world.register_in("/far", &node(1), 8, Vec::new());
    world.register_in(NEAR, &node(2), 4, Vec::new());
    for port in [1, 2] {
        world.heartbeat(&node(port), 0, Vec::new());
    }
    world.pass(1_001);
    world
}

fn ask_near(count: i32, kind: ExecutionType, relax_locality: bool) -> AllocateRequestProto {
    let size = Resource::new(SLOT_MB, 1);
    let line = |name: &str, relax_locality| ResourceRequestProto {
        resource_name: Some(name.to_owned()),
        relax_locality: Some(relax_locality),
        ..asking(count, size, kind)
    };
    AllocateRequestProto {
        ask: vec![line(NEAR, true), line("*", relax_locality)],
        ..AllocateRequestProto::default()
    }
}

fn ports(response: &AllocateResponseProto) -> Vec<i32> {
    let containers = response.allocated_containers.iter();
    containers
        .map(|container| container.node_id.as_ref().unwrap().port())
        .collect()
}

#[test]
fn containers_go_to_the_rack_that_an_ask_names_and_elsewhere_once_it_is_full() {
    let mut world = world();
    world.submit();
    let attempt = world.start_master();
    let request = ask_near(6, ExecutionType::Guaranteed, true);
    assert_eq!(ports(&world.allocate(attempt, request)), [2, 2, 2, 2, 1, 1]);
}

#[test]
fn containers_that_may_be_nowhere_else_wait_for_their_rack() {
    let mut world = world();
    world.submit();
    let attempt = world.start_master();
    let request = ask_near(6, ExecutionType::Guaranteed, false);
    assert_eq!(ports(&world.allocate(attempt, request)), [2; 4]);
}

#[test]
fn opportunistic_containers_go_to_the_rack_too() {
    let mut world = world();
    world.submit();
    let attempt = world.start_master();
    let request = ask_near(3, ExecutionType::Opportunistic, true);
    assert_eq!(ports(&world.allocate(attempt, request)), [2; 3]);
}

#[test]
fn clients_and_nodes_that_allocate_are_told_of_racks() {
    let mut world = world();
    let of_reports = |world: &World| -> Vec<String> {
        let reports = world.core.node_reports(&[]).into_iter();
        reports.map(|report| report.rack_name.unwrap()).collect()
    };
    assert_eq!(of_reports(&world), ["/far", NEAR]);
    world.submit();
    let (_, registered) = world.register_distributed();
    let nodes = registered.nodes_for_scheduling.iter();
    let mut racks: Vec<&str> = nodes.map(|node| node.rack_name()).collect();
    racks.sort_unstable();
    assert_eq!(racks, ["/far", NEAR]);
}

#[test]
fn a_node_that_registers_again_stays_in_its_rack() {
    let mut world = world();
    world.register_in("/other", &node(2), 4, Vec::new());
    assert_eq!(world.core.nodes[&node(2)].rack, NEAR);
}
