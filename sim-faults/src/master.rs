//! An ApplicationMaster that follows the protocol's rules, as Hadoop's client libraries do: it
//! repeats an unanswered call unchanged, starts what it gets, releases what it cannot start, asks
//! again for what failed, and finishes when all of its tasks are done.

mod nodes;

use std::collections::BTreeMap;

use records::{ApplicationAttemptId, ContainerId, ExecutionType};
use sim::Random;
use wire::proto::hadoop_common::TokenProto;
use wire::proto::hadoop_yarn::{
    AllocateRequestProto, AllocateResponseProto, ContainerUpdateTypeProto, ExecutionTypeProto,
    ExecutionTypeRequestProto, ResourceRequestProto, UpdateContainerRequestProto,
};
use wire::token::Token;

use crate::context::Context;
use crate::event::{Client, Event, Host, Reply, Request};
use crate::observation::Observation;
use crate::scenario::{self, Class};

/// Milliseconds between two allocate calls.
const BEAT_MS: u64 = 1_000;

/// Failures after which an AM gives a task up.
const FAILURES_MAX: u32 = 40;

/// Probability, for each heartbeat, that the AM stops one of its containers or has one promoted, in
/// parts per million.
const WHIM: u32 = 40_000;

/// Probability that it has a guaranteed container changed instead, in parts per million.
const CHANGE: u32 = 800_000;

/// State of the AM's registration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Registering,
    Running,
    Finishing,
    Finished,
}

/// State of a container that the AM has got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// To be started, with the number of tries so far.
    Granted(u32),
    /// A call to start it is under way.
    Starting(u32),
    /// Its start was accepted.
    Running,
    /// Given back, or its stop was asked for; its end is awaited.
    Ending,
}

/// Container that the AM has got and whose end it has not learned.
#[derive(Debug)]
struct Held {
    node: usize,
    /// Index of its class.
    class: usize,
    token: TokenProto,
    version: i32,
    execution_type: ExecutionType,
    state: State,
    /// Whether a task of its class counts on it.
    is_needed: bool,
}

/// Progress of a class of tasks.
#[derive(Debug)]
struct Progress {
    class: Class,
    /// Containers to be asked for that have not come yet.
    outstanding: u32,
    is_unsent: bool,
    failures: u32,
}

/// An AM.
pub struct Master {
    /// Container that it runs in.
    pub container: ContainerId,
    /// Node that it runs on.
    pub node: usize,
    attempt: ApplicationAttemptId,
    /// Virtual time at which its process began, which tells it from another of the same attempt.
    began_ms: u64,
    stage: Stage,
    response_id: i32,
    /// Number of the call to the ResourceManager under way.
    pending: Option<u64>,
    /// Allocate call that has no answer yet.
    unanswered: Option<Box<AllocateRequestProto>>,
    classes: Vec<Progress>,
    held: BTreeMap<ContainerId, Held>,
    releases: Vec<ContainerId>,
    promotions: Vec<UpdateContainerRequestProto>,
    nm_tokens: BTreeMap<usize, Token>,
    /// Calls to nodes under way.
    calls: BTreeMap<u64, nodes::NodeCall>,
    random: Random,
}

/// Consequence for the AM's process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// The process goes on.
    GoOn,
    /// The process exits with this status.
    Exit(i32),
}

impl Master {
    /// Returns an AM that has just begun.
    #[must_use]
    pub fn new(container: ContainerId, node: usize, began_ms: u64, mut random: Random) -> Self {
        let classes = scenario::classes(&mut random).into_iter();
        let classes = classes.map(|class| Progress {
            outstanding: class.tasks,
            class,
            is_unsent: true,
            failures: 0,
        });
        Self {
            container,
            node,
            attempt: container.attempt,
            began_ms,
            stage: Stage::Registering,
            response_id: 0,
            pending: None,
            unanswered: None,
            classes: classes.collect(),
            held: BTreeMap::new(),
            releases: Vec::new(),
            promotions: Vec::new(),
            nm_tokens: BTreeMap::new(),
            calls: BTreeMap::new(),
            random,
        }
    }

