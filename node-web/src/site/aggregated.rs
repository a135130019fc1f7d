//! Log files that are in remote files already, behind the one of the same name on the node's disk.
//!
//! A remote file system may hang, and a remote file may be as long as its application's user likes.
//! So each step runs on a thread of its own, of which there are few, and has a time limit; nothing
//! is read ahead of the peer, and a reading ends soon after its peer has gone.

use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::io::{self, Read};
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use node_view::java_date::java_date_of;
use records::{ApplicationId, ContainerName, EpochMillis};
use time::UtcOffset;
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::range;

/// Threads that read remote files at once. A file system that hangs holds these and no others.
const THREADS_MAX: usize = 4;

/// Time limit of one step: to find a log file in a remote file, or to read a chunk of it.
const STEP_MAX: Duration = Duration::from_secs(30);

/// Bytes of a log file read at once.
const CHUNK_BYTES: u64 = 32 * 1024;

/// A log file in a remote file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoteLog {
    /// User of the application. Chosen by a peer.
    pub user: String,
    /// Id of the application.
    pub application: ApplicationId,
    /// Name of the remote file.
    pub remote: String,
    /// Container that wrote the log file.
    pub container: ContainerName,
    /// Name of the log file. Chosen by the container.
    pub name: String,
}

/// Content of a log file in a remote file.
pub struct OpenRemoteLog {
    /// Length in bytes.
    pub length: u64,
    /// The content. Ends at its length, or with an error.
    pub content: Box<dyn Read + Send>,
}

/// Opens log files in remote files.
pub trait RemoteLogs: Send + Sync {
    /// Finds a log file. Blocks. Neither this nor a reading of the content goes on for long once
    /// nobody wants it any more.
    ///
    /// # Errors
    /// Those of the file system; there is no such file.
    fn open(&self, log: &RemoteLog, unwanted: &CancellationToken) -> io::Result<OpenRemoteLog>;
}

/// The reader of remote files that all requests share.
#[derive(Clone)]
pub struct RemoteReader {
    logs: Arc<dyn RemoteLogs>,
    threads: Arc<Semaphore>,
}

impl RemoteReader {
    /// Makes a reader of these files.
    #[must_use]
    pub fn new(logs: Arc<dyn RemoteLogs>) -> Self {
        let threads = Arc::new(Semaphore::new(THREADS_MAX));
        Self { logs, threads }
    }
}

impl fmt::Debug for RemoteReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RemoteReader").finish_non_exhaustive()
    }
}

/// A log file that an answer is to show, and the time at which its remote file was complete.
#[derive(Debug)]
pub(super) struct Wanted {
    pub(super) log: RemoteLog,
    pub(super) uploaded_at: EpochMillis,
}

/// The part of an answer that shows log files of remote files, in Hadoop's frames. One that cannot
/// be opened is left out, as in Hadoop.
pub(super) struct RemotePart {
    reader: RemoteReader,
    /// `None` while a step has it, and at the end.
    reading: Option<Reading>,
    step: Option<Pin<Box<dyn Future<Output = io::Result<Stepped>> + Send>>>,
    _wanted: DropGuard,
}

/// Result of a step: the bytes to send, and where the next one goes on.
type Stepped = Option<(Bytes, Reading)>;

/// State between two steps.
struct Reading {
    left: VecDeque<Wanted>,
    size: i64,
    offset: UtcOffset,
    open: Option<OpenPart>,
    unwanted: CancellationToken,
}

/// The log file that is being sent.
struct OpenPart {
    content: Box<dyn Read + Send>,
    /// Bytes of the content that are still to be sent.
    left: u64,
    tail: String,
}

impl RemotePart {
    /// Shows these files, of each the part that `size` says ([`range::sized`]).
    pub(super) fn new(
        reader: RemoteReader,
        wanted: VecDeque<Wanted>,
        size: i64,
        offset: UtcOffset,
    ) -> Self {
        let unwanted = CancellationToken::new();
        Self {
            reader,
            _wanted: unwanted.clone().drop_guard(),
            reading: Some(Reading {
                left: wanted,
                size,
                offset,
                open: None,
                unwanted,
            }),
            step: None,
        }
    }

    /// Returns the next bytes; `None` at the end.
    pub(super) fn poll_bytes(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Option<Bytes>>> {
        if self.step.is_none() {
            let Some(reading) = self.reading.take() else {
                return Poll::Ready(Ok(None));
            };
            self.step = Some(Box::pin(step(self.reader.clone(), reading)));
        }
        let Some(step) = &mut self.step else {
            return Poll::Ready(Ok(None));
        };
        let stepped = ready!(step.as_mut().poll(cx));
        self.step = None;
        Poll::Ready(stepped.map(|stepped| {
            let (bytes, reading) = stepped?;
            self.reading = Some(reading);
            Some(bytes)
        }))
    }
}

impl fmt::Debug for RemotePart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RemotePart").finish_non_exhaustive()
    }
}

