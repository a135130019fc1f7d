//! What a service manager passes to the process that it starts, and the way of notifications to it.

use std::collections::BTreeMap;
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr as UnixAddress, UnixDatagram};
use std::time::Duration;

use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};

use crate::inherited::{FIRST, close_on_exec, inherited};

/// Limit on the sockets taken from a service manager; further ones are closed.
pub(crate) const SOCKETS_MAX: usize = 64;

/// Longest time that a notification may wait for a manager that does not read.
const SEND_PATIENCE: Duration = Duration::from_secs(2);

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
pub(crate) fn address(socket: &str) -> io::Result<UnixAddress> {
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
