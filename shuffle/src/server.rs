//! The listener, the threads and the accept loop.

use std::fmt;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use http_server::{Activity, PeerKey, Place};
use refusals::{Reason, Refusals};
use socket2::{Domain, Socket, Type};
use thiserror::Error;
use tls_server::{TlsError, TlsServer};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Runtime};
use tokio::task::{Id, JoinError, JoinSet, spawn_blocking};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use crate::config::ShuffleConfig;
use crate::connection;
use crate::connections::Connections;
use crate::indexes::Indexes;
use crate::jobs::Jobs;
use crate::shared::{Counters, Counts, Shared};
use crate::shares::Shares;

/// Pause after a failed accept. The likely cause, no file descriptors left, does not go away at
/// once.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Refusals that are being sent at once. Beyond that a connection is closed without one.
const REFUSALS_MAX: usize = 64;

/// Time for threads to end, of which one may wait for a disk.
const STOP_PATIENCE: Duration = Duration::from_secs(1);

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
    listener: std::net::TcpListener,
    port: u16,
    config: ShuffleConfig,
}

impl ShuffleServer {
    /// Listens on the configured port of all addresses.
    ///
    /// # Errors
    /// The system's, when the port cannot be had.
    pub fn bind(config: ShuffleConfig) -> io::Result<Self> {
        // A machine without IPv6 has no such socket or no such address.
        let listener = listen((Ipv6Addr::UNSPECIFIED, config.port).into(), &config)
            .or_else(|_| listen((Ipv4Addr::UNSPECIFIED, config.port).into(), &config))?;
        Self::listening(listener, config)
    }

    /// Takes a socket that listens already and does not block.
    ///
    /// # Errors
    /// The system's, when it is no such socket.
    pub fn listening(listener: std::net::TcpListener, config: ShuffleConfig) -> io::Result<Self> {
        let port = listener.local_addr()?.port();
        Ok(Self {
            listener,
            port,
            config,
        })
    }

    /// Returns the port that listens.
    #[must_use]
    pub const fn port(&self) -> u16 {
        self.port
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
        let tls = tls.map(Arc::new);
        let runtime = Builder::new_multi_thread()
            .worker_threads(self.config.threads.max(1))
            .thread_name("shuffle")
            .enable_all()
            .build()?;
        let shared = Arc::new(Shared {
            indexes: Indexes::new(self.config.index_cache_bytes),
            shares: Arc::new(Shares::new(self.config.connections_max)),
            config: self.config,
            port: self.port,
            jobs,
            counters: Counters::default(),
            refusals,
            tls,
        });
        let listener = {
            let _in_runtime = runtime.enter();
            TcpListener::from_std(self.listener)?
        };
        let accepting = Accepting {
            connections: Connections::new(shared.config.connections_max, shared.config.threads),
            tasks: JoinSet::new(),
            refusals: JoinSet::new(),
            epoch: Instant::now(),
            shared: Arc::clone(&shared),
        };
        // Both end with the runtime, or by a panic, which ends the program.
        let _detached = runtime.spawn(accepting.run(listener));
        if let Some(tls) = &shared.tls {
            let _detached = runtime.spawn(reload(Arc::clone(tls)));
        }
        Ok(RunningShuffle {
            runtime: Some(runtime),
            shared,
        })
    }
}

/// Looks at the stores of keys in their interval, and takes those that have changed.
async fn reload(tls: Arc<TlsServer>) {
    let Some(interval) = tls.config().reload_interval else {
        return;
    };
    loop {
        sleep(interval).await;
        let tls = Arc::clone(&tls);
        let reloaded = spawn_blocking(move || tls.reload()).await;
        match reloaded {
            Ok(Ok(false)) => {}
            Ok(Ok(true)) => tracing::info!("the key stores of the shuffle were read again"),
            Ok(Err(error)) => {
                let cause = std::error::Error::source(&error).map(ToString::to_string);
                let cause = cause.unwrap_or_default();
                tracing::warn!(%error, cause, "the former keys of the shuffle stay in use");
            }
            Err(error) => tracing::error!(%error, "reading the shuffle's key stores failed"),
        }
    }
}

/// Returns a listening socket; one of IPv6 takes IPv4 too.
fn listen(address: SocketAddr, config: &ShuffleConfig) -> io::Result<std::net::TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
    if address.is_ipv6() {
        socket.set_only_v6(false)?;
    }
    // A port with connections of an earlier run is free for a new one.
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(i32::try_from(config.backlog).unwrap_or(i32::MAX))?;
    Ok(socket.into())
}

impl AsFd for ShuffleServer {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }
}

/// A server that runs until it is stopped or dropped.
pub struct RunningShuffle {
    runtime: Option<Runtime>,
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
    pub fn stop(mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_timeout(STOP_PATIENCE);
        }
    }
}

impl Drop for RunningShuffle {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl fmt::Debug for RunningShuffle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunningShuffle")
            .field("port", &self.port())
            .finish_non_exhaustive()
    }
}

/// The accept loop: the one owner of the connections.
struct Accepting {
    shared: Arc<Shared>,
    connections: Connections<Id>,
    tasks: JoinSet<()>,
    refusals: JoinSet<()>,
    epoch: Instant,
}

impl Accepting {
    async fn run(mut self, listener: TcpListener) {
        loop {
            let may_accept = self.connections.may_accept(self.tasks.len());
            tokio::select! {
                Some(ended) = self.tasks.join_next_with_id() => self.reap(ended),
                Some(_refused) = self.refusals.join_next() => {}
                accepted = listener.accept(), if may_accept => match accepted {
                    Ok((stream, peer)) => self.open(stream, peer),
                    Err(error) => {
                        tracing::warn!(%error, "cannot accept a reducer");
                        // Frees a descriptor, if that is what is missing.
                        self.connections.evict(|_| true);
                        sleep(ACCEPT_PAUSE).await;
                    }
                },
            }
            let open = u64::try_from(self.connections.len()).unwrap_or(u64::MAX);
            let counters = &self.shared.counters;
            counters.connections.store(open, Ordering::Relaxed);
        }
    }

    fn open(&mut self, stream: TcpStream, peer: SocketAddr) {
        let peer = PeerKey::of(peer.ip());
        if !self.connections.admit(peer) {
            self.shared.refusals.count(Reason::NoPlace);
            if self.refusals.len() < REFUSALS_MAX {
                let shared = Arc::clone(&self.shared);
                self.refusals.spawn(connection::refuse(stream, shared));
            }
            return;
        }
        let activity = Arc::new(Activity::new(self.epoch));
        let evicted = CancellationToken::new();
        let task = self.tasks.spawn(connection::run(
            stream,
            Arc::clone(&self.shared),
            Arc::clone(&activity),
            evicted.clone(),
        ));
        let place = Place {
            peer,
            activity,
            evicted,
        };
        self.connections.insert(task.id(), place);
    }

    fn reap(&mut self, ended: Result<(Id, ()), JoinError>) {
        match ended {
            Ok((id, ())) => self.connections.remove(id),
            Err(error) => {
                self.connections.remove(error.id());
                tracing::error!(%error, "the task of a reducer's connection failed");
            }
        }
    }
}
