//! State machine of one container: its states, the transition function, and Hadoop's names.

#[cfg(test)]
mod tests;

use records::{ContainerState as WireState, ContainerSubState};
use serde::{Deserialize, Serialize};

use crate::queue_order::QueuePlace;

/// State of a container, from localization to completion.
///
/// ```text
///                               ┌──── Relaunching (failed; its retry policy starts it again)
///                               ▼           ▲
///  Localizing ──▶ Queued ──▶ Launching ──▶ Running ──▶ Pausing ──▶ Paused
///      │            │            │          │   ▲         │        │   │
///      │            │            │          │   └─ Resuming ◀──────┘   │
///      │            │            │          │         │      start     │
///      │            │            └──────────┴────┬────┴────────────────┤
///      │            │                            │ kill                │
///      │            │                            ▼                     │
///      │            │        process gone     Killing                  │
///      │            │             │              │                     │
///      └────────────┴─────────────┴──────┬───────┴─────────────────────┘
///                                        ▼
///                             (Gone ──▶) Completing ──▶ Done
/// ```
///
/// `Gone` applies only to containers that had a process, and is optional. `Relaunching` is entered
/// from every state with a process that is not being killed, and may be ended by a kill; a frozen
/// container gets back to `Queued` instead. `Restarting`, from `Running`, leads to `Queued` or, by
/// a kill, to `Killing`. `Resuming` may also lead to `Pausing`, when the container becomes a victim
/// again before the thaw is answered. `order` counts up over all containers: a smaller number is an
/// earlier start. A smaller `place` starts earlier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ContainerState {
    /// The container's resources are being fetched to the local disk.
    Localizing,
    /// Localized; waits for the node's resources.
    Queued {
        /// Place among the waiting containers.
        place: QueuePlace,
    },
    /// Launch ordered and not answered. Holds an allocation from here on.
    Launching {
        /// Place in the order of starts.
        order: u64,
    },
    /// Launched: a process exists.
    Running {
        /// Place in the order of starts.
        order: u64,
    },
    /// Being frozen. Holds its allocation until frozen.
    Pausing,
    /// Frozen. Holds no allocation and waits for one.
    Paused {
        /// Place among the waiting containers.
        place: QueuePlace,
        /// Memory that its processes hold, in mebibytes.
        held_mb: u64,
    },
    /// Being thawed. Holds an allocation again.
    Resuming {
        /// Place in the order of starts.
        order: u64,
    },
    /// The process failed, and the container waits for its next launch. Keeps its allocation.
    Relaunching {
        /// Place in the order of starts.
        order: u64,
    },
    /// The process is being ended so that the container can be launched again, with another launch
    /// context or the same.
    Restarting,
    /// Being killed: signals are sent and the exit is awaited.
    Killing {
        /// Whether the end frees an allocation: false if the container was frozen.
        holds_room: bool,
    },
    /// No process is left. Exit status and output are being read.
    Gone {
        /// Whether a kill had been ordered.
        killed: bool,
    },
    /// No process is left, or none was created. Directories and cache references are being
    /// released.
    Completing(Ending),
    /// Finished, with a final exit status.
    Done(Ending),
}

/// Result of a container. Hadoop represents the results as separate states.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Ending {
    /// The process exited with 0.
    Succeeded,
    /// The process exited with another status, or could not be created.
    Failed,
    /// The container was killed.
    Killed,
    /// A resource of the container could not be localized.
    LocalizationFailed,
}

/// Group of states that most events treat alike. [`ContainerState::phase`] assigns every state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Localizing or queued for the first start: no process was ordered.
    Unstarted,
    /// Launch ordered and no end: has, or is about to have, processes.
    Active,
    /// Failed and about to be launched again: has no process.
    Relaunching,
    /// About to be launched again: its processes are being ended.
    Restarting,
    /// Kill ordered and processes not yet gone.
    Killing,
    /// Processes gone and exit status not yet known.
    Gone,
    /// Ended: only clean-up is left, or nothing.
    Ended,
}

