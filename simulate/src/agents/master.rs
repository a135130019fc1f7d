//! A job's ApplicationMaster as a party of the protocol, and its pipeline in the proxy of its node:
//! the shipped interceptors without the forwarder.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll, Waker};
use std::time::Duration;

use amrm_proxy::call::{AmMethod, Request, Response, Timing};
use amrm_proxy::call_metrics::CallMetrics;
use amrm_proxy::chain::Chain;
use amrm_proxy::distributed_scheduler::DistributedScheduler;
use amrm_proxy::interceptor::Context;
use amrm_proxy::link::{Link, link, pure};
use amrm_proxy::looks::Looks;
use amrm_proxy::token_swap::TokenSwap;
use prost::Message;
use records::{ApplicationAttemptId, ContainerExitStatus, ContainerId, ExecutionType, MonoMillis};
use sched::{DistributedAllocatorConfig, KnownNode, KnownNodes, LookAnswer, Placement};
use wire::proto::hadoop_common::TokenProto;
use wire::proto::hadoop_yarn::{
    AllocateRequestProto, AllocateResponseProto, ContainerProto, ExecutionTypeProto,
    ExecutionTypeRequestProto, FinalApplicationStatusProto, FinishApplicationMasterRequestProto,
    RegisterApplicationMasterRequestProto, ResourceRequestProto,
};
use wire::raw_message::RawMessage;
use wire::token::Token;

use super::at;
use super::looks::{Board, Looker};
use super::node::Agent;
use super::resource_manager::{ResourceManager, USER};
use crate::arm::{MasterCall, Placed, Stated};
use crate::measure::Cost;
use crate::node::{SIZE, number_of};

/// Priorities of the asks for opportunistic and for guaranteed containers.
const OPPORTUNISTIC: i32 = 1;
const GUARANTEED: i32 = 2;

/// Parts that every master's pipeline is made from.
pub(super) struct Pipeline {
    /// How proxies place; `None`: the ResourceManager does.
    placement: Option<Placement>,
    known: Arc<KnownNodes>,
}

impl Pipeline {
    pub(super) const fn new(placement: Option<Placement>, known: Arc<KnownNodes>) -> Self {
        Self { placement, known }
    }

    /// Makes the pipeline of an attempt, and the board of its looks.
    pub(super) fn of(&self, attempt: ApplicationAttemptId) -> (Chain, Board) {
        let board = Board::default();
        let mut links: Vec<Box<dyn Link>> = vec![pure(TokenSwap), pure(CallMetrics)];
        if let Some(placement) = self.placement {
            let config = DistributedAllocatorConfig {
                placement,
                ..DistributedAllocatorConfig::default()
            };
            let known = (placement == Placement::Look).then(|| Arc::clone(&self.known));
            links.push(link(
                DistributedScheduler::new(attempt, config),
                Looker::new(board.clone(), known),
            ));
        }
        (Chain::new(links), board)
    }
}

/// Parts that a master's calls reach.
pub(super) struct Cluster<'a> {
    pub(super) rm: &'a mut ResourceManager,
    pub(super) nodes: &'a [Agent],
    pub(super) look_ms: u64,
    pub(super) cost: &'a mut Cost,
}

/// Container that a master has got, with the tokens to start it.
pub(super) struct Granted {
    pub(super) placed: Placed,
    pub(super) token: TokenProto,
    pub(super) nm_token: Token,
}

/// Parts of an answer that a master reads.
#[derive(Default)]
pub(super) struct Grants {
    pub(super) containers: Vec<Granted>,
    pub(super) ended: Vec<(ContainerId, ContainerExitStatus)>,
}

pub(super) struct Master {
    attempt: ApplicationAttemptId,
    /// Node that it runs on, once it is placed.
    node: usize,
    chain: Chain,
    board: Board,
    is_registered: bool,
    response_id: i32,
    opportunistic: Stated,
    guaranteed: Stated,
    releases: Vec<ContainerId>,
    nm_tokens: BTreeMap<usize, Token>,
}

impl Master {
    pub(super) fn new(attempt: ApplicationAttemptId, (chain, board): (Chain, Board)) -> Self {
        Self {
            attempt,
            node: 0,
            chain,
            board,
            is_registered: false,
            response_id: 0,
            opportunistic: Stated::default(),
            guaranteed: Stated::default(),
            releases: Vec::new(),
            nm_tokens: BTreeMap::new(),
        }
    }

    pub(super) const fn runs_on(&mut self, node: usize) {
        self.node = node;
    }

    /// Gives a container back with the next call.
    pub(super) fn release(&mut self, id: ContainerId) {
        self.releases.push(id);
    }

    /// Makes a call, after the registration if it is the first.
    pub(super) fn call(&mut self, call: &MasterCall, cluster: &mut Cluster<'_>) -> Grants {
        if !self.is_registered {
            self.is_registered = true;
            let request = RegisterApplicationMasterRequestProto::default();
            self.exchange(AmMethod::Register, &request, call.now, cluster);
        }
        let wanted = [
            (OPPORTUNISTIC, self.opportunistic.wants(call.wanted)),
            (GUARANTEED, self.guaranteed.wants(call.wanted_guaranteed)),
        ];
        let asks = wanted.into_iter();
        let asks = asks.filter_map(|(priority, count)| Some(ask(priority, count?)));
        let releases = std::mem::take(&mut self.releases);
        let request = AllocateRequestProto {
            ask: asks.collect(),
            release: releases.into_iter().map(Into::into).collect(),
            response_id: Some(self.response_id),
            progress: Some(0.5),
            ..AllocateRequestProto::default()
        };
        let response = self.exchange(AmMethod::Allocate, &request, call.now, cluster);
        let answer = AllocateResponseProto::decode(response.message.encode());
        self.take(answer.expect("an answer is a message"))
    }

