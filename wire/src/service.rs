//! Vocabulary of calls: methods, services, callers, and who knows the callers' secrets.

use std::fmt;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;

use bytes::Bytes;

use crate::exception::RemoteException;
use crate::raw_message::RawMessageError;

/// A boxed future that may move between threads.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A method of a Hadoop protocol, as a type without values.
pub trait Method: Send + Sync + 'static {
    /// The method's name as Java spells it, for example `allocate`.
    const NAME: &'static str;
    /// The protocol's name as sent.
    const PROTOCOL: &'static str;
    /// The protocol's version; 1 for every protocol of YARN.
    const VERSION: u64;
    /// Message that the caller sends.
    type Request: prost::Message;
    /// Message that the callee answers with.
    type Response: prost::Message + Default;
}

/// The caller of a method, as far as the connection's authentication shows.
#[derive(Clone, PartialEq, Eq)]
pub struct Caller {
    /// User to act as. With a token, the name that the [`SecretManager`] returned, for example the
    /// text of an application attempt; otherwise the name that the client claims, unproven. May be
    /// empty if a simple client claims none.
    pub user: String,
    /// User whose share of the server's memory and connections this caller takes
    /// ([`Verified::owner`]); equal to `user` unless a token says more.
    pub owner: String,
    /// Identifier of the token that the caller proved to hold; `None` under simple authentication.
    pub token_identifier: Option<Bytes>,
    /// Kind of that token, for example `NMToken`.
    pub token_kind: Option<&'static str>,
    /// Address of the other end of the connection.
    pub peer: SocketAddr,
}

impl fmt::Debug for Caller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The identifier is not secret, but long and unreadable.
        f.debug_struct("Caller")
            .field("user", &self.user)
            .field("token_kind", &self.token_kind)
            .field("peer", &self.peer)
            .finish_non_exhaustive()
    }
}

/// A Hadoop protocol hosted on a port.
pub trait Service: Send + Sync + 'static {
    /// Returns the protocol's name as sent.
    fn protocol(&self) -> &'static str;

    /// Returns the protocol's version. The server refuses calls of another version.
    fn version(&self) -> u64;

    /// Returns the bytes that reading a request takes at most, beyond the request itself. Computed
    /// before anything is decoded; must allocate nothing. The default is for a service that
    /// decodes nothing. Those of [`crate::protocol`] compute it with [`crate::decode_cost`].
    ///
    /// # Errors
    /// The request is not a message; the call is refused.
    fn request_cost(&self, method: &str, request: &[u8]) -> Result<usize, RawMessageError> {
        let _ = (method, request);
        Ok(0)
    }

    /// Runs one call. `request` and the result are bare protobuf messages without a length.
    ///
    /// # Errors
    /// The failure to send to the caller. An unknown method is
    /// [`crate::exception::HadoopException::NoSuchMethod`], a malformed request
    /// [`crate::exception::HadoopException::InvalidProtocolBuffer`].
    fn call<'a>(
        &'a self,
        caller: &'a Caller,
        method: &'a str,
        request: Bytes,
    ) -> BoxFuture<'a, Result<Bytes, RemoteException>>;
}

/// Rule of who may use a protocol, beside the proof of who it is
/// (`org.apache.hadoop.security.authorize.ServiceAuthorizationManager`).
///
/// Asked once per connection, when the caller is known. The answer may take as long as the
/// handshake has time.
pub trait Authorize: Send + Sync + 'static {
    /// Decides about a caller and the protocol that its connection is for, which the port hosts.
    ///
    /// # Errors
    /// The refusal to send, with which the connection ends.
    fn authorize<'a>(
        &'a self,
        caller: &'a Caller,
        protocol: &'a str,
    ) -> BoxFuture<'a, Result<(), RemoteException>>;
}

/// Password and user of a token identifier.
#[derive(Clone, PartialEq, Eq)]
pub struct Verified {
    /// Password that belongs to the identifier: HMAC over exactly the bytes received.
    pub password: Vec<u8>,
    /// RPC user of a caller who holds the token.
    pub user: String,
    /// User whose share of the server's memory and connections such a caller takes: who submitted
    /// the application, if the RPC user is one of its attempts. `None`: the RPC user.
    pub owner: Option<String>,
}

impl fmt::Debug for Verified {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Verified")
            .field("user", &self.user)
            .field("owner", &self.owner)
            .finish_non_exhaustive()
    }
}

/// A lookup of the passwords of one kind of token
/// (`org.apache.hadoop.security.token.SecretManager`).
///
/// Called once per connection, before the caller has proved anything: must be quick and must not
/// trust the bytes.
pub trait SecretManager: Send + Sync + 'static {
    /// Returns the kind of token, for example `NMToken`.
    fn kind(&self) -> &'static str;

    /// Returns the password and user of an identifier.
    ///
    /// # Errors
    /// [`HadoopException::InvalidToken`](crate::exception::HadoopException::InvalidToken) if the
    /// identifier is malformed, signed by an unknown key, or meant for another server. The
    /// connection ends with it.
    fn retrieve(&self, identifier: &[u8]) -> Result<Verified, RemoteException>;
}
