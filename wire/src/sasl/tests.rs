use proptest::prelude::*;
use prost::Message as _;

use super::*;
use crate::digest_md5::DigestError;
use crate::rpc::Verified;
use crate::testing::{Keys, am_token, hex};

const NONCE: &str = "t6kM3aJdaQj4zoKIHKunxp8+8tUVlXROGGkkxvqo";
const CNONCE: &str = "dDgCPworofLRuKtHVt2G6PEXsGK/+FkwUAWnirLY";

fn server(auth: ServerAuth) -> SaslServer {
    SaslServer::new(auth, Protections::default(), NONCE.to_owned())
}

fn token_only() -> ServerAuth {
    ServerAuth::Token(Arc::new(Keys))
}

fn client() -> SaslClient {
    SaslClient::new(am_token(), Protections::default(), CNONCE.to_owned())
}

fn reply(server: &mut SaslServer, received: &RpcSaslProto) -> RpcSaslProto {
    match server.handle(received) {
        Ok(ServerStep::Reply(reply)) => reply,
        other => panic!("no reply but {other:?}"),
    }
}

fn sent(client: &mut SaslClient, received: &RpcSaslProto) -> RpcSaslProto {
    match client.handle(received) {
        Ok(ClientStep::Send(message)) => message,
        other => panic!("nothing to send but {other:?}"),
    }
}

fn refusal(server: &mut SaslServer, received: &RpcSaslProto) -> RemoteException {
    server.handle(received).unwrap_err()
}

#[test]
fn token_proves_its_holder_and_the_server() {
    let (mut server, mut client) = (server(token_only()), client());
    let offer = reply(&mut server, &client.start());
    assert_eq!(
        offer.encode_to_vec(),
        [
            hex("1001 228c01 0a05544f4b454e 120a4449474553542d4d4435 1a00 220764656661756c74 2a6c"),
            digest_md5::challenge(NONCE, &Protections::default()).into_bytes(),
        ]
        .concat()
    );
    let initiate = sent(&mut client, &offer);
    let bytes = initiate.encode_to_vec();
    assert_eq!(bytes[..5], hex("1002 1a9202"));
    assert_eq!(
        bytes[bytes.len() - 32..],
        hex("221e 0a05544f4b454e 120a4449474553542d4d4435 1a00 220764656661756c74")
    );
    let ServerStep::Done(success, authenticated) = server.handle(&initiate).unwrap() else {
        panic!("not done");
    };
    assert_eq!(
        success.encode_to_vec(),
        hex(
            "1000 1a28 727370617574683d3663383032343663636565373432396561373333306531666430356138656361"
        )
    );
    assert_eq!(authenticated.identifier, am_token().identifier);
    assert_eq!(authenticated.user, "appattempt_1700000000000_0007_000001");
    assert_eq!(client.handle(&success), Ok(ClientStep::Done));
}

#[test]
fn challenge_and_response_work_without_negotiation() {
    let mut server = server(token_only());
    let opening = RpcSaslProto {
        token: Some(Bytes::new()),
        auths: vec![token_auth()],
        ..message(SaslState::Initiate)
    };
    let challenge = reply(&mut server, &opening);
    assert_eq!(challenge.state, i32::from(SaslState::Challenge));
    let token = am_token();
    let response = ClientResponse::new(
        &challenge.token.unwrap(),
        &Protections::default(),
        &token.identifier,
        &token.password,
        CNONCE,
    )
    .unwrap();
    let response = RpcSaslProto {
        token: Some(response.message.into()),
        ..message(SaslState::Response)
    };
    assert!(matches!(server.handle(&response), Ok(ServerStep::Done(..))));
}

#[test]
fn server_without_tokens_answers_success_and_asks_for_a_name() {
    let mut server = server(ServerAuth::Simple);
    let step = server.handle(&client().start());
    assert_eq!(
        step,
        Ok(ServerStep::SwitchToSimple(Some(message(
            SaslState::Success
        ))))
    );
    let success = message(SaslState::Success);
    assert_eq!(
        client().handle(&success),
        Err(SaslError::NoToken { offered: vec![] })
    );
}

