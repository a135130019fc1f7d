//! Containers that are opportunistic because of a rule and have been for long: their promotion is asked for, and its answer
//! kept from the AM, which did not ask. Pure.
//!
//! ```text
//!  Due(at) ──at──▶ Asking ──the call is answered──▶ Asked ──granted──▶ Settled: its node is told
//!     ▲              │                                │
//!     └──────────────┴── the ResourceManager has forgotten, or knows another version
//! ```
//!
//! The ResourceManager grants a promotion once the container's node has room for it, and tells the AM, who would take the new
//! token to the node. An AM that knows nothing of that does not, so the proxy does ([`crate::node_updates`]).

use std::collections::{BTreeMap, BTreeSet};

use records::{ContainerId, MonoMillis, NodeId};
use wire::proto::hadoop_common::TokenProto;
use wire::proto::hadoop_yarn::{
    ContainerUpdateTypeProto, ExecutionTypeProto, UpdateContainerErrorProto,
    UpdateContainerRequestProto, UpdatedContainerProto,
};

/// Containers of one attempt that are watched; more than that stay what they are.
const WATCHED_MAX: usize = 100_000;

/// Promotions asked for in one call. Each is some 60 bytes; the rest follows with the next call.
const PER_CALL_MAX: usize = 1_000;

/// How the ResourceManager says that the container has changed since the version in the request.
const OTHER_VERSION: &str = "INCORRECT_CONTAINER_VERSION_ERROR";

/// How it says that it has the request already.
const OUTSTANDING: &str = "UPDATE_OUTSTANDING_ERROR";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Not asked for.
    Due(MonoMillis),
    /// In a request whose answer has not come.
    Asking,
    /// The ResourceManager has the request.
    Asked,
    /// Granted, or refused for good. Kept, since an AM that repeats its call is told again.
    Settled,
}

/// A container that may be promoted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Watched {
    /// Of the container, as the ResourceManager counts.
    version: i32,
    stage: Stage,
}

/// A container's new token and the node that has to see it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Granted {
    pub(super) id: ContainerId,
    pub(super) node: NodeId,
    pub(super) token: TokenProto,
}

/// Whose an answer is.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Answer {
    /// The AM's.
    Masters,
    /// This node's; there is nothing more to do.
    Kept,
    /// This node's, and the container's node has to be told.
    Granted(Granted),
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Promotions {
    watched: BTreeMap<ContainerId, Watched>,
    due: BTreeSet<(MonoMillis, ContainerId)>,
    asking: Vec<ContainerId>,
}

impl Promotions {
    /// A container came that is to be promoted from then on.
    pub(super) fn watch(&mut self, id: ContainerId, version: i32, promote_at: MonoMillis) {
        if self.watched.len() < WATCHED_MAX && !self.watched.contains_key(&id) {
            let stage = Stage::Due(promote_at);
            self.watched.insert(id, Watched { version, stage });
            self.due.insert((promote_at, id));
        }
    }

    /// It has ended, or the AM changes it itself. The version that the AM does not know of, if there is one.
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

    /// What is to be asked for in the AM's next call.
    pub(super) fn ask(&mut self, now: MonoMillis) -> Vec<UpdateContainerRequestProto> {
        self.ask_again(now);
        while self.asking.len() < PER_CALL_MAX
            && let Some((at, id)) = self.due.first().copied()
            && at <= now
        {
            self.due.remove(&(at, id));
            self.set(id, Stage::Asking);
            self.asking.push(id);
        }
        self.asking()
    }

    /// What a call asked for that may have arrived although no answer came: for the same call again.
    pub(super) fn asking(&self) -> Vec<UpdateContainerRequestProto> {
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

    /// What was asked for in a call that is not made again has to be asked for again.
    fn ask_again(&mut self, now: MonoMillis) {
        for id in std::mem::take(&mut self.asking) {
            self.put_back(id, now);
        }
    }

    /// The call that asked was answered.
    pub(super) fn arrived(&mut self) {
        for id in std::mem::take(&mut self.asking) {
            self.set(id, Stage::Asked);
        }
    }

    /// The AM registers with a ResourceManager that knows of no request.
    pub(super) fn registers(&mut self, now: MonoMillis) {
        self.ask_again(now);
        let asked = self.watched.iter();
        let asked = asked.filter(|(_, watched)| watched.stage == Stage::Asked);
        let asked: Vec<_> = asked.map(|(id, _)| *id).collect();
        for id in asked {
            self.put_back(id, now);
        }
    }

    fn put_back(&mut self, id: ContainerId, now: MonoMillis) {
        self.set(id, Stage::Due(now));
        if self.watched.contains_key(&id) {
            self.due.insert((now, id));
        }
    }

    fn set(&mut self, id: ContainerId, stage: Stage) {
        if let Some(watched) = self.watched.get_mut(&id) {
            watched.stage = stage;
        }
    }

    /// Reads a change that the ResourceManager has granted.
    pub(super) fn granted(&mut self, updated: &UpdatedContainerProto) -> Answer {
        let container = &updated.container;
        let id = container.id.as_ref();
        let Some(id) = id.and_then(|id| ContainerId::try_from(id).ok()) else {
            return Answer::Masters;
        };
        let is_promotion = updated.update_type() == ContainerUpdateTypeProto::PromoteExecutionType;
        let Some(watched) = self.watched.get_mut(&id).filter(|_| is_promotion) else {
            return Answer::Masters;
        };
        match watched.stage {
            Stage::Due(_) => return Answer::Masters,
            Stage::Settled if container.version() <= watched.version => return Answer::Kept,
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
                tracing::warn!(container = %id, "a promotion came without a node or a token");
                Answer::Kept
            }
        }
    }

    /// Reads a refusal. Whether it is of a request of this node.
    pub(super) fn refused(&mut self, error: &UpdateContainerErrorProto, now: MonoMillis) -> bool {
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
            (Stage::Settled, _) | (Stage::Asking | Stage::Asked, OUTSTANDING) => {}
            (Stage::Asking | Stage::Asked, OTHER_VERSION)
                if error.current_container_version.is_some() && current > watched.version =>
            {
                watched.version = current;
                self.asking.retain(|asking| *asking != id);
                self.put_back(id, now);
            }
            (Stage::Asking | Stage::Asked, reason) => {
                tracing::info!(container = %id, reason, "a promotion is refused");
                self.asking.retain(|asking| *asking != id);
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
