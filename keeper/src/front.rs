//! The process that a service manager or a person started: it starts the keeper, passes signals on,
//! and ends as the program ends.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};

use nix::sys::signal::{SigSet, Signal};

use crate::link::{Happened, Link, Signals};

/// This program, whatever has become of its file.
pub(crate) const OWN_PROGRAM: &str = "/proc/self/exe";

/// Exit status when the keeper has died, and the program with it.
const KEEPER_DIED: u8 = 1;

/// Starts this program once more with `arguments`, which must lead to [`crate::keep`], and waits.
/// Passes on each of `signals` that comes. Returns the exit status that the keeper reports: the
/// program's, or 128 plus the signal that ended it. When this process dies, so does the program.
///
/// # Errors
/// The keeper cannot be started or waited for.
pub fn front(
    name: &str,
    arguments: impl IntoIterator<Item = OsString>,
    signals: &[Signal],
) -> io::Result<u8> {
    let signals: SigSet = signals.iter().copied().collect();
    let mut signals = Signals::receive(&signals)?;
    let (mut link, keepers_end) = Link::pair()?;
    let mut command = Command::new(OWN_PROGRAM);
    command.arg0(name).args(arguments);
    // Not waited for: it may outlive this process, and its end shows in the link.
    let _keeper = command.stdin(Stdio::from(keepers_end)).spawn()?;
    // The command holds the keeper's end as well.
    drop(command);
    loop {
        match signals.wait(Some(link.as_fd()), None)? {
            Happened::Signals(came) => {
                for signal in came {
                    // Fails once the keeper has died; then the link says so.
                    let _died = link.send_signal(signal);
                }
            }
            Happened::Link => {
                let status = link
                    .read_end()?
                    .and_then(|status| u8::try_from(status).ok());
                return Ok(status.unwrap_or(KEEPER_DIED));
            }
            Happened::Nothing => {}
        }
    }
}
