//! Forms of the records: a byte for the version, then a protobuf message. A field that is added
//! later is absent in older records, and an older agent passes over it. Another version is a form
//! that this agent cannot read.

use std::collections::{BTreeMap, BTreeSet};

use prost::Message;
use thiserror::Error;

use super::record_clock::RecordClock;

/// Version of the records' forms.
const VERSION: u8 = 1;

/// Reason for which a record cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RecordError {
    /// The record has no bytes.
    #[error("the record is empty")]
    Empty,
    /// The record has another form.
    #[error("the record has version {0}")]
    Version(u8),
    /// The bytes do not have the record's form.
    #[error(transparent)]
    Form(#[from] prost::DecodeError),
}

/// Returns a record's bytes.
pub fn encode(record: &impl Message) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(1 + record.encoded_len());
    bytes.push(VERSION);
    bytes.extend(record.encode_to_vec());
    bytes
}

/// Reads a record.
pub fn decode<M: Message + Default>(bytes: &[u8]) -> Result<M, RecordError> {
    match bytes.split_first() {
        None => Err(RecordError::Empty),
        Some((&VERSION, message)) => Ok(M::decode(message)?),
        Some((version, _)) => Err(RecordError::Version(*version)),
    }
}

/// An accepted container, as `startContainers` brought it. Secret.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct StartRecord {
    /// Identifier of the container token.
    #[prost(bytes = "vec", tag = "1")]
    pub token: Vec<u8>,
    /// `ContainerLaunchContextProto`.
    #[prost(bytes = "vec", tag = "2")]
    pub context: Vec<u8>,
    /// Number of the acceptance on this node.
    #[prost(uint64, tag = "3")]
    pub arrival: u64,
    /// Time of the acceptance, milliseconds of the wall clock.
    #[prost(int64, tag = "4")]
    pub accepted_at: i64,
    /// Clock of that time; absent in older records.
    #[prost(message, optional, tag = "5")]
    pub clock: Option<RecordClock>,
}

/// A launch context of a re-initialization. Secret.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct ContextRecord {
    /// `ContainerLaunchContextProto`.
    #[prost(bytes = "vec", tag = "1")]
    pub context: Vec<u8>,
}

/// Drain that an operator has ordered.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct DrainRecord {
    /// Name of the mode.
    #[prost(string, tag = "1")]
    pub mode: String,
    /// Milliseconds that the mode's containers have to end by themselves.
    #[prost(uint64, tag = "2")]
    pub within_ms: u64,
    /// Reason that the operator gave.
    #[prost(string, tag = "3")]
    pub reason: String,
    /// Name of the operator.
    #[prost(string, tag = "4")]
    pub by: String,
    /// Time of the order, milliseconds of the wall clock.
    #[prost(int64, tag = "5")]
    pub since: i64,
    /// Clock of that time; absent in older records.
    #[prost(message, optional, tag = "6")]
    pub clock: Option<RecordClock>,
}

/// Run lengths of containers that were learnt.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct LearntRunsRecord {
    /// Run times by user and command.
    #[prost(message, repeated, tag = "1")]
    pub commands: Vec<LearntCommandRecord>,
    /// How right the hints of users were.
    #[prost(message, repeated, tag = "2")]
    pub hints: Vec<LearntHintsRecord>,
    /// Number of the last run.
    #[prost(uint64, tag = "3")]
    pub uses: u64,
}

/// Run times of one command of one user.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct LearntCommandRecord {
    /// Digest of the user's name.
    #[prost(bytes = "vec", tag = "1")]
    pub user: Vec<u8>,
    /// Digest of the masked command.
    #[prost(bytes = "vec", tag = "2")]
    pub command: Vec<u8>,
    /// Number of the last run of it.
    #[prost(uint64, tag = "3")]
    pub used: u64,
    /// Run times in milliseconds, oldest first.
    #[prost(uint64, repeated, tag = "4")]
    pub ran_ms: Vec<u64>,
}

