//! Errors of settings.

use std::io;
use std::path::PathBuf;

use key_store::KeyStoreError;
use thiserror::Error;

/// Setting that an error is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Setting {
    /// File with the server's keys.
    KeyStore,
    /// Password of that file.
    KeyStorePassword,
    /// Password of its keys.
    KeyPassword,
    /// File with the certificates that clients' are verified by.
    TrustStore,
    /// Password of that file.
    TrustStorePassword,
    /// Cipher suites that are excluded.
    ExcludedSuites,
}

/// A setting that cannot be used. Shows no password.
#[derive(Debug, Error)]
pub enum TlsError {
    /// File that cannot be read.
    #[error("cannot read {path}")]
    Read {
        /// The store.
        setting: Setting,
        /// Path of the file.
        path: PathBuf,
        /// Reason of the system.
        #[source]
        source: io::Error,
    },
    /// File that is no key store, or does not open.
    #[error("cannot use the key store {path}")]
    Store {
        /// The store, or the password that does not open it.
        setting: Setting,
        /// Path of the file.
        path: PathBuf,
        /// Reason.
        #[source]
        source: KeyStoreError,
    },
    /// Key store without a private key that has a certificate.
    #[error("the key store {0} has no private key with a certificate")]
    NoKey(PathBuf),
    /// Private key that cannot be used, since its kind or length is not supported or it is not that
    /// of its certificate.
    #[error("cannot use the key {alias:?} of the key store {path}")]
    Key {
        /// Path of the key store.
        path: PathBuf,
        /// Name of the key's entry.
        alias: String,
        /// Reason.
        #[source]
        source: rustls::Error,
    },
    /// Trust store without a certificate that can be trusted.
    #[error("the trust store {0} has no certificate that clients could be verified by")]
    NoTrusted(PathBuf),
    /// Versions and exclusions that leave no cipher suite.
    #[error("no cipher suite is left")]
    NoSuite(#[source] rustls::Error),
}

impl TlsError {
    /// Returns the setting to change.
    #[must_use]
    pub const fn setting(&self) -> Setting {
        match self {
            Self::Read { setting, .. } | Self::Store { setting, .. } => *setting,
            Self::NoKey(_) | Self::Key { .. } => Setting::KeyStore,
            Self::NoTrusted(_) => Setting::TrustStore,
            Self::NoSuite(_) => Setting::ExcludedSuites,
        }
    }
}
