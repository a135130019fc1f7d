//! A file system as the agent's threads see it: a session of a worker. What the worker sends is
//! read as a stranger's: bounded in length and in time, and nothing of it is believed but what the
//! operation's own result is.

use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use hadoop_fs::{FileSystem, FsError, ReadFile, Status, Uri, WriteFile};

use crate::codec::{Malformed, PATH_MAX};
use crate::frame;
use crate::message::{CONTENT_MAX, FRAME_MAX, NAME_MAX, Reply, Request, SLOTS};
use crate::pool::Lease;

/// Time beyond the limit of a step after which a worker has not kept to it, at most.
const GRACE_MAX: Duration = Duration::from_secs(10);

/// Memory that the entries of one list take at most, in bytes.
const LIST_BYTES_MAX: usize = 16 << 20;

/// Session of a worker.
#[derive(Debug)]
pub(crate) struct Session {
    link: Mutex<Link>,
    lease: Lease,
    uri: Uri,
    step_limit: Duration,
}

#[derive(Debug)]
struct Link {
    stream: UnixStream,
    /// Message that was received last.
    buffer: Vec<u8>,
    /// Places for open files that are taken, as bits.
    taken: u8,
    /// Why the worker is of no use any more.
    broken: Option<String>,
}

/// Answer that is not the operation's.
const UNASKED: Malformed = Malformed("the reply answers another request");

/// Reason why a session does not go on as asked.
pub(crate) enum Broken<E> {
    /// What the session was for failed; the worker did what it should.
    Failed(E),
    /// The link or the worker failed.
    Link(io::Error),
}

impl<E> From<io::Error> for Broken<E> {
    fn from(error: io::Error) -> Self {
        Self::Link(error)
    }
}

impl<E> From<Malformed> for Broken<E> {
    fn from(error: Malformed) -> Self {
        Self::Link(error.into())
    }
}

impl Session {
    /// Opens the file system of a URI over a new session.
    pub(crate) fn open(
        stream: UnixStream,
        lease: Lease,
        (uri, user): (&Uri, &str),
        step_limit: Duration,
    ) -> Result<Self, FsError> {
        let session = Self {
            link: Mutex::new(Link {
                stream,
                buffer: Vec::new(),
                taken: 0,
                broken: None,
            }),
            lease,
            uri: uri.clone(),
            step_limit,
        };
        let text = uri.to_string();
        let request = Request::Open { uri: &text, user };
        check_length(
            "open",
            uri,
            [(text.len(), PATH_MAX), (user.len(), NAME_MAX)],
        )?;
        session.ask("open", &uri.path, request, done)?;
        Ok(session)
    }

    fn link(&self) -> MutexGuard<'_, Link> {
        self.link.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Performs an operation that one message answers.
    fn ask<T>(
        &self,
        step: &'static str,
        path: &str,
        request: Request<'_>,
        read: impl FnOnce(Reply<'_>) -> Result<T, Malformed>,
    ) -> Result<T, FsError> {
        self.exchange(step, path, request, |link, deadline| {
            Ok(read(link.receive(deadline)?)?)
        })
    }

    /// Sends a request and reads what answers it.
    fn exchange<T>(
        &self,
        step: &'static str,
        path: &str,
        request: Request<'_>,
        answer: impl FnOnce(&mut Link, Instant) -> Result<T, Broken<FsError>>,
    ) -> Result<T, FsError> {
        let message = request.encode();
        let mut link = self.link();
        let failed = |message: String| FsError::Worker {
            step,
            uri: self.uri.with_path(path).to_string(),
            message,
        };
        if let Some(reason) = &link.broken {
            return Err(failed(reason.clone()));
        }
        let deadline = Instant::now() + time_for(self.step_limit);
        let sent = frame::send(&link.stream, &message, Some(deadline));
        let answered = sent
            .map_err(Broken::Link)
            .and_then(|()| answer(&mut link, deadline));
        match answered {
            Ok(answer) => Ok(answer),
            Err(Broken::Failed(error)) => Err(error),
            Err(Broken::Link(error)) => {
                let reason = self.lease.give_up(&error);
                link.broken = Some(reason.clone());
                Err(failed(reason))
            }
        }
    }

    /// Takes a place for an open file.
    fn take_slot(&self, step: &'static str, path: &str) -> Result<u8, FsError> {
        let mut link = self.link();
        let free = (0..SLOTS).find(|slot| link.taken & (1 << slot) == 0);
        let Some(slot) = free else {
            return Err(FsError::Client {
                step,
                uri: self.uri.with_path(path).to_string(),
                message: format!("{SLOTS} files are open already"),
            });
        };
        link.taken |= 1 << slot;
        Ok(slot)
    }
}

/// Returns the time that a worker has for a step.
pub(crate) fn time_for(step_limit: Duration) -> Duration {
    step_limit.saturating_add(step_limit.min(GRACE_MAX))
}

impl Link {
    /// Receives the answer of an operation that was performed.
    fn receive(&mut self, deadline: Instant) -> Result<Reply<'_>, Broken<FsError>> {
        if !frame::receive(&self.stream, &mut self.buffer, FRAME_MAX, Some(deadline))? {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
        }
        let reply = Reply::decode(&self.buffer)?;
        if let Reply::Failed(error) = reply {
            return Err(Broken::Failed(error));
        }
        Ok(reply)
    }
}

