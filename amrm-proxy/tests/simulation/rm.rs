//! A ResourceManager that follows its contract. Calls have response ids; a repeated id gets the
//! last answer again, and the call is ignored. After a restart, attempts and nodes must register.
//! Containers on unknown nodes are ignored.

use std::collections::{BTreeMap, BTreeSet};

use amrm_proxy::call::{AmMethod, Outcome, Request, Response};
use amrm_proxy::node_lists::NodeLists;
use amrm_proxy::rm_forwarder::AllocatedContainers;
use bytes::Bytes;
use prost::Message;
use records::{ApplicationAttemptId, ContainerId, NodeId, Resource};
use wire::exception::{HadoopException, RemoteException};
use wire::proto::hadoop_common::TokenProto;
use wire::proto::hadoop_yarn::{
    AllocateRequestProto, AllocateResponseProto, ContainerProto, ContainerStatusProto,
    DistributedSchedulingAllocateResponseProto, ExecutionTypeProto, NmTokenProto,
    RegisterApplicationMasterResponseProto, RegisterDistributedSchedulingAmResponseProto,
    RemoteNodeProto,
};
use wire::raw_message::RawMessage;

/// Text in every token of the ResourceManager itself.
pub(crate) const RM_TOKEN: &[u8] = b"the ResourceManager's";

const NODES: u16 = 5;

/// Rack of all nodes.
const RACK: &str = "/rack";

/// Resource name of any node.
const ANY: &str = "*";

/// Exit status of a released container (Hadoop: `ContainerExitStatus.ABORTED`).
const RELEASED: i32 = -100;

/// Maximum of guaranteed containers in one answer.
const GIVEN_PER_CALL: usize = 2;

/// Memory of the ResourceManager about an attempt.
#[derive(Debug, Default)]
struct Known {
    is_registered: bool,
    response_id: i32,
    last: Option<Response>,
    told: BTreeSet<i64>,
    /// Guaranteed containers wanted, by priority and resource name.
    asks: BTreeMap<(i32, String), Line>,
    /// Released containers whose end is in no answer yet.
    released: Vec<ContainerId>,
}

/// Count of an ask for one resource name, and whether it relaxes.
#[derive(Clone, Copy, Debug)]
struct Line {
    count: i32,
    relaxes: bool,
}

/// A simulated ResourceManager.
#[derive(Debug)]
pub(crate) struct Rm {
    /// Whether the next answer contains a new token.
    pub(crate) renews_token: bool,
    /// Number of restarts. Part of the identifier that registered nodes sign into tokens.
    epoch: i64,
    attempts: BTreeMap<ApplicationAttemptId, Known>,
    /// Epoch of the ResourceManager with which each node is registered.
    nodes: BTreeMap<u16, i64>,
    given: i64,
}

/// Inputs of one answer.
struct Moment<'a> {
    renews_token: bool,
    epoch: i64,
    nodes: &'a [u16],
    given: &'a mut i64,
}

impl Rm {
    pub(crate) fn new() -> Self {
        Self {
            renews_token: false,
            epoch: 0,
            attempts: BTreeMap::new(),
            nodes: (1..=NODES).map(|node| (node, 1)).collect(),
            given: 0,
        }
    }

    /// Returns the identifier of the current ResourceManager.
    pub(crate) const fn identifier(&self) -> i64 {
        self.epoch
    }

    /// Returns the nodes that are not registered.
    pub(crate) fn absent(&self) -> Vec<u16> {
        let nodes = self.nodes.iter();
        let absent = nodes.filter(|(_, known)| **known != self.epoch);
        absent.map(|(node, _)| *node).collect()
    }

    pub(crate) fn node_registers(&mut self, node: u16) {
        self.nodes.insert(node, self.epoch);
    }

    /// Returns the identifier of the ResourceManager that the AMs' node is registered with.
    pub(crate) fn known_to_the_node(&self) -> i64 {
        self.nodes[&1]
    }

    /// Restarts: only the containers running on nodes are known afterwards.
    pub(crate) fn restart(&mut self, started: &BTreeMap<ApplicationAttemptId, BTreeSet<i64>>) {
        self.epoch += 1;
        for (attempt, known) in &mut self.attempts {
            let started = started.get(attempt);
            let mut told = std::mem::take(&mut known.told);
            told.retain(|id| started.is_some_and(|started| started.contains(id)));
            *known = Known {
                told,
                ..Known::default()
            };
        }
    }

