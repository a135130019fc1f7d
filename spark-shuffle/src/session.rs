//! One client's requests and their answers, apart from its socket.

use std::sync::Arc;
use std::time::Duration;

use refusals::Reason;
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::auth_engine::Ciphers;
use crate::blocks::BlockIds;
use crate::diagnosis::diagnose;
use crate::executors::{NoExecutor, Place, Settled};
use crate::files::{FileRange, NoBlock, is_removable, locate, open_folder};
use crate::frame::{self, ChunkId, Request};
use crate::handshake::Handshake;
use crate::message::{self, BlockNames, ExecutorName, Message, Registration};
use crate::shared::Shared;
use crate::streams::{Streams, chunk_of};

/// Time for a registration to be stored. The answer comes all the same: an executor that is not
/// stored is served until the agent ends.
const STORE_PATIENCE: Duration = Duration::from_secs(10);

/// Bytes of the longest answer with local directories.
const LOCAL_DIRS_BYTES_MAX: usize = 4 << 20;

/// Longest chunk inside of a frame, whose length Java counts in an `int`. Longer ones are asked for
/// as streams.
const CHUNK_BYTES_MAX: u64 = i32::MAX.unsigned_abs() as u64 - 64;

/// Removed files between which other connections get the thread.
const REMOVALS_A_TURN: usize = 32;

/// Answer to a request.
#[derive(Debug, Default)]
pub(crate) struct Reply {
    /// Frame, or the part of it before the range; may be empty.
    pub(crate) frame: Vec<u8>,
    /// Part of a file that follows.
    pub(crate) range: Option<FileRange>,
    /// Whether the connection ends after it.
    pub(crate) ends: bool,
    /// Ciphers of the connection from the next byte on, in both directions.
    pub(crate) ciphers: Option<Ciphers>,
    /// Whether the client lacks a right.
    pub(crate) is_refusal: bool,
}

impl Reply {
    pub(crate) fn frame(frame: Vec<u8>) -> Self {
        Self {
            frame,
            ..Self::default()
        }
    }
}

/// Request that gets no answer that it asked for.
enum Fault {
    /// Failure, with its text. It is final: the client gives the block up.
    Final(String),
    /// No answer at all, so that the client comes again: what it asks for is about to be known.
    NotYet,
}

impl Fault {
    fn of(error: &impl ToString) -> Self {
        Self::Final(error.to_string())
    }
}

/// State of one connection.
pub(crate) struct Session {
    shared: Arc<Shared>,
    streams: Streams,
    access: Access,
    /// User of the application that was named last and has containers here.
    user: Option<Arc<str>>,
}

/// Right of a connection.
enum Access {
    /// Clients prove nothing.
    Open,
    /// Nothing but a handshake is answered.
    Unproven(Handshake),
    /// The client has the secret of this application.
    Proven(Arc<str>),
}

impl Session {
    pub(crate) fn new(shared: Arc<Shared>, first_stream: i64) -> Self {
        let streams = Streams::new(&shared.memory, first_stream);
        let access = if shared.config.authenticates {
            Access::Unproven(Handshake::new(shared.config.encryption))
        } else {
            Access::Open
        };
        Self {
            shared,
            streams,
            access,
            user: None,
        }
    }

    /// Returns whether the client must prove who it is and has not.
    pub(crate) const fn is_unproven(&self) -> bool {
        matches!(self.access, Access::Unproven(_))
    }

    /// Returns the user for whom this connection counts; `None` until a request has named an
    /// application that has containers here.
    pub(crate) const fn user(&self) -> Option<&Arc<str>> {
        self.user.as_ref()
    }

