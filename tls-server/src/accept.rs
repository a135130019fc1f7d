//! Handshakes.

use std::io;

use rustls::Error;
use thiserror::Error as ThisError;
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;

use crate::TlsServer;

/// Server's side of a connection after its handshake. Holds up to 64 KiB of what the peer has not
/// taken, and a record of what it has sent.
pub type TlsStream = tokio_rustls::server::TlsStream<TcpStream>;

/// Fault of a peer that ended a handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// Bytes that are no TLS, or a version, a suite or an algorithm that is not supported.
    Malformed,
    /// No certificate, or one that is not trusted, where one is required.
    Certificate,
}

/// A handshake that failed.
#[derive(Debug, ThisError)]
#[error("a TLS handshake failed")]
pub struct HandshakeFailed {
    /// The peer's fault; `None` when it went away or does not trust the server.
    pub refused: Option<Refused>,
    /// Connection with the reason in an alert on its way; closing it while bytes are unread may
    /// lose that.
    pub stream: TcpStream,
    /// Reason.
    #[source]
    pub source: io::Error,
}

impl TlsServer {
    /// Performs the handshake on an accepted connection. Has no time limit; dropping the future
    /// closes the connection.
    ///
    /// # Errors
    /// [`HandshakeFailed`].
    pub async fn accept(&self, stream: TcpStream) -> Result<TlsStream, HandshakeFailed> {
        let acceptor = TlsAcceptor::from(self.settings());
        let handshake = acceptor.accept(stream).into_fallible();
        handshake.await.map_err(|(source, stream)| HandshakeFailed {
            refused: refused(&source),
            stream,
            source,
        })
    }
}

fn refused(error: &io::Error) -> Option<Refused> {
    let error = error.get_ref()?.downcast_ref::<Error>()?;
    if matches!(
        error,
        Error::NoCertificatesPresented | Error::InvalidCertificate(_)
    ) {
        return Some(Refused::Certificate);
    }
    // An alert says that the client does not want this server; the fault may be on either side.
    (!matches!(error, Error::AlertReceived(_))).then_some(Refused::Malformed)
}
