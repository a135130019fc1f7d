//! Promotion and demotion: capacity, versions, tokens and notifications.

use prost::Message as _;
use wire::proto::hadoop_yarn::{ContainerProto, ContainerTokenIdentifierProto};

use super::*;

const AUTO_UPDATE: (&str, &str) = ("yarn.resourcemanager.auto-update.containers", "true");

fn demotion(id: ContainerId, version: i32) -> UpdateContainerRequestProto {
    update(id, version, ContainerUpdateTypeProto::DemoteExecutionType)
}

/// Returns the version and the type in the token of a container.
fn token_of(container: &ContainerProto) -> (i32, ExecutionTypeProto) {
    let token = container.container_token.as_ref().unwrap();
    let identifier = ContainerTokenIdentifierProto::decode(token.identifier.clone()).unwrap();
    (identifier.version(), identifier.execution_type())
}

fn reasons(response: &AllocateResponseProto) -> Vec<(&str, i32)> {
    let errors = response.update_errors.iter();
    errors
        .map(|error| (error.reason(), error.current_container_version()))
        .collect()
}

#[test]
fn a_demoted_container_gives_its_room_to_whoever_waits() {
    let (mut world, attempt) = World::with_open_node(2, &[]);
    let id = world.one(attempt, ExecutionType::Guaranteed);
    assert!(ids(&world.ask(attempt, 1, ExecutionType::Guaranteed)).is_empty());
    let answer = world.update(attempt, vec![demotion(id, 0)]);
    let updated = &answer.updated_containers;
    assert_eq!(updated.len(), 1);
    let kind = ContainerUpdateTypeProto::DemoteExecutionType;
    assert_eq!(updated[0].update_type(), kind);
    assert_eq!(updated[0].container.version(), 1);
    let expected = (1, ExecutionTypeProto::Opportunistic);
    assert_eq!(token_of(&updated[0].container), expected);
    assert_eq!(answer.allocated_containers.len(), 1);
}

#[test]
fn promotions_are_served_first_come_first_and_before_new_containers() {
    let (mut world, attempt) = World::with_open_node(2, &[]);
    let guaranteed = world.one(attempt, ExecutionType::Guaranteed);
    let waiting = ids(&world.ask(attempt, 2, ExecutionType::Opportunistic));
    let promotions = waiting.iter().rev().map(|id| promotion(*id, 0)).collect();
    assert!(
        world
            .update(attempt, promotions)
            .updated_containers
            .is_empty()
    );
    assert!(ids(&world.ask(attempt, 1, ExecutionType::Guaranteed)).is_empty());
    world.heartbeat(&node(1), 1, vec![status(guaranteed, Some(0))]);
    let answer = world.allocate(attempt, AllocateRequestProto::default());
    let updated = answer.updated_containers.iter();
    let updated: Vec<_> = updated.map(|each| each.container.id).collect();
    assert_eq!(updated, [Some(waiting[1].into())]);
    assert!(answer.allocated_containers.is_empty());
}

#[test]
fn a_container_that_ends_while_it_waits_to_be_promoted_takes_no_room() {
    let (mut world, attempt) = World::with_open_node(2, &[]);
    let guaranteed = world.one(attempt, ExecutionType::Guaranteed);
    let id = world.one(attempt, ExecutionType::Opportunistic);
    world.update(attempt, vec![promotion(id, 0)]);
    world.heartbeat(
        &node(1),
        1,
        vec![status(id, Some(0)), status(guaranteed, Some(0))],
    );
    let answer = world.allocate(attempt, AllocateRequestProto::default());
    assert!(answer.updated_containers.is_empty());
    assert_eq!(answer.completed_container_statuses.len(), 2);
    assert_eq!(world.core.free_resources().memory_mb, SLOT_MB);
    assert_eq!(world.core.promotions.len(), 0);
}

#[test]
fn a_promoted_container_ends_like_any_other_and_its_room_is_free() {
    let (mut world, attempt) = World::with_open_node(2, &[]);
    let id = world.one(attempt, ExecutionType::Opportunistic);
    let answer = world.update(attempt, vec![promotion(id, 0)]);
    let expected = (1, ExecutionTypeProto::Guaranteed);
    assert_eq!(token_of(&answer.updated_containers[0].container), expected);
    assert_eq!(world.core.free_resources().memory_mb, 0);
    world.heartbeat(&node(1), 1, vec![status(id, Some(0))]);
    assert_eq!(world.core.free_resources().memory_mb, SLOT_MB);
    let ended = world.allocate(attempt, AllocateRequestProto::default());
    let status = &ended.completed_container_statuses[0];
    assert_eq!(status.execution_type(), ExecutionTypeProto::Guaranteed);
}

#[test]
fn updates_that_cannot_be_are_told_with_the_version_that_counts() {
    let (mut world, attempt) = World::with_open_node(4, &[]);
    let id = world.one(attempt, ExecutionType::Guaranteed);
    let mut unknown = id;
    unknown.id += 100;
    let size = ContainerUpdateTypeProto::IncreaseResource;
    let answer = world.update(
        attempt,
        vec![
            demotion(unknown, 0),
            demotion(world.master_of(attempt), 0),
            demotion(id, 7),
            update(id, 0, size),
        ],
    );
    assert_eq!(
        reasons(&answer),
        [
            ("INVALID_CONTAINER_ID", -1),
            ("INVALID_CONTAINER_ID", -1),
            ("INCORRECT_CONTAINER_VERSION_ERROR", 0),
            ("RESOURCE_OUTSIDE_ALLOWED_RANGE", 0),
        ]
    );
    let answer = world.update(attempt, vec![promotion(id, 0)]);
    assert!(reasons(&answer).is_empty() && answer.updated_containers.is_empty());
}

#[test]
fn nodes_hear_of_updates_only_where_that_is_configured() {
    for (properties, orders_sent) in [(&[][..], 0), (&[AUTO_UPDATE][..], 1)] {
        let (mut world, attempt) = World::with_open_node(4, properties);
        let id = world.one(attempt, ExecutionType::Guaranteed);
        let answer = world.update(attempt, vec![demotion(id, 0)]);
        assert_eq!(answer.updated_containers.len(), 1);
        let orders = world.heartbeat(&node(1), 1, Vec::new());
        assert_eq!(orders.containers_to_update.len(), orders_sent);
    }
}

#[test]
fn a_node_hears_once_of_the_last_of_many_changes_of_mind() {
    let (mut world, attempt) = World::with_open_node(4, &[AUTO_UPDATE]);
    let id = world.one(attempt, ExecutionType::Guaranteed);
    for version in [0, 2, 4] {
        world.update(attempt, vec![demotion(id, version)]);
        world.update(attempt, vec![promotion(id, version + 1)]);
    }
    let orders = world
        .heartbeat(&node(1), 1, Vec::new())
        .containers_to_update;
    assert_eq!(orders.len(), 1);
    assert_eq!(token_of(&orders[0]), (6, ExecutionTypeProto::Guaranteed));
    let again = world.heartbeat(&node(1), 2, Vec::new());
    assert!(again.containers_to_update.is_empty());
}
