//! Bytes on the ports that are no calls, and calls of methods that do not exist.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpStream};

use bytes::Bytes;
use wire::exception::HadoopException;
use wire::protocol::{application_client, container_management, resource_tracker};
use wire::rpc::{ClientAuth, ClientOptions, RpcClient};

use crate::mini_rm::distributed::runtime;
use crate::mini_rm::process::{DEADLINE, MiniRm};

/// `hrpc`, version 9, service class 0, SASL.
const PREAMBLE: [u8; 7] = *b"hrpc\x09\x00\xdf";

/// `hrpc`, version 9, service class 0, no authentication: accepted by a port of a cluster without
/// security.
pub(crate) const SIMPLE_PREAMBLE: [u8; 7] = *b"hrpc\x09\x00\x00";

pub(crate) const SERVICES: [&str; 4] = ["client", "scheduler", "tracker", "web"];

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    stream
}

/// Sends bytes to a port; expects the end of the connection, with or without an answer.
#[track_caller]
fn is_closed_after(address: SocketAddr, bytes: &[u8]) {
    let mut stream = connect(address);
    // The server may close before all is sent.
    let _ = stream.write_all(bytes);
    let mut answer = Vec::new();
    if let Err(error) = stream.read_to_end(&mut answer) {
        // Bytes were sent and not read.
        assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset, "{error}");
    }
}

#[test]
fn noise_on_any_port_is_cut_off_and_hurts_nobody() {
    let mut rm = MiniRm::start(|_| {});
    let oversized = i32::MAX.to_be_bytes();
    let negative = (-5_i32).to_be_bytes();
    let noise = [&16_u32.to_be_bytes()[..], &[0xff; 16]].concat();
    let all: [&[u8]; 8] = [
        &[0xff; 64],
        b"hrpc\x63\x00\xdf",
        &[&PREAMBLE[..], &oversized].concat(),
        &[&PREAMBLE[..], &negative].concat(),
        &[&PREAMBLE[..], &noise].concat(),
        &[&SIMPLE_PREAMBLE[..], &noise].concat(),
        &[&SIMPLE_PREAMBLE[..], &oversized].concat(),
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    ];
    for service in SERVICES {
        let address = rm.address(service);
        for bytes in all {
            if service == "web" && bytes.starts_with(b"hrpc") {
                // Could be the start of a request line: an HTTP server waits for its end.
                drop(connect(address).write_all(bytes));
            } else {
                is_closed_after(address, bytes);
            }
        }
    }
    rm.assert_serves_and_ends();
}

#[test]
fn a_client_of_http_on_the_ports_for_calls_is_sent_away() {
    let mut rm = MiniRm::start(|_| {});
    for service in ["client", "scheduler", "tracker"] {
        let address = rm.address(service);
        is_closed_after(address, b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
    }
    rm.assert_serves_and_ends();
}

#[test]
fn connections_that_are_silent_or_cut_anywhere_keep_nobody_out() {
    let mut rm = MiniRm::start(|_| {});
    let mut silent = Vec::new();
    for service in SERVICES {
        let address = rm.address(service);
        let bytes = [&PREAMBLE[..], &16_u32.to_be_bytes(), &[0xff; 9]].concat();
        for length in 0..bytes.len() {
            connect(address).write_all(&bytes[..length]).unwrap();
        }
        // The web server accepts 64 connections at once.
        silent.extend((0..60).map(|_| connect(address)));
    }
    rm.assert_serves_and_ends();
    drop(silent);
}

#[test]
fn requests_that_http_does_not_allow_are_refused() {
    let mut rm = MiniRm::start(|_| {});
    let address = rm.address("web");
    let long = "x".repeat(100_000);
    for request in [
        format!("GET /{long} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"),
        format!("GET / HTTP/1.1\r\nHost: localhost\r\nX: {long}\r\nConnection: close\r\n\r\n"),
        format!(
            "PUT /ws/v1/cluster/apps/application_1_0001/state HTTP/1.1\r\nHost: localhost\r\n\
             Content-Length: {}\r\nConnection: close\r\n\r\n{long}",
            long.len()
        ),
        "PUT /ws/v1/cluster/apps/application_1_0001/state HTTP/1.1\r\nHost: localhost\r\n\
         Transfer-Encoding: chunked\r\nConnection: close\r\n\r\nffffffffffffffff\r\n"
            .to_owned(),
        "DELETE /ws/v1/cluster/apps HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
            .to_owned(),
    ] {
        let mut stream = connect(address);
        let _ = stream.write_all(request.as_bytes());
        let _ = stream.shutdown(Shutdown::Write);
        let mut answer = Vec::new();
        // The server may close while bytes are left to read.
        let _ = stream.read_to_end(&mut answer);
        let answer = String::from_utf8_lossy(&answer);
        let head = answer.lines().next().unwrap_or_default();
        assert!(head.is_empty() || head.contains(" 4"), "{head}");
    }
    rm.assert_serves_and_ends();
}

#[test]
fn calls_of_something_that_is_not_there_are_refused_and_the_connection_stays() {
    let mut rm = MiniRm::start(|_| {});
    for (service, protocol) in [
        ("client", application_client::PROTOCOL),
        ("tracker", resource_tracker::PROTOCOL),
    ] {
        let address = rm.address(service);
        runtime().block_on(async {
            let auth = ClientAuth::Simple {
                user: "somebody".to_owned(),
            };
            let options = ClientOptions::default();
            let client = RpcClient::connect(address, protocol, auth, &options)
                .await
                .unwrap();
            for (method, protocol, version, request, expected) in [
                (
                    "startContainers",
                    container_management::PROTOCOL,
                    1,
                    &[][..],
                    HadoopException::NoSuchProtocol,
                ),
                ("explode", protocol, 1, &[], HadoopException::NoSuchMethod),
                (
                    "explode",
                    protocol,
                    99,
                    &[],
                    HadoopException::VersionMismatch,
                ),
            ] {
                let request = Bytes::from_static(request);
                let refusal = client.call_raw(method, protocol, version, request).await;
                let refusal = refusal.unwrap_err();
                let exception = refusal.remote().expect("it answers");
                assert!(exception.is(expected), "{exception}");
            }
        });
    }
    rm.assert_serves_and_ends();
}
