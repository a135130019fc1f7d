//! What a call is, apart from how it travels: methods, services, callers, and the lookup of token passwords.
//!
//! [`Method`] is a client's view of one method, [`Service`] a server's view of one protocol. Both sides name a protocol
//! by the Java interface that declares it, for example `org.apache.hadoop.yarn.api.ApplicationMasterProtocolPB`.

use std::fmt;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;

use bytes::Bytes;

pub use crate::client::{ClientAuth, ClientOptions, LossReason, RpcClient, RpcError};
use crate::exception::RemoteException;
pub use crate::server::{RpcServer, RpcServerBuilder, ServerAuth, ServerLimits};

/// A future on the heap, which may move between threads.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// One method of a Hadoop protocol, as a type without values.
pub trait Method: Send + Sync + 'static {
    /// The method's name as Java spells it, for example `allocate`.
    const NAME: &'static str;
    /// The protocol's name on the wire.
    const PROTOCOL: &'static str;
    /// The protocol's version; 1 for every protocol of YARN.
    const VERSION: u64;
    /// What the caller sends.
    type Request: prost::Message;
    /// What the callee answers.
    type Response: prost::Message + Default;
}

/// Who makes a call, as far as the connection's authentication tells.
#[derive(Clone, PartialEq, Eq)]
pub struct Caller {
    /// The user to act as. With a token it is the name that the [`SecretManager`] gave, for example the text of an
    /// application attempt; otherwise what the client says it is, unproven. May be empty when a simple client names
    /// nobody.
    pub user: String,
    /// The user who connected, when it acts for another.
    pub real_user: Option<String>,
    /// The identifier of the token that the caller proved to hold; `None` under simple authentication.
    pub token_identifier: Option<Bytes>,
    /// The kind of that token.
    pub token_kind: Option<&'static str>,
    /// The other end of the connection.
    pub peer: SocketAddr,
}

impl fmt::Debug for Caller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // An identifier is no secret, but long and unreadable.
        f.debug_struct("Caller")
            .field("user", &self.user)
            .field("real_user", &self.real_user)
            .field("token_kind", &self.token_kind)
            .field("peer", &self.peer)
            .finish_non_exhaustive()
    }
}

/// One Hadoop protocol hosted on a port.
pub trait Service: Send + Sync + 'static {
    /// The protocol's name on the wire.
    fn protocol(&self) -> &'static str;

    /// The protocol's version; calls of another version are refused before they get here.
    fn version(&self) -> u64;

    /// Runs one call. `request` and the result are bare protobuf messages without a length.
    ///
    /// # Errors
    /// Whatever the caller shall see. A method that the protocol does not have is
    /// [`HadoopException::NoSuchMethod`](crate::exception::HadoopException::NoSuchMethod), a request that does not
    /// parse [`HadoopException::InvalidProtocolBuffer`](crate::exception::HadoopException::InvalidProtocolBuffer).
    fn call<'a>(
        &'a self,
        caller: &'a Caller,
        method: &'a str,
        request: Bytes,
    ) -> BoxFuture<'a, Result<Bytes, RemoteException>>;
}

/// What a token identifier stands for, once its key is known.
#[derive(Clone, PartialEq, Eq)]
pub struct Verified {
    /// The password that belongs to the identifier: HMAC over exactly the bytes received.
    pub password: Vec<u8>,
    /// The RPC user of a caller who holds the token.
    pub user: String,
}

impl fmt::Debug for Verified {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Verified")
            .field("user", &self.user)
            .finish_non_exhaustive()
    }
}

/// Knows the passwords of one kind of token (`org.apache.hadoop.security.token.SecretManager`).
///
/// Asked once per connection, before the caller has proved anything: it must be quick and must not trust the bytes.
pub trait SecretManager: Send + Sync + 'static {
    /// The kind of token, for example `NMToken`.
    fn kind(&self) -> &'static str;

    /// The password and user of this identifier.
    ///
    /// # Errors
    /// [`HadoopException::InvalidToken`](crate::exception::HadoopException::InvalidToken) when the identifier does not
    /// parse, is of an unknown key, or is meant for another server. The connection ends with it.
    fn retrieve(&self, identifier: &[u8]) -> Result<Verified, RemoteException>;
}
