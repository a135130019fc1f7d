//! An AM that behaves like Hadoop's client library, and its pipeline.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::pin;
use std::task::{Poll, Waker};
use std::time::Duration;

use amrm_proxy::NodeTokenKeys;
use amrm_proxy::call::{AmMethod, Outcome, Request, Timing};
use amrm_proxy::call_metrics::CallMetrics;
use amrm_proxy::chain::Chain;
use amrm_proxy::config::{FilesConfig, HistoryConfig, OptIn, ThrottleConfig};
use amrm_proxy::distributed_scheduler::{self, DistributedScheduler};
use amrm_proxy::interceptor::{Action, Context, Performer};
use amrm_proxy::link::{Link, link, pure};
use amrm_proxy::registration::{Registration, Step};
use amrm_proxy::role_history::files::HistoryNews;
use amrm_proxy::role_history::{Effect, ServiceHistory};
use amrm_proxy::throttle::Throttle;
use amrm_proxy::token_swap::TokenSwap;
use bytes::Bytes;
use hadoop_fs::Uri;
use prost::Message as _;
use records::{ApplicationAttemptId, EpochMillis, MonoMillis, NodeId, Now, Resource};
use role_history::{SavedEntry, SavedHistory};
use sched::DistributedAllocatorConfig;
use wire::exception::{HadoopException, RemoteException};
use wire::proto::hadoop_common::TokenProto;
use wire::proto::hadoop_yarn::{
    AllocateRequestProto, AllocateResponseProto, ContainerTokenIdentifierProto, ExecutionTypeProto,
    ExecutionTypeRequestProto, RegisterApplicationMasterRequestProto, ResourceRequestProto,
};
use wire::raw_message::RawMessage;
use wire::rpc::{BoxFuture, SecretManager as _};
use wire::secrets::AmrmTokenSecretManager;
use wire::token::{MasterKey, Token};

use crate::rm::{RM_TOKEN, Rm};

/// Text of exceptions that the simulation causes.
const TROUBLE: &str = "trouble";

/// Fault in a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    None,
    /// The ResourceManager refuses the call without executing it.
    Refused,
    /// The ResourceManager executes the call, and the node does not get the answer.
    AnswerLostByRm,
    /// The node gets the answer, and the AM does not.
    AnswerLostByNode,
}

/// A fault, and the call of the node to the ResourceManager in which it occurs. One call of the AM
/// causes three calls of the node when it has to register again.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mishap {
    pub(crate) trouble: Trouble,
    pub(crate) at: usize,
}

impl Mishap {
    const NONE: Self = Self {
        trouble: Trouble::None,
        at: 0,
    };
}

/// A simulated AM with its pipeline.
#[derive(Debug)]
pub(crate) struct SimulatedAm {
    pub(crate) attempt: ApplicationAttemptId,
    chain: Chain,
    registration: Registration,
    /// Whether the AM restates what is left with the call after a received container, as Hadoop's
    /// library does.
    restates: bool,
    /// Token that the AM has, and the token that it connected with.
    token: Token,
    presented: Bytes,
    renewals: usize,
    is_registered: bool,
    response_id: i32,
    /// Containers requested and not received, by priority. Each ask has a priority of its own.
    outstanding: BTreeMap<i32, i32>,
    guaranteed: BTreeSet<i32>,
    unsaid: BTreeSet<i32>,
    /// Priorities stated in a call without an answer. The AM states the same again and nothing new
    /// of what is guaranteed: a ResourceManager that has executed the call ignores new content.
    unanswered: Option<BTreeSet<i32>>,
    wanted: usize,
    got: BTreeSet<i64>,
    nm_tokens: BTreeSet<NodeId>,
    /// Containers that their nodes refuse to start, because a previous ResourceManager's node
    /// signed them.
    refused: BTreeSet<i64>,
}

/// Files of an AM's role history, of which none is written.
#[derive(Debug)]
struct SimulatedFiles {
    /// Calls until the history is loaded.
    loads_in: usize,
}

impl Performer<ServiceHistory> for SimulatedFiles {
    fn perform(&mut self, _: Effect) {}

