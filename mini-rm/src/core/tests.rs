mod application_masters;
mod attempts;
mod chaos;
mod distributed;
mod keys;
mod node_allocator;
mod nodes;
mod racks;
mod refusals;
mod updates;

use std::sync::Arc;

use records::{
    ApplicationAttemptId, ApplicationId, ContainerId, EpochMillis, ExecutionType, MonoMillis,
    NodeId, Now, Resource,
};
use wire::proto::hadoop_yarn::{
    AllocateRequestProto, AllocateResponseProto, ApplicationSubmissionContextProto,
    ContainerLaunchContextProto, ContainerStateProto, ContainerStatusProto,
    ContainerUpdateTypeProto, ExecutionTypeProto, ExecutionTypeRequestProto,
    FinalApplicationStatusProto, FinishApplicationMasterRequestProto, NmContainerStatusProto,
    NodeActionProto, NodeHeartbeatRequestProto, NodeHeartbeatResponseProto, NodeStatusProto,
    OpportunisticContainersStatusProto, RegisterApplicationMasterRequestProto,
    RegisterNodeManagerRequestProto, ResourceRequestProto, UpdateContainerRequestProto,
};

use super::{Core, Effect};
use crate::applications::{ApplicationState, AttemptState};
use crate::config::Config;
use crate::nodes::{DEFAULT_RACK, NodeState};
use crate::refusal::Refusal;
use wire::secrets::AmrmTokenSecretManager;

/// Memory of every container, in MiB.
const SLOT_MB: u64 = 1024;

/// A core, a clock that tests advance, and the last report of each node.
pub(crate) struct World {
    pub(crate) core: Core,
    pub(crate) now: Now,
}

impl World {
    pub(crate) fn new(properties: &[(&str, &str)]) -> Self {
        let enabled = (
            "yarn.resourcemanager.opportunistic-container-allocation.enabled",
            "true",
        );
        // What a test sets has the last word.
        let all: Vec<_> = [enabled].iter().chain(properties).copied().collect();
        let config = Arc::new(Config::of(&all).unwrap());
        let now = Now {
            mono: MonoMillis(0),
            wall: EpochMillis(1_000),
        };
        let secrets = AmrmTokenSecretManager::new(config.master_keys, now.mono);
        Self {
            core: Core::new(config, Arc::new(secrets), 1, now),
            now,
        }
    }

    fn pass(&mut self, ms: u64) {
        self.now.mono = self.now.mono + ms;
        self.core.tick(self.now);
    }

    pub(crate) fn register(
        &mut self,
        node: &NodeId,
        slots: u64,
        running: Vec<NmContainerStatusProto>,
    ) {
        self.register_in(DEFAULT_RACK, node, slots, running);
    }

    fn register_in(
        &mut self,
        rack: &str,
        node: &NodeId,
        slots: u64,
        running: Vec<NmContainerStatusProto>,
    ) {
        let request = RegisterNodeManagerRequestProto {
            node_id: Some(node.into()),
            resource: Some(Resource::new(slots * SLOT_MB, 64).into()),
            container_statuses: running,
            ..RegisterNodeManagerRequestProto::default()
        };
        let answer = self.core.register_node(&request, rack, self.now).unwrap();
        assert_eq!(answer.node_action(), NodeActionProto::Normal);
    }

    /// Sends a heartbeat of a node that queues up to ten opportunistic containers.
    pub(crate) fn heartbeat(
        &mut self,
        node: &NodeId,
        response_id: i32,
        containers: Vec<ContainerStatusProto>,
    ) -> NodeHeartbeatResponseProto {
        let request = NodeHeartbeatRequestProto {
            node_status: Some(NodeStatusProto {
                node_id: Some(node.into()),
                response_id: Some(response_id),
                containers_statuses: containers,
                opportunistic_containers_status: Some(OpportunisticContainersStatusProto {
                    opport_queue_capacity: Some(10),
                    ..OpportunisticContainersStatusProto::default()
                }),
                ..NodeStatusProto::default()
            }),
            ..NodeHeartbeatRequestProto::default()
        };
        self.core.heartbeat(request, self.now)
    }

    /// Returns a world with one node of this capacity and an AM on it that has registered.
    fn with_master(slots: u64, properties: &[(&str, &str)]) -> (Self, ApplicationAttemptId) {
        let mut world = Self::new(properties);
        world.register(&node(1), slots, Vec::new());
        world.submit();
        let attempt = world.start_master();
        (world, attempt)
    }

    /// Returns the same world after a heartbeat, so that the node accepts opportunistic containers.
    fn with_open_node(slots: u64, properties: &[(&str, &str)]) -> (Self, ApplicationAttemptId) {
        let (mut world, attempt) = Self::with_master(slots, properties);
        world.heartbeat(&node(1), 0, Vec::new());
        world.pass(1_001);
        (world, attempt)
    }

