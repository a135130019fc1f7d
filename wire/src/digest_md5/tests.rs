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
        protection: Protection::Authentication,
    }
}

/// Returns the list of the default, authentication alone.
fn auth() -> Protections {
    Protections::default()
}

/// Parses a response to a challenge that offers authentication alone.
fn parse(nonce: &str, response: &[u8]) -> Result<ServerCheck, DigestError> {
    ServerCheck::parse(nonce, &auth(), response)
}

/// Answers a challenge for the holder of the captured token.
fn answer(challenge: &str, accepted: &Protections) -> Result<ClientResponse, DigestError> {
    let challenge = challenge.as_bytes();
    ClientResponse::new(challenge, accepted, &identifier(), &password(), CNONCE_A)
}

#[test]
fn hashes_of_the_captured_session_are_javas() {
    assert_eq!(
        encode_identifier(&identifier()),
        "Cg0KCQgHEIDQlf+8MRABEPnStP///////wE="
    );
    let session = session(NONCE_A, CNONCE_A);
    let ha1 = session.ha1(&STANDARD.encode(password()));
    assert_eq!(hex(&ha1), "991bb599e80464d2f82cf26b27d9b178");
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
    let ha1 = session.ha1(&STANDARD.encode(password()));
    assert_eq!(hex(&ha1), "5e373c32f36e0952458b94dcfdf12cce");
    assert_eq!(
        session.digest(&ha1, "AUTHENTICATE"),
        "d3257c888fe852c6b80f785d1b158c09"
    );
    assert_eq!(session.digest(&ha1, ""), "2b29c0212678a9253fd475c7bd8169d1");
}

#[test]
fn captured_response_is_accepted_and_answered_as_java_does() {
    let check = parse(NONCE_A, RESPONSE_A.as_bytes()).unwrap();
    assert_eq!(check.identifier()[..], identifier());
    let proof = check.verify(&password()).unwrap();
    assert_eq!(proof.message, RSPAUTH_A);
    assert!(proof.layer.is_none());
}

#[test]
fn client_answers_the_captured_challenge_as_java_does() {
    let challenge = challenge(NONCE_A, &auth());
    assert_eq!(challenge.len(), 108);
    let response = answer(&challenge, &auth()).unwrap();
    assert_eq!(response.message, RESPONSE_A);
    assert!(response.verify(RSPAUTH_A.as_bytes()).unwrap().is_none());
}

#[test]
fn wrong_password_does_not_verify_on_either_side() {
    let check = parse(NONCE_A, RESPONSE_A.as_bytes()).unwrap();
    assert_eq!(check.verify(b"another").unwrap_err(), DigestError::Mismatch);
    let response = ClientResponse::new(
        challenge(NONCE_A, &auth()).as_bytes(),
        &auth(),
        &identifier(),
        b"another",
        CNONCE_A,
    )
    .unwrap();
    let verified = response.verify(RSPAUTH_A.as_bytes());
    assert_eq!(verified.unwrap_err(), DigestError::Mismatch);
}

#[test]
fn every_changed_directive_is_refused() {
    for (from, to, directive) in [
        ("t6kM", "x6kM", "nonce"),
        ("nc=00000001", "nc=00000002", "nc"),
        ("/default", "/other", "digest-uri"),
        ("realm=\"default\"", "realm=\"other\"", "realm"),
        ("qop=auth", "qop=AUTH", "qop"),
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
            parse(NONCE_A, changed.as_bytes()),
            Err(DigestError::Directive(directive)),
            "{changed}"
        );
    }
}

#[test]
fn a_masters_own_name_may_be_its_authorization_id() {
    let own = "authzid=\"Cg0KCQgHEIDQlf+8MRABEPnStP///////wE=\"";
    let named = RESPONSE_A.replacen("maxbuf=65536", own, 1);
    assert!(parse(NONCE_A, named.as_bytes()).is_ok());
}

#[test]
fn a_client_takes_challenges_with_an_accepted_level_and_md5_sessions_only() {
    let changed = |from: &str, to: &str| {
        let changed = challenge(NONCE_A, &auth()).replacen(from, to, 1);
        assert_ne!(changed, challenge(NONCE_A, &auth()));
        answer(&changed, &auth()).map(|_| ())
    };
    let refused = Err(DigestError::Directive("algorithm"));
    assert_eq!(changed("md5-sess", "md5"), refused);
    let none = Err(DigestError::NoCommonProtection);
    assert_eq!(changed("qop=\"auth\"", "qop=\"auth-conf\""), none);
    assert_eq!(changed("qop=\"auth\"", "qop=\"auth-conf, auth\""), Ok(()));
    assert_eq!(changed("qop=\"auth\",", ""), Ok(()));
}

