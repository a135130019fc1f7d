//! What decides: the pure core of the agent and of the embedded ResourceManager.
//!
//! The crate is told what happened and when, and answers with what must be done. It reads no clock, opens no file or
//! socket, starts no thread, has no lock, no `async` and no hash map: the same events give the same actions, on the
//! node, in a test and in a simulation. `clippy.toml` beside this crate bans what would break that.
//!
//! ```text
//!             Event, Now                         Action*
//!  shell ─────────────────▶ ContainerScheduler ───────────▶ shell
//!    ▲                             │ next_deadline()          │
//!    └── Tick, Launched, Exited … ◀┴──────────────────────────┘
//! ```
//!
//! A tour, from the outside in:
//! - `action`: events, actions, notes, reasons and refusals, the whole vocabulary in and out
//! - `config`: what an operator decides, and the bounds of everything that grows
//! - `container_scheduler`: [`ContainerScheduler`], which composes the rest
//! - `container_state`: the life of one container, as the one transition function
//! - `container`, `diagnostics`: the record of one container and what is said of it
//! - `index`, `queue`, `utilization`: queues, start order and sums, all derived from the containers
//! - `queue_policy`: who may wait, `victims`: who must go, `kill_cause`: how that is explained
//! - `timers`: deadlines, `status`: what the ResourceManager is told
//! - `run_times`: how long containers took, `wait_estimate`: how long others will wait
//!
//! The ResourceManager's side, values in and values out in the same way:
//! - `node_load`: [`NodeLoadMonitor`], which nodes have the shortest queues, `queue_limit`: how long queues may be
//! - `allocator`: [`GuaranteedAllocator`] and [`OpportunisticContainerAllocator`], who gets containers where;
//!   [`DistributedOpportunisticContainerAllocator`], the same on a node for the ApplicationMasters there
//! - `random`: random choices, from a seed

mod action;
mod allocator;
mod config;
mod container;
mod container_scheduler;
mod container_state;
mod diagnostics;
#[cfg(test)]
mod fixture;
mod index;
mod kill_cause;
mod node_load;
mod queue;
mod queue_limit;
mod queue_policy;
mod random;
mod run_times;
mod status;
mod timers;
mod utilization;
mod victims;
mod wait_estimate;

pub use action::{
    Action, Completion, ContainerQueuingLimit, ContainerSpec, ContainerSummary, ContainerView,
    Event, KillReason, Note, OpportunisticContainersStatus, PauseEnd, QueuedContainer, Refusal,
    RejectReason, ShedReason,
};
pub use allocator::{
    ALLOCATIONS_PER_CALL_MAX, ASK_BYTES_MAX, ASK_LINES_MAX, ASKS_MAX, AskError, AskOrigin,
    AskRules, AskView, BLACKLIST_MAX, ChargeError, ContainerAllocation, DistributedAllocation,
    DistributedAllocatorConfig, DistributedAllocatorState, DistributedGrant,
    DistributedOpportunisticContainerAllocator, GuaranteedAllocator, Locality, NodeRoom,
    OpportunisticContainerAllocator, OpportunisticContainerContext, OutstandingAsks,
    REMOTE_NODES_MAX, RESOURCE_NAME_BYTES_MAX, Released, RemoteNode, ResourceLimits,
};
pub use config::{
    CONTAINERS_MAX, ContainerSchedulerConfig, DIAGNOSTICS_CHARS_DEFAULT, PAUSE_MAX_MS_DEFAULT,
    QUEUE_LENGTH_MAX,
};
pub use container_scheduler::ContainerScheduler;
pub use container_state::{ContainerState, Ending};
pub use node_load::{
    ClusterNode, LoadComparator, NodeLoad, NodeLoadConfig, NodeLoadMonitor,
    ParseLoadComparatorError,
};
pub use queue_limit::{QueueLimitCalculator, QueueLimitConfig};
pub use queue_policy::OpportunisticContainersQueuePolicy;
pub use random::{Draw, SplitMix64};
pub use utilization::VmemPmemRatio;