    pub(crate) fn try_submit(
        &mut self,
        change: impl FnOnce(&mut ApplicationSubmissionContextProto),
    ) -> Result<ApplicationId, Refusal> {
        let id = self.core.new_application();
        let mut submission = ApplicationSubmissionContextProto {
            application_id: Some(id.into()),
            am_container_spec: Some(ContainerLaunchContextProto::default()),
            resource: Some(Resource::new(SLOT_MB, 1).into()),
            ..ApplicationSubmissionContextProto::default()
        };
        change(&mut submission);
        self.core.submit(submission, "u", self.now)?;
        Ok(id)
    }

    fn submit(&mut self) -> ApplicationId {
        self.try_submit(|_| {}).unwrap()
    }

    /// Takes the only launch that is ordered.
    fn take_launch(&mut self) -> (ApplicationAttemptId, NodeId) {
        let mut effects = self.core.take_effects();
        assert_eq!(effects.len(), 1, "{effects:?}");
        let Effect::Launch(launch) = effects.remove(0);
        (launch.attempt, launch.node)
    }

    /// Completes the only launch that is ordered and registers the AM.
    pub(crate) fn start_master(&mut self) -> ApplicationAttemptId {
        let (attempt, _) = self.take_launch();
        self.core.master_launched(attempt, Ok(()), self.now);
        let request = RegisterApplicationMasterRequestProto::default();
        self.core
            .register_master(attempt, &request, self.now)
            .unwrap();
        attempt
    }

    fn try_allocate(
        &mut self,
        attempt: ApplicationAttemptId,
        request: &AllocateRequestProto,
    ) -> Result<AllocateResponseProto, Refusal> {
        self.core.allocate(attempt, b"", request, self.now)
    }

    /// Makes the AM's next call.
    fn allocate(
        &mut self,
        attempt: ApplicationAttemptId,
        mut request: AllocateRequestProto,
    ) -> AllocateResponseProto {
        let session = &self.core.sessions[&attempt.application_id];
        request.response_id = Some(session.response_id);
        self.try_allocate(attempt, &request).unwrap()
    }

    pub(crate) fn ask(
        &mut self,
        attempt: ApplicationAttemptId,
        count: i32,
        kind: ExecutionType,
    ) -> AllocateResponseProto {
        let ask = vec![asking(count, Resource::new(SLOT_MB, 1), kind)];
        let request = AllocateRequestProto {
            ask,
            ..AllocateRequestProto::default()
        };
        self.allocate(attempt, request)
    }

    fn update(
        &mut self,
        attempt: ApplicationAttemptId,
        update_requests: Vec<UpdateContainerRequestProto>,
    ) -> AllocateResponseProto {
        self.allocate(
            attempt,
            AllocateRequestProto {
                update_requests,
                ..AllocateRequestProto::default()
            },
        )
    }

    fn one(&mut self, attempt: ApplicationAttemptId, kind: ExecutionType) -> ContainerId {
        ids(&self.ask(attempt, 1, kind))[0]
    }

    fn master_of(&self, attempt: ApplicationAttemptId) -> ContainerId {
        let application = self.core.application(attempt.application_id).unwrap();
        application.attempt().master.unwrap()
    }
}

pub(crate) fn node(port: u16) -> NodeId {
    NodeId {
        host: "n".to_owned(),
        port,
    }
}

fn update(
    id: ContainerId,
    version: i32,
    update_type: ContainerUpdateTypeProto,
) -> UpdateContainerRequestProto {
    UpdateContainerRequestProto {
        container_version: version,
        container_id: id.into(),
        update_type: update_type.into(),
        capability: None,
        execution_type: None,
    }
}

fn promotion(id: ContainerId, version: i32) -> UpdateContainerRequestProto {
    update(id, version, ContainerUpdateTypeProto::PromoteExecutionType)
}

fn asking(count: i32, size: Resource, kind: ExecutionType) -> ResourceRequestProto {
    ResourceRequestProto {
        priority: Some(1.into()),
        resource_name: Some("*".to_owned()),
        capability: Some(size.into()),
        num_containers: Some(count),
        execution_type_request: Some(ExecutionTypeRequestProto {
            execution_type: Some(ExecutionTypeProto::from(kind).into()),
            enforce_execution_type: Some(true),
        }),
        ..ResourceRequestProto::default()
    }
}

fn status(id: ContainerId, exit_status: Option<i32>) -> ContainerStatusProto {
    let state = match exit_status {
        Some(_) => ContainerStateProto::CComplete,
        None => ContainerStateProto::CRunning,
    };
    ContainerStatusProto {
        container_id: Some(id.into()),
        state: Some(state.into()),
        exit_status,
        ..ContainerStatusProto::default()
    }
}

