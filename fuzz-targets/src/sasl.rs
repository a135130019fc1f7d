//! SASL messages, as a server and as a client get them, and the texts of DIGEST-MD5.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use wire::digest_md5::{self, ClientResponse, ServerCheck};
use wire::exception::RemoteException;
use wire::frame::{put_delimited, take_delimited};
use wire::protection::{Protection, Protections};
use wire::proto::hadoop_common::RpcSaslProto;
use wire::rpc::{SecretManager, Verified};
use wire::sasl::{ClientStep, SaslClient, SaslServer, ServerAuth, ServerStep};
use wire::token::{MasterKey, Token, kind};

use crate::{Memory, Target};

pub(crate) const TARGET: Target = Target {
    name: "sasl",
    bytes_max: 8 * 1024,
    // An empty message takes one byte and becomes an element of a list here.
    memory: Memory {
        base: 64 * 1024,
        per_byte: 512,
    },
    run,
    seeds,
};

fn key() -> MasterKey {
    MasterKey::new(42, Bytes::from_static(&[1, 2, 3, 4, 5, 6, 7, 8]))
}

fn token() -> Token {
    Token::sign(
        &key(),
        Bytes::from_static(b"identifier"),
        kind::NM_TOKEN,
        "127.0.0.1:8041",
    )
}

/// Knows the password of one identifier.
struct Keys;

impl SecretManager for Keys {
    fn kind(&self) -> &'static str {
        kind::NM_TOKEN
    }

    fn retrieve(&self, identifier: &[u8]) -> Result<Verified, RemoteException> {
        if identifier != b"identifier" {
            return Err(RemoteException::new(
                wire::exception::HadoopException::InvalidToken,
                "another identifier",
            ));
        }
        Ok(Verified {
            password: key().sign(identifier).to_vec(),
            user: "alice".to_owned(),
            owner: None,
        })
    }
}

/// Returns every level of protection, the lowest first as the kept inputs have it.
fn every_level() -> Protections {
    Protection::ALL.into_iter().collect()
}

fn nonce() -> String {
    digest_md5::nonce([5; 30])
}

fn run(input: &[u8]) {
    let mut frame = Bytes::copy_from_slice(input);
    let mut messages = Vec::new();
    while let Ok(message) = take_delimited::<RpcSaslProto>(&mut frame) {
        messages.push(message);
    }
    let as_server =
        |auth: ServerAuth| serve(SaslServer::new(auth, every_level(), nonce()), &messages);
    let proven = as_server(ServerAuth::Token(Arc::new(Keys)));
    assert!(!matches!(proven, Some(ServerStep::SwitchToSimple(_))));
    if let Some(ServerStep::Done(_, proven)) = &proven {
        assert_eq!(proven.identifier, token().identifier);
    }
    let _any_end = as_server(ServerAuth::TokenOrSimple(Arc::new(Keys)));
    assert!(!matches!(
        as_server(ServerAuth::Simple),
        Some(ServerStep::Done(..))
    ));
    follow(&messages);
    let _read_or_not = ServerCheck::parse(&nonce(), &every_level(), input);
    let _read_or_not =
        ClientResponse::new(input, &every_level(), b"identifier", b"password", "cnonce");
}

/// Gives a server the messages until its last step, which it returns.
fn serve(mut server: SaslServer, messages: &[RpcSaslProto]) -> Option<ServerStep> {
    let mut last = None;
    for message in messages {
        match server.handle(message) {
            Ok(step @ ServerStep::Reply(_)) => last = Some(step),
            Ok(step) => {
                assert!(server.handle(message).is_err(), "after its last step");
                return Some(step);
            }
            Err(_) => {
                assert!(server.handle(message).is_err(), "after its refusal");
                return None;
            }
        }
    }
    last
}

/// Gives a client the messages.
fn follow(messages: &[RpcSaslProto]) {
    let mut client = SaslClient::new(token(), every_level(), "cnonce".to_owned());
    for message in messages {
        match client.handle(message) {
            Ok(ClientStep::Send(_)) => {}
            Ok(ClientStep::Done) | Err(_) => {
                assert!(client.handle(message).is_err(), "after the end");
                return;
            }
        }
    }
}

/// Returns the messages of a whole negotiation, those of the client and those of the server.
fn seeds() -> Vec<Vec<u8>> {
    let mut server = SaslServer::new(ServerAuth::Token(Arc::new(Keys)), every_level(), nonce());
    let mut client = SaslClient::new(token(), every_level(), "cnonce".to_owned());
    let (mut of_client, mut of_server) = (BytesMut::new(), BytesMut::new());
    let mut message = client.start();
    loop {
        put_delimited(&mut of_client, &message);
        let (reply, is_done) = match server.handle(&message).expect("an honest client") {
            ServerStep::Reply(reply) => (reply, false),
            ServerStep::Done(reply, _) => (reply, true),
            ServerStep::SwitchToSimple(_) => panic!("the server takes tokens only"),
        };
        put_delimited(&mut of_server, &reply);
        match client.handle(&reply).expect("an honest server") {
            ClientStep::Send(next) => message = next,
            ClientStep::Done => {
                assert!(is_done);
                break;
            }
        }
    }
    let response = ClientResponse::new(
        digest_md5::challenge(&nonce(), &every_level()).as_bytes(),
        &every_level(),
        b"identifier",
        b"password",
        "cnonce",
    );
    vec![
        of_client.to_vec(),
        of_server.to_vec(),
        digest_md5::challenge(&nonce(), &every_level()).into_bytes(),
        response.expect("an honest challenge").message.into_bytes(),
    ]
}
