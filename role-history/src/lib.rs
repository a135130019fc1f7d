//! The role history: containers of a service go back to the nodes where they ran.
//!
//! Events and the time go in, actions come out. The crate reads no clock, opens no file or socket,
//! starts no thread, has no lock, no `async` and no hash map: the same events give the same
//! actions, on a node, in a test and in a simulation. `clippy.toml` beside this crate bans what
//! would break that.
//!
//! ```text
//!            desired numbers, node reports, allocated,             Action*
//!   caller ── started, failed, completed, tick; Now ──▶ RoleHistory ──▶ caller
//!     ▲                                                  │  next_deadline()
//!     └──────────────────────────────────────────────────┘
//! ```
//!
//! The history of a *role*, containers that are alike, is for each node the time at which the node
//! last became free of it. An ask for one more container names the most recently used node that is
//! free, usable and reliable. If the node does not answer in time, the ask is relaxed to any node.
//!
//! The subject comes from Apache Slider. `D13` and `D16` are its design documents of 2013 and 2016;
//! sources name its classes. Where the code and the documents differ, the place says which is
//! followed. What Slider counts wrong is not copied: each such place says so.
//!
//! A tour, from the outside in:
//! - `action`: what goes in and out
//! - `role`, `container_priority`: definition of a role, and its form in a priority
//! - `role_history`: [`RoleHistory`] and its operations, a file for each
//! - `outstanding`: requests without an answer, `containers`: accepted containers
//! - `role_status`: counters of a role, `container_outcome`: meaning of exit statuses
//! - `node_map`, `node_instance`, `node_entry`, `ready_list`: nodes, one node, one role on one
//!   node, and the order in which nodes are chosen
//! - [`opt_in`]: how a job names its service
//! - `saved`: what survives a restart; [`avro`]: Slider's form of it, on any stream
//!
//! 100,000 nodes with 20 roles each are two million entries, so an entry has 40 bytes, and a choice
//! takes the first of a list instead of a walk.

mod action;
pub mod avro;
mod container_outcome;
mod container_priority;
mod containers;
mod node_entry;
mod node_index;
mod node_instance;
mod node_map;
pub mod opt_in;
mod outstanding;
mod ready_list;
mod role;
mod role_history;
mod role_status;
mod saved;

pub use action::{
    Action, AllocatedContainer, Ask, AskReason, AskedBy, Assignment, CompletedContainer,
    ContainerAllocationOutcome, LiveContainer, NodeReport, Ran, RequestId,
};
pub use container_outcome::ContainerOutcome;
pub use container_priority::ContainerPriority;
pub use containers::ReleaseChoice;
pub use node_entry::NodeEntry;
pub use node_instance::{NodeInstance, NodeState};
pub use node_map::NodeMap;
pub use role::{PlacementPolicy, Role, RoleError, RoleId};
pub use role_history::{
    IgnoredEvents, OperationError, RoleHistory, RoleHistoryConfig, Snapshot, ThawReport,
};
pub use role_status::RoleStatus;
pub use saved::{SavedEntry, SavedHistory};
