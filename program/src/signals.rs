//! Signals that end a program in order.

use std::io;

use procfs::process::Process;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// A signal that asks the program to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interruption {
    /// SIGINT, as from Ctrl-C.
    Interrupt,
    /// SIGTERM, as from a service manager.
    Terminate,
    /// SIGHUP: the terminal is gone.
    HangUp,
}

impl Interruption {
    /// Returns the exit status that shells report for a process ended by the signal: 128 plus its
    /// number.
    #[must_use]
    pub const fn exit_status(self) -> u8 {
        match self {
            Self::HangUp => 129,
            Self::Interrupt => 130,
            Self::Terminate => 143,
        }
    }

    /// Returns the signal's name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::HangUp => "SIGHUP",
            Self::Interrupt => "SIGINT",
            Self::Terminate => "SIGTERM",
        }
    }
}

/// Receiver of these signals. Receives from its creation on; none is lost between two calls.
#[derive(Debug)]
pub struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hang_up: Option<Signal>,
}

impl Signals {
    /// Receives all three signals; SIGHUP not where the process was started to ignore it, as by
    /// `nohup`, which a JVM leaves ignored too.
    ///
    /// # Errors
    /// An I/O error if the runtime cannot install a handler.
    pub fn listen() -> io::Result<Self> {
        let hang_up = if is_hang_up_ignored() {
            None
        } else {
            Some(signal(SignalKind::hangup())?)
        };
        Ok(Self {
            hang_up,
            ..Self::listen_to_people()?
        })
    }

    /// Receives SIGINT and SIGTERM; SIGHUP keeps its default action.
    ///
    /// # Errors
    /// An I/O error if the runtime cannot install a handler.
    pub fn listen_to_people() -> io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hang_up: None,
        })
    }

    /// Waits for the next signal.
    pub async fn next(&mut self) -> Interruption {
        let Self {
            interrupt,
            terminate,
            hang_up,
        } = self;
        let hung_up = async {
            match hang_up {
                Some(hang_up) => hang_up.recv().await,
                None => std::future::pending().await,
            }
        };
        // Signals lose their order when several are there; the same one counts each time then.
        tokio::select! {
            biased;
            _ = interrupt.recv() => Interruption::Interrupt,
            _ = terminate.recv() => Interruption::Terminate,
            _ = hung_up => Interruption::HangUp,
        }
    }
}

/// Returns whether this process has a terminal, whose end SIGHUP tells. If `/proc` cannot be read,
/// it has none.
#[must_use]
pub fn has_terminal() -> bool {
    let stat = Process::myself().and_then(|process| process.stat());
    stat.is_ok_and(|stat| stat.tty_nr != 0)
}

/// Returns whether SIGHUP is ignored; to be called before a handler is installed. If `/proc` cannot
/// be read, SIGHUP counts as not ignored.
#[must_use]
pub fn is_hang_up_ignored() -> bool {
    let status = Process::myself().and_then(|process| process.status());
    // The lowest bit is signal 1, which is SIGHUP.
    status.is_ok_and(|status| status.sigign & 1 != 0)
}