    /// Returns the AM's state, for the report of a violation.
    #[must_use]
    pub fn describe(&self) -> String {
        let outstanding: Vec<u32> = self.classes.iter().map(|class| class.outstanding).collect();
        let held = self.held.iter().take(5);
        let held: Vec<String> = held
            .map(|(id, held)| format!("{id} on {} {:?}", held.node, held.state))
            .collect();
        let (attempt, stage) = (self.attempt, self.stage);
        format!("{attempt} {stage:?} outstanding {outstanding:?} held {held:?}")
    }

    /// Returns a container whose end the AM has not learned.
    #[must_use]
    pub fn any_held(&self) -> Option<ContainerId> {
        self.held.keys().next().copied()
    }

    /// Makes the next call to the ResourceManager.
    pub fn wake(&mut self, context: &mut Context) {
        if self.pending.is_some() || self.stage == Stage::Finished {
            return;
        }
        if self.stage == Stage::Running && self.unanswered.is_none() && self.is_done() {
            self.stage = Stage::Finishing;
        }
        let request = match self.stage {
            Stage::Registering => Request::RegisterMaster(self.attempt, self.began_ms),
            Stage::Running => {
                if self.unanswered.is_none() {
                    self.act_on_whim(context);
                    self.unanswered = Some(Box::new(self.allocate()));
                }
                let Some(request) = self.unanswered.clone() else {
                    return;
                };
                Request::Allocate(self.attempt, request)
            }
            Stage::Finishing | Stage::Finished => Request::FinishMaster(self.attempt),
        };
        let from = Host::Node(self.node);
        let client = Client::Master(self.attempt);
        self.pending = Some(context.call(client, from, Host::Rm, request));
    }

    fn is_done(&self) -> bool {
        let asked = self.classes.iter().any(|class| class.outstanding > 0);
        !asked && self.held.is_empty() && self.releases.is_empty()
    }

    fn allocate(&mut self) -> AllocateRequestProto {
        let unsent = self.classes.iter_mut().filter(|class| class.is_unsent);
        let asks = unsent.map(|progress| {
            progress.is_unsent = false;
            let Class {
                priority,
                resource,
                execution_type,
                ..
            } = progress.class;
            ResourceRequestProto {
                priority: Some(priority.into()),
                resource_name: Some("*".to_owned()),
                capability: Some(resource.into()),
                num_containers: i32::try_from(progress.outstanding).ok(),
                relax_locality: Some(true),
                execution_type_request: Some(ExecutionTypeRequestProto {
                    execution_type: Some(ExecutionTypeProto::from(execution_type).into()),
                    enforce_execution_type: Some(true),
                }),
                ..ResourceRequestProto::default()
            }
        });
        let releases = std::mem::take(&mut self.releases);
        AllocateRequestProto {
            ask: asks.collect(),
            release: releases.into_iter().map(Into::into).collect(),
            response_id: Some(self.response_id),
            progress: Some(0.5),
            update_requests: std::mem::take(&mut self.promotions),
            ..AllocateRequestProto::default()
        }
    }

    /// Stops or promotes a container now and then.
    fn act_on_whim(&mut self, context: &mut Context) {
        if !self.random.chance(WHIM) {
            return;
        }
        let running = self.held.iter();
        let running = running.filter(|(_, held)| held.state == State::Running);
        let ids: Vec<ContainerId> = running.map(|(id, _)| *id).collect();
        let Some(id) = self.random.pick(&ids).copied() else {
            return;
        };
        let opportunistic = self
            .held
            .get(&id)
            .filter(|held| held.execution_type == ExecutionType::Opportunistic);
        match opportunistic {
            Some(held) if self.random.chance(500_000) => {
                self.promotions.push(UpdateContainerRequestProto {
                    container_version: held.version,
                    container_id: id.into(),
                    update_type: ContainerUpdateTypeProto::PromoteExecutionType.into(),
                    ..UpdateContainerRequestProto::default()
                });
            }
            None if self.random.chance(CHANGE) => self.change(id, context),
            _ => self.stop(id, context),
        }
    }

