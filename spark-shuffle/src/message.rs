//! Messages inside of requests (Spark: `BlockTransferMessage`), and the answers to them.

use crate::blocks::{BlockIds, NoBlockIds};
use crate::cursor::{Cursor, Malformed, Texts, put_bytes, put_count};
use crate::frame::APP_ID_BYTES_MAX;

/// Bytes of the longest executor's id.
const EXECUTOR_ID_BYTES_MAX: usize = 256;

/// Bytes of the longest path of a local directory: the kernel's limit.
const PATH_BYTES_MAX: usize = 4096;

/// Bytes of the longest name of a shuffle manager. With push-based merge it has JSON in it.
const MANAGER_BYTES_MAX: usize = 8192;

/// Bytes of the longest name of a block: as long as a file's may be.
const BLOCK_NAME_BYTES_MAX: usize = 255;

/// Bytes of the longest name of a checksum algorithm.
const ALGORITHM_BYTES_MAX: usize = 64;

const OPEN_BLOCKS: u8 = 0;
const REGISTER_EXECUTOR: u8 = 2;
const STREAM_HANDLE: u8 = 3;
const REMOVE_BLOCKS: u8 = 7;
const BLOCKS_REMOVED: u8 = 8;
const FETCH_SHUFFLE_BLOCKS: u8 = 9;
const GET_LOCAL_DIRS: u8 = 10;
const LOCAL_DIRS: u8 = 11;
const FINALIZE_SHUFFLE_MERGE: u8 = 13;
const FETCH_SHUFFLE_BLOCK_CHUNKS: u8 = 15;
const DIAGNOSE_CORRUPTION: u8 = 16;
const CORRUPTION_CAUSE: u8 = 17;
/// Known types that no client of this service sends: uploads, Mesos, answers, push-based merge.
const OTHERS: [u8; 8] = [1, 4, 5, 6, 12, 14, 18, 19];

/// An executor of an application, as a message names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ExecutorName<'a> {
    /// Id of the application.
    pub(crate) application: &'a str,
    /// Id of the executor.
    pub(crate) executor: &'a str,
}

/// Facts about an executor that registers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Registration<'a> {
    pub(crate) dirs: Texts<'a>,
    pub(crate) sub_dirs: i32,
}

/// A message of a client.
#[derive(Debug)]
pub(crate) enum Message<'a> {
    /// An executor begins.
    Register(ExecutorName<'a>, Registration<'a>),
    /// A stream of blocks is asked for, with its parsed ids.
    Open(ExecutorName<'a>, BlockIds),
    /// Files of blocks are to be removed.
    Remove(ExecutorName<'a>, BlockNames<'a>),
    /// Directories of executors are asked for, by clients on the same host.
    LocalDirs {
        /// Id of the application.
        application: &'a str,
        /// Ids of the executors.
        executors: BlockNames<'a>,
    },
    /// The reason for a wrong checksum is asked for.
    Diagnose(ExecutorName<'a>, Diagnosis<'a>),
}

/// Strings of a message, decoded one by one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BlockNames<'a>(pub(crate) Texts<'a>);

/// A block whose checksum was wrong at a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Diagnosis<'a> {
    pub(crate) shuffle: i32,
    pub(crate) map: i64,
    pub(crate) reduce: i32,
    pub(crate) checksum: i64,
    pub(crate) algorithm: &'a str,
}

/// Message that is not taken. The text of each is Spark's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NoMessage {
    /// Bytes that are no message of its type.
    #[error("java.lang.IllegalArgumentException: {0}")]
    Malformed(#[from] Malformed),
    /// A type that does not exist.
    #[error("java.lang.IllegalArgumentException: Unknown message type: {0}")]
    Unknown(u8),
    /// A type that is for others than this service.
    #[error("java.lang.UnsupportedOperationException: Unexpected message: type {0}")]
    Unexpected(u8),
    /// A message of push-based merge.
    #[error("java.lang.UnsupportedOperationException: Cannot handle shuffle block merge")]
    Merge,
    /// Blocks that are no stream.
    #[error("java.lang.IllegalArgumentException: {0}")]
    Blocks(NoBlockIds),
}

impl From<NoBlockIds> for NoMessage {
    fn from(error: NoBlockIds) -> Self {
        match error {
            NoBlockIds::Merged => Self::Merge,
            other @ (NoBlockIds::Malformed(_) | NoBlockIds::Lengths | NoBlockIds::Mixed) => {
                Self::Blocks(other)
            }
        }
    }
}

