//! Messages between an agent and its file workers.
//!
//! ```text
//! control   agent ─► worker   Setup, once; then a descriptor at a time: a session's socket, or a
//!                             file with the worker's secret
//! session   agent ─► worker   Request: Open first, then one after the other
//!           worker ─► agent   Reply: one for a request; a list in several parts
//! archive   agent ─► worker   Request: Unpack first, then Supply, one for each Want
//!           worker ─► agent   Reply: Done; then Want and Records, until a record ends the archive
//! ```
//! Both sides read each other's bytes as those of a stranger.

mod setup;

use archives::Form;
use hadoop_fs::{FsError, Kind, Status};

use crate::codec::{In, Malformed, Out, PATH_MAX};
use crate::failure;

pub use setup::Setup;

/// Bytes of a file in one message at most.
pub const CONTENT_MAX: usize = 256 * 1024;

/// Bytes of a frame on a session at most: content, or a path or two.
pub const FRAME_MAX: usize = CONTENT_MAX + 64 * 1024;

/// Bytes of the name of a file, a user or a group at most.
pub const NAME_MAX: usize = 4 * 1024;

/// Bytes of a pattern for the entries of an archive at most. Real ones have some dozens.
pub const PATTERN_MAX: usize = 64 * 1024;

/// Bytes of the message that sets a worker up at most: the properties of HDFS.
pub const SETUP_MAX: usize = 4 * 1024 * 1024;

/// Byte beside a descriptor that is the socket of a session.
pub const SESSION: u8 = 0;

/// Byte beside a descriptor that is a file with the worker's secret.
pub const SECRET: u8 = 1;

/// Files that a session has open at the same time, at most.
pub const SLOTS: u8 = 8;

