//! Servers that answer the first message of a client, and note what comes after it.

#![expect(clippy::unwrap_used, reason = "a test")]

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use bytes::BytesMut;
use hadoop_fs::{Caller, FileSystems, FsConfig, FsError, Uri};
use namenode_access::Access;
use wire::header::put_sasl_response;
use wire::proto::hadoop_common::RpcSaslProto;
use wire::proto::hadoop_common::rpc_sasl_proto::{SaslAuth, SaslState};

const STEP_LIMIT: Duration = Duration::from_secs(60);

/// Bytes that name a protocol: preamble, and the length of the first frame.
const PREAMBLE: usize = 7;

/// Starts a server that gives this answer to the first message, and returns its address. Its thread
/// returns what the client sent afterwards.
pub(crate) fn server(answer: RpcSaslProto) -> (SocketAddr, thread::JoinHandle<Vec<u8>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let thread = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        read_negotiate(&mut stream);
        let mut out = BytesMut::new();
        put_sasl_response(&mut out, &answer).unwrap();
        stream.write_all(&out).unwrap();
        let mut more = Vec::new();
        stream.read_to_end(&mut more).unwrap();
        more
    });
    (address, thread)
}

fn read_negotiate(stream: &mut TcpStream) {
    let mut begin = [0; PREAMBLE + 4];
    stream.read_exact(&mut begin).unwrap();
    assert_eq!(begin[..4], *b"hrpc");
    assert_eq!(begin[6], 0xdf, "it asks for a negotiation");
    let length = u32::from_be_bytes(begin[PREAMBLE..].try_into().unwrap());
    let mut frame = vec![0; usize::try_from(length).unwrap()];
    stream.read_exact(&mut frame).unwrap();
}

pub(crate) fn negotiate(methods: &[&str]) -> RpcSaslProto {
    let auth = |method: &&str| SaslAuth {
        method: (*method).to_owned(),
        mechanism: "X".to_owned(),
        protocol: Some("nn".to_owned()),
        server_id: Some("elsewhere.test".to_owned()),
        challenge: None,
    };
    RpcSaslProto {
        state: SaslState::Negotiate.into(),
        auths: methods.iter().map(auth).collect(),
        ..RpcSaslProto::default()
    }
}

pub(crate) fn success() -> RpcSaslProto {
    RpcSaslProto {
        state: SaslState::Success.into(),
        ..RpcSaslProto::default()
    }
}

/// Hadoop's text to a server that wants no proof.
pub(crate) const SIMPLE: &str = "Server asks us to fall back to SIMPLE auth";

/// Returns the properties of the client.
pub(crate) fn properties() -> [(String, String); 2] {
    let owned = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
    [
        ("hadoop.security.authentication", "kerberos"),
        ("dfs.namenode.kerberos.principal", "nn/_HOST@NODES.TEST"),
    ]
    .map(owned)
}

/// Asks for the status of a file.
pub(crate) fn ask(access: &Arc<Access>, address: SocketAddr) -> FsError {
    let config = FsConfig {
        client_properties: properties().to_vec(),
        step_limit: STEP_LIMIT,
        ..FsConfig::default()
    };
    let systems = FileSystems::with_access(config, Some(Arc::clone(access) as _));
    let uri: Uri = format!("hdfs://{address}/a").parse().unwrap();
    let files = systems.open(&uri, Caller::user("alice", "test")).unwrap();
    files.status("/a").unwrap_err()
}