fn ids(response: &AllocateResponseProto) -> Vec<ContainerId> {
    let containers = response.allocated_containers.iter();
    containers
        .map(|container| ContainerId::try_from(container.id.as_ref().unwrap()).unwrap())
        .collect()
}

#[test]
fn an_application_lives_from_submission_to_clean_up() {
    let (mut world, attempt) = World::with_master(4, &[]);
    let application = attempt.application_id;
    assert_eq!(world.master_of(attempt).epoch(), 0);
    let first = world.ask(attempt, 2, ExecutionType::Guaranteed);
    let containers = ids(&first);
    assert_eq!((containers.len(), first.nm_tokens.len()), (2, 1));
    // The AM receives the completion; the node forgets it only after the AM's next call.
    world.heartbeat(&node(1), 0, vec![status(containers[0], Some(7))]);
    let answer = world.allocate(attempt, AllocateRequestProto::default());
    assert_eq!(answer.completed_container_statuses[0].exit_status(), 7);
    let ended = || vec![status(containers[0], Some(7))];
    let answer = world.heartbeat(&node(1), 1, ended());
    assert!(answer.containers_to_be_removed_from_nm.is_empty());
    world.allocate(attempt, AllocateRequestProto::default());
    let answer = world.heartbeat(&node(1), 2, ended());
    assert_eq!(answer.containers_to_be_removed_from_nm.len(), 1);
    // The AM unregisters, then its container completes.
    let finish = FinishApplicationMasterRequestProto {
        final_application_status: Some(FinalApplicationStatusProto::AppSucceeded.into()),
        ..FinishApplicationMasterRequestProto::default()
    };
    assert_eq!(
        world.core.finish_master(attempt, &finish, world.now),
        Ok(true)
    );
    let master = world.master_of(attempt);
    let answer = world.heartbeat(&node(1), 3, vec![status(master, Some(0))]);
    assert_eq!(answer.applications_to_cleanup, [application.into()]);
    assert_eq!(answer.containers_to_cleanup, [containers[1].into()]);
    let state = world.core.application(application).unwrap().attempt().state;
    assert_eq!(state, AttemptState::Finished);
    assert!(world.core.containers.is_empty());
    assert_eq!(world.core.free_resources().memory_mb, 4 * SLOT_MB);
}

#[test]
fn a_repeated_call_is_answered_again_and_one_out_of_order_is_refused() {
    let (mut world, attempt) = World::with_master(4, &[]);
    let first = world.ask(attempt, 1, ExecutionType::Guaranteed);
    let call = |response_id| AllocateRequestProto {
        response_id: Some(response_id),
        ..AllocateRequestProto::default()
    };
    assert_eq!(world.try_allocate(attempt, &call(0)), Ok(first));
    let refusal = world.try_allocate(attempt, &call(9)).unwrap_err();
    assert!(
        matches!(
            refusal,
            Refusal::OutOfOrder {
                expected: 1,
                received: 9,
                ..
            }
        ),
        "{refusal}"
    );
}

#[test]
fn a_container_that_is_not_started_in_time_is_taken_back() {
    let (mut world, attempt) = World::with_master(
        4,
        &[(
            "yarn.resourcemanager.rm.container-allocation.expiry-interval-ms",
            "1000",
        )],
    );
    let containers = ids(&world.ask(attempt, 2, ExecutionType::Guaranteed));
    world.heartbeat(&node(1), 0, vec![status(containers[0], None)]);
    world.pass(1_001);
    let answer = world.allocate(attempt, AllocateRequestProto::default());
    let statuses = answer.completed_container_statuses;
    assert_eq!(statuses.len(), 1);
    assert_eq!(statuses[0].container_id, Some(containers[1].into()));
    assert_eq!(statuses[0].exit_status(), -100);
}

#[test]
fn opportunistic_containers_take_no_room_and_one_is_promoted_when_there_is_some() {
    let (mut world, attempt) = World::with_open_node(2, &[]);
    let guaranteed = ids(&world.ask(attempt, 1, ExecutionType::Guaranteed));
    let response = world.ask(attempt, 3, ExecutionType::Opportunistic);
    assert_eq!(response.allocated_containers.len(), 3);
    assert_eq!(world.core.free_resources().memory_mb, 0);
    let id = ids(&response)[0];
    let promote = AllocateRequestProto {
        update_requests: vec![UpdateContainerRequestProto {
            container_version: 0,
            container_id: id.into(),
            update_type: ContainerUpdateTypeProto::PromoteExecutionType.into(),
            capability: None,
            execution_type: Some(ExecutionTypeProto::Guaranteed.into()),
        }],
        ..AllocateRequestProto::default()
    };
    assert!(
        world
            .allocate(attempt, promote.clone())
            .updated_containers
            .is_empty()
    );
    let again = world.allocate(attempt, promote).update_errors;
    assert_eq!(again[0].reason(), "UPDATE_OUTSTANDING_ERROR");
    let release = AllocateRequestProto {
        release: vec![guaranteed[0].into()],
        ..AllocateRequestProto::default()
    };
    let updated = world.allocate(attempt, release).updated_containers;
    assert_eq!(updated.len(), 1);
    assert_eq!(updated[0].container.version(), 1);
    assert_eq!(
        updated[0].container.execution_type(),
        ExecutionTypeProto::Guaranteed
    );
    assert_eq!(world.core.free_resources().memory_mb, 0);
}