#[test]
fn token_without_negotiation_is_answered_success_by_a_server_without_tokens() {
    for token in [None, Some(Bytes::new()), Some(Bytes::from_static(b"proof"))] {
        let opening = RpcSaslProto {
            token,
            auths: vec![token_auth()],
            ..message(SaslState::Initiate)
        };
        assert_eq!(
            server(ServerAuth::Simple).handle(&opening),
            Ok(ServerStep::SwitchToSimple(Some(message(
                SaslState::Success
            ))))
        );
    }
}

#[test]
fn choice_of_a_token_without_one_is_refused() {
    let opening = RpcSaslProto {
        auths: vec![token_auth()],
        ..message(SaslState::Initiate)
    };
    let error = refusal(&mut server(token_only()), &opening);
    assert!(error.is(HadoopException::Sasl));
    assert_eq!(error.message, "Client did not send a token");
}

#[test]
fn simple_choice_on_a_mixed_server_is_not_answered() {
    let mut server = server(ServerAuth::TokenOrSimple(Arc::new(Keys)));
    let offer = reply(&mut server, &client().start());
    assert_eq!(offer.auths[1].encode_to_vec(), hex("0a0653494d504c45 1200"));
    let choice = RpcSaslProto {
        auths: vec![simple_auth()],
        ..message(SaslState::Initiate)
    };
    assert_eq!(
        choice.encode_to_vec(),
        hex("1002 220a 0a06 53494d504c45 1200")
    );
    assert_eq!(server.handle(&choice), Ok(ServerStep::SwitchToSimple(None)));
}

#[test]
fn client_prefers_its_token_on_a_mixed_server() {
    let mut server = server(ServerAuth::TokenOrSimple(Arc::new(Keys)));
    let mut client = client();
    let offer = reply(&mut server, &client.start());
    let initiate = sent(&mut client, &offer);
    assert!(matches!(server.handle(&initiate), Ok(ServerStep::Done(..))));
}

#[test]
fn client_finds_its_method_among_others() {
    let kerberos = SaslAuth {
        method: "KERBEROS\u{7}".to_owned(),
        mechanism: "GSSAPI".to_owned(),
        ..simple_auth()
    };
    // Each half of a token's method is offered elsewhere.
    let halves = [
        SaslAuth {
            mechanism: "GSSAPI".to_owned(),
            ..token_auth()
        },
        SaslAuth {
            method: "DIGEST".to_owned(),
            ..token_auth()
        },
    ];
    let offer = |auths: Vec<SaslAuth>| RpcSaslProto {
        auths,
        ..message(SaslState::Negotiate)
    };
    let with_token = reply(&mut server(token_only()), &client().start()).auths;
    let mixed = [vec![kerberos.clone()], halves.to_vec(), with_token].concat();
    let initiate = sent(&mut client(), &offer(mixed));
    assert_eq!(initiate.auths, [token_auth()]);
    let simple = offer(vec![kerberos, simple_auth()]);
    let offered = vec!["KERBEROS".to_owned(), "SIMPLE".to_owned()];
    let refusal = client().handle(&simple);
    assert_eq!(refusal, Err(SaslError::NoToken { offered }));
}

#[test]
fn choice_that_is_not_the_advertised_one_is_refused() {
    let without_protocol = SaslAuth {
        protocol: None,
        ..token_auth()
    };
    let with_challenge = SaslAuth {
        challenge: Some(Bytes::from_static(b"c")),
        ..token_auth()
    };
    for auth in [without_protocol, with_challenge, simple_auth()] {
        let mut server = server(token_only());
        reply(&mut server, &message(SaslState::Negotiate));
        let error = refusal(
            &mut server,
            &RpcSaslProto {
                auths: vec![auth],
                ..message(SaslState::Initiate)
            },
        );
        assert!(error.is(HadoopException::AccessControl));
        assert_eq!(error.code, RpcErrorCode::FatalUnauthorized);
    }
}

#[test]
fn unadvertised_choice_without_negotiation_is_answered_by_an_offer() {
    let mut server = server(token_only());
    let choice = RpcSaslProto {
        auths: vec![simple_auth()],
        ..message(SaslState::Initiate)
    };
    assert_eq!(
        reply(&mut server, &choice).state,
        i32::from(SaslState::Negotiate)
    );
}

