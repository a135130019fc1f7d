//! The front's side: what the service manager passed goes down to the program, and the program's
//! notifications go up.
//!
//! Both use one pair of sockets that keep messages apart. The first message goes down, with the
//! kept sockets; all others go up and have the text of the manager's protocol.

use std::collections::BTreeMap;
use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SocketFlags, SocketType,
    recvmsg, socketpair,
};

use crate::inherited::keep_on_exec;
use crate::message::BYTES_MAX;
use crate::passed::{KeptSockets, Line, Passed, SOCKETS_MAX, send};

/// Limit on the bytes of the first message: a line for each socket, with a name of 255 bytes.
const PASSED_BYTES_MAX: usize = 64 + SOCKETS_MAX * 256;

/// Longest time that either end waits for the other.
const PATIENCE: Duration = Duration::from_secs(2);

/// The front's end of the relay.
#[derive(Debug)]
pub struct Relay {
    manager: Line,
    front: OwnedFd,
}

impl Relay {
    /// Makes a relay between the service manager that the environment names and a program that is
    /// to be started. Returns it with the program's end, which programs started by this process
    /// inherit; `None` without a service manager. To be called once, and before anything is
    /// opened.
    ///
    /// # Errors
    /// The environment names a socket or descriptors that cannot be used.
    pub fn open(environment: &BTreeMap<String, String>) -> io::Result<Option<(Self, OwnedFd)>> {
        Passed::of_environment(environment)?
            .map(Self::make)
            .transpose()
    }

    fn make(passed: Passed) -> io::Result<(Self, OwnedFd)> {
        let flags = SocketFlags::CLOEXEC;
        let (front, program) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
        for end in [&front, &program] {
            set_socket_timeout(end, Timeout::Send, Some(PATIENCE))?;
        }
        send_passed(&front, &passed)?;
        keep_on_exec(&program)?;
        let manager = passed.line;
        Ok((Self { manager, front }, program))
    }

    /// Passes the next notification on, which must be there. Returns whether more can come. One
    /// that the manager does not take is lost.
    #[must_use]
    pub fn forward(&self) -> bool {
        let mut text = [0; BYTES_MAX];
        let received = receive(self.front.as_fd(), &mut text, RecvFlags::DONTWAIT);
        let (length, sockets) = match received {
            Ok((0, _)) => return false,
            Ok(received) => received,
            Err(error) => return error.kind() == io::ErrorKind::WouldBlock,
        };
        let sockets: Vec<BorrowedFd<'_>> = sockets.iter().map(AsFd::as_fd).collect();
        // The front has no log. The manager sees what it has not been told.
        let _lost = self
            .manager
            .send(text.get(..length).unwrap_or_default(), &sockets);
        true
    }
}

impl AsFd for Relay {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.front.as_fd()
    }
}

/// Sends what the manager passed: the watchdog's time in microseconds, 0 for none, and the names
/// of the sockets that come along, each in a line.
fn send_passed(relay: &OwnedFd, passed: &Passed) -> io::Result<()> {
    let watchdog_us = passed.watchdog.map_or(0, |time| time.as_micros());
    let mut text = watchdog_us.to_string();
    for (name, _) in &passed.sockets {
        text.push('\n');
        text.push_str(name);
    }
    let sockets: Vec<BorrowedFd<'_>> = passed
        .sockets
        .iter()
        .map(|(_, socket)| socket.as_fd())
        .collect();
    send(relay.as_fd(), text.as_bytes(), &sockets)
}

/// Receives what [`send_passed`] has sent.
pub(crate) fn receive_passed(relay: &OwnedFd) -> io::Result<(Option<Duration>, KeptSockets)> {
    set_socket_timeout(relay, Timeout::Recv, Some(PATIENCE))?;
    let mut text = [0; PASSED_BYTES_MAX];
    let (length, sockets) = receive(relay.as_fd(), &mut text, RecvFlags::empty())?;
    let text = std::str::from_utf8(text.get(..length).unwrap_or_default());
    let mut lines = text.map_err(io::Error::other)?.split('\n');
    let watchdog_us = lines.next().and_then(|first| first.parse().ok());
    let watchdog_us: u64 =
        watchdog_us.ok_or_else(|| io::Error::other("the relay's first message is unknown"))?;
    let watchdog = (watchdog_us > 0).then(|| Duration::from_micros(watchdog_us));
    Ok((watchdog, lines.map(str::to_owned).zip(sockets).collect()))
}

/// Receives a message and its descriptors; 0 bytes at the end. What does not fit is cut off and
/// closed.
fn receive(
    socket: BorrowedFd<'_>,
    text: &mut [u8],
    flags: RecvFlags,
) -> io::Result<(usize, Vec<OwnedFd>)> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(SOCKETS_MAX))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let received = loop {
        let mut text = [IoSliceMut::new(text)];
        match recvmsg(
            socket,
            &mut text,
            &mut control,
            flags | RecvFlags::CMSG_CLOEXEC,
        ) {
            Err(Errno::INTR) => {}
            received => break received?,
        }
    };
    let mut sockets = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(descriptors) = message {
            sockets.extend(descriptors);
        }
    }
    Ok((received.bytes, sockets))
}

#[cfg(test)]
pub(crate) mod tests;
