//! A call of an AM as plain values: its method, the request, the answer, and the time it takes.

use std::time::Duration;

use sched::NodeList;
use wire::exception::RemoteException;
use wire::raw_message::RawMessage;

use crate::notes::Notes;

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
#[derive(Debug)]
pub struct Request {
    /// Method that the AM calls.
    pub method: AmMethod,
    /// Message of ApplicationMasterProtocol as the AM sent it, with the edits so far.
    pub message: RawMessage,
    /// Notes of modules on the way for modules nearer to the ResourceManager.
    pub notes: Notes,
}

impl Request {
    /// Makes a request without notes.
    #[must_use]
    pub fn new(method: AmMethod, message: RawMessage) -> Self {
        Self {
            method,
            message,
            notes: Notes::default(),
        }
    }
}

/// An answer on its way to the AM.
#[derive(Clone, Debug, Default)]
pub struct Response {
    /// Message of ApplicationMasterProtocol.
    pub message: RawMessage,
    /// Fields of the distributed protocol's answer that are meant for this node, without its list
    /// of nodes. Empty without distributed scheduling.
    pub scheduling: RawMessage,
    /// The distributed protocol's list of nodes.
    pub nodes: NodeList,
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
