//! Body of an answer: bytes, then perhaps a stretch of a file read as the peer takes
//! it, then bytes, then perhaps log files of remote files; or events as they happen.

use std::fs::File;
use std::future::Future;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use hyper::body::{Frame, SizeHint};
use tokio::sync::OwnedSemaphorePermit;
use tokio::task::JoinHandle;

use super::aggregated::RemotePart;
use super::html;
use super::live_page::Events;

/// Bytes of a file read at once: what one reader of a log costs in memory, whatever the log's size.
const CHUNK_BYTES: usize = 32 * 1024;

/// Body of an answer. Nothing is read ahead: a slow peer holds one chunk, and a dropped body reads
/// no further.
#[derive(Debug, Default)]
pub(super) struct Body {
    head: Bytes,
    file: Option<FileRange>,
    tail: Bytes,
    remote: Option<RemotePart>,
    /// Instead of all that: events until their end.
    events: Option<Events>,
}

/// Treatment of a file's bytes on their way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Escape {
    /// Sends the bytes as they are.
    Raw,
    /// Makes the bytes text of an HTML page.
    Html,
}

#[derive(Debug)]
struct FileRange {
    file: Arc<File>,
    left: Range<u64>,
    escape: Escape,
    reading: Option<JoinHandle<io::Result<Chunk>>>,
}

/// Bytes as they go out, and how many of the file they stand for.
#[derive(Debug)]
struct Chunk {
    bytes: Bytes,
    file_bytes: u64,
}

impl Body {
    /// Makes a body of these bytes.
    pub(super) fn full(bytes: impl Into<Bytes>) -> Self {
        Self {
            head: bytes.into(),
            ..Self::default()
        }
    }

    /// `head`, the bytes of `file` in `range`, `tail`. If the file ends early, so does its part.
    pub(super) fn around_file(
        head: impl Into<Bytes>,
        file: File,
        range: Range<u64>,
        escape: Escape,
        tail: impl Into<Bytes>,
    ) -> Self {
        Self {
            head: head.into(),
            file: Some(FileRange {
                file: Arc::new(file),
                left: range,
                escape,
                reading: None,
            }),
            tail: tail.into(),
            ..Self::default()
        }
    }

    /// Adds log files of remote files at the end.
    pub(super) fn followed_by(mut self, remote: RemotePart) -> Self {
        self.remote = Some(remote);
        self
    }

    /// Events as they happen.
    pub(super) fn events(events: Events) -> Self {
        Self {
            events: Some(events),
            ..Self::default()
        }
    }

    /// Bytes that the body holds in memory before it is sent.
    pub(super) fn held_bytes(&self) -> usize {
        self.head.len() + self.tail.len()
    }

    /// Keeps the permit until the last byte of the head has been sent or dropped.
    pub(super) fn holding(mut self, permit: OwnedSemaphorePermit) -> Self {
        let bytes = self.head;
        self.head = Bytes::from_owner(Held {
            bytes,
            _permit: permit,
        });
        self
    }
}

/// Bytes with the permit for their memory.
struct Held {
    bytes: Bytes,
    _permit: OwnedSemaphorePermit,
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl hyper::body::Body for Body {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        if !self.head.is_empty() {
            let head = std::mem::take(&mut self.head);
            return Poll::Ready(Some(Ok(Frame::data(head))));
        }
        if let Some(file) = &mut self.file {
            match ready!(file.poll_chunk(cx)) {
                Ok(Some(bytes)) => return Poll::Ready(Some(Ok(Frame::data(bytes)))),
                Ok(None) => self.file = None,
                Err(error) => {
                    self.file = None;
                    return Poll::Ready(Some(Err(error)));
                }
            }
        }
        if !self.tail.is_empty() {
            let tail = std::mem::take(&mut self.tail);
            return Poll::Ready(Some(Ok(Frame::data(tail))));
        }
        if let Some(remote) = &mut self.remote {
            match ready!(remote.poll_bytes(cx)) {
                Ok(Some(bytes)) => return Poll::Ready(Some(Ok(Frame::data(bytes)))),
                Ok(None) => self.remote = None,
                Err(error) => {
                    self.remote = None;
                    return Poll::Ready(Some(Err(error)));
                }
            }
        }
        if let Some(events) = &mut self.events {
            match ready!(events.poll_next(cx)) {
                Some(event) => return Poll::Ready(Some(Ok(Frame::data(event)))),
                None => self.events = None,
            }
        }
        Poll::Ready(None)
    }

    fn is_end_stream(&self) -> bool {
        let is_sent = self.head.is_empty() && self.file.is_none() && self.tail.is_empty();
        is_sent && self.remote.is_none() && self.events.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        // A log may shrink while it is read, and escaping lengthens it: no promise, so the answer
        // is sent in chunks.
        if self.file.is_some() || self.remote.is_some() || self.events.is_some() {
            return SizeHint::new();
        }
        SizeHint::with_exact(self.head.len() as u64 + self.tail.len() as u64)
    }
}

impl FileRange {
    /// The next bytes; `None` at the range's or the file's end.
    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Option<Bytes>>> {
        if self.left.is_empty() {
            return Poll::Ready(Ok(None));
        }
        let reading = self.reading.get_or_insert_with(|| {
            let (file, left, escape) = (Arc::clone(&self.file), self.left.clone(), self.escape);
            tokio::task::spawn_blocking(move || read_chunk(&file, left, escape))
        });
        let joined = ready!(Pin::new(reading).poll(cx));
        self.reading = None;
        let chunk = joined.map_err(io::Error::other)??;
        if chunk.file_bytes == 0 {
            return Poll::Ready(Ok(None));
        }
        self.left.start += chunk.file_bytes;
        Poll::Ready(Ok(Some(chunk.bytes)))
    }
}

fn read_chunk(file: &File, left: Range<u64>, escape: Escape) -> io::Result<Chunk> {
    let wanted = usize::try_from(left.end - left.start)
        .unwrap_or(CHUNK_BYTES)
        .min(CHUNK_BYTES);
    let mut buffer = vec![0; wanted];
    let read = loop {
        match file.read_at(&mut buffer, left.start) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            result => break result?,
        }
    };
    buffer.truncate(read);
    let bytes = match escape {
        Escape::Raw => Bytes::from(buffer),
        Escape::Html => Bytes::from(html::escape_bytes(&buffer)),
    };
    Ok(Chunk {
        bytes,
        file_bytes: read as u64,
    })
}
