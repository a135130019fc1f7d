//! One worker as a process: its start, the sockets of its sessions, and its end with the reason.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, IoSlice, Read as _, Write as _};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::{Duration, Instant};

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sys::signal::Signal;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use rustix::process::{Pid, PidfdFlags, pidfd_open, pidfd_send_signal};

use crate::COMMAND;
use crate::frame;
use crate::message::{SECRET, SESSION, Setup};
use crate::security::Secret;

/// Time that a new worker has to take its orders.
const START_PATIENCE: Duration = Duration::from_secs(10);

/// Time between the end of a worker's sockets and that of the worker, which the kernel takes down
/// one after the other.
const END_PATIENCE: Duration = Duration::from_secs(1);

/// Time after SIGKILL within which a process ends, unless a disk holds it.
const KILL_PATIENCE: Duration = Duration::from_secs(2);

/// Bytes of a worker's last words that a reason tells.
const WORDS_MAX: usize = 300;

/// How the program starts itself as a worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// Path of the program.
    pub path: PathBuf,
    /// Arguments with which it runs [`serve`](crate::serve()).
    pub arguments: Vec<OsString>,
}

impl Program {
    /// Returns this very program with [`COMMAND`]. It stays the same if its file is replaced.
    #[must_use]
    pub fn own() -> Self {
        Self {
            path: "/proc/self/exe".into(),
            arguments: vec![COMMAND.into()],
        }
    }
}

/// A worker's process.
#[derive(Debug)]
pub(crate) struct Process {
    pidfd: OwnedFd,
    control: Mutex<UnixStream>,
    ended: Mutex<Ended>,
    /// Whether a session was opened.
    has_served: AtomicBool,
    /// Secret that the worker has.
    secret: Mutex<Option<Secret>>,
}

#[derive(Debug)]
struct Ended {
    child: Child,
    /// Why the process has ended or is of no use; the first reason stays.
    reason: Option<String>,
    is_reaped: bool,
}

