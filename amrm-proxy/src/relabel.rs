//! Asks of AMs that know nothing of execution types become opportunistic by an operator's rule.
//!
//! An AM such as Spark's asks for guaranteed containers because nobody told it of others. A rule says of which
//! applications (user, tag) and which asks (priority) how many of a hundred containers are to be opportunistic instead
//! (`shares`). Left as they are: an ask that names a type and enforces it, or that the AM also has opportunistic ones of, since
//! its AM knows what it wants; and one for more than memory and virtual cores, which no opportunistic container has.
//!
//! Such an AM is kept from what it does not know:
//!
//! - Containers that it has had for as long as the rule says are promoted (`promotions`): this node asks for it, keeps the
//!   answer to itself and brings the new token to the container's node. That works whether or not the ResourceManager tells the
//!   nodes itself (`yarn.resourcemanager.auto-update.containers`).
//! - One that was evicted or shed ends with exit status -102, preempted, in place of -108: Spark, MapReduce and others know that
//!   the former is nobody's fault, and count the latter as a failure.
//!
//! An `allocate` that the AM repeats is answered by the ResourceManager as before, without a look at what is new in it. So nothing
//! new is put into it, and its answer is treated like the first.

mod lines;
mod promotions;
mod shares;

use std::collections::{BTreeMap, BTreeSet};

use prost::Message as _;
use records::{ContainerExitStatus, ContainerId, MonoMillis, NodeId};
use wire::exception::RemoteException;
use wire::proto::hadoop_yarn::{
    ContainerProto, ContainerStatusProto, UpdateContainerErrorProto, UpdateContainerRequestProto,
    UpdatedContainerProto,
};
use wire::raw_message::RawMessage;

use self::lines::{Level, Line, Share, SharedLine};
use self::promotions::{Answer, Granted, Promotions};
use self::shares::{AskKey, Shares, Verdict, apportion};
use crate::config::RelabelRule;
use crate::fields::{
    allocate_request, allocate_response, container_status, update_container_request,
};
use crate::interceptor::{
    Action, AmMethod, Context, Interceptor, Outcome, Pass, Request, Response,
};
use crate::node_updates::NodeUpdate;
use crate::observe::Observation;

/// Containers of one attempt that are known to be opportunistic because of a rule. Beyond, an AM sees what it sees.
const RELABELLED_MAX: usize = 100_000;

/// See the module.
#[derive(Debug)]
pub struct Relabel {
    /// Those that apply to this attempt, in the operator's order.
    rules: Vec<RelabelRule>,
    shares: Shares,
    promotions: Promotions,
    /// Containers that are opportunistic because of a rule, until their end is told.
    relabelled: BTreeSet<ContainerId>,
    /// Those whose end was told with the last answer, which may have to be told again.
    ended: Vec<ContainerId>,
    calls: Calls,
}

/// Where the AM is in its calls, by their response ids.
#[derive(Clone, Copy, Debug, Default)]
struct Calls {
    answered: Option<i32>,
    unanswered: Option<i32>,
    is_repeat: bool,
}

impl Calls {
    /// An `allocate` goes out. Whether the ResourceManager may have seen it.
    fn begins(&mut self, id: i32) -> bool {
        self.is_repeat = self.answered == Some(id);
        let is_retry = self.unanswered == Some(id);
        self.unanswered = Some(id);
        is_retry
    }

    fn ends(&mut self) {
        self.answered = self.unanswered.take();
    }
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

    /// Changes the lines of the request; how many containers became opportunistic.
    fn relabel(&mut self, message: &mut RawMessage) -> u64 {
        let lines: Vec<_> = message
            .all(allocate_request::ASK)
            .map(|line| lines::read(line, |priority| self.rule_for(priority).is_some()))
            .collect();
        let mut asks: BTreeMap<AskKey, Vec<usize>> = BTreeMap::new();
        for (place, line) in lines.iter().enumerate() {
            match line {
                Line::NotOurs => {}
                Line::TheMasters(key) => self.shares.leave_to_master(*key),
                Line::Shared(line) => asks.entry(line.key).or_default().push(place),
            }
        }
        let mut shares = vec![None; lines.len()];
        let mut relabelled = 0;
        for (key, places) in asks {
            let of_ask = places.iter().filter_map(|place| match &lines[*place] {
                Line::Shared(line) => Some((*place, line)),
                Line::NotOurs | Line::TheMasters(_) => None,
            });
            relabelled += self.share_out(key, &of_ask.collect::<Vec<_>>(), &mut shares);
        }
        lines::edit(message, &shares);
        relabelled
    }