    /// Unregisters.
    pub(super) fn finish(&mut self, now: MonoMillis, cluster: &mut Cluster<'_>) {
        let request = FinishApplicationMasterRequestProto {
            final_application_status: Some(FinalApplicationStatusProto::AppSucceeded.into()),
            ..FinishApplicationMasterRequestProto::default()
        };
        self.exchange(AmMethod::Finish, &request, now, cluster);
    }

    fn take(&mut self, answer: AllocateResponseProto) -> Grants {
        self.response_id = answer.response_id();
        for token in answer.nm_tokens {
            let node = token.node_id.and_then(|id| (&id).try_into().ok());
            let node = node.as_ref().and_then(number_of);
            if let (Some(node), Some(token)) = (node, token.token) {
                self.nm_tokens.insert(node, token.into());
            }
        }
        let containers = answer.allocated_containers.into_iter();
        let containers = containers.map(|container| {
            let granted = self.granted(container);
            granted.expect("an answer has all that a start needs")
        });
        let ended = answer.completed_container_statuses.iter();
        let ended = ended.filter_map(|status| {
            let id = ContainerId::try_from(status.container_id.as_ref()?).ok()?;
            Some((id, ContainerExitStatus(status.exit_status())))
        });
        Grants {
            containers: containers.collect(),
            ended: ended.collect(),
        }
    }

    fn granted(&mut self, container: ContainerProto) -> Option<Granted> {
        let execution_type = ExecutionType::from(container.execution_type());
        let id = ContainerId::try_from(&container.id?).ok()?;
        let node = number_of(&(&container.node_id?).try_into().ok()?)?;
        let placed = match execution_type {
            ExecutionType::Guaranteed => {
                self.guaranteed.got(1);
                Placed::guaranteed(id, node)
            }
            ExecutionType::Opportunistic => {
                self.opportunistic.got(1);
                Placed::opportunistic(id, node)
            }
        };
        Some(Granted {
            placed,
            token: container.container_token?,
            nm_token: self.nm_tokens.get(&node)?.clone(),
        })
    }

    /// Takes a call through the pipeline to the ResourceManager and back, in the steps of the
    /// shipped one.
    fn exchange(
        &mut self,
        method: AmMethod,
        message: &impl Message,
        now: MonoMillis,
        cluster: &mut Cluster<'_>,
    ) -> Response {
        if method != AmMethod::Finish {
            cluster.cost.rm_calls += 1;
        }
        let message = RawMessage::parse(message.encode_to_vec().into());
        let mut request = Request::new(method, message.expect("an encoded message is one"));
        let mut actions = Vec::new();
        let mut context = Context {
            attempt: self.attempt,
            user: USER,
            now: at(now),
            keys: cluster.nodes.get(self.node).and_then(Agent::keys),
            timing: Timing::default(),
            renewed_token: None,
        };
        if at_once(self.chain.listen(method)) {
            self.chain.tell(&context, &mut actions);
        }
        let inbound = self.chain.inbound(&mut request, &context, &mut actions);
        inbound.result.expect("no interceptor refuses a call");
        if let Some(ordered) = self.board.take_ordered() {
            let looks = self.look(&ordered, now, cluster);
            self.board.answer(looks);
        }
        if at_once(self.chain.await_answers()) {
            context.now = at(now + cluster.look_ms);
            self.chain.answer(&mut request, &context, &mut actions);
        }
        let mut outcome = cluster.rm.call(self.attempt, &request, at(now));
        let passed = inbound.passed;
        self.chain
            .outbound(passed, method, &mut outcome, &context, &mut actions);
        let response = outcome.expect("the ResourceManager refuses no call");
        cluster.cost.list_entries += response.nodes.nodes().len() as u64;
        response
    }

    /// Looks at nodes, all of which answer.
    fn look(&self, ordered: &[KnownNode], now: MonoMillis, cluster: &mut Cluster<'_>) -> Looks {
        cluster.cost.looks += ordered.len() as u64;
        let answers = ordered.iter().enumerate().filter_map(|(position, known)| {
            let node = cluster.nodes.get(number_of(&known.node().node_id)?)?;
            Some((position, LookAnswer::Seen(node.sight(now))))
        });
        let here = cluster.nodes.get(self.node);
        Looks {
            answers: answers.collect(),
            late: Vec::new(),
            asked: ordered.len(),
            max_queue_length: here.map(Agent::max_queue_length),
            took: Duration::from_millis(cluster.look_ms),
        }
    }
}

/// Returns an ask for containers on any node.
fn ask(priority: i32, count: u32) -> ResourceRequestProto {
    let execution_type = if priority == GUARANTEED {
        ExecutionTypeProto::Guaranteed
    } else {
        ExecutionTypeProto::Opportunistic
    };
    ResourceRequestProto {
        priority: Some(priority.into()),
        resource_name: Some("*".to_owned()),
        capability: Some(SIZE.into()),
        num_containers: i32::try_from(count).ok(),
        relax_locality: Some(true),
        execution_type_request: Some(ExecutionTypeRequestProto {
            execution_type: Some(execution_type.into()),
            enforce_execution_type: Some(true),
        }),
        ..ResourceRequestProto::default()
    }
}

/// Returns the result of a future that waits for nothing.
fn at_once<T>(future: impl Future<Output = T>) -> T {
    let mut waiting = TaskContext::from_waker(Waker::noop());
    match pin!(future).poll(&mut waiting) {
        Poll::Ready(result) => result,
        Poll::Pending => panic!("nothing in a simulation waits"),
    }
}
