//! Pure decisions of the agent and of the embedded ResourceManager.
//!
//! Events and the time go in, actions come out. The crate reads no clock, opens no file or socket,
//! starts no thread, has no lock, no `async` and no hash map: the same events give the same
//! actions, on the node, in a test and in a simulation. `clippy.toml` beside this crate bans what
//! would break that.
//!
//! ```text
//!             Event, Now                         Action*
//!  shell ─────────────────▶ ContainerScheduler ───────────▶ shell
//!    ▲                             │ next_deadline()          │
//!    └── Tick, Launched, Exited … ◀┴──────────────────────────┘
//! ```
//!
//! A tour, from the outside in:
//! - `event`, `action`: events; actions, notes, reasons and refusals
//! - `view`: what is told of containers
//! - `config`: configuration, and the bounds of everything that grows
//! - `container_scheduler`: [`ContainerScheduler`], which composes the rest
//! - `container_state`: states of one container and the transition function
//! - `container`, `diagnostics`: state of one container and its text for people
//! - `index`, `queue`, `utilization`: queues, start order and sums, all derived from the containers
//! - `admission`: admission to the queue, `queue_order`: who of those that wait starts first
//! - `victims`: choice of victims, `kill_cause`: exit status and text of a kill
//! - `retry`: starts after a failure, by the container's retry policy
//! - `timers`: deadlines, `status`: numbers reported to the ResourceManager
//! - `run_times`: observed run times, `wait_estimate`: simulation of waits
//!
//! The ResourceManager's side, also values in and values out:
//! - `node_load`: [`NodeLoadMonitor`], the nodes with the shortest queues, `queue_limit`: the limit
//!   of their length
//! - `allocator`: [`GuaranteedAllocator`] and [`OpportunisticContainerAllocator`], which place
//!   containers; [`DistributedOpportunisticContainerAllocator`], the same on a node for the
//!   ApplicationMasters there
//! - `look`: [`LookPlacer`], placement on nodes that were looked at just before
//! - `reservation`: [`ReservationTable`] on a node and [`Binder`] at a proxy, which bind a task
//!   when a node has room for it
//! - `random`: random choices, from a seed

mod action;
mod admission;
mod allocator;
mod config;
mod container;
mod container_scheduler;
mod container_spec;
mod container_state;
mod diagnostics;
mod event;
mod index;
mod kill_cause;
mod look;
mod node_load;
mod queue;
mod queue_order;
mod random;
mod rate;
mod reservation;
mod rests;
mod retry;
mod run_profile;
mod run_times;
mod status;
mod timers;
mod utilization;
mod victims;
mod view;
mod wait_estimate;

pub use action::{
    Action, Completion, ContainerQueuingLimit, DrainExtent, KillReason, Note, PassReason, PauseEnd,
    Refusal, RejectReason, ShedReason,
};
pub use allocator::{
    ALLOCATIONS_PER_CALL_MAX, ASK_BYTES_MAX, ASK_LINES_MAX, ASKS_MAX, AskError, AskOrigin,
    AskRules, AskView, BLACKLIST_MAX, BoundNodes, ChargeError, ContainerAllocation,
    DistributedAllocation, DistributedAllocatorConfig, DistributedAllocatorState, DistributedGrant,
    DistributedOpportunisticContainerAllocator, GuaranteedAllocator, HostPreferences, KnownNode,
    KnownNodes, Locality, LookOutcome, LookPlan, NodeList, NodeRoom,
    OpportunisticContainerAllocator, OpportunisticContainerContext, OutstandingAsks, Placement,
    REMOTE_NODES_MAX, RESOURCE_NAME_BYTES_MAX, Released, RemoteNode, ResourceLimits, Wish,
};
pub use config::{
    CONTAINERS_MAX, ContainerSchedulerConfig, DIAGNOSTICS_CHARS_DEFAULT,
    OpportunisticContainersQueuePolicy, PAUSE_MAX_MS_DEFAULT, QUEUE_LENGTH_MAX, RuntimeSettings,
};
pub use container_scheduler::{
    ContainerScheduler, RecoveredContainer, RecoveredStage, SchedulerSnapshot, SnapshotError,
};
pub use container_spec::ContainerSpec;
pub use container_state::{ContainerState, Ending};
pub use event::Event;
pub use look::{
    LOOKS_PER_CALL_MAX, LookAnswer, LookPlaced, LookPlacer, LookRound, LookTerms, PROMISE_MS,
    SIGHT_AGE_MAX_MS, Sight,
};
pub use node_load::{
    ClusterNode, LoadComparator, NodeLoad, NodeLoadConfig, NodeLoadMonitor,
    ParseLoadComparatorError, QueueLimitCalculator, QueueLimitConfig,
};
pub use queue_order::{QUEUE_BOUND_FACTOR_DEFAULT, QueueOrder, QueuePlace};
pub use random::{Draw, SplitMix64};
pub use rate::Rate;
pub use reservation::{
    AnswerError, Binder, ExpectedRun, HELD_MAX_MS, OFFER_LIFE_MS, Offer, OfferAnswer, OfferId,
    RESERVATION_LIFE_MS, RESERVATION_RENEWAL_MS, RESERVATIONS_MAX, RESERVATIONS_OF_ATTEMPT_MAX,
    RESERVATIONS_OF_USER_MAX, RESERVATIONS_PER_TASK, RESERVED_NODES_MAX, Reservation,
    ReservationTable, ReserveError,
};
pub use rests::Rests;
pub use retry::{ContainerRetryContext, FAILURES_IN_WINDOW_MAX, GrantedRetries, RetryOn};
pub use run_profile::{Digest, Hinter, LearntCommand, LearntRuns, RunProfile};
pub use utilization::VmemPmemRatio;
pub use victims::VictimsOrder;
pub use view::{ContainerSummary, ContainerView, OpportunisticContainersStatus, QueuedContainer};
