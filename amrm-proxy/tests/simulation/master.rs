//! A master that does what Hadoop's client library does, and its pipeline.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use amrm_proxy::call_metrics::CallMetrics;
use amrm_proxy::chain::Chain;
use amrm_proxy::config::ThrottleConfig;
use amrm_proxy::distributed_scheduler::{DistributedScheduler, NodeTokenKeys};
use amrm_proxy::interceptor::{Action, AmMethod, Context, Outcome, Request, Timing};
use amrm_proxy::throttle::Throttle;
use amrm_proxy::token_swap::TokenSwap;
use bytes::Bytes;
use prost::Message as _;
use records::{
    ApplicationAttemptId, ApplicationId, EpochMillis, MonoMillis, NodeId, Now, Resource,
};
use sched::DistributedAllocatorConfig;
use wire::exception::{HadoopException, RemoteException};
use wire::proto::hadoop_yarn::{
    AllocateRequestProto, AllocateResponseProto, ExecutionTypeProto, ExecutionTypeRequestProto,
    RegisterApplicationMasterRequestProto, ResourceRequestProto,
};
use wire::raw_message::RawMessage;
use wire::rpc::SecretManager as _;
use wire::secrets::MasterSecrets;
use wire::token::{MasterKey, Token};

use crate::rm::{RM_TOKEN, Rm};

/// What goes wrong with a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    None,
    /// The ResourceManager does not carry it out and says so.
    Refused,
    /// The ResourceManager carries it out, and the node never hears of that.
    AnswerLostByRm,
    /// The node has the answer, and the master does not get it.
    AnswerLostByNode,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Master {
    pub(crate) attempt: ApplicationAttemptId,
    chain: Chain,
    /// The token that it has, and the one that it connected with.
    token: Token,
    presented: Bytes,
    renewals: usize,
    is_registered: bool,
    response_id: i32,
    /// By priority, how many it has asked for and not got. Each ask has a priority of its own.
    outstanding: BTreeMap<i32, i32>,
    unsaid: BTreeSet<i32>,
    wanted: usize,
    got: BTreeSet<i64>,
    nm_tokens: BTreeSet<NodeId>,
}

fn node_keys() -> NodeTokenKeys {
    NodeTokenKeys {
        container_token: MasterKey::new(1, Bytes::from_static(b"container")),
        nm_token: MasterKey::new(2, Bytes::from_static(b"node")),
        rm_identifier: 7,
    }
}

impl Master {
    pub(crate) fn new(number: i32, secrets: &MasterSecrets) -> Self {
        let attempt = ApplicationAttemptId {
            application_id: ApplicationId {
                cluster_timestamp: 1_700_000_000_000,
                id: number,
            },
            attempt_id: 1,
        };
        let token = secrets.admit(attempt);
        Self {
            attempt,
            chain: Chain::new(vec![
                Box::new(TokenSwap),
                Box::new(CallMetrics),
                Box::new(Throttle::new(ThrottleConfig::default())),
                Box::new(DistributedScheduler::new(
                    attempt,
                    DistributedAllocatorConfig::default(),
                )),
            ]),
            presented: token.identifier.clone(),
            token,
            renewals: 0,
            is_registered: false,
            response_id: 0,
            outstanding: BTreeMap::new(),
            unsaid: BTreeSet::new(),
            wanted: 0,
            got: BTreeSet::new(),
            nm_tokens: BTreeSet::new(),
        }
    }

    pub(crate) fn got(&self) -> BTreeSet<i64> {
        self.got.clone()
    }

    pub(crate) const fn wanted(&self) -> usize {
        self.wanted
    }

    pub(crate) const fn renewals(&self) -> usize {
        self.renewals
    }

    pub(crate) fn is_satisfied(&self) -> bool {
        self.outstanding.values().all(|count| *count == 0)
    }

    /// Asks for more with its next call.
    pub(crate) fn want(&mut self, count: i32) {
        let priority = i32::try_from(self.outstanding.len()).unwrap() + 1;
        self.outstanding.insert(priority, count);
        self.unsaid.insert(priority);
        self.wanted += usize::try_from(count).unwrap();
    }

    /// Opens a new connection with the token that it has.
    pub(crate) fn reconnect(&mut self, secrets: &MasterSecrets) {
        let verified = secrets.retrieve(&self.token.identifier);
        assert!(
            verified.is_ok(),
            "{} is locked out: {verified:?}",
            self.attempt
        );
        self.presented = self.token.identifier.clone();
    }