    /// Answers a request.
    pub(crate) async fn answer(&mut self, request: Request<'_>) -> Reply {
        if let Access::Unproven(handshake) = &mut self.access {
            let (reply, proven) = handshake.answer(request, &self.shared.applications);
            if let Some(application) = proven {
                self.user = self.shared.applications.user(&application);
                self.access = Access::Proven(application);
            }
            if reply.is_refusal {
                self.shared.refusals.count(Reason::Unauthorized);
            }
            return reply;
        }
        match request {
            Request::ChunkFetch(chunk) => self.chunk(chunk),
            Request::Stream(name) => self.stream(name),
            Request::Rpc { id, body } => self.rpc(id, body).await,
            Request::Upload { id } => Reply {
                // Its data would follow.
                ends: true,
                ..Reply::frame(no_merge(id))
            },
            Request::MergedBlockMeta { id } => Reply::frame(no_merge(id)),
            Request::OneWay | Request::Answer => Reply::default(),
        }
    }

    fn chunk(&mut self, chunk: ChunkId) -> Reply {
        let found = self.open_chunk(chunk).and_then(|range| {
            let too_large = || Fault::of(&NoBlock::TooLarge(range.length));
            let fits = range.length <= CHUNK_BYTES_MAX;
            fits.then_some(()).ok_or_else(too_large)?;
            Ok(range)
        });
        let head = |range: &FileRange| frame::chunk_success(chunk, range.length);
        self.sent(found, head, |error| frame::chunk_failure(chunk, error))
    }

    fn stream(&mut self, name: &str) -> Reply {
        let chunk = chunk_of(name).map_err(|error| Fault::of(&error));
        let found = chunk.and_then(|chunk| self.open_chunk(chunk));
        let head = |range: &FileRange| frame::stream_response(name, range.length);
        self.sent(found, head, |error| frame::stream_failure(name, error))
    }

    /// Returns the answer with a range, or the one that it failed.
    fn sent(
        &self,
        found: Result<FileRange, Fault>,
        head: impl Fn(&FileRange) -> Vec<u8>,
        failure: impl Fn(&str) -> Vec<u8>,
    ) -> Reply {
        match found {
            Ok(range) => Reply {
                frame: head(&range),
                range: Some(range),
                ..Reply::default()
            },
            Err(fault) => {
                self.shared.counters.failed();
                failed(fault, failure)
            }
        }
    }

    fn open_chunk(&mut self, chunk: ChunkId) -> Result<FileRange, Fault> {
        let chunk = self
            .streams
            .next(chunk)
            .map_err(|error| Fault::of(&error))?;
        let name = ExecutorName {
            application: &chunk.application,
            executor: &chunk.executor,
        };
        let place = self.find(name)?;
        let range = locate(&place.folders, &place.executor, chunk.block);
        range.map_err(|error| {
            let cause = std::error::Error::source(&error).map(ToString::to_string);
            let cause = cause.unwrap_or_default();
            tracing::debug!(%error, cause, "a block cannot be sent");
            Fault::of(&error)
        })
    }

    fn find(&self, name: ExecutorName<'_>) -> Result<Place, Fault> {
        self.shared
            .applications
            .find(name)
            .map_err(|none| match none {
                NoExecutor::NotYet => Fault::NotYet,
                NoExecutor::Unknown => Fault::Final(format!(
                    "java.lang.RuntimeException: Executor is not registered (appId={}, execId={})",
                    name.application, name.executor
                )),
            })
    }

    /// Answers a message.
    async fn rpc(&mut self, id: i64, body: &[u8]) -> Reply {
        let answer = match Message::parse(body) {
            Ok(message) => self.message(message).await,
            Err(error) => Err(Fault::of(&error)),
        };
        match answer {
            Ok(body) => Reply::frame(frame::rpc_response(id, &body)),
            Err(fault) => failed(fault, |error| frame::rpc_failure(id, error)),
        }
    }