/// Input of the state machine: the transition to take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Joins the end of the queue of its type.
    Enqueue { place: QueuePlace },
    /// Is allocated resources and starts or resumes.
    Start { order: u64 },
    /// The process exists.
    Launched,
    /// Is evicted, but keeps its process.
    Pause,
    /// The container is frozen.
    Paused { place: QueuePlace, held_mb: u64 },
    /// The container is thawed.
    Resumed,
    /// Failed, and is launched again later.
    AwaitRetry { order: u64 },
    /// Is launched again.
    Relaunch,
    /// Must end its processes to be launched again.
    Restart,
    /// Has no process any more, and waits for resources to start again.
    Requeue { place: QueuePlace },
    /// Must end its processes.
    Kill,
    /// No process is left.
    Gone,
    /// The container has no process, or none any more, and its result is known.
    End(Ending),
    /// The clean-up is complete.
    CleanedUp,
}

/// Error for a step that the state does not allow: a defect in this crate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("step {step:?} is illegal in state {state:?}")]
pub(crate) struct IllegalStep {
    state: ContainerState,
    step: Step,
}

impl ContainerState {
    /// Returns the phase that the state belongs to.
    pub(crate) const fn phase(self) -> Phase {
        match self {
            Self::Localizing | Self::Queued { .. } => Phase::Unstarted,
            Self::Launching { .. }
            | Self::Running { .. }
            | Self::Pausing
            | Self::Paused { .. }
            | Self::Resuming { .. } => Phase::Active,
            Self::Relaunching { .. } => Phase::Relaunching,
            Self::Restarting => Phase::Restarting,
            Self::Killing { .. } => Phase::Killing,
            Self::Gone { .. } => Phase::Gone,
            Self::Completing(_) | Self::Done(_) => Phase::Ended,
        }
    }

    /// Returns the state after `step`. Lists every legal pair.
    pub(crate) fn after(self, step: Step) -> Result<Self, IllegalStep> {
        use ContainerState as S;
        Ok(match (self, step) {
            (S::Localizing | S::Queued { .. }, Step::Enqueue { place }) => S::Queued { place },
            (S::Paused { held_mb, .. }, Step::Enqueue { place }) => S::Paused { place, held_mb },
            (S::Queued { .. }, Step::Start { order }) => S::Launching { order },
            (S::Paused { .. }, Step::Start { order }) => S::Resuming { order },
            (S::Launching { order }, Step::Launched) => S::Running { order },
            (S::Running { .. } | S::Resuming { .. }, Step::Pause) => S::Pausing,
            (S::Pausing, Step::Paused { place, held_mb }) => S::Paused { place, held_mb },
            (S::Resuming { order }, Step::Resumed) => S::Running { order },
            (S::Relaunching { order }, Step::Relaunch) => S::Launching { order },
            (S::Running { .. }, Step::Restart) => S::Restarting,
            (S::Restarting, Step::Kill) => S::Killing { holds_room: true },
            (state, Step::Requeue { place })
                if matches!(state.phase(), Phase::Active | Phase::Restarting) =>
            {
                S::Queued { place }
            }
            (state, Step::AwaitRetry { order })
                if state.phase() == Phase::Active && state.holds_room() =>
            {
                S::Relaunching { order }
            }
            (state, Step::Kill) if state.phase() == Phase::Active => S::Killing {
                holds_room: state.holds_room(),
            },
            (state, Step::Gone) if state.phase() == Phase::Active => S::Gone { killed: false },
            (S::Killing { .. }, Step::Gone) => S::Gone { killed: true },
            (S::Localizing, Step::End(ending @ (Ending::Killed | Ending::LocalizationFailed)))
            | (S::Queued { .. } | S::Relaunching { .. }, Step::End(ending @ Ending::Killed))
            | (
                S::Gone { killed: false },
                Step::End(ending @ (Ending::Succeeded | Ending::Failed)),
            )
            | (
                S::Killing { .. } | S::Gone { killed: true },
                Step::End(ending @ (Ending::Succeeded | Ending::Failed | Ending::Killed)),
            ) => S::Completing(ending),
            (state, Step::End(ending @ (Ending::Succeeded | Ending::Failed)))
                if state.phase() == Phase::Active =>
            {
                S::Completing(ending)
            }
            (S::Completing(ending), Step::CleanedUp) => S::Done(ending),
            (state, step) => return Err(IllegalStep { state, step }),
        })
    }

