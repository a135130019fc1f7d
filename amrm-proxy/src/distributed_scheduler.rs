//! Answers opportunistic asks on this node.
//!
//! ```text
//!  on the way out                             on the way back
//!  opportunistic asks leave the request;      the containers join the AM's answer, with
//!  sched's allocator allocates containers,    NMTokens for nodes that are new to the AM;
//!  which are added to the request             the answer's list of nodes replaces the last
//! ```
//!
//! Allocation decisions are [`sched`]'s; this module maps them onto calls. The ResourceManager must
//! know of a container before its node reports it, so new containers travel with the call that
//! causes them, and the AM gets them in that call's answer. After a failed call the same
//! containers, with the same ids, travel with the next call. A call that the AM repeats because the
//! answer was lost gets the same containers again. In both cases the AM still counts them as
//! wanted; its stated counts are lowered accordingly.
//!
//! Releases, updates, blacklist and completions go to the ResourceManager. The allocator notes
//! completions, and nodes that the ResourceManager reports as lost.
//!
//! Source: `org.apache.hadoop.yarn.server.nodemanager.scheduler.DistributedScheduler`.

mod asks;
mod containers;
pub(crate) mod gauges;
mod grants;
mod looking;
mod nm_tokens;
mod persisted;
mod reregistration;
mod sending;
mod short_lists;

use std::collections::BTreeSet;
use std::time::Duration;

use bytes::Bytes;
use prost::Message as _;
use records::{ApplicationAttemptId, ContainerExitStatus, ContainerId, MonoMillis, Now};
use sched::{
    DistributedAllocation, DistributedAllocatorConfig, DistributedAllocatorState,
    DistributedOpportunisticContainerAllocator,
};
use wire::exception::RemoteException;
use wire::proto::hadoop_yarn::{
    ContainerStatusProto, RegisterDistributedSchedulingAmResponseProto,
    ResourceBlacklistRequestProto,
};
use wire::raw_message::RawMessage;

use self::asks::{BadAsk, BadBlacklist, Undelivered};
pub use self::gauges::Gauges;
use self::grants::{read_gone_nodes, read_grant};
use self::looking::Looking;
pub use self::looking::{Effect, News};
use self::nm_tokens::NmTokens;
use self::persisted::{ASKS, BLACKLIST, IdFloor, LIMITS, NEXT_ID};
use self::reregistration::SigningKeys;
use self::short_lists::ShortLists;
use crate::call::{AmMethod, Outcome, Request, Response};
use crate::fields::{allocate_request, allocate_response};
use crate::interceptor::{Action, Actions, Context, Interceptor, Pass};
use crate::observe::Observation;
use crate::store::Part;

/// Maximum of containers whose completion is awaited, for metrics. Equals the number that an
/// attempt may have at the small ResourceManager.
const LIVE_MAX: usize = 100_000;

/// Interval between writes of the outstanding asks, in milliseconds per [`WRITE_LINES`] lines. Each
/// write contains all lines and takes some milliseconds per so many.
const WRITE_INTERVAL_MS: u64 = 1_000;

/// Number of lines per [`WRITE_INTERVAL_MS`]. All but the largest jobs have fewer.
const WRITE_LINES: usize = 10_000;

/// Containers and tokens of the last answer, kept in case the AM did not receive it and repeats the
/// call.
#[derive(Debug)]
struct LastAnswer {
    request_id: i32,
    given: Vec<DistributedAllocation>,
    /// Encoded `ContainerProto` of each container in `given`.
    containers: Vec<Bytes>,
    nm_tokens: Vec<Vec<u8>>,
}

/// Kind of the call in progress.
#[derive(Debug)]
enum CallInProgress {
    /// The AM's next call. `containers` are the encoded containers that travel with it: all that
    /// the allocator has unconfirmed, or none.
    Next {
        request_id: i32,
        containers: Vec<Bytes>,
    },
    /// A repetition of the last answered call.
    Repeat,
}

