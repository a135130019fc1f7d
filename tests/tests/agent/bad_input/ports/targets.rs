//! The ports of a node, each as strangers reach it and, where a token opens more, as a tenant does.

use std::io;
use std::net::{Ipv4Addr, TcpStream};
use std::os::unix::net::UnixStream;

use bytes::BytesMut;
use prost::Message as _;
use wire::header::{self, MethodName};
use wire::proto::hadoop_yarn::AllocateRequestProto;
use wire::protocol::{application_master, container_management};

use super::node::{Node, STATUS};
use super::peer::Peer;
use crate::bad_input::limits::{CLIENT_ID, connect_from, prove_for};

/// A port as some peers reach it.
pub(super) struct Target {
    pub(super) name: &'static str,
    /// Port in the metrics.
    pub(super) label: &'static str,
    /// Opens a connection that may make requests, from an address of this machine.
    pub(super) open: fn(&Node, Ipv4Addr) -> io::Result<Peer>,
    /// The beginning of a request.
    pub(super) half: &'static [u8],
    /// Returns the request of this number on a connection.
    pub(super) request: fn(&Node, i32) -> Vec<u8>,
    /// Returns a request whose answer is long, or at least not short.
    pub(super) long: fn(&Node, i32) -> Vec<u8>,
    /// Whether a connection serves any number of requests.
    pub(super) answers_all: bool,
    /// Takes whole answers from what has arrived; returns their number.
    pub(super) take_answers: fn(&mut Vec<u8>) -> i32,
    /// Has a polite peer served.
    pub(super) serve: fn(&Node),
    /// Connections that the port has at most.
    pub(super) sockets_max: usize,
    /// Reasons for which the attacks are refused, as the metrics name them.
    pub(super) reasons: &'static [&'static str],
}

/// `hrpc`, version 9, service class 0, SASL; then an announced frame of which half arrives.
const HALF_HANDSHAKE: &[u8] = &{
    let mut bytes = [0; 8_011];
    let start = *b"hrpc\x09\x00\xdf\x00\x00\x3e\x80";
    let mut at = 0;
    while at < start.len() {
        bytes[at] = start[at];
        at += 1;
    }
    bytes
};

/// An announced frame of 1 MiB.
const HALF_CALL: &[u8] = b"\x00\x10\x00\x00\x01\x02\x03\x04\x05";

/// Port of ApplicationMasters, without a token.
pub(super) const MASTERS_BY_STRANGERS: Target = Target {
    name: "container management, strangers",
    label: "container_management",
    open: |node, from| connect(node, from, node_port(node)),
    half: HALF_HANDSHAKE,
    request: |_, number| unproven(number),
    long: |_, number| unproven(number),
    answers_all: false,
    take_answers: take_frames,
    serve: Node::run_container,
    sockets_max: 1_024,
    reasons: &["malformed", "evicted"],
};

/// Port of ApplicationMasters, with an NMToken.
pub(super) const MASTERS_BY_TENANT: Target = Target {
    name: "container management, a tenant",
    label: "container_management",
    open: |node, from| {
        let stream = connect_tcp(node, from, node_port(node))?;
        prove_for(container_management::PROTOCOL, stream, node.nm_token()).map(Peer::Tcp)
    },
    half: HALF_CALL,
    request: |_, number| statuses(number, 1),
    long: |_, number| statuses(number, 10_000),
    answers_all: true,
    take_answers: take_frames,
    serve: Node::run_container,
    sockets_max: 1_024,
    reasons: &["evicted"],
};

/// The AMRMProxy, without a token.
pub(super) const PROXY_BY_STRANGERS: Target = Target {
    name: "AMRMProxy, strangers",
    label: "amrm_proxy",
    open: |node, from| connect(node, from, node.cluster.proxy.port()),
    half: HALF_HANDSHAKE,
    request: |_, number| unproven(number),
    long: |_, number| unproven(number),
    answers_all: false,
    take_answers: take_frames,
    serve: Node::allocate,
    sockets_max: 512,
    reasons: &["malformed", "evicted"],
};

/// The AMRMProxy, with an AMRMToken.
pub(super) const PROXY_BY_TENANT: Target = Target {
    name: "AMRMProxy, a tenant",
    label: "amrm_proxy",
    open: |node, from| {
        let stream = connect_tcp(node, from, node.cluster.proxy.port())?;
        let token = node.tenant_token.clone();
        prove_for(application_master::PROTOCOL, stream, token).map(Peer::Tcp)
    },
    half: HALF_CALL,
    request: |_, number| allocate(number),
    long: |_, number| allocate(number),
    answers_all: true,
    take_answers: take_frames,
    serve: Node::allocate,
    sockets_max: 512,
    reasons: &["evicted"],
};