    /// Returns whether the container's allocation counts as used on the node.
    #[must_use]
    pub const fn holds_room(self) -> bool {
        match self.phase() {
            Phase::Active => !matches!(self, Self::Paused { .. }),
            Phase::Relaunching | Phase::Restarting => true,
            Phase::Killing => matches!(self, Self::Killing { holds_room: true }),
            Phase::Unstarted | Phase::Gone | Phase::Ended => false,
        }
    }

    /// Returns whether the container frees its allocation without a further decision.
    #[must_use]
    pub const fn frees_room(self) -> bool {
        matches!(
            self,
            Self::Pausing | Self::Restarting | Self::Killing { holds_room: true }
        )
    }

    /// Returns the place in the order of starts, if the container can still be evicted.
    #[must_use]
    pub const fn can_evict(self) -> Option<u64> {
        if let Self::Launching { order }
        | Self::Running { order }
        | Self::Resuming { order }
        | Self::Relaunching { order } = self
        {
            Some(order)
        } else {
            None
        }
    }

    /// Returns whether the container has done work that freezing would preserve.
    #[must_use]
    pub const fn can_pause(self) -> bool {
        matches!(self, Self::Running { .. } | Self::Resuming { .. })
    }

    /// Returns the place in the queue, if the container waits for resources.
    #[must_use]
    pub const fn waits_at(self) -> Option<QueuePlace> {
        if let Self::Queued { place } | Self::Paused { place, .. } = self {
            Some(place)
        } else {
            None
        }
    }

    /// Returns the memory that the frozen processes hold, in mebibytes; `None` unless frozen.
    #[must_use]
    pub const fn frozen_mb(self) -> Option<u64> {
        if let Self::Paused { held_mb, .. } = self {
            Some(held_mb)
        } else {
            None
        }
    }

    /// Returns whether limits on the container's processes are in force, or are about to be, so
    /// that a change of size must be applied.
    #[must_use]
    pub const fn has_limits(self) -> bool {
        matches!(self.phase(), Phase::Active)
    }

    /// Returns whether the container has ended, so that no further action can be ordered for it.
    #[must_use]
    pub const fn has_ended(self) -> bool {
        matches!(self.phase(), Phase::Gone | Phase::Ended)
    }

    /// Returns Hadoop's name of the state, as in its NodeManager's REST responses.
    #[must_use]
    pub const fn rest_state(self) -> &'static str {
        match self {
            Self::Localizing => "LOCALIZING",
            Self::Queued { .. } | Self::Launching { .. } => "SCHEDULED",
            Self::Running { .. } | Self::Gone { killed: false } => "RUNNING",
            Self::Pausing => "PAUSING",
            Self::Paused { .. } => "PAUSED",
            Self::Resuming { .. } => "RESUMING",
            Self::Relaunching { .. } => "RELAUNCHING",
            Self::Restarting => "REINITIALIZING_AWAITING_KILL",
            Self::Killing { .. } | Self::Gone { killed: true } => "KILLING",
            Self::Completing(Ending::Succeeded) => "EXITED_WITH_SUCCESS",
            Self::Completing(Ending::Failed) => "EXITED_WITH_FAILURE",
            Self::Completing(Ending::Killed) => "CONTAINER_CLEANEDUP_AFTER_KILL",
            Self::Completing(Ending::LocalizationFailed) => "LOCALIZATION_FAILED",
            Self::Done(_) => "DONE",
        }
    }

    /// Returns the coarse state in heartbeats and status replies.
    #[must_use]
    pub const fn container_state(self) -> WireState {
        if let Self::Done(_) = self {
            WireState::Complete
        } else {
            WireState::Running
        }
    }

    /// Returns the fine state that goes with [`Self::container_state`].
    #[must_use]
    pub const fn sub_state(self) -> ContainerSubState {
        match self {
            Self::Localizing
            | Self::Queued { .. }
            | Self::Launching { .. }
            | Self::Relaunching { .. }
            | Self::Restarting => ContainerSubState::Scheduled,
            Self::Running { .. } | Self::Pausing | Self::Killing { .. } | Self::Gone { .. } => {
                ContainerSubState::Running
            }
            Self::Paused { .. } | Self::Resuming { .. } => ContainerSubState::Paused,
            Self::Completing(_) => ContainerSubState::Completing,
            Self::Done(_) => ContainerSubState::Done,
        }
    }
}
