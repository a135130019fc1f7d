//! One tenant or stranger against the whole node: an agent with 1 GiB of address space and 4,096
//! open files keeps serving others.

use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::socket::{setsockopt, sockopt};
use prost::Message as _;
use tempfile::TempDir;
use test_support::scripted::{ScriptedAm, ScriptedRm};
use test_support::{current_user, write_program};
use tests::conf::Properties;
use tests::http;
use tests::scripted_cluster::ScriptedCluster;
use tokio::net::TcpSocket;
use wire::frame::{Decoded, FRAME_LENGTH_MAX, FrameDecoder};
use wire::header::{self, ClientId, MethodName, Outcome};
use wire::proto::hadoop_common::RpcSaslProto;
use wire::protocol::container_management::PROTOCOL;
use wire::rpc::{Protections, RpcError};
use wire::sasl::{ClientStep, SaslClient};
use wire::token::Token;

use crate::AGENT;

pub(crate) const CLIENT_ID: ClientId = *b"0123456789abcdef";

/// Time that an attacker waits for an answer.
const ANSWER_WAIT: Duration = Duration::from_millis(500);

/// Buffer of an attacker's kernel: what is not read soon stays with the agent.
const RECEIVE_BUFFER_BYTES: u32 = 4 * 1024;

/// An agent with limits, and the folder of the script that sets them.
pub(super) struct Limited {
    pub(super) cluster: ScriptedCluster,
    _folder: TempDir,
}

fn limited() -> Limited {
    limited_with(|_| {})
}

/// Starts an agent with limits, after changes of its `yarn-site.xml`.
pub(super) fn limited_with(change: impl FnOnce(&mut Properties)) -> Limited {
    let folder = tempfile::tempdir().unwrap();
    let script = limited_agent(folder.path());
    Limited {
        cluster: ScriptedCluster::start_with(script.to_str().unwrap(), change),
        _folder: folder,
    }
}

/// Writes a script that is the agent with limits; returns its path. As in Hadoop's scripts, the
/// allocator has four arenas: each reserves 64 MiB of addresses, and one for each thread would take
/// the limit without any memory being used.
pub(super) fn limited_agent(folder: &Path) -> PathBuf {
    let script = folder.join("agent");
    let text = format!(
        "#!/bin/bash\nulimit -v 1048576 -n 4096\nexport MALLOC_ARENA_MAX=4\nexec '{AGENT}' \"$@\"\n"
    );
    write_program(&script, &text);
    script
}

/// Raises this process's own limit of open files as far as it may.
pub(crate) fn allow_many_files() {
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    setrlimit(Resource::RLIMIT_NOFILE, hard, hard).unwrap();
}

/// Asserts that another user's ApplicationMaster, of this application, connects and runs a
/// container.
#[track_caller]
fn assert_serves_another(cluster: &ScriptedCluster, application: i32) {
    let other = ScriptedAm::connect_as("another", &cluster.rm, application);
    let id = other.run("true");
    assert_eq!(cluster.rm.wait_completed(id).exit_status, 0);
}

fn connect(cluster: &ScriptedCluster) -> TcpStream {
    TcpStream::connect((Ipv4Addr::LOCALHOST, cluster.am.node().port)).unwrap()
}

/// Connects to a port of this machine from an address of this machine.
///
/// # Errors
/// When the connection is refused.
pub(super) fn connect_from(rm: &ScriptedRm, from: Ipv4Addr, port: u16) -> io::Result<TcpStream> {
    let connecting = async {
        let socket = TcpSocket::new_v4()?;
        socket.set_recv_buffer_size(RECEIVE_BUFFER_BYTES)?;
        socket.bind(SocketAddr::from((from, 0)))?;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        socket.connect(address).await?.into_std()
    };
    let stream = rm.runtime().block_on(connecting)?;
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(ANSWER_WAIT))?;
    Ok(stream)
}

/// Opens many connections from a few addresses that are not the masters', and sends these bytes on
/// each. Those that are closed meanwhile are left out.
fn connect_many(rm: &ScriptedRm, port: u16, count: usize, bytes: &[u8]) -> Vec<TcpStream> {
    let addresses = [2, 3, 4, 5].map(|last| Ipv4Addr::new(127, 0, 0, last));
    addresses
        .into_iter()
        .cycle()
        .take(count)
        .filter_map(|from| connect_from(rm, from, port).ok())
        .filter(|mut stream| stream.write_all(bytes).is_ok())
        .collect()
}

/// Authenticates a connection with this token; it is ready to call, and reads nothing afterwards.
///
/// # Errors
/// When the node refuses, or closes the connection.
pub(super) fn prove(stream: TcpStream, token: Token) -> io::Result<TcpStream> {
    prove_for(PROTOCOL, stream, token)
}

/// Authenticates as [`prove`] does, for calls of a protocol.
///
/// # Errors
/// When the node refuses, or closes the connection.
pub(super) fn prove_for(
    protocol: &str,
    mut stream: TcpStream,
    token: Token,
) -> io::Result<TcpStream> {
    let mut decoder = FrameDecoder::new(FRAME_LENGTH_MAX);
    let mut client = SaslClient::new(token, Protections::default(), "cnonce".to_owned());
    let mut next = BytesMut::from(&b"hrpc\x09\x00\xdf"[..]);
    header::put_sasl_request(&mut next, &client.start()).unwrap();
    loop {
        stream.write_all(&next)?;
        next.clear();
        let frame = loop {
            if let Decoded::Complete(frame) = decoder.frame().unwrap() {
                break frame;
            }
            let mut bytes = [0; 4096];
            let length = stream.read(&mut bytes)?;
            if length == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            decoder.read_buffer().extend_from_slice(&bytes[..length]);
        };
        let Outcome::Success(message) = header::decode_answer(frame).unwrap().outcome else {
            return Err(io::ErrorKind::PermissionDenied.into());
        };
        match client
            .handle(&RpcSaslProto::decode(message).unwrap())
            .unwrap()
        {
            ClientStep::Send(message) => header::put_sasl_request(&mut next, &message).unwrap(),
            ClientStep::Done => break,
        }
    }
    header::put_context(&mut next, &CLIENT_ID, None, protocol).unwrap();
    stream.write_all(&next)?;
    Ok(stream)
}

