use proptest::prelude::*;

use super::*;
use crate::testing;

const NONCE_A: &str = "t6kM3aJdaQj4zoKIHKunxp8+8tUVlXROGGkkxvqo";
const CNONCE_A: &str = "dDgCPworofLRuKtHVt2G6PEXsGK/+FkwUAWnirLY";
const RESPONSE_A: &str = "charset=utf-8,username=\"Cg0KCQgHEIDQlf+8MRABEPnStP///////wE=\",realm=\"default\",\
    nonce=\"t6kM3aJdaQj4zoKIHKunxp8+8tUVlXROGGkkxvqo\",nc=00000001,\
    cnonce=\"dDgCPworofLRuKtHVt2G6PEXsGK/+FkwUAWnirLY\",digest-uri=\"/default\",maxbuf=65536,\
    response=a1ec874d417aaeed9134056dfe9b4dba,qop=auth";
const RSPAUTH_A: &str = "rspauth=6c80246ccee7429ea7330e1fd05a8eca";

fn identifier() -> Vec<u8> {
    testing::hex("0a0d0a0908071080d095ffbc31100110f9d2b4ffffffffffff01")
}

fn password() -> Vec<u8> {
    testing::hex("9d7ae9b99773e0919dfa9319123f991fa67ae91e")
}

fn session<'a>(nonce: &'a str, cnonce: &'a str) -> Session<'a> {
    Session {
        username: "Cg0KCQgHEIDQlf+8MRABEPnStP///////wE=",
        realm: SERVER_ID,
        nonce,
        cnonce,
        digest_uri: DIGEST_URI,
    }
}

#[test]
fn hashes_of_the_captured_session_are_javas() {
    assert_eq!(
        encode_identifier(&identifier()),
        "Cg0KCQgHEIDQlf+8MRABEPnStP///////wE="
    );
    let session = session(NONCE_A, CNONCE_A);
    let ha1 = session.ha1(&password());
    assert_eq!(ha1, "991bb599e80464d2f82cf26b27d9b178");
    assert_eq!(
        session.digest(&ha1, "AUTHENTICATE"),
        "a1ec874d417aaeed9134056dfe9b4dba"
    );
    assert_eq!(session.digest(&ha1, ""), "6c80246ccee7429ea7330e1fd05a8eca");
    assert_eq!(
        hex(&Md5::digest("AUTHENTICATE:/default")),
        "6c09265b8ea8eaffd980c321d6e8a74e"
    );
    assert_eq!(
        hex(&Md5::digest(":/default")),
        "6eeb77fd28c07793b6f586d1ef45fac5"
    );
    let secret = format!(
        "{}:{SERVER_ID}:nXrpuZdz4JGd+pMZEj+ZH6Z66R4=",
        session.username
    );
    assert_eq!(
        hex(&Md5::digest(secret)),
        "f0273fb88f6e694ee78ba55e9f1d4b60"
    );
}

#[test]
fn hashes_of_the_second_vector_agree() {
    let session = session(
        "MDEyMzQ1Njc4OWFiY2RlZmdoaWpr",
        "cm5kY25vbmNlMDEyMzQ1Njc4OWFi",
    );
    let ha1 = session.ha1(&password());
    assert_eq!(ha1, "5e373c32f36e0952458b94dcfdf12cce");
    assert_eq!(
        session.digest(&ha1, "AUTHENTICATE"),
        "d3257c888fe852c6b80f785d1b158c09"
    );
    assert_eq!(session.digest(&ha1, ""), "2b29c0212678a9253fd475c7bd8169d1");
}

#[test]
fn captured_response_is_accepted_and_answered_as_java_does() {
    let check = ServerCheck::parse(NONCE_A, RESPONSE_A.as_bytes()).unwrap();
    assert_eq!(check.identifier()[..], identifier());
    assert_eq!(check.verify(&password()).as_deref(), Ok(RSPAUTH_A));
}

#[test]
fn client_answers_the_captured_challenge_as_java_does() {
    let challenge = challenge(NONCE_A);
    assert_eq!(challenge.len(), 108);
    let response =
        ClientResponse::new(challenge.as_bytes(), &identifier(), &password(), CNONCE_A).unwrap();
    assert_eq!(response.message, RESPONSE_A);
    assert_eq!(response.verify(RSPAUTH_A.as_bytes()), Ok(()));
}

#[test]
fn wrong_password_does_not_verify_on_either_side() {
    let check = ServerCheck::parse(NONCE_A, RESPONSE_A.as_bytes()).unwrap();
    assert_eq!(check.verify(b"another"), Err(DigestError::Mismatch));
    let response = ClientResponse::new(
        challenge(NONCE_A).as_bytes(),
        &identifier(),
        b"another",
        CNONCE_A,
    )
    .unwrap();
    assert_eq!(
        response.verify(RSPAUTH_A.as_bytes()),
        Err(DigestError::Mismatch)
    );
}

