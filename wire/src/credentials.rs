//! Tokens and secrets of a container, as in its launch context and its token file.
//!
//! Both of Hadoop's versions are read; version 0 is written, as Java does by default. Input comes
//! from an ApplicationMaster and is bounded in bytes and entries. Source:
//! `org.apache.hadoop.security.Credentials`.

mod replace;

use std::collections::BTreeMap;
use std::fmt;

use bytes::Bytes;
use prost::Message as _;

use crate::frame::{DelimitedError, take_delimited_bytes};
use crate::proto::hadoop_common::CredentialsProto;
use crate::token::Token;
use crate::writable::{WritableError, WritableReader, put_bytes, put_vlong};

pub use self::replace::{Replaced, SecretBytes, replace_kind};

/// First bytes of the stream.
const MAGIC: [u8; 4] = *b"HDTS";
/// Version of the Writable form.
const VERSION_WRITABLE: u8 = 0;
/// Version of the protobuf form.
const VERSION_PROTOBUF: u8 = 1;

/// Longest stream accepted, in bytes. A token is about 200 bytes; secrets may be key stores.
pub const CREDENTIALS_LENGTH_MAX: usize = 16 * 1024 * 1024;

/// Limit on tokens, and on secrets. An entry may be as short as five bytes and takes some hundred
/// in memory, so without this limit memory could grow far beyond the bytes received.
pub const CREDENTIALS_ENTRIES_MAX: usize = 10_000;

/// Tokens and secrets, each under an alias. The alias of a token is often its service, but need not
/// be.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Credentials {
    /// Tokens in the order of their aliases.
    pub tokens: BTreeMap<String, Token>,
    /// Secrets in the order of their aliases.
    pub secrets: BTreeMap<String, Bytes>,
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials")
            .field("tokens", &self.tokens)
            .field("secrets", &self.secrets.keys())
            .finish()
    }
}

/// Bytes that are not credentials.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CredentialsError {
    /// The magic bytes are missing.
    #[error("Bad header found in token storage.")]
    Magic,
    /// A version that no Hadoop writes.
    #[error("unknown credentials version {version}")]
    Version {
        /// Version byte as read.
        version: u8,
    },
    /// Input over [`CREDENTIALS_LENGTH_MAX`].
    #[error("credentials of {length} bytes, limit {CREDENTIALS_LENGTH_MAX}")]
    TooLong {
        /// Length of the input, in bytes.
        length: usize,
    },
    /// More entries than [`CREDENTIALS_ENTRIES_MAX`], tokens and secrets together in version 1.
    #[error("{count} entries, limit {CREDENTIALS_ENTRIES_MAX}")]
    TooManyEntries {
        /// Number of entries declared or found.
        count: usize,
    },
    /// A malformed Writable form.
    #[error("broken entry")]
    Writable(#[from] WritableError),
    /// A malformed protobuf form.
    #[error("broken message")]
    Protobuf(#[from] DelimitedError),
}

impl Credentials {
    /// Parses either version. A later entry replaces an earlier one of the same alias; bytes after
    /// the end are ignored, as in Java.
    ///
    /// # Errors
    /// [`CredentialsError`] if the input is malformed or over a limit.
    pub fn read(stream: &[u8]) -> Result<Self, CredentialsError> {
        if stream.len() > CREDENTIALS_LENGTH_MAX {
            return Err(CredentialsError::TooLong {
                length: stream.len(),
            });
        }
        let body = stream.strip_prefix(&MAGIC).ok_or(CredentialsError::Magic)?;
        match body.split_first() {
            None => Err(WritableError::Truncated.into()),
            Some((&VERSION_WRITABLE, body)) => Self::read_writable(body),
            Some((&VERSION_PROTOBUF, body)) => Self::read_protobuf(body),
            Some((&version, _)) => Err(CredentialsError::Version { version }),
        }
    }

    fn read_writable(body: &[u8]) -> Result<Self, CredentialsError> {
        let mut credentials = Self::default();
        let mut reader = WritableReader::new(body);
        for _ in 0..bounded(reader.length()?)? {
            let alias = reader.text()?.to_owned();
            credentials
                .tokens
                .insert(alias, Token::read_writable(&mut reader)?);
        }
        for _ in 0..bounded(reader.length()?)? {
            let alias = reader.text()?.to_owned();
            credentials
                .secrets
                .insert(alias, Bytes::copy_from_slice(reader.bytes()?));
        }
        Ok(credentials)
    }

    fn read_protobuf(body: &[u8]) -> Result<Self, CredentialsError> {
        let body = take_delimited_bytes(&mut Bytes::copy_from_slice(body))?;
        bounded(count_fields(body.clone())?)?;
        let message = CredentialsProto::decode(body).map_err(DelimitedError::from)?;
        let tokens = message
            .tokens
            .into_iter()
            .filter_map(|entry| Some((entry.alias, entry.token?.into())));
        let secrets = message
            .secrets
            .into_iter()
            .filter_map(|entry| Some((entry.alias, entry.secret?)));
        Ok(Self {
            tokens: tokens.collect(),
            secrets: secrets.collect(),
        })
    }

    /// Returns the credentials in version 0, ordered by alias.
    #[must_use]
    pub fn write_v0(&self) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        out.push(VERSION_WRITABLE);
        put_count(&mut out, self.tokens.len());
        for (alias, token) in &self.tokens {
            put_bytes(&mut out, alias.as_bytes());
            token.put_writable(&mut out);
        }
        put_count(&mut out, self.secrets.len());
        for (alias, secret) in &self.secrets {
            put_bytes(&mut out, alias.as_bytes());
            put_bytes(&mut out, secret);
        }
        out
    }

    /// Returns the first token of this kind, in the order of aliases.
    #[must_use]
    pub fn token_of_kind(&self, kind: &str) -> Option<&Token> {
        self.tokens.values().find(|token| token.kind == kind)
    }

    /// Removes every token of this kind.
    pub fn remove_kind(&mut self, kind: &str) {
        self.tokens.retain(|_, token| token.kind != kind);
    }
}

