//! Makes asks of AMs opportunistic by an operator's rule, for AMs that do not use execution types.
//!
//! An AM such as Spark's asks for guaranteed containers because it knows no other type. A rule
//! selects applications (by user and tag) and asks (by priority), and states which percentage of
//! their containers becomes opportunistic (`shares`). Three kinds of asks stay unchanged: an ask
//! that enforces its execution type; an ask under a key for which the AM also requests
//! opportunistic containers, since that AM uses types deliberately; and an ask for more than memory
//! and virtual cores, which no opportunistic container has.
//!
//! The proxy shields such an AM from effects that it cannot handle:
//!
//! - Containers as old as the rule says are promoted (`promotions`): this node requests the
//!   promotion, withholds the answer from the AM and sends the new token to the container's node.
//!   This works whether or not the ResourceManager notifies nodes itself
//!   (`yarn.resourcemanager.auto-update.containers`).
//! - An evicted or shed container completes with exit status -102 (preempted) instead of -108.
//!   Spark, MapReduce and others do not count the former as a failure, but do count the latter.
//!
//! The ResourceManager answers a repeated `allocate` as before and ignores any new content. So
//! nothing new is added to one, and its answer is treated like the first.

mod lines;
pub(crate) mod performer;
mod promotions;
mod shares;

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;

use prost::Message as _;
use records::{ContainerExitStatus, ContainerId, MonoMillis, NodeId};
use refusals::Findings;
use wire::exception::RemoteException;
use wire::proto::hadoop_yarn::{
    ContainerProto, ContainerStatusProto, UpdateContainerErrorProto, UpdateContainerRequestProto,
    UpdatedContainerProto,
};
use wire::raw_message::RawMessage;

use self::lines::{Level, Line, Share, SharedLine};
use self::promotions::{Answer, Granted, Promotions};
use self::shares::{AskKey, Shares, Verdict, apportion};
use crate::call::{AmMethod, Outcome, Request, Response};
use crate::calls::Calls;
use crate::config::RelabelRule;
use crate::fields::{
    allocate_request, allocate_response, container_status, update_container_request,
};
use crate::interceptor::{Action, Actions, Context, Interceptor, Pass};
use crate::node_updates::NodeUpdate;
use crate::observe::Observation;
use crate::rules::applies;

/// Maximum of containers per attempt that are known to be relabelled. Further ones keep their exit
/// status.
const RELABELLED_MAX: usize = 100_000;

/// Effect of the rules on other nodes.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Send newer container tokens to a node. The AM does not know about them and will not.
    UpdateContainers(NodeUpdate),
    /// Stop sending tokens of these containers, which have ended.
    WithdrawUpdates(Vec<ContainerId>),
}

/// Interceptor that applies the operator's rules to one attempt.
#[derive(Debug)]
pub struct Relabel {
    /// Rules that apply to this attempt, in the operator's order.
    rules: Vec<RelabelRule>,
    shares: Shares,
    promotions: Promotions,
    /// Containers that are opportunistic because of a rule and have not completed.
    relabelled: BTreeSet<ContainerId>,
    /// Relabelled containers that completed with the last answer, which may have to be repeated.
    ended: Vec<ContainerId>,
    calls: Calls,
}

impl Relabel {
    /// Makes the interceptor of an attempt, or `None` if no rule applies to it.
    #[must_use]
    pub fn new(rules: &[RelabelRule], user: &str, tags: &[String]) -> Option<Self> {
        let applies =
            |rule: &&RelabelRule| applies(rule.user.as_deref(), rule.tag.as_deref(), user, tags);
        let rules: Vec<_> = rules.iter().filter(applies).cloned().collect();
        (!rules.is_empty()).then(|| Self {
            rules,
            shares: Shares::default(),
            promotions: Promotions::default(),
            relabelled: BTreeSet::new(),
            ended: Vec::new(),
            calls: Calls::default(),
        })
    }

    fn rule_for(&self, priority: i32) -> Option<&RelabelRule> {
        self.rules
            .iter()
            .find(|rule| (rule.priority_min..=rule.priority_max).contains(&priority))
    }

    /// Edits the lines of a request. Returns the number of containers that became opportunistic.
    fn relabel(&mut self, message: &mut RawMessage) -> u64 {
        let lines: Vec<_> = message
            .all(allocate_request::ASK)
            .map(|line| lines::read(line, |priority| self.rule_for(priority).is_some()))
            .collect();
        let mut asks: BTreeMap<AskKey, Vec<usize>> = BTreeMap::new();
        for (place, line) in lines.iter().enumerate() {
            match line {
                Line::Ignored => {}
                Line::OpportunisticByAm(key) => self.shares.leave_to_am(*key),
                Line::Shared(line) => asks.entry(line.key).or_default().push(place),
            }
        }
        let mut shares = vec![None; lines.len()];
        let mut relabelled = 0;
        for (key, places) in asks {
            let of_ask = places.iter().filter_map(|place| match &lines[*place] {
                Line::Shared(line) => Some((*place, line)),
                Line::Ignored | Line::OpportunisticByAm(_) => None,
            });
            relabelled += self.share_out(key, &of_ask.collect::<Vec<_>>(), &mut shares);
        }
        lines::edit(message, &shares);
        relabelled
    }

