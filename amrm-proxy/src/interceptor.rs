//! The interceptor trait: hooks on a call's way to the ResourceManager and on its answer's way
//! back.
//!
//! Hooks are pure. They read and edit the message, get the time as a value and keep state for one
//! attempt. For effects outside they return [`Action`]s. No hook waits or performs anything, so
//! each can be tested with plain values. Source:
//! `org.apache.hadoop.yarn.server.nodemanager.amrmproxy.RequestInterceptor`.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use records::{ApplicationAttemptId, ContainerId, MonoMillis, Now};
use role_history::Snapshot;
use sched::HostPreferences;
use wire::exception::RemoteException;
use wire::raw_message::RawMessage;
use wire::token::Token;

use crate::distributed_scheduler::NodeTokenKeys;
use crate::node_updates::NodeUpdate;
use crate::observe::Observation;
use crate::role_history::files::HistoryNews;
use crate::role_history::view::RoleHistoryView;
use crate::store::Part;

/// A method of ApplicationMasterProtocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AmMethod {
    /// The `registerApplicationMaster` call.
    Register,
    /// The `allocate` call, which is also the AM's heartbeat.
    Allocate,
    /// The `finishApplicationMaster` call.
    Finish,
}

impl AmMethod {
    /// Every method, in the order of an AM's life.
    pub const ALL: [Self; 3] = [Self::Register, Self::Allocate, Self::Finish];

    /// Returns the method's name on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Register => "registerApplicationMaster",
            Self::Allocate => "allocate",
            Self::Finish => "finishApplicationMaster",
        }
    }

    /// Returns the method of this name, or `None` for a name outside the protocol.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|method| method.as_str() == name)
    }
}

/// A call on its way to the ResourceManager.
#[derive(Clone, Debug)]
pub struct Request {
    /// Method that the AM calls.
    pub method: AmMethod,
    /// Message of ApplicationMasterProtocol as the AM sent it, with the edits so far.
    pub message: RawMessage,
    /// Containers that this node has allocated and reports to the ResourceManager, each an encoded
    /// `ContainerProto`. Empty except in `allocate` with distributed scheduling.
    pub allocated: Vec<Bytes>,
    /// Hosts that opportunistic asks prefer.
    pub preferences: HostPreferences,
}

/// An answer on its way to the AM.
#[derive(Clone, Debug, Default)]
pub struct Response {
    /// Message of ApplicationMasterProtocol.
    pub message: RawMessage,
    /// Fields of the distributed protocol's answer that are meant for this node. Empty without
    /// distributed scheduling.
    pub scheduling: RawMessage,
}

/// Answer of a call, or the exception in its place.
pub type Outcome = Result<Response, RemoteException>;

/// Time that a call has taken so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timing {
    /// Time since the whole request was read.
    pub total: Duration,
    /// Share of `total` spent on the ResourceManager, with its retries and pauses.
    pub rm: Duration,
}

/// Facts about the call and the node that every hook gets.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    /// Attempt whose AM makes the call.
    pub attempt: ApplicationAttemptId,
    /// User who submitted the application.
    pub user: &'a str,
    /// Time at which the request arrived; on the way back, time at which the answer arrived.
    pub now: Now,
    /// Keys that this node signs tokens with; `None` while the node is not registered.
    pub keys: Option<&'a NodeTokenKeys>,
    /// Time taken so far; set only on the way back.
    pub timing: Timing,
    /// Local AMRMToken to hand to the AM, set when the key has rolled since the AM's token was
    /// issued.
    pub renewed_token: Option<&'a Token>,
}