/// Order of the agent to a session. A `slot` is a place for an open file, below [`SLOTS`]; a file
/// that is opened in a place replaces the one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(
    missing_docs,
    reason = "the fields are those of `FileSystem`'s methods"
)]
pub enum Request<'a> {
    /// Names the file system of this session, and the user in whose name it is used.
    Open { uri: &'a str, user: &'a str },
    /// `FileSystem::status`.
    Status { path: &'a str },
    /// `FileSystem::list`.
    List { path: &'a str, limit: u64 },
    /// `FileSystem::open`.
    OpenFile { slot: u8, path: &'a str },
    /// Reads content from a position on, at most `bytes_max`; none is the end of the file.
    Read { slot: u8, at: u64, bytes_max: u32 },
    /// `ReadFile::modified_ms`.
    Modified { slot: u8 },
    /// `FileSystem::create`.
    Create {
        slot: u8,
        path: &'a str,
        mode: u32,
        overwrite: bool,
    },
    /// Writes content at the end of a created file.
    Write { slot: u8, content: &'a [u8] },
    /// `WriteFile::close`.
    Close { slot: u8 },
    /// `FileSystem::rename`.
    Rename {
        from: &'a str,
        to: &'a str,
        overwrite: bool,
    },
    /// `FileSystem::make_dirs`.
    MakeDirs { path: &'a str, mode: u32 },
    /// `FileSystem::set_mode`.
    SetMode { path: &'a str, mode: u32 },
    /// `FileSystem::set_owner`.
    SetOwner {
        path: &'a str,
        owner: &'a str,
        group: &'a str,
    },
    /// `FileSystem::delete`.
    Delete { path: &'a str },
    /// Makes this a session that reads one archive (`archives::read`).
    Unpack { form: Form<'a> },
    /// The next content of the archive; none is its end.
    Supply { content: &'a [u8] },
}

impl<'a> Request<'a> {
    /// Writes the message.
    #[must_use]
    pub fn encode(self) -> Vec<u8> {
        let kind = Out::of_kind;
        let out = match self {
            Self::Open { uri, user } => kind(0).text(uri).text(user),
            Self::Status { path } => kind(1).text(path),
            Self::List { path, limit } => kind(2).text(path).u64(limit),
            Self::OpenFile { slot, path } => kind(3).u8(slot).text(path),
            Self::Read {
                slot,
                at,
                bytes_max,
            } => kind(4).u8(slot).u64(at).u32(bytes_max),
            Self::Modified { slot } => kind(5).u8(slot),
            Self::Create {
                slot,
                path,
                mode,
                overwrite,
            } => kind(6).u8(slot).text(path).u32(mode).bool(overwrite),
            Self::Write { slot, content } => kind(7).u8(slot).bytes(content),
            Self::Close { slot } => kind(8).u8(slot),
            Self::Rename {
                from,
                to,
                overwrite,
            } => kind(9).text(from).text(to).bool(overwrite),
            Self::MakeDirs { path, mode } => kind(10).text(path).u32(mode),
            Self::SetMode { path, mode } => kind(11).text(path).u32(mode),
            Self::SetOwner { path, owner, group } => kind(12).text(path).text(owner).text(group),
            Self::Delete { path } => kind(13).text(path),
            Self::Unpack { form } => encode_form(form, kind(14)),
            Self::Supply { content } => kind(15).bytes(content),
        };
        out.finish()
    }

    /// Reads the message.
    ///
    /// # Errors
    /// No agent wrote it.
    pub fn decode(message: &'a [u8]) -> Result<Self, Malformed> {
        let mut input = In::new(message);
        let kind = input.u8()?;
        let request = Self::decode_fields(kind, &mut input)?;
        input.end()?;
        Ok(request)
    }

    fn decode_fields(kind: u8, input: &mut In<'a>) -> Result<Self, Malformed> {
        let path = |input: &mut In<'a>| input.text(PATH_MAX);
        let name = |input: &mut In<'a>| input.text(NAME_MAX);
        Ok(match kind {
            0 => Self::Open {
                uri: path(input)?,
                user: name(input)?,
            },
            1 => Self::Status { path: path(input)? },
            2 => Self::List {
                path: path(input)?,
                limit: input.u64()?,
            },
            3 => Self::OpenFile {
                slot: slot(input)?,
                path: path(input)?,
            },
            4 => Self::Read {
                slot: slot(input)?,
                at: input.u64()?,
                bytes_max: input.u32()?,
            },
            5 => Self::Modified { slot: slot(input)? },
            6 => Self::Create {
                slot: slot(input)?,
                path: path(input)?,
                mode: input.u32()?,
                overwrite: input.bool()?,
            },
            7 => Self::Write {
                slot: slot(input)?,
                content: content(input)?,
            },
            8 => Self::Close { slot: slot(input)? },
            9 => Self::Rename {
                from: path(input)?,
                to: path(input)?,
                overwrite: input.bool()?,
            },
            10 => Self::MakeDirs {
                path: path(input)?,
                mode: input.u32()?,
            },
            11 => Self::SetMode {
                path: path(input)?,
                mode: input.u32()?,
            },
            12 => Self::SetOwner {
                path: path(input)?,
                owner: name(input)?,
                group: name(input)?,
            },
            13 => Self::Delete { path: path(input)? },
            14 => Self::Unpack {
                form: decode_form(input)?,
            },
            15 => Self::Supply {
                content: content(input)?,
            },
            _ => return Err(Malformed("the request is of no known kind")),
        })
    }
}

fn encode_form(form: Form<'_>, out: Out) -> Out {
    match form {
        Form::Zip => out.u8(0),
        Form::Jar(None) => out.u8(1),
        Form::Jar(Some(pattern)) => out.u8(2).text(pattern),
        Form::Tar => out.u8(3),
        Form::GzippedTar => out.u8(4),
    }
}

fn decode_form<'a>(input: &mut In<'a>) -> Result<Form<'a>, Malformed> {
    Ok(match input.u8()? {
        0 => Form::Zip,
        1 => Form::Jar(None),
        2 => Form::Jar(Some(input.text(PATTERN_MAX)?)),
        3 => Form::Tar,
        4 => Form::GzippedTar,
        _ => return Err(Malformed("the archive is of no known form")),
    })
}

fn slot(input: &mut In<'_>) -> Result<u8, Malformed> {
    let slot = input.u8()?;
    if slot < SLOTS {
        Ok(slot)
    } else {
        Err(Malformed("there is no such place for an open file"))
    }
}

fn content<'a>(input: &mut In<'a>) -> Result<&'a [u8], Malformed> {
    let content = input.bytes()?;
    if content.len() <= CONTENT_MAX {
        Ok(content)
    } else {
        Err(Malformed("there is too much content"))
    }
}

/// Answer of a session.
#[derive(Debug)]
pub enum Reply<'a> {
    /// The operation is done.
    Done,
    /// The operation failed.
    Failed(FsError),
    /// Status of a file.
    Status(Status),
    /// Some entries of a folder, and whether they are the last.
    Entries {
        /// Entries with names that lead nowhere else.
        batch: Vec<Status>,
        /// Whether no further part follows.
        is_last: bool,
    },
    /// A file was opened for reading, which is this long.
    Opened(u64),
    /// Content of a file; none is its end.
    Content(&'a [u8]),
    /// Modification time in milliseconds since the epoch.
    Modified(i64),
    /// Whether what was deleted had existed.
    Existed(bool),
    /// More of the archive's content is wanted.
    Want,
    /// [`Record`](crate::record::Record)s of an archive, one behind the other.
    Records(&'a [u8]),
}

impl<'a> Reply<'a> {
    /// Writes the message.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let kind = Out::of_kind;
        let out = match self {
            Self::Done => kind(0),
            Self::Failed(error) => failure::encode(error, kind(1)),
            Self::Status(status) => kind(2).append(&encode_status(status)),
            Self::Entries { batch, is_last } => {
                let out = kind(3).bool(*is_last);
                batch
                    .iter()
                    .fold(out, |out, entry| out.append(&encode_status(entry)))
            }
            Self::Opened(length) => kind(4).u64(*length),
            Self::Content(content) => kind(5).bytes(content),
            Self::Modified(time) => kind(6).i64(*time),
            Self::Existed(existed) => kind(7).bool(*existed),
            Self::Want => kind(8),
            Self::Records(records) => kind(9).bytes(records),
        };
        out.finish()
    }

    /// Reads the message.
    ///
    /// # Errors
    /// No honest worker wrote it.
    pub fn decode(message: &'a [u8]) -> Result<Self, Malformed> {
        let mut input = In::new(message);
        let reply = match input.u8()? {
            0 => Self::Done,
            1 => Self::Failed(failure::decode(&mut input)?),
            2 => Self::Status(decode_status(&mut input)?),
            3 => {
                let is_last = input.bool()?;
                let mut batch = Vec::new();
                while !input.is_at_end() {
                    let entry = decode_status(&mut input)?;
                    if matches!(entry.name.as_str(), "" | "." | "..") {
                        return Err(Malformed("the name of an entry leads elsewhere"));
                    }
                    batch.push(entry);
                }
                Self::Entries { batch, is_last }
            }
            4 => Self::Opened(input.u64()?),
            5 => Self::Content(content(&mut input)?),
            6 => Self::Modified(input.i64()?),
            7 => Self::Existed(input.bool()?),
            8 => Self::Want,
            9 => match content(&mut input)? {
                [] => return Err(Malformed("there are no records")),
                records => Self::Records(records),
            },
            _ => return Err(Malformed("the reply is of no known kind")),
        };
        input.end()?;
        Ok(reply)
    }
}

/// Splits a list into parts that each fit into a frame.
pub(crate) fn in_parts(entries: Vec<Status>) -> impl Iterator<Item = Reply<'static>> {
    let mut rest = entries.into_iter().peekable();
    let mut is_over = false;
    std::iter::from_fn(move || {
        if is_over {
            return None;
        }
        let (mut batch, mut bytes) = (Vec::new(), 0);
        while let Some(entry) = rest.next_if(|_| bytes < CONTENT_MAX) {
            bytes += encode_status(&entry).length();
            batch.push(entry);
        }
        is_over = rest.peek().is_none();
        Some(Reply::Entries {
            batch,
            is_last: is_over,
        })
    })
}

fn encode_status(status: &Status) -> Out {
    let kind = match status.kind {
        Kind::File => 0,
        Kind::Folder => 1,
        Kind::Special => 2,
    };
    Out::of_kind(kind)
        .u64(status.length)
        .i64(status.modified_ms)
        .u32(status.mode)
        .text_cut(&status.name, NAME_MAX)
        .text_cut(&status.owner, NAME_MAX)
}

fn decode_status(input: &mut In<'_>) -> Result<Status, Malformed> {
    let kind = match input.u8()? {
        0 => Kind::File,
        1 => Kind::Folder,
        2 => Kind::Special,
        _ => return Err(Malformed("a file is of no known kind")),
    };
    let (length, modified_ms, mode) = (input.u64()?, input.i64()?, input.u32()?);
    let name = input.text(NAME_MAX)?;
    if name.contains(['/', '\0']) {
        return Err(Malformed("the name of a file holds a separator"));
    }
    Ok(Status {
        name: name.to_owned(),
        kind,
        length,
        modified_ms,
        mode: mode & 0o7777,
        owner: input.text(NAME_MAX)?.to_owned(),
    })
}

#[cfg(test)]
mod tests;
