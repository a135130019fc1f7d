//! Way to the NameNodes of a secure cluster, which somebody else prepares.

use std::fmt;
use std::io;
use std::net::SocketAddr;

/// NameNodes of one file system.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NameService {
    /// Logical name; `None`: one NameNode that is named by its address.
    pub name: Option<String>,
    /// Addresses of the NameNodes, each a host and a port.
    pub addresses: Vec<String>,
}

/// Way of a client to the NameNodes of a file system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Way {
    /// Logical name of the file system, under which the client finds its token.
    pub name: String,
    /// Addresses to connect to, in the order of the NameNodes.
    pub addresses: Vec<SocketAddr>,
    /// Login by which the client proves itself; `None`: by its token.
    pub login: Option<KeytabLogin>,
}

/// Login to Kerberos by a keytab.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeytabLogin {
    /// Principal of the client.
    pub principal: String,
    /// Path of the keytab.
    pub keytab: String,
}

/// Access to NameNodes that want proofs of identity. Calls may wait for a name service.
pub trait SecureAccess: fmt::Debug + Send + Sync {
    /// Prepares the way to NameNodes, or returns the one that was prepared.
    ///
    /// # Errors
    /// No socket can be had, or there are too many ways.
    fn way(&self, service: &NameService) -> io::Result<Way>;
}
