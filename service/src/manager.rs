//! The program's side: notifications and kept sockets.

use std::collections::BTreeMap;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{BorrowedFd, OwnedFd, RawFd};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use nix::sys::time::TimeValLike as _;
use nix::time::{ClockId, clock_gettime};

use crate::inherited::{close_on_exec, inherited};
use crate::message::{Message, is_name};
use crate::passed::{KeptSockets, Line, Passed};
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

#[cfg(test)]
pub(crate) mod tests;
