//! The other end: asks the agent of this machine. Blocks; each wait has a limit.

use std::io::{self, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use thiserror::Error;

use crate::message::{Answer, Refusal, Reply, Request};
use crate::{ANSWER_BYTES_MAX, CLIENT_TIMEOUT};

/// Why there is no answer.
#[derive(Debug, Error)]
pub enum AskError {
    /// No agent listens.
    #[error("no agent answers on {0}: it is not running, or serves another socket")]
    NotRunning(PathBuf),
    /// The caller may not connect.
    #[error(
        "the socket {0} is not for this user: be root, the agent's user, or in the group of \
         yarn.nodemanager.agent.admin.group"
    )]
    NotAllowed(PathBuf),
    /// The agent refuses.
    #[error("{}", .0.message)]
    Refused(Refusal),
    /// The connection failed.
    #[error("asking the agent on {path}")]
    Io {
        /// Path of the socket.
        path: PathBuf,
        /// Error of the system.
        #[source]
        source: io::Error,
    },
    /// The answer is not one.
    #[error("the answer of the agent on {path} cannot be read: use the agent's own version")]
    BadAnswer {
        /// Path of the socket.
        path: PathBuf,
        /// Error of the reader.
        #[source]
        source: serde_json::Error,
    },
}

/// Asks the agent that serves the socket `path`.
///
/// # Errors
/// [`AskError`].
pub fn ask(path: &Path, request: &Request) -> Result<Answer, AskError> {
    let text = exchange(path, request).map_err(|source| {
        let (path, kind) = (path.to_owned(), source.kind());
        if [io::ErrorKind::NotFound, io::ErrorKind::ConnectionRefused].contains(&kind) {
            AskError::NotRunning(path)
        } else if kind == io::ErrorKind::PermissionDenied {
            AskError::NotAllowed(path)
        } else {
            AskError::Io { path, source }
        }
    })?;
    match serde_json::from_slice(&text) {
        Ok(Reply::Ok(answer)) => Ok(answer),
        Ok(Reply::Refused(refusal)) => Err(AskError::Refused(refusal)),
        Err(source) => Err(AskError::BadAnswer {
            path: path.to_owned(),
            source,
        }),
    }
}

fn exchange(path: &Path, request: &Request) -> io::Result<Vec<u8>> {
    let mut stream = UnixStream::connect(path)?;
    stream.set_read_timeout(Some(CLIENT_TIMEOUT))?;
    stream.set_write_timeout(Some(CLIENT_TIMEOUT))?;
    let mut line = serde_json::to_vec(request)?;
    line.push(b'\n');
    stream.write_all(&line)?;
    let mut text = Vec::new();
    let most = ANSWER_BYTES_MAX as u64;
    stream.take(most).read_to_end(&mut text)?;
    if !text.ends_with(b"\n") {
        return Err(io::Error::new(
            io::ErrorKind::UnexpectedEof,
            "the agent closed the connection before the end of its answer",
        ));
    }
    Ok(text)
}
