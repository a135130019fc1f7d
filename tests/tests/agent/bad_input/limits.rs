//! One tenant or stranger against the whole node: an agent with 1 GiB of address space and 4,096
//! open files keeps serving others.

use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::socket::{setsockopt, sockopt};
use prost::Message as _;
use tempfile::TempDir;
use test_support::current_user;
use test_support::scripted::ScriptedAm;
use tests::conf::Properties;
use tests::scripted_cluster::ScriptedCluster;
use wire::frame::{Decoded, FRAME_LENGTH_MAX, FrameDecoder};
use wire::header::{self, ClientId, MethodName, Outcome};
use wire::proto::hadoop_common::RpcSaslProto;
use wire::protocol::container_management::PROTOCOL;
use wire::rpc::RpcError;
use wire::sasl::{ClientStep, SaslClient};
use wire::token::Token;

use crate::AGENT;

const CLIENT_ID: ClientId = *b"0123456789abcdef";

/// An agent with limits, and the folder of the script that sets them.
pub(super) struct Limited {
    pub(super) cluster: ScriptedCluster,
    _folder: TempDir,
}

fn limited() -> Limited {
    limited_with(|_| {})
}

/// Starts an agent with limits, after changes of its `yarn-site.xml`. As in Hadoop's scripts, its
/// allocator has four arenas: each reserves 64 MiB of addresses, and one for each thread would take
/// the limit without any memory being used.
pub(super) fn limited_with(change: impl FnOnce(&mut Properties)) -> Limited {
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("agent");
    let text = format!(
        "#!/bin/bash\nulimit -v 1048576 -n 4096\nexport MALLOC_ARENA_MAX=4\nexec '{AGENT}' \"$@\"\n"
    );
    std::fs::write(&script, text).unwrap();
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
    Limited {
        cluster: ScriptedCluster::start_with(script.to_str().unwrap(), change),
        _folder: folder,
    }
}

/// Raises this process's own limit of open files as far as it may.
pub(super) fn allow_many_files() {
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    setrlimit(Resource::RLIMIT_NOFILE, hard, hard).unwrap();
}

/// Asserts that another ApplicationMaster, of this application, connects and runs a container.
#[track_caller]
fn assert_serves_another(cluster: &ScriptedCluster, application: i32) {
    let other = ScriptedAm::connect(&cluster.rm, application);
    let id = other.run("true");
    assert_eq!(cluster.rm.wait_completed(id).exit_status, 0);
}

fn connect(cluster: &ScriptedCluster) -> TcpStream {
    TcpStream::connect((Ipv4Addr::LOCALHOST, cluster.am.node().port)).unwrap()
}

/// Authenticates a connection with this token; it is ready to call, and reads nothing afterwards.
///
/// # Errors
/// When the node refuses, or closes the connection.
pub(super) fn prove(mut stream: TcpStream, token: Token) -> io::Result<TcpStream> {
    let mut decoder = FrameDecoder::new(FRAME_LENGTH_MAX);
    let mut client = SaslClient::new(token, "cnonce".to_owned());
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
    header::put_context(&mut next, &CLIENT_ID, None, PROTOCOL).unwrap();
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
fn answers_that_are_not_read_hold_up_their_master_alone() {
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
    assert_serves_another(cluster, 3);
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
