//! State machine of one container: its states, the transition function, and Hadoop's names.

use records::{ContainerState as WireState, ContainerSubState};

/// State of a container, from localization to completion.
///
/// ```text
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
/// `Gone` applies only to containers that had a process, and is optional. `Resuming` may also lead
/// to `Pausing`, when the container becomes a victim again before the thaw is answered. `place` and
/// `order` count up over all containers: a smaller number is an earlier container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContainerState {
    /// The container's resources are being fetched to the local disk.
    Localizing,
    /// Localized; waits for the node's resources.
    Queued {
        /// Place among the waiting containers.
        place: u64,
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
        place: u64,
        /// Memory that its processes hold, in mebibytes.
        held_mb: u64,
    },
    /// Being thawed. Holds an allocation again.
    Resuming {
        /// Place in the order of starts.
        order: u64,
    },
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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

/// Input of the state machine: the transition to take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Joins the end of the queue of its type.
    Enqueue { place: u64 },
    /// Is allocated resources and starts or resumes.
    Start { order: u64 },
    /// The process exists.
    Launched,
    /// Is evicted, but keeps its process.
    Pause,
    /// The container is frozen.
    Paused { place: u64, held_mb: u64 },
    /// The container is thawed.
    Resumed,
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
#[error("a container cannot take the step {step:?} in state {state:?}")]
pub(crate) struct IllegalStep {
    state: ContainerState,
    step: Step,
}

