//! The history of one service and the operations on it (Slider: `RoleHistory`, with the parts of
//! `AppState` that decide about containers).
//!
//! ```text
//!  set_desired ─┐                                            ┌─▶ Request, Escalate, Cancel
//!  nodes ───────┤   roles      counters, desired             │
//!  allocated ───┼─▶ nodes      entries, ready nodes ─ review ┼─▶ Assign, Satisfied, Release
//!  started ─────┤   outstanding   requests and deadlines     │
//!  completed ───┤   containers    phases                     └─▶ UpdateBlacklist, FailApplication
//!  tick ────────┘
//! ```
//!
//! Each operation is a file: `review` compares desired and actual, `requests` makes and ends asks,
//! `anti_affinity` does so for anti-affine roles, `allocation` takes containers, `lifecycle`
//! follows them to their ends, `cluster` takes node reports, `timers` escalates and resets, `thaw`
//! loads and saves.

mod allocation;
mod anti_affinity;
mod cluster;
mod lifecycle;
mod requests;
mod review;
mod thaw;
mod timers;

use std::collections::{BTreeMap, BTreeSet};
use std::num::{NonZeroU32, NonZeroU64};

use records::{ContainerId, EpochMillis, MonoMillis, Now};
use thiserror::Error;

use crate::action::Ask;
use crate::containers::{Containers, ReleaseChoice};
use crate::node_index::NodeIndex;
use crate::node_map::NodeMap;
use crate::outstanding::OutstandingRequestTracker;
use crate::role::{Role, RoleError, RoleId};
use crate::role_status::RoleStatus;

pub use self::thaw::{Snapshot, ThawReport};

/// Milliseconds of an hour.
const HOUR_MS: u64 = 3_600_000;

/// Configuration of a history. The defaults are Slider's unless a field says otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoleHistoryConfig {
    /// Milliseconds below which a container's life is short, so that its failure counts as a
    /// failed start (Slider: `internal.container.failure.shortlife`).
    pub short_life_ms: u64,
    /// Milliseconds after which recent failures are forgotten, again and again (Slider:
    /// `yarn.container.failure.window.*`, 6 hours). `None`: never.
    pub failure_window_ms: Option<NonZeroU64>,
    /// Milliseconds before the time of the save after which a last use is forgotten when the file
    /// is loaded. `None`: never. Documents: 7 days; Slider's code never calls it.
    pub age_limit_ms: Option<NonZeroU64>,
    /// Most containers of an anti-affine role that are asked for at once. Slider: 1.
    pub anti_affine_at_once: NonZeroU32,
    /// Choice of the containers to release when a role shrinks.
    pub release_choice: ReleaseChoice,
    /// Whether nodes that fail too often are blacklisted for the whole application (Slider, since
    /// 2017). Off: they are left out of asks, and a relaxed ask may still land there.
    pub blacklist: bool,
    /// Whether a container that ends is replaced. Off where the ApplicationMaster asks for each
    /// container itself: the desired number falls with each end.
    pub replaces_ended: bool,
}

impl Default for RoleHistoryConfig {
    fn default() -> Self {
        Self {
            short_life_ms: 60_000,
            failure_window_ms: NonZeroU64::new(6 * HOUR_MS),
            age_limit_ms: NonZeroU64::new(7 * 24 * HOUR_MS),
            anti_affine_at_once: NonZeroU32::MAX,
            release_choice: ReleaseChoice::default(),
            blacklist: false,
            replaces_ended: true,
        }
    }
}

/// Error of an operation that does not fit the state. The state is unchanged.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum OperationError {
    /// No such role.
    #[error("unknown role {0}")]
    UnknownRole(RoleId),
    /// Container that was never accepted, or has ended.
    #[error("unknown container {0}")]
    UnknownContainer(ContainerId),
    /// Second confirmation of a start.
    #[error("container {0} has started already")]
    AlreadyStarted(ContainerId),
    /// Second release of a container.
    #[error("container {0} is being released already")]
    AlreadyReleasing(ContainerId),
}

/// Events that changed nothing, for metrics and for the log of the caller.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IgnoredEvents {
    /// Containers allocated a second time.
    pub duplicate_allocations: u64,
    /// Containers for roles that do not exist. They are released.
    pub unknown_roles: u64,
    /// Containers beyond the desired number. They are released.
    pub surplus_allocations: u64,
    /// Completions of containers that were never accepted, or whose end is counted already.
    pub unknown_completions: u64,
    /// Node reports without a host or a state.
    pub incomplete_node_reports: u64,
    /// Containers that should have been released, but none of the role was running.
    pub releases_without_candidate: u64,
}

/// Role with its counters.
#[derive(Clone, Debug)]
struct RoleState {
    role: Role,
    status: RoleStatus,
    /// Nodes of escalated requests that were answered elsewhere. They return to the list when the
    /// role has all its containers: until then the next ask would go to a node that was too slow.
    unfulfilled: BTreeSet<NodeIndex>,
}

/// State of the application as far as it decides about asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Life {
    Running,
    /// A role failed too often. Nothing is asked for.
    Failed,
    /// Torn down. Nothing is asked for, and completions no longer change the saved history.
    TornDown,
}

