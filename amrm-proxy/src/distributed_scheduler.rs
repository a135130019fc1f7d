//! Opportunistic asks are answered on this node.
//!
//! ```text
//!  on the way out                                       on the way back
//!  opportunistic asks leave the request;                the containers join the AM's answer, with NMTokens for nodes
//!  sched's allocator gives out containers,              that are new to the AM; the list of nodes takes the place
//!  which go along to the ResourceManager                of the last
//! ```
//!
//! Who gets what where is [`sched`]'s decision; here is what belongs to calls. The ResourceManager must know of a container
//! before its node reports it, so the containers go with the call that brings them about, and the AM has them in its answer.
//! A call that fails takes its containers along the next time, with the same ids. A call that the AM repeats because the
//! answer did not reach it gets the same containers again. In both cases the AM still counts them as asked for, which is
//! allowed for when it states its counts.
//!
//! Releases, updates, blacklist and the ends of containers are the ResourceManager's business; here ends are counted only.
//!
//! Source: `org.apache.hadoop.yarn.server.nodemanager.scheduler.DistributedScheduler`.

mod asks;
mod containers;
mod grants;
mod kept;
mod nm_tokens;
mod rejoin;

use std::collections::BTreeSet;
use std::time::Duration;

use bytes::Bytes;
use prost::Message as _;
use records::{ApplicationAttemptId, ContainerId, MonoMillis, Now};
use sched::{
    DistributedAllocation, DistributedAllocatorConfig, DistributedAllocatorState,
    DistributedOpportunisticContainerAllocator,
};
use wire::exception::RemoteException;
use wire::proto::hadoop_yarn::{
    ContainerStatusProto, RegisterDistributedSchedulingAmResponseProto, RemoteNodeProto,
    ResourceBlacklistRequestProto,
};
use wire::raw_message::RawMessage;

use self::asks::{BadAsk, BadBlacklist, Unheard};
pub use self::containers::NodeTokenKeys;
use self::containers::{ContainerWriter, Terms};
use self::grants::{read_grant, read_node};
use self::kept::IdFloor;
use self::nm_tokens::NmTokens;
use self::rejoin::SigningKeys;
use crate::fields::{allocate_request, allocate_response, distributed_allocate_response};
use crate::interceptor::{
    Action, AmMethod, Context, Gauges, Interceptor, Outcome, Pass, Request, Response,
};
use crate::observe::Observation;
use crate::store::Part;

/// Containers whose end is waited for, for metrics. As many as an attempt may have at the small ResourceManager.
const LIVE_MAX: usize = 100_000;

/// How long changes of what is outstanding may go unwritten, in milliseconds for each [`WRITE_LINES`] lines that there are:
/// all of them are written, which takes some milliseconds for so many.
const WRITE_INTERVAL_MS: u64 = 1_000;

/// See [`WRITE_INTERVAL_MS`]. More than all but the largest jobs have.
const WRITE_LINES: usize = 10_000;

/// What the answer to a call brought the AM, in case it calls again because it did not get it.
#[derive(Debug)]
struct Round {
    request_id: i32,
    given: Vec<DistributedAllocation>,
    /// The same containers as messages.
    containers: Vec<Bytes>,
    nm_tokens: Vec<Vec<u8>>,
}

/// What the call under way is.
#[derive(Debug)]
enum Underway {
    /// The AM's next call. With it go, as messages, the containers that the allocator has unconfirmed, or none.
    Next {
        request_id: i32,
        containers: Vec<Bytes>,
    },
    /// The call of the last round again.
    Repeat,
}

/// Whether a table has to be written down.
#[derive(Clone, Copy, Debug, Default)]
struct Dirty {
    asks: bool,
    blacklist: bool,
    written_at: MonoMillis,
}

/// See the module.
#[derive(Debug)]
pub struct DistributedScheduler {
    config: DistributedAllocatorConfig,
    allocator: DistributedOpportunisticContainerAllocator,
    underway: Option<Underway>,
    /// The call that went out last, while no answer to it has come.
    unanswered: Option<i32>,
    last: Option<Round>,
    nm_tokens: NmTokens,
    signing: SigningKeys,
    live: BTreeSet<i64>,
    id_floor: IdFloor,
    dirty: Dirty,
    restoring: DistributedAllocatorState,
}

