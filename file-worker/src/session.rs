//! One session in a worker: requests of the agent, performed one after the other.

use std::io::{self, Read as _, SeekFrom, Write as _};
use std::os::unix::net::UnixStream;

use hadoop_fs::{Caller, FileSystem, FileSystems, FsError, ReadFile, WriteFile};

use crate::message::{self, CONTENT_MAX, FRAME_MAX, Reply, Request, SLOTS};
use crate::{frame, unpack};

/// A file in its place.
enum OpenFile {
    None,
    Read { file: Box<dyn ReadFile>, at: u64 },
    Write(Box<dyn WriteFile>),
}

/// Serves a session until the agent ends it.
pub(crate) fn serve(stream: &UnixStream, file_systems: &FileSystems) -> io::Result<()> {
    let mut buffer = Vec::new();
    if !frame::receive(stream, &mut buffer, FRAME_MAX, None)? {
        return Ok(());
    }
    let request = decode(&buffer)?;
    if let Request::Unpack { form } = request {
        return unpack::serve(stream, form);
    }
    let Request::Open { uri, user } = request else {
        return Err(io::ErrorKind::InvalidData.into());
    };
    let uri = uri.parse().map_err(io::Error::other)?;
    // Whose work this is matters to the agent alone.
    let file_system = match file_systems.open(&uri, Caller::user(user, "")) {
        Ok(file_system) => file_system,
        Err(error) => return reply(stream, &Reply::Failed(error)),
    };
    reply(stream, &Reply::Done)?;
    let mut session = Session {
        uri: uri.to_string(),
        file_system,
        files: (0..SLOTS).map(|_| OpenFile::None).collect(),
        content: Vec::new(),
    };
    while frame::receive(stream, &mut buffer, FRAME_MAX, None)? {
        session.answer(decode(&buffer)?, stream)?;
    }
    Ok(())
}

fn decode(message: &[u8]) -> io::Result<Request<'_>> {
    Request::decode(message).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

fn reply(stream: &UnixStream, reply: &Reply<'_>) -> io::Result<()> {
    frame::send(stream, &reply.encode(), None)
}

struct Session {
    uri: String,
    file_system: Box<dyn FileSystem>,
    /// Places for open files, [`SLOTS`] of them.
    files: Vec<OpenFile>,
    content: Vec<u8>,
}

impl Session {
    fn answer(&mut self, request: Request<'_>, stream: &UnixStream) -> io::Result<()> {
        if let Request::List { path, limit } = request {
            let limit = usize::try_from(limit).unwrap_or(usize::MAX);
            return match self.file_system.list(path, limit) {
                Ok(entries) => message::in_parts(entries).try_for_each(|part| reply(stream, &part)),
                Err(error) => reply(stream, &Reply::Failed(error)),
            };
        }
        let answer = self.perform(request);
        reply(stream, &answer.unwrap_or_else(Reply::Failed))
    }

    /// Performs an operation whose answer is one message.
    fn perform(&mut self, request: Request<'_>) -> Result<Reply<'_>, FsError> {
        let files = &*self.file_system;
        match request {
            Request::Status { path } => files.status(path).map(Reply::Status),
            Request::OpenFile { slot, path } => self.open(slot, path),
            Request::Read {
                slot,
                at,
                bytes_max,
            } => self.read(slot, at, bytes_max),
            Request::Modified { slot } => {
                let OpenFile::Read { file, .. } = self.file(slot)? else {
                    return Err(self.no_file("read"));
                };
                let modified = file.modified_ms();
                modified
                    .map(Reply::Modified)
                    .map_err(|error| self.failed("read the status of", error))
            }
            Request::Create {
                slot,
                path,
                mode,
                overwrite,
            } => {
                // The earlier file ends first: it may be the same.
                *self.file(slot)? = OpenFile::None;
                let created = self.file_system.create(path, mode, overwrite)?;
                *self.file(slot)? = OpenFile::Write(created);
                Ok(Reply::Done)
            }
            Request::Write { slot, content } => {
                let OpenFile::Write(file) = self.file(slot)? else {
                    return Err(self.no_file("write"));
                };
                let written = file.write_all(content);
                written
                    .map(|()| Reply::Done)
                    .map_err(|error| self.failed("write", error))
            }
            Request::Close { slot } => {
                let file = std::mem::replace(self.file(slot)?, OpenFile::None);
                let OpenFile::Write(file) = file else {
                    return Err(self.no_file("complete"));
                };
                file.close().map(|()| Reply::Done)
            }
            Request::Rename {
                from,
                to,
                overwrite,
            } => done(files.rename(from, to, overwrite)),
            Request::MakeDirs { path, mode } => done(files.make_dirs(path, mode)),
            Request::SetMode { path, mode } => done(files.set_mode(path, mode)),
            Request::SetOwner { path, owner, group } => done(files.set_owner(path, owner, group)),
            Request::Delete { path } => files.delete(path).map(Reply::Existed),
            Request::Open { .. }
            | Request::List { .. }
            | Request::Unpack { .. }
            | Request::Supply { .. } => Err(self.no_file("use")),
        }
    }

    fn open(&mut self, slot: u8, path: &str) -> Result<Reply<'_>, FsError> {
        *self.file(slot)? = OpenFile::None;
        let mut file = self.file_system.open(path)?;
        let length = file.seek(SeekFrom::End(0));
        let length = length.and_then(|length| file.rewind().map(|()| length));
        let length = length.map_err(|error| self.failed("open", error))?;
        *self.file(slot)? = OpenFile::Read { file, at: 0 };
        Ok(Reply::Opened(length))
    }

    fn read(&mut self, slot: u8, from: u64, bytes_max: u32) -> Result<Reply<'_>, FsError> {
        let length = usize::try_from(bytes_max).map_or(CONTENT_MAX, |max| max.min(CONTENT_MAX));
        let mut content = std::mem::take(&mut self.content);
        content.resize(length, 0);
        let OpenFile::Read { file, at } = self.file(slot)? else {
            return Err(self.no_file("read"));
        };
        let read = if *at == from {
            Ok(from)
        } else {
            file.seek(SeekFrom::Start(from))
        };
        let read = read.and_then(|_| file.read(&mut content));
        match read {
            Ok(read) => {
                *at = from.saturating_add(read as u64);
                content.truncate(read);
                self.content = content;
                Ok(Reply::Content(&self.content))
            }
            Err(error) => {
                // Where the file stands now is not known.
                *at = u64::MAX;
                Err(self.failed("read", error))
            }
        }
    }

    fn file(&mut self, slot: u8) -> Result<&mut OpenFile, FsError> {
        let uri = &self.uri;
        let none = || no_file(uri, "use");
        self.files.get_mut(usize::from(slot)).ok_or_else(none)
    }

    fn no_file(&self, step: &'static str) -> FsError {
        no_file(&self.uri, step)
    }

    /// Returns the error of a file system that an error of a file is made of.
    fn failed(&self, step: &'static str, error: io::Error) -> FsError {
        let uri = self.uri.clone();
        error
            .downcast()
            .unwrap_or_else(|source| FsError::Io { step, uri, source })
    }
}

fn no_file(uri: &str, step: &'static str) -> FsError {
    FsError::Client {
        step,
        uri: uri.to_owned(),
        message: "no such file is open".to_owned(),
    }
}

fn done(result: Result<(), FsError>) -> Result<Reply<'static>, FsError> {
    result.map(|()| Reply::Done)
}
