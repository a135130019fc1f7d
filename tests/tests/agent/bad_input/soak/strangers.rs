//! Attacks on the port of ApplicationMasters by peers without a token.

use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, TcpStream};
use std::time::Duration;

use bytes::BytesMut;
use test_support::RmSecrets;
use test_support::scripted::ScriptedAm;
use wire::header;
use wire::proto::hadoop_common::RpcSaslProto;
use wire::proto::hadoop_common::rpc_sasl_proto::{SaslAuth, SaslState};

use super::{Attack, Field, TENANT, attack};
use crate::bad_input::limits::connect_from;

/// Address of strangers that is not the polite peers'.
pub(super) const ELSEWHERE: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);

/// `hrpc`, version 9, service class 0, SASL.
const PREAMBLE: &[u8] = b"hrpc\x09\x00\xdf";

/// Time for which sockets of an attack stay open.
const HOLD: Duration = Duration::from_secs(1);

pub(super) fn attacks() -> Vec<Attack> {
    vec![
        // At the address of the polite peers: containers of one node share it.
        attack("silent sockets", |field| {
            hold(field, Ipv4Addr::LOCALHOST, 400, &[])
        }),
        attack("unfinished frames", |field| {
            let announced = 16_000_u32.to_be_bytes();
            let unfinished = [PREAMBLE, &announced, &[0; 8_000]].concat();
            hold(field, ELSEWHERE, 400, &unfinished)
        }),
        attack("wrong tokens", wrong_tokens),
        attack("SASL nonsense", sasl_nonsense),
    ]
}

/// Connects to a port of the node from this address.
pub(super) fn connect(field: &Field<'_>, from: Ipv4Addr, port: u16) -> io::Result<TcpStream> {
    connect_from(field.rm, from, port)
}

/// Opens many connections, sends these bytes on each, and keeps them for a moment. Returns how many
/// were opened.
fn hold(field: &Field<'_>, from: Ipv4Addr, count: usize, bytes: &[u8]) -> u64 {
    let port = field.node.port;
    let streams: Vec<TcpStream> = (0..count)
        .filter_map(|_| connect(field, from, port).ok())
        .filter(|mut stream| stream.write_all(bytes).is_ok())
        .collect();
    field.pause(HOLD);
    streams.len() as u64
}

fn wrong_tokens(field: &Field<'_>) -> u64 {
    let attempt = field.attempt(99);
    let refused = (0..20).filter(|_| {
        let token = RmSecrets::new().nm_token(attempt, &field.node, TENANT);
        ScriptedAm::open(field.rm, &field.node, &token).is_err()
    });
    refused.count() as u64
}

/// Sends SASL messages out of their order, with mechanisms that do not exist and with noise.
fn sasl_nonsense(field: &Field<'_>) -> u64 {
    let states = [
        SaslState::Success,
        SaslState::Initiate,
        SaslState::Response,
        SaslState::Challenge,
        SaslState::Wrap,
    ];
    let mut sent = 0;
    for state in states {
        let message = RpcSaslProto {
            state: state.into(),
            token: Some(vec![0xff; 4_000].into()),
            auths: vec![SaslAuth {
                method: "NOTHING".to_owned(),
                mechanism: "NOTHING".repeat(100),
                ..SaslAuth::default()
            }],
            ..RpcSaslProto::default()
        };
        let mut bytes = BytesMut::from(PREAMBLE);
        header::put_sasl_request(&mut bytes, &message).unwrap();
        let Ok(mut stream) = connect(field, ELSEWHERE, field.node.port) else {
            continue;
        };
        if stream.write_all(&bytes).is_ok() {
            sent += 1;
            // The answer, or the end of the connection.
            let _answered = stream.read(&mut [0; 1024]);
        }
    }
    sent
}