    fn events(&mut self, _: AmMethod) -> Option<BoxFuture<'_, Vec<HistoryNews>>> {
        let calls = self.loads_in;
        self.loads_in = calls.wrapping_sub(1);
        let history = (calls == 0).then(saved_history);
        let news = HistoryNews::Loaded {
            history: Some(history?),
            skipped: 0,
        };
        Some(Box::pin(std::future::ready(vec![news])))
    }
}

/// Readers of a scheduler's gauges, of which there are none.
#[derive(Debug)]
struct Unpublished;

impl Performer<DistributedScheduler> for Unpublished {
    fn perform(&mut self, _: distributed_scheduler::Effect) {}
}

/// Policies of the AMs that keep a role history. A strict role would wait for its nodes that are
/// gone.
const POLICIES: [&str; 3] = ["*=timeout:8", "*=relaxed", "*=timeout:0; 2=timeout:20"];

/// Calls of an AM until its history is loaded.
const LOADS_AFTER: [usize; 3] = [0, 1, 30];

/// Number of roles in a loaded history: as many as an AM has asks, about.
const ROLES: i32 = 40;

/// Makes the interceptor of a service.
fn service_history(number: i32, attempt: ApplicationAttemptId) -> ServiceHistory {
    let config = HistoryConfig {
        files: FilesConfig {
            directory: Uri::file("/"),
            user_bytes_max: 1 << 20,
        },
        placement_timeout_ms: 10_000,
        rules: Vec::new(),
    };
    let policy = usize::try_from(number).unwrap() / 2 % POLICIES.len();
    let opt_in = OptIn {
        service: "store".to_owned(),
        is_guaranteed: true,
        policy: POLICIES[policy].to_owned(),
    };
    ServiceHistory::new(&config, attempt, "alice", opt_in, at(MonoMillis(0)))
}

/// Returns a history whose roles ran on some nodes and on one that is gone.
fn saved_history() -> SavedHistory {
    let saved = EpochMillis(1_600_000_000_000);
    let names = (1..=ROLES).map(|role| (format!("priority-{role}"), role));
    let mut history = SavedHistory::new(saved, ROLES, Some(names.collect()));
    for host in ["gone", "n1", "n2", "n4"] {
        for role in 1..=ROLES {
            // Another order for each role.
            let ago = (i64::from(role) * 7 + i64::from(host.as_bytes()[1])) % 5;
            let entry = SavedEntry {
                role,
                active: false,
                last_used: EpochMillis(saved.0 - ago),
            };
            history.push(host, entry);
        }
    }
    history
}

/// Returns the result of a future that waits for nothing.
fn at_once<T>(future: impl Future<Output = T>) -> T {
    let mut waiting = std::task::Context::from_waker(Waker::noop());
    match pin!(future).poll(&mut waiting) {
        Poll::Ready(result) => result,
        Poll::Pending => panic!("nothing in a simulation waits"),
    }
}

fn at(mono: MonoMillis) -> Now {
    Now {
        mono,
        wall: EpochMillis(1_700_000_000_000),
    }
}

fn node_keys(rm_identifier: i64) -> NodeTokenKeys {
    NodeTokenKeys {
        container_token: MasterKey::new(1, Bytes::from_static(b"container")),
        nm_token: MasterKey::new(2, Bytes::from_static(b"node")),
        rm_identifier,
    }
}