impl Process {
    /// Starts a worker and gives it its orders. The calling thread must live as long as the worker:
    /// the kernel ends a process with the thread that started it.
    pub(crate) fn start(
        program: &Program,
        label: &str,
        environment: Vec<(&'static str, OsString)>,
        setup: &Setup,
    ) -> io::Result<Self> {
        let (control, other) = UnixStream::pair()?;
        let mut child = Command::new(&program.path)
            .arg0("nm-agent")
            .args(&program.arguments)
            .arg(label)
            .env_clear()
            .envs(environment)
            .stdin(OwnedFd::from(other))
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()?;
        let opened = Pid::from_raw(child.id().cast_signed())
            .ok_or(io::Error::other("a process without id"))
            .and_then(|pid| Ok(pidfd_open(pid, PidfdFlags::empty())?));
        let pidfd = match opened {
            Ok(pidfd) => pidfd,
            Err(error) => {
                child.kill()?;
                child.wait()?;
                return Err(error);
            }
        };
        let process = Self {
            pidfd,
            control: Mutex::new(control),
            ended: Mutex::new(Ended {
                child,
                reason: None,
                is_reaped: false,
            }),
            has_served: AtomicBool::new(false),
            secret: Mutex::default(),
        };
        let deadline = Instant::now() + START_PATIENCE;
        let sent = frame::send(&process.control(), &setup.encode(), Some(deadline));
        if let Err(error) = sent {
            let reason = process.give_up(&error);
            return Err(io::Error::other(reason));
        }
        Ok(process)
    }

    fn control(&self) -> MutexGuard<'_, UnixStream> {
        self.control.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ended(&self) -> MutexGuard<'_, Ended> {
        self.ended.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens a session.
    pub(crate) fn open_session(&self) -> io::Result<UnixStream> {
        let (session, other) = UnixStream::pair()?;
        self.hand_over(SESSION, other.as_fd())?;
        Ok(session)
    }

    /// Gives the worker a secret, unless it has it already: sessions that are opened afterwards
    /// use it, and new connections of those before.
    pub(crate) fn give(&self, secret: &Secret) -> io::Result<()> {
        let mut given = self.secret.lock().unwrap_or_else(PoisonError::into_inner);
        if given.as_ref().is_some_and(|given| given.0 == secret.0) {
            return Ok(());
        }
        let mut file = File::from(memfd_create("secret", MemfdFlags::CLOEXEC)?);
        file.write_all(&secret.0)?;
        self.hand_over(SECRET, file.as_fd())?;
        *given = Some(secret.clone());
        Ok(())
    }

    /// Sends a descriptor, with a byte that tells what it is.
    fn hand_over(&self, what: u8, descriptor: BorrowedFd<'_>) -> io::Result<()> {
        let descriptors = [descriptor];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        if !ancillary.push(SendAncillaryMessage::ScmRights(&descriptors)) {
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        let byte = [what];
        let parts = [IoSlice::new(&byte)];
        // A worker that takes no sessions is of no use: nothing waits for it.
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        sendmsg(&*self.control(), &parts, &mut ancillary, flags)?;
        Ok(())
    }

    /// Records that a session was opened.
    pub(crate) fn serves(&self) {
        self.has_served.store(true, Ordering::Relaxed);
    }

    /// Returns whether a session was opened.
    pub(crate) fn has_served(&self) -> bool {
        self.has_served.load(Ordering::Relaxed)
    }

    /// Returns whether the process has ended.
    pub(crate) fn has_ended(&self) -> bool {
        self.wait(Duration::ZERO)
    }

    fn wait(&self, limit: Duration) -> bool {
        let deadline = Instant::now() + limit;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let timeout = Timespec::try_from(left).ok();
            let mut polled = [PollFd::new(&self.pidfd, PollFlags::IN)];
            match poll(&mut polled, timeout.as_ref()) {
                Err(rustix::io::Errno::INTR) => {}
                Ok(0) | Err(_) => return false,
                Ok(_) => return true,
            }
        }
    }

    /// Ends the process because a session has failed, and returns the reason for people.
    pub(crate) fn give_up(&self, failure: &io::Error) -> String {
        let mut ended = self.ended();
        if let Some(reason) = &ended.reason {
            return reason.clone();
        }
        let is_cut = matches!(
            failure.kind(),
            io::ErrorKind::UnexpectedEof
                | io::ErrorKind::BrokenPipe
                | io::ErrorKind::ConnectionReset
        );
        let ended_itself = is_cut && self.wait(END_PATIENCE);
        if !ended_itself {
            self.kill();
        }
        let status = self.reap(&mut ended);
        let words = last_words(&mut ended.child);
        let reason = match status {
            Some(status) if ended_itself => reason_of(status, &words),
            _ if is_cut => format!("its file worker closed the connection{words}"),
            _ if failure.kind() == io::ErrorKind::TimedOut => {
                "its file worker did not answer in time".to_owned()
            }
            _ => format!("its file worker broke the protocol: {failure}"),
        };
        ended.reason = Some(reason.clone());
        reason
    }

    fn kill(&self) {
        // Fails for a process that has ended.
        let _ended = pidfd_send_signal(&self.pidfd, rustix::process::Signal::KILL);
    }

    fn reap(&self, ended: &mut Ended) -> Option<ExitStatus> {
        if !self.wait(KILL_PATIENCE) {
            return None;
        }
        ended.is_reaped = true;
        ended.child.wait().ok()
    }

    /// Ends the process. Returns whether it has ended: one that a disk holds has not.
    pub(crate) fn end(&self) -> bool {
        // Somebody else is about to end it: nobody waits here for that.
        let mut ended = match self.ended.try_lock() {
            Ok(ended) => ended,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return false,
        };
        if ended.is_reaped {
            return true;
        }
        self.kill();
        let _status = self.reap(&mut ended);
        ended
            .reason
            .get_or_insert_with(|| "its file worker was ended".to_owned());
        ended.is_reaped
    }
}

fn reason_of(status: ExitStatus, words: &str) -> String {
    let signal = status.signal().map(|number| {
        let name = Signal::try_from(number).map_or("unknown", Signal::as_str);
        format!("signal {number} ({name})")
    });
    let how = signal.unwrap_or_else(|| format!("status {}", status.code().unwrap_or(-1)));
    format!("its file worker ended with {how}{words}")
}

/// Returns what an ended process has written to standard error, as the end of a sentence.
fn last_words(child: &mut Child) -> String {
    let Some(mut stderr) = child.stderr.take() else {
        return String::new();
    };
    let mut bytes = [0; 4096];
    // Somebody else may hold the pipe: nothing waits for its end.
    let read = fcntl(&stderr, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))
        .map_err(io::Error::from)
        .and_then(|_| stderr.read(&mut bytes));
    let bytes = bytes.get(..read.unwrap_or(0)).unwrap_or_default();
    let text = String::from_utf8_lossy(bytes);
    let lines = text.lines().map(str::trim);
    // Advice of the runtime's is for programmers.
    let words = lines.filter(|line| !line.is_empty() && !line.starts_with("note:"));
    let words = words.take(2);
    let words = words.collect::<Vec<_>>().join(": ");
    let printable = words.chars().filter(|char| !char.is_control());
    let words: String = printable.take(WORDS_MAX).collect();
    if words.is_empty() {
        words
    } else {
        format!(": {words}")
    }
}
