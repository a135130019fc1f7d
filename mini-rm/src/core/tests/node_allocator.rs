//! A node's allocator against this core, with nodes that run what they get: whatever message is
//! lost, the AM receives the completion of every container once, and no side knows a container that
//! the others do not.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use sched::{
    DistributedAllocation, DistributedAllocatorConfig, DistributedGrant,
    DistributedOpportunisticContainerAllocator, RemoteNode, ResourceLimits,
};
use wire::proto::hadoop_yarn::{
    ContainerProto, DistributedSchedulingAllocateRequestProto, RemoteNodeProto,
};

use super::*;

/// Ports of the nodes.
const PORTS: std::ops::RangeInclusive<u16> = 1..=3;

/// The next event.
#[derive(Clone, Debug)]
enum Step {
    /// The AM asks for this number of containers from now on.
    Ask(u32),
    /// The AM calls, and the call has this fate.
    Call(Fate),
    /// A node reports; this many of the containers that the AM started there have ended.
    Report { port: u16, ended: usize },
    /// A node restarts and loses its containers.
    Restart(u16),
    /// Milliseconds pass.
    Pass(u64),
}

#[derive(Clone, Copy, Debug)]
enum Fate {
    Answered,
    AnswerLost,
    CallLost,
}

fn steps() -> impl Strategy<Value = Step> {
    let fate = prop_oneof![
        3 => Just(Fate::Answered),
        1 => Just(Fate::AnswerLost),
        1 => Just(Fate::CallLost),
    ];
    prop_oneof![
        2 => (0..12_u32).prop_map(Step::Ask),
        6 => fate.prop_map(Step::Call),
        4 => (PORTS, 0..4_usize).prop_map(|(port, ended)| Step::Report { port, ended }),
        1 => PORTS.prop_map(Step::Restart),
        2 => (1..1_500_u64).prop_map(Step::Pass),
    ]
}

/// State of one node.
#[derive(Default)]
struct Place {
    response_id: i32,
    running: BTreeSet<ContainerId>,
    ended: BTreeSet<ContainerId>,
}

struct Cluster {
    world: World,
    attempt: ApplicationAttemptId,
    allocator: DistributedOpportunisticContainerAllocator,
    places: BTreeMap<u16, Place>,
    response_id: i32,
    /// Containers that the AM knows, with the number of completions received for each.
    known: BTreeMap<ContainerId, u32>,
}

fn remote(proto: RemoteNodeProto) -> RemoteNode {
    RemoteNode {
        node_id: NodeId::try_from(proto.node_id.as_ref().unwrap()).unwrap(),
        http_address: proto.http_address.unwrap_or_default(),
        rack: proto.rack_name.unwrap_or_default(),
        partition: proto.node_partition.unwrap_or_default(),
    }
}

fn message(allocation: &DistributedAllocation) -> ContainerProto {
    let container = &allocation.container;
    ContainerProto {
        id: Some(container.container_id.into()),
        node_id: Some((&container.node_id).into()),
        resource: Some(container.resource.into()),
        priority: Some(container.priority.0.into()),
        execution_type: Some(ExecutionTypeProto::Opportunistic.into()),
        ..ContainerProto::default()
    }
}

impl Cluster {
    fn new() -> Self {
        let mut world = World::new(&[]);
        let mut places = BTreeMap::new();
        for port in PORTS {
            world.register(&node(port), 4, Vec::new());
            let answer = world.heartbeat(&node(port), 0, Vec::new());
            let place = Place {
                response_id: answer.response_id(),
                ..Place::default()
            };
            places.insert(port, place);
        }
        world.pass(1_001);
        world.submit();
        let (attempt, registered) = world.register_distributed();
        let size = Resource::new(SLOT_MB, 1);
        let grant = DistributedGrant {
            limits: ResourceLimits {
                minimum: size,
                maximum: size,
                increment: size,
            },
            token_life_ms: 1,
            container_id_start: registered.container_id_start(),
        };
        let config = DistributedAllocatorConfig::default();
        let mut allocator = DistributedOpportunisticContainerAllocator::new(attempt, config);
        let nodes = registered.nodes_for_scheduling.into_iter().map(remote);
        allocator.registered(grant, nodes.collect::<Vec<_>>(), world.now.mono);
        // The AM's container runs on the node that the core chose first.
        let master = world.master_of(attempt);
        let port = world.core.containers[&master].node.port;
        places.get_mut(&port).unwrap().running.insert(master);
        Self {
            world,
            attempt,
            allocator,
            places,
            response_id: 0,
            known: BTreeMap::new(),
        }
    }