/// Returns many calls whose answers are about a hundred times as long.
pub(super) fn calls_with_long_answers() -> BytesMut {
    let mut calls = BytesMut::new();
    let ids = [0x0a, 0].repeat(10_000);
    let name = MethodName {
        method: "getContainerStatuses",
        protocol: PROTOCOL,
        version: 1,
    };
    for call_id in 0..256 {
        header::put_call(&mut calls, call_id, &CLIENT_ID, name, &ids).unwrap();
    }
    calls
}

/// Time without progress after which a node has stopped reading.
const READING_PAUSE: Duration = Duration::from_secs(1);

/// Sends until the node reads no more, with a small buffer for its answers, of which none is read.
pub(super) fn send_unread(mut stream: &TcpStream, bytes: &[u8]) -> io::Result<()> {
    setsockopt(&stream, sockopt::RcvBuf, &4_096)?;
    stream.set_write_timeout(Some(READING_PAUSE))?;
    match stream.write_all(bytes) {
        Err(error) if error.kind() != io::ErrorKind::WouldBlock => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}

#[test]
fn a_long_request_of_empty_entries_is_refused_without_being_decoded() {
    let limited = limited();
    let cluster = &limited.cluster;
    for megabytes in [2, 8, 15] {
        let entries: Bytes = [0x0a, 0].repeat(megabytes << 19).into();
        let client = cluster.am.client();
        let call = client.call_raw("startContainers", PROTOCOL, 1, entries);
        let error = cluster.rm.runtime().block_on(call).unwrap_err();
        assert!(matches!(error, RpcError::Remote(_)), "{error}");
    }
    cluster.assert_serves();
}

/// An answer here is about a hundred times as long as its call.
#[test]
fn answers_that_are_not_read_hold_up_their_user_alone() {
    let limited = limited();
    let cluster = &limited.cluster;
    let (am, rm) = (&cluster.am, &cluster.rm);
    let token = || {
        rm.secrets()
            .nm_token(am.attempt(), am.node(), &current_user())
    };
    let calls = calls_with_long_answers();
    let unread: Vec<TcpStream> = (0..4)
        .map(|_| {
            let stream = prove(connect(cluster), token()).unwrap();
            send_unread(&stream, &calls).unwrap();
            stream
        })
        .collect();
    assert_serves_another(cluster, 2);
    drop(unread);
    cluster.assert_serves();
}

#[test]
fn thousands_of_silent_connections_keep_no_master_and_no_container_out() {
    allow_many_files();
    let limited = limited();
    let silent: Vec<TcpStream> = (0..5_300).map(|_| connect(&limited.cluster)).collect();
    // The masters share the address of the silent peers.
    assert_serves_another(&limited.cluster, 2);
    limited.cluster.assert_serves();
    drop(silent);
}

/// Strangers get 16 KiB for a frame, and nobody gets memory for a length that is only announced.
#[test]
fn frames_that_do_not_arrive_hold_up_no_other_users_long_call() {
    allow_many_files();
    let limited = limited();
    let cluster = &limited.cluster;
    let (am, rm) = (&cluster.am, &cluster.rm);
    let unfinished = [
        &b"hrpc\x09\x00\xdf"[..],
        &16_000_u32.to_be_bytes(),
        &[0; 8_000],
    ];
    let strangers = connect_many(rm, am.node().port, 4_000, &unfinished.concat());
    let announced = [(); 4].map(|()| {
        let token = rm
            .secrets()
            .nm_token(am.attempt(), am.node(), &current_user());
        let mut stream = prove(connect(cluster), token).unwrap();
        stream.write_all(&(15_u32 << 20).to_be_bytes()).unwrap();
        stream
    });
    let other = ScriptedAm::connect_as("another", rm, 2);
    // A field that no version knows, with 7 MiB.
    let mut long = BytesMut::from(&[0x7a][..]);
    prost::encoding::encode_varint(7 << 20, &mut long);
    long.extend(std::iter::repeat_n(0, 7 << 20));
    let call = other
        .client()
        .call_raw("getContainerStatuses", PROTOCOL, 1, long.freeze());
    rm.runtime().block_on(call).unwrap();
    cluster.assert_serves();
    drop((strangers, announced));
}

/// More of both than there are places: 256, of which one address gets 64.
#[test]
fn idle_web_clients_and_readers_that_stop_keep_nobody_from_health_metrics_and_logs() {
    allow_many_files();
    let limited = limited();
    let (am, rm) = (&limited.cluster.am, &limited.cluster.rm);
    let port = u16::try_from(rm.wait_registrations(1).http_port()).unwrap();
    let id = am.run("yes | head -c 8000000 > <LOG_DIR>/stdout; exit 0");
    assert_eq!(rm.wait_completed(id).exit_status, 0);
    let log = format!("/ws/v1/node/containers/{id}/logs/stdout");
    let request = format!("GET {log} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n");
    let readers = connect_many(rm, port, 200, request.as_bytes());
    let idle = connect_many(rm, port, 300, b"");
    for path in ["/health", "/metrics", log.as_str()] {
        let answer = http::get(&format!("http://127.0.0.1:{port}{path}")).unwrap();
        assert_eq!(answer.status, 200, "{path}");
    }
    drop((readers, idle));
}
