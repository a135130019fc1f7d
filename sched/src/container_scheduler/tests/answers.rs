use super::*;
use crate::action::KillReason;
use crate::container_state::Ending;

#[test]
fn a_normal_life_completes_once_and_is_forgotten_on_request() {
    let mut node = Node::new(100);
    node.run(guaranteed(1, 10));
    assert_eq!(node.exit(1, 0), [Action::CleanUp(id(1))]);
    assert_eq!(node.state(1), ContainerState::Completing(Ending::Succeeded));
    let execution_type = ExecutionType::Guaranteed;
    let exit_status = ContainerExitStatus::SUCCESS;
    let completed = Action::Completed(Completion {
        id: id(1),
        exit_status,
        execution_type,
    });
    assert_eq!(node.feed(Event::CleanedUp(id(1))), [completed]);
    assert_eq!(node.state(1), ContainerState::Done(Ending::Succeeded));
    node.feed(Event::Forget(id(1)));
    assert!(node.scheduler.is_empty());
}

#[test]
fn one_that_is_to_be_forgotten_early_is_forgotten_once_it_is_done() {
    let mut node = Node::new(100);
    node.run(guaranteed(1, 10));
    assert_eq!(node.feed(Event::Forget(id(1))), []);
    node.exit(1, 3);
    assert_eq!(node.scheduler.len(), 1);
    assert_eq!(node.completion_status(1), ContainerExitStatus(3));
    assert!(node.scheduler.is_empty());
}

#[test]
fn a_failed_localization_completes_with_hadoops_invalid_status() {
    let mut node = Node::new(100);
    node.feed(Event::Start(guaranteed(1, 10)));
    let diagnostics = "no such file".to_owned();
    let actions = node.feed(Event::LocalizationFailed {
        id: id(1),
        diagnostics,
    });
    assert_eq!(actions, [Action::CleanUp(id(1))]);
    assert_eq!(node.state(1).rest_state(), "LOCALIZATION_FAILED");
    assert_eq!(
        node.view(1).diagnostics,
        "[1970-01-01 00:00:00.000]no such file\n"
    );
    assert_eq!(node.completion_status(1), ContainerExitStatus::INVALID);
}

#[test]
fn a_failed_launch_gives_its_room_back() {
    let mut node = Node::new(100);
    node.arrive(guaranteed(1, 100));
    node.arrive(guaranteed(2, 100));
    let actions = node.feed(Event::LaunchFailed {
        id: id(1),
        status: ContainerExitStatus::LAUNCH_FAILED,
        diagnostics: "no bash".to_owned(),
    });
    assert_eq!(launched(&actions), [2]);
    assert_eq!(
        node.completion_status(1),
        ContainerExitStatus::LAUNCH_FAILED
    );
}

#[test]
fn a_process_may_be_gone_before_its_launch_is_answered() {
    let mut node = Node::new(100);
    node.arrive(guaranteed(1, 10));
    assert_eq!(node.exit(1, 0), [Action::CleanUp(id(1))]);
    assert_eq!(node.feed(Event::Launched(id(1))), []);
    assert_eq!(node.completion_status(1), ContainerExitStatus::SUCCESS);
}

#[test]
fn room_is_free_when_no_process_is_left_and_the_exit_is_reported_later() {
    let mut node = Node::new(100);
    node.run(opportunistic(1, 100));
    node.arrive(guaranteed(2, 100));
    let waits = node.scheduler.queue().count();
    assert_eq!(waits, 1, "the room is not free yet");
    let actions = node.feed(Event::ProcessesGone(id(1)));
    assert_eq!(launched(&actions), [2]);
    assert_eq!(node.state(1).rest_state(), "KILLING");
    assert_eq!(
        node.scheduler.next_deadline(),
        None,
        "nobody is left to kill"
    );
    assert_eq!(node.exit(1, 143), [Action::CleanUp(id(1))]);
    assert_eq!(
        node.completion_status(1),
        ContainerExitStatus::KILLED_BY_CONTAINER_SCHEDULER
    );
}

#[test]
fn what_comes_between_the_last_process_and_the_end_changes_nothing() {
    let mut node = Node::new(100);
    node.run(guaranteed(1, 10));
    node.feed(Event::ProcessesGone(id(1)));
    assert_eq!(node.state(1).rest_state(), "RUNNING");
    let reason = KillReason::ApplicationMaster;
    for late in [
        Event::Kill { id: id(1), reason },
        Event::Launched(id(1)),
        paused(1),
        Event::Resumed(id(1)),
        Event::PauseFailed(id(1)),
    ] {
        assert_eq!(node.feed(late), []);
    }
    let again = node.try_feed(Event::ProcessesGone(id(1)));
    assert!(matches!(again, Err(Refusal::UnexpectedAnswer { .. })));
    node.exit(1, 3);
    assert_eq!(node.completion_status(1), ContainerExitStatus(3));
}

