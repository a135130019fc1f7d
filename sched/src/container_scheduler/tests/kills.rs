use super::*;
use crate::action::KillReason;
use crate::container_state::Ending;

fn stop(number: i64) -> Event {
    Event::Kill {
        id: id(number),
        reason: KillReason::ApplicationMaster,
    }
}

/// Returns the text of each diagnostics piece, without its stamp.
fn pieces(node: &Node, number: i64) -> Vec<String> {
    let diagnostics = node.view(number).diagnostics;
    diagnostics
        .lines()
        .map(|line| line.split_once(']').unwrap().1.to_owned())
        .collect()
}

#[test]
fn a_stop_terminates_and_after_the_delay_kills() {
    let mut node = Node::new(100);
    node.run(guaranteed(1, 10));
    assert_eq!(node.feed(stop(1)), [Action::Terminate(id(1))]);
    assert_eq!(node.scheduler.next_deadline(), Some(MonoMillis(250)));
    node.advance(249);
    assert_eq!(node.feed(Event::Tick), []);
    node.advance(1);
    assert_eq!(node.feed(Event::Tick), [Action::ForceKill(id(1))]);
    assert_eq!(node.scheduler.next_deadline(), None);
    assert_eq!(node.exit(1, 137), [Action::CleanUp(id(1))]);
    assert_eq!(
        node.completion(1).exit_status,
        ContainerExitStatus::KILLED_BY_APPMASTER
    );
}

#[test]
fn a_stop_during_a_restart_does_not_postpone_the_kill() {
    let mut node = Node::new(100);
    node.run(guaranteed(1, 10));
    node.feed(Event::Restart(id(1)));
    node.advance(240);
    assert_eq!(node.feed(stop(1)), [Action::Terminate(id(1))]);
    node.advance(10);
    assert_eq!(node.feed(Event::Tick), [Action::ForceKill(id(1))]);
    assert_eq!(node.scheduler.next_deadline(), None);
}

#[test]
fn without_a_delay_the_kill_comes_at_once() {
    let mut node = Node::with(
        ContainerSchedulerConfig {
            sigkill_delay_ms: 0,
            ..CONFIG
        },
        100,
    );
    node.run(guaranteed(1, 10));
    assert_eq!(node.feed(stop(1)), [Action::ForceKill(id(1))]);
    assert_eq!(node.scheduler.next_deadline(), None);
}

#[test]
fn a_process_that_ends_in_time_is_not_killed() {
    let mut node = Node::new(100);
    node.run(guaranteed(1, 10));
    node.feed(stop(1));
    node.exit(1, 143);
    node.advance(1_000);
    assert_eq!(node.feed(Event::Tick), []);
}

#[test]
fn the_status_of_the_kill_is_seen_at_once() {
    let mut node = Node::new(100);
    node.run(guaranteed(1, 10));
    assert_eq!(node.view(1).exit_status, ContainerExitStatus::INVALID);
    node.feed(stop(1));
    assert_eq!(
        node.view(1).exit_status,
        ContainerExitStatus::KILLED_BY_APPMASTER
    );
    assert_eq!(node.state(1).rest_state(), "KILLING");
}

#[test]
fn a_process_that_ends_by_itself_while_it_is_killed_tells_its_own_status() {
    for (status, ending) in [(0, Ending::Succeeded), (7, Ending::Failed)] {
        let mut node = Node::new(100);
        node.run(guaranteed(1, 10));
        node.feed(stop(1));
        node.exit(1, status);
        assert_eq!(node.state(1), ContainerState::Completing(ending));
        assert_eq!(node.completion(1).exit_status, ContainerExitStatus(status));
    }
}

#[test]
fn the_first_of_two_kills_names_the_cause() {
    let mut node = Node::new(100);
    node.run(guaranteed(1, 10));
    node.feed(stop(1));
    let second = Event::Kill {
        id: id(1),
        reason: KillReason::ResourceManager,
    };
    assert_eq!(node.feed(second.clone()), []);
    node.exit(1, 143);
    assert_eq!(node.feed(second.clone()), []);
    assert_eq!(
        node.completion(1).exit_status,
        ContainerExitStatus::KILLED_BY_APPMASTER
    );
    assert_eq!(node.feed(second), []);
}

#[test]
fn each_reason_has_hadoops_status_and_text() {
    let cases = [
        (
            KillReason::ApplicationMaster,
            -105,
            "Container killed by the ApplicationMaster.",
        ),
        (
            KillReason::ResourceManager,
            -106,
            "Container Killed by ResourceManager",
        ),
        (
            KillReason::ApplicationFinished,
            -107,
            "Container killed on application-finish event: Application killed by ResourceManager",
        ),
        (
            KillReason::ApplicationNotRunning,
            -107,
            "Application no longer running.",
        ),
        (
            KillReason::Shutdown,
            -107,
            "Container killed on application-finish event: Application killed on shutdown",
        ),
    ];
    for (reason, status, text) in cases {
        let mut node = Node::new(100);
        node.run(guaranteed(1, 10));
        node.feed(Event::Kill { id: id(1), reason });
        assert_eq!(pieces(&node, 1), [text]);
        node.exit(1, 143);
        assert_eq!(node.completion(1).exit_status, ContainerExitStatus(status));
    }
}

