//! Replacement of the tokens of one kind in encoded credentials. Other entries keep their bytes and
//! their order.

use std::fmt;

use bytes::{Bytes, BytesMut};
use prost::Message as _;

use super::{Credentials, CredentialsError, MAGIC, VERSION_WRITABLE, bounded, put_count};
use crate::frame::{DelimitedError, put_delimited_bytes, take_delimited_bytes};
use crate::proto::hadoop_common::CredentialsKvProto;
use crate::raw_message::RawMessage;
use crate::token::Token;
use crate::writable::{WritableReader, put_bytes};

/// Encoded credentials after the tokens of one kind were replaced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replaced {
    /// Credentials in their former version. All other entries keep their bytes and order. Secret.
    pub stream: SecretBytes,
    /// Tokens taken out, in their former order.
    pub removed: Vec<Token>,
}

/// Bytes whose `Debug` hides them from logs.
#[derive(Clone, PartialEq, Eq)]
pub struct SecretBytes(pub Vec<u8>);

impl fmt::Debug for SecretBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SecretBytes({} bytes)", self.0.len())
    }
}

/// Removes every token of `token`'s kind and inserts `token` under `alias`, before the others.
/// Credentials without such a token are changed too: the caller can tell from
/// [`Replaced::removed`].
///
/// # Errors
/// [`CredentialsError`] if the input is malformed or over a limit.
pub fn replace_kind(
    stream: &[u8],
    alias: &str,
    token: &Token,
) -> Result<Replaced, CredentialsError> {
    // Checks the limits and that every entry can be read.
    Credentials::read(stream)?;
    let body = &stream[MAGIC.len() + 1..];
    let mut out = stream[..=MAGIC.len()].to_vec();
    let removed = if stream[MAGIC.len()] == VERSION_WRITABLE {
        replace_writable(body, alias, token, &mut out)?
    } else {
        replace_protobuf(body, alias, token, &mut out)?
    };
    Ok(Replaced {
        stream: SecretBytes(out),
        removed,
    })
}

fn replace_writable(
    body: &[u8],
    alias: &str,
    token: &Token,
    out: &mut Vec<u8>,
) -> Result<Vec<Token>, CredentialsError> {
    let mut reader = WritableReader::new(body);
    let mut removed = Vec::new();
    let mut kept = Vec::new();
    for _ in 0..bounded(reader.length()?)? {
        let before = reader.rest();
        let name = reader.text()?;
        let found = Token::read_writable(&mut reader)?;
        let entry = &before[..before.len() - reader.rest().len()];
        if found.kind == token.kind {
            removed.push(found);
        } else if name != alias {
            kept.push(entry);
        }
    }
    put_count(out, kept.len() + 1);
    put_bytes(out, alias.as_bytes());
    token.put_writable(out);
    for entry in kept {
        out.extend_from_slice(entry);
    }
    // The secrets, unchanged.
    out.extend_from_slice(reader.rest());
    Ok(removed)
}

fn replace_protobuf(
    body: &[u8],
    alias: &str,
    token: &Token,
    out: &mut Vec<u8>,
) -> Result<Vec<Token>, CredentialsError> {
    const TOKENS: u32 = 1;
    let message = take_delimited_bytes(&mut Bytes::copy_from_slice(body))?;
    let mut message = RawMessage::parse(message).map_err(|_| DelimitedError::Length)?;
    let mut removed = Vec::new();
    message.retain(TOKENS, |entry| {
        // Every entry has been read before.
        let Ok(entry) = CredentialsKvProto::decode(entry.clone()) else {
            return true;
        };
        match entry.token {
            Some(found) if found.kind == token.kind => {
                removed.push(found.into());
                false
            }
            Some(_) | None => entry.alias != alias,
        }
    });
    let entry = CredentialsKvProto {
        alias: alias.to_owned(),
        token: Some(token.clone().into()),
        secret: None,
    };
    message.insert_first(TOKENS, &entry.encode_to_vec());
    let mut delimited = BytesMut::new();
    put_delimited_bytes(&mut delimited, &message.encode());
    out.extend_from_slice(&delimited);
    Ok(removed)
}
