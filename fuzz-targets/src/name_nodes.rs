//! Negotiations of NameNodes, and the choice of an application's token for one.

use bytes::{Bytes, BytesMut};
use namenode_access::handshake::{Handshake, Method, Verdict};
use namenode_access::tokens::token_for;
use wire::credentials::Credentials;
use wire::frame::{Decoded, FrameDecoder};
use wire::header::put_sasl_response;
use wire::kerberos::ServerPrincipal;
use wire::proto::hadoop_common::RpcSaslProto;
use wire::proto::hadoop_common::rpc_sasl_proto::{SaslAuth, SaslState};
use wire::token::{Token, kind};
use wire::writable::{put_bytes, put_vlong};

use crate::{Memory, Target};

pub(crate) const TARGET: Target = Target {
    name: "name_nodes",
    bytes_max: 8 * 1024,
    // An empty offer takes two bytes and becomes an element of a list; so does a token.
    memory: Memory {
        base: 64 * 1024,
        per_byte: 1024,
    },
    run,
    seeds,
};

const SERVICE: &str = "nn:8020";

fn kerberos() -> Method {
    Method::Kerberos {
        server: ServerPrincipal::Exact("nn/_HOST@NODES.TEST".to_owned()),
        host: "host.test".to_owned(),
    }
}

fn run(input: &[u8]) {
    for method in [Method::Token, kerberos()] {
        negotiate(method, input);
    }
    if let Ok(credentials) = Credentials::read(input)
        && let Ok(token) = token_for(&credentials, &[SERVICE.to_owned()], 0)
    {
        assert_eq!(token.service, SERVICE);
        assert_eq!(token.kind, kind::HDFS_DELEGATION_TOKEN);
    }
}

/// Gives a client the frames until the last that it takes.
fn negotiate(method: Method, input: &[u8]) {
    let mut decoder = FrameDecoder::new(input.len());
    decoder.read_buffer().extend_from_slice(input);
    let mut handshake = Handshake::new(method);
    let mut passed = 0;
    while let Ok(Decoded::Complete(frame)) = decoder.frame() {
        match handshake.take(frame) {
            Verdict::Pass(frame) => {
                assert!(frame.len() > 4);
                passed += 1;
            }
            Verdict::PassLast(_) => {
                assert!(passed > 0, "a server ends what it did not begin");
                return;
            }
            Verdict::Refuse(frame) => {
                assert!(frame.len() > 4);
                return;
            }
        }
    }
}

fn seeds() -> Vec<Vec<u8>> {
    let auth = |method: &str| SaslAuth {
        method: method.to_owned(),
        mechanism: "X".to_owned(),
        protocol: Some("nn".to_owned()),
        server_id: Some("host.test".to_owned()),
        challenge: Some(Bytes::from_static(b"realm=\"default\"")),
    };
    let said = |state: SaslState, token: &'static [u8]| RpcSaslProto {
        state: state.into(),
        token: Some(Bytes::from_static(token)),
        ..RpcSaslProto::default()
    };
    let mut offer = said(SaslState::Negotiate, b"");
    offer.auths = ["TOKEN", "KERBEROS", "SIMPLE"].map(auth).to_vec();
    let mut out = BytesMut::new();
    for message in [
        offer,
        said(SaslState::Challenge, b"proof"),
        said(SaslState::Challenge, b"layers"),
        said(SaslState::Success, b"end"),
    ] {
        put_sasl_response(&mut out, &message).expect("it is short");
    }
    vec![out.to_vec(), credentials()]
}

fn credentials() -> Vec<u8> {
    let mut identifier = vec![0];
    for text in ["alice", "yarn", ""] {
        put_bytes(&mut identifier, text.as_bytes());
    }
    for number in [1, i64::MAX, 3, 4] {
        put_vlong(&mut identifier, number);
    }
    let mut credentials = Credentials::default();
    let token = Token {
        identifier: identifier.into(),
        password: Bytes::from_static(b"password"),
        kind: kind::HDFS_DELEGATION_TOKEN.to_owned(),
        service: SERVICE.to_owned(),
    };
    credentials.tokens.insert(SERVICE.to_owned(), token);
    credentials.write_v0()
}