/// Tables that changed since they were last stored.
#[derive(Clone, Copy, Debug, Default)]
struct Unsaved {
    asks: bool,
    blacklist: bool,
    written_at: MonoMillis,
}

/// Interceptor that allocates opportunistic containers for one attempt.
#[derive(Debug)]
pub struct DistributedScheduler {
    config: DistributedAllocatorConfig,
    allocator: DistributedOpportunisticContainerAllocator,
    in_progress: Option<CallInProgress>,
    /// Response id of the last call sent, while no answer to it has arrived.
    unanswered: Option<i32>,
    last: Option<LastAnswer>,
    nm_tokens: NmTokens,
    short_lists: ShortLists,
    looking: Looking,
    signing: SigningKeys,
    live: BTreeSet<i64>,
    id_floor: IdFloor,
    unsaved: Unsaved,
    restoring: DistributedAllocatorState,
}

impl DistributedScheduler {
    /// Makes the scheduler of an attempt whose AM has not registered.
    #[must_use]
    pub fn new(attempt: ApplicationAttemptId, config: DistributedAllocatorConfig) -> Self {
        Self {
            config,
            allocator: DistributedOpportunisticContainerAllocator::new(attempt, config),
            in_progress: None,
            unanswered: None,
            last: None,
            nm_tokens: NmTokens::default(),
            short_lists: ShortLists::new(config.placement),
            looking: Looking::new(config.placement),
            signing: SigningKeys::default(),
            live: BTreeSet::new(),
            id_floor: IdFloor::default(),
            unsaved: Unsaved::default(),
            restoring: DistributedAllocatorState::default(),
        }
    }

    fn gauges(&self) -> Gauges {
        Gauges {
            containers_outstanding: self.allocator.asks().containers(),
            nodes_at: self.allocator.nodes_received(),
            containers_live: u64::try_from(self.live.len()).unwrap_or(u64::MAX),
        }
    }

    fn is_repeat(&self, request_id: i32) -> bool {
        self.last
            .as_ref()
            .is_some_and(|last| last.request_id == request_id)
    }

    /// Adds the AM's opportunistic asks to the allocator. Without a grant nothing can be allocated
    /// here, so the asks stay in the request for the ResourceManager's own allocator.
    fn take_asks(
        &mut self,
        request: &mut Request,
        is_repeat: bool,
        now: MonoMillis,
    ) -> Result<(), BadAsk> {
        if self.allocator.grant().is_none() {
            return Ok(());
        }
        let mut wanted = asks::take(&mut request.message)?;
        if wanted.is_empty() {
            return Ok(());
        }
        let repeated = self.last.iter().filter(|_| is_repeat);
        let repeated = repeated.flat_map(|last| &last.given);
        Undelivered::of(repeated.chain(self.allocator.unconfirmed())).lower(&mut wanted);
        self.allocator.update_asks(&wanted, now)?;
        self.unsaved.asks = true;
        Ok(())
    }

    /// Applies a blacklist that [`check_blacklist`](Self::check_blacklist) has accepted.
    fn take_blacklist(&mut self, list: &ResourceBlacklistRequestProto) -> Result<(), BadBlacklist> {
        self.allocator
            .update_blacklist(&list.blacklist_additions, &list.blacklist_removals)?;
        self.unsaved.blacklist = true;
        Ok(())
    }

    /// Checks the blacklist of a request, which is forwarded to the ResourceManager as well.
    /// Returns `None` for a list that the ResourceManager will refuse.
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

