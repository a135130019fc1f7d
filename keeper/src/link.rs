//! What front and keeper tell each other over a socket pair, and the bond between the keeper and
//! the program.
//!
//! The front sends the numbers of signals, a byte each; the keeper sends one line, the program's
//! end. The end of the stream means that the other one has died.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::prctl;
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::unistd::{Pid, getppid};

/// Longest line that ends a front, in bytes.
const LINE_MAX: u64 = 64;

/// Event for which a process waited.
pub(crate) enum Happened {
    /// These signals came.
    Signals(Vec<Signal>),
    /// The link can be read, or has ended.
    Link,
    /// The other descriptor can be read, or has ended.
    Beside,
    /// Nothing, for as long as was asked.
    Nothing,
}

/// Signals that a process receives when it looks, instead of at any time.
pub(crate) struct Signals(SignalFd);

impl Signals {
    /// Receives these signals from now on. Children inherit the mask.
    pub(crate) fn receive(signals: &SigSet) -> io::Result<Self> {
        signals.thread_block()?;
        let flags = SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK;
        Ok(Self(SignalFd::with_flags(signals, flags)?))
    }

    /// Waits for a signal or for the link, at most `timeout_ms`; `None`: without limit.
    pub(crate) fn wait(
        &mut self,
        link: Option<BorrowedFd<'_>>,
        timeout_ms: Option<u16>,
    ) -> io::Result<Happened> {
        self.wait_beside(link, None, timeout_ms)
    }

    /// Waits as [`wait`](Self::wait) does, and for another descriptor, which comes before the link.
    pub(crate) fn wait_beside(
        &mut self,
        link: Option<BorrowedFd<'_>>,
        beside: Option<BorrowedFd<'_>>,
        timeout_ms: Option<u16>,
    ) -> io::Result<Happened> {
        let mut waited = vec![PollFd::new(self.0.as_fd(), PollFlags::POLLIN)];
        let others = beside.into_iter().chain(link);
        waited.extend(others.map(|other| PollFd::new(other, PollFlags::POLLIN)));
        let timeout = timeout_ms.map_or(PollTimeout::NONE, PollTimeout::from);
        match poll(&mut waited, timeout) {
            Ok(0) | Err(Errno::EINTR) => return Ok(Happened::Nothing),
            Ok(_) => {}
            Err(error) => return Err(error.into()),
        }
        let is_ready = |other: &PollFd<'_>| other.any() == Some(true);
        let ready = waited.iter().skip(1).position(is_ready);
        let signals = self.take()?;
        Ok(match ready {
            Some(0) if signals.is_empty() && beside.is_some() => Happened::Beside,
            Some(_) if signals.is_empty() => Happened::Link,
            Some(_) | None => Happened::Signals(signals),
        })
    }

    fn take(&mut self) -> io::Result<Vec<Signal>> {
        let mut signals = Vec::new();
        while let Some(info) = self.0.read_signal()? {
            let number = i32::try_from(info.ssi_signo).map_err(io::Error::other)?;
            signals.extend(Signal::try_from(number).ok());
        }
        Ok(signals)
    }
}

/// One end of the link.
pub(crate) struct Link(UnixStream);

impl Link {
    /// Makes a link: one end, and the other as the standard input of a process.
    pub(crate) fn pair() -> io::Result<(Self, OwnedFd)> {
        let (own, other) = UnixStream::pair()?;
        Ok((Self(own), other.into()))
    }

    /// Takes the end that is the standard input of this process.
    pub(crate) fn of_standard_input() -> io::Result<Self> {
        let input = io::stdin().as_fd().try_clone_to_owned()?;
        Ok(Self(UnixStream::from(input)))
    }

    pub(crate) fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }

    /// Sends a signal's number.
    pub(crate) fn send_signal(&mut self, signal: Signal) -> io::Result<()> {
        let number = u8::try_from(signal as i32).map_err(io::Error::other)?;
        self.0.write_all(&[number])
    }

    /// Reads a signal's number; `None`: the other end has died.
    pub(crate) fn read_signal(&mut self) -> io::Result<Option<Signal>> {
        let mut number = [0];
        match self.0.read(&mut number)? {
            0 => Ok(None),
            _ => Ok(Some(Signal::try_from(i32::from(number[0]))?)),
        }
    }

    /// Sends the program's exit status, and ends the link.
    pub(crate) fn send_end(mut self, status: i32) -> io::Result<()> {
        self.0.write_all(format!("{status}\n").as_bytes())
    }

    /// Reads the program's exit status; `None`: the keeper has died.
    pub(crate) fn read_end(&mut self) -> io::Result<Option<i32>> {
        let mut line = String::new();
        (&mut self.0).take(LINE_MAX).read_to_string(&mut line)?;
        Ok(line.strip_suffix('\n').and_then(|line| line.parse().ok()))
    }
}

/// Begins a kept program: the kernel kills this process when its parent dies, which must be
/// `parent`, and signals reach it, which the keeper blocks for itself. For a process with one
/// thread.
///
/// # Errors
/// The parent has died already, or the kernel refuses.
pub fn die_with_parent(parent: i32) -> io::Result<()> {
    SigSet::all().thread_unblock()?;
    prctl::set_pdeathsig(Signal::SIGKILL)?;
    if getppid() == Pid::from_raw(parent) {
        Ok(())
    } else {
        Err(io::Error::other("the keeper has ended"))
    }
}
