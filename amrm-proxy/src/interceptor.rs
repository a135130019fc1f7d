//! What an interceptor is: hooks on a call's way to the ResourceManager and on its answer's way back.
//!
//! Hooks are pure. They see the message and may edit it, are told the time, keep state of their own for one attempt, and
//! answer with [`Action`]s where something outside has to happen. None of them waits or performs anything, so each can be
//! tested with values alone. Source: `org.apache.hadoop.yarn.server.nodemanager.amrmproxy.RequestInterceptor`.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use records::{ApplicationAttemptId, MonoMillis, Now};
use wire::exception::RemoteException;
use wire::raw_message::RawMessage;
use wire::token::Token;

use crate::distributed_scheduler::NodeTokenKeys;
use crate::node_updates::NodeUpdate;
use crate::observe::Observation;
use crate::store::Part;

/// A method of ApplicationMasterProtocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AmMethod {
    /// `registerApplicationMaster`.
    Register,
    /// `allocate`, the heartbeat.
    Allocate,
    /// `finishApplicationMaster`.
    Finish,
}

impl AmMethod {
    /// Every method.
    pub const ALL: [Self; 3] = [Self::Register, Self::Allocate, Self::Finish];

    /// Its name on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Register => "registerApplicationMaster",
            Self::Allocate => "allocate",
            Self::Finish => "finishApplicationMaster",
        }
    }

    /// The method of this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|method| method.as_str() == name)
    }
}

/// A call on its way to the ResourceManager.
#[derive(Clone, Debug)]
pub struct Request {
    /// Which method.
    pub method: AmMethod,
    /// The message of the plain protocol, as the AM sent it but for the edits so far.
    pub message: RawMessage,
    /// Containers that this node has allocated and tells the ResourceManager of, as `ContainerProto`. Only in `allocate`
    /// and only where scheduling is distributed.
    pub allocated: Vec<Bytes>,
}

/// An answer on its way to the AM.
#[derive(Clone, Debug, Default)]
pub struct Response {
    /// The message of the plain protocol.
    pub message: RawMessage,
    /// What the ResourceManager told this node beside it: the message of the distributed protocol without the plain one.
    /// Empty where scheduling is not distributed.
    pub scheduling: RawMessage,
}

/// An answer, or the exception that takes its place.
pub type Outcome = Result<Response, RemoteException>;

/// How long a call has taken so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timing {
    /// Since the whole request was read.
    pub total: Duration,
    /// Of that, waiting for the ResourceManager, its tries and pauses included.
    pub rm: Duration,
}

/// What every hook is told.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    /// Whose call it is.
    pub attempt: ApplicationAttemptId,
    /// Who submitted the application.
    pub user: &'a str,
    /// When the call came, and on the way back when the answer came.
    pub now: Now,
    /// What this node signs tokens with; `None` while it is not registered.
    pub keys: Option<&'a NodeTokenKeys>,
    /// On the way back: how long it took.
    pub timing: Timing,
    /// A local AMRMToken that replaces the one the AM connected with, because the key has rolled since.
    pub renewed_token: Option<&'a Token>,
}

/// Something that an interceptor wants done. Performed in the order given, before the AM gets its answer.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// The ResourceManager wants to see this token; it says so until it does.
    UseRmToken(Token),
    /// This part of the attempt's state must survive a restart; `None`: it need not any more.
    Persist(Part, Option<Vec<u8>>),
    /// A node has to see newer tokens of containers, and the AM will not show them.
    UpdateContainers(NodeUpdate),
    /// Something to count.
    Observe(Observation),
}

/// Whether and when a call goes on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pass {
    /// Hold the call back for so many milliseconds before it goes on.
    pub delay_ms: u64,
}

/// What the interceptors of one attempt say of themselves, added up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gauges {
    /// Opportunistic containers asked for and not allocated yet.
    pub containers_outstanding: u64,
    /// When the list of nodes to allocate on came; `None` without one.
    pub nodes_at: Option<MonoMillis>,
    /// Containers allocated here that have not ended as far as the AM was told.
    pub containers_live: u64,
}

impl Gauges {
    /// Both together: sums, and the older list of nodes.
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

/// One interceptor of one attempt. Calls of an attempt come one after the other.
pub trait Interceptor: Send + fmt::Debug {
    /// On the way to the ResourceManager.
    ///
    /// # Errors
    /// A refusal: the call goes no further, and interceptors nearer to the AM see the exception as its outcome.
    fn on_request(
        &mut self,
        request: &mut Request,
        context: &Context<'_>,
        actions: &mut Vec<Action>,
    ) -> Result<Pass, RemoteException> {
        let _ = (request, context, actions);
        Ok(Pass::default())
    }

    /// On the way back: of every call whose request this interceptor let pass. It does not come when the call was given
    /// up, for example because the agent stops.
    fn on_response(
        &mut self,
        method: AmMethod,
        outcome: &mut Outcome,
        context: &Context<'_>,
        actions: &mut Vec<Action>,
    ) {
        let _ = (method, outcome, context, actions);
    }

    /// The ResourceManager had forgotten the attempt, and this node has registered it again with this answer, unless that was
    /// lost. `request`, which this interceptor let pass, goes to it as the first call, and
    /// [`on_response`](Self::on_response) comes for its answer. The AM notices nothing.
    fn on_rejoin(
        &mut self,
        grant: Option<&Response>,
        request: &mut Request,
        context: &Context<'_>,
        actions: &mut Vec<Action>,
    ) {
        let _ = (grant, request, context, actions);
    }

    /// Takes back what [`Action::Persist`] wrote before a restart.
    fn restore(&mut self, attempt: ApplicationAttemptId, part: Part, value: &[u8], now: Now) {
        let _ = (attempt, part, value, now);
    }

    /// For metrics.
    fn gauges(&self) -> Gauges {
        Gauges::default()
    }
}
