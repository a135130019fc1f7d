//! Why a call, or a whole connection, failed.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use crate::exception::RemoteException;
use crate::frame::FrameError;
use crate::header::AnswerError;
use crate::sasl::SaslError;

/// Why a call has no response, or a connection could not be made.
#[derive(Debug, thiserror::Error)]
pub enum RpcError {
    /// The server answered with an error, or refused the connection with one.
    #[error(transparent)]
    Remote(#[from] RemoteException),
    /// No TCP connection.
    #[error("cannot connect to {address}")]
    Connect {
        /// The server.
        address: SocketAddr,
        /// The operating system's reason.
        source: io::Error,
    },
    /// The connection ended before the answer came; whether the call was carried out is not known.
    #[error("connection to {address} lost")]
    ConnectionLost {
        /// The server.
        address: SocketAddr,
        /// Why; the same for all calls that were waiting.
        #[source]
        reason: Arc<LossReason>,
    },
    /// No answer in time; whether the call was carried out is not known.
    #[error("no answer from {address} to a {operation} within {after:?}")]
    Timeout {
        /// The server.
        address: SocketAddr,
        /// What was waited for.
        operation: Operation,
        /// How long.
        after: Duration,
    },
    /// This side ended the authentication.
    #[error("authentication with {address} failed")]
    Sasl {
        /// The server.
        address: SocketAddr,
        /// What is wrong with the server's messages.
        source: SaslError,
    },
    /// The request does not fit into a frame; nothing was sent.
    #[error("request too long")]
    RequestTooLong(#[source] FrameError),
    /// The response is not the message that it should be.
    #[error("response of {method} does not parse")]
    Decode {
        /// The method called.
        method: &'static str,
        /// The parser's reason.
        source: prost::DecodeError,
    },
}

impl RpcError {
    /// A fatal answer is the server's word, anything else a lost connection.
    pub(super) fn lost(address: SocketAddr, reason: &Arc<LossReason>) -> Self {
        match &**reason {
            LossReason::Fatal(exception) => Self::Remote(exception.clone()),
            LossReason::ClosedByServer
            | LossReason::ClosedByCaller
            | LossReason::Stalled
            | LossReason::ForeignClientId
            | LossReason::StrangeCallId { .. }
            | LossReason::Io(_)
            | LossReason::Frame(_)
            | LossReason::Answer(_) => Self::ConnectionLost {
                address,
                reason: Arc::clone(reason),
            },
        }
    }

    /// The server's exception, when it was the server that refused.
    #[must_use]
    pub const fn remote(&self) -> Option<&RemoteException> {
        match self {
            Self::Remote(exception) => Some(exception),
            Self::Connect { .. }
            | Self::ConnectionLost { .. }
            | Self::Timeout { .. }
            | Self::Sasl { .. }
            | Self::RequestTooLong(_)
            | Self::Decode { .. } => None,
        }
    }

    /// Whether the network or the server's absence is the reason, so that another try may succeed.
    #[must_use]
    pub const fn is_network(&self) -> bool {
        match self {
            Self::Connect { .. } | Self::ConnectionLost { .. } | Self::Timeout { .. } => true,
            Self::Remote(_) | Self::Sasl { .. } | Self::RequestTooLong(_) | Self::Decode { .. } => {
                false
            }
        }
    }
}

/// What a client waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Connecting and authenticating.
    Connect,
    /// A call.
    Call,
}

impl std::fmt::Display for Operation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Connect => "connection request",
            Self::Call => "call",
        })
    }
}

/// Why a connection ended.
#[derive(Debug, thiserror::Error)]
pub enum LossReason {
    /// The server closed it.
    #[error("the server closed the connection")]
    ClosedByServer,
    /// The last handle was dropped.
    #[error("closed by this side")]
    ClosedByCaller,
    /// The server takes no bytes any more.
    #[error("the server does not read what is sent")]
    Stalled,
    /// An answer to another client.
    #[error("an answer with another client's id")]
    ForeignClientId,
    /// An answer that is neither to a call nor fatal.
    #[error("an answer with call id {call_id}")]
    StrangeCallId {
        /// The id.
        call_id: i32,
    },
    /// The server refuses to go on, and says why.
    #[error("fatal answer from the server")]
    Fatal(#[source] RemoteException),
    /// Reading or writing failed.
    #[error("reading or writing failed")]
    Io(#[from] io::Error),
    /// A frame with an impossible length.
    #[error("broken frame")]
    Frame(#[from] FrameError),
    /// A frame that does not parse.
    #[error("broken answer")]
    Answer(#[from] AnswerError),
}