#[test]
fn a_container_killed_while_it_localizes_is_cleaned_up_at_once() {
    let mut node = Node::new(100);
    node.feed(Event::Start(guaranteed(1, 10)));
    assert_eq!(node.feed(stop(1)), [Action::CleanUp(id(1))]);
    assert_eq!(
        pieces(&node, 1),
        [
            "Container killed by the ApplicationMaster.",
            "Container is killed before being launched."
        ]
    );
    assert_eq!(node.feed(Event::Localized(id(1))), []);
    assert_eq!(
        node.completion(1).exit_status,
        ContainerExitStatus::KILLED_BY_APPMASTER
    );
}

#[test]
fn a_container_killed_in_the_queue_is_reported_as_never_launched() {
    let mut node = Node::new(100);
    node.run(guaranteed(1, 100));
    node.arrive(guaranteed(2, 100));
    assert_eq!(node.feed(stop(2)), [Action::CleanUp(id(2))]);
    assert_eq!(
        pieces(&node, 2),
        [
            "Container killed by the ApplicationMaster.",
            "Container terminated before launch."
        ]
    );
    assert_eq!(node.waiting(), Vec::<i64>::new());
}

#[test]
fn a_launch_that_is_not_answered_is_terminated_at_once() {
    let mut node = Node::new(100);
    node.arrive(guaranteed(1, 10));
    assert_eq!(node.feed(stop(1)), [Action::Terminate(id(1))]);
    let failed = Event::LaunchFailed {
        id: id(1),
        status: ContainerExitStatus::TERMINATED,
        diagnostics: "Container terminated before launch.".to_owned(),
    };
    assert_eq!(node.feed(failed), [Action::CleanUp(id(1))]);
    assert_eq!(
        node.completion(1).exit_status,
        ContainerExitStatus::KILLED_BY_APPMASTER
    );
    assert_eq!(
        pieces(&node, 1).last().unwrap(),
        "Container terminated before launch."
    );
}

#[test]
fn a_process_that_was_made_after_its_kill_is_waited_for() {
    let mut node = Node::new(100);
    node.arrive(guaranteed(1, 10));
    node.feed(stop(1));
    assert_eq!(node.feed(Event::Launched(id(1))), []);
    assert_eq!(node.scheduler.allocated(), Resource::new(10, 1));
    assert_eq!(node.exit(1, 143), [Action::CleanUp(id(1))]);
    assert_eq!(node.scheduler.allocated(), Resource::default());
}

#[test]
fn killing_an_application_starts_none_of_its_own_containers() {
    let mut node = Node::new(100);
    node.run(opportunistic(1, 60));
    node.arrive(opportunistic(2, 50));
    node.arrive(opportunistic(3, 40));
    let mut other = opportunistic(4, 40);
    other.id.attempt.application_id.id = 2;
    node.arrive(other);
    let application = id(1).application_id();
    let actions = node.feed(Event::KillApplication {
        id: application,
        reason: KillReason::ApplicationFinished,
    });
    let launches: Vec<_> = actions
        .iter()
        .filter(|action| matches!(action, Action::Launch(_)))
        .collect();
    assert_eq!(launches, [&Action::Launch(other.id)]);
    assert_eq!(node.state(1), ContainerState::Killing { holds_room: true });
}

#[test]
fn killing_an_application_without_containers_does_nothing() {
    let mut node = Node::new(100);
    let id = ApplicationId::new(9, 9);
    assert_eq!(
        node.feed(Event::KillApplication {
            id,
            reason: KillReason::ApplicationFinished
        }),
        []
    );
}

#[test]
fn an_unknown_container_cannot_be_killed() {
    let mut node = Node::new(100);
    assert_eq!(
        node.try_feed(stop(1)),
        Err(Refusal::UnknownContainer(id(1)))
    );
}

#[test]
fn an_exit_without_a_signal_has_no_diagnostics_of_one() {
    let mut node = Node::new(100);
    node.run(guaranteed(1, 10));
    node.exit(1, 1);
    assert!(!node.view(1).diagnostics.contains("signal"));
}

#[test]
fn a_signal_from_outside_is_a_failure_with_its_own_diagnostics() {
    let mut node = Node::new(100);
    node.run(guaranteed(1, 10));
    let exited = Event::Exited {
        id: id(1),
        status: ContainerExitStatus::FORCE_KILLED,
        diagnostics: "Container killed on request. Exit code is 137".to_owned(),
    };
    node.feed(exited);
    assert_eq!(
        pieces(&node, 1),
        [
            "Container killed on request. Exit code is 137",
            "Killed by external signal"
        ]
    );
    assert_eq!(node.state(1).rest_state(), "EXITED_WITH_FAILURE");
    assert_eq!(
        node.completion(1).exit_status,
        ContainerExitStatus::FORCE_KILLED
    );
}

#[test]
fn diagnostics_are_stamped_in_local_time_and_bounded() {
    let config = ContainerSchedulerConfig {
        diagnostics_max_chars: 60,
        utc_offset_s: 3_600,
        ..CONFIG
    };
    let mut node = Node::with(config, 100);
    node.run(guaranteed(1, 10));
    node.feed(stop(1));
    assert!(
        node.view(1)
            .diagnostics
            .contains("01:00:00.000]Container killed")
    );
    node.feed(Event::UtcOffset { seconds: -3_600 });
    let status = ContainerExitStatus(1);
    node.feed(Event::Exited {
        id: id(1),
        status,
        diagnostics: "it broke".to_owned(),
    });
    let diagnostics = node.view(1).diagnostics;
    assert_eq!(diagnostics.chars().count(), 60);
    assert!(
        diagnostics.ends_with("[1969-12-31 23:00:00.000]it broke\n"),
        "{diagnostics}"
    );
}
