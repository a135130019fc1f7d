//! Overview of the node for people who watch it, bounded whatever the node holds: lists are cut,
//! with the number of what they leave out.

use amrm_proxy::attempts::ProxiedAttempts;
use records::{ContainerId, EpochMillis, ExecutionType, MonoMillis, NodeId, Now, Resource};
use sched::{ContainerQueuingLimit, ContainerState, OpportunisticContainersStatus};

use super::history::{Counts, History};
use super::recent::RecentDecision;

/// Containers named in each list: about a screen. A queue may hold ten thousand, and each event of
/// the live page carries the list; the head is what matters, and all are on `/node/allContainers`.
pub const LISTED_MAX: usize = 25;

/// Attempts named in the list of those that pass the AMRMProxy: more than a node has, most of the
/// time. Each is a line of some 400 bytes in each event.
pub const MASTERS_LISTED_MAX: usize = 100;

/// The overview and its time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Overview {
    /// Time at which the node looked so.
    pub now: Now,
    /// State of the node: equal as long as nothing has changed, however much time has passed.
    pub node: NodeOverview,
}

/// State of the node that a glance should show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeOverview {
    /// As registered with the RM.
    pub node_id: NodeId,
    /// Version and build.
    pub version: String,
    /// When the agent started; its monotonic clock was 0 then.
    pub started_at: EpochMillis,
    /// How it stands with the RM, and since when.
    pub rm: (RmContact, MonoMillis),
    /// Report of an unhealthy node; `None` while healthy. To be escaped wherever it is shown.
    pub unhealthy: Option<String>,
    /// Resources that the node offers.
    pub total: Resource,
    /// Resources of the containers that hold some.
    pub allocated: Resource,
    /// How many run and wait.
    pub counts: Counts,
    /// How many of those that wait are frozen.
    pub paused: u32,
    /// The opportunistic numbers of the last heartbeat's kind.
    pub opportunistic: OpportunisticContainersStatus,
    /// The limit that the RM published last; `None` before the first.
    pub queuing_limit: Option<ContainerQueuingLimit>,
    /// Containers that hold resources, in the order of their ids.
    pub running: Listing<ListedContainer>,
    /// Containers that wait, in the order in which they would start.
    pub waiting: Listing<WaitingContainer>,
    /// Applications whose AMs call the RM through this node, at most [`MASTERS_LISTED_MAX`]
    /// of them; `None` without an AMRMProxy.
    pub masters: Option<ProxiedAttempts>,
    /// The last minutes.
    pub history: History,
    /// Recent decisions, newest first.
    pub decisions: Vec<RecentDecision>,
}

/// How it stands with the RM.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RmContact {
    /// No registration is in force: the first, or one that the RM asked for, is under way.
    #[default]
    Registering,
    /// Registered, and heartbeats are answered.
    Registered,
    /// Registered, but the last heartbeat was not answered.
    Silent,
}

/// The first few of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listing<T> {
    /// At most [`LISTED_MAX`], in the list's order.
    pub first: Vec<T>,
    /// How many the list has in all.
    pub total: usize,
}

impl<T> Listing<T> {
    /// Cuts a list of `total`.
    #[must_use]
    pub fn cut(all: impl Iterator<Item = T>, total: usize) -> Self {
        Self {
            first: all.take(LISTED_MAX).collect(),
            total,
        }
    }

    /// How many are not named.
    #[must_use]
    pub fn more(&self) -> usize {
        self.total.saturating_sub(self.first.len())
    }
}

/// A container that holds resources.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedContainer {
    /// Id of the container.
    pub id: ContainerId,
    /// Execution type of the container.
    pub execution_type: ExecutionType,
    /// Resources given to the container.
    pub resource: Resource,
    /// User who submitted the application. Chosen by a peer: to be escaped wherever it is shown.
    pub user: String,
    /// State of the container.
    pub progress: Progress,
    /// Since when it does that.
    pub since: MonoMillis,
}

/// A container that waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitingContainer {
    /// Id of the container.
    pub id: ContainerId,
    /// Execution type of the container.
    pub execution_type: ExecutionType,
    /// Resources that the container asks for.
    pub resource: Resource,
    /// User who submitted the application. Chosen by a peer: to be escaped wherever it is shown.
    pub user: String,
    /// Since when it waits.
    pub since: MonoMillis,
    /// Whether the container has a frozen process.
    pub paused: bool,
}

/// State of a container that holds resources.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// The launch is ordered.
    Starting,
    /// The process runs.
    Running,
    /// The process is being frozen.
    Pausing,
    /// The process is being thawed.
    Resuming,
    /// The process is being killed.
    Ending,
}

impl Progress {
    /// Returns the word for people and JSON.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Running => "running",
            Self::Pausing => "pausing",
            Self::Resuming => "resuming",
            Self::Ending => "ending",
        }
    }

    /// Returns the progress in this state; `None` for a container that holds no resources.
    #[must_use]
    pub const fn of(state: ContainerState) -> Option<Self> {
        match state {
            ContainerState::Launching { .. } => Some(Self::Starting),
            ContainerState::Running { .. } => Some(Self::Running),
            ContainerState::Pausing => Some(Self::Pausing),
            ContainerState::Resuming { .. } => Some(Self::Resuming),
            ContainerState::Killing { holds_room: true } => Some(Self::Ending),
            ContainerState::Localizing
            | ContainerState::Queued { .. }
            | ContainerState::Paused { .. }
            | ContainerState::Killing { holds_room: false }
            | ContainerState::Gone { .. }
            | ContainerState::Completing(_)
            | ContainerState::Done(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_list_is_cut_and_says_how_much_is_missing() {
        let list = Listing::cut(0..10_000, 10_000);
        assert_eq!(list.first.len(), LISTED_MAX);
        assert_eq!(list.first[0], 0);
        assert_eq!(list.more(), 10_000 - LISTED_MAX);
        assert_eq!(Listing::cut(0..3, 3).more(), 0);
    }
}
