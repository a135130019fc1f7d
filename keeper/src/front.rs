//! The process that a service manager or a person started: it starts the keeper, passes signals on,
//! and ends as the program ends.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};

use nix::sys::signal::{SigSet, Signal};

use crate::link::{Happened, Link, Signals};

/// This program, whatever has become of its file.
pub(crate) const OWN_PROGRAM: &str = "/proc/self/exe";

/// Exit status when the keeper has died, and the program with it.
const KEEPER_DIED: u8 = 1;

/// A line of the program's own to the front, for what neither front nor keeper understands.
pub struct Beside<'a> {
    /// Front's end.
    pub front: BorrowedFd<'a>,
    /// Program's end, which the arguments name by its number. The keeper inherits it for the
    /// program.
    pub program: OwnedFd,
    /// Called when the front's end can be read; must not wait. Returns false when nothing more can
    /// come.
    pub serve: &'a mut dyn FnMut() -> bool,
}

/// Starts this program once more with `arguments`, which must lead to [`crate::keep`], and waits.
/// Passes on each of `signals` that comes, as the other signal of its pair. Returns the exit status
/// that the keeper reports: the program's, or 128 plus the signal that ended it. When this process
/// dies, so does the program. What the program has sent `beside` before its end is served.
///
/// # Errors
/// The keeper cannot be started or waited for.
pub fn front(
    name: &str,
    arguments: impl IntoIterator<Item = OsString>,
    signals: &[(Signal, Signal)],
    beside: Option<Beside<'_>>,
) -> io::Result<u8> {
    let passed_on: BTreeMap<Signal, Signal> = signals.iter().copied().collect();
    let received: SigSet = passed_on.keys().copied().collect();
    let mut signals = Signals::receive(&received)?;
    let (mut link, keepers_end) = Link::pair()?;
    let mut command = Command::new(OWN_PROGRAM);
    command.arg0(name).args(arguments);
    // Not waited for: it may outlive this process, and its end shows in the link.
    let _keeper = command.stdin(Stdio::from(keepers_end)).spawn()?;
    // The command holds the keeper's end as well.
    drop(command);
    let mut beside = beside.map(|Beside { front, serve, .. }| (front, serve));
    loop {
        let other = beside.as_ref().map(|(front, _)| *front);
        match signals.wait_beside(Some(link.as_fd()), other, None)? {
            Happened::Signals(came) => {
                for signal in came {
                    // Fails once the keeper has died; then the link says so.
                    let signal = passed_on.get(&signal).copied().unwrap_or(signal);
                    let _died = link.send_signal(signal);
                }
            }
            Happened::Link => {
                let status = link
                    .read_end()?
                    .and_then(|status| u8::try_from(status).ok());
                return Ok(status.unwrap_or(KEEPER_DIED));
            }
            Happened::Beside => {
                beside = beside.and_then(|(front, serve)| serve().then_some((front, serve)));
            }
            Happened::Nothing => {}
        }
    }
}
