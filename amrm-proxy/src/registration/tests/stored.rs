//! Records of the registration: when they are written, and what a restarted agent makes of them.

use super::*;

#[test]
fn a_restarted_agent_registers_an_attempt_again_that_has_made_no_call() {
    let mut attempt = Attempt::registered().restarted();
    assert_eq!(
        sent(&attempt.forgotten(&allocate_with(0, vec![]))),
        allocate_with(0, vec![])
    );
}

#[test]
fn containers_that_came_before_a_restart_are_not_asked_for_again() {
    let mut before = Attempt::registered();
    before.call(
        &allocate_with(0, vec![ask(1, "*", 5)]),
        &answer_with(1, vec![]),
    );
    before.call(
        &allocate_with(1, vec![]),
        &answer_with(2, vec![container(1, 1, "h1")]),
    );
    // With this call the AM shows that it has the container.
    before.call(&allocate_with(2, vec![]), &answer_with(3, vec![]));
    let again = before.restarted().forgotten(&allocate_with(3, vec![]));
    assert_eq!(sent(&again).ask, vec![ask(1, "*", 4)]);
}

#[test]
fn the_record_is_removed_when_the_last_ask_is_fulfilled() {
    let mut attempt = Attempt::registered();
    attempt.call(
        &allocate_with(0, vec![ask(1, "*", 1)]),
        &answer_with(1, vec![]),
    );
    assert!(attempt.persisted[&OUTSTANDING].is_some());
    attempt.call(
        &allocate_with(1, vec![]),
        &answer_with(2, vec![container(1, 1, "h1")]),
    );
    attempt.call(&allocate_with(2, vec![]), &answer_with(3, vec![]));
    assert!(attempt.registration.outstanding.is_none());
    assert_eq!(attempt.persisted[&OUTSTANDING], None);
}

#[test]
fn a_call_that_changes_nothing_is_not_stored() {
    let mut attempt = Attempt::registered();
    attempt.call(
        &allocate_with(0, vec![ask(1, "*", 5)]),
        &answer_with(1, vec![]),
    );
    attempt.persisted.clear();
    attempt.call(&allocate_with(1, vec![]), &answer_with(2, vec![]));
    assert!(attempt.persisted.is_empty(), "{:?}", attempt.persisted);
}

#[test]
fn changes_within_a_second_are_stored_together() {
    let mut attempt = Attempt::registered();
    attempt.call(
        &allocate_with(0, vec![ask(1, "*", 5)]),
        &answer_with(1, vec![]),
    );
    attempt.persisted.clear();
    // The next answer comes at the same time.
    attempt.now_ms -= 10_000;
    attempt.call(
        &allocate_with(1, vec![ask(1, "*", 6)]),
        &answer_with(2, vec![]),
    );
    assert!(attempt.persisted.is_empty(), "{:?}", attempt.persisted);
    attempt.call(&allocate_with(2, vec![]), &answer_with(3, vec![]));
    assert!(attempt.persisted[&OUTSTANDING].is_some());
}

#[test]
fn an_am_that_registers_by_itself_removes_the_record_from_before_a_restart() {
    let mut before = Attempt::registered();
    before.call(
        &allocate_with(0, vec![ask(1, "*", 5)]),
        &answer_with(1, vec![]),
    );
    let mut attempt = before.restarted();
    assert!(attempt.persisted[&OUTSTANDING].is_some());
    attempt.register(&register_request());
    assert_eq!(attempt.persisted[&OUTSTANDING], None);
}

#[test]
fn a_restarted_agent_registers_the_attempt_with_its_latest_tracking_url() {
    let mut before = Attempt::registered();
    let moved = call_that_moves_to("http://second");
    before.call(&moved, &answer_with(1, vec![]));
    assert_registers_again_at(&mut before.restarted(), "http://second");
}

#[test]
fn a_restarted_agent_does_not_register_an_am_that_said_too_much() {
    let mut before = Attempt::registered();
    let mut request = allocate(&allocate_with(0, vec![ask(1, "*", 5)]));
    request.message.push(allocate_request::RELEASE, b"\xff");
    let _ = before.registration.on_request(&mut request);
    before
        .done(&mut request, Ok(answer(&answer_with(1, vec![]))))
        .unwrap();
    let mut attempt = before.restarted();
    let mut request = attempt.begin(&allocate_with(1, vec![]));
    let refusal = attempt.done(&mut request, not_registered()).unwrap_err();
    assert!(refusal.is(HadoopException::ApplicationMasterNotRegistered));
}

#[test]
fn a_record_that_cannot_be_read_is_removed_once_the_am_has_registered_by_itself() {
    let mut before = Attempt::registered();
    before.persisted.insert(OUTSTANDING, Some(b"junk".to_vec()));
    let mut attempt = before.restarted();
    attempt.register(&register_request());
    assert_eq!(attempt.persisted[&OUTSTANDING], None);
}

#[test]
fn nothing_outstanding_is_restored_for_an_am_that_cannot_be_registered_again() {
    let mut before = Attempt::registered();
    before.call(
        &allocate_with(0, vec![ask(1, "*", 5)]),
        &answer_with(1, vec![]),
    );
    before
        .persisted
        .insert(REGISTRATION, Some(b"junk".to_vec()));
    assert!(before.restarted().registration.outstanding.is_none());
}