#[test]
fn answers_to_orders_that_were_not_given_are_refused_and_change_nothing() {
    let status = ContainerExitStatus::SUCCESS;
    let diagnostics = String::new;
    let stray = [
        Event::Localized(id(1)),
        Event::LocalizationFailed {
            id: id(1),
            diagnostics: diagnostics(),
        },
        Event::Launched(id(1)),
        Event::LaunchFailed {
            id: id(1),
            status,
            diagnostics: diagnostics(),
        },
        paused(1),
        Event::Resumed(id(1)),
        Event::PauseFailed(id(1)),
        Event::CleanedUp(id(1)),
    ];
    for event in stray {
        let mut node = Node::new(100);
        node.run(guaranteed(1, 10));
        let before = node.view(1);
        let refused = node.try_feed(event.clone());
        assert!(
            matches!(refused, Err(Refusal::UnexpectedAnswer { .. })),
            "{event:?} {refused:?}"
        );
        assert_eq!(node.view(1), before);
    }
}

#[test]
fn late_answers_for_a_container_that_was_killed_change_nothing() {
    let mut node = Node::new(100);
    node.run(guaranteed(1, 10));
    node.feed(Event::Kill {
        id: id(1),
        reason: KillReason::ApplicationMaster,
    });
    let before = node.view(1);
    for late in [
        Event::Launched(id(1)),
        paused(1),
        Event::Resumed(id(1)),
        Event::PauseFailed(id(1)),
    ] {
        assert_eq!(node.feed(late), []);
        assert_eq!(node.view(1), before);
    }
}

#[test]
fn no_answer_is_taken_for_a_container_that_is_not_known() {
    let mut node = Node::new(100);
    let status = ContainerExitStatus::SUCCESS;
    for event in [
        Event::Localized(id(1)),
        Event::Launched(id(1)),
        Event::Exited {
            id: id(1),
            status,
            diagnostics: String::new(),
        },
        paused(1),
        Event::Resumed(id(1)),
        Event::PauseFailed(id(1)),
        Event::CleanedUp(id(1)),
        Event::Forget(id(1)),
        annotation(),
        Event::Update(guaranteed(1, 1)),
    ] {
        assert_eq!(node.try_feed(event), Err(Refusal::UnknownContainer(id(1))));
    }
}

#[test]
fn an_annotation_is_read_in_the_diagnostics_and_changes_nothing_else() {
    let mut node = Node::new(100);
    node.run(guaranteed(1, 10));
    assert_eq!(node.feed(annotation()), []);
    assert_eq!(node.state(1).rest_state(), "RUNNING");
    assert_eq!(
        node.view(1).diagnostics,
        "[1970-01-01 00:00:00.000]signalled\n"
    );
}

#[test]
fn the_diagnostics_of_a_finished_container_are_final() {
    let mut node = Node::new(100);
    node.run(guaranteed(1, 10));
    node.exit(1, 0);
    assert_eq!(node.completion_status(1), ContainerExitStatus::SUCCESS);
    let before = node.view(1).diagnostics;
    assert_eq!(node.feed(annotation()), []);
    assert_eq!(node.view(1).diagnostics, before);
}

fn annotation() -> Event {
    Event::Annotate {
        id: id(1),
        diagnostics: "signalled".to_owned(),
    }
}

#[test]
fn a_process_does_not_end_twice() {
    let mut node = Node::new(100);
    node.run(guaranteed(1, 10));
    node.exit(1, 0);
    let status = ContainerExitStatus(1);
    let again = node.try_feed(Event::Exited {
        id: id(1),
        status,
        diagnostics: String::new(),
    });
    assert_eq!(
        again,
        Err(Refusal::UnexpectedAnswer {
            id: id(1),
            state: "EXITED_WITH_SUCCESS",
            answer: "Exited"
        })
    );
    assert_eq!(node.completion_status(1), ContainerExitStatus::SUCCESS);
}

impl Node {
    fn completion_status(&mut self, number: i64) -> ContainerExitStatus {
        self.completion(number).exit_status
    }
}

#[test]
fn a_localization_that_ends_twice_is_refused() {
    let mut node = Node::new(100);
    node.run(opportunistic(1, 100));
    node.arrive(opportunistic(2, 100));
    let failed = Event::LocalizationFailed {
        id: id(2),
        diagnostics: String::new(),
    };
    for again in [Event::Localized(id(2)), failed] {
        let refusal = node.try_feed(again).unwrap_err();
        assert!(matches!(refusal, Refusal::UnexpectedAnswer { .. }));
    }
    assert_eq!(node.waiting(), [2]);
}
