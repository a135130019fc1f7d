//! Containers that nodes allocate: recorded, accounted, completed once, and bounded.

use wire::proto::hadoop_yarn::{
    ContainerProto, DistributedSchedulingAllocateRequestProto,
    DistributedSchedulingAllocateResponseProto, RegisterDistributedSchedulingAmResponseProto,
};

use super::*;
use crate::refusal::AllocationFault;

/// Id from which nodes count down in the first epoch.
const START: i64 = 0;

impl World {
    /// Returns a world of one node with capacity and a queue, and an AM that registered through it.
    fn with_distributed_master() -> (Self, ApplicationAttemptId) {
        let mut world = Self::new(&[]);
        world.register(&node(1), 4, Vec::new());
        world.heartbeat(&node(1), 0, Vec::new());
        world.pass(1_001);
        world.submit();
        let (attempt, _) = world.register_distributed();
        (world, attempt)
    }

    pub(super) fn register_distributed(
        &mut self,
    ) -> (
        ApplicationAttemptId,
        RegisterDistributedSchedulingAmResponseProto,
    ) {
        let (attempt, _) = self.take_launch();
        self.core.master_launched(attempt, Ok(()), self.now);
        let request = RegisterApplicationMasterRequestProto::default();
        let registered = self.core.register_distributed(attempt, &request, self.now);
        (attempt, registered.unwrap())
    }

    fn response_id(&self, attempt: ApplicationAttemptId) -> i32 {
        self.core.sessions[&attempt.application_id].response_id
    }

    fn try_allocate_on_node(
        &mut self,
        attempt: ApplicationAttemptId,
        response_id: i32,
        containers: &[ContainerProto],
    ) -> Result<DistributedSchedulingAllocateResponseProto, Refusal> {
        let request = DistributedSchedulingAllocateRequestProto {
            allocate_request: Some(AllocateRequestProto {
                response_id: Some(response_id),
                ..AllocateRequestProto::default()
            }),
            allocated_containers: containers.to_vec(),
        };
        self.core
            .allocate_distributed(attempt, b"", &request, self.now)
    }

    /// Makes the AM's next call with its node's containers; returns the completions in the answer.
    fn allocate_on_node(
        &mut self,
        attempt: ApplicationAttemptId,
        containers: &[ContainerProto],
    ) -> Vec<(ContainerId, i32)> {
        let response = self.try_allocate_on_node(attempt, self.response_id(attempt), containers);
        completions(&response.unwrap().allocate_response.unwrap())
    }
}

fn completions(response: &AllocateResponseProto) -> Vec<(ContainerId, i32)> {
    let statuses = response.completed_container_statuses.iter();
    statuses
        .map(|status| {
            let id = ContainerId::try_from(status.container_id.as_ref().unwrap()).unwrap();
            (id, status.exit_status())
        })
        .collect()
}

/// Returns the id of the `number`th container that a node allocates to this attempt.
fn id_of(attempt: ApplicationAttemptId, number: i64) -> ContainerId {
    attempt.container(START - number)
}

fn node_container(id: ContainerId, place: &NodeId) -> ContainerProto {
    ContainerProto {
        id: Some(id.into()),
        node_id: Some(place.into()),
        resource: Some(Resource::new(SLOT_MB, 1).into()),
        priority: Some(7.into()),
        execution_type: Some(ExecutionTypeProto::Opportunistic.into()),
        allocation_request_id: Some(3),
        ..ContainerProto::default()
    }
}

#[test]
fn a_registration_tells_what_a_node_needs_to_allocate() {
    let mut world = World::new(&[
        ("yarn.resourcemanager.epoch", "3"),
        (
            "yarn.resourcemanager.rm.container-allocation.expiry-interval-ms",
            "5000",
        ),
    ]);
    world.register(&node(1), 4, Vec::new());
    world.heartbeat(&node(1), 0, Vec::new());
    world.pass(1_001);
    world.submit();
    let (attempt, registered) = world.register_distributed();
    assert_eq!(registered.container_id_start(), 3 << 40);
    assert_eq!(world.master_of(attempt).id, (3 << 40) + 1);
    assert_eq!(registered.container_token_expiry_interval(), 5_000);
    let size = |memory_mb, vcores| Some(Resource::new(memory_mb, vcores).into());
    assert_eq!(registered.min_container_resource, size(1_024, 1));
    assert_eq!(registered.max_container_resource, size(8_192, 4));
    assert_eq!(registered.incr_container_resource, size(1_024, 1));
    assert_eq!(registered.register_response.unwrap().queue(), "default");
    let nodes = registered.nodes_for_scheduling;
    assert_eq!(nodes.len(), 1);
    assert_eq!(nodes[0].node_id, Some((&node(1)).into()));
    assert_eq!(nodes[0].rack_name(), "/default-rack");
    assert!(nodes[0].http_address.is_some());
}