impl DistributedScheduler {
    /// For an attempt whose AM has not registered.
    #[must_use]
    pub fn new(attempt: ApplicationAttemptId, config: DistributedAllocatorConfig) -> Self {
        Self {
            config,
            allocator: DistributedOpportunisticContainerAllocator::new(attempt, config),
            underway: None,
            unanswered: None,
            last: None,
            nm_tokens: NmTokens::default(),
            signing: SigningKeys::default(),
            live: BTreeSet::new(),
            id_floor: IdFloor::default(),
            dirty: Dirty::default(),
            restoring: DistributedAllocatorState::default(),
        }
    }

    fn is_repeat(&self, request_id: i32) -> bool {
        self.last
            .as_ref()
            .is_some_and(|last| last.request_id == request_id)
    }

    /// Takes the AM's word of what it wants. Without a grant nothing can be given out here, and the ResourceManager gets the
    /// asks: its own allocator answers them.
    fn take_asks(
        &mut self,
        request: &mut Request,
        is_repeat: bool,
        now: MonoMillis,
    ) -> Result<(), BadAsk> {
        let Some(limits) = self.allocator.grant().map(|grant| grant.limits) else {
            return Ok(());
        };
        let mut wanted = asks::take(&mut request.message, &limits)?;
        if wanted.is_empty() {
            return Ok(());
        }
        let repeated = self.last.iter().filter(|_| is_repeat);
        let repeated = repeated.flat_map(|last| &last.given);
        Unheard::of(repeated.chain(self.allocator.unconfirmed())).lower(&mut wanted);
        self.allocator.update_asks(&wanted, now)?;
        self.dirty.asks = true;
        Ok(())
    }

    /// Takes in a blacklist that was found to be good.
    fn take_blacklist(&mut self, list: &ResourceBlacklistRequestProto) -> Result<(), BadBlacklist> {
        self.allocator
            .update_blacklist(&list.blacklist_additions, &list.blacklist_removals)?;
        self.dirty.blacklist = true;
        Ok(())
    }

    /// Looks at the blacklist, which goes on to the ResourceManager as well. One that it refuses is left to it.
    fn check_blacklist(
        &self,
        message: &RawMessage,
    ) -> Result<Option<ResourceBlacklistRequestProto>, BadBlacklist> {
        let list = message.message(allocate_request::BLACKLIST);
        let list = list.and_then(|list| ResourceBlacklistRequestProto::decode(list).ok());
        let Some(list) =
            list.filter(|list| !list.blacklist_additions.iter().any(|host| host == "*"))
        else {
            return Ok(None);
        };
        self.allocator
            .check_blacklist(&list.blacklist_additions, &list.blacklist_removals)?;
        Ok(Some(list))
    }

    /// Gives out containers and sends them along.
    fn allocate(
        &mut self,
        request_id: i32,
        request: &mut Request,
        context: &Context<'_>,
        actions: &mut Vec<Action>,
    ) -> Vec<Bytes> {
        let token_life_ms = self.allocator.grant().map(|grant| grant.token_life_ms);
        let is_sent_again = self.unanswered == Some(request_id);
        if is_sent_again && self.allocator.unconfirmed().is_empty() {
            // The ResourceManager may have carried the call out, and then looks at nothing that is new in it.
            return Vec::new();
        }
        // A node that is not registered cannot sign, and one that is registered with another ResourceManager than gave the
        // grant must not.
        let keys = self.signing.usable(context.keys, context.now.mono);
        let (Some(keys), Some(token_life_ms)) = (keys, token_life_ms) else {
            return Vec::new();
        };
        let given = self.allocator.allocate(context.now.mono);
        let Some(lowest) = given
            .iter()
            .map(|given| given.container.container_id.id)
            .min()
        else {
            return Vec::new();
        };
        let mut writer = ContainerWriter::new(
            keys,
            Terms {
                user: context.user,
                now: context.now.wall,
                token_life_ms,
            },
        );
        let containers: Vec<Bytes> = given.iter().map(|given| writer.encode(given)).collect();
        if let Some(record) = self.id_floor.used(lowest) {
            actions.push(Action::Persist(Part::NextId, Some(record)));
        }
        self.dirty.asks = true;
        request.allocated.extend(containers.iter().cloned());
        containers
    }

