//! The signals that end the quick start.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// Who wants it to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Interruption {
    /// Ctrl-C.
    Interrupt,
    /// SIGTERM.
    Terminate,
    /// The terminal is gone.
    HangUp,
}

impl Interruption {
    /// What shells make of a process that such a signal ended: 128 and its number.
    pub(super) const fn exit_status(self) -> u8 {
        match self {
            Self::HangUp => 129,
            Self::Interrupt => 130,
            Self::Terminate => 143,
        }
    }
}

/// Listens from its making on; none is lost between two calls.
#[derive(Debug)]
pub(super) struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hang_up: Signal,
}

impl Signals {
    pub(super) fn listen() -> io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hang_up: signal(SignalKind::hangup())?,
        })
    }

    /// The next one.
    pub(super) async fn next(&mut self) -> Interruption {
        // Signals lose their order when several are there; the same one counts each time then.
        tokio::select! {
            biased;
            _ = self.interrupt.recv() => Interruption::Interrupt,
            _ = self.terminate.recv() => Interruption::Terminate,
            _ = self.hang_up.recv() => Interruption::HangUp,
        }
    }
}