impl<'a> Message<'a> {
    /// Reads a message.
    ///
    /// # Errors
    /// [`NoMessage`], whose text is the answer.
    pub(crate) fn parse(body: &'a [u8]) -> Result<Self, NoMessage> {
        let mut fields = Cursor::new(body);
        let kind = fields.u8()?;
        Ok(match kind {
            REGISTER_EXECUTOR => {
                let name = executor_name(&mut fields)?;
                let dirs = fields.texts(PATH_BYTES_MAX)?;
                let sub_dirs = fields.i32()?;
                fields.text(MANAGER_BYTES_MAX)?;
                Self::Register(name, Registration { dirs, sub_dirs })
            }
            FETCH_SHUFFLE_BLOCKS => {
                let name = executor_name(&mut fields)?;
                Self::Open(name, BlockIds::of_shuffle(&mut fields)?)
            }
            OPEN_BLOCKS => {
                let name = executor_name(&mut fields)?;
                Self::Open(name, BlockIds::named(fields.texts(BLOCK_NAME_BYTES_MAX)?)?)
            }
            REMOVE_BLOCKS => {
                let name = executor_name(&mut fields)?;
                Self::Remove(name, BlockNames(fields.texts(PATH_BYTES_MAX)?))
            }
            GET_LOCAL_DIRS => Self::LocalDirs {
                application: fields.text(APP_ID_BYTES_MAX)?,
                executors: BlockNames(fields.texts(EXECUTOR_ID_BYTES_MAX)?),
            },
            DIAGNOSE_CORRUPTION => {
                let name = executor_name(&mut fields)?;
                let diagnosis = Diagnosis {
                    shuffle: fields.i32()?,
                    map: fields.i64()?,
                    reduce: fields.i32()?,
                    checksum: fields.i64()?,
                    algorithm: fields.text(ALGORITHM_BYTES_MAX)?,
                };
                Self::Diagnose(name, diagnosis)
            }
            FINALIZE_SHUFFLE_MERGE | FETCH_SHUFFLE_BLOCK_CHUNKS => return Err(NoMessage::Merge),
            STREAM_HANDLE | BLOCKS_REMOVED | LOCAL_DIRS | CORRUPTION_CAUSE => {
                return Err(NoMessage::Unexpected(kind));
            }
            kind if OTHERS.contains(&kind) => return Err(NoMessage::Unexpected(kind)),
            kind => return Err(NoMessage::Unknown(kind)),
        })
    }

    /// Returns the application that the message is about.
    #[must_use]
    pub(crate) const fn application(&self) -> &'a str {
        match self {
            Self::Register(name, _)
            | Self::Open(name, _)
            | Self::Remove(name, _)
            | Self::Diagnose(name, _) => name.application,
            Self::LocalDirs { application, .. } => application,
        }
    }
}

fn executor_name<'a>(fields: &mut Cursor<'a>) -> Result<ExecutorName<'a>, Malformed> {
    Ok(ExecutorName {
        application: fields.text(APP_ID_BYTES_MAX)?,
        executor: fields.text(EXECUTOR_ID_BYTES_MAX)?,
    })
}

/// Returns the answer that opens a stream.
pub(crate) fn stream_handle(stream: i64, chunks: i32) -> Vec<u8> {
    let mut bytes = vec![STREAM_HANDLE];
    bytes.extend(stream.to_be_bytes());
    bytes.extend(chunks.to_be_bytes());
    bytes
}

/// Returns the answer to the removal of blocks.
pub(crate) fn blocks_removed(count: usize) -> Vec<u8> {
    let mut bytes = vec![BLOCKS_REMOVED];
    put_count(&mut bytes, count);
    bytes
}

/// Cause of a wrong checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Cause {
    /// The file does not have the checksum that its writer computed.
    Disk = 0,
    /// The file is right, so what the client got was not.
    Network = 1,
    Unknown = 2,
    /// All three checksums are the same.
    Fine = 3,
    UnsupportedAlgorithm = 4,
}

/// Returns the answer to a question for a cause.
pub(crate) fn corruption_cause(cause: Cause) -> Vec<u8> {
    vec![CORRUPTION_CAUSE, cause as u8]
}

/// Returns the answer with the directories of executors.
pub(crate) fn local_dirs<'a>(
    executors: Texts<'_>,
    dirs: impl Iterator<Item = &'a [Box<str>]> + Clone,
) -> Vec<u8> {
    let mut bytes = vec![LOCAL_DIRS];
    put_count(&mut bytes, executors.len());
    for executor in executors {
        put_bytes(&mut bytes, executor.as_bytes());
    }
    put_count(&mut bytes, executors.len());
    for dirs in dirs.clone() {
        put_count(&mut bytes, dirs.len());
    }
    put_count(&mut bytes, dirs.clone().map(<[_]>::len).sum());
    for dir in dirs.flatten() {
        put_bytes(&mut bytes, dir.as_bytes());
    }
    bytes
}
