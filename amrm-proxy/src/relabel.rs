//! Asks of AMs that know nothing of execution types become opportunistic by an operator's rule.
//!
//! An AM such as Spark's asks for guaranteed containers because nobody told it of others. A rule says of which
//! applications (user, tag) and which asks (priority) how many of a hundred containers are to be opportunistic instead. An
//! ask that names a type and enforces it is left as it is: its AM knows what it wants. Containers that have run for as long
//! as the rule says are promoted: this node asks for it and keeps the answer to itself, since the AM did not ask. The
//! ResourceManager must then tell the nodes itself (`yarn.resourcemanager.auto-update.containers`).
//!
//! Counts are absolute, so each time the AM states one it is shared out anew, in both parts: what became of its earlier
//! statement is overwritten.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use prost::Message as _;
use records::{ContainerId, MonoMillis};
use wire::exception::RemoteException;
use wire::proto::hadoop_yarn::{
    ContainerProto, ContainerStatusProto, ContainerUpdateTypeProto, ExecutionTypeProto,
    ResourceRequestProto, UpdateContainerErrorProto, UpdateContainerRequestProto,
    UpdatedContainerProto,
};
use wire::raw_message::RawMessage;

use crate::config::RelabelRule;
use crate::fields::{
    allocate_request, allocate_response, execution_type_request, resource_request,
};
use crate::interceptor::{Action, AmMethod, Context, Interceptor, Outcome, Pass, Request};
use crate::observe::Observation;

/// Containers of one attempt that are watched for promotion; more than that stay what they are.
const WATCHED_MAX: usize = 100_000;

/// Promotions asked for in one call. Each is some 60 bytes; the rest follows with the next call.
const PROMOTIONS_PER_CALL_MAX: usize = 1_000;

/// A container that may be promoted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Watched {
    promote_at: MonoMillis,
    stage: Stage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Not asked for.
    Running,
    /// In a request whose answer has not come.
    Asking,
    /// The ResourceManager has the request.
    Asked,
}

/// See the module.
#[derive(Debug)]
pub struct Relabel {
    /// Those that apply to this attempt, in the operator's order.
    rules: Vec<RelabelRule>,
    watched: BTreeMap<ContainerId, Watched>,
}

impl Relabel {
    /// The interceptor of an attempt to which at least one rule applies.
    #[must_use]
    pub fn new(rules: &[RelabelRule], user: &str, tags: &[String]) -> Option<Self> {
        let applies = |rule: &&RelabelRule| {
            rule.user.as_ref().is_none_or(|wanted| wanted == user)
                && rule.tag.as_ref().is_none_or(|wanted| tags.contains(wanted))
        };
        let rules: Vec<_> = rules.iter().filter(applies).cloned().collect();
        (!rules.is_empty()).then_some(Self {
            rules,
            watched: BTreeMap::new(),
        })
    }

    fn rule_for(&self, priority: i32) -> Option<&RelabelRule> {
        self.rules
            .iter()
            .find(|rule| (rule.priority_min..=rule.priority_max).contains(&priority))
    }

    /// Changes the lines of the request; how many containers became opportunistic.
    fn relabel(&self, message: &mut RawMessage) -> u64 {
        let mut added = Vec::new();
        let mut relabelled = 0;
        message.edit(allocate_request::ASK, |ask| {
            let share = self.share(ask)?;
            let mut raw = RawMessage::parse(ask.clone()).ok()?;
            let opportunistic = opportunistic(&raw, share.opportunistic)?;
            if share.is_total {
                relabelled += u64::from(share.opportunistic);
            }
            if share.guaranteed == 0 && share.takes_all {
                return Some(opportunistic);
            }
            added.push(opportunistic);
            raw.set_varint(
                resource_request::NUM_CONTAINERS,
                u64::from(share.guaranteed),
            );
            Some(raw.encode())
        });
        message.extend(allocate_request::ASK, added);
        relabelled
    }

    /// How an ask is shared out; `None` when it is left as it is.
    fn share(&self, ask: &Bytes) -> Option<Share> {
        let ask = ResourceRequestProto::decode(ask.clone()).ok()?;
        let kind = ask.execution_type_request.unwrap_or_default();
        if kind.execution_type() != ExecutionTypeProto::Guaranteed || kind.enforce_execution_type()
        {
            return None;
        }
        let priority = ask
            .priority
            .as_ref()
            .map_or(0, |priority| priority.priority());
        let rule = self.rule_for(priority)?;
        let count = u32::try_from(ask.num_containers()).ok()?;
        let percent = u64::from(rule.percent.min(100));
        let opportunistic = (u64::from(count) * percent + 50) / 100;
        let opportunistic = u32::try_from(opportunistic).unwrap_or(count).min(count);
        Some(Share {
            opportunistic,
            guaranteed: count - opportunistic,
            takes_all: percent == 100,
            is_total: ask.resource_name() == "*",
        })
    }

    /// Adds requests for the promotions that are due; how many.
    fn ask_promotions(&mut self, message: &mut RawMessage, now: MonoMillis) -> usize {
        let due = self
            .watched
            .iter_mut()
            .filter(|(_, watched)| watched.stage == Stage::Running && watched.promote_at <= now);
        let mut requests = Vec::new();
        for (id, watched) in due.take(PROMOTIONS_PER_CALL_MAX) {
            watched.stage = Stage::Asking;
            let request = UpdateContainerRequestProto {
                container_version: 0,
                container_id: (*id).into(),
                update_type: ContainerUpdateTypeProto::PromoteExecutionType.into(),
                capability: None,
                execution_type: Some(ExecutionTypeProto::Guaranteed.into()),
            };
            requests.push(request.encode_to_vec());
        }
        let count = requests.len();
        message.extend(allocate_request::UPDATE_REQUESTS, requests);
        count
    }

