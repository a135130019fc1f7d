//! The signals that end a program of ours in order.

use std::io;

use procfs::process::Process;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Who wants it to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interruption {
    /// Ctrl-C.
    Interrupt,
    /// SIGTERM.
    Terminate,
    /// The terminal is gone.
    HangUp,
}

impl Interruption {
    /// What shells make of a process that such a signal ended: 128 and its number.
    #[must_use]
    pub const fn exit_status(self) -> u8 {
        match self {
            Self::HangUp => 129,
            Self::Interrupt => 130,
            Self::Terminate => 143,
        }
    }

    /// The signal's name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::HangUp => "SIGHUP",
            Self::Interrupt => "SIGINT",
            Self::Terminate => "SIGTERM",
        }
    }
}

/// Listens from its making on; none is lost between two calls.
#[derive(Debug)]
pub struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hang_up: Option<Signal>,
}

impl Signals {
    /// All three, but SIGHUP where the process was started to ignore it, as by `nohup`: a JVM leaves it ignored then, too.
    ///
    /// # Errors
    /// The runtime cannot listen.
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

    /// SIGINT and SIGTERM: a lost terminal means what it means to any program.
    ///
    /// # Errors
    /// The runtime cannot listen.
    pub fn listen_to_people() -> io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hang_up: None,
        })
    }

    /// The next one.
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

/// To be asked before it is listened to. Where `/proc` does not tell, it is taken for not ignored.
fn is_hang_up_ignored() -> bool {
    let status = Process::myself().and_then(|process| process.status());
    // The lowest bit is signal 1, which is SIGHUP.
    status.is_ok_and(|status| status.sigign & 1 != 0)
}
