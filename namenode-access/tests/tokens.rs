//! The client of HDFS with a token, and servers that want less: the client tells them nothing
//! before it gives up, and gives the reason.

mod common;

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use common::{SIMPLE, ask, negotiate, properties, server, success};
use hadoop_fs::FsError;
use namenode_access::{Access, Proof};
use wire::credentials::Credentials;
use wire::token::{Token, kind};
use wire::writable::{put_bytes, put_vlong};

/// Returns credentials with a token for a server.
fn token_for(address: SocketAddr) -> Vec<u8> {
    let mut identifier = vec![0];
    for text in ["alice", "yarn", ""] {
        put_bytes(&mut identifier, text.as_bytes());
    }
    for number in [0, i64::MAX, 1, 1] {
        put_vlong(&mut identifier, number);
    }
    let token = Token {
        identifier: identifier.into(),
        password: Bytes::from_static(b"secret"),
        kind: kind::HDFS_DELEGATION_TOKEN.to_owned(),
        service: address.to_string(),
    };
    let mut credentials = Credentials::default();
    credentials.tokens.insert("a".to_owned(), token);
    credentials.write_v0()
}

#[test]
fn a_server_that_wants_no_token_is_told_nothing() {
    let access = Arc::new(Access::new(Proof::Tokens, &properties()).unwrap());
    for (answer, words) in [
        (success(), SIMPLE),
        (negotiate(&["SIMPLE"]), SIMPLE),
        (negotiate(&[]), SIMPLE),
        (
            negotiate(&["SIMPLE", "KERBEROS"]),
            "Client cannot authenticate via:[SIMPLE, KERBEROS]: it has nothing but TOKEN",
        ),
    ] {
        let (address, server) = server(answer);
        access.take(&token_for(address)).unwrap();
        let error = ask(&access, address);
        assert!(matches!(error, FsError::Denied { .. }), "{error}");
        assert!(error.to_string().contains(words), "{error}");
        assert_eq!(server.join().unwrap(), b"", "it was told something");
    }
}