    /// Returns every container of an attempt that a node has reported.
    pub(crate) fn reported(&self, attempt: ApplicationAttemptId) -> BTreeSet<i64> {
        let known = self.attempts.get(&attempt);
        known.map(|known| known.told.clone()).unwrap_or_default()
    }

    pub(crate) fn call(&mut self, attempt: ApplicationAttemptId, request: &Request) -> Outcome {
        let present: Vec<u16> = self
            .nodes
            .iter()
            .filter(|(_, known)| **known == self.epoch)
            .map(|(node, _)| *node)
            .collect();
        let moment = Moment {
            renews_token: std::mem::take(&mut self.renews_token),
            epoch: self.epoch,
            nodes: &present,
            given: &mut self.given,
        };
        let known = self.attempts.entry(attempt).or_default();
        match request.method {
            AmMethod::Register if known.is_registered => {
                let exception = HadoopException::InvalidApplicationMasterRequest;
                let text = format!(
                    "Application Master is already registered : {}",
                    attempt.application_id
                );
                Err(RemoteException::new(exception, text))
            }
            AmMethod::Register => {
                known.is_registered = true;
                known.response_id = 0;
                known.last = None;
                Ok(registered(self.epoch << 40, &present))
            }
            AmMethod::Allocate => known.allocate(attempt, request, moment),
            AmMethod::Finish => Ok(Response::default()),
        }
    }
}

impl Known {
    fn allocate(
        &mut self,
        attempt: ApplicationAttemptId,
        request: &Request,
        moment: Moment<'_>,
    ) -> Outcome {
        if !self.is_registered {
            let exception = HadoopException::ApplicationMasterNotRegistered;
            return Err(RemoteException::new(exception, "register".to_owned()));
        }
        let call = AllocateRequestProto::decode(request.message.encode()).unwrap();
        if call.response_id() + 1 == self.response_id {
            return Ok(self.last.clone().unwrap());
        }
        assert_eq!(call.response_id(), self.response_id, "a number is left out");
        for line in &call.ask {
            let kind = line.execution_type_request.as_ref().unwrap();
            assert_eq!(
                kind.execution_type(),
                ExecutionTypeProto::Guaranteed,
                "only the node gives these out: {call:?}"
            );
            let priority = line.priority.as_ref().unwrap().priority();
            let (name, count) = (line.resource_name().to_owned(), line.num_containers());
            let relaxes = line.relax_locality();
            self.asks.insert((priority, name), Line { count, relaxes });
        }
        for id in &call.release {
            let id = ContainerId::try_from(id).unwrap();
            // A previous ResourceManager may have allocated it.
            if self.told.remove(&id.id) {
                self.released.push(id);
            }
        }
        let note = request.notes.get::<AllocatedContainers>();
        for container in note.iter().flat_map(|note| &note.0) {
            let container = ContainerProto::decode(container.clone()).unwrap();
            let node = container.node_id.unwrap().port();
            if moment.nodes.iter().all(|known| i32::from(*known) != node) {
                continue;
            }
            let id = container.id.unwrap().id();
            assert!(self.told.insert(id), "{id} is told twice");
        }
        self.response_id += 1;
        let given = self.allocate_guaranteed(attempt, &moment);
        *moment.given += i64::try_from(given.len()).unwrap();
        let ended = std::mem::take(&mut self.released);
        let answer = allocated(self.response_id, &moment, given, &ended);
        self.last = Some(answer.clone());
        Ok(answer)
    }

