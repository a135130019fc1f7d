//! Observations of the proxy as plain values. The process that contains the proxy exports them.

use std::time::Duration;

use records::ContainerId;
use sched::Locality;

use crate::call::{AmMethod, Timing};

/// Result of a proxied call as the AM sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CallResult {
    /// The AM got an answer.
    Answered,
    /// The AM got an exception, from the ResourceManager or from an interceptor.
    Refused,
}

/// Reason for which this node delayed or refused a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ThrottleReason {
    /// Rate of calls above the limit: the call was delayed.
    CallRate,
    /// Number of calls waiting for their turn above the limit: the call was refused.
    CallsWaiting,
    /// Number of asks in the call above the limit: the call was refused.
    AsksPerCall,
    /// Number of outstanding containers above the limit: the call was refused.
    OutstandingContainers,
}

/// Looks of one call, and what they came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LookNumbers {
    /// Nodes that were asked.
    pub asked: u32,
    /// Nodes that have answered in time.
    pub answered: u32,
    /// Containers that wait for the next heartbeat, because no node seen has room for them.
    pub held_back: u32,
    /// Containers placed without a sight of their nodes.
    pub unseen: u32,
    /// Time that the call has waited; zero without looks.
    pub took: Duration,
}

/// Late binding of one call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BindNumbers {
    /// Whether the call has reserved, and so waited for offers.
    pub reserved: bool,
    /// Containers of the call on nodes that had offered room.
    pub placed: u32,
    /// Time that the call has waited.
    pub took: Duration,
}

/// Event that the proxy counts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Observation {
    /// A call passed through the chain and ended.
    Call {
        /// Method that was called.
        method: AmMethod,
        /// Result for the AM.
        result: CallResult,
        /// Time that the call took, and the ResourceManager's share of it.
        timing: Timing,
    },
    /// An opportunistic container was allocated by this node.
    Allocated {
        /// Id of the container.
        id: ContainerId,
        /// Distance between the container's node and the requested location.
        locality: Locality,
        /// Time since the container was requested.
        latency: Duration,
    },
    /// Nodes were looked at before opportunistic containers were placed, or were not because none
    /// answers.
    Looked(LookNumbers),
    /// Nodes with room were bound to tasks.
    Bound(BindNumbers),
    /// The lists of nodes that an attempt gets are shorter than a tenth of the cluster. Once for
    /// each attempt.
    ShortNodeLists,
    /// The completion of a container allocated here was reported to the AM.
    AllocatedCompleted,
    /// A call was delayed or refused.
    Throttled(ThrottleReason),
    /// A rule made asks opportunistic.
    Relabelled {
        /// Number of containers in those asks.
        containers: u64,
    },
    /// A rule's promotion was requested from the ResourceManager.
    PromotionAsked,
    /// An attempt that the ResourceManager had forgotten was registered again by this node.
    RegisteredAgain,
    /// Granted promotions were delivered to the containers' node, or delivery was given up.
    PromotionsEnded {
        /// Containers that their node now treats as guaranteed.
        reached: u64,
        /// Containers that their node still treats as opportunistic.
        failed: u64,
    },
    /// An event of a service's role history.
    History(HistoryEvent),
}

/// Event of a service's role history.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HistoryEvent {
    /// A container of the service was allocated.
    Placed {
        /// Whether its role had run on the node before.
        on_history: bool,
    },
    /// An ask for a node of the history was relaxed to any node.
    Escalated,
    /// The history was saved.
    Saved,
    /// The history could not be saved.
    SaveFailed,
    /// A history file was skipped because it cannot be read.
    FileSkipped,
}

/// A sink for observations. Called for every proxied call, so an implementation must be quick and
/// must not block.
pub trait Observer: Send + Sync + 'static {
    /// Records one observation.
    fn observe(&self, observation: &Observation);
}

/// An observer that discards every observation.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoObserver;

impl Observer for NoObserver {
    fn observe(&self, _: &Observation) {}
}
