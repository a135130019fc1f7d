//! The ends of a client's authentication.

use crate::digest_md5::DigestError;
use crate::exception::RemoteException;
use crate::gssapi::GssapiError;
use crate::kerberos::ServerMismatch;

/// Reason why a client ends its authentication.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SaslError {
    /// The server does not take tokens.
    #[error("the server offers no authentication by token: {offered:?}")]
    NoToken {
        /// Methods that the server offers; empty if it wants no proof.
        offered: Vec<String>,
    },
    /// A message that is not allowed in this state.
    #[error("unexpected SASL state {state} from the server")]
    UnexpectedState {
        /// Number of the state.
        state: i32,
    },
    /// A wrong challenge or a wrong proof by the server.
    #[error("the server's digest is wrong")]
    Digest(#[from] DigestError),
    /// The server does not take Kerberos.
    #[error("Client cannot authenticate via:[{}]", offered.join(", "))]
    NoKerberos {
        /// Methods that the server offers.
        offered: Vec<String>,
    },
    /// The server wants no proof, and would give none.
    #[error(
        "Server asks us to fall back to SIMPLE auth, but this client is configured to only allow \
         secure connections."
    )]
    NoProof,
    /// A message of the mechanism without its token.
    #[error("Server challenge contains no token")]
    NoChallenge,
    /// Another server than the configured one.
    #[error("Bad Kerberos server principal configuration")]
    Server(#[source] Box<ServerMismatch>),
    /// The proof by Kerberos failed on this side.
    #[error(transparent)]
    Gssapi(#[from] GssapiError),
    /// The server refuses the proof.
    #[error("the server refuses the authentication")]
    Refused(#[source] Box<RemoteException>),
}