    /// Splits the lines of one ask. Returns the number of containers that become opportunistic.
    fn share_out(
        &mut self,
        key: AskKey,
        lines: &[(usize, &SharedLine)],
        shares: &mut [Option<Share>],
    ) -> u64 {
        let Some(percent) = self.rule_for(key.priority).map(|rule| rule.percent) else {
            return 0;
        };
        // If two lines name the same location, the last counts, as at the ResourceManager.
        let total = lines
            .iter()
            .rev()
            .find(|(_, line)| line.level == Level::Any);
        let total = total.map(|(_, line)| line.count);
        let is_strict = lines.iter().any(|(_, line)| !line.relax_locality);
        let part = match self.shares.decide(key, percent, total, is_strict) {
            Verdict::Untouched => return 0,
            Verdict::Whole => {
                for (place, line) in lines {
                    shares[*place] = Some(Share::whole(line.count));
                }
                return u64::from(total.unwrap_or_default());
            }
            Verdict::Shared(part) => part,
        };
        for level in [Level::Any, Level::Rack, Level::Host] {
            let alike: Vec<_> = lines
                .iter()
                .filter(|(_, line)| line.level == level)
                .collect();
            let counts: Vec<u32> = alike.iter().map(|(_, line)| line.count).collect();
            let parts = match level {
                Level::Any => vec![part.opportunistic; counts.len()],
                Level::Rack | Level::Host => apportion(&counts, part),
            };
            for ((place, line), opportunistic) in alike.into_iter().zip(parts) {
                shares[*place] = Some(Share::part(opportunistic, line.count));
            }
        }
        total.map_or(0, |_| u64::from(part.opportunistic))
    }

    /// Adds the requests for promotions that are due. Returns the number of new ones.
    fn ask_promotions(
        &mut self,
        message: &mut RawMessage,
        is_retry: bool,
        now: MonoMillis,
    ) -> usize {
        if self.calls.is_repeat {
            return 0;
        }
        let requests = if is_retry {
            self.promotions.requests_in_flight()
        } else {
            self.promotions.next_requests(now)
        };
        let encoded = requests.iter().map(prost::Message::encode_to_vec);
        message.extend(allocate_request::UPDATE_REQUESTS, encoded);
        if is_retry { 0 } else { requests.len() }
    }

    /// Stops tracking containers that the AM updates itself. If the proxy changed such a container
    /// before, the AM's request gets the container version that the ResourceManager expects.
    fn leave_updates_to_am(&mut self, message: &mut RawMessage) {
        message.edit(allocate_request::UPDATE_REQUESTS, |request| {
            let read = UpdateContainerRequestProto::decode(request.clone()).ok()?;
            let id = ContainerId::try_from(&read.container_id).ok()?;
            let version = self.promotions.forget(id)?;
            let mut raw = RawMessage::parse(request.clone()).ok()?;
            let version = i64::from(version.max(read.container_version));
            raw.set_varint(
                update_container_request::CONTAINER_VERSION,
                version.cast_unsigned(),
            );
            Some(raw.encode())
        });
    }

    /// Tracks the containers of an answer.
    fn watch(&mut self, message: &RawMessage, now: MonoMillis) {
        for container in message.all(allocate_response::ALLOCATED_CONTAINERS) {
            let Ok(container) = ContainerProto::decode(container) else {
                continue;
            };
            let id = container.id.as_ref();
            let id = id.and_then(|id| ContainerId::try_from(id).ok());
            let is_relabelled = self.shares.count_arrival(&container);
            let Some(id) = id.filter(|_| is_relabelled) else {
                continue;
            };
            if self.relabelled.len() < RELABELLED_MAX {
                self.relabelled.insert(id);
            }
            let priority = container.priority.as_ref();
            let rule = self.rule_for(priority.map_or(0, |priority| priority.priority()));
            if let Some(after) = rule.and_then(|rule| rule.promote_after_ms) {
                self.promotions.watch(id, container.version(), now + after);
            }
        }
    }

