//! The program's side: notifications and kept sockets.

use std::collections::BTreeMap;
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd, RawFd};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr as UnixAddress, UnixDatagram};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use nix::sys::time::TimeValLike as _;
use nix::time::{ClockId, clock_gettime};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};

use crate::inherited::{FIRST, close_on_exec, inherited};
use crate::message::{Message, is_name};
use crate::relay;

/// Variables in which a service manager passes what this crate reads. They are for the process
/// that it started; other programs started by that must not get them.
pub const VARIABLES: [&str; 6] = [
    "NOTIFY_SOCKET",
    "WATCHDOG_USEC",
    "WATCHDOG_PID",
    "LISTEN_FDS",
    "LISTEN_PID",
    "LISTEN_FDNAMES",
];

/// Limit on the sockets taken from a service manager; further ones are closed.
pub(crate) const SOCKETS_MAX: usize = 64;

/// Longest time that a notification may wait for a manager that does not read.
const SEND_PATIENCE: Duration = Duration::from_secs(2);

/// The service manager of this process, if it has one. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Manager(Option<Arc<Shared>>);

#[derive(Debug)]
struct Shared {
    line: Line,
    watchdog: Option<Duration>,
    /// Sockets that nobody has taken yet, with their names.
    kept: Mutex<KeptSockets>,
}

/// Sockets with their names.
pub(crate) type KeptSockets = Vec<(String, OwnedFd)>;

/// Way of a notification.
#[derive(Debug)]
pub(crate) enum Line {
    /// Address of the manager's socket.
    Direct(UnixAddress),
    /// Socket whose other end the front reads.
    Relay(OwnedFd),
}

impl Manager {
    /// Returns the manager that started this process, from the process's environment; one that
    /// does nothing if there is none. Descriptors that came along are taken; to be called once, and
    /// before anything is opened.
    ///
    /// # Errors
    /// The environment names a socket or descriptors that cannot be used.
    pub fn of_environment(environment: &BTreeMap<String, String>) -> io::Result<Self> {
        let Some(Passed {
            line,
            watchdog,
            sockets,
        }) = Passed::of_environment(environment)?
        else {
            return Ok(Self::default());
        };
        Ok(Self::new(line, watchdog, sockets))
    }

    /// Returns the manager that started the front of this process, over the relay with this
    /// descriptor. To be called once.
    ///
    /// # Errors
    /// The descriptor is no relay.
    pub fn over_relay(number: RawFd) -> io::Result<Self> {
        Self::of_relay(inherited(number)?)
    }

    pub(crate) fn of_relay(relay: OwnedFd) -> io::Result<Self> {
        close_on_exec(&relay)?;
        let (watchdog, sockets) = relay::receive_passed(&relay)?;
        Ok(Self::new(Line::Relay(relay), watchdog, sockets))
    }

    fn new(line: Line, watchdog: Option<Duration>, kept: KeptSockets) -> Self {
        Self(Some(Arc::new(Shared {
            line,
            watchdog,
            kept: Mutex::new(kept),
        })))
    }

    /// Returns whether there is a manager.
    #[must_use]
    pub const fn exists(&self) -> bool {
        self.0.is_some()
    }

    /// Returns the time without [`Message::Alive`] after which the manager ends the program; `None`
    /// if it does not.
    #[must_use]
    pub fn watchdog(&self) -> Option<Duration> {
        self.0.as_ref()?.watchdog
    }

    /// Notifies the manager, if there is one. A manager that cannot be notified is a warning in the
    /// log; it then ends the program by itself, if at all.
    pub fn notify(&self, message: Message<'_>) {
        self.send(message, None);
    }

    /// Notifies the manager that the program reads its configuration again.
    pub fn notify_reloading(&self) {
        // The clock is always there.
        let Ok(now) = clock_gettime(ClockId::CLOCK_MONOTONIC) else {
            return;
        };
        let monotonic_us = u64::try_from(now.num_microseconds()).unwrap_or(0);
        self.notify(Message::Reloading { monotonic_us });
    }

    /// Takes the listening socket that was kept under this name, if it listens on `address`; with
    /// port 0, on any port of that address. Others of the name are closed and kept no longer.
    #[must_use]
    pub fn take_listener(&self, name: &str, address: SocketAddr) -> Option<TcpListener> {
        let shared = self.0.as_ref()?;
        let found = {
            let mut kept = shared.kept.lock().unwrap_or_else(PoisonError::into_inner);
            kept.extract_if(.., |(kept, _)| kept == name)
                .collect::<Vec<_>>()
        };
        if found.is_empty() {
            return None;
        }
        let mut fitting = found
            .into_iter()
            .map(|(_, socket)| TcpListener::from(socket))
            .filter(|listener| listens_on(listener, address));
        let listener = fitting.next();
        if listener.is_none() {
            tracing::info!(name, %address, "the kept socket has another address; it is closed");
            self.notify(Message::Drop(name));
        }
        listener.filter(|listener| listener.set_nonblocking(true).is_ok())
    }

