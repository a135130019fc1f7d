//! Role history of one attempt's service as plain values, for pages, REST and metrics.
//!
//! The pipeline publishes a view beside itself when the history has changed, so that no reader
//! waits for a call. Lists are bounded, whatever an ApplicationMaster asks for; a total beside
//! each list counts what the list leaves out.

use std::fmt;
use std::sync::Arc;

use records::{ApplicationAttemptId, ContainerId, EpochMillis, MonoMillis};
use role_history::{AskReason, ContainerAllocationOutcome};

use super::opt_in::OptIn;

/// Maximum of roles in a view.
pub const ROLES_LISTED_MAX: usize = 50;

/// Maximum of nodes listed for one role.
pub const NODES_LISTED_MAX: usize = 50;

/// Maximum of outstanding asks in a view.
pub const ASKS_LISTED_MAX: usize = 100;

/// Maximum of placements in a view.
pub const PLACEMENTS_LISTED_MAX: usize = 50;

/// Source of the history that an attempt works with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HistorySource {
    /// The files are being read. The service runs with an empty history meanwhile.
    #[default]
    Loading,
    /// No readable file was found, so the history began empty.
    New,
    /// A file was loaded.
    File {
        /// Time at which the file was saved.
        saved: EpochMillis,
        /// Entries taken from the file.
        entries: usize,
    },
    /// The files cannot be used, so the history is neither loaded nor saved.
    Unavailable,
}

/// Role history of one attempt's service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoleHistoryView {
    /// Name of the service, as the job or the operator's rule gives it.
    pub service: String,
    /// User who submitted the application.
    pub user: String,
    /// Attempt that works with the history.
    pub attempt: ApplicationAttemptId,
    /// Whether guaranteed asks for any node name the nodes of the history.
    pub is_guaranteed: bool,
    /// Source of the history.
    pub source: HistorySource,
    /// Time of the last save; `None` before the first of this attempt.
    pub saved_at: Option<EpochMillis>,
    /// Number of nodes in the history.
    pub nodes: usize,
    /// Roles by their names, at most [`ROLES_LISTED_MAX`].
    pub roles: Vec<RoleView>,
    /// Number of all roles.
    pub roles_total: usize,
    /// Asks without an answer, the oldest first, at most [`ASKS_LISTED_MAX`].
    pub asks: Vec<AskView>,
    /// Number of all asks without an answer.
    pub asks_total: usize,
    /// Last placements, the newest first, at most [`PLACEMENTS_LISTED_MAX`].
    pub placements: Vec<PlacementView>,
}

impl RoleHistoryView {
    /// Makes the view of an attempt whose history is being loaded.
    pub(crate) fn new(opt_in: &OptIn, attempt: ApplicationAttemptId, user: &str) -> Self {
        Self {
            service: opt_in.service.clone(),
            user: user.to_owned(),
            attempt,
            is_guaranteed: opt_in.is_guaranteed,
            source: HistorySource::Loading,
            saved_at: None,
            nodes: 0,
            roles: Vec::new(),
            roles_total: 0,
            asks: Vec::new(),
            asks_total: 0,
            placements: Vec::new(),
        }
    }
}

/// Counters and nodes of one role.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RoleView {
    /// Name of the role: `priority-5`, with `.request-12` for an allocation request id.
    pub name: String,
    /// Containers asked for and not allocated.
    pub requested: u32,
    /// Containers allocated that have not ended.
    pub actual: u32,
    /// Containers allocated by this attempt.
    pub placed: u64,
    /// Containers among `placed` on a node where the role had run.
    pub placed_on_history: u64,
    /// Asks for one node that were relaxed to any node.
    pub escalated: u64,
    /// Containers that failed.
    pub failed: u64,
    /// Containers that were preempted.
    pub preempted: u64,
    /// Nodes left out of asks because containers of the role failed there too often.
    pub nodes_excluded: usize,
    /// Nodes of the role, at most [`NODES_LISTED_MAX`]: first those to be asked for next, in that
    /// order.
    pub nodes: Vec<RoleNodeView>,
    /// Number of all nodes where the role has run or runs.
    pub nodes_total: usize,
}

