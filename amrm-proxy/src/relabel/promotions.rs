//! Promotes relabelled containers of a certain age: requests the promotions, and withholds the
//! answers from the AM, which did not ask. Pure.
//!
//! ```text
//!  Due(at) ──at──▶ Asking ──the call is answered──▶ Asked ──granted──▶ Settled: node is updated
//!     ▲              │                                │
//!     └──────────────┴── the ResourceManager has forgotten it, or the version differs
//! ```
//!
//! The ResourceManager grants a promotion once the container's node has capacity for it, and sends
//! the new token to the AM, which is expected to pass it to the node. An AM that did not request
//! the promotion does not, so the proxy does ([`crate::node_updates`]).

use std::collections::{BTreeMap, BTreeSet};

use records::{ContainerId, MonoMillis, NodeId};
use refusals::Findings;
use wire::proto::hadoop_common::TokenProto;
use wire::proto::hadoop_yarn::{
    ContainerUpdateTypeProto, ExecutionTypeProto, UpdateContainerErrorProto,
    UpdateContainerRequestProto, UpdatedContainerProto,
};

/// Maximum of tracked containers per attempt; further ones are not promoted.
const WATCHED_MAX: usize = 100_000;

/// Maximum of promotions requested in one call, at some 60 bytes each. The rest follow with later
/// calls.
const PER_CALL_MAX: usize = 1_000;

/// Reason in an update error: the container has changed since the version in the request.
const OTHER_VERSION: &str = "INCORRECT_CONTAINER_VERSION_ERROR";

/// Reason in an update error: the ResourceManager has the request already.
const OUTSTANDING: &str = "UPDATE_OUTSTANDING_ERROR";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Not requested; due at this time.
    Due(MonoMillis),
    /// Contained in a request that has not been answered.
    Asking,
    /// Received by the ResourceManager.
    Asked,
    /// Granted, or refused for good. Kept because a repeated call of the AM gets the answer again.
    Settled,
}

/// A container that may be promoted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Watched {
    /// Version of the container at the ResourceManager.
    version: i32,
    stage: Stage,
}

/// A promoted container's new token, and the node that needs it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Granted {
    pub(super) id: ContainerId,
    pub(super) node: NodeId,
    pub(super) token: TokenProto,
}

/// Recipient of an update answer.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Answer {
    /// The AM, which made the request.
    ForAm,
    /// This node, without further effect.
    Withheld,
    /// This node, which has to send the token to the container's node.
    Granted(Granted),
}

/// Table of the containers to promote, with the state of each request.
#[derive(Debug, Default)]
pub(super) struct Promotions {
    watched: BTreeMap<ContainerId, Watched>,
    due: BTreeSet<(MonoMillis, ContainerId)>,
    asking: Vec<ContainerId>,
}

impl Promotions {
    /// Tracks a new container, which is due for promotion at `promote_at`.
    pub(super) fn watch(&mut self, id: ContainerId, version: i32, promote_at: MonoMillis) {
        if self.watched.len() < WATCHED_MAX && !self.watched.contains_key(&id) {
            let stage = Stage::Due(promote_at);
            self.watched.insert(id, Watched { version, stage });
            self.due.insert((promote_at, id));
        }
    }

    /// Stops tracking a container that has completed or that the AM updates itself. Returns the
    /// container's version if a promotion has changed it.
    pub(super) fn forget(&mut self, id: ContainerId) -> Option<i32> {
        let Watched { version, stage } = self.watched.remove(&id)?;
        match stage {
            Stage::Due(at) => {
                self.due.remove(&(at, id));
                None
            }
            Stage::Asking => {
                self.asking.retain(|asking| *asking != id);
                None
            }
            Stage::Asked => None,
            Stage::Settled => Some(version),
        }
    }

    /// Returns the requests for the AM's next call.
    pub(super) fn next_requests(&mut self, now: MonoMillis) -> Vec<UpdateContainerRequestProto> {
        while self.asking.len() < PER_CALL_MAX
            && let Some((at, id)) = self.due.first().copied()
            && at <= now
        {
            self.due.remove(&(at, id));
            self.set(id, Stage::Asking);
            self.asking.push(id);
        }
        self.requests_in_flight()
    }

    /// Returns the requests of a call that may have arrived although no answer did, for its
    /// repetition.
    pub(super) fn requests_in_flight(&self) -> Vec<UpdateContainerRequestProto> {
        let requests = self.asking.iter().filter_map(|id| {
            let watched = self.watched.get(id)?;
            Some(UpdateContainerRequestProto {
                container_version: watched.version,
                container_id: (*id).into(),
                update_type: ContainerUpdateTypeProto::PromoteExecutionType.into(),
                capability: None,
                execution_type: Some(ExecutionTypeProto::Guaranteed.into()),
            })
        });
        requests.collect()
    }

    /// Marks the requests of an answered call as received.
    pub(super) fn mark_asked(&mut self) {
        for id in std::mem::take(&mut self.asking) {
            self.set(id, Stage::Asked);
        }
    }

    /// Reschedules all requests. Called when the AM registers with a ResourceManager that knows
    /// none of them.
    pub(super) fn reset_requests(&mut self, now: MonoMillis) {
        self.asking.clear();
        let asked = self.watched.iter();
        let asked =
            asked.filter(|(_, watched)| matches!(watched.stage, Stage::Asking | Stage::Asked));
        let asked: Vec<_> = asked.map(|(id, _)| *id).collect();
        for id in asked {
            self.put_back(id, now);
        }
    }

    fn put_back(&mut self, id: ContainerId, now: MonoMillis) {
        self.set(id, Stage::Due(now));
        self.due.insert((now, id));
    }

