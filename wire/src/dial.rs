//! TCP connections to a host by its name, over all its addresses and within one deadline.
//!
//! A name often has several addresses, an IPv6 and an IPv4 one at least, of which some may be dead.
//! [`Dialer::connect`] starts an attempt at each in turn, a short stagger apart or as soon as the
//! attempt before has failed, and takes the first that succeeds (RFC 8305, "Happy Eyeballs",
//! without its separate look-ups). So a dead first address costs a quarter of a second and not the
//! whole deadline. The deadline covers the look-up too: a name server may be as dead as a host.
//!
//! This module speaks no protocol: what goes over the connection, and whether to try again later,
//! is the caller's part.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout_at};

use crate::service::BoxFuture;

/// Pause between the starts of two attempts while the earlier one is still open (RFC 8305, 5:
/// Connection Attempt Delay).
const STAGGER: Duration = Duration::from_millis(250);

/// Longest look-up of a name to listen on ([`Dialer::resolve`]): four tries of a resolver with its
/// defaults, two name servers twice for 5 s each (resolv.conf(5), `timeout` and `attempts`).
pub const RESOLVE_TIMEOUT: Duration = Duration::from_secs(20);

/// Looks up the addresses of a host.
pub trait Resolver: fmt::Debug + Send + Sync {
    /// Returns the addresses of `host`, each with `port`, in the order of preference. May be empty.
    ///
    /// # Errors
    /// The reason of the name service.
    fn lookup<'a>(&'a self, host: &'a str, port: u16)
    -> BoxFuture<'a, io::Result<Vec<SocketAddr>>>;
}

/// The resolver of the operating system (`getaddrinfo`), ordered by RFC 6724.
#[derive(Clone, Copy, Debug)]
struct SystemResolver;

impl Resolver for SystemResolver {
    fn lookup<'a>(
        &'a self,
        host: &'a str,
        port: u16,
    ) -> BoxFuture<'a, io::Result<Vec<SocketAddr>>> {
        Box::pin(async move { Ok(tokio::net::lookup_host((host, port)).await?.collect()) })
    }
}

/// A resolver for tests: answers every name with the listed addresses, ports included.
impl Resolver for Vec<SocketAddr> {
    fn lookup<'a>(&'a self, _: &'a str, _: u16) -> BoxFuture<'a, io::Result<Vec<SocketAddr>>> {
        Box::pin(async { Ok(self.clone()) })
    }
}

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub enum DialError {
    /// The name has no address, or the name service has not answered by the deadline.
    #[error("the address of {host} cannot be found")]
    Resolve {
        /// Name as the caller gave it.
        host: String,
        /// Reason of the name service; [`io::ErrorKind::TimedOut`] at the deadline.
        source: io::Error,
    },
    /// No address of the host takes a connection.
    #[error("cannot connect to {address}")]
    Connect {
        /// Address that failed last, or was tried last when the deadline came.
        address: SocketAddr,
        /// Reason of the operating system; [`io::ErrorKind::TimedOut`] at the deadline.
        source: io::Error,
    },
}

/// Opens connections. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Dialer {
    resolver: Arc<dyn Resolver>,
}

impl Default for Dialer {
    /// Asks the operating system for addresses.
    fn default() -> Self {
        Self::new(Arc::new(SystemResolver))
    }
}

impl Dialer {
    /// Returns a dialer that asks `resolver` for addresses.
    #[must_use]
    pub fn new(resolver: Arc<dyn Resolver>) -> Self {
        Self { resolver }
    }

    /// Returns the addresses of a host, at least one, in the resolver's order. An IP address stands
    /// for itself.
    ///
    /// # Errors
    /// [`DialError::Resolve`].
    pub async fn resolve(
        &self,
        host: &str,
        port: u16,
        deadline: Instant,
    ) -> Result<Vec<SocketAddr>, DialError> {
        if let Ok(ip) = host.parse::<IpAddr>() {
            return Ok(vec![SocketAddr::new(ip, port)]);
        }
        let failed = |source| DialError::Resolve {
            host: host.to_owned(),
            source,
        };
        let found = timeout_at(deadline, self.resolver.lookup(host, port)).await;
        let found = found
            .map_err(|_| failed(io::ErrorKind::TimedOut.into()))?
            .map_err(failed)?;
        if found.is_empty() {
            return Err(failed(io::Error::other("the name has no address")));
        }
        Ok(found)
    }