#[test]
fn every_changed_directive_is_refused() {
    for (from, to, directive) in [
        ("t6kM", "x6kM", "nonce"),
        ("nc=00000001", "nc=00000002", "nc"),
        ("/default", "/other", "digest-uri"),
        ("realm=\"default\"", "realm=\"other\"", "realm"),
        ("qop=auth", "qop=auth-conf", "qop"),
        ("username=\"Cg", "username=\"*", "username"),
        ("qop=auth", "qop=auth,nc=00000001", "nc"),
        ("maxbuf=65536", "authzid=\"root\"", "authzid"),
        (
            "cnonce=\"dDgCPworofLRuKtHVt2G6PEXsGK/+FkwUAWnirLY\"",
            "cnonce=\"\"",
            "cnonce",
        ),
    ] {
        let changed = RESPONSE_A.replacen(from, to, 1);
        assert_eq!(
            ServerCheck::parse(NONCE_A, changed.as_bytes()),
            Err(DigestError::Directive(directive)),
            "{changed}"
        );
    }
}

#[test]
fn a_masters_own_name_may_be_its_authorization_id() {
    let own = "authzid=\"Cg0KCQgHEIDQlf+8MRABEPnStP///////wE=\"";
    let named = RESPONSE_A.replacen("maxbuf=65536", own, 1);
    assert!(ServerCheck::parse(NONCE_A, named.as_bytes()).is_ok());
}

#[test]
fn a_client_takes_challenges_that_offer_auth_with_md5_sessions_only() {
    let answer = |from: &str, to: &str| {
        let changed = challenge(NONCE_A).replacen(from, to, 1);
        assert_ne!(changed, challenge(NONCE_A));
        ClientResponse::new(changed.as_bytes(), &identifier(), &password(), CNONCE_A).map(|_| ())
    };
    let refused = |directive| Err(DigestError::Directive(directive));
    assert_eq!(answer("md5-sess", "md5"), refused("algorithm"));
    assert_eq!(answer("qop=\"auth\"", "qop=\"auth-conf\""), refused("qop"));
    assert_eq!(answer("qop=\"auth\"", "qop=\"auth-conf, auth\""), Ok(()));
}

#[test]
fn order_and_white_space_of_directives_do_not_matter() {
    let mut parts: Vec<_> = RESPONSE_A.split(',').collect();
    parts.reverse();
    let check = ServerCheck::parse(NONCE_A, parts.join(" , ").as_bytes()).unwrap();
    assert!(check.verify(&password()).is_ok());
}

#[test]
fn overlong_or_broken_messages_are_malformed() {
    let long = |length: usize| {
        format!(
            "{RESPONSE_A},a={}",
            "b".repeat(length - RESPONSE_A.len() - 3)
        )
    };
    let longest = long(RESPONSE_LENGTH_MAX);
    assert!(ServerCheck::parse(NONCE_A, longest.as_bytes()).is_ok());
    for message in [
        long(RESPONSE_LENGTH_MAX + 1).as_bytes(),
        b"a",
        b"a=\"",
        b"a=\"b\"c",
        b"a=\"b\"c=d",
        b"a=b\\c",
        "a=\u{e4}".as_bytes(),
        b"\xff=1",
        "a=1,".repeat(33).as_bytes(),
    ] {
        assert_eq!(
            ServerCheck::parse(NONCE_A, message),
            Err(DigestError::Malformed)
        );
    }
}

proptest! {
    #[test]
    fn any_message_parses_without_panic(message in "[a-z=\", \\\\]{0,60}|.{0,60}") {
        let _ = Directives::parse(message.as_bytes(), RESPONSE_LENGTH_MAX);
        let _ = ClientResponse::new(message.as_bytes(), b"id", b"pw", "c");
    }

    #[test]
    fn both_sides_agree_on_any_token(
        identifier in proptest::collection::vec(any::<u8>(), 0..300),
        password in proptest::collection::vec(any::<u8>(), 0..40),
        server in any::<[u8; NONCE_BYTES]>(),
        client in any::<[u8; NONCE_BYTES]>(),
    ) {
        let server_nonce = nonce(server);
        let response =
            ClientResponse::new(challenge(&server_nonce).as_bytes(), &identifier, &password, &nonce(client)).unwrap();
        let check = ServerCheck::parse(&server_nonce, response.message.as_bytes()).unwrap();
        prop_assert_eq!(&check.identifier()[..], &identifier[..]);
        prop_assert_eq!(response.verify(check.verify(&password).unwrap().as_bytes()), Ok(()));
    }
}