impl ContainerState {
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
            (
                S::Launching { .. } | S::Running { .. } | S::Pausing | S::Resuming { .. },
                Step::Kill,
            ) => S::Killing { holds_room: true },
            (S::Paused { .. }, Step::Kill) => S::Killing { holds_room: false },
            (
                S::Launching { .. }
                | S::Running { .. }
                | S::Pausing
                | S::Paused { .. }
                | S::Resuming { .. },
                Step::Gone,
            ) => S::Gone { killed: false },
            (S::Killing { .. }, Step::Gone) => S::Gone { killed: true },
            (S::Localizing, Step::End(ending @ (Ending::Killed | Ending::LocalizationFailed)))
            | (S::Queued { .. }, Step::End(ending @ Ending::Killed))
            | (
                S::Launching { .. }
                | S::Running { .. }
                | S::Pausing
                | S::Paused { .. }
                | S::Resuming { .. }
                | S::Gone { killed: false },
                Step::End(ending @ (Ending::Succeeded | Ending::Failed)),
            )
            | (
                S::Killing { .. } | S::Gone { killed: true },
                Step::End(ending @ (Ending::Succeeded | Ending::Failed | Ending::Killed)),
            ) => S::Completing(ending),
            (S::Completing(ending), Step::CleanedUp) => S::Done(ending),
            (state, step) => return Err(IllegalStep { state, step }),
        })
    }

    /// Returns whether the container's allocation counts as used on the node.
    #[must_use]
    pub const fn holds_room(self) -> bool {
        match self {
            Self::Launching { .. }
            | Self::Running { .. }
            | Self::Pausing
            | Self::Resuming { .. }
            | Self::Killing { holds_room: true } => true,
            Self::Localizing
            | Self::Queued { .. }
            | Self::Paused { .. }
            | Self::Killing { holds_room: false }
            | Self::Gone { .. }
            | Self::Completing(_)
            | Self::Done(_) => false,
        }
    }

    /// Returns whether the container frees its allocation without a further decision.
    #[must_use]
    pub const fn frees_room(self) -> bool {
        matches!(self, Self::Pausing | Self::Killing { holds_room: true })
    }

    /// Returns the place in the order of starts, if the container can still be evicted.
    #[must_use]
    pub const fn can_evict(self) -> Option<u64> {
        match self {
            Self::Launching { order } | Self::Running { order } | Self::Resuming { order } => {
                Some(order)
            }
            Self::Localizing
            | Self::Queued { .. }
            | Self::Pausing
            | Self::Paused { .. }
            | Self::Killing { .. }
            | Self::Gone { .. }
            | Self::Completing(_)
            | Self::Done(_) => None,
        }
    }

    /// Returns whether the container has done work that freezing would preserve.
    #[must_use]
    pub const fn can_pause(self) -> bool {
        matches!(self, Self::Running { .. } | Self::Resuming { .. })
    }

    /// Returns the place in the queue, if the container waits for resources.
    #[must_use]
    pub const fn waits_at(self) -> Option<u64> {
        match self {
            Self::Queued { place } | Self::Paused { place, .. } => Some(place),
            Self::Localizing
            | Self::Launching { .. }
            | Self::Running { .. }
            | Self::Pausing
            | Self::Resuming { .. }
            | Self::Killing { .. }
            | Self::Gone { .. }
            | Self::Completing(_)
            | Self::Done(_) => None,
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
        self.can_evict().is_some() || matches!(self, Self::Pausing | Self::Paused { .. })
    }

    /// Returns whether the container has ended, so that no further action can be ordered for it.
    #[must_use]
    pub const fn has_ended(self) -> bool {
        matches!(
            self,
            Self::Gone { .. } | Self::Completing(_) | Self::Done(_)
        )
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
        match self {
            Self::Done(_) => WireState::Complete,
            Self::Localizing
            | Self::Queued { .. }
            | Self::Launching { .. }
            | Self::Running { .. }
            | Self::Pausing
            | Self::Paused { .. }
            | Self::Resuming { .. }
            | Self::Killing { .. }
            | Self::Gone { .. }
            | Self::Completing(_) => WireState::Running,
        }
    }

    /// Returns the fine state that goes with [`Self::container_state`].
    #[must_use]
    pub const fn sub_state(self) -> ContainerSubState {
        match self {
            Self::Localizing | Self::Queued { .. } | Self::Launching { .. } => {
                ContainerSubState::Scheduled
            }
            Self::Running { .. } | Self::Pausing | Self::Killing { .. } | Self::Gone { .. } => {
                ContainerSubState::Running
            }
            Self::Paused { .. } | Self::Resuming { .. } => ContainerSubState::Paused,
            Self::Completing(_) => ContainerSubState::Completing,
            Self::Done(_) => ContainerSubState::Done,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATES: [ContainerState; 19] = [
        ContainerState::Localizing,
        ContainerState::Queued { place: 1 },
        ContainerState::Launching { order: 2 },
        ContainerState::Running { order: 2 },
        ContainerState::Pausing,
        ContainerState::Paused {
            place: 1,
            held_mb: 5,
        },
        ContainerState::Resuming { order: 2 },
        ContainerState::Killing { holds_room: true },
        ContainerState::Killing { holds_room: false },
        ContainerState::Gone { killed: true },
        ContainerState::Gone { killed: false },
        ContainerState::Completing(Ending::Succeeded),
        ContainerState::Completing(Ending::Failed),
        ContainerState::Completing(Ending::Killed),
        ContainerState::Completing(Ending::LocalizationFailed),
        ContainerState::Done(Ending::Succeeded),
        ContainerState::Done(Ending::Failed),
        ContainerState::Done(Ending::Killed),
        ContainerState::Done(Ending::LocalizationFailed),
    ];
    const STEPS: [Step; 13] = [
        Step::Enqueue { place: 3 },
        Step::Start { order: 3 },
        Step::Launched,
        Step::Pause,
        Step::Paused {
            place: 3,
            held_mb: 5,
        },
        Step::Resumed,
        Step::Kill,
        Step::Gone,
        Step::End(Ending::Succeeded),
        Step::End(Ending::Failed),
        Step::End(Ending::Killed),
        Step::End(Ending::LocalizationFailed),
        Step::CleanedUp,
    ];

    #[test]
    fn only_completing_containers_become_done_and_done_ones_change_no_more() {
        for state in STATES {
            for step in STEPS {
                let after = state.after(step);
                if matches!(state, ContainerState::Done(_)) {
                    assert!(after.is_err(), "{state:?} took {step:?}");
                }
                if matches!(after, Ok(ContainerState::Done(_))) {
                    assert!(matches!(state, ContainerState::Completing(_)), "{state:?}");
                }
            }
        }
    }

    #[test]
    fn every_state_but_done_can_reach_done() {
        for start in STATES {
            let mut reached = vec![start];
            let mut next = 0;
            while let Some(&state) = reached.get(next) {
                for after in STEPS.into_iter().filter_map(|step| state.after(step).ok()) {
                    if !reached.contains(&after) {
                        reached.push(after);
                    }
                }
                next += 1;
            }
            assert!(
                reached.iter().any(|s| matches!(s, ContainerState::Done(_))),
                "{start:?}"
            );
        }
    }

    #[test]
    fn a_resumed_container_can_be_paused_again() {
        let paused_twice = [
            Step::Pause,
            Step::Paused {
                place: 1,
                held_mb: 5,
            },
            Step::Start { order: 2 },
            Step::Resumed,
            Step::Pause,
            Step::Paused {
                place: 3,
                held_mb: 7,
            },
        ]
        .into_iter()
        .try_fold(ContainerState::Running { order: 0 }, ContainerState::after);
        assert_eq!(
            paused_twice,
            Ok(ContainerState::Paused {
                place: 3,
                held_mb: 7
            })
        );
    }

    #[test]
    fn an_illegal_step_names_state_and_step() {
        let error = ContainerState::Localizing
            .after(Step::Launched)
            .unwrap_err();
        assert_eq!(
            error.to_string(),
            "a container cannot take the step Launched in state Localizing"
        );
    }

    #[test]
    fn no_container_both_waits_and_holds_room() {
        for state in STATES {
            assert!(
                !(state.waits_at().is_some() && state.holds_room()),
                "{state:?}"
            );
            assert!(!state.frees_room() || state.holds_room(), "{state:?}");
            assert!(
                !(state.frees_room() && state.can_evict().is_some()),
                "{state:?}"
            );
        }
    }

    #[test]
    fn hadoop_sees_queued_and_launching_containers_as_scheduled() {
        for state in [
            ContainerState::Localizing,
            ContainerState::Queued { place: 0 },
            ContainerState::Launching { order: 0 },
        ] {
            assert_eq!(state.container_state(), WireState::Running);
            assert_eq!(state.sub_state(), ContainerSubState::Scheduled);
        }
        assert_eq!(
            ContainerState::Launching { order: 0 }.rest_state(),
            "SCHEDULED"
        );
    }

    #[test]
    fn hadoop_sees_only_done_containers_as_complete() {
        for state in STATES {
            let complete = state.container_state() == WireState::Complete;
            assert_eq!(
                complete,
                matches!(state, ContainerState::Done(_)),
                "{state:?}"
            );
            assert_eq!(
                complete,
                state.sub_state() == ContainerSubState::Done,
                "{state:?}"
            );
        }
    }

    #[test]
    fn frozen_containers_are_seen_as_paused_until_they_run_again() {
        assert_eq!(
            ContainerState::Pausing.sub_state(),
            ContainerSubState::Running
        );
        assert_eq!(
            ContainerState::Paused {
                place: 0,
                held_mb: 0
            }
            .sub_state(),
            ContainerSubState::Paused
        );
        assert_eq!(
            ContainerState::Resuming { order: 0 }.sub_state(),
            ContainerSubState::Paused
        );
    }
}