    /// Handles an answer; `None`: none came.
    pub fn replied(&mut self, number: u64, reply: Option<Reply>, context: &mut Context) -> Next {
        if self.pending != Some(number) {
            self.node_replied(number, reply, context);
            return Next::GoOn;
        }
        self.pending = None;
        context.queue.push_in(
            self.random.within(BEAT_MS / 2..=BEAT_MS),
            Event::Master(self.attempt),
        );
        match (self.stage, reply) {
            (_, None) => {}
            (Stage::Finishing, Some(_)) => {
                self.stage = Stage::Finished;
                return Next::Exit(0);
            }
            // The ResourceManager does not know this attempt any more.
            (_, Some(Reply::Refused(_))) => return Next::Exit(1),
            (Stage::Registering, Some(Reply::Done)) => self.stage = Stage::Running,
            (_, Some(Reply::Allocated(response))) => self.allocated(*response, context),
            (Stage::Registering | Stage::Running | Stage::Finished, Some(_)) => {}
        }
        Next::GoOn
    }

    fn allocated(&mut self, response: AllocateResponseProto, context: &mut Context) {
        self.unanswered = None;
        self.response_id = response.response_id();
        for token in response.nm_tokens {
            let node = token.node_id.and_then(|id| (&id).try_into().ok());
            if let (Some(node), Some(token)) = (node, token.token) {
                self.nm_tokens
                    .insert(scenario::index_of(&node), token.into());
            }
        }
        for container in response.allocated_containers {
            let id = container.id.and_then(|id| ContainerId::try_from(&id).ok());
            let node = container.node_id.and_then(|id| (&id).try_into().ok());
            let priority = container.priority.map_or(0, |priority| priority.priority());
            let class = self.classes.iter();
            let class = class.map(|progress| progress.class.priority);
            let class = class.into_iter().position(|of| of == priority);
            let (Some(id), Some(node), Some(class), Some(token)) =
                (id, node, class, container.container_token)
            else {
                continue;
            };
            let node = scenario::index_of(&node);
            context.observe(Observation::Allocated { id, node });
            let outstanding = &mut self.classes[class].outstanding;
            let is_needed = *outstanding > 0;
            *outstanding = outstanding.saturating_sub(1);
            let state = if is_needed {
                State::Granted(0)
            } else {
                self.releases.push(id);
                State::Ending
            };
            let execution_type = self.classes[class].class.execution_type;
            let held = Held {
                node,
                class,
                token,
                version: container.version.unwrap_or(0),
                execution_type,
                state,
                is_needed,
            };
            self.held.insert(id, held);
        }
        for updated in response.updated_containers {
            self.updated(updated.container, context);
        }
        for status in response.completed_container_statuses {
            let id = status.container_id.as_ref();
            if let Some(Ok(id)) = id.map(ContainerId::try_from) {
                self.completed(id, status.exit_status(), context);
            }
        }
        self.start_granted(context);
    }

    fn completed(&mut self, id: ContainerId, status: i32, context: &mut Context) {
        let attempt = self.attempt;
        context.observe(Observation::Completed {
            attempt,
            id,
            status,
        });
        self.releases.retain(|released| *released != id);
        if let Some(held) = self.held.remove(&id)
            && held.is_needed
            && status != 0
        {
            self.ask_again(held.class);
        }
    }

    /// Gives a container back, which ends it, and asks for another.
    fn release(&mut self, id: ContainerId) {
        let Some(held) = self.held.get_mut(&id) else {
            return;
        };
        held.state = State::Ending;
        let (class, is_needed) = (held.class, std::mem::take(&mut held.is_needed));
        self.releases.push(id);
        if is_needed {
            self.ask_again(class);
        }
    }

    fn ask_again(&mut self, class: usize) {
        let progress = &mut self.classes[class];
        progress.failures += 1;
        if progress.failures <= FAILURES_MAX {
            progress.outstanding += 1;
            progress.is_unsent = true;
        }
    }
}
