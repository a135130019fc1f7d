//! Streams of one connection: which blocks, and which is next (Spark: `OneForOneStreamManager`).
//!
//! A stream belongs to its connection: no other can ask for its chunks, whatever number it guesses.

use std::collections::BTreeMap;
use std::sync::Arc;

use thiserror::Error;

use crate::blocks::{Block, BlockIds};
use crate::frame::ChunkId;
use crate::memory::{Charge, Memory};
use crate::message::ExecutorName;

/// Open streams of a connection at most.
const STREAMS_MAX: usize = 4_096;

/// Bytes of a stream beside its blocks.
const STREAM_OVERHEAD_BYTES: usize = 256;

/// Chunk that is not sent. The texts are Spark's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(crate) enum NoChunk {
    #[error(
        "java.lang.IllegalStateException: Received out-of-order chunk index {asked} \
         (expected {expected})"
    )]
    OutOfOrder { asked: i32, expected: usize },
    #[error(
        "java.lang.IllegalStateException: Requested chunk not available since streamId {0} is \
         closed"
    )]
    Closed(i64),
    #[error("java.lang.IllegalArgumentException: Unexpected stream id format")]
    Name,
}

/// Stream that is not opened, since the streams of the connection take too much memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("java.lang.IllegalStateException: too many streams are open")]
pub(crate) struct NoStream;

/// Open streams of a connection, by number.
#[derive(Debug)]
pub(crate) struct Streams {
    open: BTreeMap<i64, Stream>,
    next: i64,
    charge: Charge,
}

#[derive(Debug)]
struct Stream {
    application: Arc<str>,
    executor: Arc<str>,
    blocks: BlockIds,
    next: usize,
}

/// A chunk of an open stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Chunk {
    pub(crate) application: Arc<str>,
    pub(crate) executor: Arc<str>,
    pub(crate) block: Block,
}

impl Streams {
    /// Returns a connection's streams, which it numbers from `first`.
    pub(crate) fn new(memory: &Arc<Memory>, first: i64) -> Self {
        Self {
            open: BTreeMap::new(),
            next: first,
            charge: memory.charge(),
        }
    }

    /// Opens a stream without looking at any file. Returns its number.
    pub(crate) fn open(
        &mut self,
        name: ExecutorName<'_>,
        blocks: BlockIds,
    ) -> Result<i64, NoStream> {
        let number = self.next;
        let bytes = STREAM_OVERHEAD_BYTES + blocks.bytes();
        if self.open.len() >= STREAMS_MAX || !self.charge.add(bytes) {
            return Err(NoStream);
        }
        self.next = number.wrapping_add(1);
        let stream = Stream {
            application: name.application.into(),
            executor: name.executor.into(),
            blocks,
            next: 0,
        };
        if stream.blocks.is_empty() {
            self.charge.subtract(bytes);
        } else {
            self.open.insert(number, stream);
        }
        Ok(number)
    }

    /// Returns the chunk that is asked for, which must be the next of its stream. The last closes
    /// the stream.
    pub(crate) fn next(&mut self, asked: ChunkId) -> Result<Chunk, NoChunk> {
        let closed = NoChunk::Closed(asked.stream);
        let stream = self.open.get_mut(&asked.stream).ok_or(closed)?;
        let expected = stream.next;
        let out_of_order = NoChunk::OutOfOrder {
            asked: asked.index,
            expected,
        };
        if usize::try_from(asked.index) != Ok(expected) {
            return Err(out_of_order);
        }
        let block = stream.blocks.get(expected).ok_or(out_of_order)?;
        stream.next += 1;
        let chunk = Chunk {
            application: Arc::clone(&stream.application),
            executor: Arc::clone(&stream.executor),
            block,
        };
        if stream.next == stream.blocks.len() {
            self.close(asked.stream);
        }
        Ok(chunk)
    }

    fn close(&mut self, number: i64) {
        if let Some(stream) = self.open.remove(&number) {
            let bytes = STREAM_OVERHEAD_BYTES + stream.blocks.bytes();
            self.charge.subtract(bytes);
        }
    }
}

/// Reads the name of a chunk in a request for a stream: `<stream>_<chunk>`.
pub(crate) fn chunk_of(name: &str) -> Result<ChunkId, NoChunk> {
    let parsed = name.split_once('_').and_then(|(stream, index)| {
        Some(ChunkId {
            stream: stream.parse().ok()?,
            index: index.parse().ok()?,
        })
    });
    parsed.ok_or(NoChunk::Name)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAME: ExecutorName<'_> = ExecutorName {
        application: "application_1_0001",
        executor: "1",
    };

    fn chunk(stream: i64, index: i32) -> ChunkId {
        ChunkId { stream, index }
    }

    #[test]
    fn chunks_come_in_their_order_and_the_last_closes_the_stream() {
        let memory = Arc::new(Memory::new(1 << 20));
        let mut streams = Streams::new(&memory, i64::MAX);
        let stream = streams
            .open(NAME, BlockIds::Rdd(vec![(4, 0), (4, 1)]))
            .unwrap();
        assert_eq!(stream, i64::MAX);
        let out_of_order = NoChunk::OutOfOrder {
            asked: 1,
            expected: 0,
        };
        assert_eq!(streams.next(chunk(stream, 1)), Err(out_of_order));
        assert!(streams.next(chunk(stream, -1)).is_err());
        assert!(streams.next(chunk(stream, 0)).is_ok());
        assert!(streams.next(chunk(stream, 0)).is_err());
        assert!(streams.next(chunk(stream, 1)).is_ok());
        let closed = Err(NoChunk::Closed(stream));
        assert_eq!(streams.next(chunk(stream, 2)), closed);
        // The number after the greatest is the least.
        let next = streams.open(NAME, BlockIds::Rdd(vec![(4, 0)]));
        assert_eq!(next, Ok(i64::MIN));
    }

    #[test]
    fn streams_take_no_more_memory_than_they_may() {
        let memory = Arc::new(Memory::new(2 * (STREAM_OVERHEAD_BYTES + 8)));
        let mut streams = Streams::new(&memory, 0);
        let open = |streams: &mut Streams| streams.open(NAME, BlockIds::Rdd(vec![(4, 0)]));
        assert_eq!(open(&mut streams), Ok(0));
        // A stream without chunks is closed already.
        let empty = streams.open(NAME, BlockIds::Rdd(Vec::new()));
        assert_eq!(empty, Ok(1));
        assert_eq!(open(&mut streams), Ok(2));
        assert_eq!(open(&mut streams), Err(NoStream));
        assert!(streams.next(chunk(0, 0)).is_ok());
        assert_eq!(open(&mut streams), Ok(3));
    }

    #[test]
    fn names_of_streams_are_read() {
        assert_eq!(chunk_of("1746051637014_0"), Ok(chunk(1_746_051_637_014, 0)));
        assert_eq!(chunk_of("-5_7"), Ok(chunk(-5, 7)));
        for name in [
            "",
            "5",
            "_",
            "5_",
            "5_x",
            "5_0_0",
            "../5_0",
            "99999999999999999999_0",
        ] {
            assert!(chunk_of(name).is_err(), "{name}");
        }
    }
}
