//! Nodes that expire, return, become unhealthy, or unregister.

use wire::proto::hadoop_yarn::{
    NodeHealthStatusProto, NodeStateProto, UnRegisterNodeManagerRequestProto,
};

use super::*;

/// Expiry interval of a node, in milliseconds.
const EXPIRY: (&str, &str) = ("yarn.nm.liveness-monitor.expiry-interval-ms", "1000");

fn kept(id: ContainerId, exit_status: Option<i32>) -> NmContainerStatusProto {
    let state = match exit_status {
        Some(_) => ContainerStateProto::CComplete,
        None => ContainerStateProto::CRunning,
    };
    NmContainerStatusProto {
        container_id: Some(id.into()),
        container_state: Some(state.into()),
        container_exit_status: exit_status,
        ..NmContainerStatusProto::default()
    }
}

impl World {
    /// Returns a world with an AM on the first node and two of its containers running on the
    /// second.
    fn with_two_nodes() -> (Self, ApplicationAttemptId, Vec<ContainerId>) {
        let mut world = Self::new(&[EXPIRY]);
        world.register(&node(1), 1, Vec::new());
        world.submit();
        let attempt = world.start_master();
        world.register(&node(2), 4, Vec::new());
        let containers = ids(&world.ask(attempt, 2, ExecutionType::Guaranteed));
        let running = containers.iter().map(|id| status(*id, None)).collect();
        world.heartbeat(&node(2), 0, running);
        (world, attempt, containers)
    }

    fn next_call(&mut self, attempt: ApplicationAttemptId) -> AllocateResponseProto {
        let answer = self.allocate(attempt, AllocateRequestProto::default());
        let running = self.core.count_nodes(NodeState::Running);
        assert_eq!(usize::try_from(answer.num_cluster_nodes()), Ok(running));
        answer
    }

    fn report_health(&mut self, response_id: i32, is_healthy: bool) {
        let request = NodeHeartbeatRequestProto {
            node_status: Some(NodeStatusProto {
                node_id: Some(node(2).into()),
                response_id: Some(response_id),
                node_health_status: Some(NodeHealthStatusProto {
                    is_node_healthy: Some(is_healthy),
                    health_report: Some("disks".to_owned()),
                    ..NodeHealthStatusProto::default()
                }),
                ..NodeStatusProto::default()
            }),
            ..NodeHeartbeatRequestProto::default()
        };
        self.core.heartbeat(request, self.now);
    }
}

fn exits(response: &AllocateResponseProto) -> Vec<i32> {
    let statuses = response.completed_container_statuses.iter();
    statuses.map(|status| status.exit_status()).collect()
}

fn states(response: &AllocateResponseProto) -> Vec<NodeStateProto> {
    let nodes = response.updated_nodes.iter();
    nodes.map(|node| node.node_state()).collect()
}

#[test]
fn the_containers_of_a_silent_node_have_ended_and_its_master_hears_it_once() {
    let (mut world, attempt, containers) = World::with_two_nodes();
    world.next_call(attempt);
    world.pass(1_000);
    world.heartbeat(&node(1), 0, vec![status(world.master_of(attempt), None)]);
    world.pass(1_000);
    let answer = world.next_call(attempt);
    assert_eq!(exits(&answer), [-100, -100]);
    assert_eq!(states(&answer), [NodeStateProto::NsLost]);
    assert_eq!(answer.num_cluster_nodes(), 1);
    assert!(exits(&world.next_call(attempt)).is_empty());
    // The node was only cut off: it has to register, and to kill its containers.
    let answer = world.heartbeat(&node(2), 1, Vec::new());
    assert_eq!(answer.node_action(), NodeActionProto::Resync);
    let running = containers.iter().map(|id| kept(*id, None)).collect();
    world.register(&node(2), 4, running);
    assert_eq!(
        states(&world.next_call(attempt)),
        [NodeStateProto::NsRunning]
    );
    let answer = world.heartbeat(&node(2), 0, Vec::new());
    assert_eq!(answer.containers_to_cleanup.len(), 2);
    let ended = containers.iter().map(|id| status(*id, Some(143))).collect();
    let answer = world.heartbeat(&node(2), 1, ended);
    assert_eq!(answer.containers_to_be_removed_from_nm.len(), 2);
    assert!(
        exits(&world.next_call(attempt)).is_empty(),
        "they were sent before"
    );
}