fn bounded(count: usize) -> Result<usize, CredentialsError> {
    if count > CREDENTIALS_ENTRIES_MAX {
        Err(CredentialsError::TooManyEntries { count })
    } else {
        Ok(count)
    }
}

/// Returns how many top-level fields a message has, all of them length-delimited, without decoding
/// them: an empty entry takes two bytes here and more than a hundred once decoded.
fn count_fields(mut message: Bytes) -> Result<usize, DelimitedError> {
    const LENGTH_DELIMITED: usize = 2;
    let mut count = 0;
    while !message.is_empty() {
        // A key is a varint, like a length; its low three bits are the wire type.
        let key =
            prost::decode_length_delimiter(&mut message).map_err(|_| DelimitedError::Length)?;
        if key & 7 != LENGTH_DELIMITED {
            return Err(DelimitedError::Length);
        }
        take_delimited_bytes(&mut message)?;
        count += 1;
    }
    Ok(count)
}

fn put_count(out: &mut Vec<u8>, count: usize) {
    put_vlong(
        out,
        i64::try_from(count).expect("a map has fewer than 2^63 entries"),
    );
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::proto::hadoop_common::CredentialsKvProto;
    use crate::testing::hex;
    use crate::token::kind;

    const V0: &str = "4844545300010779_61726e2d616d_1a0a0d0a0908071080d095ffbc31100110f9d2b4ffffffffffff01149d7ae9b9\
        9773e0919dfa9319123f991fa67ae91e105941524e5f414d5f524d5f544f4b454e0e3132372e302e302e313a383034390102736b02dead";
    const V1: &str = "48445453016b0a5f0a077961726e2d616d12540a1a0a0d0a0908071080d095ffbc31100110f9d2b4ffffffffffff01\
        12149d7ae9b99773e0919dfa9319123f991fa67ae91e1a105941524e5f414d5f524d5f544f4b454e220e3132372e302e302e313a3830\
        343912080a02736b1a02dead";

    fn expected() -> Credentials {
        let token = Token {
            identifier: hex("0a0d0a0908071080d095ffbc31100110f9d2b4ffffffffffff01").into(),
            password: hex("9d7ae9b99773e0919dfa9319123f991fa67ae91e").into(),
            kind: kind::AM_RM_TOKEN.to_owned(),
            service: "127.0.0.1:8049".to_owned(),
        };
        Credentials {
            tokens: BTreeMap::from([("yarn-am".to_owned(), token)]),
            secrets: BTreeMap::from([("sk".to_owned(), Bytes::from_static(&[0xde, 0xad]))]),
        }
    }

    #[test]
    fn both_versions_of_java_are_read() {
        assert_eq!(Credentials::read(&hex(V0)), Ok(expected()));
        assert_eq!(Credentials::read(&hex(V1)), Ok(expected()));
    }

    #[test]
    fn version_0_is_written_as_java_does() {
        assert_eq!(expected().write_v0(), hex(V0));
        assert_eq!(Credentials::default().write_v0(), hex("48445453000000"));
    }

    #[test]
    fn every_cut_of_a_stream_is_refused() {
        for whole in [hex(V0), hex(V1)] {
            for cut in 0..whole.len() {
                assert!(Credentials::read(&whole[..cut]).is_err(), "cut at {cut}");
            }
        }
    }

    #[test]
    fn later_entry_replaces_earlier_of_the_same_alias() {
        let stream = hex("48445453_00_00_02_02736b_01aa_02736b_01bb");
        assert_eq!(
            Credentials::read(&stream).unwrap().secrets["sk"],
            Bytes::from_static(&[0xbb])
        );
    }

    #[test]
    fn declared_count_is_bounded() {
        let mut stream = hex("4844545300");
        put_vlong(&mut stream, i64::from(i32::MAX));
        let count = usize::try_from(i32::MAX).unwrap();
        assert_eq!(
            Credentials::read(&stream),
            Err(CredentialsError::TooManyEntries { count })
        );
    }

    #[test]
    fn count_of_messages_is_bounded_before_they_are_decoded() {
        let count = CREDENTIALS_ENTRIES_MAX + 1;
        let mut stream = b"HDTS\x01".to_vec();
        let mut message = bytes::BytesMut::new();
        crate::frame::put_delimited_bytes(&mut message, &[0x0a, 0x00].repeat(count));
        stream.extend(message);
        assert_eq!(
            Credentials::read(&stream),
            Err(CredentialsError::TooManyEntries { count })
        );
    }

    /// The number of an unknown field is no length, under which entries could hide.
    #[test]
    fn no_entry_escapes_the_count_behind_a_number() {
        let entries = [0x0a, 0x00].repeat(CREDENTIALS_ENTRIES_MAX + 1);
        let mut message = bytes::BytesMut::from(&[0x78_u8][..]);
        prost::encode_length_delimiter(entries.len(), &mut message).unwrap();
        message.extend_from_slice(&entries);
        let mut stream = bytes::BytesMut::from(&b"HDTS\x01"[..]);
        crate::frame::put_delimited_bytes(&mut stream, &message);
        assert_eq!(
            Credentials::read(&stream),
            Err(CredentialsError::Protobuf(DelimitedError::Length))
        );
    }

    #[test]
    fn foreign_magic_and_version_are_refused() {
        assert_eq!(
            Credentials::read(b"HDFS\0\0\0"),
            Err(CredentialsError::Magic)
        );
        assert_eq!(
            Credentials::read(b"HDTS\x02\0\0"),
            Err(CredentialsError::Version { version: 2 })
        );
    }

    #[test]
    fn debug_shows_no_secret() {
        let shown = format!("{:?}", expected());
        assert!(
            shown.contains("\"sk\"") && !shown.contains("dead") && !shown.contains("\\xde"),
            "{shown}"
        );
    }

    fn local_token() -> Token {
        Token {
            identifier: Bytes::from_static(b"local"),
            password: Bytes::from_static(b"word"),
            kind: kind::AM_RM_TOKEN.to_owned(),
            service: String::new(),
        }
    }

    #[test]
    fn every_token_of_the_kind_is_exchanged_in_both_versions() {
        for version in [V0, V1] {
            let replaced = replace_kind(&hex(version), "", &local_token()).unwrap();
            let expected_tokens: Vec<_> = expected().tokens.into_values().collect();
            assert_eq!(replaced.removed, expected_tokens);
            let read = Credentials::read(&replaced.stream.0).unwrap();
            assert_eq!(
                read.tokens,
                BTreeMap::from([(String::new(), local_token())])
            );
            assert_eq!(read.secrets, expected().secrets);
            assert_eq!(replaced.stream.0[4], hex(version)[4], "the version stays");
        }
    }

    #[test]
    fn other_entries_keep_their_bytes_and_order() {
        let other = |service: &str| Token {
            kind: "other".to_owned(),
            service: service.to_owned(),
            ..local_token()
        };
        // The tokens and secrets are not in the order of a sorted map.
        let tokens = [
            ("z", other("1")),
            ("am", local_token()),
            ("a", other("2")),
            ("", local_token()),
        ];
        let mut stream = b"HDTS\0".to_vec();
        put_count(&mut stream, tokens.len());
        let mut kept = Vec::new();
        for (alias, token) in &tokens {
            let start = stream.len();
            put_bytes(&mut stream, alias.as_bytes());
            token.put_writable(&mut stream);
            if token.kind == "other" {
                kept.extend_from_slice(&stream[start..]);
            }
        }
        let secrets = [1, 1, b'k', 2, 0xde, 0xad];
        stream.extend_from_slice(&secrets);
        let replaced = replace_kind(&stream, "", &local_token()).unwrap();
        assert_eq!(replaced.removed.len(), 2);
        kept.extend_from_slice(&secrets);
        assert!(replaced.stream.0.ends_with(&kept));
    }

    #[test]
    fn another_token_of_the_alias_gives_way_and_others_stay_in_both_versions() {
        let bytes = |kind: &str, alias: &str| {
            let token = Token {
                kind: kind.to_owned(),
                ..local_token()
            };
            (alias.to_owned(), token)
        };
        let before = [
            bytes("other", ""),
            bytes("other", "a"),
            bytes(kind::AM_RM_TOKEN, "am"),
        ];
        let expected = BTreeMap::from([(String::new(), local_token()), bytes("other", "a")]);
        let v0 = Credentials {
            tokens: before.clone().into(),
            secrets: BTreeMap::new(),
        };
        let message = CredentialsProto {
            tokens: before
                .into_iter()
                .map(|(alias, token)| CredentialsKvProto {
                    alias,
                    token: Some(token.into()),
                    secret: None,
                })
                .collect(),
            secrets: Vec::new(),
        };
        let mut v1 = bytes::BytesMut::from(&b"HDTS\x01"[..]);
        crate::frame::put_delimited(&mut v1, &message);
        for stream in [v0.write_v0(), v1.to_vec()] {
            let replaced = replace_kind(&stream, "", &local_token()).unwrap();
            assert_eq!(replaced.removed.len(), 1);
            let read = Credentials::read(&replaced.stream.0).unwrap();
            assert_eq!(read.tokens, expected);
        }
    }

    #[test]
    fn streams_are_bounded_and_messages_have_no_numbers() {
        let length = CREDENTIALS_LENGTH_MAX + 1;
        let mut long = expected().write_v0();
        long.resize(length, 0);
        assert_eq!(
            Credentials::read(&long),
            Err(CredentialsError::TooLong { length })
        );
        long.truncate(CREDENTIALS_LENGTH_MAX);
        assert_eq!(Credentials::read(&long), Ok(expected()));
        let number = b"HDTS\x01\x02\x08\x00";
        assert!(Credentials::read(number).is_err());
    }

    #[test]
    fn broken_credentials_are_not_rewritten() {
        let whole = hex(V0);
        for length in 0..whole.len() {
            assert!(replace_kind(&whole[..length], "", &local_token()).is_err());
        }
    }

    #[test]
    fn tokens_are_found_and_removed_by_kind() {
        let mut credentials = expected();
        credentials.tokens.insert("a".to_owned(), local_token());
        let first = credentials.token_of_kind(kind::AM_RM_TOKEN);
        assert_eq!(first, Some(&local_token()));
        credentials.remove_kind(kind::AM_RM_TOKEN);
        assert!(credentials.token_of_kind(kind::AM_RM_TOKEN).is_none());
    }

    proptest! {
        #[test]
        fn any_bytes_read_without_panic(version in 0_u8..3, bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            let mut stream = MAGIC.to_vec();
            stream.push(version);
            stream.extend(bytes);
            let _ = Credentials::read(&stream);
        }

        #[test]
        fn secrets_survive(
            secrets in proptest::collection::btree_map(".{0,12}", proptest::collection::vec(any::<u8>(), 0..50), 0..9),
        ) {
            let secrets = secrets.into_iter().map(|(alias, secret)| (alias, secret.into())).collect();
            let credentials = Credentials { tokens: BTreeMap::new(), secrets };
            prop_assert_eq!(Credentials::read(&credentials.write_v0()), Ok(credentials));
        }
    }
}