    /// Tracks completed containers, and changes the exit status of those that were relabelled and
    /// evicted to preempted. Returns those whose promotion was granted.
    fn note_ends(&mut self, message: &mut RawMessage) -> Vec<ContainerId> {
        let mut promoted = Vec::new();
        message.edit(allocate_response::COMPLETED_CONTAINERS, |status| {
            let read = ContainerStatusProto::decode(status.clone()).ok()?;
            let id = ContainerId::try_from(read.container_id.as_ref()?).ok()?;
            if self.promotions.forget(id).is_some() {
                promoted.push(id);
            }
            if !self.relabelled.contains(&id) {
                return None;
            }
            if !self.calls.is_repeat {
                self.ended.push(id);
            }
            if ContainerExitStatus(read.exit_status())
                != ContainerExitStatus::KILLED_BY_CONTAINER_SCHEDULER
            {
                return None;
            }
            let mut raw = RawMessage::parse(status.clone()).ok()?;
            let preempted = i64::from(ContainerExitStatus::PREEMPTED.0);
            raw.set_varint(container_status::EXIT_STATUS, preempted.cast_unsigned());
            Some(raw.encode())
        });
        promoted
    }

    /// Removes answers to requests that the AM did not make. Returns the updates for nodes. However
    /// many are refused or incomplete, an answer has one log line for each of both.
    fn withhold_answers(&mut self, message: &mut RawMessage, now: MonoMillis) -> Vec<NodeUpdate> {
        let mut granted: BTreeMap<NodeId, NodeUpdate> = BTreeMap::new();
        let (mut incomplete, mut refused) = (Findings::default(), Findings::default());
        message.retain(allocate_response::UPDATED_CONTAINERS, |updated| {
            let Ok(updated) = UpdatedContainerProto::decode(updated.clone()) else {
                return true;
            };
            match self.promotions.granted(&updated, &mut incomplete) {
                Answer::ForAm => true,
                Answer::Withheld => false,
                Answer::Granted(Granted { id, node, token }) => {
                    let update = granted.entry(node.clone());
                    update
                        .or_insert_with(|| NodeUpdate::of(node))
                        .containers
                        .push((id, token));
                    false
                }
            }
        });
        message.retain(allocate_response::UPDATE_ERRORS, |error| {
            let error = UpdateContainerErrorProto::decode(error.clone());
            !error.is_ok_and(|error| self.promotions.refused(&error, now, &mut refused))
        });
        if !incomplete.is_empty() {
            let count = incomplete.count();
            tracing::warn!(count, containers = %incomplete, "granted promotions have no node or no token");
        }
        if !refused.is_empty() {
            tracing::info!(count = refused.count(), %refused, "promotions are refused");
        }
        granted.into_values().collect()
    }

    /// Handles the answer to an `allocate`.
    fn answered(&mut self, message: &mut RawMessage, now: MonoMillis, effects: &mut Vec<Effect>) {
        if !self.calls.is_repeat {
            self.promotions.mark_asked();
            for id in self.ended.drain(..) {
                self.relabelled.remove(&id);
            }
            self.watch(message, now);
        }
        let ended = self.note_ends(message);
        if !ended.is_empty() {
            effects.push(Effect::WithdrawUpdates(ended));
        }
        let granted = self.withhold_answers(message, now);
        effects.extend(granted.into_iter().map(Effect::UpdateContainers));
        self.calls.complete();
    }
}

impl Interceptor for Relabel {
    type Effect = Effect;
    type Event = Infallible;

    fn on_request(
        &mut self,
        request: &mut Request,
        context: &Context<'_>,
        actions: &mut Actions<'_, Effect>,
    ) -> Result<Pass, RemoteException> {
        match request.method {
            AmMethod::Register => {
                self.calls = Calls::default();
                self.promotions.reset_requests(context.now.mono);
            }
            AmMethod::Allocate => {
                let message = &mut request.message;
                let id = message.int32(allocate_request::RESPONSE_ID).unwrap_or(0);
                let is_retry = self.calls.begin(id);
                let containers = self.relabel(message);
                if containers > 0 {
                    actions
                        .chain
                        .push(Action::Observe(Observation::Relabelled { containers }));
                }
                self.leave_updates_to_am(message);
                for _ in 0..self.ask_promotions(message, is_retry, context.now.mono) {
                    actions
                        .chain
                        .push(Action::Observe(Observation::PromotionAsked));
                }
            }
            AmMethod::Finish => {}
        }
        Ok(Pass::default())
    }

    /// Continues with the same requests: the registration restates them with everything
    /// outstanding.
    fn on_reregistered(
        &mut self,
        _grant: Option<&Response>,
        _request: &mut Request,
        _context: &Context<'_>,
        _actions: &mut Actions<'_, Effect>,
    ) {
        // For this ResourceManager the call is new, and so is its answer.
        self.calls.is_repeat = false;
    }

    fn on_response(
        &mut self,
        method: AmMethod,
        outcome: &mut Outcome,
        context: &Context<'_>,
        actions: &mut Actions<'_, Effect>,
    ) {
        if let (AmMethod::Allocate, Ok(response)) = (method, outcome) {
            self.answered(&mut response.message, context.now.mono, actions.own);
        }
    }
}

#[cfg(test)]
mod tests;