/// Performs one step on a thread. One that is late ends the answer: in order between two files,
/// with an error within one.
async fn step(reader: RemoteReader, mut reading: Reading) -> io::Result<Stepped> {
    let is_within = reading.open.is_some();
    let stepping = async move {
        let permit = reader.threads.acquire_owned().await;
        let permit = permit.map_err(io::Error::other)?;
        let logs = reader.logs;
        let next = move || {
            let _until_it_returns = permit;
            let bytes = reading.next_bytes(&*logs)?;
            Ok(bytes.map(|bytes| (bytes, reading)))
        };
        tokio::task::spawn_blocking(next)
            .await
            .map_err(io::Error::other)?
    };
    match timeout(STEP_MAX, stepping).await {
        Ok(stepped) => stepped,
        Err(_) if is_within => Err(io::ErrorKind::TimedOut.into()),
        Err(_) => {
            tracing::debug!("remote files take too long to open for a reader of logs");
            Ok(None)
        }
    }
}

impl Reading {
    /// Returns the next bytes; `None` behind the last file. Blocks.
    fn next_bytes(&mut self, logs: &dyn RemoteLogs) -> io::Result<Option<Bytes>> {
        if let Some(open) = &mut self.open {
            if open.left > 0 {
                return open.chunk().map(Some);
            }
            let tail = std::mem::take(&mut open.tail);
            self.open = None;
            return Ok(Some(Bytes::from(tail)));
        }
        while let Some(wanted) = self.left.pop_front() {
            match self.open(logs, &wanted) {
                Ok(head) => return Ok(Some(Bytes::from(head))),
                // For whoever reads the log of the agent: readers may ask as often as they like.
                Err(error) => {
                    let (remote, container) = (&wanted.log.remote, &wanted.log.container);
                    tracing::debug!(remote, %container, %error, "a remote log is not shown");
                }
            }
        }
        Ok(None)
    }

    /// Opens a log file and moves to the bytes that are asked for. Returns the lines before them.
    fn open(&mut self, logs: &dyn RemoteLogs, wanted: &Wanted) -> io::Result<String> {
        let RemoteLog {
            remote,
            container,
            name,
            ..
        } = &wanted.log;
        let mut opened = logs.open(&wanted.log, &self.unwanted)?;
        let Range { start, end } = range::sized(opened.length, self.size);
        let skipped = io::copy(&mut (&mut opened.content).take(start), &mut io::sink())?;
        if skipped != start {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let frame = Frame {
            container,
            node: remote,
            kind: "AGGREGATED",
            name,
            modified: java_date_of(wanted.uploaded_at, self.offset),
            length: opened.length,
        };
        self.open = Some(OpenPart {
            content: opened.content,
            left: end - start,
            tail: format!("\n{}", frame.tail("")),
        });
        Ok(frame.head())
    }
}

impl OpenPart {
    fn chunk(&mut self) -> io::Result<Bytes> {
        let mut bytes = Vec::new();
        let count = self.left.min(CHUNK_BYTES);
        (&mut self.content).take(count).read_to_end(&mut bytes)?;
        if bytes.is_empty() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.left -= bytes.len() as u64;
        Ok(Bytes::from(bytes))
    }
}

/// Lines around a log file as the `yarn logs` command prints them (Hadoop: `LogToolUtils`).
pub(super) struct Frame<'a> {
    pub(super) container: &'a ContainerName,
    /// Id of the node, or name of the remote file.
    pub(super) node: &'a str,
    pub(super) kind: &'static str,
    pub(super) name: &'a str,
    /// Time of the last modification, as Java's `Date` prints it.
    pub(super) modified: String,
    pub(super) length: u64,
}

impl Frame<'_> {
    pub(super) fn head(&self) -> String {
        let container = format!("Container: {} on {}", self.container, self.node);
        format!(
            "{container}\nLogAggregationType: {}\n{}\nLogType:{}\nLogLastModifiedTime:{}\nLogLength:{}\nLogContents:\n",
            self.kind,
            "=".repeat(container.chars().count()),
            self.name,
            self.modified,
            self.length,
        )
    }

    /// Returns the lines behind the content, with a remark on it.
    pub(super) fn tail(&self, remark: &str) -> String {
        let end = format!("End of LogType:{}", self.name);
        let stars = "*".repeat(end.chars().count() + 50);
        format!("{end}{remark}\n{stars}\n\n")
    }
}

#[cfg(test)]
mod tests;
