//! Form of the stored records: a version byte and a protobuf message. Fields may be added within a
//! version.

use prost::Message;
use wire::proto::hadoop_common::TokenProto;
use wire::proto::hadoop_yarn::{
    MasterKeyProto, NodeReportProto, ResourceProto, ResourceRequestProto,
};

use crate::role_history::opt_in::OptIn;

/// Version that is written.
const VERSION: u8 = 1;

/// A value in the store.
pub trait Record: Message + Default {
    /// Encodes the record with its version byte.
    fn to_stored(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(1 + self.encoded_len());
        out.push(VERSION);
        self.encode(&mut out)
            .expect("a vector grows as far as is needed");
        out
    }

    /// Decodes a stored record; `None` when its version is unknown or its message is broken.
    fn from_stored(stored: &[u8]) -> Option<Self> {
        let (&version, message) = stored.split_first()?;
        (version == VERSION).then(|| Self::decode(message).ok())?
    }
}

/// Local master keys. Secret.
#[derive(Clone, PartialEq, Message)]
#[prost(skip_debug)]
pub struct KeysRecord {
    /// Key that signs tokens now.
    #[prost(message, optional, tag = "1")]
    pub current: Option<MasterKeyProto>,
    /// Key that replaces the current one, while a roll is under way.
    #[prost(message, optional, tag = "2")]
    pub next: Option<MasterKeyProto>,
}

/// Identity of an attempt. Secret.
#[derive(Clone, PartialEq, Message)]
#[prost(skip_debug)]
pub struct IdentityRecord {
    /// User who submitted the application.
    #[prost(string, tag = "1")]
    pub user: String,
    /// Tags of the application, from the AM's environment.
    #[prost(string, repeated, tag = "2")]
    pub tags: Vec<String>,
    /// AMRMToken of the ResourceManager.
    #[prost(message, optional, tag = "3")]
    pub rm_token: Option<TokenProto>,
    /// Role history that the AM opts in to; absent for none.
    #[prost(message, optional, tag = "4")]
    pub role_history: Option<OptInRecord>,
    /// Whether the AM was started with the ResourceManager's AMRMToken, which it shows here.
    #[prost(bool, tag = "5")]
    pub keeps_token: bool,
    /// AMRMToken of the ResourceManager before `rm_token`, if the AM may still show it.
    #[prost(message, optional, tag = "6")]
    pub previous_token: Option<TokenProto>,
}

/// Role history that an AM opts in to.
#[derive(Clone, PartialEq, Message)]
pub struct OptInRecord {
    /// Name of the service.
    #[prost(string, tag = "1")]
    pub service: String,
    /// Whether guaranteed asks name nodes.
    #[prost(bool, tag = "2")]
    pub is_guaranteed: bool,
    /// Policies of the roles as text.
    #[prost(string, tag = "3")]
    pub policy: String,
}

impl From<OptIn> for OptInRecord {
    fn from(opt_in: OptIn) -> Self {
        let OptIn {
            service,
            is_guaranteed,
            policy,
        } = opt_in;
        Self {
            service,
            is_guaranteed,
            policy,
        }
    }
}

impl From<OptInRecord> for OptIn {
    fn from(record: OptInRecord) -> Self {
        let OptInRecord {
            service,
            is_guaranteed,
            policy,
        } = record;
        Self {
            service,
            is_guaranteed,
            policy,
        }
    }
}

/// Grant of the ResourceManager for distributed scheduling.
#[derive(Clone, PartialEq, Message)]
pub struct LimitsRecord {
    /// Size of the smallest container.
    #[prost(message, optional, tag = "1")]
    pub minimum: Option<ResourceProto>,
    /// Size of the largest container.
    #[prost(message, optional, tag = "2")]
    pub maximum: Option<ResourceProto>,
    /// Step between container sizes.
    #[prost(message, optional, tag = "3")]
    pub increment: Option<ResourceProto>,
    /// Life of a container token, in milliseconds.
    #[prost(int64, tag = "4")]
    pub token_expiry_ms: i64,
    /// Upper bound (exclusive) of the container ids that may be allocated.
    #[prost(int64, tag = "5")]
    pub container_id_start: i64,
}

/// Progress in the range of container ids, which are allocated downwards.
#[derive(Clone, Copy, PartialEq, Message)]
pub struct NextIdRecord {
    /// Lower bound of the container ids in use.
    #[prost(int64, tag = "1")]
    pub floor: i64,
}

/// Opportunistic asks outstanding.
#[derive(Clone, PartialEq, Message)]
pub struct AsksRecord {
    /// Lines of the asks.
    #[prost(message, repeated, tag = "1")]
    pub asks: Vec<ResourceRequestProto>,
}

/// Hosts that must not be used.
#[derive(Clone, PartialEq, Message)]
pub struct BlacklistRecord {
    /// Names of the hosts.
    #[prost(string, repeated, tag = "1")]
    pub hosts: Vec<String>,
}