/// Returns the length of the list of nodes under this `nodes-used` in a cluster of so many nodes.
fn list_length(nodes_used: &str, nodes: u16) -> usize {
    let mut world = World::new(&[(
        "yarn.resourcemanager.opportunistic-container-allocation.nodes-used",
        nodes_used,
    )]);
    for port in 1..=nodes {
        world.register(&node(port), 4, Vec::new());
        world.heartbeat(&node(port), 0, Vec::new());
    }
    world.pass(1_001);
    world.submit();
    let (attempt, _) = world.register_distributed();
    let answer = world.try_allocate_on_node(attempt, 0, &[]).unwrap();
    answer.nodes_for_scheduling.len()
}

#[test]
fn the_nodes_for_scheduling_are_the_least_loaded_and_no_more_than_configured() {
    assert_eq!(list_length("2", 4), 2);
}

#[test]
fn a_list_of_all_nodes_is_not_cut() {
    assert_eq!(list_length("-1", 1_100), 1_100);
}

#[test]
fn a_container_from_a_node_is_known_takes_no_room_and_its_end_is_told_once() {
    let (mut world, attempt) = World::with_distributed_master();
    let id = id_of(attempt, 1);
    let free = world.core.free_resources();
    assert!(
        world
            .allocate_on_node(attempt, &[node_container(id, &node(1))])
            .is_empty()
    );
    assert_eq!(world.core.free_resources(), free);
    assert_eq!(world.core.container_reports(attempt).len(), 2);
    let answer = world.heartbeat(&node(1), 1, vec![status(id, None)]);
    assert!(answer.containers_to_cleanup.is_empty());
    let ended = || vec![status(id, Some(5))];
    world.heartbeat(&node(1), 2, ended());
    assert_eq!(world.allocate_on_node(attempt, &[]), [(id, 5)]);
    assert!(world.allocate_on_node(attempt, &[]).is_empty());
    let answer = world.heartbeat(&node(1), 3, ended());
    assert_eq!(answer.containers_to_be_removed_from_nm, [id.into()]);
    assert!(world.allocate_on_node(attempt, &[]).is_empty());
}

#[test]
fn a_container_sent_again_is_the_same_even_after_its_end() {
    let (mut world, attempt) = World::with_distributed_master();
    let container = node_container(id_of(attempt, 1), &node(1));
    let first = world.try_allocate_on_node(attempt, 0, std::slice::from_ref(&container));
    // The answer was lost; meanwhile the container ran and completed.
    world.heartbeat(
        &node(1),
        1,
        vec![
            status(id_of(attempt, 1), None),
            status(id_of(attempt, 1), Some(0)),
        ],
    );
    let second = node_container(id_of(attempt, 2), &node(1));
    let again = world.try_allocate_on_node(attempt, 0, &[container.clone(), second.clone()]);
    let answer = |response: Result<DistributedSchedulingAllocateResponseProto, Refusal>| {
        response.unwrap().allocate_response
    };
    assert_eq!(answer(again), answer(first));
    assert_eq!(
        world.allocate_on_node(attempt, &[container, second]),
        [(id_of(attempt, 1), 0)]
    );
    assert!(world.allocate_on_node(attempt, &[]).is_empty());
    // A container that came only with the repetition is recorded as well.
    let answer = world.heartbeat(&node(1), 2, vec![status(id_of(attempt, 2), None)]);
    assert!(answer.containers_to_cleanup.is_empty());
}

#[test]
fn a_refused_call_leaves_no_containers_and_they_may_come_again() {
    let (mut world, attempt) = World::with_distributed_master();
    let container = node_container(id_of(attempt, 1), &node(1));
    let refusal = world.try_allocate_on_node(attempt, 9, std::slice::from_ref(&container));
    assert!(matches!(refusal, Err(Refusal::OutOfOrder { .. })));
    assert_eq!(world.core.container_reports(attempt).len(), 1);
    world.allocate_on_node(attempt, &[container]);
    assert_eq!(world.core.container_reports(attempt).len(), 2);
}

#[test]
fn a_container_on_a_node_that_has_gone_ends_after_its_master_knows_it() {
    let (mut world, attempt) = World::with_distributed_master();
    let id = id_of(attempt, 1);
    assert!(
        world
            .allocate_on_node(attempt, &[node_container(id, &node(9))])
            .is_empty()
    );
    assert_eq!(world.allocate_on_node(attempt, &[]), [(id, -100)]);
    assert!(world.allocate_on_node(attempt, &[]).is_empty());
}