    /// Applies the grant in the ResourceManager's answer to a registration.
    fn granted(&mut self, response: &Response, now: MonoMillis, actions: &mut Actions<'_, Effect>) {
        let answer = response.scheduling.encode();
        let answer = RegisterDistributedSchedulingAmResponseProto::decode(answer);
        let Some(grant) = answer.ok().as_ref().and_then(read_grant) else {
            tracing::warn!("the ResourceManager grants this node no opportunistic containers");
            return;
        };
        let is_new = self
            .allocator
            .grant()
            .is_none_or(|known| known.container_id_start != grant.container_id_start);
        // The range is stored first: with the new range alone, the stored floor lies outside of
        // it, and nothing is allocated.
        let limits = Action::Persist(LIMITS, Some(persisted::limits(&grant)));
        actions.chain.push(limits);
        let epoch = Some(grant.container_id_start);
        self.looking.note_resource_manager(epoch, actions.own);
        self.looking.note_list(&response.nodes, actions.own);
        self.allocator
            .registered(grant, response.nodes.clone(), now);
        if is_new {
            let record = self
                .id_floor
                .new_range(self.allocator.lowest_container_id());
            let record = Action::Persist(NEXT_ID, Some(record));
            actions.chain.push(record);
        }
    }

    fn answered(
        &mut self,
        in_progress: CallInProgress,
        response: &mut Response,
        context: &Context<'_>,
        Actions { chain, own }: &mut Actions<'_, Effect>,
    ) {
        self.signing.note_answer(context.keys);
        self.nm_tokens.note(&response.message);
        self.note_ends(&response.message, context.now.mono, chain);
        let nodes = response.nodes.clone();
        let cluster = response.message.int32(allocate_response::NUM_CLUSTER_NODES);
        self.looking.note_cluster(cluster);
        self.looking.note_list(&nodes, own);
        self.short_lists.note(nodes.nodes().len(), cluster, chain);
        match in_progress {
            CallInProgress::Next {
                request_id,
                containers,
            } => {
                self.unanswered = None;
                let given = if containers.is_empty() && !self.allocator.unconfirmed().is_empty() {
                    // The containers could not travel with this call.
                    Vec::new()
                } else {
                    self.allocator.confirmed(nodes, context.now.mono)
                };
                self.last = Some(LastAnswer {
                    request_id,
                    nm_tokens: self.note_given(&given, context, chain),
                    given,
                    containers,
                });
            }
            CallInProgress::Repeat if self.allocator.unconfirmed().is_empty() => {
                self.allocator.confirmed(nodes, context.now.mono);
            }
            CallInProgress::Repeat => {}
        }
        let gone = read_gone_nodes(&response.message);
        self.allocator.remove_nodes(&gone);
        self.looking.note_gone(gone, own);
        if let Some(LastAnswer {
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

    /// Counts the containers that the AM receives now. Returns the NMTokens that the AM lacks for
    /// them, encoded.
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
                id: container.container_id,
                locality: container.locality,
                latency: Duration::from_millis(latency_ms),
            }));
        }
        let nodes = given.iter().map(|given| &given.container.node_id);
        self.nm_tokens.missing(&nodes.collect(), context)
    }

    fn note_ends(&mut self, message: &RawMessage, now: MonoMillis, actions: &mut Vec<Action>) {
        if self.live.is_empty() {
            return;
        }
        for status in message.all(allocate_response::COMPLETED_CONTAINERS) {
            let Ok(status) = ContainerStatusProto::decode(status) else {
                continue;
            };
            let id = status.container_id.as_ref();
            let Some(id) = id.and_then(|id| ContainerId::try_from(id).ok()) else {
                continue;
            };
            if self.live.remove(&id.id) {
                let exit_status = ContainerExitStatus(status.exit_status());
                self.allocator.container_ended(id, exit_status, now);
                actions.push(Action::Observe(Observation::AllocatedCompleted));
            }
        }
    }

    /// Stores changed tables. Called only after an answer: before it, a call's containers count as
    /// neither requested nor allocated, and after a crash the AM states that call's asks again.
    fn persist_changes(&mut self, now: MonoMillis, actions: &mut Vec<Action>) {
        let is_unsaved = self.unsaved.asks || self.unsaved.blacklist;
        let size = u64::try_from(1 + self.allocator.asks().lines() / WRITE_LINES);
        let interval_ms = WRITE_INTERVAL_MS.saturating_mul(size.unwrap_or(u64::MAX));
        if !is_unsaved || now.since(self.unsaved.written_at) < interval_ms {
            return;
        }
        let state = self.allocator.state();
        if self.unsaved.asks {
            actions.push(Action::Persist(ASKS, persisted::asks(&state)));
        }
        if self.unsaved.blacklist {
            actions.push(Action::Persist(BLACKLIST, persisted::blacklist(&state)));
        }
        self.unsaved = Unsaved {
            written_at: now,
            ..Unsaved::default()
        };
    }
}