/// How right the last hints of a user were.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct LearntHintsRecord {
    /// Digest of the user's name.
    #[prost(bytes = "vec", tag = "1")]
    pub user: Vec<u8>,
    /// A bit for each of the last hints, that of the last one lowest: 1 for a right one.
    #[prost(uint32, tag = "2")]
    pub right: u32,
    /// Hints that count.
    #[prost(uint32, tag = "3")]
    pub count: u32,
    /// Number of the last run with a hint.
    #[prost(uint64, tag = "4")]
    pub used: u64,
}

/// Works that may have crashed the agent, as texts of [`super::Work`].
#[derive(Clone, PartialEq, Eq, Message)]
pub struct SuspectsRecord {
    /// In progress at the last crash.
    #[prost(string, repeated, tag = "1")]
    pub last: Vec<String>,
    /// Begun at the start and not ended, as far as no other record tells.
    #[prost(string, repeated, tag = "2")]
    pub begun: Vec<String>,
    /// Tried alone.
    #[prost(string, optional, tag = "3")]
    pub tried: Option<String>,
    /// Wait for the outcome.
    #[prost(string, repeated, tag = "4")]
    pub held: Vec<String>,
}

/// How far a container has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum Stage {
    /// The resources are being localized.
    Accepted = 0,
    /// The container waits for the node's resources.
    Waiting = 1,
    /// The launch is ordered; there may be a process.
    Launching = 2,
    /// The container has a process.
    Running = 3,
    /// The processes are frozen.
    Paused = 4,
    /// The processes are being ended for good.
    Killing = 5,
    /// The container is finished.
    Done = 6,
}

/// Result of a finished container.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum Ending {
    /// Exited with 0.
    Succeeded = 0,
    /// Exited otherwise, or was not launched.
    Failed = 1,
    /// Was killed.
    Killed = 2,
    /// A resource could not be localized.
    LocalizationFailed = 3,
}

/// Process of a container whose end a record tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndedProcess {
    /// The container's last one: it gets no other.
    Last,
    /// The one with this pid. A later one, of another launch, is not meant.
    Of(i32),
}

impl EndedProcess {
    /// Returns the pid; `None`: the last one, whichever it is.
    #[must_use]
    pub const fn pid(self) -> Option<i32> {
        match self {
            Self::Last => None,
            Self::Of(pid) => Some(pid),
        }
    }
}

impl StateRecord {
    /// Returns the process whose end the record tells; `None`: none has ended that it knows of.
    #[must_use]
    pub fn ended(&self) -> Option<EndedProcess> {
        match self.stage() {
            Stage::Done => Some(EndedProcess::Last),
            Stage::Accepted | Stage::Waiting | Stage::Launching => {
                (self.pid != 0).then_some(EndedProcess::Of(self.pid))
            }
            Stage::Running | Stage::Paused | Stage::Killing => None,
        }
    }
}