fn done(reply: Reply<'_>) -> Result<(), Malformed> {
    if matches!(reply, Reply::Done) {
        Ok(())
    } else {
        Err(UNASKED)
    }
}

/// Refuses texts that are longer than a worker takes.
fn check_length<const COUNT: usize>(
    step: &'static str,
    uri: &Uri,
    lengths: [(usize, usize); COUNT],
) -> Result<(), FsError> {
    let Some((length, max)) = lengths.into_iter().find(|(length, max)| length > max) else {
        return Ok(());
    };
    Err(FsError::Client {
        step,
        // The path may be what is too long.
        uri: uri.with_path("/").to_string(),
        message: format!("a name of {length} bytes, of at most {max}"),
    })
}

/// A file system behind a worker.
#[derive(Debug)]
pub(crate) struct Remote(pub(crate) Arc<Session>);

impl Remote {
    fn ask<T>(
        &self,
        step: &'static str,
        path: &str,
        request: Request<'_>,
        read: impl FnOnce(Reply<'_>) -> Result<T, Malformed>,
    ) -> Result<T, FsError> {
        check_length(step, &self.0.uri, [(path.len(), PATH_MAX)])?;
        self.0.ask(step, path, request, read)
    }

    fn file(&self, slot: u8, path: &str) -> File {
        File {
            session: Arc::clone(&self.0),
            slot,
            path: path.to_owned(),
        }
    }
}

impl FileSystem for Remote {
    fn status(&self, path: &str) -> Result<Status, FsError> {
        let request = Request::Status { path };
        self.ask("read the status of", path, request, |reply| {
            let Reply::Status(status) = reply else {
                return Err(UNASKED);
            };
            Ok(status)
        })
    }

    fn list(&self, path: &str, limit: usize) -> Result<Vec<Status>, FsError> {
        check_length("list", &self.0.uri, [(path.len(), PATH_MAX)])?;
        let request = Request::List {
            path,
            limit: limit as u64,
        };
        self.0.exchange("list", path, request, |link, deadline| {
            let (mut entries, mut bytes) = (Vec::new(), 0_usize);
            loop {
                let Reply::Entries { batch, is_last } = link.receive(deadline)? else {
                    return Err(UNASKED.into());
                };
                bytes += batch.iter().map(memory_of).sum::<usize>();
                entries.extend(batch);
                if entries.len() > limit {
                    return Err(Malformed("the list is longer than it may be").into());
                }
                if is_last {
                    return Ok(entries);
                }
                if bytes > LIST_BYTES_MAX {
                    // What follows is not read: this session ends.
                    let text = format!("a list of more than {LIST_BYTES_MAX} bytes");
                    return Err(io::Error::new(io::ErrorKind::InvalidData, text).into());
                }
            }
        })
    }

    fn open(&self, path: &str) -> Result<Box<dyn ReadFile>, FsError> {
        let slot = self.0.take_slot("open", path)?;
        // Gives the place back in case of a failure.
        let file = self.file(slot, path);
        let request = Request::OpenFile { slot, path };
        let length = self.ask("open", path, request, |reply| {
            let Reply::Opened(length) = reply else {
                return Err(UNASKED);
            };
            Ok(length)
        })?;
        Ok(Box::new(Reader {
            file,
            length,
            position: 0,
            chunk: Vec::new(),
            taken: 0,
        }))
    }

    fn create(
        &self,
        path: &str,
        mode: u32,
        overwrite: bool,
    ) -> Result<Box<dyn WriteFile>, FsError> {
        let slot = self.0.take_slot("create", path)?;
        let file = self.file(slot, path);
        let request = Request::Create {
            slot,
            path,
            mode,
            overwrite,
        };
        self.ask("create", path, request, done)?;
        Ok(Box::new(Writer { file }))
    }

    fn rename(&self, from: &str, to: &str, overwrite: bool) -> Result<(), FsError> {
        check_length("rename", &self.0.uri, [(to.len(), PATH_MAX)])?;
        let request = Request::Rename {
            from,
            to,
            overwrite,
        };
        self.ask("rename", from, request, done)
    }

    fn make_dirs(&self, path: &str, mode: u32) -> Result<(), FsError> {
        self.ask("create", path, Request::MakeDirs { path, mode }, done)
    }

