//! A ResourceManager as its contract has it: calls are numbered, a number that comes again gets the last answer again and is
//! not looked at, and after a restart masters have to register.

use std::collections::{BTreeMap, BTreeSet};

use amrm_proxy::interceptor::{AmMethod, Outcome, Request, Response};
use bytes::Bytes;
use prost::Message;
use records::{ApplicationAttemptId, NodeId, Resource};
use wire::exception::{HadoopException, RemoteException};
use wire::proto::hadoop_common::TokenProto;
use wire::proto::hadoop_yarn::{
    AllocateRequestProto, AllocateResponseProto, ContainerProto,
    DistributedSchedulingAllocateResponseProto, RegisterApplicationMasterResponseProto,
    RegisterDistributedSchedulingAmResponseProto, RemoteNodeProto,
};
use wire::raw_message::RawMessage;

/// The text that is in every token of the ResourceManager's own.
pub(crate) const RM_TOKEN: &[u8] = b"the ResourceManager's";

const NODES: u16 = 5;

/// What it knows of an attempt.
#[derive(Debug, Default)]
struct Known {
    is_registered: bool,
    response_id: i32,
    last: Option<Response>,
    told: BTreeSet<i64>,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Rm {
    /// Whether the next answer brings a new token.
    pub(crate) renews_token: bool,
    epoch: i64,
    attempts: BTreeMap<ApplicationAttemptId, Known>,
}

impl Rm {
    pub(crate) fn new() -> Self {
        Self {
            renews_token: false,
            epoch: 1,
            attempts: BTreeMap::new(),
        }
    }

    /// Comes back knowing of what runs on nodes, and nothing else.
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

    /// Every container of an attempt that a node told of.
    pub(crate) fn told(&self, attempt: ApplicationAttemptId) -> BTreeSet<i64> {
        let known = self.attempts.get(&attempt);
        known.map(|known| known.told.clone()).unwrap_or_default()
    }

    pub(crate) fn call(&mut self, attempt: ApplicationAttemptId, request: &Request) -> Outcome {
        let start = self.epoch << 40;
        let renews_token = std::mem::take(&mut self.renews_token);
        let known = self.attempts.entry(attempt).or_default();
        match request.method {
            AmMethod::Register => {
                known.is_registered = true;
                known.response_id = 0;
                known.last = None;
                Ok(registered(start))
            }
            AmMethod::Allocate => known.allocate(request, renews_token),
            AmMethod::Finish => Ok(Response::default()),
        }
    }
}

impl Known {
    fn allocate(&mut self, request: &Request, renews_token: bool) -> Outcome {
        if !self.is_registered {
            let exception = HadoopException::ApplicationMasterNotRegistered;
            return Err(RemoteException::new(exception, "register".to_owned()));
        }
        let call = AllocateRequestProto::decode(request.message.encode()).unwrap();
        if call.response_id() + 1 == self.response_id {
            return Ok(self.last.clone().unwrap());
        }
        assert_eq!(call.response_id(), self.response_id, "a number is left out");
        assert!(
            call.ask.is_empty(),
            "only the node gives these out: {call:?}"
        );
        for container in &request.allocated {
            let container = ContainerProto::decode(container.clone()).unwrap();
            let id = container.id.unwrap().id();
            assert!(self.told.insert(id), "{id} is told twice");
        }
        self.response_id += 1;
        let answer = allocated(self.response_id, renews_token);
        self.last = Some(answer.clone());
        Ok(answer)
    }
}

fn nodes() -> Vec<RemoteNodeProto> {
    let node = |number: u16| {
        let id = NodeId {
            host: format!("n{number}"),
            port: number,
        };
        RemoteNodeProto {
            node_id: Some(id.into()),
            http_address: Some(format!("n{number}:1")),
            rack_name: Some("/rack".to_owned()),
            node_partition: None,
        }
    };
    (1..=NODES).map(node).collect()
}

fn registered(start: i64) -> Response {
    let size = |memory_mb| Some(Resource::new(memory_mb, 1).into());
    response(
        &RegisterApplicationMasterResponseProto::default(),
        &RegisterDistributedSchedulingAmResponseProto {
            max_container_resource: Some(Resource::new(8_192, 8).into()),
            min_container_resource: size(128),
            incr_container_resource: size(128),
            container_token_expiry_interval: Some(600_000),
            container_id_start: Some(start),
            nodes_for_scheduling: nodes(),
            ..RegisterDistributedSchedulingAmResponseProto::default()
        },
    )
}

fn allocated(response_id: i32, renews_token: bool) -> Response {
    let token = renews_token.then(|| TokenProto {
        identifier: Bytes::from_static(RM_TOKEN),
        password: Bytes::from_static(RM_TOKEN),
        kind: "YARN_AM_RM_TOKEN".to_owned(),
        service: String::new(),
    });
    response(
        &AllocateResponseProto {
            response_id: Some(response_id),
            am_rm_token: token,
            ..AllocateResponseProto::default()
        },
        &DistributedSchedulingAllocateResponseProto {
            nodes_for_scheduling: nodes(),
            ..DistributedSchedulingAllocateResponseProto::default()
        },
    )
}

fn response(message: &impl Message, scheduling: &impl Message) -> Response {
    Response {
        message: RawMessage::parse(message.encode_to_vec().into()).unwrap(),
        scheduling: RawMessage::parse(scheduling.encode_to_vec().into()).unwrap(),
    }
}
