//! Tests of the interceptor alone, without a pipeline.

mod crowding;
mod left_alone;
mod looks;
mod new_rm;
mod repeats;
mod tokens;

use std::collections::BTreeMap;

use bytes::Bytes;
use proptest::prelude::*;
use records::{ExecutionType, NodeId, Priority, Resource, ResourceName, ResourceRequest};
use wire::exception::HadoopException;
use wire::proto::hadoop_common::TokenProto;
use wire::proto::hadoop_yarn::{
    AllocateRequestProto, AllocateResponseProto, ContainerProto, ContainerTokenIdentifierProto,
    ExecutionTypeProto, NmTokenIdentifierProto, NmTokenProto,
    RegisterApplicationMasterResponseProto, RemoteNodeProto, ResourceRequestProto,
};
use wire::token::{MasterKey, kind};

use super::*;
use crate::node_keys::NodeTokenKeys;
use crate::rm_forwarder::AllocatedContainers;
use crate::store::{NextIdRecord, Record as _};
use crate::testing::{ATTEMPT, Requested, allocate, answer, context, node_list, raw};

/// Memory of the largest container that the ResourceManager grants.
const LARGEST_MB: u64 = 2048;

const START: i64 = 1 << 40;

fn keys(nm_key_id: i32) -> NodeTokenKeys {
    NodeTokenKeys {
        container_token: MasterKey::new(-5, Bytes::from_static(b"container")),
        nm_token: MasterKey::new(nm_key_id, Bytes::from_static(b"nm")),
        rm_identifier: 77,
    }
}

fn nodes(count: u16) -> Vec<RemoteNodeProto> {
    (1..=count)
        .map(|number| RemoteNodeProto {
            node_id: Some(
                NodeId {
                    host: format!("host{number}"),
                    port: 8041,
                }
                .into(),
            ),
            http_address: Some(format!("host{number}:8042")),
            rack_name: Some("/rack".to_owned()),
            node_partition: None,
        })
        .collect()
}

fn granted(start: i64, node_count: u16) -> Response {
    let granted = RegisterDistributedSchedulingAmResponseProto {
        min_container_resource: Some(Resource::new(128, 1).into()),
        max_container_resource: Some(Resource::new(LARGEST_MB, 4).into()),
        container_token_expiry_interval: Some(600_000),
        container_id_start: Some(start),
        ..RegisterDistributedSchedulingAmResponseProto::default()
    };
    Response {
        message: raw(&RegisterApplicationMasterResponseProto::default()),
        scheduling: raw(&granted),
        nodes: node_list(&nodes(node_count)),
    }
}

/// An attempt whose calls the test makes and answers.
struct Attempt {
    scheduler: DistributedScheduler,
    keys: Option<NodeTokenKeys>,
    now_ms: u64,
    persisted: BTreeMap<Part, Option<Vec<u8>>>,
    observed: Vec<Observation>,
}

impl Attempt {
    fn new() -> Self {
        let config = DistributedAllocatorConfig::default();
        Self {
            scheduler: DistributedScheduler::new(ATTEMPT, config),
            keys: Some(keys(1)),
            now_ms: 0,
            persisted: BTreeMap::new(),
            observed: Vec::new(),
        }
    }

    fn registered() -> Self {
        let mut attempt = Self::new();
        attempt.register(START, 3);
        attempt
    }

    fn take(&mut self, actions: Vec<Action>) {
        for action in actions {
            match action {
                Action::Persist(part, value) => {
                    self.persisted.insert(part, value);
                }
                Action::Observe(observation) => self.observed.push(observation),
                Action::UseRmToken(_) => {
                    panic!("{action:?} is not its business")
                }
            }
        }
    }

    fn register(&mut self, start: i64, node_count: u16) {
        let mut outcome = Ok(granted(start, node_count));
        let mut actions = Requested::new();
        let keys = self.keys.clone();
        let context = Context {
            keys: keys.as_ref(),
            ..context(self.now_ms)
        };
        self.scheduler.on_response(
            AmMethod::Register,
            &mut outcome,
            &context,
            &mut actions.actions(),
        );
        self.take(actions.chain);
    }

    /// Registers the attempt with a new ResourceManager during the current call.
    fn rejoin(&mut self, start: i64) {
        let mut request = allocate(&AllocateRequestProto::default());
        request.notes.put(AllocatedContainers(vec![Bytes::new()]));
        let mut actions = Requested::new();
        let context = context(self.now_ms);
        let grant = granted(start, 3);
        self.scheduler.on_reregistered(
            Some(&grant),
            &mut request,
            &context,
            &mut actions.actions(),
        );
        assert_eq!(request.notes.get::<AllocatedContainers>(), None);
        self.take(actions.chain);
    }

    /// Registers this node with the new ResourceManager.
    fn node_registers(&mut self) {
        self.keys.as_mut().unwrap().rm_identifier += 1;
    }