/// State of a container since it was accepted.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct StateRecord {
    /// How far it has come.
    #[prost(enumeration = "Stage", tag = "1")]
    pub stage: i32,
    /// Place among those that wait, or in the order of starts.
    #[prost(uint64, tag = "2")]
    pub place: u64,
    /// Time at which the stage was entered, milliseconds of the wall clock.
    #[prost(int64, tag = "3")]
    pub since: i64,
    /// Identifier of the token that updated it last.
    #[prost(bytes = "vec", optional, tag = "4")]
    pub token: Option<Vec<u8>>,
    /// Session leader of the last launch that is known; 0: none so far.
    #[prost(int32, tag = "5")]
    pub pid: i32,
    /// Start time of the leader in clock ticks since boot.
    #[prost(uint64, tag = "6")]
    pub start_time: u64,
    /// Path of the work folder.
    #[prost(string, tag = "7")]
    pub work_dir: String,
    /// Path of the log folder.
    #[prost(string, tag = "8")]
    pub log_dir: String,
    /// Paths of the localized resources.
    #[prost(string, repeated, tag = "9")]
    pub resources: Vec<String>,
    /// Exit status so far.
    #[prost(sint32, tag = "10")]
    pub exit_status: i32,
    /// Diagnostics so far.
    #[prost(string, tag = "11")]
    pub diagnostics: String,
    /// Memory that frozen processes hold, in mebibytes.
    #[prost(uint64, tag = "12")]
    pub held_mb: u64,
    /// Result, once it is finished.
    #[prost(enumeration = "Ending", tag = "13")]
    pub ending: i32,
    /// Names of the links to the localized resources, in their order; none in older records.
    #[prost(string, repeated, tag = "14")]
    pub links: Vec<String>,
    /// Retries that its policy has granted, if that limits them.
    #[prost(uint32, tag = "15")]
    pub retries: u32,
    /// Times of those within the policy's validity interval, milliseconds of the wall clock.
    #[prost(int64, repeated, tag = "16")]
    pub retried_at: Vec<i64>,
    /// Number of the launch context in force; 0: that of the acceptance.
    #[prost(uint64, tag = "17")]
    pub context: u64,
    /// Setup to which a rollback returns.
    #[prost(message, optional, tag = "18")]
    pub previous: Option<SetupRecord>,
    /// Re-initialization whose resources are being localized.
    #[prost(message, optional, tag = "19")]
    pub localizing: Option<LocalizingRecord>,
    /// Re-initialization, restart or rollback whose launch is still to come.
    #[prost(message, optional, tag = "20")]
    pub restarting: Option<RestartingRecord>,
    /// Clock of the times; absent in older records.
    #[prost(message, optional, tag = "21")]
    pub clock: Option<RecordClock>,
}

impl StateRecord {
    /// Returns the numbers of the launch contexts that the container has, without that of its
    /// acceptance.
    #[must_use]
    pub fn contexts(&self) -> BTreeSet<u64> {
        let setups = self.setups().map(|setup| setup.context);
        let localizing = self.localizing.as_ref().map(|next| next.context);
        let all = setups.chain(localizing).chain([self.context]);
        all.filter(|number| *number != 0).collect()
    }

    /// Returns the paths of the resources that the container uses, or may use again.
    pub fn used_resources(&self) -> impl Iterator<Item = &String> {
        let of_setups = self.setups().flat_map(|setup| &setup.resources);
        self.resources.iter().chain(of_setups)
    }

    /// Puts the setup of a restart in force.
    pub fn restarted(&mut self) {
        let Some(RestartingRecord { next, previous }) = self.restarting.take() else {
            return;
        };
        let next = next.unwrap_or_default();
        self.context = next.context;
        self.resources = next.resources;
        self.links = next.links;
        self.previous = previous;
    }

    fn setups(&self) -> impl Iterator<Item = &SetupRecord> {
        let restarting = self.restarting.iter();
        let restarting = restarting.flat_map(|restarting| [&restarting.next, &restarting.previous]);
        restarting.chain([&self.previous]).flatten()
    }
}

/// Launch context of a container, and its resources.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct SetupRecord {
    /// Number of the launch context; 0: that of the acceptance.
    #[prost(uint64, tag = "1")]
    pub context: u64,
    /// Paths of the localized resources.
    #[prost(string, repeated, tag = "2")]
    pub resources: Vec<String>,
    /// Names of the links to them, in their order.
    #[prost(string, repeated, tag = "3")]
    pub links: Vec<String>,
}

/// Re-initialization whose resources are being localized.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct LocalizingRecord {
    /// Number of the next launch context.
    #[prost(uint64, tag = "1")]
    pub context: u64,
    /// Whether the present setup is dropped at once.
    #[prost(bool, tag = "2")]
    pub auto_commit: bool,
}

/// Restart of a container.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct RestartingRecord {
    /// Setup of the next launch.
    #[prost(message, optional, tag = "1")]
    pub next: Option<SetupRecord>,
    /// Setup to which a rollback returns then.
    #[prost(message, optional, tag = "2")]
    pub previous: Option<SetupRecord>,
}

