//! Response ids over registrations and restarts of the agent.

use super::*;

#[test]
fn a_restarted_agent_goes_on_with_the_ids_of_both_sides() {
    let mut attempt = Attempt::registered();
    attempt.call(&allocate_with(0, vec![]), &answer_with(1, vec![]));
    let alike = attempt.restarted().begin(&allocate_with(1, vec![]));
    assert_eq!(sent(&alike).response_id, Some(1));
    attempt.call(&allocate_with(1, vec![]), &answer_with(2, vec![]));
    let mut again = attempt.forgotten(&allocate_with(2, vec![]));
    attempt
        .done(&mut again, Ok(answer(&answer_with(1, vec![]))))
        .unwrap();
    let shifted = attempt.restarted().begin(&allocate_with(3, vec![]));
    assert_eq!(sent(&shifted).response_id, Some(1));
}

#[test]
fn the_first_id_after_a_registration_is_0_also_where_the_registration_is_forgotten() {
    let mut attempt = Attempt::registered();
    let mut request = attempt.begin(&allocate_with(7, vec![]));
    let refusal = attempt.done(&mut request, not_registered()).unwrap_err();
    assert_eq!(refusal, unexpected_id(ATTEMPT, 0, 7));
}

#[test]
fn a_wrong_id_stays_wrong_while_the_registration_fails() {
    let mut attempt = Attempt::registered();
    attempt.call(&allocate_with(0, vec![]), &answer_with(1, vec![]));
    let mut request = attempt.begin(&allocate_with(1, vec![]));
    let step = attempt.outcome(&mut request, not_registered());
    assert!(matches!(step, Step::Register(_)), "{step:?}");
    let later = RemoteException::new(HadoopException::Retriable, "later");
    assert!(attempt.admit(&mut request, Err(later)).is_err());
    let wrong = attempt.begin(&allocate_with(5, vec![]));
    assert_eq!(sent(&wrong).response_id, Some(4));
}

#[test]
fn a_call_after_a_finish_that_failed_is_the_first_even_if_the_agent_was_restarted() {
    let mut attempt = Attempt::registered();
    attempt.call(&allocate_with(0, vec![]), &answer_with(1, vec![]));
    attempt.call(&allocate_with(1, vec![]), &answer_with(2, vec![]));
    let mut attempt = attempt.restarted();
    let mut finish = request(AmMethod::Finish, &allocate_with(0, vec![]));
    assert!(!attempt.registration.on_request(&mut finish));
    let step = attempt.outcome(&mut finish, not_registered());
    assert!(matches!(step, Step::Register(_)), "{step:?}");
    attempt.admit(&mut finish, Ok(Response::default())).unwrap();
    let failure = RemoteException::new(HadoopException::YarnException, "no");
    assert!(attempt.done(&mut finish, Err(failure)).is_err());
    let next = attempt.begin(&allocate_with(2, vec![]));
    assert_eq!(sent(&next).response_id, Some(0));
}