    /// Allocates guaranteed containers on registered nodes.
    fn allocate_guaranteed(
        &mut self,
        attempt: ApplicationAttemptId,
        moment: &Moment<'_>,
    ) -> Vec<ContainerProto> {
        let mut given = Vec::new();
        let any = self.asks.iter().filter(|((_, name), _)| name == ANY);
        let any: Vec<_> = any
            .map(|((priority, _), line)| (*priority, *line))
            .collect();
        for (priority, any) in any {
            for _ in 0..any.count {
                let is_named = |node: &&u16| self.is_named(priority, &node_id(**node).host);
                let named = moment.nodes.iter().find(is_named);
                let other = moment.nodes.get(given.len()).filter(|_| any.relaxes);
                let Some(&node) = named.or(other).filter(|_| given.len() < GIVEN_PER_CALL) else {
                    break;
                };
                self.lower(priority, &node_id(node).host);
                let number = *moment.given + i64::try_from(given.len()).unwrap() + 1;
                let id = ContainerId {
                    attempt,
                    id: (moment.epoch << 40) + number,
                };
                self.told.insert(id.id);
                given.push(ContainerProto {
                    id: Some(id.into()),
                    node_id: Some(node_id(node).into()),
                    resource: Some(Resource::new(128, 1).into()),
                    priority: Some(priority.into()),
                    ..ContainerProto::default()
                });
            }
        }
        given
    }

    fn is_named(&self, priority: i32, host: &str) -> bool {
        let line = self.asks.get(&(priority, host.to_owned()));
        line.is_some_and(|line| line.count > 0)
    }

    /// Lowers the counts for a container on this host (Hadoop: `LocalityAppPlacementAllocator`).
    fn lower(&mut self, priority: i32, host: &str) {
        for name in [host, RACK, ANY] {
            if let Some(line) = self.asks.get_mut(&(priority, name.to_owned())) {
                line.count = (line.count - 1).max(0);
            }
        }
    }
}

fn node_id(number: u16) -> NodeId {
    NodeId {
        host: format!("n{number}"),
        port: number,
    }
}

fn remote_nodes(numbers: &[u16]) -> Vec<RemoteNodeProto> {
    let node = |number: &u16| RemoteNodeProto {
        node_id: Some(node_id(*number).into()),
        http_address: Some(format!("n{number}:1")),
        rack_name: Some(RACK.to_owned()),
        node_partition: None,
    };
    numbers.iter().map(node).collect()
}

fn registered(start: i64, nodes: &[u16]) -> Response {
    let size = |memory_mb| Some(Resource::new(memory_mb, 1).into());
    response(
        &RegisterApplicationMasterResponseProto::default(),
        &RegisterDistributedSchedulingAmResponseProto {
            max_container_resource: Some(Resource::new(8_192, 8).into()),
            min_container_resource: size(128),
            incr_container_resource: size(128),
            container_token_expiry_interval: Some(600_000),
            container_id_start: Some(start),
            ..RegisterDistributedSchedulingAmResponseProto::default()
        },
        nodes,
    )
}

fn allocated(
    response_id: i32,
    moment: &Moment<'_>,
    given: Vec<ContainerProto>,
    ended: &[ContainerId],
) -> Response {
    let ended = ended.iter().map(|id| ContainerStatusProto {
        container_id: Some((*id).into()),
        exit_status: Some(RELEASED),
        ..ContainerStatusProto::default()
    });
    let nm_tokens = given.iter().map(|container| NmTokenProto {
        node_id: container.node_id.clone(),
        token: None,
    });
    let token = moment.renews_token.then(|| TokenProto {
        identifier: Bytes::from_static(RM_TOKEN),
        password: Bytes::from_static(RM_TOKEN),
        kind: "YARN_AM_RM_TOKEN".to_owned(),
        service: String::new(),
    });
    response(
        &AllocateResponseProto {
            response_id: Some(response_id),
            am_rm_token: token,
            nm_tokens: nm_tokens.collect(),
            allocated_containers: given,
            completed_container_statuses: ended.collect(),
            ..AllocateResponseProto::default()
        },
        &DistributedSchedulingAllocateResponseProto::default(),
        moment.nodes,
    )
}

fn response(message: &impl Message, scheduling: &impl Message, nodes: &[u16]) -> Response {
    let nodes = remote_nodes(nodes).into_iter();
    let nodes = nodes.map(|node| node.encode_to_vec().into());
    Response {
        nodes: NodeLists::default().read(nodes),
        message: RawMessage::parse(message.encode_to_vec().into()).unwrap(),
        scheduling: RawMessage::parse(scheduling.encode_to_vec().into()).unwrap(),
    }
}