#[test]
fn a_container_lost_before_its_master_got_it_is_replaced_and_its_end_reported_once() {
    let mut world = World::new(&[EXPIRY]);
    world.register(&node(1), 1, Vec::new());
    world.submit();
    let attempt = world.start_master();
    assert!(ids(&world.ask(attempt, 1, ExecutionType::Guaranteed)).is_empty());
    world.register(&node(2), 1, Vec::new());
    world.pass(500);
    let lost = attempt.container(2);
    assert_eq!(world.core.containers[&lost].node, node(2));
    world.heartbeat(&node(1), 0, vec![status(world.master_of(attempt), None)]);
    world.pass(1_000);
    let answer = world.next_call(attempt);
    assert_eq!((ids(&answer), exits(&answer)), (vec![], vec![-100]));
    world.register(&node(3), 1, Vec::new());
    let answer = world.next_call(attempt);
    let next = attempt.container(3);
    assert_eq!((ids(&answer), exits(&answer)), (vec![next], vec![]));
    world.register(&node(4), 1, Vec::new());
    assert!(
        ids(&world.next_call(attempt)).is_empty(),
        "it asked for one"
    );
}

#[test]
fn a_master_hears_of_nodes_from_its_registration_on() {
    let mut world = World::new(&[]);
    world.register(&node(1), 4, Vec::new());
    world.submit();
    world.register(&node(2), 4, Vec::new());
    let attempt = world.start_master();
    assert!(states(&world.next_call(attempt)).is_empty());
    world.register(&node(3), 4, Vec::new());
    assert_eq!(
        states(&world.next_call(attempt)),
        [NodeStateProto::NsRunning]
    );
}

#[test]
fn a_node_that_speaks_in_time_is_not_lost() {
    let (mut world, _, _) = World::with_two_nodes();
    for response_id in 1..10 {
        world.pass(999);
        world.heartbeat(&node(2), response_id, Vec::new());
    }
    assert_eq!(world.core.nodes[&node(2)].state, NodeState::Running);
    assert_eq!(world.core.count_nodes(NodeState::Lost), 1);
}

#[test]
fn a_repeated_heartbeat_is_a_sign_of_life_too() {
    let (mut world, _, _) = World::with_two_nodes();
    for _ in 0..5 {
        world.pass(999);
        // The answer to the first heartbeat is lost again and again.
        world.heartbeat(&node(2), 0, Vec::new());
    }
    assert_eq!(world.core.nodes[&node(2)].state, NodeState::Running);
}

#[test]
fn a_node_that_says_good_bye_is_gone_at_once() {
    let (mut world, attempt, _) = World::with_two_nodes();
    world.next_call(attempt);
    let request = UnRegisterNodeManagerRequestProto {
        node_id: Some(node(2).into()),
    };
    world.core.unregister_node(&request, world.now).unwrap();
    let answer = world.next_call(attempt);
    assert_eq!(exits(&answer), [-100, -100]);
    assert_eq!(states(&answer), [NodeStateProto::NsShutdown]);
    assert_eq!(world.core.free_resources().memory_mb, 0);
    // A second unregistration, and one of an unknown node, have no effect.
    world.core.unregister_node(&request, world.now).unwrap();
    let stranger = UnRegisterNodeManagerRequestProto {
        node_id: Some(node(9).into()),
    };
    world.core.unregister_node(&stranger, world.now).unwrap();
    assert!(states(&world.next_call(attempt)).is_empty());
}