    /// What was asked in a call that failed, or was given up, has to be asked again.
    fn settle(&mut self, arrived: bool) {
        for watched in self.watched.values_mut() {
            if watched.stage == Stage::Asking {
                watched.stage = if arrived {
                    Stage::Asked
                } else {
                    Stage::Running
                };
            }
        }
    }

    /// Watches containers that came and forgets those that ended.
    fn watch(&mut self, message: &RawMessage, now: MonoMillis) {
        for container in message.all(allocate_response::ALLOCATED_CONTAINERS) {
            let Ok(container) = ContainerProto::decode(container) else {
                continue;
            };
            let priority = container.priority.as_ref();
            let rule = self.rule_for(priority.map_or(0, |priority| priority.priority()));
            let after = rule.and_then(|rule| rule.promote_after_ms);
            let id = container
                .id
                .as_ref()
                .and_then(|id| ContainerId::try_from(id).ok());
            if let (Some(after), Some(id)) = (after, id)
                && container.execution_type() == ExecutionTypeProto::Opportunistic
                && self.watched.len() < WATCHED_MAX
            {
                let watched = Watched {
                    promote_at: now + after,
                    stage: Stage::Running,
                };
                self.watched.entry(id).or_insert(watched);
            }
        }
        for status in message.all(allocate_response::COMPLETED_CONTAINERS) {
            let id = ContainerStatusProto::decode(status)
                .ok()
                .and_then(|status| status.container_id);
            if let Some(id) = id.and_then(|id| ContainerId::try_from(&id).ok()) {
                self.watched.remove(&id);
            }
        }
    }

    /// Keeps the answers to requests that the AM did not make.
    fn keep_answers(&mut self, message: &mut RawMessage) {
        let asked: BTreeSet<ContainerId> = self
            .watched
            .iter()
            .filter(|(_, watched)| watched.stage == Stage::Asked)
            .map(|(id, _)| *id)
            .collect();
        if asked.is_empty() {
            return;
        }
        let mut answered = Vec::new();
        let mut is_ours = |id: Option<ContainerId>| {
            let ours = id.filter(|id| asked.contains(id));
            answered.extend(ours);
            ours.is_some()
        };
        message.retain(allocate_response::UPDATED_CONTAINERS, |updated| {
            let updated = UpdatedContainerProto::decode(updated.clone()).ok();
            let id = updated.and_then(|updated| updated.container.id);
            !is_ours(id.and_then(|id| ContainerId::try_from(&id).ok()))
        });
        message.retain(allocate_response::UPDATE_ERRORS, |error| {
            let error = UpdateContainerErrorProto::decode(error.clone()).ok();
            let request = error.and_then(|error| error.update_request);
            !is_ours(request.and_then(|request| ContainerId::try_from(&request.container_id).ok()))
        });
        for id in answered {
            self.watched.remove(&id);
        }
    }
}

/// One line of an ask, shared out.
struct Share {
    opportunistic: u32,
    guaranteed: u32,
    /// There is no guaranteed part at all, so no line is needed for it.
    takes_all: bool,
    /// The line is that for anywhere, which has the total.
    is_total: bool,
}

/// The same line for opportunistic containers, so many.
fn opportunistic(ask: &RawMessage, count: u32) -> Option<Bytes> {
    let mut ask = ask.clone();
    ask.set_varint(resource_request::NUM_CONTAINERS, u64::from(count));
    let kind = ask
        .message(resource_request::EXECUTION_TYPE_REQUEST)
        .unwrap_or_default();
    let mut kind = RawMessage::parse(kind).ok()?;
    let number = i32::from(ExecutionTypeProto::Opportunistic);
    kind.set_varint(
        execution_type_request::EXECUTION_TYPE,
        u64::try_from(number).ok()?,
    );
    ask.set(resource_request::EXECUTION_TYPE_REQUEST, &kind.encode());
    Some(ask.encode())
}

impl Interceptor for Relabel {
    fn on_request(
        &mut self,
        request: &mut Request,
        context: &Context<'_>,
        actions: &mut Vec<Action>,
    ) -> Result<Pass, RemoteException> {
        if request.method == AmMethod::Allocate {
            self.settle(false);
            let containers = self.relabel(&mut request.message);
            if containers > 0 {
                actions.push(Action::Observe(Observation::Relabelled { containers }));
            }
            for _ in 0..self.ask_promotions(&mut request.message, context.now.mono) {
                actions.push(Action::Observe(Observation::PromotionAsked));
            }
        }
        Ok(Pass::default())
    }

    fn on_response(
        &mut self,
        method: AmMethod,
        outcome: &mut Outcome,
        context: &Context<'_>,
        _actions: &mut Vec<Action>,
    ) {
        if method != AmMethod::Allocate {
            return;
        }
        self.settle(outcome.is_ok());
        if let Ok(response) = outcome {
            self.watch(&response.message, context.now.mono);
            self.keep_answers(&mut response.message);
        }
    }
}

#[cfg(test)]
mod tests;
