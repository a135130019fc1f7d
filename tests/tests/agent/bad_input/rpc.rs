//! Bytes on the port that are no calls, and calls of methods that do not exist.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpStream};
use std::time::Duration;

use bytes::Bytes;
use tests::scripted_cluster::ScriptedCluster;
use wire::exception::{HadoopException, RemoteException};
use wire::proto::hadoop_yarn::{ContainerIdProto, StopContainersRequestProto};
use wire::protocol::container_management::{self, StopContainers};
use wire::rpc::RpcError;

use crate::bad_input::cluster;

/// `hrpc`, version 9, service class 0, SASL.
const PREAMBLE: [u8; 7] = *b"hrpc\x09\x00\xdf";

/// Deadline for a server to close a connection with bad input.
const CLOSE_DEADLINE: Duration = Duration::from_secs(60);

/// A frame length that Hadoop's default limit still allows: 120 MiB.
const LARGE_FRAME: u32 = 120 << 20;

/// Memory that many connections that only announce large frames may cost a node, in MiB. A node
/// that allocated what they announce would need 64 times 120 MiB.
const ANNOUNCED_COST_MAX_MB: u64 = 64;

fn connect(cluster: &ScriptedCluster) -> TcpStream {
    let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, cluster.am.node().port)).unwrap();
    stream.set_read_timeout(Some(CLOSE_DEADLINE)).unwrap();
    stream
}

/// Sends bytes; expects the end of the connection and that the node serves on.
#[track_caller]
fn is_closed_after(bytes: &[u8]) {
    let cluster = cluster();
    let mut stream = connect(&cluster);
    // The node may close before all is sent.
    let _ = stream.write_all(bytes);
    let mut answer = Vec::new();
    match stream.read_to_end(&mut answer) {
        Ok(_) => {}
        // Bytes were sent and not read.
        Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset, "{error}"),
    }
    cluster.assert_serves();
}

#[test]
fn a_client_of_another_protocol_is_sent_away() {
    is_closed_after(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
}

#[test]
fn a_client_of_another_version_is_sent_away() {
    is_closed_after(b"hrpc\x63\x00\xdf");
}

#[test]
fn a_frame_longer_than_allowed_ends_the_connection() {
    is_closed_after(&[&PREAMBLE[..], &i32::MAX.to_be_bytes()].concat());
}

#[test]
fn a_frame_of_negative_length_ends_the_connection() {
    is_closed_after(&[&PREAMBLE[..], &(-5_i32).to_be_bytes()].concat());
}

#[test]
fn a_frame_of_noise_ends_the_connection() {
    is_closed_after(&[&PREAMBLE[..], &16_u32.to_be_bytes(), &[0xff; 16]].concat());
}

#[test]
fn connections_cut_anywhere_hurt_nobody() {
    let cluster = cluster();
    let bytes = [&PREAMBLE[..], &16_u32.to_be_bytes(), &[0xff; 9]].concat();
    for length in 0..bytes.len() {
        connect(&cluster).write_all(&bytes[..length]).unwrap();
    }
    cluster.assert_serves();
}

#[test]
fn silent_connections_do_not_keep_others_out() {
    let cluster = cluster();
    let silent: Vec<TcpStream> = (0..200).map(|_| connect(&cluster)).collect();
    cluster.assert_serves();
    drop(silent);
}

#[test]
fn frames_that_are_only_announced_cost_no_memory() {
    let cluster = cluster();
    let before = rss_mb(&cluster);
    let announcing: Vec<TcpStream> = (0..64)
        .map(|_| {
            let mut stream = connect(&cluster);
            let announced = [&PREAMBLE[..], &LARGE_FRAME.to_be_bytes(), &[0; 100]].concat();
            // The node may have closed already.
            let _ = stream.write_all(&announced);
            stream
        })
        .collect();
    cluster.assert_serves();
    let after = rss_mb(&cluster);
    assert!(
        after < before + ANNOUNCED_COST_MAX_MB,
        "{before} MiB before, {after} MiB after"
    );
    drop(announcing);
}

fn rss_mb(cluster: &ScriptedCluster) -> u64 {
    let status = format!("/proc/{}/status", cluster.node.process.id());
    let status = std::fs::read_to_string(status).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:"));
    let kib: u64 = line
        .and_then(|line| line.split_whitespace().nth(1)?.parse().ok())
        .unwrap();
    kib / 1024
}

/// Makes a call of raw bytes on the ApplicationMaster's own connection; expects `exception` and
/// that the connection still works.
#[track_caller]
fn call_refused(
    method: &str,
    protocol: &str,
    version: u64,
    request: &'static [u8],
) -> RemoteException {
    let cluster = cluster();
    let call = cluster
        .am
        .client()
        .call_raw(method, protocol, version, Bytes::from_static(request));
    let error = cluster.rm.runtime().block_on(call).unwrap_err();
    cluster.assert_serves();
    let RpcError::Remote(exception) = error else {
        panic!("{error}");
    };
    exception
}

#[test]
fn an_unknown_protocol_is_refused_and_the_connection_stays() {
    let exception = call_refused("startContainers", "org.example.Nothing", 1, &[]);
    assert!(exception.is(HadoopException::NoSuchProtocol), "{exception}");
}

#[test]
fn an_unknown_method_is_refused_and_the_connection_stays() {
    let exception = call_refused("explode", container_management::PROTOCOL, 1, &[]);
    assert!(exception.is(HadoopException::NoSuchMethod), "{exception}");
}

#[test]
fn another_version_of_the_protocol_is_refused_and_the_connection_stays() {
    let exception = call_refused("startContainers", container_management::PROTOCOL, 99, &[]);
    assert!(
        exception.is(HadoopException::VersionMismatch),
        "{exception}"
    );
}

#[test]
fn a_request_that_does_not_parse_is_refused_and_the_connection_stays() {
    call_refused(
        "startContainers",
        container_management::PROTOCOL,
        1,
        &[0x0a, 0x7f, 1],
    );
}

#[test]
fn a_million_empty_entries_are_answered_and_the_connection_stays() {
    let cluster = cluster();
    let request = StopContainersRequestProto {
        container_id: vec![ContainerIdProto::default(); 1_000_000],
    };
    let call = cluster.am.client().call::<StopContainers>(&request);
    let answer = cluster.rm.runtime().block_on(call);
    assert!(
        matches!(answer, Ok(_) | Err(RpcError::Remote(_))),
        "{answer:?}"
    );
    cluster.assert_serves();
}
