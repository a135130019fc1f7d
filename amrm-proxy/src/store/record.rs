//! The form of each record: a version byte and a protobuf message, whose fields may grow within a version.

use prost::Message;
use wire::proto::hadoop_common::TokenProto;
use wire::proto::hadoop_yarn::{MasterKeyProto, ResourceProto, ResourceRequestProto};

/// The version that is written.
const VERSION: u8 = 1;

/// A value in the store.
pub trait Record: Message + Default {
    /// The bytes to store.
    fn to_stored(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(1 + self.encoded_len());
        out.push(VERSION);
        self.encode(&mut out)
            .expect("a vector grows as far as is needed");
        out
    }

    /// Reads stored bytes; `None` when they are of an unknown version or broken.
    fn from_stored(stored: &[u8]) -> Option<Self> {
        let (&version, message) = stored.split_first()?;
        (version == VERSION).then(|| Self::decode(message).ok())?
    }
}

/// The local master keys. Secret.
#[derive(Clone, PartialEq, Message)]
#[prost(skip_debug)]
pub struct KeysRecord {
    /// What signed until `next` came.
    #[prost(message, optional, tag = "1")]
    pub current: Option<MasterKeyProto>,
    /// What replaces it.
    #[prost(message, optional, tag = "2")]
    pub next: Option<MasterKeyProto>,
}

/// Who an attempt is. Secret.
#[derive(Clone, PartialEq, Message)]
#[prost(skip_debug)]
pub struct MasterRecord {
    /// Who submitted the application.
    #[prost(string, tag = "1")]
    pub user: String,
    /// The application's tags from the AM's environment.
    #[prost(string, repeated, tag = "2")]
    pub tags: Vec<String>,
    /// The ResourceManager's AMRMToken.
    #[prost(message, optional, tag = "3")]
    pub rm_token: Option<TokenProto>,
}

/// What the ResourceManager granted for distributed scheduling.
#[derive(Clone, PartialEq, Message)]
pub struct LimitsRecord {
    /// The smallest container.
    #[prost(message, optional, tag = "1")]
    pub minimum: Option<ResourceProto>,
    /// The largest.
    #[prost(message, optional, tag = "2")]
    pub maximum: Option<ResourceProto>,
    /// Sizes are multiples of it.
    #[prost(message, optional, tag = "3")]
    pub increment: Option<ResourceProto>,
    /// Life of a container token, in milliseconds.
    #[prost(int64, tag = "4")]
    pub token_expiry_ms: i64,
    /// Ids below it may be given out.
    #[prost(int64, tag = "5")]
    pub container_id_start: i64,
}

/// Where the container ids stand.
#[derive(Clone, Copy, PartialEq, Message)]
pub struct NextIdRecord {
    /// No container has an id below it.
    #[prost(int64, tag = "1")]
    pub floor: i64,
}

/// What is outstanding.
#[derive(Clone, PartialEq, Message)]
pub struct AsksRecord {
    /// Line by line.
    #[prost(message, repeated, tag = "1")]
    pub asks: Vec<ResourceRequestProto>,
}

/// Hosts not to be used.
#[derive(Clone, PartialEq, Message)]
pub struct BlacklistRecord {
    /// By name.
    #[prost(string, repeated, tag = "1")]
    pub hosts: Vec<String>,
}

/// What it takes to register an attempt again.
#[derive(Clone, PartialEq, Message)]
pub struct RegistrationRecord {
    /// The AM's `RegisterApplicationMasterRequestProto`; absent when it shall register by itself.
    #[prost(bytes = "vec", optional, tag = "1")]
    pub request: Option<Vec<u8>>,
    /// The number that the AM gave the call that was the ResourceManager's number 0.
    #[prost(int32, tag = "2")]
    pub response_id_base: i32,
    /// Whether the ResourceManager has still to be told what is outstanding.
    #[prost(bool, tag = "3")]
    pub is_owed: bool,
}

/// What the ResourceManager would have to be told again.
#[derive(Clone, PartialEq, Message)]
pub struct OutstandingRecord {
    /// An `AllocateRequestProto` that says it.
    #[prost(bytes = "vec", tag = "1")]
    pub request: Vec<u8>,
}

impl Record for RegistrationRecord {}
impl Record for OutstandingRecord {}
impl Record for KeysRecord {}
impl Record for MasterRecord {}
impl Record for LimitsRecord {}
impl Record for NextIdRecord {}
impl Record for AsksRecord {}
impl Record for BlacklistRecord {}

impl std::fmt::Debug for KeysRecord {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KeysRecord").finish_non_exhaustive()
    }
}

impl std::fmt::Debug for MasterRecord {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MasterRecord")
            .field("user", &self.user)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_of_another_version_is_not_read() {
        let record = NextIdRecord { floor: -9 };
        let mut stored = record.to_stored();
        assert_eq!(NextIdRecord::from_stored(&stored), Some(record));
        stored[0] = 2;
        assert_eq!(NextIdRecord::from_stored(&stored), None);
        assert_eq!(NextIdRecord::from_stored(&[]), None);
        assert_eq!(NextIdRecord::from_stored(&[VERSION, 0xff]), None);
    }

    #[test]
    fn secrets_are_not_shown() {
        let record = MasterRecord {
            user: "alice".to_owned(),
            tags: Vec::new(),
            rm_token: Some(TokenProto {
                password: bytes::Bytes::from_static(b"hush"),
                ..TokenProto::default()
            }),
        };
        assert!(!format!("{record:?}").contains("rm_token"));
    }
}