    /// The ResourceManager has registered the attempt and says what it may have.
    fn granted(&mut self, scheduling: &RawMessage, now: MonoMillis, actions: &mut Vec<Action>) {
        let answer = RegisterDistributedSchedulingAmResponseProto::decode(scheduling.encode());
        let Some((grant, nodes)) = answer.ok().and_then(read_grant) else {
            tracing::warn!("the ResourceManager grants no opportunistic containers to this node");
            return;
        };
        let is_new = self
            .allocator
            .grant()
            .is_none_or(|known| known.container_id_start != grant.container_id_start);
        // The range goes first: with it alone ids of a range before are none of its own, and none are given out.
        actions.push(Action::Persist(Part::Limits, Some(kept::limits(&grant))));
        self.allocator.registered(grant, nodes, now);
        if is_new {
            let record = self.id_floor.begin(self.allocator.lowest_container_id());
            actions.push(Action::Persist(Part::NextId, Some(record)));
        }
    }

    fn answered(
        &mut self,
        underway: Underway,
        response: &mut Response,
        context: &Context<'_>,
        actions: &mut Vec<Action>,
    ) {
        self.signing.answered(context.keys);
        self.nm_tokens.note(&response.message);
        self.note_ends(&response.message, actions);
        let nodes = response
            .scheduling
            .all(distributed_allocate_response::NODES)
            .filter_map(|node| RemoteNodeProto::decode(node).ok())
            .filter_map(read_node)
            .collect();
        match underway {
            Underway::Next {
                request_id,
                containers,
            } => {
                self.unanswered = None;
                let given = if containers.is_empty() && !self.allocator.unconfirmed().is_empty() {
                    // They could not go along with this call.
                    Vec::new()
                } else {
                    self.allocator.confirmed(nodes, context.now.mono)
                };
                self.last = Some(Round {
                    request_id,
                    nm_tokens: self.note_given(&given, context, actions),
                    given,
                    containers,
                });
            }
            Underway::Repeat if self.allocator.unconfirmed().is_empty() => {
                self.allocator.confirmed(nodes, context.now.mono);
            }
            Underway::Repeat => {}
        }
        if let Some(Round {
            containers,
            nm_tokens,
            ..
        }) = &self.last
        {
            let message = &mut response.message;
            message.extend(allocate_response::ALLOCATED_CONTAINERS, containers);
            message.extend(allocate_response::NM_TOKENS, nm_tokens);
        }
    }

    /// Counts containers that the AM gets now, and answers with the NMTokens that it lacks for them.
    fn note_given(
        &mut self,
        given: &[DistributedAllocation],
        context: &Context<'_>,
        actions: &mut Vec<Action>,
    ) -> Vec<Vec<u8>> {
        actions.reserve(given.len());
        for DistributedAllocation { container, .. } in given {
            if self.live.len() < LIVE_MAX {
                self.live.insert(container.container_id.id);
            }
            let latency_ms = context.now.mono.since(container.asked_at);
            actions.push(Action::Observe(Observation::Allocated {
                locality: container.locality,
                latency: Duration::from_millis(latency_ms),
            }));
        }
        let nodes = given.iter().map(|given| &given.container.node_id);
        self.nm_tokens.missing(&nodes.collect(), context)
    }

    fn note_ends(&mut self, message: &RawMessage, actions: &mut Vec<Action>) {
        if self.live.is_empty() {
            return;
        }
        for status in message.all(allocate_response::COMPLETED_CONTAINERS) {
            let id = ContainerStatusProto::decode(status)
                .ok()
                .and_then(|status| status.container_id);
            let id = id.and_then(|id| ContainerId::try_from(&id).ok());
            if id.is_some_and(|id| self.live.remove(&id.id)) {
                actions.push(Action::Observe(Observation::AllocatedCompleted));
            }
        }
    }