impl Interceptor for DistributedScheduler {
    type Effect = Effect;
    type Event = News;

    const PARTS: &'static [Part] = &[LIMITS, NEXT_ID, ASKS, BLACKLIST];

    fn on_request(
        &mut self,
        request: &mut Request,
        context: &Context<'_>,
        actions: &mut Actions<'_, Effect>,
    ) -> Result<Pass, RemoteException> {
        // The containers of an abandoned call are still in the allocator.
        self.in_progress = None;
        self.looking.abandon();
        if request.method == AmMethod::Allocate {
            let request_id = request
                .message
                .int32(allocate_request::RESPONSE_ID)
                .unwrap_or(0);
            let is_repeat = self.is_repeat(request_id);
            // A refused call must change nothing, so everything is checked first.
            let blacklist = self.check_blacklist(&request.message)?;
            self.take_asks(request, is_repeat, context.now.mono)?;
            if let Some(list) = blacklist {
                self.take_blacklist(&list)?;
            }
            self.in_progress = Some(if is_repeat {
                CallInProgress::Repeat
            } else {
                let containers = self.allocate(request_id, request, context, actions);
                self.unanswered = Some(request_id);
                CallInProgress::Next {
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
        actions: &mut Actions<'_, Effect>,
    ) {
        let in_progress = self.in_progress.take();
        match (method, in_progress, outcome) {
            (AmMethod::Register, _, Ok(response)) => {
                self.on_registered(context);
                self.granted(response, context.now.mono, actions);
            }
            (AmMethod::Allocate, Some(in_progress), Ok(response)) => {
                self.answered(in_progress, response, context, actions);
                self.persist_changes(context.now.mono, actions.chain);
            }
            (AmMethod::Allocate, None, _) | (AmMethod::Finish, ..) | (_, _, Err(_)) => {}
        }
        actions.own.push(Effect::Publish(self.gauges()));
    }

    fn on_reregistered(
        &mut self,
        grant: Option<&Response>,
        request: &mut Request,
        context: &Context<'_>,
        actions: &mut Actions<'_, Effect>,
    ) {
        self.on_new_rm(request, context);
        match grant {
            Some(grant) => self.granted(grant, context.now.mono, actions),
            None => self.looking.note_resource_manager(None, actions.own),
        }
    }

    fn on_event(
        &mut self,
        event: News,
        _context: &Context<'_>,
        _actions: &mut Actions<'_, Effect>,
    ) {
        if let News::Placement(placement) = event {
            self.config.placement = placement;
            self.allocator.set_placement(placement);
            self.looking.set_placement(placement);
            self.short_lists.set_placement(placement);
        }
        self.looking.note_news(event);
    }

    fn on_answer(
        &mut self,
        answer: News,
        request: &mut Request,
        context: &Context<'_>,
        actions: &mut Actions<'_, Effect>,
    ) {
        match answer {
            News::Looked(looks) => self.place_by_looks(looks, request, context, actions),
            News::Bound(bound) => self.place_bound(bound, request, context, actions),
            News::Nodes(_) | News::Others(_) | News::Placement(_) => {
                self.looking.note_news(answer);
            }
        }
    }

    fn restore(
        &mut self,
        attempt: ApplicationAttemptId,
        part: Part,
        value: &[u8],
        now: Now,
        own: &mut Vec<Effect>,
    ) {
        if !persisted::restore_part(&mut self.restoring, part, value) {
            tracing::warn!(%attempt, part = part.key(), "a stored record of opportunistic asks cannot be read");
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
                tracing::warn!(%attempt, %error, "the stored records of opportunistic asks cannot be used");
            }
        }
        own.push(Effect::Publish(self.gauges()));
    }
}

#[cfg(test)]
mod tests;
