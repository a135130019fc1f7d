//! Settings, as plain values.

use std::path::PathBuf;
use std::time::Duration;

use key_store::Password;

/// File with a key store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreFile {
    /// Path of the file, in the format JKS or PKCS #12.
    pub path: PathBuf,
    /// Password of the store. Without one its content is not verified.
    pub password: Option<Password>,
}

/// Version of TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Protocol {
    /// TLS 1.2.
    Tls12,
    /// TLS 1.3.
    Tls13,
}

impl Protocol {
    /// Returns the version that Java calls so; `None` for older ones, which this crate does not
    /// have.
    #[must_use]
    pub fn from_java(name: &str) -> Option<Self> {
        match name {
            "TLSv1.2" => Some(Self::Tls12),
            "TLSv1.3" => Some(Self::Tls13),
            _ => None,
        }
    }
}

/// Settings of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsConfig {
    /// Store with the server's keys and their certificates.
    pub key_store: StoreFile,
    /// Password of the keys in it.
    pub key_password: Password,
    /// Store with the certificates that clients' are verified by; `None`: clients need none.
    pub clients: Option<StoreFile>,
    /// Versions that are spoken; at least one.
    pub protocols: Vec<Protocol>,
    /// Cipher suites that are not used, by Java's names. Others than this crate's have no effect.
    pub excluded_suites: Vec<String>,
    /// Time between two looks at the files; `None`: they are read once.
    pub reload_interval: Option<Duration>,
}