    /// Writes down what has changed. Only after an answer: until then a call's containers are neither asked for nor
    /// given, and after a crash the AM states the asks of that call again.
    fn write_down(&mut self, now: MonoMillis, actions: &mut Vec<Action>) {
        let is_dirty = self.dirty.asks || self.dirty.blacklist;
        let size = u64::try_from(1 + self.allocator.asks().lines() / WRITE_LINES);
        let interval_ms = WRITE_INTERVAL_MS.saturating_mul(size.unwrap_or(u64::MAX));
        if !is_dirty || now.since(self.dirty.written_at) < interval_ms {
            return;
        }
        let state = self.allocator.state();
        if self.dirty.asks {
            actions.push(Action::Persist(Part::Asks, kept::asks(&state)));
        }
        if self.dirty.blacklist {
            actions.push(Action::Persist(Part::Blacklist, kept::blacklist(&state)));
        }
        self.dirty = Dirty {
            written_at: now,
            ..Dirty::default()
        };
    }
}

impl Interceptor for DistributedScheduler {
    fn on_request(
        &mut self,
        request: &mut Request,
        context: &Context<'_>,
        actions: &mut Vec<Action>,
    ) -> Result<Pass, RemoteException> {
        // What a call that was given up was about is in the allocator.
        self.underway = None;
        if request.method == AmMethod::Allocate {
            let request_id = request
                .message
                .int32(allocate_request::RESPONSE_ID)
                .unwrap_or(0);
            let is_repeat = self.is_repeat(request_id);
            // Of a call that is refused nothing is in force.
            let blacklist = self.check_blacklist(&request.message)?;
            self.take_asks(request, is_repeat, context.now.mono)?;
            if let Some(list) = blacklist {
                self.take_blacklist(&list)?;
            }
            self.underway = Some(if is_repeat {
                Underway::Repeat
            } else {
                let containers = self.allocate(request_id, request, context, actions);
                self.unanswered = Some(request_id);
                Underway::Next {
                    request_id,
                    containers,
                }
            });
        }
        Ok(Pass::default())
    }

    fn on_response(
        &mut self,
        method: AmMethod,
        outcome: &mut Outcome,
        context: &Context<'_>,
        actions: &mut Vec<Action>,
    ) {
        let underway = self.underway.take();
        let Ok(response) = outcome else {
            return;
        };
        match (method, underway) {
            (AmMethod::Register, _) => {
                self.registered(context);
                self.granted(&response.scheduling, context.now.mono, actions);
            }
            (AmMethod::Allocate, Some(underway)) => {
                self.answered(underway, response, context, actions);
                self.write_down(context.now.mono, actions);
            }
            (AmMethod::Allocate, None) | (AmMethod::Finish, _) => {}
        }
    }

    fn on_rejoin(
        &mut self,
        grant: Option<&Response>,
        request: &mut Request,
        context: &Context<'_>,
        actions: &mut Vec<Action>,
    ) {
        self.rejoined(request, context);
        if let Some(grant) = grant {
            self.granted(&grant.scheduling, context.now.mono, actions);
        }
    }

    fn restore(&mut self, attempt: ApplicationAttemptId, part: Part, value: &[u8], now: Now) {
        if !kept::add(&mut self.restoring, part, value) {
            tracing::warn!(%attempt, ?part, "what was kept of opportunistic asks cannot be read");
            return;
        }
        let state = self.restoring.clone();
        let restored = DistributedOpportunisticContainerAllocator::restore(
            attempt,
            self.config,
            state,
            now.mono,
        );
        match restored {
            Ok(allocator) => self.allocator = allocator,
            Err(error) => {
                tracing::warn!(%attempt, %error, "what was kept of opportunistic asks cannot be used");
            }
        }
    }

    fn gauges(&self) -> Gauges {
        Gauges {
            containers_outstanding: self.allocator.asks().containers(),
            nodes_at: self.allocator.nodes_received(),
            containers_live: u64::try_from(self.live.len()).unwrap_or(u64::MAX),
        }
    }
}

#[cfg(test)]
mod tests;