#[test]
fn second_negotiation_and_foreign_states_are_refused() {
    let mut twice = server(token_only());
    reply(&mut twice, &message(SaslState::Negotiate));
    assert!(refusal(&mut twice, &message(SaslState::Negotiate)).is(HadoopException::AccessControl));
    for state in [
        SaslState::Success,
        SaslState::Challenge,
        SaslState::Response,
        SaslState::Wrap,
    ] {
        let error = refusal(&mut server(token_only()), &message(state));
        assert!(error.is(HadoopException::Sasl));
        assert_eq!(error.code, RpcErrorCode::FatalUnauthorized);
    }
    let unknown = RpcSaslProto {
        state: 77,
        ..RpcSaslProto::default()
    };
    assert!(refusal(&mut server(token_only()), &unknown).is(HadoopException::Sasl));
}

#[test]
fn finished_negotiation_takes_no_more() {
    let mut server = server(ServerAuth::Simple);
    let _ = server.handle(&message(SaslState::Negotiate));
    assert_eq!(
        refusal(&mut server, &message(SaslState::Negotiate)).code,
        RpcErrorCode::FatalInvalidRpcHeader
    );
}

#[test]
fn wrong_password_is_a_sasl_exception() {
    let token = Token {
        password: Bytes::from_static(b"wrong"),
        ..am_token()
    };
    let error = refused_token(token);
    assert!(error.is(HadoopException::Sasl));
    assert_eq!(error.code, RpcErrorCode::FatalUnauthorized);
}

#[test]
fn forged_identifier_is_not_proven_by_the_old_password() {
    let mut identifier = am_token().identifier.to_vec();
    identifier[5] ^= 1;
    assert!(
        refused_token(Token {
            identifier: identifier.into(),
            ..am_token()
        })
        .is(HadoopException::Sasl)
    );
}

#[test]
fn identifier_that_the_manager_refuses_is_an_invalid_token() {
    struct Refusing;
    impl SecretManager for Refusing {
        fn kind(&self) -> &'static str {
            "NMToken"
        }
        fn retrieve(&self, _: &[u8]) -> Result<Verified, RemoteException> {
            Err(RemoteException::new(
                HadoopException::InvalidToken,
                "unknown key",
            ))
        }
    }
    let mut server = server(ServerAuth::Token(Arc::new(Refusing)));
    let mut client = client();
    let offer = reply(&mut server, &client.start());
    let error = refusal(&mut server, &sent(&mut client, &offer));
    assert!(error.is(HadoopException::InvalidToken));
    assert_eq!(error.code, RpcErrorCode::FatalUnauthorized);
}

fn refused_token(token: Token) -> RemoteException {
    let mut server = server(token_only());
    let mut client = SaslClient::new(token, Protections::default(), CNONCE.to_owned());
    let offer = reply(&mut server, &client.start());
    refusal(&mut server, &sent(&mut client, &offer))
}

#[test]
fn server_that_does_not_know_the_password_is_found_out() {
    let mut client = client();
    let offer = reply(&mut server(token_only()), &client.start());
    let _ = sent(&mut client, &offer);
    let fake = RpcSaslProto {
        token: Some(Bytes::from_static(b"rspauth=00")),
        ..message(SaslState::Success)
    };
    assert_eq!(
        client.handle(&fake),
        Err(SaslError::Digest(DigestError::Mismatch))
    );
    let mut client = self::client();
    let _ = sent(&mut client, &offer);
    assert!(client.handle(&message(SaslState::Success)).is_err());
}

proptest! {
    #[test]
    fn any_message_leaves_both_sides_without_panic(
        states in proptest::collection::vec(-1_i32..8, 1..6),
        token in proptest::option::of(proptest::collection::vec(any::<u8>(), 0..60)),
        advertised in any::<bool>(),
    ) {
        let (mut server, mut client) = (server(token_only()), client());
        let auths = if advertised { vec![token_auth()] } else { vec![] };
        for state in states {
            let message =
                RpcSaslProto { state, token: token.clone().map(Bytes::from), auths: auths.clone(), version: None };
            prop_assert!(!matches!(server.handle(&message), Ok(ServerStep::Done(..))));
            prop_assert_ne!(client.handle(&message), Ok(ClientStep::Done));
        }
    }
}
