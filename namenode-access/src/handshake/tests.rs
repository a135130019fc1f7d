use proptest::prelude::*;
use wire::header::put_success;

use super::*;

fn offer(method: &str) -> SaslAuth {
    let (protocol, server_id, challenge) = match method {
        "TOKEN" => (
            "",
            "default",
            Some(Bytes::from_static(b"realm=\"default\"")),
        ),
        "KERBEROS" => ("nn", "host.test", None),
        _ => ("", "", None),
    };
    SaslAuth {
        method: method.to_owned(),
        mechanism: "X".to_owned(),
        protocol: Some(protocol.to_owned()),
        server_id: Some(server_id.to_owned()),
        challenge,
    }
}

fn offers(methods: &[&str]) -> RpcSaslProto {
    RpcSaslProto {
        auths: methods.iter().map(|method| offer(method)).collect(),
        ..said(SaslState::Negotiate, None)
    }
}

fn said(state: SaslState, token: Option<&'static [u8]>) -> RpcSaslProto {
    RpcSaslProto {
        state: state.into(),
        token: token.map(Bytes::from_static),
        ..RpcSaslProto::default()
    }
}

/// Returns a frame of a server, without its length.
fn frame(message: &RpcSaslProto) -> Bytes {
    let mut out = BytesMut::new();
    put_sasl_response(&mut out, message).unwrap();
    out.freeze().slice(4..)
}

fn kerberos(principal: &str) -> Method {
    Method::Kerberos {
        server: ServerPrincipal::Exact(principal.to_owned()),
        host: "host.test".to_owned(),
    }
}

fn node() -> Method {
    kerberos("nn/_HOST@NODES.TEST")
}

/// Returns the class and the reason of a refusal that the last of these messages gets, after the
/// others have passed.
fn refused(method: Method, messages: &[RpcSaslProto]) -> String {
    let mut handshake = Handshake::new(method);
    let (last, before) = messages.split_last().unwrap();
    for message in before {
        let verdict = handshake.take(frame(message));
        assert!(matches!(verdict, Verdict::Pass(_)), "{verdict:?}");
    }
    let verdict = handshake.take(frame(last));
    let Verdict::Refuse(answer) = verdict else {
        panic!("{verdict:?}");
    };
    let Outcome::Fatal(told) = decode_answer(answer.slice(4..)).unwrap().outcome else {
        panic!("not fatal");
    };
    assert!(told.is(HadoopException::AccessControl), "{told:?}");
    told.message
}

/// Asserts that the messages pass, the last of them as the last.
fn accepted(method: Method, messages: &[RpcSaslProto]) {
    let mut handshake = Handshake::new(method);
    let (last, before) = messages.split_last().unwrap();
    for message in before {
        let verdict = handshake.take(frame(message));
        assert!(matches!(verdict, Verdict::Pass(_)), "{verdict:?}");
    }
    let whole = framed(&frame(last));
    assert_eq!(handshake.take(frame(last)), Verdict::PassLast(whole));
}

#[test]
fn a_client_gets_to_see_the_one_method_that_it_may_use() {
    for (method, name) in [(Method::Token, "TOKEN"), (node(), "KERBEROS")] {
        let all = offers(&["SIMPLE", "KERBEROS", "TOKEN"]);
        let Verdict::Pass(passed) = Handshake::new(method).take(frame(&all)) else {
            panic!("{name} is refused");
        };
        let answer = decode_answer(passed.slice(4..)).unwrap();
        assert_eq!(answer.call_id, CALL_ID_SASL);
        let Outcome::Success(message) = answer.outcome else {
            panic!("{answer:?}");
        };
        let message = RpcSaslProto::decode(message).unwrap();
        assert_eq!(message, offers(&[name]));
    }
}

#[test]
fn real_negotiations_pass() {
    let token = [
        offers(&["TOKEN", "KERBEROS"]),
        said(SaslState::Success, Some(b"rspauth=0")),
    ];
    accepted(Method::Token, &token);
    let kerberos = [
        offers(&["TOKEN", "KERBEROS"]),
        said(SaslState::Challenge, Some(b"its proof")),
        said(SaslState::Challenge, Some(b"layers")),
        said(SaslState::Success, None),
    ];
    accepted(node(), &kerberos);
}

