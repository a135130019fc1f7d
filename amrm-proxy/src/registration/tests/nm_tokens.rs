//! NMTokens in the answer to a registration that this node made: the AM gets them with its calls.

use wire::proto::hadoop_yarn::{NmTokenProto, RegisterApplicationMasterResponseProto};

use super::*;

fn token() -> NmTokenProto {
    NmTokenProto {
        node_id: container(1, 1, "h").node_id,
        token: None,
    }
}

/// Begins a call to a ResourceManager that has forgotten the attempt, and registers the attempt,
/// for which the ResourceManager sends a token.
fn registered_again(attempt: &mut Attempt, mut request: Request) -> Request {
    let step = attempt.outcome(&mut request, not_registered());
    assert!(matches!(step, Step::Register(_)), "{step:?}");
    let grant = RegisterApplicationMasterResponseProto {
        nm_tokens_from_previous_attempts: vec![token()],
        ..RegisterApplicationMasterResponseProto::default()
    };
    let grant = Response {
        message: raw(&grant),
        ..Response::default()
    };
    attempt.admit(&mut request, Ok(grant)).unwrap();
    request
}

fn refused() -> Outcome {
    Err(RemoteException::new(HadoopException::YarnException, "no"))
}

#[test]
fn tokens_come_with_every_answer_until_the_am_has_one() {
    let mut attempt = Attempt::registered();
    let request = attempt.begin(&allocate_with(0, vec![]));
    let mut request = registered_again(&mut attempt, request);
    let first = attempt
        .done(&mut request, Ok(answer(&answer_with(1, vec![]))))
        .unwrap();
    assert_eq!(first.nm_tokens, [token()]);
    let repeated = attempt.call(&allocate_with(0, vec![]), &answer_with(1, vec![]));
    assert_eq!(repeated.nm_tokens, [token()]);
    let next = attempt.call(&allocate_with(1, vec![]), &answer_with(2, vec![]));
    assert_eq!(next.nm_tokens, []);
}

#[test]
fn tokens_outlive_a_call_that_is_refused_after_the_registration() {
    let mut attempt = Attempt::registered();
    let request = attempt.begin(&allocate_with(0, vec![]));
    let mut request = registered_again(&mut attempt, request);
    assert!(attempt.done(&mut request, refused()).is_err());
    let first = attempt.call(&allocate_with(0, vec![]), &answer_with(1, vec![]));
    assert_eq!(first.nm_tokens, [token()]);
    let next = attempt.call(&allocate_with(1, vec![]), &answer_with(2, vec![]));
    assert_eq!(next.nm_tokens, []);
}

#[test]
fn an_am_that_says_too_much_in_that_call_gets_the_tokens_too() {
    let mut attempt = Attempt::registered();
    let mut request = attempt.begin(&allocate_with(0, vec![]));
    request.message.push(allocate_request::RELEASE, b"\xff");
    let mut request = registered_again(&mut attempt, request);
    let first = attempt
        .done(&mut request, Ok(answer(&answer_with(1, vec![]))))
        .unwrap();
    assert_eq!(first.nm_tokens, [token()]);
}

#[test]
fn tokens_of_an_earlier_registration_do_not_follow_those_of_the_ams_own() {
    let mut attempt = Attempt::registered();
    let request = attempt.begin(&allocate_with(0, vec![]));
    let mut request = registered_again(&mut attempt, request);
    assert!(attempt.done(&mut request, refused()).is_err());
    attempt.register(&register_request());
    let first = attempt.call(&allocate_with(0, vec![]), &answer_with(1, vec![]));
    assert_eq!(first.nm_tokens, []);
}
