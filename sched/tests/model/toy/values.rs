//! Values of the toy scheduler: its decisions, containers and sums.

use super::ordering::Basis;
use records::{ContainerExitStatus, ContainerId, ExecutionType, Resource};
use sched::{Action, ContainerSpec, Note, PauseEnd, RejectReason, RunProfile};

/// Predicted actions, without informative notes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    Localize(ContainerId),
    Launch(ContainerId),
    Resume(ContainerId),
    Evict(ContainerId),
    Pause(ContainerId),
    Terminate(ContainerId),
    ForceKill(ContainerId),
    ApplyLimits(ContainerSpec),
    CleanUp(ContainerId),
    Completed(ContainerId, ContainerExitStatus),
    Shed(ContainerId),
    Reject(ContainerId, RejectReason),
    EndPause(ContainerId, PauseEnd),
    Retry(ContainerId, ContainerExitStatus),
    Pass(ContainerId, ContainerId),
}

impl Decision {
    pub(crate) fn of(action: &Action) -> Option<Self> {
        Some(match action {
            Action::Localize(id) => Self::Localize(*id),
            Action::Launch(id) => Self::Launch(*id),
            Action::Pause(id) => Self::Pause(*id),
            Action::Resume(id) => Self::Resume(*id),
            Action::Terminate(id) => Self::Terminate(*id),
            Action::ForceKill(id) => Self::ForceKill(*id),
            Action::ApplyLimits(spec) => Self::ApplyLimits(*spec),
            Action::CleanUp(id) => Self::CleanUp(*id),
            Action::Completed(completion) => Self::Completed(completion.id, completion.exit_status),
            Action::Note(Note::Evicted { id, .. }) => Self::Evict(*id),
            Action::Note(Note::Shed { id, .. }) => Self::Shed(*id),
            Action::Note(Note::Rejected { id, reason }) => Self::Reject(*id, *reason),
            Action::Note(Note::PausedKilled { id, reason, .. }) => Self::EndPause(*id, *reason),
            Action::Note(Note::Retried { id, status, .. }) => Self::Retry(*id, *status),
            Action::Note(Note::Passed { id, passed, .. }) => Self::Pass(*id, *passed),
            Action::RollBack(_) => return None,
            Action::Note(
                Note::Queued { .. }
                | Note::Started { .. }
                | Note::LargerThanNode { .. }
                | Note::Drained { .. }
                | Note::Promoted(_)
                | Note::Demoted(_),
            ) => return None,
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Localizing,
    Waiting { place: u64, frozen: Option<Frozen> },
    Launching { order: u64 },
    Running { order: u64 },
    Resuming { order: u64 },
    Freezing,
    Relaunching { order: u64, at: u64 },
    Restarting,
    Killing { frozen: bool },
    Gone { killed: bool },
    Ended,
    Done,
}

impl Phase {
    /// Returns whether the container has a process, or is about to.
    pub(super) fn has_process(self) -> bool {
        match self {
            Self::Launching { .. }
            | Self::Running { .. }
            | Self::Resuming { .. }
            | Self::Freezing
            | Self::Restarting
            | Self::Killing { .. } => true,
            Self::Waiting { frozen, .. } => frozen.is_some(),
            Self::Localizing
            | Self::Relaunching { .. }
            | Self::Gone { .. }
            | Self::Ended
            | Self::Done => false,
        }
    }
}

/// Start of a pause, and the memory held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Frozen {
    pub(super) since: u64,
    pub(super) held_mb: u64,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct ToyContainer {
    pub(crate) spec: ContainerSpec,
    pub(crate) phase: Phase,
    pub(crate) status: ContainerExitStatus,
    pub(super) forget: bool,
    pub(super) force_kill_at: Option<u64>,
    /// Time of joining the queue without having started.
    pub(super) joined_ms: u64,
    /// Parts of the place under an order that uses expected runs, while it waits unstarted.
    pub(super) basis: Option<Basis>,
    /// User, command and hint.
    pub(super) profile: Option<RunProfile>,
    /// Time until which others may pass it because it does not fit.
    pub(super) passed_until: Option<u64>,
    /// Milliseconds that it ran, without the run that is under way.
    pub(super) ran_ms: u64,
    pub(super) runs_since: Option<u64>,
    /// Retries that the policy grants, and those that it still grants.
    pub(super) retries: u32,
    pub(super) retries_left: u32,
}

impl ToyContainer {
    pub(super) fn is(&self, kind: ExecutionType) -> bool {
        self.spec.execution_type == kind
    }

    pub(crate) fn holds_room(&self) -> bool {
        match self.phase {
            Phase::Launching { .. }
            | Phase::Running { .. }
            | Phase::Resuming { .. }
            | Phase::Freezing
            | Phase::Relaunching { .. }
            | Phase::Restarting
            | Phase::Killing { frozen: false } => true,
            Phase::Localizing
            | Phase::Waiting { .. }
            | Phase::Killing { frozen: true }
            | Phase::Gone { .. }
            | Phase::Ended
            | Phase::Done => false,
        }
    }

    pub(super) fn order(&self) -> Option<u64> {
        if let Phase::Launching { order }
        | Phase::Running { order }
        | Phase::Resuming { order }
        | Phase::Relaunching { order, .. } = self.phase
        {
            Some(order)
        } else {
            None
        }
    }

    pub(crate) fn place(&self) -> Option<u64> {
        if let Phase::Waiting { place, .. } = self.phase {
            Some(place)
        } else {
            None
        }
    }

    pub(super) fn frozen(&self) -> Option<Frozen> {
        if let Phase::Waiting { frozen, .. } = self.phase {
            frozen
        } else {
            None
        }
    }

    pub(crate) fn frozen_mb(&self) -> Option<u64> {
        self.frozen().map(|frozen| frozen.held_mb)
    }

    pub(super) fn is_frozen(&self) -> bool {
        self.frozen().is_some()
    }
}

/// Memory and cores, wide enough for any sum of a test.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sum {
    pub(super) memory_mb: i64,
    pub(super) vcores: i64,
}

impl Sum {
    pub(crate) fn of(resource: Resource) -> Self {
        let memory_mb = i64::try_from(resource.memory_mb).unwrap();
        Self {
            memory_mb,
            vcores: i64::from(resource.vcores),
        }
    }

    pub(crate) fn plus(self, other: Self) -> Self {
        let memory_mb = self.memory_mb + other.memory_mb;
        Self {
            memory_mb,
            vcores: self.vcores + other.vcores,
        }
    }

    pub(crate) fn fits(self, node: Resource) -> bool {
        let node = Self::of(node);
        self.memory_mb <= node.memory_mb && self.vcores <= node.vcores
    }
}
