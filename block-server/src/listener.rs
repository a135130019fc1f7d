//! The listener, the threads and the accept loop.

use std::fmt;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener as StdListener};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::Duration;

use http_server::{Activity, PeerKey, Place};
use refusals::{Reason, Refusals};
use socket2::{Domain, Socket, Type};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Runtime};
use tokio::task::{Id, JoinError, JoinSet};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use crate::connections::Connections;

/// Pause after a failed accept. The likely cause, no file descriptors left, does not go away at
/// once.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Refusals that are being sent at once. Beyond that a connection is closed without one.
const REFUSALS_MAX: usize = 64;

/// Time for threads to end, of which one may wait for a disk.
const STOP_PATIENCE: Duration = Duration::from_secs(1);

/// Handler of a server's connections.
pub trait Protocol: Send + Sync + 'static {
    /// Serves a connection to its end. `activity` says what it is doing, by which the server
    /// chooses whom it evicts.
    fn serve(
        self: Arc<Self>,
        stream: TcpStream,
        activity: Arc<Activity>,
    ) -> impl Future<Output = ()> + Send;

    /// Refuses a connection for which there is no place, before its request is read.
    fn refuse(self: Arc<Self>, stream: TcpStream) -> impl Future<Output = ()> + Send;

    /// Returns the counts of what peers are refused.
    fn refusals(&self) -> &Refusals;

    /// Takes the number of open connections after each change.
    fn observe_connections(&self, open: u64);
}

/// Settings of the threads and the accept loop.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Name of the threads.
    pub name: &'static str,
    /// Threads that read files and write sockets; at least 1.
    pub threads: usize,
    /// Open connections at most.
    pub connections_max: usize,
}

/// A socket that listens, before anything is served on it.
#[derive(Debug)]
pub struct Listener {
    socket: StdListener,
    port: u16,
}

impl Listener {
    /// Listens on a port of all addresses, with at most `backlog` connections that wait.
    ///
    /// # Errors
    /// The system's, when the port cannot be had.
    pub fn bind(port: u16, backlog: u32) -> io::Result<Self> {
        // A machine without IPv6 has no such socket or no such address.
        let socket = listen((Ipv6Addr::UNSPECIFIED, port).into(), backlog)
            .or_else(|_| listen((Ipv4Addr::UNSPECIFIED, port).into(), backlog))?;
        Self::listening(socket)
    }

    /// Takes a socket that listens already and does not block.
    ///
    /// # Errors
    /// The system's, when it is no such socket.
    pub fn listening(socket: StdListener) -> io::Result<Self> {
        let port = socket.local_addr()?.port();
        Ok(Self { socket, port })
    }

    /// Returns the port that listens.
    #[must_use]
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// Serves a protocol on threads of its own.
    ///
    /// # Errors
    /// The system's, when it has no threads.
    pub fn start(self, limits: Limits, protocol: Arc<impl Protocol>) -> io::Result<RunningServer> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(limits.threads.max(1))
            .thread_name(limits.name)
            .enable_all()
            .build()?;
        let listener = {
            let _in_runtime = runtime.enter();
            TcpListener::from_std(self.socket)?
        };
        let accepting = Accepting {
            connections: Connections::new(limits.connections_max, limits.threads),
            tasks: JoinSet::new(),
            refusals: JoinSet::new(),
            epoch: Instant::now(),
            protocol,
            name: limits.name,
        };
        // Ends with the runtime, or by a panic, which ends the program.
        let _detached = runtime.spawn(accepting.run(listener));
        Ok(RunningServer {
            runtime: Some(runtime),
            port: self.port,
        })
    }
}

/// Returns a listening socket; one of IPv6 takes IPv4 too.
fn listen(address: SocketAddr, backlog: u32) -> io::Result<StdListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
    if address.is_ipv6() {
        socket.set_only_v6(false)?;
    }
    // A port with connections of an earlier run is free for a new one.
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(i32::try_from(backlog).unwrap_or(i32::MAX))?;
    Ok(socket.into())
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// A server that runs until it is stopped or dropped.
pub struct RunningServer {
    runtime: Option<Runtime>,
    port: u16,
}

impl RunningServer {
    /// Returns the port that listens.
    #[must_use]
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// Runs a task beside the connections until the server ends.
    pub fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        if let Some(runtime) = &self.runtime {
            // Ends with the runtime, or by a panic, which ends the program.
            let _detached = runtime.spawn(task);
        }
    }

    /// Closes port and connections and waits a moment for the threads. Not for a task.
    pub fn stop(mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_timeout(STOP_PATIENCE);
        }
    }
}

impl Drop for RunningServer {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl fmt::Debug for RunningServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunningServer")
            .field("port", &self.port)
            .finish_non_exhaustive()
    }
}

/// The accept loop: the one owner of the connections.
struct Accepting<P> {
    protocol: Arc<P>,
    connections: Connections<Id>,
    tasks: JoinSet<()>,
    refusals: JoinSet<()>,
    epoch: Instant,
    name: &'static str,
}

impl<P: Protocol> Accepting<P> {
    async fn run(mut self, listener: TcpListener) {
        loop {
            let may_accept = self.connections.may_accept(self.tasks.len());
            tokio::select! {
                Some(ended) = self.tasks.join_next_with_id() => self.reap(ended),
                Some(_refused) = self.refusals.join_next() => {}
                accepted = listener.accept(), if may_accept => match accepted {
                    Ok((stream, peer)) => self.open(stream, peer),
                    Err(error) => {
                        tracing::warn!(%error, server = self.name, "cannot accept a connection");
                        // Frees a descriptor, if that is what is missing.
                        self.connections.evict(|_| true);
                        sleep(ACCEPT_PAUSE).await;
                    }
                },
            }
            let open = u64::try_from(self.connections.len()).unwrap_or(u64::MAX);
            self.protocol.observe_connections(open);
        }
    }

    fn open(&mut self, stream: TcpStream, peer: SocketAddr) {
        let peer = PeerKey::of(peer.ip());
        if !self.connections.admit(peer) {
            self.protocol.refusals().count(Reason::NoPlace);
            if self.refusals.len() < REFUSALS_MAX {
                let protocol = Arc::clone(&self.protocol);
                self.refusals.spawn(protocol.refuse(stream));
            }
            return;
        }
        let activity = Arc::new(Activity::new(self.epoch));
        let evicted = CancellationToken::new();
        let task = self.tasks.spawn(run(
            Arc::clone(&self.protocol),
            stream,
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
                tracing::error!(%error, server = self.name, "the task of a connection failed");
            }
        }
    }
}

/// Serves a connection until it ends or makes place for another.
async fn run<P: Protocol>(
    protocol: Arc<P>,
    stream: TcpStream,
    activity: Arc<Activity>,
    evicted: CancellationToken,
) {
    tokio::select! {
        () = Arc::clone(&protocol).serve(stream, activity) => {}
        () = evicted.cancelled() => protocol.refusals().count(Reason::Evicted),
    }
}
