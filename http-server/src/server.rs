//! The listener and the accept loop.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::Duration;

use refusals::Refusals;
use tls_server::TlsServer;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{Id, JoinError, JoinSet};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use crate::Limits;
use crate::activity::Activity;
use crate::connection::{self, Closing};
use crate::places::{PeerKey, Place, Places};
use crate::service::Service;

/// Pause after a failed accept. The likely cause, no file descriptors left, does not go away at
/// once.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// A server that has its port but does not serve yet.
#[derive(Debug)]
pub struct HttpServer {
    listener: TcpListener,
    address: SocketAddr,
    limits: Limits,
    refusals: Arc<Refusals>,
    tls: Option<Arc<TlsServer>>,
}

impl HttpServer {
    /// Listens on `address`; port 0 lets the system choose one.
    ///
    /// # Errors
    /// The system's, when the address cannot be listened on.
    pub async fn bind(address: SocketAddr, limits: Limits) -> io::Result<Self> {
        Self::on(TcpListener::bind(address).await?, limits)
    }

    /// Takes a socket that listens already and does not block.
    ///
    /// # Errors
    /// The system's, when it is no such socket.
    pub fn listening(listener: std::net::TcpListener, limits: Limits) -> io::Result<Self> {
        Self::on(TcpListener::from_std(listener)?, limits)
    }

    fn on(listener: TcpListener, limits: Limits) -> io::Result<Self> {
        let address = listener.local_addr()?;
        Ok(Self {
            listener,
            address,
            limits,
            refusals: Arc::default(),
            tls: None,
        })
    }

    /// Serves over TLS only, with these keys.
    #[must_use]
    pub fn with_tls(mut self, tls: Option<Arc<TlsServer>>) -> Self {
        self.tls = tls;
        self
    }

    /// Counts refusals here.
    #[must_use]
    pub fn with_refusals(mut self, refusals: Arc<Refusals>) -> Self {
        self.refusals = refusals;
        self
    }

    /// Address that the server listens on, with the real port.
    #[must_use]
    pub const fn local_address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until `shutdown`; then closes the port, lets answers under way end within
    /// [`Limits::shutdown_grace`], and returns when every connection is closed. When dropped,
    /// closes all at once.
    pub async fn serve<S: Service>(self, service: Arc<S>, shutdown: CancellationToken) {
        let mut serving = Serving {
            service,
            limits: self.limits,
            epoch: Instant::now(),
            places: Places::new(self.limits.connections, self.limits.connections_per_address),
            tasks: JoinSet::new(),
            refusals: self.refusals,
            tls: self.tls,
            shutdown,
        };
        serving.accept_all(self.listener).await;
        while let Some(ended) = serving.tasks.join_next_with_id().await {
            serving.reap(ended);
        }
    }
}

impl AsFd for HttpServer {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }
}

/// A running server: the one owner of its connections.
struct Serving<S> {
    service: Arc<S>,
    limits: Limits,
    epoch: Instant,
    places: Places<Id>,
    tasks: JoinSet<()>,
    refusals: Arc<Refusals>,
    tls: Option<Arc<TlsServer>>,
    shutdown: CancellationToken,
}

impl<S: Service> Serving<S> {
    /// Accepts connections until the shutdown, then drops the listener.
    async fn accept_all(&mut self, listener: TcpListener) {
        loop {
            let may_accept = self.places.may_accept(self.tasks.len());
            tokio::select! {
                () = self.shutdown.cancelled() => return,
                Some(ended) = self.tasks.join_next_with_id() => self.reap(ended),
                accepted = listener.accept(), if may_accept => match accepted {
                    Ok((stream, peer)) => self.open(stream, peer),
                    Err(error) => {
                        tracing::warn!(%error, "cannot accept a web client");
                        // Frees a descriptor, if that is what is missing.
                        self.places.evict(|place| Some(place.activity.eviction_rank()));
                        sleep(ACCEPT_PAUSE).await;
                    }
                },
            }
        }
    }

    fn open(&mut self, stream: TcpStream, peer: SocketAddr) {
        let peer = PeerKey::of(peer.ip());
        self.places.make_room(peer);
        let activity = Arc::new(Activity::new(self.epoch));
        let evicted = CancellationToken::new();
        let closing = Closing {
            shutdown: self.shutdown.clone(),
            evicted: evicted.clone(),
            refusals: Arc::clone(&self.refusals),
        };
        let task = self.tasks.spawn(connection::run(
            (stream, self.tls.clone()),
            Arc::clone(&self.service),
            Arc::clone(&activity),
            self.limits,
            closing,
            peer,
        ));
        let place = Place {
            peer,
            activity,
            evicted,
        };
        self.places.insert(task.id(), place);
    }

    fn reap(&mut self, ended: Result<(Id, ()), JoinError>) {
        match ended {
            Ok((id, ())) => self.places.remove(id),
            Err(error) => {
                self.places.remove(error.id());
                tracing::error!(%error, "the task of a web client's connection failed");
            }
        }
    }
}