    async fn message(&mut self, message: Message<'_>) -> Result<Vec<u8>, Fault> {
        if let Access::Proven(own) = &self.access
            && **own != *message.application()
        {
            self.shared.refusals.count(Reason::Unauthorized);
            return Err(Fault::Final(format!(
                "java.lang.SecurityException: Client for {own} not authorized for application {}.",
                message.application()
            )));
        }
        if let Some(user) = self.shared.applications.user(message.application()) {
            self.user = Some(user);
        }
        match message {
            Message::Register(name, registration) => self.register(name, registration).await,
            Message::Open(name, blocks) => self.open(name, blocks),
            Message::Remove(name, blocks) => {
                let place = self.find(name)?;
                Ok(message::blocks_removed(remove(&place, blocks).await))
            }
            Message::LocalDirs {
                application,
                executors,
            } => self.local_dirs(application, executors),
            Message::Diagnose(name, diagnosis) => {
                let place = self.shared.applications.find(name);
                let cause = diagnose(place.ok(), diagnosis).await;
                Ok(message::corruption_cause(cause))
            }
        }
    }

    async fn register(
        &self,
        name: ExecutorName<'_>,
        registration: Registration<'_>,
    ) -> Result<Vec<u8>, Fault> {
        let (stored, waits) = oneshot::channel();
        let settled: Settled = Box::new(|| {
            let _waited_enough = stored.send(());
        });
        let applications = &self.shared.applications;
        let registered = applications.register(name, registration, settled);
        registered.map_err(|error| Fault::of(&error))?;
        if timeout(STORE_PATIENCE, waits).await.is_err() {
            tracing::warn!("an executor's registration waits to be stored for long");
        }
        Ok(Vec::new())
    }

    fn open(&mut self, name: ExecutorName<'_>, blocks: BlockIds) -> Result<Vec<u8>, Fault> {
        let chunks = i32::try_from(blocks.len()).map_err(|error| Fault::of(&error))?;
        let stream = self.streams.open(name, blocks);
        let stream = stream.map_err(|error| Fault::of(&error))?;
        Ok(message::stream_handle(stream, chunks))
    }

    /// Returns the directories of executors. One that is unknown fails the whole call.
    fn local_dirs(&self, application: &str, names: BlockNames<'_>) -> Result<Vec<u8>, Fault> {
        let mut bytes = 0;
        let mut found = Vec::new();
        for executor in names.0 {
            let place = self.find(ExecutorName {
                application,
                executor,
            })?;
            let dirs = place.executor.dirs.iter().map(|dir| dir.len() + 4);
            bytes += dirs.sum::<usize>() + executor.len() + 8;
            if bytes > LOCAL_DIRS_BYTES_MAX {
                let text = "java.lang.IllegalArgumentException: too many executors";
                return Err(Fault::Final(text.to_owned()));
            }
            found.push(place.executor);
        }
        let dirs = found.iter().map(|executor| &*executor.dirs);
        Ok(message::local_dirs(names.0, dirs))
    }
}

fn failed(fault: Fault, failure: impl Fn(&str) -> Vec<u8>) -> Reply {
    match fault {
        Fault::Final(error) => {
            tracing::debug!(error, "a request of Spark is refused");
            Reply::frame(failure(&error))
        }
        Fault::NotYet => Reply {
            ends: true,
            ..Reply::default()
        },
    }
}

fn no_merge(id: i64) -> Vec<u8> {
    frame::rpc_failure(id, &message::NoMessage::Merge.to_string())
}

/// Removes files of blocks, and returns how many were there. Nothing but files of blocks' names, in
/// folders of the executor, is touched.
async fn remove(place: &Place, names: BlockNames<'_>) -> usize {
    let mut removed = 0;
    for (number, name) in names.0.enumerate() {
        if is_removable(name) {
            let folder = open_folder(&place.folders, &place.executor, name);
            removed += usize::from(folder.is_ok_and(|folder| folder.unlink(name).is_ok()));
        }
        if number % REMOVALS_A_TURN == 0 {
            tokio::task::yield_now().await;
        }
    }
    removed
}

#[cfg(test)]
mod tests;