    /// Sends an AM's call and returns it as forwarded to the ResourceManager.
    fn send(
        &mut self,
        response_id: i32,
        asks: Vec<ResourceRequestProto>,
    ) -> Result<(AllocateRequestProto, Vec<ContainerProto>), RemoteException> {
        let mut request = allocate(&AllocateRequestProto {
            ask: asks,
            response_id: Some(response_id),
            ..AllocateRequestProto::default()
        });
        self.now_ms += 1000;
        let context = Context {
            keys: self.keys.as_ref(),
            ..context(self.now_ms)
        };
        let mut actions = Requested::new();
        let passed = self
            .scheduler
            .on_request(&mut request, &context, &mut actions.actions());
        self.take(actions.chain);
        passed?;
        let announced = request.notes.take::<AllocatedContainers>();
        let announced = announced.map(|note| note.0).unwrap_or_default().into_iter();
        Ok((
            AllocateRequestProto::decode(request.message.encode()).unwrap(),
            announced
                .map(|container| ContainerProto::decode(container).unwrap())
                .collect(),
        ))
    }

    /// Passes the ResourceManager's answer back and returns it as the AM sees it.
    fn answer(&mut self, message: &AllocateResponseProto) -> AllocateResponseProto {
        let mut outcome = Ok(Response {
            nodes: node_list(&nodes(3)),
            ..answer(message)
        });
        self.respond(&mut outcome);
        AllocateResponseProto::decode(outcome.unwrap().message.encode()).unwrap()
    }

    fn fail(&mut self) {
        let refusal = RemoteException::new(HadoopException::Retriable, "away");
        self.respond(&mut Err(refusal));
    }

    fn respond(&mut self, outcome: &mut Outcome) {
        let context = Context {
            keys: self.keys.as_ref(),
            ..context(self.now_ms)
        };
        let mut actions = Requested::new();
        self.scheduler.on_response(
            AmMethod::Allocate,
            outcome,
            &context,
            &mut actions.actions(),
        );
        self.take(actions.chain);
    }

    /// Makes a call that succeeds.
    fn call(&mut self, response_id: i32, asks: Vec<ResourceRequestProto>) -> AllocateResponseProto {
        self.send(response_id, asks).unwrap();
        self.answer(&AllocateResponseProto::default())
    }
}

fn ask(name: &str, count: i32, execution_type: ExecutionType) -> ResourceRequestProto {
    let ask = ResourceRequest {
        priority: Priority(2),
        resource_name: ResourceName::from(name.to_owned()),
        capability: Resource::new(200, 1),
        num_containers: 0,
        relax_locality: true,
        allocation_request_id: 9,
        execution_type_request: records::ExecutionTypeRequest {
            execution_type,
            enforce_execution_type: true,
        },
        node_label_expression: None,
    };
    ResourceRequestProto {
        num_containers: Some(count),
        ..ResourceRequestProto::from(&ask)
    }
}

/// Makes the ResourceManager's NMToken for a node, signed with this key.
fn token_of_the_rm(host: &str, key_id: i32) -> NmTokenProto {
    let node = NodeId {
        host: host.to_owned(),
        port: 8041,
    };
    let identifier = NmTokenIdentifierProto {
        node_id: Some(node.clone().into()),
        key_id: Some(key_id),
        ..NmTokenIdentifierProto::default()
    };
    NmTokenProto {
        node_id: Some(node.into()),
        token: Some(TokenProto {
            identifier: identifier.encode_to_vec().into(),
            ..TokenProto::default()
        }),
    }
}

fn opportunistic(count: i32) -> Vec<ResourceRequestProto> {
    vec![ask("*", count, ExecutionType::Opportunistic)]
}

fn ids(containers: &[ContainerProto]) -> Vec<i64> {
    containers
        .iter()
        .map(|container| container.id.as_ref().unwrap().id())
        .collect()
}

#[test]
fn opportunistic_asks_are_answered_here_and_the_others_go_on() {
    let mut attempt = Attempt::registered();
    let guaranteed = ask("*", 4, ExecutionType::Guaranteed);
    let untyped = ResourceRequestProto {
        execution_type_request: None,
        ..ask("*", 5, ExecutionType::Guaranteed)
    };
    let mut asks = vec![guaranteed.clone(), untyped.clone()];
    asks.extend(opportunistic(2));
    let (passed, announced) = attempt.send(0, asks).unwrap();
    assert_eq!(passed.ask, [guaranteed, untyped]);
    assert_eq!(ids(&announced), [START - 1, START - 2]);
    let from_rm = ContainerProto::default();
    let told = attempt.answer(&AllocateResponseProto {
        response_id: Some(1),
        allocated_containers: vec![from_rm.clone()],
        ..AllocateResponseProto::default()
    });
    assert_eq!(told.response_id, Some(1));
    assert_eq!(told.allocated_containers[0], from_rm);
    assert_eq!(told.allocated_containers[1..], announced);
    assert_eq!(told.nm_tokens.len(), 2);
    let gauges = attempt.scheduler.gauges();
    assert_eq!(
        (gauges.containers_live, gauges.containers_outstanding),
        (2, 0)
    );
    assert_eq!(attempt.observed.len(), 2, "{:?}", attempt.observed);
}