    /// Makes its next call, or registers if it has to.
    pub(crate) fn call(
        &mut self,
        rm: &mut Rm,
        secrets: &MasterSecrets,
        trouble: Trouble,
        now: MonoMillis,
    ) {
        if !self.is_registered {
            let message = RegisterApplicationMasterRequestProto::default().encode_to_vec();
            let outcome = self.proxy(AmMethod::Register, message, rm, secrets, trouble, now);
            if outcome.is_ok() && trouble != Trouble::AnswerLostByNode {
                self.is_registered = true;
                self.response_id = 0;
                self.unsaid = self.outstanding.keys().copied().collect();
            }
            return;
        }
        let message = self.heartbeat().encode_to_vec();
        let outcome = self.proxy(AmMethod::Allocate, message, rm, secrets, trouble, now);
        match outcome {
            Ok(_) if trouble == Trouble::AnswerLostByNode => self.reconnect(secrets),
            Ok(response) => {
                let answer = AllocateResponseProto::decode(response.message.encode());
                self.take(answer.unwrap());
            }
            Err(exception) => {
                let register = HadoopException::ApplicationMasterNotRegistered;
                self.is_registered = !exception.is(register);
            }
        }
    }

    /// The way of a call, as the pipeline goes it.
    fn proxy(
        &mut self,
        method: AmMethod,
        message: Vec<u8>,
        rm: &mut Rm,
        secrets: &MasterSecrets,
        trouble: Trouble,
        now: MonoMillis,
    ) -> Outcome {
        let mut request = Request {
            method,
            message: RawMessage::parse(message.into()).unwrap(),
            allocated: Vec::new(),
        };
        let (keys, mut actions) = (node_keys(), Vec::new());
        let renewed = secrets.renewed(self.attempt, &self.presented);
        let mut context = Context {
            attempt: self.attempt,
            user: "alice",
            now: Now {
                mono: now,
                wall: EpochMillis(1_700_000_000_000),
            },
            keys: Some(&keys),
            timing: Timing::default(),
            renewed_token: None,
        };
        let inbound = self.chain.inbound(&mut request, &context, &mut actions);
        let refused = |kind| Err(RemoteException::new(kind, "trouble".to_owned()));
        let mut outcome = match (inbound.result, trouble) {
            (Err(refusal), _) => panic!("{} is well-behaved: {refusal}", self.attempt),
            (Ok(_), Trouble::Refused) => refused(HadoopException::YarnException),
            (Ok(_), Trouble::AnswerLostByRm) => {
                let unheard = rm.call(self.attempt, &request);
                unheard.and_then(|_| refused(HadoopException::Retriable))
            }
            (Ok(_), Trouble::None | Trouble::AnswerLostByNode) => rm.call(self.attempt, &request),
        };
        context.renewed_token = renewed.as_ref();
        context.timing.total = Duration::from_millis(1);
        self.chain
            .outbound(inbound.passed, method, &mut outcome, &context, &mut actions);
        for action in actions {
            if let Action::UseRmToken(token) = action {
                assert_eq!(token.identifier, RM_TOKEN);
            }
        }
        outcome
    }

    /// What it says: the counts of all that changed since a call was answered.
    fn heartbeat(&self) -> AllocateRequestProto {
        let line = |priority: &i32| ResourceRequestProto {
            priority: Some((*priority).into()),
            resource_name: Some("*".to_owned()),
            capability: Some(Resource::new(128, 1).into()),
            num_containers: Some(self.outstanding[priority]),
            execution_type_request: Some(ExecutionTypeRequestProto {
                execution_type: Some(ExecutionTypeProto::Opportunistic.into()),
                enforce_execution_type: Some(true),
            }),
            ..ResourceRequestProto::default()
        };
        AllocateRequestProto {
            response_id: Some(self.response_id),
            ask: self.unsaid.iter().map(line).collect(),
            ..AllocateRequestProto::default()
        }
    }

    fn take(&mut self, answer: AllocateResponseProto) {
        self.response_id = answer.response_id();
        self.unsaid.clear();
        for token in answer.nm_tokens {
            let node = token.node_id.unwrap();
            self.nm_tokens.insert((&node).try_into().unwrap());
        }
        for container in answer.allocated_containers {
            let id = container.id.unwrap().id();
            assert!(self.got.insert(id), "{} gets {id} twice", self.attempt);
            let node: NodeId = (&container.node_id.unwrap()).try_into().unwrap();
            assert!(self.nm_tokens.contains(&node), "no token for {node}");
            let priority = container.priority.unwrap().priority();
            *self.outstanding.get_mut(&priority).unwrap() -= 1;
            // The library states what is left with the next call.
            self.unsaid.insert(priority);
        }
        if let Some(token) = answer.am_rm_token {
            assert_ne!(
                token.identifier, RM_TOKEN,
                "a token of the ResourceManager's"
            );
            self.renewals += 1;
            self.token = token.into();
        }
    }
}