/// State needed to register an attempt again.
#[derive(Clone, PartialEq, Message)]
pub struct RegistrationRecord {
    /// The AM's `RegisterApplicationMasterRequestProto`; absent if this node must not register the
    /// attempt.
    #[prost(bytes = "vec", optional, tag = "1")]
    pub request: Option<Vec<u8>>,
    /// Response id of the AM that corresponds to the ResourceManager's 0.
    #[prost(int32, tag = "2")]
    pub response_id_base: i32,
    /// Whether the ResourceManager does not know yet what is outstanding.
    #[prost(bool, tag = "3")]
    pub must_restate: bool,
}

/// Asks that name nodes of a role history in the place of any node.
#[derive(Clone, PartialEq, Message)]
pub struct RoleHistoryRecord {
    /// Asks with their lines.
    #[prost(message, repeated, tag = "1")]
    pub asks: Vec<NamedAskRecord>,
}

/// Ask for any node, in whose place nodes are named.
#[derive(Clone, PartialEq, Message)]
pub struct NamedAskRecord {
    /// The AM's line for any node, an encoded `ResourceRequestProto`.
    #[prost(bytes = "vec", tag = "1")]
    pub any: Vec<u8>,
    /// Containers still wanted.
    #[prost(uint32, tag = "2")]
    pub wanted: u32,
    /// Whether the ResourceManager may use the named nodes only.
    #[prost(bool, tag = "3")]
    pub is_strict: bool,
}

/// Hosts and racks that asks name.
#[derive(Clone, PartialEq, Message)]
pub struct RoleHistoryPlacesRecord {
    /// Asks with their places.
    #[prost(message, repeated, tag = "1")]
    pub asks: Vec<NamedPlacesRecord>,
}

/// Hosts and racks that one ask names. Three lists of the same length in the place of one list of
/// messages, which would take an allocation for each of thousands of names.
#[derive(Clone, PartialEq, Message)]
pub struct NamedPlacesRecord {
    /// Priority of the ask.
    #[prost(int32, tag = "1")]
    pub priority: i32,
    /// Allocation request id of the ask.
    #[prost(int64, tag = "2")]
    pub request_id: i64,
    /// Number of the ask's execution type.
    #[prost(int32, tag = "3")]
    pub execution_type: i32,
    /// Names of the hosts and racks, one after the other.
    #[prost(bytes = "vec", tag = "4")]
    pub names: Vec<u8>,
    /// Lengths of the names in bytes.
    #[prost(uint32, repeated, tag = "5")]
    pub lengths: Vec<u32>,
    /// Containers wanted at each.
    #[prost(uint32, repeated, tag = "6")]
    pub counts: Vec<u32>,
}

/// Requests to restate to a ResourceManager that has forgotten the attempt.
#[derive(Clone, PartialEq, Message)]
pub struct OutstandingRecord {
    /// Requests as an encoded `AllocateRequestProto`.
    #[prost(bytes = "vec", tag = "1")]
    pub request: Vec<u8>,
}

/// Nodes of the cluster, as the ResourceManager told them.
#[derive(Clone, PartialEq, Message)]
pub struct NodesRecord {
    /// First container id of the ResourceManager's epoch.
    #[prost(int64, optional, tag = "1")]
    pub epoch: Option<i64>,
    /// Time since the epoch at which the ResourceManager would be asked again, in milliseconds.
    #[prost(int64, tag = "2")]
    pub until_ms: i64,
    /// Bytes of its answer for each node.
    #[prost(uint64, optional, tag = "3")]
    pub node_bytes: Option<u64>,
    /// Nodes with their addresses, what they offer and their partitions.
    #[prost(message, repeated, tag = "4")]
    pub nodes: Vec<NodeReportProto>,
}

impl Record for NodesRecord {}
impl Record for RegistrationRecord {}
impl Record for OutstandingRecord {}
impl Record for RoleHistoryRecord {}
impl Record for RoleHistoryPlacesRecord {}
impl Record for KeysRecord {}
impl Record for IdentityRecord {}
impl Record for LimitsRecord {}
impl Record for NextIdRecord {}
impl Record for AsksRecord {}
impl Record for BlacklistRecord {}

impl std::fmt::Debug for KeysRecord {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KeysRecord").finish_non_exhaustive()
    }
}

impl std::fmt::Debug for IdentityRecord {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("IdentityRecord")
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
        let record = IdentityRecord {
            user: "alice".to_owned(),
            tags: Vec::new(),
            rm_token: Some(TokenProto {
                password: bytes::Bytes::from_static(b"hush"),
                ..TokenProto::default()
            }),
            role_history: None,
            keeps_token: true,
            previous_token: None,
        };
        assert!(!format!("{record:?}").contains("rm_token"));
    }
}
