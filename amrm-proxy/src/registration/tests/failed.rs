//! Registrations that fail, and the calls after them.

use wire::proto::hadoop_yarn::FinishApplicationMasterRequestProto;

use super::*;

fn later() -> Outcome {
    Err(RemoteException::new(HadoopException::Retriable, "later"))
}

/// Makes an attempt with an ask whose registration at a new ResourceManager has failed. The AM's
/// next response id is 1.
fn with_failed_registration() -> Attempt {
    let mut attempt = Attempt::registered();
    attempt.call(
        &allocate_with(0, vec![ask(1, "*", 5)]),
        &answer_with(1, vec![]),
    );
    let mut request = attempt.begin(&allocate_with(1, vec![]));
    let step = attempt.outcome(&mut request, not_registered());
    assert!(matches!(step, Step::Register(_)), "{step:?}");
    assert!(attempt.admit(&mut request, later()).is_err());
    attempt
}

fn finish() -> Request {
    let message = FinishApplicationMasterRequestProto {
        diagnostics: Some("done".to_owned()),
        ..FinishApplicationMasterRequestProto::default()
    };
    request(AmMethod::Finish, &message)
}

#[test]
fn a_registration_that_is_refused_for_another_reason_ends_the_call() {
    let mut attempt = Attempt::registered();
    let mut request = attempt.begin(&allocate_with(0, vec![]));
    let _ = attempt.outcome(&mut request, not_registered());
    let kind = HadoopException::InvalidApplicationMasterRequest;
    let refusal = RemoteException::new(kind, "not with these constraints");
    let outcome = attempt.admit(&mut request, Err(refusal.clone()));
    assert_eq!(outcome.unwrap_err(), refusal);
}

#[test]
fn outstanding_requests_are_restated_in_no_other_call_than_an_allocate() {
    for mut call in [finish(), request(AmMethod::Register, &register_request())] {
        let mut attempt = with_failed_registration();
        let received = call.message.encode();
        assert!(!attempt.registration.on_request(&mut call));
        assert_eq!(call.message.encode(), received, "{:?}", call.method);
    }
}

#[test]
fn no_other_call_than_an_allocate_gets_a_response_id() {
    for mut call in [finish(), request(AmMethod::Register, &register_request())] {
        let mut attempt = with_failed_registration();
        attempt.call(&allocate_with(1, vec![]), &answer_with(1, vec![]));
        let received = call.message.encode();
        let _ = attempt.registration.on_request(&mut call);
        assert_eq!(call.message.encode(), received, "{:?}", call.method);
    }
}

#[test]
fn nothing_is_restated_for_an_am_that_has_registered_by_itself() {
    let mut attempt = with_failed_registration();
    attempt.register(&register_request());
    for mut attempt in [attempt.restarted(), attempt] {
        let mut request = allocate(&allocate_with(0, vec![]));
        assert!(!attempt.registration.on_request(&mut request));
        assert_eq!(sent(&request), allocate_with(0, vec![]));
    }
}