/// Pages, REST and metrics.
pub(super) const WEB: Target = Target {
    name: "web",
    label: "web",
    open: |node, from| connect(node, from, node.web_port),
    half: b"GET / HTTP/1.1\r\nX: ",
    request: |_, _| b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n".to_vec(),
    long: |node, _| {
        let path = format!("/ws/v1/node/containers/{}/logs/stdout", node.logged);
        format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").into_bytes()
    },
    answers_all: true,
    take_answers: take_http,
    serve: Node::scrape,
    sockets_max: 256,
    reasons: &["evicted"],
};

/// Map outputs, with the secret of a job where a request is whole.
pub(super) const SHUFFLE: Target = Target {
    name: "shuffle",
    label: "shuffle",
    open: |node, from| connect(node, from, node.shuffle_port),
    half: b"GET /mapOutput?job=",
    request: |node, _| node.fetch(0).into_bytes(),
    long: |node, _| node.fetch(1).into_bytes(),
    answers_all: true,
    take_answers: take_http,
    serve: Node::reduce,
    sockets_max: 128 + 64,
    reasons: &["no_place", "evicted"],
};

/// The socket of operators, as the agent's own user.
pub(super) const ADMIN: Target = Target {
    name: "admin socket",
    label: "admin",
    open: |node, _| UnixStream::connect(node.admin_socket()).map(Peer::Unix),
    half: b"{\"command\":",
    request: |_, _| STATUS.to_vec(),
    long: |_, _| STATUS.to_vec(),
    answers_all: false,
    take_answers: |_| 0,
    serve: Node::ask_status,
    sockets_max: 256,
    reasons: &["evicted", "malformed"],
};

fn node_port(node: &Node) -> u16 {
    node.cluster.rm.wait_registered().port
}

fn connect_tcp(node: &Node, from: Ipv4Addr, port: u16) -> io::Result<TcpStream> {
    connect_from(&node.cluster.rm, from, port)
}

fn connect(node: &Node, from: Ipv4Addr, port: u16) -> io::Result<Peer> {
    connect_tcp(node, from, port).map(Peer::Tcp)
}

/// Returns a call; on a connection of strangers, which have proved nothing, after the preamble.
fn unproven(number: i32) -> Vec<u8> {
    let preamble: &[u8] = if number == 0 {
        b"hrpc\x09\x00\xdf"
    } else {
        b""
    };
    [preamble, &statuses(number, 1)].concat()
}

/// Returns a call for the statuses of so many containers.
fn statuses(number: i32, containers: usize) -> Vec<u8> {
    let name = MethodName {
        method: "getContainerStatuses",
        protocol: container_management::PROTOCOL,
        version: 1,
    };
    let mut call = BytesMut::new();
    let ids = [0x0a, 0].repeat(containers);
    header::put_call(&mut call, number, &CLIENT_ID, name, &ids).unwrap();
    call.to_vec()
}

fn allocate(number: i32) -> Vec<u8> {
    let name = MethodName {
        method: "allocate",
        protocol: application_master::PROTOCOL,
        version: 1,
    };
    let request = AllocateRequestProto::default().encode_to_vec();
    let mut call = BytesMut::new();
    header::put_call(&mut call, number, &CLIENT_ID, name, &request).unwrap();
    call.to_vec()
}

fn take_frames(received: &mut Vec<u8>) -> i32 {
    let mut taken = 0;
    let mut count = 0;
    while let Some((length, rest)) = received[taken..].split_first_chunk::<4>() {
        let length = usize::try_from(u32::from_be_bytes(*length)).unwrap();
        if rest.len() < length {
            break;
        }
        taken += 4 + length;
        count += 1;
    }
    received.drain(..taken);
    count
}

/// Takes answers of HTTP: each has a head with its length.
fn take_http(received: &mut Vec<u8>) -> i32 {
    let mut taken = 0;
    let mut count = 0;
    loop {
        let rest = &received[taken..];
        let Some(head) = rest.windows(4).position(|four| four == b"\r\n\r\n") else {
            break;
        };
        let text = str::from_utf8(&rest[..head]).unwrap();
        assert!(text.starts_with("HTTP/1.1 200"), "{text}");
        let length = text.lines().find_map(|line| {
            let (name, value) = line.split_once(": ")?;
            let is_length = name.eq_ignore_ascii_case("content-length");
            is_length.then(|| value.parse::<usize>().unwrap())
        });
        let whole = head + 4 + length.unwrap();
        if rest.len() < whole {
            break;
        }
        taken += whole;
        count += 1;
    }
    received.drain(..taken);
    count
}
