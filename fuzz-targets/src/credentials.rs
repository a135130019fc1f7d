//! Streams of credentials of both versions, and the replacement of tokens in them.

use bytes::Bytes;
use prost::Message;
use wire::credentials::{Credentials, replace_kind};
use wire::proto::hadoop_common::{CredentialsKvProto, CredentialsProto};
use wire::token::{Token, kind};

use crate::{Memory, Target};

pub(crate) const TARGET: Target = Target {
    name: "credentials",
    bytes_max: 8 * 1024,
    // An entry of five bytes takes some hundred in memory, in several copies here.
    memory: Memory {
        base: 64 * 1024,
        per_byte: 512,
    },
    run,
    seeds,
};

fn own_token() -> Token {
    Token {
        identifier: Bytes::from_static(b"id"),
        password: Bytes::from_static(b"password"),
        kind: kind::AM_RM_TOKEN.to_owned(),
        service: "rm:8030".to_owned(),
    }
}

fn run(input: &[u8]) {
    let Ok(credentials) = Credentials::read(input) else {
        assert!(replace_kind(input, "own", &own_token()).is_err());
        return;
    };
    let again = Credentials::read(&credentials.write_v0());
    assert!(again.as_ref() == Ok(&credentials), "not what was written");
    let replaced = replace_kind(input, "own", &own_token());
    let replaced = replaced.expect("what can be read can be edited");
    let after = Credentials::read(&replaced.stream.0).expect("an edited stream is read");
    assert_eq!(after.secrets, credentials.secrets);
    let mut rest = credentials;
    rest.remove_kind(kind::AM_RM_TOKEN);
    // Ours takes the place of another one of its alias.
    rest.tokens.remove("own");
    // Ours may be hidden by a later entry of its alias, as in Java, but no other is left.
    let mut left = after.tokens.values();
    assert!(
        left.all(|token| token.kind != kind::AM_RM_TOKEN || *token == own_token()),
        "a token of the ResourceManager is left"
    );
    for (alias, token) in &rest.tokens {
        assert!(after.tokens.get(alias) == Some(token), "{alias} changed");
    }
}

fn seeds() -> Vec<Vec<u8>> {
    let mut credentials = Credentials::default();
    for (alias, kind) in [("rm", kind::AM_RM_TOKEN), ("hdfs", "HDFS_DELEGATION_TOKEN")] {
        let token = Token {
            kind: kind.to_owned(),
            ..own_token()
        };
        credentials.tokens.insert(alias.to_owned(), token);
    }
    let secret = Bytes::from_static(b"secret");
    credentials.secrets.insert("job".to_owned(), secret.clone());
    let tokens = credentials.tokens.iter();
    let message = CredentialsProto {
        tokens: tokens
            .map(|(alias, token)| CredentialsKvProto {
                alias: alias.clone(),
                token: Some(token.clone().into()),
                secret: None,
            })
            .collect(),
        secrets: vec![CredentialsKvProto {
            alias: "job".to_owned(),
            token: None,
            secret: Some(secret),
        }],
    };
    let version_1 = [&b"HDTS\x01"[..], &message.encode_length_delimited_to_vec()].concat();
    vec![credentials.write_v0(), version_1]
}