    fn ask(&mut self, count: u32) {
        let line = sched_line(count);
        let now = self.world.now.mono;
        self.allocator.update_asks(&[line], now).unwrap();
    }

    /// Makes the AM's call through its node.
    fn call(&mut self, fate: Fate) {
        let now = self.world.now;
        let sent = self.allocator.allocate(now.mono);
        let request = DistributedSchedulingAllocateRequestProto {
            allocate_request: Some(AllocateRequestProto {
                response_id: Some(self.response_id),
                ..AllocateRequestProto::default()
            }),
            allocated_containers: sent.iter().map(message).collect(),
        };
        let answer = match fate {
            Fate::CallLost => return,
            Fate::Answered | Fate::AnswerLost => {
                let core = &mut self.world.core;
                core.allocate_distributed(self.attempt, b"", &request, now)
            }
        };
        let answer = answer.unwrap();
        if matches!(fate, Fate::AnswerLost) {
            return;
        }
        let nodes: Vec<_> = answer
            .nodes_for_scheduling
            .into_iter()
            .map(remote)
            .collect();
        for allocation in self.allocator.confirmed(nodes, now.mono) {
            let id = allocation.container.container_id;
            assert_eq!(self.known.insert(id, 0), None, "{id} was given out twice");
            let place = self.places.get_mut(&allocation.container.node_id.port);
            place.unwrap().running.insert(id);
        }
        let response = answer.allocate_response.unwrap();
        self.response_id = response.response_id();
        for status in response.completed_container_statuses {
            let id = ContainerId::try_from(&status.container_id.unwrap()).unwrap();
            let completions = self.known.get_mut(&id).expect("the master knows it");
            *completions += 1;
            assert_eq!(*completions, 1, "{id} ended twice");
        }
    }

    fn report(&mut self, port: u16, ended: usize) {
        let master = self.world.master_of(self.attempt);
        let place = self.places.get_mut(&port).unwrap();
        let over: Vec<ContainerId> = place
            .running
            .iter()
            .copied()
            .filter(|id| *id != master)
            .take(ended)
            .collect();
        for id in over {
            place.running.remove(&id);
            place.ended.insert(id);
        }
        let running = place.running.iter().map(|id| status(*id, None));
        let statuses = running.chain(place.ended.iter().map(|id| status(*id, Some(0))));
        let statuses = statuses.collect();
        let answer = self
            .world
            .heartbeat(&node(port), place.response_id, statuses);
        assert_eq!(answer.node_action(), NodeActionProto::Normal);
        assert!(
            answer.containers_to_cleanup.is_empty(),
            "it knows what runs"
        );
        place.response_id = answer.response_id();
        for id in answer.containers_to_be_removed_from_nm {
            place.ended.remove(&ContainerId::try_from(&id).unwrap());
        }
    }

    fn restart(&mut self, port: u16) {
        let master = self.world.master_of(self.attempt);
        let place = self.places.get_mut(&port).unwrap();
        if place.running.contains(&master) {
            return;
        }
        // Containers that the node never reported are not lost as far as the core knows, so they
        // are reported here.
        let lost: Vec<ContainerId> = place.running.iter().copied().collect();
        self.report(port, 0);
        let place = self.places.get_mut(&port).unwrap();
        *place = Place::default();
        self.world.register(&node(port), 4, Vec::new());
        assert!(
            lost.iter()
                .all(|id| !self.world.core.containers.contains_key(id))
        );
    }

    /// Ends everything and delivers all reports.
    fn settle(&mut self) {
        self.ask(0);
        for _ in 0..2 {
            self.call(Fate::Answered);
            for port in PORTS {
                self.report(port, usize::MAX);
            }
        }
        self.call(Fate::Answered);
    }
}

fn sched_line(count: u32) -> records::ResourceRequest {
    let size = Resource::new(SLOT_MB, 1);
    records::ResourceRequest::on_any_node(records::Priority(1), size, count)
}

proptest! {
    #[test]
    fn whatever_is_lost_every_end_is_heard_once(steps in prop::collection::vec(steps(), 1..80)) {
        let mut cluster = Cluster::new();
        for step in steps {
            match step {
                Step::Ask(count) => cluster.ask(count),
                Step::Call(fate) => cluster.call(fate),
                Step::Report { port, ended } => cluster.report(port, ended),
                Step::Restart(port) => cluster.restart(port),
                Step::Pass(ms) => cluster.world.pass(ms),
            }
        }
        cluster.settle();
        for (id, completions) in &cluster.known {
            prop_assert_eq!(*completions, 1, "{}", id);
        }
        // Only the AM's container is left.
        prop_assert_eq!(cluster.world.core.containers.len(), 1);
    }
}
