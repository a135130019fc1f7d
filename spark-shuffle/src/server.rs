//! The server: its port and its threads.

use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use block_server::{Limits, Listener, RunningServer};
use refusals::Refusals;

use crate::executors::Applications;
use crate::shared::{Counts, Shared, SparkShuffleConfig};

/// A server that has its port but does not serve yet.
#[derive(Debug)]
pub struct SparkShuffleServer {
    listener: Listener,
    config: SparkShuffleConfig,
}

impl SparkShuffleServer {
    /// Listens on the configured port of all addresses.
    ///
    /// # Errors
    /// The system's, when the port cannot be had.
    pub fn bind(config: SparkShuffleConfig) -> io::Result<Self> {
        let listener = Listener::bind(config.port, config.backlog)?;
        Ok(Self { listener, config })
    }

    /// Takes a socket that listens already and does not block.
    ///
    /// # Errors
    /// The system's, when it is no such socket.
    pub fn listening(
        listener: std::net::TcpListener,
        config: SparkShuffleConfig,
    ) -> io::Result<Self> {
        let listener = Listener::listening(listener)?;
        Ok(Self { listener, config })
    }

    /// Returns the port that listens.
    #[must_use]
    pub const fn port(&self) -> u16 {
        self.listener.port()
    }

    /// Serves the blocks of `applications` on threads of its own, and counts `refusals`.
    ///
    /// # Errors
    /// The system's, when it has no threads.
    pub fn start(
        self,
        applications: Arc<Applications>,
        refusals: Arc<Refusals>,
    ) -> io::Result<RunningSparkShuffle> {
        let limits = Limits {
            name: "spark-shuffle",
            threads: self.config.threads,
            connections_max: self.config.connections_max,
        };
        let shared = Arc::new(Shared::new(self.config, applications, refusals));
        let server = self.listener.start(limits, Arc::clone(&shared))?;
        Ok(RunningSparkShuffle { server, shared })
    }
}

impl AsFd for SparkShuffleServer {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }
}

/// A server that runs until it is stopped or dropped.
pub struct RunningSparkShuffle {
    server: RunningServer,
    shared: Arc<Shared>,
}

impl RunningSparkShuffle {
    /// Returns the port that listens.
    #[must_use]
    pub const fn port(&self) -> u16 {
        self.server.port()
    }

    /// Returns the counts of what clients are refused.
    #[must_use]
    pub fn refusals(&self) -> &Refusals {
        &self.shared.refusals
    }

    /// Returns a reader of the counts, which outlives the server.
    pub fn counts(&self) -> impl Fn() -> Counts + Send + Sync + 'static {
        let shared = Arc::clone(&self.shared);
        move || shared.counts()
    }

    /// Closes port and connections and waits a moment for the threads. Not for a task.
    pub fn stop(self) {
        self.server.stop();
    }
}

impl fmt::Debug for RunningSparkShuffle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunningSparkShuffle")
            .field("port", &self.port())
            .finish_non_exhaustive()
    }
}