impl SimulatedAm {
    pub(crate) fn new(number: i32, secrets: &AmrmTokenSecretManager) -> Self {
        let attempt = test_support::ids::attempt(number);
        let token = secrets.activate(attempt, "alice");
        let mut chain: Vec<Box<dyn Link>> = vec![
            pure(TokenSwap),
            pure(CallMetrics),
            pure(Throttle::new(ThrottleConfig::default())),
        ];
        let keeps_history = number % 4 >= 2;
        if keeps_history {
            let loads_in = LOADS_AFTER[usize::try_from(number).unwrap() % LOADS_AFTER.len()];
            let files = SimulatedFiles { loads_in };
            chain.push(link(service_history(number, attempt), files));
        }
        let config = DistributedAllocatorConfig::default();
        chain.push(link(
            DistributedScheduler::new(attempt, config),
            Unpublished,
        ));
        Self {
            attempt,
            chain: Chain::new(chain),
            presented: token.identifier.clone(),
            token,
            renewals: 0,
            is_registered: false,
            response_id: 0,
            registration: Registration::default(),
            restates: number % 2 == 0,
            outstanding: BTreeMap::new(),
            guaranteed: BTreeSet::new(),
            unsaid: BTreeSet::new(),
            unanswered: None,
            wanted: 0,
            got: BTreeSet::new(),
            nm_tokens: BTreeSet::new(),
            refused: BTreeSet::new(),
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

    pub(crate) const fn refused(&self) -> &BTreeSet<i64> {
        &self.refused
    }

    pub(crate) fn is_satisfied(&self) -> bool {
        self.outstanding.values().all(|count| *count == 0)
    }

    /// Requests more containers with the next call.
    pub(crate) fn want(&mut self, count: i32, is_guaranteed: bool) {
        let priority = i32::try_from(self.outstanding.len()).unwrap() + 1;
        if is_guaranteed {
            self.guaranteed.insert(priority);
        }
        self.outstanding.insert(priority, count);
        self.unsaid.insert(priority);
        self.wanted += usize::try_from(count).unwrap();
    }

    /// Opens a new connection with the current token.
    pub(crate) fn reconnect(&mut self, secrets: &AmrmTokenSecretManager) {
        let verified = secrets.retrieve(&self.token.identifier);
        assert!(
            verified.is_ok(),
            "{} is locked out: {verified:?}",
            self.attempt
        );
        self.presented = self.token.identifier.clone();
    }

    /// Makes the next call, or registers if necessary.
    pub(crate) fn call(
        &mut self,
        rm: &mut Rm,
        secrets: &AmrmTokenSecretManager,
        mishap: Mishap,
        now: MonoMillis,
    ) {
        if !self.is_registered {
            let message = RegisterApplicationMasterRequestProto::default().encode_to_vec();
            // Hadoop's ResourceManager refuses an AM whose first registration is lost.
            let none = Mishap::NONE;
            let outcome = self.proxy(AmMethod::Register, message, rm, secrets, none, now);
            outcome.unwrap();
            self.is_registered = true;
            return;
        }
        let said = self.priorities_to_state();
        let message = self.heartbeat(&said).encode_to_vec();
        self.unanswered = Some(said);
        let outcome = self.proxy(AmMethod::Allocate, message, rm, secrets, mishap, now);
        match outcome {
            Ok(_) if mishap.trouble == Trouble::AnswerLostByNode => self.reconnect(secrets),
            Ok(response) => {
                let answer = AllocateResponseProto::decode(response.message.encode());
                self.take(answer.unwrap(), rm);
            }
            Err(exception) => {
                assert_eq!(exception.message, TROUBLE, "{} notices", self.attempt);
            }
        }
    }

    /// Follows the path of a call through the pipeline.
    fn proxy(
        &mut self,
        method: AmMethod,
        message: Vec<u8>,
        rm: &mut Rm,
        secrets: &AmrmTokenSecretManager,
        mishap: Mishap,
        now: MonoMillis,
    ) -> Outcome {
        let mut request = Request::new(method, RawMessage::parse(message.into()).unwrap());
        let (keys, mut actions) = (node_keys(rm.known_to_the_node()), Vec::new());
        let renewed = secrets.renewed_token(self.attempt, &self.presented);
        let mut context = Context {
            attempt: self.attempt,
            user: "alice",
            now: at(now),
            keys: Some(&keys),
            timing: Timing::default(),
            renewed_token: None,
        };
        if at_once(self.chain.listen(method)) {
            self.chain.tell(&context, &mut actions);
        }
        let inbound = self.chain.inbound(&mut request, &context, &mut actions);
        if let Err(refusal) = inbound.result {
            panic!("{} is well-behaved: {refusal}", self.attempt);
        }
        let mut outcome = self.exchange(&mut request, rm, mishap, &context, &mut actions);
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

    /// Makes the call at the ResourceManager, and registers again if necessary.
    fn exchange(
        &mut self,
        request: &mut Request,
        rm: &mut Rm,
        mishap: Mishap,
        context: &Context<'_>,
        actions: &mut Vec<Action>,
    ) -> Outcome {
        let attempt = self.attempt;
        let mut calls = 0;
        let mut forward = |request: &Request| {
            let is_hit = calls == mishap.at;
            calls += 1;
            let refused = |kind| Err(RemoteException::new(kind, TROUBLE));
            match mishap.trouble {
                Trouble::Refused if is_hit => refused(HadoopException::YarnException),
                Trouble::AnswerLostByRm if is_hit => rm
                    .call(attempt, request)
                    .and_then(|_| refused(HadoopException::Retriable)),
                Trouble::None
                | Trouble::Refused
                | Trouble::AnswerLostByRm
                | Trouble::AnswerLostByNode => rm.call(attempt, request),
            }
        };
        if self.registration.on_request(request) {
            self.chain.reregistered(None, request, context, actions);
        }
        loop {
            let outcome = forward(request);
            let step = self
                .registration
                .on_outcome(request, outcome, context, actions);
            let register = match step {
                Step::Done(outcome) => return outcome,
                Step::Register(register) => register,
            };
            let granted = forward(&register);
            let granted = self.registration.on_registered(request, granted, actions)?;
            self.chain
                .reregistered(granted.as_ref(), request, context, actions);
        }
    }

    /// Returns the priorities to state: all that changed since a call was answered.
    fn priorities_to_state(&self) -> BTreeSet<i32> {
        let mut said = self.unsaid.clone();
        if let Some(unanswered) = &self.unanswered {
            said.retain(|priority| {
                unanswered.contains(priority) || !self.guaranteed.contains(priority)
            });
        }
        said
    }

    fn heartbeat(&self, said: &BTreeSet<i32>) -> AllocateRequestProto {
        let line = |priority: &i32| ResourceRequestProto {
            priority: Some((*priority).into()),
            resource_name: Some("*".to_owned()),
            capability: Some(Resource::new(128, 1).into()),
            num_containers: Some(self.outstanding[priority]),
            execution_type_request: Some(ExecutionTypeRequestProto {
                execution_type: Some(self.kind_of(*priority).into()),
                enforce_execution_type: Some(true),
            }),
            ..ResourceRequestProto::default()
        };
        AllocateRequestProto {
            response_id: Some(self.response_id),
            ask: said.iter().map(line).collect(),
            ..AllocateRequestProto::default()
        }
    }

    fn kind_of(&self, priority: i32) -> ExecutionTypeProto {
        if self.guaranteed.contains(&priority) {
            ExecutionTypeProto::Guaranteed
        } else {
            ExecutionTypeProto::Opportunistic
        }
    }

    fn take(&mut self, answer: AllocateResponseProto, rm: &Rm) {
        self.response_id = answer.response_id();
        let said = self.unanswered.take().unwrap();
        self.unsaid.retain(|priority| !said.contains(priority));
        for token in answer.nm_tokens {
            let node = token.node_id.unwrap();
            self.nm_tokens.insert((&node).try_into().unwrap());
        }
        for container in answer.allocated_containers {
            let id = container.id.unwrap().id();
            let node: NodeId = (&container.node_id.unwrap()).try_into().unwrap();
            assert!(self.nm_tokens.contains(&node), "no token for {node}");
            let priority = container.priority.unwrap().priority();
            if !can_start(container.container_token, rm) {
                self.refused.insert(id);
                self.unsaid.insert(priority);
                continue;
            }
            assert!(self.got.insert(id), "{} gets {id} twice", self.attempt);
            let outstanding = self.outstanding.get_mut(&priority).unwrap();
            assert!(
                *outstanding > 0,
                "{} gets {id} beyond its ask",
                self.attempt
            );
            *outstanding -= 1;
            if self.restates {
                self.unsaid.insert(priority);
            }
        }
        for status in answer.completed_container_statuses {
            let id = status.container_id.unwrap().id();
            assert!(self.got.contains(&id), "{} never had {id}", self.attempt);
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

/// Returns whether nodes start a container with this token. The ResourceManager's own containers
/// have no token here.
fn can_start(token: Option<TokenProto>, rm: &Rm) -> bool {
    token.is_none_or(|token| {
        let token = ContainerTokenIdentifierProto::decode(&*token.identifier).unwrap();
        token.rm_identifier() == rm.identifier()
    })
}
