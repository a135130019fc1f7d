//! Errors of file systems as messages.

use std::io;
use std::time::Duration;

use hadoop_fs::FsError;

use crate::codec::{In, Malformed, Out, PATH_MAX};

/// Bytes of a text for people at most.
pub(crate) const TEXT_MAX: usize = 4 * 1024;

/// Kinds of I/O errors that a connection or a file has, by their numbers in messages. One that is
/// not here becomes the last.
const IO_KINDS: [io::ErrorKind; 18] = [
    io::ErrorKind::NotFound,
    io::ErrorKind::PermissionDenied,
    io::ErrorKind::ConnectionRefused,
    io::ErrorKind::ConnectionReset,
    io::ErrorKind::HostUnreachable,
    io::ErrorKind::NetworkUnreachable,
    io::ErrorKind::ConnectionAborted,
    io::ErrorKind::NotConnected,
    io::ErrorKind::AddrNotAvailable,
    io::ErrorKind::BrokenPipe,
    io::ErrorKind::AlreadyExists,
    io::ErrorKind::InvalidInput,
    io::ErrorKind::InvalidData,
    io::ErrorKind::TimedOut,
    io::ErrorKind::StorageFull,
    io::ErrorKind::UnexpectedEof,
    io::ErrorKind::Unsupported,
    io::ErrorKind::Other,
];

pub(crate) fn encode(error: &FsError, out: Out) -> Out {
    let at = |number: u8, uri: &str| Out::of_kind(number).text_cut(uri, PATH_MAX);
    let fields = match error {
        FsError::UnsupportedScheme { uri, scheme } => at(0, uri).text_cut(scheme, TEXT_MAX),
        FsError::WithoutHdfs { uri } => at(1, uri),
        FsError::Authentication { uri, method } => at(2, uri).text_cut(method, TEXT_MAX),
        FsError::NoHost { uri } => at(3, uri),
        FsError::NotFound { uri } => at(4, uri),
        FsError::Exists { step, uri } => at(5, uri).text(step),
        FsError::Denied { step, uri, message } => at(6, uri).text(step).text_cut(message, TEXT_MAX),
        FsError::Remote {
            step,
            uri,
            class,
            message,
        } => at(7, uri)
            .text(step)
            .text_cut(class, TEXT_MAX)
            .text_cut(message, TEXT_MAX),
        FsError::TimedOut { step, uri, limit } => {
            let millis = u64::try_from(limit.as_millis()).unwrap_or(u64::MAX);
            at(8, uri).text(step).u64(millis)
        }
        FsError::TooMany { uri, limit } => at(9, uri).u64(*limit as u64),
        FsError::Io { step, uri, source } => encode_io(source, at(10, uri).text(step)),
        FsError::Client { step, uri, message } => {
            at(11, uri).text(step).text_cut(message, TEXT_MAX)
        }
        FsError::Worker { step, uri, message } => {
            at(12, uri).text(step).text_cut(message, TEXT_MAX)
        }
    };
    out.append(&fields)
}

pub(crate) fn encode_io(error: &io::Error, out: Out) -> Out {
    let found = IO_KINDS.iter().position(|kind| *kind == error.kind());
    let number = found.and_then(|found| u8::try_from(found).ok());
    let number = number.unwrap_or(u8::MAX);
    out.u8(number).text_cut(&error.to_string(), TEXT_MAX)
}

pub(crate) fn decode(input: &mut In<'_>) -> Result<FsError, Malformed> {
    let text = |input: &mut In<'_>| Ok(input.text(TEXT_MAX)?.to_owned());
    let step = |input: &mut In<'_>| Ok(FsError::known_step(input.text(TEXT_MAX)?));
    let number = input.u8()?;
    let uri = input.text(PATH_MAX)?.to_owned();
    Ok(match number {
        0 => FsError::UnsupportedScheme {
            uri,
            scheme: text(input)?,
        },
        1 => FsError::WithoutHdfs { uri },
        2 => FsError::Authentication {
            uri,
            method: text(input)?,
        },
        3 => FsError::NoHost { uri },
        4 => FsError::NotFound { uri },
        5 => FsError::Exists {
            step: step(input)?,
            uri,
        },
        6 => FsError::Denied {
            step: step(input)?,
            uri,
            message: text(input)?,
        },
        7 => FsError::Remote {
            step: step(input)?,
            uri,
            class: text(input)?,
            message: text(input)?,
        },
        8 => FsError::TimedOut {
            step: step(input)?,
            uri,
            limit: Duration::from_millis(input.u64()?),
        },
        9 => FsError::TooMany {
            uri,
            limit: usize::try_from(input.u64()?).unwrap_or(usize::MAX),
        },
        10 => FsError::Io {
            step: step(input)?,
            uri,
            source: decode_io(input)?,
        },
        11 => FsError::Client {
            step: step(input)?,
            uri,
            message: text(input)?,
        },
        12 => FsError::Worker {
            step: step(input)?,
            uri,
            message: text(input)?,
        },
        _ => return Err(Malformed("the error is of no known kind")),
    })
}

pub(crate) fn decode_io(input: &mut In<'_>) -> Result<io::Error, Malformed> {
    let kind = IO_KINDS.get(usize::from(input.u8()?));
    let kind = kind.copied().unwrap_or(io::ErrorKind::Other);
    let text = input.text(TEXT_MAX)?.to_owned();
    Ok(io::Error::new(kind, text))
}