#[test]
fn a_nodes_queue_bounds_the_opportunistic_containers_between_two_heartbeats() {
    let (mut world, attempt) = World::with_open_node(2, &[]);
    let response = world.ask(attempt, 50, ExecutionType::Opportunistic);
    assert_eq!(response.allocated_containers.len(), 10);
}

#[test]
fn a_killed_application_gives_everything_back_and_its_master_is_a_stranger() {
    let (mut world, attempt) = World::with_master(4, &[]);
    let application = attempt.application_id;
    world.ask(attempt, 2, ExecutionType::Guaranteed);
    assert_eq!(world.core.kill(application, "enough", world.now), Ok(true));
    assert!(world.core.containers.is_empty());
    let answer = world.heartbeat(&node(1), 0, Vec::new());
    assert_eq!(answer.containers_to_cleanup.len(), 3);
    assert_eq!(answer.applications_to_cleanup, [application.into()]);
    let refusal = world.try_allocate(attempt, &AllocateRequestProto::default());
    assert_eq!(refusal, Err(Refusal::UnknownAttempt(attempt)));
    assert!(world.core.take_effects().is_empty(), "no further attempt");
}

#[test]
fn a_node_ends_what_nobody_knows_and_forgets_it_when_it_has_ended() {
    let mut world = World::new(&[]);
    world.register(&node(1), 4, Vec::new());
    let stranger = ApplicationId::new(1, 1).attempt(1).container(1);
    let answer = world.heartbeat(&node(1), 0, vec![status(stranger, None)]);
    assert_eq!(answer.containers_to_cleanup, [stranger.into()]);
    let answer = world.heartbeat(&node(1), 1, vec![status(stranger, Some(143))]);
    assert_eq!(answer.containers_to_be_removed_from_nm, [stranger.into()]);
}

#[test]
fn a_node_that_registers_again_keeps_what_it_runs_and_loses_what_it_does_not() {
    let (mut world, attempt) = World::with_master(4, &[]);
    let containers = ids(&world.ask(attempt, 2, ExecutionType::Guaranteed));
    let master = world.master_of(attempt);
    let running = |id: ContainerId| status(id, None);
    let all = [master, containers[0], containers[1]].map(running).to_vec();
    world.heartbeat(&node(1), 0, all);
    let kept = [master, containers[0]].map(|id| NmContainerStatusProto {
        container_id: Some(id.into()),
        container_state: Some(ContainerStateProto::CRunning.into()),
        ..NmContainerStatusProto::default()
    });
    world.register(&node(1), 4, kept.to_vec());
    let answer = world.allocate(attempt, AllocateRequestProto::default());
    let lost = answer.completed_container_statuses;
    assert_eq!(lost.len(), 1);
    assert_eq!(lost[0].container_id, Some(containers[1].into()));
    assert_eq!(answer.updated_nodes.len(), 1);
    // The old token is invalid, as the node may be another process: the next container brings a new
    // one.
    let next = world.ask(attempt, 1, ExecutionType::Guaranteed);
    assert_eq!(
        (next.allocated_containers.len(), next.nm_tokens.len()),
        (1, 1)
    );
}

#[test]
fn only_so_many_ended_applications_are_remembered() {
    let mut world = World::new(&[("yarn.resourcemanager.max-completed-applications", "2")]);
    let all: Vec<ApplicationId> = (0..3).map(|_| world.submit()).collect();
    for id in &all {
        world.core.kill(*id, "", world.now).unwrap();
    }
    let left: Vec<ApplicationId> = world.core.applications().map(|each| each.id).collect();
    assert_eq!(left, all[1..]);
}

#[test]
fn a_huge_ask_on_a_huge_node_is_given_piece_by_piece() {
    let mut world = World::new(&[]);
    world.register(&node(1), 4, Vec::new());
    world.submit();
    let claimed = Resource::new(u64::from(u32::MAX), i32::MAX.unsigned_abs());
    assert!(world.core.guaranteed.set_capability(&node(1), claimed));
    let attempt = world.start_master();
    let first = world.ask(attempt, i32::MAX, ExecutionType::Guaranteed);
    assert_eq!(first.allocated_containers.len(), 10_000);
    world.pass(100);
    assert_eq!(world.core.containers.len(), 1 + 20_000);
}