#[test]
fn an_ill_node_keeps_what_it_runs_and_gets_nothing_new_until_it_is_well() {
    let (mut world, attempt, _) = World::with_two_nodes();
    world.next_call(attempt);
    world.report_health(1, false);
    let answer = world.ask(attempt, 1, ExecutionType::Guaranteed);
    assert_eq!(states(&answer), [NodeStateProto::NsUnhealthy]);
    assert!(exits(&answer).is_empty() && answer.allocated_containers.is_empty());
    assert_eq!(answer.limit.unwrap().memory(), 0);
    world.report_health(2, true);
    let answer = world.next_call(attempt);
    assert_eq!(states(&answer), [NodeStateProto::NsRunning]);
    assert_eq!(answer.allocated_containers.len(), 1);
}

#[test]
fn ends_that_a_node_tells_when_it_registers_again_are_told_once() {
    let (mut world, attempt, containers) = World::with_two_nodes();
    let statuses = || vec![kept(containers[0], Some(4)), kept(containers[1], None)];
    world.register(&node(2), 4, statuses());
    world.register(&node(2), 4, statuses());
    assert_eq!(exits(&world.next_call(attempt)), [4]);
    assert!(exits(&world.next_call(attempt)).is_empty());
    assert_eq!(world.core.free_resources().memory_mb, 3 * SLOT_MB);
    let answer = world.heartbeat(&node(2), 0, vec![status(containers[1], None)]);
    assert!(answer.containers_to_cleanup.is_empty());
}

#[test]
fn a_node_may_come_back_with_less_than_it_has_given_away() {
    let (mut world, attempt, containers) = World::with_two_nodes();
    let running = || containers.iter().map(|id| kept(*id, None)).collect();
    world.register(&node(2), 1, running());
    assert_eq!(world.core.free_resources().memory_mb, 0);
    let answer = world.ask(attempt, 1, ExecutionType::Guaranteed);
    assert!(exits(&answer).is_empty() && answer.allocated_containers.is_empty());
    for (response_id, id) in (0..).zip(&containers) {
        world.heartbeat(&node(2), response_id, vec![status(*id, Some(0))]);
    }
    assert_eq!(world.next_call(attempt).allocated_containers.len(), 1);
}

#[test]
fn containers_that_were_not_started_yet_survive_their_nodes_registration() {
    let (mut world, attempt, _) = World::with_two_nodes();
    let fresh = ids(&world.ask(attempt, 1, ExecutionType::Guaranteed));
    world.register(&node(2), 4, Vec::new());
    // Running containers are lost; the allocated one may still be started.
    assert_eq!(exits(&world.next_call(attempt)), [-100, -100]);
    let answer = world.heartbeat(&node(2), 0, vec![status(fresh[0], None)]);
    assert!(answer.containers_to_cleanup.is_empty());
}

#[test]
fn a_node_brings_strangers_from_an_earlier_run_and_is_told_to_end_them() {
    let mut world = World::new(&[("yarn.resourcemanager.epoch", "2")]);
    let application = ApplicationId::new(1, 1);
    let stranger = application.attempt(1).container((1 << 40) + 5);
    let request = RegisterNodeManagerRequestProto {
        node_id: Some(node(1).into()),
        resource: Some(Resource::new(SLOT_MB, 1).into()),
        container_statuses: vec![kept(stranger, None)],
        running_applications: vec![application.into()],
        ..RegisterNodeManagerRequestProto::default()
    };
    world
        .core
        .register_node(&request, DEFAULT_RACK, world.now)
        .unwrap();
    let answer = world.heartbeat(&node(1), 0, Vec::new());
    assert_eq!(answer.containers_to_cleanup, [stranger.into()]);
    assert_eq!(answer.applications_to_cleanup, [application.into()]);
    assert_eq!(world.core.free_resources().memory_mb, SLOT_MB);
}