    fn set_mode(&self, path: &str, mode: u32) -> Result<(), FsError> {
        self.ask(
            "set the mode of",
            path,
            Request::SetMode { path, mode },
            done,
        )
    }

    fn set_owner(&self, path: &str, owner: &str, group: &str) -> Result<(), FsError> {
        let step = "set the owner of";
        let names = [(owner.len(), NAME_MAX), (group.len(), NAME_MAX)];
        check_length(step, &self.0.uri, names)?;
        let request = Request::SetOwner { path, owner, group };
        self.ask(step, path, request, done)
    }

    fn delete(&self, path: &str) -> Result<bool, FsError> {
        self.ask("delete", path, Request::Delete { path }, |reply| {
            let Reply::Existed(existed) = reply else {
                return Err(UNASKED);
            };
            Ok(existed)
        })
    }
}

fn memory_of(entry: &Status) -> usize {
    size_of::<Status>() + entry.name.len() + entry.owner.len()
}

/// An open file's place. The worker closes the file when the place is used again or the session
/// ends.
#[derive(Debug)]
struct File {
    session: Arc<Session>,
    slot: u8,
    path: String,
}

impl File {
    fn ask<T>(
        &self,
        step: &'static str,
        request: Request<'_>,
        read: impl FnOnce(Reply<'_>) -> Result<T, Malformed>,
    ) -> Result<T, FsError> {
        self.session.ask(step, &self.path, request, read)
    }
}

impl Drop for File {
    fn drop(&mut self) {
        self.session.link().taken &= !(1 << self.slot);
    }
}

struct Reader {
    file: File,
    length: u64,
    /// Place in the file of the next byte that the caller gets.
    position: u64,
    /// Content that was read, of which the first `taken` bytes were given to the caller.
    chunk: Vec<u8>,
    taken: usize,
}

impl Reader {
    fn ahead(&self) -> &[u8] {
        self.chunk.get(self.taken..).unwrap_or_default()
    }

    fn fill(&mut self) -> Result<(), FsError> {
        self.chunk.clear();
        self.taken = 0;
        let request = Request::Read {
            slot: self.file.slot,
            at: self.position,
            bytes_max: u32::try_from(CONTENT_MAX).unwrap_or(u32::MAX),
        };
        let chunk = &mut self.chunk;
        self.file.ask("read", request, |reply| {
            let Reply::Content(content) = reply else {
                return Err(UNASKED);
            };
            chunk.extend_from_slice(content);
            Ok(())
        })
    }
}

impl Read for Reader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.ahead().is_empty() && !buffer.is_empty() {
            self.fill()?;
        }
        let ahead = self.ahead();
        let length = buffer.len().min(ahead.len());
        if let (Some(buffer), Some(ahead)) = (buffer.get_mut(..length), ahead.get(..length)) {
            buffer.copy_from_slice(ahead);
        }
        self.taken += length;
        self.position = self.position.saturating_add(length as u64);
        Ok(length)
    }
}

impl Seek for Reader {
    fn seek(&mut self, target: SeekFrom) -> io::Result<u64> {
        let position = match target {
            SeekFrom::Start(position) => Some(position),
            SeekFrom::End(offset) => self.length.checked_add_signed(offset),
            SeekFrom::Current(offset) => self.position.checked_add_signed(offset),
        };
        let position = position.ok_or(io::ErrorKind::InvalidInput)?;
        let ahead = position.checked_sub(self.position);
        match ahead.and_then(|ahead| usize::try_from(ahead).ok()) {
            Some(ahead) if ahead <= self.ahead().len() => self.taken += ahead,
            Some(_) | None => self.chunk.clear(),
        }
        self.position = position;
        Ok(position)
    }
}

impl ReadFile for Reader {
    fn modified_ms(&self) -> io::Result<i64> {
        let request = Request::Modified {
            slot: self.file.slot,
        };
        let modified = self.file.ask("read the status of", request, |reply| {
            let Reply::Modified(time) = reply else {
                return Err(UNASKED);
            };
            Ok(time)
        });
        Ok(modified?)
    }
}

struct Writer {
    file: File,
}

impl Write for Writer {
    fn write(&mut self, content: &[u8]) -> io::Result<usize> {
        let length = content.len().min(CONTENT_MAX);
        let request = Request::Write {
            slot: self.file.slot,
            content: content.get(..length).unwrap_or_default(),
        };
        self.file.ask("write", request, done)?;
        Ok(length)
    }

    /// Does nothing: [`WriteFile::close`] completes what was written.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl WriteFile for Writer {
    fn close(self: Box<Self>) -> Result<(), FsError> {
        let request = Request::Close {
            slot: self.file.slot,
        };
        self.file.ask("complete", request, done)
    }
}