/// Containers, last use and failures of one role on one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoleNodeView {
    /// Host name of the node.
    pub host: Arc<str>,
    /// Containers of the role that run there.
    pub live: u32,
    /// Time at which the node last became free of the role; `None` if it never did.
    pub last_used: Option<EpochMillis>,
    /// Failures since the last reset.
    pub failed_recently: u16,
    /// Whether the node is left out of asks because of these failures.
    pub is_excluded: bool,
}

/// Ask without an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AskView {
    /// Name of the role.
    pub role: String,
    /// Host that the ask names; `None` for any.
    pub host: Option<Arc<str>>,
    /// Time of the ask.
    pub asked_at: MonoMillis,
    /// Time at which the ask is relaxed to any node; `None` if it accepts any node already, or is
    /// strict.
    pub escalates_at: Option<MonoMillis>,
    /// Reason for the choice of the host.
    pub reason: AskReason,
}

/// Container that was allocated, and why its node was chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlacementView {
    /// Time of the allocation.
    pub at: EpochMillis,
    /// Id of the container.
    pub container: ContainerId,
    /// Name of the role.
    pub role: String,
    /// Host of the container.
    pub host: Arc<str>,
    /// Time until which the role ran there before; `None` if it never did.
    pub last_used: Option<EpochMillis>,
    /// Way in which the container's ask was answered.
    pub outcome: ContainerAllocationOutcome,
}

impl PlacementView {
    /// Returns the reason for the placement in one line: `ran here 3 min before`.
    #[must_use]
    pub const fn why(&self) -> PlacementReason<'_> {
        PlacementReason(self)
    }
}

/// Reason for a placement, as a line for people.
#[derive(Clone, Copy, Debug)]
pub struct PlacementReason<'a>(&'a PlacementView);

impl fmt::Display for PlacementReason<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let placement = self.0;
        if let Some(last_used) = placement.last_used {
            let age_ms = placement.at.0.saturating_sub(last_used.0).max(0);
            return write!(f, "ran here {} before", Age(age_ms));
        }
        f.write_str(match placement.outcome {
            ContainerAllocationOutcome::Escalated => {
                "the node that ran the role did not answer in time"
            }
            ContainerAllocationOutcome::Placed
            | ContainerAllocationOutcome::Open
            | ContainerAllocationOutcome::Unallocated => "no node that ran the role was free",
        })
    }
}

/// Age in milliseconds, displayed in its largest unit: `40 s`, `3 min`, `5 h`, `2 d`.
struct Age(i64);

impl fmt::Display for Age {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SECOND: i64 = 1_000;
        const MINUTE: i64 = 60 * SECOND;
        const HOUR: i64 = 60 * MINUTE;
        const DAY: i64 = 24 * HOUR;
        match self.0 {
            ms if ms < MINUTE => write!(f, "{} s", ms / SECOND),
            ms if ms < HOUR => write!(f, "{} min", ms / MINUTE),
            ms if ms < DAY => write!(f, "{} h", ms / HOUR),
            ms => write!(f, "{} d", ms / DAY),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::ATTEMPT;

    #[test]
    fn a_placement_says_why() {
        let placement = |last_used: Option<i64>, outcome| PlacementView {
            at: EpochMillis(1_000_000_000),
            container: ATTEMPT.container(2),
            role: "priority-1".to_owned(),
            host: "n7".into(),
            last_used: last_used.map(EpochMillis),
            outcome,
        };
        let why = |last_used, outcome| placement(last_used, outcome).why().to_string();
        let placed = ContainerAllocationOutcome::Placed;
        for (ago, text) in [
            (40_000, "ran here 40 s before"),
            (190_000, "ran here 3 min before"),
            (7_200_000, "ran here 2 h before"),
            (200_000_000, "ran here 2 d before"),
            (-5, "ran here 0 s before"),
        ] {
            assert_eq!(why(Some(1_000_000_000 - ago), placed), text);
        }
        assert_eq!(
            why(None, ContainerAllocationOutcome::Escalated),
            "the node that ran the role did not answer in time"
        );
        assert_eq!(
            why(None, ContainerAllocationOutcome::Open),
            "no node that ran the role was free"
        );
    }
}