#[test]
fn what_a_node_cannot_have_given_out_is_refused_and_changes_nothing() {
    let (mut world, attempt) = World::with_distributed_master();
    let good = node_container(id_of(attempt, 1), &node(1));
    let mut stranger = id_of(attempt, 1);
    stranger.attempt.attempt_id += 1;
    let guaranteed = ContainerProto {
        execution_type: Some(ExecutionTypeProto::Guaranteed.into()),
        ..good.clone()
    };
    let faults = [
        (
            node_container(stranger, &node(1)),
            AllocationFault::OtherAttempt,
        ),
        (
            node_container(id_of(attempt, -1), &node(1)),
            AllocationFault::IdOfResourceManager,
        ),
        (
            node_container(id_of(attempt, 0), &node(1)),
            AllocationFault::IdOfResourceManager,
        ),
        (guaranteed, AllocationFault::NotOpportunistic),
    ];
    for (bad, expected) in faults {
        let refusal = world.try_allocate_on_node(attempt, 0, &[good.clone(), bad]);
        assert!(
            matches!(refusal, Err(Refusal::ForeignAllocation { fault, .. }) if fault == expected),
            "{refusal:?}"
        );
    }
    let huge = ContainerProto {
        resource: Some(Resource::new(1 << 40, 1).into()),
        ..good.clone()
    };
    for bad in [huge, ContainerProto::default()] {
        assert!(
            world
                .try_allocate_on_node(attempt, 0, &[good.clone(), bad])
                .is_err()
        );
    }
    let many = vec![good; 10_001];
    let refusal = world.try_allocate_on_node(attempt, 0, &many);
    assert_eq!(refusal, Err(Refusal::TooManyContainers(10_000)));
    assert_eq!(world.core.container_reports(attempt).len(), 1);
}

#[test]
fn an_attempt_cannot_pile_up_containers_without_end() {
    let (mut world, attempt) = World::with_distributed_master();
    let mut calls = 0;
    let refusal = loop {
        let batch: Vec<ContainerProto> = (1..=10_000)
            .map(|number| node_container(id_of(attempt, calls * 10_000 + number), &node(1)))
            .collect();
        let id = world.response_id(attempt);
        match world.try_allocate_on_node(attempt, id, &batch) {
            Ok(_) => calls += 1,
            Err(refusal) => break refusal,
        }
    };
    assert_eq!((calls, refusal), (9, Refusal::TooManyContainers(100_000)));
}

#[test]
fn a_container_from_a_node_that_is_not_started_in_time_ends() {
    let (mut world, attempt) = World::with_distributed_master();
    let id = id_of(attempt, 1);
    world.allocate_on_node(attempt, &[node_container(id, &node(1))]);
    world.heartbeat(&node(1), 1, Vec::new());
    for response_id in 2..5 {
        assert!(world.allocate_on_node(attempt, &[]).is_empty());
        world.pass(200_001);
        world.heartbeat(&node(1), response_id, Vec::new());
    }
    assert_eq!(world.allocate_on_node(attempt, &[]), [(id, -100)]);
}

#[test]
fn a_container_from_a_node_can_be_promoted() {
    let (mut world, attempt) = World::with_distributed_master();
    let id = id_of(attempt, 1);
    world.allocate_on_node(attempt, &[node_container(id, &node(1))]);
    let promoted = world.update(attempt, vec![promotion(id, 0)]);
    assert_eq!(promoted.updated_containers.len(), 1);
    let container = &promoted.updated_containers[0].container;
    assert_eq!(container.priority, Some(7.into()));
    assert_eq!(container.allocation_request_id(), 3);
    assert!(container.container_token.is_some());
}

#[test]
fn counts_of_guaranteed_containers_leave_out_those_from_nodes() {
    let (mut world, attempt) = World::with_distributed_master();
    world.allocate_on_node(attempt, &[node_container(id_of(attempt, 1), &node(1))]);
    let counts = |world: &World| {
        let report = &world.core.node_reports(&[])[0];
        let application = world.core.application(attempt.application_id).unwrap();
        let (containers, promised) = world.core.holdings(application);
        (report.num_containers(), containers, promised.memory_mb)
    };
    assert_eq!(counts(&world), (1, 2, SLOT_MB));
}

#[test]
fn a_master_must_register_before_its_node_allocates() {
    let mut world = World::new(&[]);
    world.register(&node(1), 4, Vec::new());
    world.submit();
    let (attempt, _) = world.take_launch();
    let container = node_container(id_of(attempt, 1), &node(1));
    let refusal = world.try_allocate_on_node(attempt, 0, &[container]);
    assert_eq!(refusal, Err(Refusal::NotRegistered(attempt)));
    let request = DistributedSchedulingAllocateRequestProto::default();
    let refusal = world
        .core
        .allocate_distributed(attempt, b"", &request, world.now);
    assert!(matches!(refusal, Err(Refusal::Message(_))), "{refusal:?}");
}