    fn set(&mut self, id: ContainerId, stage: Stage) {
        if let Some(watched) = self.watched.get_mut(&id) {
            watched.stage = stage;
        }
    }

    /// Handles a granted update. What is missing in one goes to `incomplete`.
    pub(super) fn granted(
        &mut self,
        updated: &UpdatedContainerProto,
        incomplete: &mut Findings,
    ) -> Answer {
        let container = &updated.container;
        let id = container.id.as_ref();
        let Some(id) = id.and_then(|id| ContainerId::try_from(id).ok()) else {
            return Answer::ForAm;
        };
        let is_promotion = updated.update_type() == ContainerUpdateTypeProto::PromoteExecutionType;
        let Some(watched) = self.watched.get_mut(&id).filter(|_| is_promotion) else {
            return Answer::ForAm;
        };
        match watched.stage {
            Stage::Due(_) => return Answer::ForAm,
            Stage::Settled if container.version() <= watched.version => return Answer::Withheld,
            Stage::Asking | Stage::Asked | Stage::Settled => {}
        }
        *watched = Watched {
            version: container.version(),
            stage: Stage::Settled,
        };
        let node = container.node_id.as_ref();
        let node = node.and_then(|node| NodeId::try_from(node).ok());
        match (node, container.container_token.clone()) {
            (Some(node), Some(token)) => Answer::Granted(Granted { id, node, token }),
            (Some(_) | None, _) => {
                incomplete.add(id);
                Answer::Withheld
            }
        }
    }

    /// Handles an update error. Returns whether it belongs to a request of this node. The reason of
    /// a final one goes to `refusals`.
    pub(super) fn refused(
        &mut self,
        error: &UpdateContainerErrorProto,
        now: MonoMillis,
        refusals: &mut Findings,
    ) -> bool {
        let Some(request) = &error.update_request else {
            return false;
        };
        let id = ContainerId::try_from(&request.container_id).ok();
        let is_promotion = request.update_type() == ContainerUpdateTypeProto::PromoteExecutionType;
        let Some(id) = id.filter(|_| is_promotion) else {
            return false;
        };
        let Some(watched) = self.watched.get_mut(&id) else {
            return false;
        };
        let current = error.current_container_version();
        match (watched.stage, error.reason()) {
            (Stage::Due(_), _) => return false,
            // An error for a request under way repeats the answer to an earlier one.
            (Stage::Asking | Stage::Settled, _) | (Stage::Asked, OUTSTANDING) => {}
            (Stage::Asked, OTHER_VERSION) if current > watched.version => {
                watched.version = current;
                self.put_back(id, now);
            }
            (Stage::Asked, reason) => {
                refusals.add(format_args!("{id}: {reason}"));
                self.set(id, Stage::Settled);
            }
        }
        true
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.watched.is_empty() && self.due.is_empty() && self.asking.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::ATTEMPT;

    const T0: MonoMillis = MonoMillis(0);

    fn id(number: usize) -> ContainerId {
        ATTEMPT.container(i64::try_from(number).unwrap())
    }

    /// Returns containers that are due for promotion.
    fn watching(count: usize) -> Promotions {
        let mut promotions = Promotions::default();
        for number in 0..count {
            promotions.watch(id(number), 0, T0);
        }
        promotions
    }

    #[test]
    fn a_container_that_is_forgotten_leaves_nothing_in_any_stage() {
        let mut promotions = watching(3);
        promotions.forget(id(0));
        assert_eq!(promotions.next_requests(T0).len(), 2);
        promotions.forget(id(1));
        assert_eq!(promotions.requests_in_flight().len(), 1);
        promotions.mark_asked();
        promotions.forget(id(2));
        assert!(promotions.is_empty());
    }

    #[test]
    fn a_container_that_is_forgotten_before_its_request_leaves_nothing() {
        let mut promotions = watching(1);
        promotions.forget(id(0));
        assert!(promotions.is_empty(), "{promotions:?}");
        // Due again, at a ResourceManager that does not know the first request.
        let mut promotions = watching(1);
        assert_eq!(promotions.next_requests(T0).len(), 1);
        promotions.mark_asked();
        promotions.reset_requests(T0);
        promotions.forget(id(0));
        assert!(promotions.is_empty(), "{promotions:?}");
    }

    #[test]
    fn requests_whose_call_is_not_repeated_are_made_again() {
        let mut promotions = watching(2);
        let first = promotions.next_requests(T0);
        assert_eq!(promotions.next_requests(T0), first);
        // None of them is known to a new ResourceManager, answered or not.
        promotions.reset_requests(T0 + 1);
        assert!(promotions.next_requests(T0).is_empty());
        assert_eq!(promotions.next_requests(T0 + 1), first);
        promotions.mark_asked();
        assert!(promotions.next_requests(T0 + 1).is_empty());
        promotions.reset_requests(T0 + 1);
        assert_eq!(promotions.next_requests(T0 + 1), first);
    }

    #[test]
    fn containers_and_requests_are_bounded() {
        let mut promotions = watching(WATCHED_MAX + 1);
        assert_eq!(promotions.watched.len(), WATCHED_MAX);
        assert_eq!(promotions.next_requests(T0).len(), PER_CALL_MAX);
    }

    #[test]
    fn a_container_is_promoted_from_the_time_at_which_it_was_first_watched() {
        let mut promotions = watching(1);
        promotions.watch(id(0), 0, T0 + 1_000);
        assert_eq!(promotions.next_requests(T0).len(), 1);
        assert!(promotions.due.is_empty());
    }
}