#[test]
fn asks_that_make_no_sense_are_refused_and_change_nothing() {
    let mut attempt = Attempt::registered();
    let negative_size = ResourceRequestProto {
        capability: Some(wire::proto::hadoop_yarn::ResourceProto {
            memory: Some(-1),
            ..Default::default()
        }),
        ..ask("*", 1, ExecutionType::Opportunistic)
    };
    let negative = ask("*", -1, ExecutionType::Opportunistic);
    for bad in [negative_size, negative] {
        let asks = vec![ask("*", 2, ExecutionType::Opportunistic), bad];
        let refusal = attempt.send(0, asks).unwrap_err();
        assert!(
            refusal.is(HadoopException::InvalidResourceRequest),
            "{refusal}"
        );
        assert_eq!(attempt.scheduler.gauges().containers_outstanding, 0);
    }
    assert_eq!(
        attempt.call(0, opportunistic(1)).allocated_containers.len(),
        1
    );
}

fn largest_mb(containers: &[ContainerProto]) -> u64 {
    let sizes = containers.iter().map(|container| {
        let size = container.resource.as_ref().unwrap();
        Resource::try_from(size).unwrap().memory_mb
    });
    sizes.max().unwrap()
}

#[test]
fn an_ask_above_the_maximum_is_cut_and_the_rest_of_the_call_counts() {
    let mut attempt = Attempt::registered();
    let large = ResourceRequestProto {
        capability: Some(Resource::new(1_000_000, 1).into()),
        ..ask("*", 1, ExecutionType::Opportunistic)
    };
    let asks = vec![large, ask("*", 2, ExecutionType::Opportunistic)];
    let told = attempt.call(0, asks).allocated_containers;
    assert_eq!((told.len(), largest_mb(&told)), (3, LARGEST_MB));
    assert_eq!(attempt.scheduler.gauges().containers_outstanding, 0);
}

#[test]
fn a_node_that_is_not_registered_gives_nothing_and_forgets_nothing() {
    let mut attempt = Attempt::registered();
    attempt.keys = None;
    assert_eq!(attempt.call(0, opportunistic(2)).allocated_containers, []);
    attempt.keys = Some(keys(1));
    assert_eq!(attempt.call(1, Vec::new()).allocated_containers.len(), 2);
}

#[test]
fn hosts_on_the_blacklist_get_nothing_and_the_list_goes_on() {
    let mut attempt = Attempt::registered();
    let list = ResourceBlacklistRequestProto {
        blacklist_additions: vec!["host1".to_owned(), "host3".to_owned()],
        blacklist_removals: Vec::new(),
    };
    let mut request = allocate(&AllocateRequestProto {
        ask: opportunistic(3),
        blacklist_request: Some(list.clone()),
        ..AllocateRequestProto::default()
    });
    let keys = keys(1);
    let context = Context {
        keys: Some(&keys),
        ..context(1)
    };
    attempt
        .scheduler
        .on_request(&mut request, &context, &mut Requested::new().actions())
        .unwrap();
    let passed = AllocateRequestProto::decode(request.message.encode()).unwrap();
    assert_eq!(passed.blacklist_request, Some(list));
    let AllocatedContainers(allocated) = request.notes.take().unwrap();
    assert_eq!(allocated.len(), 1);
    let container = ContainerProto::decode(allocated[0].clone()).unwrap();
    assert_eq!(container.node_id.unwrap().host(), "host2");
}

#[test]
fn the_end_of_a_container_is_counted_once() {
    let mut attempt = Attempt::registered();
    let told = attempt.call(0, opportunistic(2));
    let ended = AllocateResponseProto {
        completed_container_statuses: vec![ContainerStatusProto {
            container_id: told.allocated_containers[0].id,
            exit_status: Some(-108),
            ..ContainerStatusProto::default()
        }],
        ..AllocateResponseProto::default()
    };
    for response_id in 1..3 {
        attempt.send(response_id, Vec::new()).unwrap();
        assert_eq!(
            attempt.answer(&ended),
            ended,
            "the master hears what the RM says"
        );
    }
    let ends = attempt
        .observed
        .iter()
        .filter(|observation| **observation == Observation::AllocatedCompleted);
    assert_eq!(ends.count(), 1);
    assert_eq!(attempt.scheduler.gauges().containers_live, 1);
}