    /// Has the manager keep a socket until the program has been started again, under a name of
    /// printable ASCII characters without colons. One with another name is not kept.
    pub fn keep(&self, name: &str, socket: BorrowedFd<'_>) {
        if is_name(name) {
            self.send(Message::Keep(name), Some(socket));
        } else {
            tracing::warn!(name, "a socket of such a name is not kept over a restart");
        }
    }

    /// Closes the sockets that nobody has taken; they are kept no longer. To be called once the
    /// program has all that it wants.
    pub fn drop_rest(&self) {
        let Some(shared) = &self.0 else { return };
        let rest = std::mem::take(&mut *shared.kept.lock().unwrap_or_else(PoisonError::into_inner));
        for (name, socket) in rest {
            tracing::info!(name, "a kept socket is not needed any more");
            drop(socket);
            self.notify(Message::Drop(&name));
        }
    }

    fn send(&self, message: Message<'_>, socket: Option<BorrowedFd<'_>>) {
        let Some(shared) = &self.0 else { return };
        let sent = shared
            .line
            .send(message.text().as_bytes(), socket.as_slice());
        if let Err(error) = sent {
            tracing::warn!(?message, %error, "the service manager cannot be notified");
        }
    }
}

/// Returns whether a socket listens for TCP on this address.
fn listens_on(listener: &TcpListener, address: SocketAddr) -> bool {
    let listens = rustix::net::sockopt::socket_acceptconn(listener).unwrap_or(false);
    let matches = |local: SocketAddr| {
        local.ip() == address.ip() && (address.port() == 0 || local.port() == address.port())
    };
    listens && listener.local_addr().is_ok_and(matches)
}

impl Line {
    /// Sends a notification with descriptors.
    pub(crate) fn send(&self, text: &[u8], sockets: &[BorrowedFd<'_>]) -> io::Result<()> {
        match self {
            // A socket for each, as the manager may make its own anew.
            Self::Direct(address) => {
                let socket = UnixDatagram::unbound()?;
                socket.connect_addr(address)?;
                socket.set_write_timeout(Some(SEND_PATIENCE))?;
                send(socket.as_fd(), text, sockets)
            }
            Self::Relay(relay) => send(relay.as_fd(), text, sockets),
        }
    }
}

/// Sends a message with descriptors in one piece.
pub(crate) fn send(
    socket: BorrowedFd<'_>,
    text: &[u8],
    descriptors: &[BorrowedFd<'_>],
) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(SOCKETS_MAX))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() && !control.push(SendAncillaryMessage::ScmRights(descriptors)) {
        return Err(io::Error::other("too many descriptors"));
    }
    let text = [IoSlice::new(text)];
    sendmsg(socket, &text, &mut control, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// Environment that a service manager passes to the process that it starts.
pub(crate) struct Passed {
    pub(crate) line: Line,
    pub(crate) watchdog: Option<Duration>,
    /// Kept sockets with their names, which programs started by this process do not inherit.
    pub(crate) sockets: KeptSockets,
}

impl Passed {
    /// Reads the environment; `None` without a service manager.
    pub(crate) fn of_environment(
        environment: &BTreeMap<String, String>,
    ) -> io::Result<Option<Self>> {
        let value = |name: &str| environment.get(name).map(String::as_str);
        let Some(socket) = value("NOTIFY_SOCKET").filter(|socket| !socket.is_empty()) else {
            return Ok(None);
        };
        let own_pid = std::process::id().to_string();
        let is_for_us = |pid: Option<&str>| pid.is_none_or(|pid| pid == own_pid);
        let watchdog = value("WATCHDOG_USEC")
            .filter(|_| is_for_us(value("WATCHDOG_PID")))
            .and_then(|usec| usec.parse().ok())
            .filter(|usec| *usec > 0)
            .map(Duration::from_micros);
        let count = value("LISTEN_FDS")
            .filter(|_| value("LISTEN_PID") == Some(&own_pid))
            .and_then(|count| count.parse::<usize>().ok());
        let sockets = take_sockets(count.unwrap_or(0), value("LISTEN_FDNAMES").unwrap_or(""))?;
        Ok(Some(Self {
            line: Line::Direct(address(socket)?),
            watchdog,
            sockets,
        }))
    }
}

/// Reads the address of a manager's socket: a path, or an abstract name after `@`.
fn address(socket: &str) -> io::Result<UnixAddress> {
    match socket.strip_prefix('@') {
        Some(name) => UnixAddress::from_abstract_name(name),
        None if socket.starts_with('/') => UnixAddress::from_pathname(socket),
        None => {
            let text = format!("NOTIFY_SOCKET={socket} is neither a path nor an abstract name");
            Err(io::Error::new(io::ErrorKind::Unsupported, text))
        }
    }
}

fn take_sockets(count: usize, names: &str) -> io::Result<KeptSockets> {
    let mut names = names.split(':');
    (FIRST..)
        .take(count.min(SOCKETS_MAX))
        .map(|number| {
            let socket = inherited(number)?;
            close_on_exec(&socket)?;
            Ok((names.next().unwrap_or_default().to_owned(), socket))
        })
        .collect()
}

#[cfg(test)]
pub(crate) mod tests;
