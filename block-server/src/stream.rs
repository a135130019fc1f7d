//! Bytes of a connection: plain, or inside TLS. Nothing else in this crate knows which.

use std::fs::File;
use std::io;
use std::net::Shutdown;

use nix::errno::Errno;
use nix::sys::sendfile::sendfile;
use refusals::Reason;
use socket2::SockRef;
use tls_server::{Refused, TlsServer, TlsStream};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _, Interest};
use tokio::net::TcpStream;

/// Connection that bytes can be sent on.
#[derive(Debug)]
pub enum Stream {
    /// Bytes as they are.
    Plain(TcpStream),
    /// Bytes inside TLS.
    Tls(Box<TlsStream>),
}

/// Reason of a handshake that failed, and the connection without TLS.
#[derive(Debug)]
pub struct NoTls {
    /// Reason to count; `None`: the peer went away.
    pub reason: Option<Reason>,
    /// Connection, on which the peer may still read the alert.
    pub stream: Stream,
    /// Cause.
    pub error: io::Error,
}

impl Stream {
    /// Opens an accepted connection, with the handshake if the server has TLS.
    ///
    /// # Errors
    /// [`NoTls`] for a handshake that failed.
    pub async fn open(stream: TcpStream, tls: Option<&TlsServer>) -> Result<Self, NoTls> {
        let Some(tls) = tls else {
            return Ok(Self::Plain(stream));
        };
        match tls.accept(stream).await {
            Ok(stream) => Ok(Self::Tls(Box::new(stream))),
            Err(failed) => Err(NoTls {
                reason: failed.refused.map(|refused| match refused {
                    Refused::Malformed => Reason::Malformed,
                    Refused::Certificate => Reason::Unauthorized,
                }),
                stream: Self::Plain(failed.stream),
                error: failed.source,
            }),
        }
    }

    /// Receives some bytes behind those that are there, at most `bytes_max`; 0 at the end.
    ///
    /// # Errors
    /// The system's, and those of TLS.
    pub async fn read(&mut self, received: &mut Vec<u8>, bytes_max: usize) -> io::Result<usize> {
        match self {
            Self::Plain(stream) => read(stream, received, bytes_max).await,
            Self::Tls(stream) => read(stream, received, bytes_max).await,
        }
    }

    /// Sends some bytes once the peer takes any. Inside TLS, [`Self::flush`] sends the rest.
    ///
    /// # Errors
    /// The system's, and those of TLS.
    pub async fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(stream) => {
                let write = || stream.try_write(bytes);
                stream.async_io(Interest::WRITABLE, write).await
            }
            Self::Tls(stream) => stream.write(bytes).await,
        }
    }

    /// Sends what is encrypted already.
    ///
    /// # Errors
    /// The system's.
    pub async fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(_) => Ok(()),
            Self::Tls(stream) => stream.flush().await,
        }
    }

    /// Whether [`Self::send_file`] works: the kernel cannot encrypt what it sends.
    #[must_use]
    pub const fn sends_files(&self) -> bool {
        matches!(self, Self::Plain(_))
    }

    /// Sends a part of a file without copying it, once the peer takes any; 0 at the file's end.
    ///
    /// # Errors
    /// `Unsupported` inside TLS, and the system's.
    pub async fn send_file(&self, file: &File, start: u64, length: u64) -> io::Result<usize> {
        let Self::Plain(stream) = self else {
            return Err(io::ErrorKind::Unsupported.into());
        };
        let send = || send_some(stream, file, start, length);
        stream.async_io(Interest::WRITABLE, send).await
    }

    /// Closes the sending side.
    ///
    /// # Errors
    /// The system's.
    pub async fn close(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(stream) => SockRef::from(&*stream).shutdown(Shutdown::Write),
            Self::Tls(stream) => stream.shutdown().await,
        }
    }

    /// Receives bytes that nobody looks at; inside TLS they stay encrypted. 0 at the end.
    ///
    /// # Errors
    /// The system's.
    pub async fn discard(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(stream) => stream.read(bytes).await,
            Self::Tls(stream) => stream.get_mut().0.read(bytes).await,
        }
    }
}

async fn read(
    stream: &mut (impl AsyncRead + Unpin),
    received: &mut Vec<u8>,
    bytes_max: usize,
) -> io::Result<usize> {
    received.reserve(1_024);
    stream.take(bytes_max as u64).read_buf(received).await
}

fn send_some(stream: &TcpStream, file: &File, start: u64, length: u64) -> io::Result<usize> {
    let mut offset = i64::try_from(start).map_err(|_| Errno::EOVERFLOW)?;
    let count = usize::try_from(length).unwrap_or(usize::MAX);
    Ok(sendfile(stream, file, Some(&mut offset), count)?)
}
