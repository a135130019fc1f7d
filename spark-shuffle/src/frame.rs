//! Frames of Spark's transport: requests read, answers written (Spark: `TransportFrameDecoder`,
//! `MessageDecoder`, `MessageEncoder`).
//!
//! A frame is `i64 length` (of all of it), `i8 type`, a header, a body. The data of a
//! `StreamResponse` follows its frame and is not in the length; a chunk is in it.

use crate::cursor::{Cursor, Malformed, put_bytes, put_count};

/// Bytes of a frame's length.
pub(crate) const LENGTH_BYTES: usize = 8;

/// Bytes of the longest name of a stream.
const STREAM_NAME_BYTES_MAX: usize = 128;

/// Bytes of the longest application's id.
pub(crate) const APP_ID_BYTES_MAX: usize = 256;

const CHUNK_FETCH_REQUEST: u8 = 0;
const CHUNK_FETCH_SUCCESS: u8 = 1;
const CHUNK_FETCH_FAILURE: u8 = 2;
const RPC_REQUEST: u8 = 3;
const RPC_RESPONSE: u8 = 4;
const RPC_FAILURE: u8 = 5;
const STREAM_REQUEST: u8 = 6;
const STREAM_RESPONSE: u8 = 7;
const STREAM_FAILURE: u8 = 8;
const ONE_WAY_MESSAGE: u8 = 9;
const UPLOAD_STREAM: u8 = 10;
const MERGED_BLOCK_META_REQUEST: u8 = 11;
const MERGED_BLOCK_META_SUCCESS: u8 = 12;

/// Chunk of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ChunkId {
    /// Number of the stream on its connection.
    pub(crate) stream: i64,
    /// Number of the chunk in the stream, from 0.
    pub(crate) index: i32,
}

/// A request of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Request<'a> {
    /// A chunk, to be sent inside a frame.
    ChunkFetch(ChunkId),
    /// A message that is answered.
    Rpc {
        /// Number that the client gave, for the answer.
        id: i64,
        /// The message.
        body: &'a [u8],
    },
    /// A chunk by its stream's name, to be sent behind a frame.
    Stream(&'a str),
    /// A message that is not answered.
    OneWay,
    /// Data for a push-based merge, which follow the frame.
    Upload {
        /// Number that the client gave.
        id: i64,
    },
    /// Question for merged blocks.
    MergedBlockMeta {
        /// Number that the client gave.
        id: i64,
    },
    /// An answer, which nobody asked for: ignored, as in Spark.
    Answer,
}

impl<'a> Request<'a> {
    /// Reads what follows the length of a frame.
    ///
    /// # Errors
    /// [`Malformed`], also for an unknown type: the connection is closed without an answer.
    pub(crate) fn parse(frame: &'a [u8]) -> Result<Self, Malformed> {
        let mut fields = Cursor::new(frame);
        Ok(match fields.u8()? {
            CHUNK_FETCH_REQUEST => Self::ChunkFetch(ChunkId {
                stream: fields.i64()?,
                index: fields.i32()?,
            }),
            RPC_REQUEST => {
                let id = fields.i64()?;
                let _length_again = fields.i32()?;
                let body = fields.rest();
                Self::Rpc { id, body }
            }
            STREAM_REQUEST => Self::Stream(fields.text(STREAM_NAME_BYTES_MAX)?),
            ONE_WAY_MESSAGE => {
                let _length_again = fields.i32()?;
                Self::OneWay
            }
            UPLOAD_STREAM => Self::Upload { id: fields.i64()? },
            MERGED_BLOCK_META_REQUEST => {
                let id = fields.i64()?;
                fields.text(APP_ID_BYTES_MAX)?;
                for _ in ["shuffle", "merge", "reduce"] {
                    fields.i32()?;
                }
                Self::MergedBlockMeta { id }
            }
            CHUNK_FETCH_SUCCESS
            | CHUNK_FETCH_FAILURE
            | RPC_RESPONSE
            | RPC_FAILURE
            | STREAM_RESPONSE
            | STREAM_FAILURE
            | MERGED_BLOCK_META_SUCCESS => Self::Answer,
            _unknown => return Err(Malformed::Short),
        })
    }
}

/// Returns the number of bytes of a frame after its length, by its first bytes; `None`: more are
/// needed.
///
/// # Errors
/// [`Malformed::Short`] for a length that no frame has, [`Malformed::Long`] for one beyond
/// `bytes_max`.
pub(crate) fn length(received: &[u8], bytes_max: usize) -> Result<Option<usize>, Malformed> {
    let Some((length, _)) = received.split_first_chunk::<LENGTH_BYTES>() else {
        return Ok(None);
    };
    let whole = i64::from_be_bytes(*length);
    let whole = usize::try_from(whole).map_err(|_| Malformed::Short)?;
    // The type is a byte.
    if whole <= LENGTH_BYTES {
        return Err(Malformed::Short);
    }
    if whole > bytes_max {
        return Err(Malformed::Long);
    }
    Ok(Some(whole - LENGTH_BYTES))
}

/// Makes a frame of a type, whose body has so many bytes that are not in it.
fn frame(kind: u8, apart: u64, fill: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut bytes = vec![0; LENGTH_BYTES];
    bytes.push(kind);
    fill(&mut bytes);
    let length = bytes.len() as u64 + apart;
    bytes[..LENGTH_BYTES].copy_from_slice(&length.to_be_bytes());
    bytes
}

/// Returns the answer to a message.
pub(crate) fn rpc_response(id: i64, body: &[u8]) -> Vec<u8> {
    frame(RPC_RESPONSE, 0, |to| {
        to.extend(id.to_be_bytes());
        put_count(to, body.len());
        to.extend_from_slice(body);
    })
}

/// Returns the answer to a message that failed.
pub(crate) fn rpc_failure(id: i64, error: &str) -> Vec<u8> {
    frame(RPC_FAILURE, 0, |to| {
        to.extend(id.to_be_bytes());
        put_bytes(to, error.as_bytes());
    })
}

/// Returns the beginning of a frame that ends with a chunk of this length.
pub(crate) fn chunk_success(chunk: ChunkId, length: u64) -> Vec<u8> {
    frame(CHUNK_FETCH_SUCCESS, length, |to| put_chunk(to, chunk))
}

/// Returns the answer to the request of a chunk that failed.
pub(crate) fn chunk_failure(chunk: ChunkId, error: &str) -> Vec<u8> {
    frame(CHUNK_FETCH_FAILURE, 0, |to| {
        put_chunk(to, chunk);
        put_bytes(to, error.as_bytes());
    })
}

/// Returns the frame that data of this length follow.
pub(crate) fn stream_response(name: &str, length: u64) -> Vec<u8> {
    frame(STREAM_RESPONSE, 0, |to| {
        put_bytes(to, name.as_bytes());
        to.extend(length.to_be_bytes());
    })
}

/// Returns the answer to the request of a stream that failed.
pub(crate) fn stream_failure(name: &str, error: &str) -> Vec<u8> {
    frame(STREAM_FAILURE, 0, |to| {
        put_bytes(to, name.as_bytes());
        put_bytes(to, error.as_bytes());
    })
}

fn put_chunk(to: &mut Vec<u8>, chunk: ChunkId) {
    to.extend(chunk.stream.to_be_bytes());
    to.extend(chunk.index.to_be_bytes());
}
