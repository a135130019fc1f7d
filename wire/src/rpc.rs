//! A call apart from its transport: methods, services, callers, and the lookup of token passwords.
//!
//! [`Method`] is a client's view of one method, [`Service`] a server's view of one protocol. Both
//! name a protocol by the Java interface that declares it, for example
//! `org.apache.hadoop.yarn.api.ApplicationMasterProtocolPB`.

pub use crate::client::{ClientAuth, ClientOptions, KerberosAuth, LossReason, RpcClient, RpcError};
pub use crate::protection::{Protection, Protections};
pub use crate::server::{RpcServer, RpcServerBuilder, ServerAuth, ServerLimits};
pub use crate::service::{Authorize, BoxFuture, Caller, Method, SecretManager, Service, Verified};