/// Changes since the last save.
#[derive(Clone, Copy, Debug, Default)]
struct SaveState {
    changes: u64,
    saved_changes: u64,
    /// Time in the newest file, written or loaded.
    saved: EpochMillis,
    thawed: Option<EpochMillis>,
}

/// The role history of one service: an owned value without locks, clocks and files.
#[derive(Clone, Debug)]
pub struct RoleHistory {
    config: RoleHistoryConfig,
    roles: BTreeMap<RoleId, RoleState>,
    names: BTreeSet<String>,
    nodes: NodeMap,
    nodes_reported: bool,
    outstanding: OutstandingRequestTracker,
    containers: Containers,
    blacklist: BTreeSet<NodeIndex>,
    next_reset: Option<MonoMillis>,
    life: Life,
    save: SaveState,
    ignored: IgnoredEvents,
    /// Greatest wall time seen, so that a clock set back does not reorder uses.
    wall: EpochMillis,
}

impl RoleHistory {
    /// Creates a history without nodes (Slider: bootstrap). Desired numbers begin at 0.
    ///
    /// # Errors
    /// Two roles with one id or name, or a label that YARN would refuse.
    pub fn new(
        config: RoleHistoryConfig,
        roles: impl IntoIterator<Item = Role>,
        now: Now,
    ) -> Result<Self, RoleError> {
        let mut history = Self {
            config,
            roles: BTreeMap::new(),
            names: BTreeSet::new(),
            nodes: NodeMap::default(),
            nodes_reported: false,
            outstanding: OutstandingRequestTracker::default(),
            containers: Containers::default(),
            blacklist: BTreeSet::new(),
            next_reset: config
                .failure_window_ms
                .map(|window| now.mono + window.get()),
            life: Life::Running,
            save: SaveState::default(),
            ignored: IgnoredEvents::default(),
            wall: now.wall,
        };
        roles
            .into_iter()
            .try_for_each(|role| history.add_role(role))?;
        Ok(history)
    }

    /// Adds a role. Its desired number begins at 0.
    ///
    /// # Errors
    /// A role with the same id or name, or a label that YARN would refuse. Nothing has changed
    /// then.
    pub fn add_role(&mut self, role: Role) -> Result<(), RoleError> {
        role.validate()?;
        if let Some(known) = self.roles.get(&role.id) {
            return Err(RoleError::DuplicateId {
                id: role.id,
                first: known.role.name.clone(),
                second: role.name,
            });
        }
        if !self.names.insert(role.name.clone()) {
            return Err(RoleError::DuplicateName { name: role.name });
        }
        self.nodes.add_role(&role);
        let state = RoleState {
            role,
            status: RoleStatus::default(),
            unfulfilled: BTreeSet::new(),
        };
        self.roles.insert(state.role.id, state);
        Ok(())
    }

    /// Returns the roles with their counters, by id.
    pub fn roles(&self) -> impl Iterator<Item = (&Role, &RoleStatus)> {
        self.roles
            .values()
            .map(|state| (&state.role, &state.status))
    }

    /// Returns the counters of a role.
    #[must_use]
    pub fn status(&self, role: RoleId) -> Option<&RoleStatus> {
        self.roles.get(&role).map(|state| &state.status)
    }

    /// Returns the number of the role's containers that are asked for.
    #[must_use]
    pub fn requested(&self, role: RoleId) -> u32 {
        self.outstanding.requested(role)
    }

    /// Returns the known nodes with their entries.
    #[must_use]
    pub const fn nodes(&self) -> &NodeMap {
        &self.nodes
    }

    /// Returns the number of outstanding asks.
    #[must_use]
    pub fn outstanding_len(&self) -> usize {
        self.outstanding.len()
    }

    /// Returns the outstanding asks in the order of their requests, each with the time of the
    /// request and, if the ask is going to be relaxed, the time at which it may be.
    pub fn outstanding(&self) -> impl Iterator<Item = (Ask, MonoMillis, Option<MonoMillis>)> {
        let requests = self.outstanding.iter();
        requests.filter_map(|request| {
            let ask = self.ask(request.id)?;
            Some((ask, request.requested_at, request.deadline()))
        })
    }

    /// Returns the events that changed nothing.
    #[must_use]
    pub const fn ignored(&self) -> IgnoredEvents {
        self.ignored
    }

    /// Returns the time until which nothing changes by itself; `None` if only an event can change
    /// anything.
    #[must_use]
    pub fn next_deadline(&self) -> Option<MonoMillis> {
        // A request is escalated after its deadline, not at it.
        let escalation = self.outstanding.next_deadline().map(|at| at + 1);
        [escalation, self.next_reset].into_iter().flatten().min()
    }

    /// Returns the time of a last use that happens now.
    fn used_at(&mut self, now: Now) -> EpochMillis {
        self.wall = self.wall.max(now.wall);
        self.wall
    }

    fn status_mut(&mut self, role: RoleId) -> Option<&mut RoleStatus> {
        self.roles.get_mut(&role).map(|state| &mut state.status)
    }

    fn set_dirty(&mut self) {
        if self.life != Life::TornDown {
            self.save.changes += 1;
        }
    }
}

#[cfg(test)]
mod tests;
