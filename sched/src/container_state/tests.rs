//! Properties of the transition function, and of the names that Hadoop sees.

use super::*;

const STATES: [ContainerState; 21] = [
    ContainerState::Localizing,
    ContainerState::Queued {
        place: QueuePlace::fifo(1),
    },
    ContainerState::Launching { order: 2 },
    ContainerState::Running { order: 2 },
    ContainerState::Pausing,
    ContainerState::Paused {
        place: QueuePlace::fifo(1),
        held_mb: 5,
    },
    ContainerState::Resuming { order: 2 },
    ContainerState::Relaunching { order: 2 },
    ContainerState::Restarting,
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
const STEPS: [Step; 17] = [
    Step::Enqueue {
        place: QueuePlace::fifo(3),
    },
    Step::Start { order: 3 },
    Step::Launched,
    Step::Pause,
    Step::Paused {
        place: QueuePlace::fifo(3),
        held_mb: 5,
    },
    Step::Resumed,
    Step::AwaitRetry { order: 3 },
    Step::Relaunch,
    Step::Restart,
    Step::Requeue {
        place: QueuePlace::fifo(3),
    },
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
            place: QueuePlace::fifo(1),
            held_mb: 5,
        },
        Step::Start { order: 2 },
        Step::Resumed,
        Step::Pause,
        Step::Paused {
            place: QueuePlace::fifo(3),
            held_mb: 7,
        },
    ]
    .into_iter()
    .try_fold(ContainerState::Running { order: 0 }, ContainerState::after);
    assert_eq!(
        paused_twice,
        Ok(ContainerState::Paused {
            place: QueuePlace::fifo(3),
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
        "step Launched is illegal in state Localizing"
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
fn hadoop_sees_queued_launching_and_relaunching_containers_as_scheduled() {
    for state in [
        ContainerState::Localizing,
        ContainerState::Queued {
            place: QueuePlace::fifo(0),
        },
        ContainerState::Launching { order: 0 },
        ContainerState::Relaunching { order: 0 },
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
            place: QueuePlace::fifo(0),
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