#[test]
fn a_challenge_has_every_level_in_order_and_ciphers_for_privacy() {
    use Protection::{Authentication, Integrity, Privacy};
    let middle = |levels: &[Protection]| {
        let challenge = challenge("N", &levels.iter().copied().collect());
        let middle = challenge.strip_prefix("realm=\"default\",nonce=\"N\",qop=");
        let middle = middle.and_then(|rest| rest.strip_suffix("algorithm=md5-sess"));
        middle.unwrap().to_owned()
    };
    assert_eq!(middle(&[Integrity]), "\"auth-int\",charset=utf-8,");
    assert_eq!(
        middle(&[Authentication, Privacy]),
        "\"auth,auth-conf\",charset=utf-8,cipher=\"3des,rc4\","
    );
}

/// A captured session with a layer: nonces, the client's digest and the server's.
struct Layered {
    nonce: &'static str,
    cnonce: &'static str,
    protection: Protection,
    /// Ciphers of the challenge.
    ciphers: &'static str,
    response: &'static str,
    rspauth: &'static str,
    /// Token of the client's first message, "hello 0".
    token: &'static str,
}

const LAYERED: [Layered; 3] = [
    Layered {
        nonce: "XynrV+nADPfiJ/UYe0+8TkPckimXnJT7m+yoPsU7",
        cnonce: "3hRi59AQ+IBuxgDAGYoGfzXq4ovqNCOYttCZblmb",
        protection: Protection::Integrity,
        ciphers: "",
        response: "6c63d500b521101dec5b0dbbf98b4f89",
        rspauth: "220bc187e0592ca27bf2a96af3547089",
        token: "68656c6c6f2030 f025a4a76304142c1302 0001 00000000",
    },
    Layered {
        nonce: "8TC/eL4/naHlvILqIBoftRjYC3X+w5bPcKKvTX6i",
        cnonce: "7bDbMe5u3D0MhrjA4bHb2Y3uNEinoU5nVLGXE72d",
        protection: Protection::Privacy,
        ciphers: "cipher=\"3des,rc4,des,rc4-56,rc4-40\",",
        response: "a9007d822eea210c88bb0833d10adcd0",
        rspauth: "3f9b57ce72307cdc0a3a863c4036cf56",
        token: "3242cc2edcdbd9301e6bd557c5b498948e884618ab804658 0001 00000000",
    },
    Layered {
        nonce: "L+Tw4qzC9UWiI9ad+VmzW5VnPlKa2Zg3rx/rPIcq",
        cnonce: "Bi9yhuSF0yo5QAZ/3vznGIhH+uxGYaiXVzE3wrIr",
        protection: Protection::Privacy,
        ciphers: "cipher=\"rc4\",",
        response: "6519f1b090084f526b6ade1db906df8d",
        rspauth: "e2dde21a6ac8dc7c9cdb86c3ae30a593",
        token: "b481a2934ea7b8133ab5b573388cad1b9e 0001 00000000",
    },
];

#[test]
fn sessions_with_layers_are_javas_from_the_challenge_to_the_first_token() {
    for session in LAYERED {
        let qop = session.protection.qop();
        let challenge = format!(
            "realm=\"default\",nonce=\"{}\",qop=\"{qop}\",charset=utf-8,{}algorithm=md5-sess",
            session.nonce, session.ciphers
        );
        let accepted = Protections::from(session.protection);
        let response = ClientResponse::new(
            challenge.as_bytes(),
            &accepted,
            &identifier(),
            &password(),
            session.cnonce,
        )
        .unwrap();
        let digest = format!(",maxbuf=65536,response={},qop={qop}", session.response);
        assert!(response.message.contains(&digest), "{}", response.message);

        let message = response.message.as_bytes();
        let check = ServerCheck::parse(session.nonce, &accepted, message).unwrap();
        let proof = check.verify(&password()).unwrap();
        assert_eq!(proof.message, format!("rspauth={}", session.rspauth));
        let mut client = response
            .verify(proof.message.as_bytes())
            .unwrap()
            .expect("a layer");
        let mut token = bytes::BytesMut::from(&b"hello 0"[..]);
        client.wrap.wrap(&mut token).unwrap();
        assert_eq!(token, testing::hex(session.token));
        let mut server = proof.layer.expect("a layer");
        server.unwrap.unwrap(&mut token).unwrap();
        assert_eq!(token, b"hello 0"[..]);
    }
}