#[test]
fn a_server_that_wants_no_proof_is_refused() {
    for method in [Method::Token, node()] {
        assert_eq!(refused(method.clone(), &[offers(&["SIMPLE"])]), SIMPLE);
        assert_eq!(refused(method.clone(), &[offers(&[])]), SIMPLE);
        assert_eq!(refused(method, &[said(SaslState::Success, None)]), SIMPLE);
    }
    let lacks = refused(Method::Token, &[offers(&["SIMPLE", "KERBEROS"])]);
    let expected = "Client cannot authenticate via:[SIMPLE, KERBEROS]: it has nothing but TOKEN";
    assert_eq!(lacks, expected);
}

#[test]
fn another_server_than_the_configured_one_is_refused() {
    for principal in [
        "other/_HOST@NODES.TEST",
        "nn/other.test@NODES.TEST",
        "nn@NODES.TEST",
    ] {
        let reason = refused(kerberos(principal), &[offers(&["KERBEROS"])]);
        let is_named = reason.contains("invalid Kerberos principal: nn/host.test")
            || reason.contains("does NOT have the expected hostname part");
        assert!(is_named, "{reason}");
    }
}

#[test]
fn a_server_that_ends_the_proof_early_is_refused() {
    let challenge = || said(SaslState::Challenge, Some(b"its proof"));
    let reason = "the NameNode has not proved who it is";
    let early = [offers(&["TOKEN"]), said(SaslState::Success, None)];
    assert_eq!(refused(Method::Token, &early), reason);
    let empty = [offers(&["TOKEN"]), said(SaslState::Success, Some(b""))];
    assert_eq!(refused(Method::Token, &empty), reason);
    let early = [offers(&["KERBEROS"]), said(SaslState::Success, Some(b"x"))];
    assert_eq!(refused(node(), &early), reason);
    let early = [
        offers(&["KERBEROS"]),
        challenge(),
        said(SaslState::Success, None),
    ];
    assert_eq!(refused(node(), &early), reason);
}

#[test]
fn what_is_out_of_order_is_refused() {
    let order = "the NameNode does not keep to the order of a negotiation";
    for state in [SaslState::Challenge, SaslState::Wrap, SaslState::Initiate] {
        assert_eq!(refused(Method::Token, &[said(state, Some(b"x"))]), order);
    }
    let again = [offers(&["TOKEN"]), offers(&["TOKEN"])];
    assert_eq!(refused(Method::Token, &again), order);
    let without = [offers(&["KERBEROS"]), said(SaslState::Challenge, None)];
    assert_eq!(refused(node(), &without), order);
    let mut endless = vec![offers(&["KERBEROS"])];
    endless.extend(vec![said(SaslState::Challenge, Some(b"x")); 5]);
    assert_eq!(
        refused(node(), &endless),
        "the NameNode's challenges do not end"
    );
    let mut bare = offers(&["TOKEN"]);
    bare.auths[0].challenge = None;
    assert_eq!(
        refused(Method::Token, &[bare]),
        "the NameNode offers TOKEN without a challenge"
    );
}

#[test]
fn an_answer_to_another_call_is_refused() {
    let mut out = BytesMut::new();
    put_success(&mut out, &CallRef::out_of_band(0), &[]).unwrap();
    let verdict = Handshake::new(Method::Token).take(out.freeze().slice(4..));
    assert!(matches!(verdict, Verdict::Refuse(_)), "{verdict:?}");
}

#[test]
fn a_servers_own_refusal_is_passed_on() {
    let told = token_refusal("Token has expired");
    let verdict = Handshake::new(Method::Token).take(told.slice(4..));
    assert_eq!(verdict, Verdict::Refuse(told));
}

proptest! {
    #[test]
    fn any_bytes_get_an_answer(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _verdict = Handshake::new(Method::Token).take(bytes.into());
    }
}
