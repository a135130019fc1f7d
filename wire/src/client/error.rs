//! Errors of calls and of whole connections.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use crate::dial::DialError;
use crate::exception::RemoteException;
use crate::frame::FrameError;
use crate::header::AnswerError;
use crate::layer::LayerError;
use crate::sasl::SaslError;
use crate::wrapped::WrappedError;

/// An error whose type does not matter to the caller.
pub type BoxedError = Box<dyn std::error::Error + Send + Sync>;

/// Reason for which a call has no response, or a connection could not be made.
#[derive(Debug, thiserror::Error)]
pub enum RpcError {
    /// The server answered with an error, or refused the connection with one.
    #[error(transparent)]
    Remote(#[from] RemoteException),
    /// No TCP connection.
    #[error(transparent)]
    Dial(#[from] DialError),
    /// The connection ended before the answer came; it is unknown whether the call was carried out.
    #[error("connection to {address} lost")]
    ConnectionLost {
        /// Address of the server.
        address: SocketAddr,
        /// Reason of the loss; the same for all calls that were waiting.
        #[source]
        reason: Arc<LossReason>,
    },
    /// No answer in time; it is unknown whether the call was carried out.
    #[error("no answer from {address} to a {operation} within {after:?}")]
    Timeout {
        /// Address of the server.
        address: SocketAddr,
        /// Operation that has no answer.
        operation: Operation,
        /// Limit that was exceeded.
        after: Duration,
    },
    /// This side ended the authentication.
    #[error("authentication with {address} failed")]
    Sasl {
        /// Address of the server.
        address: SocketAddr,
        /// Fault in the server's messages.
        source: SaslError,
    },
    /// The request does not fit into a frame; nothing was sent.
    #[error("request too long")]
    RequestTooLong(#[source] FrameError),
    /// The response is not the message that it should be.
    #[error("response of {method} does not parse")]
    Decode {
        /// Method that was called.
        method: &'static str,
        /// Reason of the parser.
        source: BoxedError,
    },
}

impl RpcError {
    /// Returns the server's exception for a fatal answer, and a lost connection for any other
    /// reason.
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
            | LossReason::NotWrapped(_)
            | LossReason::Layer(_)
            | LossReason::Answer(_) => Self::ConnectionLost {
                address,
                reason: Arc::clone(reason),
            },
        }
    }

    /// The server's exception; `None` when the failure is not the server's answer.
    #[must_use]
    pub const fn remote(&self) -> Option<&RemoteException> {
        match self {
            Self::Remote(exception) => Some(exception),
            Self::Dial(_)
            | Self::ConnectionLost { .. }
            | Self::Timeout { .. }
            | Self::Sasl { .. }
            | Self::RequestTooLong(_)
            | Self::Decode { .. } => None,
        }
    }
}

/// The operation that a client waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Connecting and authenticating.
    Connect,
    /// A call, its turn included.
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

/// Reason for which a connection ended.
#[derive(Debug, thiserror::Error)]
pub enum LossReason {
    /// The server closed it.
    #[error("the server closed the connection")]
    ClosedByServer,
    /// The last handle was dropped.
    #[error("closed by this side")]
    ClosedByCaller,
    /// The server does not read any more.
    #[error("the server does not read what is sent")]
    Stalled,
    /// An answer that carries another client's id.
    #[error("an answer with another client's id")]
    ForeignClientId,
    /// An answer that is neither to a call nor fatal.
    #[error("an answer with call id {call_id}")]
    StrangeCallId {
        /// Id in the answer.
        call_id: i32,
    },
    /// The server ends the connection with an exception.
    #[error("fatal answer from the server")]
    Fatal(#[source] RemoteException),
    /// Reading or writing failed.
    #[error("reading or writing failed")]
    Io(#[from] io::Error),
    /// A frame with an impossible length.
    #[error("broken frame")]
    Frame(#[from] FrameError),
    /// A frame in clear on a wrapped connection, or one that is not wrapped as it must be.
    #[error("the server sent a non-wrapped response")]
    NotWrapped(#[from] WrappedError),
    /// A wrapped message that was cut, changed, dropped or repeated.
    #[error("broken wrapped message")]
    Layer(#[from] LayerError),
    /// A frame that does not parse.
    #[error("broken answer")]
    Answer(#[from] AnswerError),
}