#[test]
fn a_level_that_was_not_offered_and_an_unknown_cipher_are_refused() {
    use Protection::{Integrity, Privacy};
    let offered: Protections = [Integrity, Privacy].into_iter().collect();
    let response = answer(&challenge(NONCE_A, &offered), &Privacy.into()).unwrap();
    let parsed = |message: &str| {
        let check = ServerCheck::parse(NONCE_A, &offered, message.as_bytes());
        check
            .and_then(|check| check.verify(&password()))
            .map(|_| ())
    };
    assert_eq!(parsed(&response.message), Ok(()));
    let with = |from: &str, to: &str| response.message.replacen(from, to, 1);
    let weaker = with("qop=auth-conf", "qop=auth");
    let not_offered = Err(DigestError::NotOffered(Protection::Authentication));
    assert_eq!(parsed(&weaker), not_offered);
    // Left out, it means authentication.
    assert_eq!(parsed(&with("qop=auth-conf,", "")), not_offered);
    // Another level that was offered is not what the client's digest covers.
    let other = with("qop=auth-conf", "qop=auth-int");
    assert_eq!(parsed(&other), Err(DigestError::Mismatch));
    let cipher = Err(DigestError::Directive("cipher"));
    assert_eq!(parsed(&with("\"3des\"", "\"des\"")), cipher);
    assert_eq!(parsed(&with(",cipher=\"3des\"", "")), cipher);
}

#[test]
fn a_challenge_that_was_weakened_on_its_way_does_not_weaken_a_client() {
    use Protection::{Authentication, Integrity, Privacy};
    let honest = challenge(NONCE_A, &Privacy.into());
    let accepted: Protections = [Privacy, Integrity].into_iter().collect();
    let none = Err(DigestError::NoCommonProtection);
    let weakened = honest.replacen("auth-conf", "auth", 1);
    assert_eq!(answer(&weakened, &accepted).map(|_| ()), none);
    let without = honest.replacen("qop=\"auth-conf\",", "", 1);
    assert_eq!(answer(&without, &accepted).map(|_| ()), none);
    let ciphers = honest.replacen("3des,rc4", "rc4-40,des", 1);
    assert_eq!(
        answer(&ciphers, &accepted).map(|_| ()),
        Err(DigestError::NoCommonCipher)
    );
    // The server that did not offer the weaker level does not take it either.
    let forged = honest.replacen("auth-conf", "auth-int", 1);
    let response = answer(&forged, &accepted).unwrap();
    let parsed = ServerCheck::parse(NONCE_A, &Privacy.into(), response.message.as_bytes());
    assert_eq!(parsed.map(|_| ()), Err(DigestError::NotOffered(Integrity)));
    // The client's own order decides, not the server's.
    let offered: Protections = [Authentication, Privacy].into_iter().collect();
    let response = answer(&challenge(NONCE_A, &offered), &accepted).unwrap();
    assert!(response.message.ends_with(",qop=auth-conf,cipher=\"3des\""));
}

#[test]
fn order_and_white_space_of_directives_do_not_matter() {
    let mut parts: Vec<_> = RESPONSE_A.split(',').collect();
    parts.reverse();
    let check = parse(NONCE_A, parts.join(" , ").as_bytes()).unwrap();
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
    assert!(parse(NONCE_A, longest.as_bytes()).is_ok());
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
        assert_eq!(parse(NONCE_A, message), Err(DigestError::Malformed));
    }
}

proptest! {
    #[test]
    fn any_message_parses_without_panic(message in "[a-z=\", \\\\]{0,60}|.{0,60}") {
        let _ = Directives::parse(message.as_bytes(), RESPONSE_LENGTH_MAX);
        let all = Protection::ALL.into_iter().collect();
        let _ = ClientResponse::new(message.as_bytes(), &all, b"id", b"pw", "c");
    }

    #[test]
    fn both_sides_agree_on_any_token(
        identifier in proptest::collection::vec(any::<u8>(), 0..300),
        password in proptest::collection::vec(any::<u8>(), 0..40),
        server in any::<[u8; NONCE_BYTES]>(),
        client in any::<[u8; NONCE_BYTES]>(),
        level in proptest::sample::select(&Protection::ALL[..]),
    ) {
        let server_nonce = nonce(server);
        let levels = Protections::from(level);
        let response = ClientResponse::new(
            challenge(&server_nonce, &levels).as_bytes(),
            &levels,
            &identifier,
            &password,
            &nonce(client),
        )
        .unwrap();
        let check = ServerCheck::parse(&server_nonce, &levels, response.message.as_bytes()).unwrap();
        prop_assert_eq!(&check.identifier()[..], &identifier[..]);
        let proof = check.verify(&password).unwrap();
        let layer = response.verify(proof.message.as_bytes()).unwrap();
        prop_assert_eq!(layer.is_some(), level != Protection::Authentication);
        prop_assert_eq!(proof.layer.is_some(), layer.is_some());
    }
}
