//! The life of one container: its states, the one function that leads from each to the next, and how Hadoop names them.

use records::{ContainerState as WireState, ContainerSubState};

/// Where a container is in its life.
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
/// `Gone` is for those that had a process, and may be left out.
/// `Resuming` may also go to `Pausing`, when the room is wanted again before the thaw is answered. `place` and `order`
/// count up over all containers: a smaller one came earlier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContainerState {
    /// What it needs is being brought to the local disk.
    Localizing,
    /// It is ready and waits for room.
    Queued {
        /// Its place among those that wait.
        place: u64,
    },
    /// Its launch is ordered and not answered. It holds room from here on.
    Launching {
        /// Its place in the order of starts.
        order: u64,
    },
    /// Its process exists.
    Running {
        /// Its place in the order of starts.
        order: u64,
    },
    /// It is being frozen. It holds room until it is.
    Pausing,
    /// It is frozen, holds no room and waits for some.
    Paused {
        /// Its place among those that wait.
        place: u64,
        /// Mebibytes that its processes hold.
        held_mb: u64,
    },
    /// It is being thawed.
    Resuming {
        /// Its place in the order of starts.
        order: u64,
    },
    /// Its process is being ended.
    Killing {
        /// Whether room comes back when it ends: false when it was frozen.
        holds_room: bool,
    },
    /// It has no process any more. What there is to say of its end is being found out.
    Gone {
        /// Its end had been ordered.
        killed: bool,
    },
    /// It has no process, or none any more. What it used is being given back.
    Completing(Ending),
    /// It is finished and its exit status is final.
    Done(Ending),
}

/// How a container came to its end. Hadoop keeps these apart as states.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Its process ended with 0.
    Succeeded,
    /// Its process ended with something else, or could not be made.
    Failed,
    /// It was ended on request.
    Killed,
    /// Something it needs could not be had.
    LocalizationFailed,
}

/// What moves a container from one state to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// It joins the end of the queue of its type.
    Enqueue { place: u64 },
    /// There is room for it.
    Start { order: u64 },
    /// Its process exists.
    Launched,
    /// Its room is wanted, it may keep its process.
    Pause,
    /// It is frozen.
    Paused { place: u64, held_mb: u64 },
    /// It is thawed.
    Resumed,
    /// Its process must end.
    Kill,
    /// It has no process any more.
    Gone,
    /// It has no process, or none any more.
    End(Ending),
    /// Nothing of it is left.
    CleanedUp,
}

/// A step that the state does not allow: a fault in this crate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a container cannot take the step {step:?} in state {state:?}")]
pub(crate) struct IllegalStep {
    state: ContainerState,
    step: Step,
}

impl ContainerState {
    /// The state after `step`. Lists every legal pair.
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

    /// Whether its allocation counts as used on the node.
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

    /// Whether the room that it holds comes back without a further decision.
    #[must_use]
    pub const fn gives_room_back(self) -> bool {
        matches!(self, Self::Pausing | Self::Killing { holds_room: true })
    }

    /// Its place in the order of starts, if it can still be evicted to make room.
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

    /// Whether there is work done that freezing would keep.
    #[must_use]
    pub const fn can_pause(self) -> bool {
        matches!(self, Self::Running { .. } | Self::Resuming { .. })
    }

    /// Whether it waits for room, and at which place.
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

    /// Mebibytes that its frozen processes hold; `None` unless it is frozen.
    #[must_use]
    pub const fn frozen_mb(self) -> Option<u64> {
        if let Self::Paused { held_mb, .. } = self {
            Some(held_mb)
        } else {
            None
        }
    }

    /// Whether limits on its processes are in force, or are about to be, so that a change of size must be applied.
    #[must_use]
    pub const fn has_limits(self) -> bool {
        self.can_evict().is_some() || matches!(self, Self::Pausing | Self::Paused { .. })
    }

    /// Whether it is past its end: nothing can be ordered of it any more.
    #[must_use]
    pub const fn has_ended(self) -> bool {
        matches!(
            self,
            Self::Gone { .. } | Self::Completing(_) | Self::Done(_)
        )
    }

    /// Hadoop's name of the state, as in its NodeManager's REST pages.
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

    /// The coarse state in heartbeats and status replies.
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

    /// The fine state beside [`Self::container_state`].
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
            assert!(!state.gives_room_back() || state.holds_room(), "{state:?}");
            assert!(
                !(state.gives_room_back() && state.can_evict().is_some()),
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
