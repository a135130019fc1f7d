//! What the proxy counts, as values: who exports them is the process's business.

use std::time::Duration;

use sched::Locality;

use crate::interceptor::{AmMethod, Gauges, Timing};

/// How a proxied call ended for the AM.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CallResult {
    /// With an answer.
    Answered,
    /// With an exception of the ResourceManager or of an interceptor.
    Refused,
}

/// Why a call was held back or refused by this node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ThrottleReason {
    /// More calls than allowed: the call was delayed.
    CallRate,
    /// More calls waiting for their turn than allowed: the call was refused.
    CallsWaiting,
    /// More asks in one call than allowed: the call was refused.
    AsksPerCall,
    /// More containers outstanding than allowed: the call was refused.
    OutstandingContainers,
}

/// One thing that happened.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Observation {
    /// A call went through the chain.
    Call {
        /// Which.
        method: AmMethod,
        /// How it ended.
        result: CallResult,
        /// How long it took.
        timing: Timing,
    },
    /// An opportunistic container was allocated on this node's word.
    Allocated {
        /// How near to where it was asked for.
        locality: Locality,
        /// Since it was asked for.
        latency: Duration,
    },
    /// A container that was allocated here has ended, as the AM was told now.
    AllocatedCompleted,
    /// A call was held back or refused.
    Throttled(ThrottleReason),
    /// Containers of asks that a rule made opportunistic.
    Relabelled {
        /// How many.
        containers: u64,
    },
    /// A promotion that a rule asked for.
    PromotionAsked,
    /// The ResourceManager had forgotten an attempt, and this node registered it again.
    RegisteredAgain,
    /// Promotions that were granted have been brought to the containers' node, or given up.
    PromotionsEnded {
        /// Containers that their node treats as promoted.
        reached: u64,
        /// Containers that it still treats as opportunistic.
        failed: u64,
    },
}

/// Takes observations. Called for every proxied call: it must be quick and must not block.
pub trait Observer: Send + Sync + 'static {
    /// One thing happened.
    fn observe(&self, observation: &Observation);
}

/// Takes nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoObserver;

impl Observer for NoObserver {
    fn observe(&self, _: &Observation) {}
}

/// The proxy at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProxySnapshot {
    /// Attempts that have a pipeline.
    pub pipelines: usize,
    /// Added up over all pipelines, of each as it was when its last call ended. Lists of nodes count only where the AM has
    /// called for as long as they are used.
    pub gauges: Gauges,
}