/// An effect that an interceptor requests. Actions are performed in order, before the AM gets its
/// answer.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Use this AMRMToken towards the ResourceManager, which repeats a renewed token until it is
    /// used.
    UseRmToken(Token),
    /// Store this part of the attempt's state for a restart; `None` removes it from the store.
    Persist(Part, Option<Vec<u8>>),
    /// Send newer container tokens to a node. The AM does not know about them and will not.
    UpdateContainers(NodeUpdate),
    /// Stop sending tokens of these containers, which have ended.
    WithdrawUpdates(Vec<ContainerId>),
    /// Save this copy of the role history, off the call's path.
    SaveHistory(Box<Snapshot>),
    /// Publish this view of the role history for readers.
    PublishHistory(Box<RoleHistoryView>),
    /// Count or record this observation.
    Observe(Observation),
}

/// Permission for a call to go on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pass {
    /// Milliseconds to delay the call first; 0 for none.
    pub delay_ms: u64,
}

/// Current numbers of an attempt's interceptors, added up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gauges {
    /// Opportunistic containers requested and not allocated yet.
    pub containers_outstanding: u64,
    /// Time at which the current list of nodes arrived; `None` without a list.
    pub nodes_at: Option<MonoMillis>,
    /// Containers allocated here whose completion has not been reported to the AM.
    pub containers_live: u64,
}

impl Gauges {
    /// Combines both: sums of the counts, and the older of the two lists of nodes.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            containers_outstanding: self.containers_outstanding + other.containers_outstanding,
            nodes_at: match (self.nodes_at, other.nodes_at) {
                (Some(one), Some(another)) => Some(one.min(another)),
                (one, another) => one.or(another),
            },
            containers_live: self.containers_live + other.containers_live,
        }
    }
}

/// Interceptor of one attempt. Calls of an attempt arrive one at a time.
pub trait Interceptor: Send + fmt::Debug {
    /// Handles a request on its way to the ResourceManager.
    ///
    /// # Errors
    /// A refusal: the call goes no further, and interceptors nearer to the AM see the exception as
    /// its outcome.
    fn on_request(
        &mut self,
        request: &mut Request,
        context: &Context<'_>,
        actions: &mut Vec<Action>,
    ) -> Result<Pass, RemoteException> {
        let _ = (request, context, actions);
        Ok(Pass::default())
    }

    /// Handles the outcome of a request that this interceptor let pass. Not called for a call that
    /// was abandoned, for example because the agent stops.
    fn on_response(
        &mut self,
        method: AmMethod,
        outcome: &mut Outcome,
        context: &Context<'_>,
        actions: &mut Vec<Action>,
    ) {
        let _ = (method, outcome, context, actions);
    }

    /// Handles a new registration of the attempt, which the ResourceManager had forgotten. `grant`
    /// is the answer to that registration, or `None` if the answer was lost. `request`, which this
    /// interceptor let pass, is the first call after it, and [`on_response`](Self::on_response)
    /// follows with its outcome. The AM notices nothing.
    fn on_reregistered(
        &mut self,
        grant: Option<&Response>,
        request: &mut Request,
        context: &Context<'_>,
        actions: &mut Vec<Action>,
    ) {
        let _ = (grant, request, context, actions);
    }

    /// Handles news about the files of the service's role history, before a request.
    fn on_history(&mut self, news: &HistoryNews, context: &Context<'_>, actions: &mut Vec<Action>) {
        let _ = (news, context, actions);
    }

    /// Restores a part that [`Action::Persist`] stored before a restart. Parts of other
    /// interceptors are ignored.
    fn restore(&mut self, attempt: ApplicationAttemptId, part: Part, value: &[u8], now: Now) {
        let _ = (attempt, part, value, now);
    }

    /// Returns the current numbers for metrics.
    fn gauges(&self) -> Gauges {
        Gauges::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gauges_are_summed_and_the_older_list_of_nodes_counts() {
        let gauges = |count, at| Gauges {
            containers_outstanding: count,
            nodes_at: at,
            containers_live: 10 * count,
        };
        let (early, late) = (Some(MonoMillis(1)), Some(MonoMillis(2)));
        for (one, other, oldest) in [
            (early, late, early),
            (late, early, early),
            (None, late, late),
        ] {
            assert_eq!(gauges(1, one).and(gauges(2, other)), gauges(3, oldest));
        }
    }
}
