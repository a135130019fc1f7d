//! The server of map outputs: its port, and its keys for TLS.

use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use block_server::{Limits, Listener, RunningServer, Shares};
use refusals::Refusals;
use thiserror::Error;
use tls_server::{TlsError, TlsServer, keep_current};

use crate::config::ShuffleConfig;
use crate::indexes::Indexes;
use crate::jobs::Jobs;
use crate::shared::{Counters, Counts, Shared};

/// A server that cannot serve.
#[derive(Debug, Error)]
pub enum StartShuffleError {
    /// The system's refusal of a port or a thread.
    #[error(transparent)]
    System(#[from] io::Error),
    /// Stores of keys and certificates that cannot be used.
    #[error("cannot serve over TLS")]
    Tls(#[source] Box<TlsError>),
}

/// A server that has its port but does not serve yet.
pub struct ShuffleServer {
    listener: Listener,
    config: ShuffleConfig,
}

impl ShuffleServer {
    /// Listens on the configured port of all addresses.
    ///
    /// # Errors
    /// The system's, when the port cannot be had.
    pub fn bind(config: ShuffleConfig) -> io::Result<Self> {
        let listener = Listener::bind(config.port, config.backlog)?;
        Ok(Self { listener, config })
    }

    /// Takes a socket that listens already and does not block.
    ///
    /// # Errors
    /// The system's, when it is no such socket.
    pub fn listening(listener: std::net::TcpListener, config: ShuffleConfig) -> io::Result<Self> {
        let listener = Listener::listening(listener)?;
        Ok(Self { listener, config })
    }

    /// Returns the port that listens.
    #[must_use]
    pub const fn port(&self) -> u16 {
        self.listener.port()
    }

    /// Serves the outputs of `jobs` on threads of its own, and counts `refusals`. Reads the stores
    /// of keys for TLS.
    ///
    /// # Errors
    /// [`StartShuffleError`].
    pub fn start(
        self,
        jobs: Arc<Jobs>,
        refusals: Arc<Refusals>,
    ) -> Result<RunningShuffle, StartShuffleError> {
        let tls = self.config.tls.clone().map(TlsServer::load).transpose();
        let tls = tls.map_err(|error| StartShuffleError::Tls(Box::new(error)))?;
        let limits = Limits {
            name: "shuffle",
            threads: self.config.threads,
            connections_max: self.config.connections_max,
        };
        let shared = Arc::new(Shared {
            indexes: Indexes::new(self.config.index_cache_bytes),
            shares: Arc::new(Shares::new(self.config.connections_max)),
            config: self.config,
            port: self.listener.port(),
            jobs,
            counters: Counters::default(),
            refusals,
            tls: tls.map(Arc::new),
        });
        let server = self.listener.start(limits, Arc::clone(&shared))?;
        if let Some(tls) = &shared.tls {
            server.spawn(keep_current(Arc::clone(tls), "the shuffle"));
        }
        Ok(RunningShuffle { server, shared })
    }
}

impl AsFd for ShuffleServer {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }
}

/// A server that runs until it is stopped or dropped.
pub struct RunningShuffle {
    server: RunningServer,
    shared: Arc<Shared>,
}

impl RunningShuffle {
    /// Returns the port that listens.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.shared.port
    }

    /// Returns the counts of what reducers are refused.
    #[must_use]
    pub fn refusals(&self) -> &Refusals {
        &self.shared.refusals
    }

    /// Returns a reader of the counts, which outlives the server.
    pub fn counts(&self) -> impl Fn() -> Counts + Send + Sync + 'static {
        let shared = Arc::clone(&self.shared);
        move || shared.counters.read()
    }

    /// Closes port and connections and waits a moment for the threads. Not for a task.
    pub fn stop(self) {
        self.server.stop();
    }
}

impl fmt::Debug for RunningShuffle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunningShuffle")
            .field("port", &self.port())
            .finish_non_exhaustive()
    }
}