/// State of an application on this node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum ApplicationStage {
    /// Containers may start.
    Running = 0,
    /// The application's containers are being ended.
    Finishing = 1,
    /// Only its logs are left.
    Finished = 2,
}

/// A right on an application, as its first launch context named it.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct AclRecord {
    /// Whether the right is to change the application, and not to see it.
    #[prost(bool, tag = "1")]
    pub modify: bool,
    /// Users and groups.
    #[prost(string, tag = "2")]
    pub list: String,
}

/// Data that a container brought for an auxiliary service. Secret.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct ServiceDataRecord {
    /// Name of the service.
    #[prost(string, tag = "1")]
    pub service: String,
    /// The data.
    #[prost(bytes = "vec", tag = "2")]
    pub data: Vec<u8>,
}

/// An application that has, or had, containers here.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct ApplicationRecord {
    /// User who submitted it.
    #[prost(string, tag = "1")]
    pub user: String,
    /// State in its life on the node.
    #[prost(enumeration = "ApplicationStage", tag = "2")]
    pub stage: i32,
    /// Time at which its logs are deleted, milliseconds of the wall clock; absent: not decided.
    #[prost(int64, optional, tag = "3")]
    pub delete_logs_at: Option<i64>,
    /// Rights.
    #[prost(message, repeated, tag = "4")]
    pub acls: Vec<AclRecord>,
    /// `LogAggregationContextProto` of its first container's token.
    #[prost(bytes = "vec", optional, tag = "5")]
    pub log_context: Option<Vec<u8>>,
    /// Data for auxiliary services, the last of each.
    #[prost(message, repeated, tag = "6")]
    pub service_data: Vec<ServiceDataRecord>,
    /// Clock of the time; absent in older records.
    #[prost(message, optional, tag = "7")]
    pub clock: Option<RecordClock>,
    /// Tokens for file systems by their services, the last of each, as in credentials of Hadoop's
    /// version 0. Secret.
    #[prost(message, repeated, tag = "8")]
    pub tokens: Vec<ServiceDataRecord>,
}

/// A key that the ResourceManager shares. Secret.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct KeyRecord {
    /// Id of the key.
    #[prost(int32, tag = "1")]
    pub id: i32,
    /// The key.
    #[prost(bytes = "vec", tag = "2")]
    pub secret: Vec<u8>,
}

/// Keys of container tokens and NMTokens. Secret.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct KeysRecord {
    /// Current key of container tokens.
    #[prost(message, optional, tag = "1")]
    pub container_current: Option<KeyRecord>,
    /// The one before.
    #[prost(message, optional, tag = "2")]
    pub container_previous: Option<KeyRecord>,
    /// Current key of NMTokens.
    #[prost(message, optional, tag = "3")]
    pub nm_current: Option<KeyRecord>,
    /// The one before.
    #[prost(message, optional, tag = "4")]
    pub nm_previous: Option<KeyRecord>,
}

/// Records of one container.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StoredContainer {
    /// How it was accepted.
    pub start: StartRecord,
    /// State after the acceptance; absent: unchanged.
    pub state: Option<StateRecord>,
    /// Launch contexts of re-initializations, by their numbers.
    pub contexts: BTreeMap<u64, ContextRecord>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_read_as_written_and_one_of_another_version_is_not() {
        let record = StartRecord {
            token: vec![1, 2],
            arrival: 3,
            ..StartRecord::default()
        };
        let mut bytes = encode(&record);
        assert_eq!(decode(&bytes), Ok(record));
        bytes[0] = VERSION + 1;
        let newer = decode::<StartRecord>(&bytes);
        assert_eq!(newer, Err(RecordError::Version(VERSION + 1)));
        assert_eq!(decode::<StartRecord>(&[]), Err(RecordError::Empty));
        let cut = decode::<StartRecord>(&encode(&StartRecord::default())[..1]);
        assert_eq!(cut, Ok(StartRecord::default()));
        let broken = decode::<StartRecord>(&[VERSION, 0x0a, 9]);
        assert!(matches!(broken, Err(RecordError::Form(_))), "{broken:?}");
    }
}