    /// Returns the first of a host's addresses, to listen on; the look-up may take
    /// [`RESOLVE_TIMEOUT`].
    ///
    /// # Errors
    /// [`DialError::Resolve`].
    pub async fn resolve_first(&self, host: &str, port: u16) -> Result<SocketAddr, DialError> {
        let found = self.resolve(host, port, Instant::now() + RESOLVE_TIMEOUT);
        Ok(found.await?[0])
    }

    /// Connects to a host, over whichever of its addresses answers first; returns that address with
    /// the connection.
    ///
    /// # Errors
    /// [`DialError`].
    pub async fn connect(
        &self,
        host: &str,
        port: u16,
        deadline: Instant,
    ) -> Result<(SocketAddr, TcpStream), DialError> {
        let addresses = self.resolve(host, port, deadline).await?;
        race(interleaved(addresses), deadline).await
    }
}

/// Returns the same addresses with the families in turn, beginning with that of the first: when one
/// family is dead, the second attempt is already one of the other (RFC 8305, 4).
fn interleaved(addresses: Vec<SocketAddr>) -> Vec<SocketAddr> {
    let count = addresses.len();
    let v6_first = addresses.first().is_some_and(SocketAddr::is_ipv6);
    let (first, second): (Vec<_>, Vec<_>) = addresses
        .into_iter()
        .partition(|address| address.is_ipv6() == v6_first);
    let (mut first, mut second) = (first.into_iter(), second.into_iter());
    let mut turns = Vec::with_capacity(count);
    while turns.len() < count {
        turns.extend(first.next());
        turns.extend(second.next());
    }
    turns
}

/// Connects to the first address that answers. `addresses` is not empty.
async fn race(
    addresses: Vec<SocketAddr>,
    deadline: Instant,
) -> Result<(SocketAddr, TcpStream), DialError> {
    let mut latest = addresses[0];
    let mut waiting = addresses.into_iter().peekable();
    let mut attempts = JoinSet::new();
    let mut next_start = Instant::now();
    loop {
        if (attempts.is_empty() || Instant::now() >= next_start)
            && let Some(address) = waiting.next()
        {
            latest = address;
            attempts.spawn(async move { (address, TcpStream::connect(address).await) });
            next_start = Instant::now() + STAGGER;
        }
        tokio::select! {
            biased;
            Some(ended) = attempts.join_next() => match ended {
                // The attempts still open are aborted with their set.
                Ok((address, Ok(stream))) => return Ok((address, stream)),
                Ok((address, Err(source))) => {
                    if attempts.is_empty() && waiting.peek().is_none() {
                        return Err(DialError::Connect { address, source });
                    }
                    next_start = Instant::now();
                }
                Err(panicked) => std::panic::resume_unwind(panicked.into_panic()),
            },
            () = sleep_until(deadline) => return Err(DialError::Connect {
                address: latest,
                source: io::ErrorKind::TimedOut.into(),
            }),
            () = sleep_until(next_start), if waiting.peek().is_some() => {}
        }
    }
}

/// Splits `host:port`; an IPv6 address stands in brackets.
///
/// # Errors
/// [`DialError::Resolve`] for any other text.
pub fn split_host_port(address: &str) -> Result<(&str, u16), DialError> {
    let parts = address.rsplit_once(':').and_then(|(host, port)| {
        let bare = host
            .strip_prefix('[')
            .and_then(|host| host.strip_suffix(']'));
        Some((bare.unwrap_or(host), port.parse().ok()?))
    });
    parts.ok_or_else(|| DialError::Resolve {
        host: address.to_owned(),
        source: io::Error::new(io::ErrorKind::InvalidInput, "host:port is expected"),
    })
}

#[cfg(test)]
mod tests;
