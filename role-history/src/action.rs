//! Vocabulary of the core: what the caller reports, and what the caller must do.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use records::{ContainerExitStatus, ContainerId, EpochMillis, Resource};

use crate::container_priority::ContainerPriority;
use crate::node_instance::NodeState;
use crate::role::RoleId;

/// Number of a request, in the order of creation. Never reused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u64);

/// Report about a node (Hadoop: `NodeReport`, of which this is the part that decides).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeReport {
    /// Host of the node. Reports without a host are skipped.
    pub host: String,
    /// State of the node. Reports without a state are skipped.
    pub state: Option<NodeState>,
    /// First label of the node, or the empty text for none.
    pub label: String,
}

/// Ask that a container answers, as far as its message tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AskedBy {
    /// Priority that this core packed: tells asks with and without a location apart.
    Priority(ContainerPriority),
    /// Role alone: the ask carried the ApplicationMaster's own priority.
    Role(RoleId),
}

impl AskedBy {
    /// Returns the role of the ask.
    #[must_use]
    pub const fn role(self) -> RoleId {
        match self {
            Self::Priority(priority) => priority.role,
            Self::Role(role) => role,
        }
    }
}

/// Container that the ResourceManager or the node-side allocator allocated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AllocatedContainer {
    /// Id of the container.
    pub container: ContainerId,
    /// Host that the container was allocated on.
    pub host: String,
    /// Ask that the container answers.
    pub asked_by: AskedBy,
    /// Size of the container, which may be larger than asked for.
    pub resource: Resource,
}

/// Container that runs when an ApplicationMaster registers again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveContainer {
    /// Id of the container.
    pub container: ContainerId,
    /// Host that the container runs on.
    pub host: String,
    /// Role of the container, from its priority.
    pub role: RoleId,
}

/// End of a container (Hadoop: `ContainerStatus`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompletedContainer {
    /// Id of the container.
    pub container: ContainerId,
    /// Exit status that the ResourceManager reports.
    pub exit_status: ContainerExitStatus,
    /// Text for people.
    pub diagnostics: String,
    /// Time for which it ran.
    pub ran: Ran,
}

/// Knowledge of how long a container ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ran {
    /// From [`on_container_started`](crate::RoleHistory::on_container_started) to the end.
    SinceStart,
    /// For so many milliseconds, by its node.
    For(u64),
    /// Unknown, as of a container that may have waited in a queue for most of the time.
    Unknown,
}

/// Reason for the target of an ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AskReason {
    /// The node ran the role until this time, and no other free node did so more recently.
    History {
        /// Time at which the node became free of the role.
        last_used: EpochMillis,
    },
    /// No free and reliable node has run the role.
    NoHistory,
    /// The role's policy is to be placed anywhere.
    Anywhere,
    /// The named node did not answer in time, or was lost.
    Escalated,
    /// The role's policy is one container per node: every free node is named.
    AntiAffinity,
}

impl fmt::Display for AskReason {
    /// Writes a line for people: `ran here until 1452000000000`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::History { last_used } => write!(f, "ran here until {}", last_used.0),
            Self::NoHistory => f.write_str("no free node has run the role"),
            Self::Anywhere => f.write_str("the role is placed anywhere"),
            Self::Escalated => f.write_str("the node that ran the role did not answer in time"),
            Self::AntiAffinity => f.write_str("one container per node"),
        }
    }
}

/// Lines that the caller sends for a request, or withdraws.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ask {
    /// Request that the ask belongs to. An escalated ask keeps the number.
    pub request: RequestId,
    /// Role and kind of the ask. A caller that keeps the ApplicationMaster's own priorities uses
    /// the role alone.
    pub priority: ContainerPriority,
    /// Hosts that the ask names, each for at most one container. Empty if the ask names none.
    pub hosts: Vec<Arc<str>>,
    /// Whether containers may go to hosts that the ask does not name.
    pub relax_locality: bool,
    /// Label that the ask names. An ask names hosts or a label, never both: YARN refuses that.
    pub label: Option<Arc<str>>,
    /// Number of containers. More than one only for anti-affine roles, each on another host.
    pub containers: u32,
    /// Size of each container.
    pub resource: Resource,
    /// Reason for the choice of hosts.
    pub reason: AskReason,
}

/// Way in which a container's ask was answered (Slider: `ContainerAllocationOutcome`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContainerAllocationOutcome {
    /// No outstanding ask was known.
    Unallocated,
    /// An ask without a location, or an anti-affine one.
    Open,
    /// The ask for this node.
    Placed,
    /// An ask for another node that had been relaxed.
    Escalated,
}

/// Accepted container (Slider: `ContainerAssignment`, `ContainerAllocationResults`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assignment {
    /// Id of the container.
    pub container: ContainerId,
    /// Role that the container is for.
    pub role: RoleId,
    /// Host that the container is on.
    pub host: Arc<str>,
    /// Way in which the ask was answered.
    pub outcome: ContainerAllocationOutcome,
}

/// Effect that the caller performs. The order counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Write the history before the actions that follow.
    Save,
    /// Send this ask.
    Request(Ask),
    /// Withdraw one ask and send another in its place, in one message.
    Escalate {
        /// Ask that was sent before.
        from: Ask,
        /// Relaxed ask of the same request.
        to: Ask,
    },
    /// Withdraw what is left of this ask.
    Cancel(Ask),
    /// Note that a container answered the request. In the raw protocol the ResourceManager has
    /// lowered its count already; behind a client library that repeats its own table, the caller
    /// withdraws one container of the ask.
    Satisfied {
        /// Request that the container answered.
        request: RequestId,
        /// Container that answered the request.
        container: ContainerId,
        /// Containers that the request still wants; 0 when the request has ended.
        remaining: u32,
    },
    /// Give this container to the application.
    Assign(Assignment),
    /// Return this container to the ResourceManager.
    Release(ContainerId),
    /// Change the application's blacklist of hosts.
    UpdateBlacklist {
        /// Hosts to add, by name.
        additions: Vec<Arc<str>>,
        /// Hosts to remove, by name.
        removals: Vec<Arc<str>>,
    },
    /// End the application: a role failed more often than its threshold allows. Nothing is asked
    /// for from then on.
    FailApplication {
        /// Role that failed.
        role: RoleId,
        /// Failures since the last reset.
        failed_recently: u32,
        /// Containers that failed since the last reset, bounded in number.
        failed_containers: BTreeSet<ContainerId>,
    },
}
