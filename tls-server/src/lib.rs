//! The server's side of TLS, from Java's key stores.
//!
//! ```text
//! TlsConfig ─▶ stores: files, key_store ─▶ settings: rustls ─▶ TlsServer ─▶ accept: handshakes
//!                 ▲                                               │
//!                 └─────────────── reload, when a file changed ───┘
//! ```
//!
//! In: paths, passwords, versions, cipher suites by Java's names, accepted TCP connections. Out:
//! TLS streams, and errors that name the setting at fault. Time limits of handshakes are the
//! caller's. Knows no property names and nothing of what the streams carry.

mod accept;
mod config;
mod error;
mod renewal;
mod settings;
mod stores;
#[cfg(test)]
mod tests;

use std::sync::{Arc, Mutex, PoisonError};

pub use accept::{HandshakeFailed, Refused, TlsStream};
pub use config::{Protocol, StoreFile, TlsConfig};
pub use error::{Setting, TlsError};
pub use key_store::Password;
pub use renewal::keep_current;
use rustls::ServerConfig;

use self::stores::Stamp;

/// TLS of a server, with the stores as they were last read.
pub struct TlsServer {
    config: TlsConfig,
    current: Mutex<Current>,
}

struct Current {
    settings: Arc<ServerConfig>,
    /// State of the files that were last read, with or without success.
    stamps: Vec<Stamp>,
}

impl TlsServer {
    /// Reads the stores. Waits for the disk, and for key derivations, which take milliseconds.
    ///
    /// # Errors
    /// [`TlsError`], for the first setting that cannot be used.
    pub fn load(config: TlsConfig) -> Result<Self, TlsError> {
        // Before the files: a change in between is seen by the next reload.
        let stamps = stores::stamps(&config)?;
        let settings = Arc::new(settings::build(&config)?);
        let current = Mutex::new(Current { settings, stamps });
        Ok(Self { config, current })
    }

    /// Reads the stores again if their files have changed. Returns whether new connections get new
    /// settings. Waits as [`Self::load`] does.
    ///
    /// # Errors
    /// [`TlsError`], once for each change; the former settings stay.
    pub fn reload(&self) -> Result<bool, TlsError> {
        let stamps = stores::stamps(&self.config)?;
        {
            let mut current = self.lock();
            if current.stamps == stamps {
                return Ok(false);
            }
            current.stamps = stamps;
        }
        let settings = Arc::new(settings::build(&self.config)?);
        self.lock().settings = settings;
        Ok(true)
    }

    /// Returns what the stores are read from.
    #[must_use]
    pub const fn config(&self) -> &TlsConfig {
        &self.config
    }

    fn settings(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.lock().settings)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Current> {
        // Each field is valid whatever another thread did.
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for TlsServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TlsServer")
            .field("config", &self.config)
            .finish_non_exhaustive()
    }
}