    /// Decides about the lines of one ask; how many containers become opportunistic.
    fn share_out(
        &mut self,
        key: AskKey,
        lines: &[(usize, &SharedLine)],
        shares: &mut [Option<Share>],
    ) -> u64 {
        let Some(percent) = self.rule_for(key.priority).map(|rule| rule.percent) else {
            return 0;
        };
        // Of two lines for the same place the last counts, as at the ResourceManager.
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

    /// Asks for the promotions that are due; how many it asks for now.
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
            self.promotions.asking()
        } else {
            self.promotions.ask(now)
        };
        let encoded = requests.iter().map(prost::Message::encode_to_vec);
        message.extend(allocate_request::UPDATE_REQUESTS, encoded);
        if is_retry { 0 } else { requests.len() }
    }

    /// What the AM changes itself is its own business from then on. If there was a change that it does not know of, its request
    /// is brought to the version that the ResourceManager knows.
    fn leave_updates_to_master(&mut self, message: &mut RawMessage) {
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

    /// Notes containers that came.
    fn watch(&mut self, message: &RawMessage, now: MonoMillis) {
        for container in message.all(allocate_response::ALLOCATED_CONTAINERS) {
            let Ok(container) = ContainerProto::decode(container) else {
                continue;
            };
            let id = container.id.as_ref();
            let id = id.and_then(|id| ContainerId::try_from(id).ok());
            let is_relabelled = self.shares.came(&container);
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

    /// Notes containers that ended, and says of those of a rule that they were preempted if they had to make way.
    fn note_ends(&mut self, message: &mut RawMessage) {
        message.edit(allocate_response::COMPLETED_CONTAINERS, |status| {
            let read = ContainerStatusProto::decode(status.clone()).ok()?;
            let id = ContainerId::try_from(read.container_id.as_ref()?).ok()?;
            let _no_version = self.promotions.forget(id);
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
    }

    /// Keeps the answers to requests that the AM did not make; what nodes have to be told.
    fn keep_answers(&mut self, message: &mut RawMessage, now: MonoMillis) -> Vec<NodeUpdate> {
        let mut granted: BTreeMap<NodeId, NodeUpdate> = BTreeMap::new();
        message.retain(allocate_response::UPDATED_CONTAINERS, |updated| {
            let Ok(updated) = UpdatedContainerProto::decode(updated.clone()) else {
                return true;
            };
            match self.promotions.granted(&updated) {
                Answer::Masters => true,
                Answer::Kept => false,
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
            !error.is_ok_and(|error| self.promotions.refused(&error, now))
        });
        granted.into_values().collect()
    }

    /// An `allocate` was answered.
    fn answered(&mut self, message: &mut RawMessage, now: MonoMillis) -> Vec<NodeUpdate> {
        if !self.calls.is_repeat {
            self.promotions.arrived();
            for id in self.ended.drain(..) {
                self.relabelled.remove(&id);
            }
            self.watch(message, now);
        }
        self.note_ends(message);
        let granted = self.keep_answers(message, now);
        self.calls.ends();
        granted
    }
}

impl Interceptor for Relabel {
    fn on_request(
        &mut self,
        request: &mut Request,
        context: &Context<'_>,
        actions: &mut Vec<Action>,
    ) -> Result<Pass, RemoteException> {
        match request.method {
            AmMethod::Register => {
                self.calls = Calls::default();
                self.promotions.registers(context.now.mono);
            }
            AmMethod::Allocate => {
                let message = &mut request.message;
                let id = message.int32(allocate_request::RESPONSE_ID).unwrap_or(0);
                let is_retry = self.calls.begins(id);
                let containers = self.relabel(message);
                if containers > 0 {
                    actions.push(Action::Observe(Observation::Relabelled { containers }));
                }
                self.leave_updates_to_master(message);
                for _ in 0..self.ask_promotions(message, is_retry, context.now.mono) {
                    actions.push(Action::Observe(Observation::PromotionAsked));
                }
            }
            AmMethod::Finish => {}
        }
        Ok(Pass::default())
    }

    /// What it asks for on its own is stated again with all else that is outstanding.
    fn on_rejoin(
        &mut self,
        _grant: Option<&Response>,
        _request: &mut Request,
        _context: &Context<'_>,
        _actions: &mut Vec<Action>,
    ) {
        // To this ResourceManager the call is new, and so is its answer.
        self.calls.is_repeat = false;
    }

    fn on_response(
        &mut self,
        method: AmMethod,
        outcome: &mut Outcome,
        context: &Context<'_>,
        actions: &mut Vec<Action>,
    ) {
        if let (AmMethod::Allocate, Ok(response)) = (method, outcome) {
            let granted = self.answered(&mut response.message, context.now.mono);
            actions.extend(granted.into_iter().map(Action::UpdateContainers));
        }
    }
}

#[cfg(test)]
mod tests;
