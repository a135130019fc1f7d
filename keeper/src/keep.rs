//! The keeper: starts the program, and stays for its children.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::prctl;
use nix::sys::signal::{SigSet, Signal, kill};
use nix::unistd::{Pid, dup2_stderr, dup2_stdin, dup2_stdout, setsid};
use thiserror::Error;

use crate::children::{children, describe, peek, reap};
use crate::front::OWN_PROGRAM;
use crate::link::{Happened, Link, Signals};
use crate::records::{LeftProcess, ProcessIdentity, RecordFile};

/// File that a keeper locks from the start of its program until its children are recorded. So the
/// next program never begins between the two.
const LOCK: &str = "keeper.lock";
/// Longest wait for an earlier keeper: its program dies at once, and recording takes milliseconds.
const LOCK_PATIENCE: Duration = Duration::from_secs(30);
const LOCK_RETRY_MS: u16 = 20;
/// Time from the record of an end until the process is reaped. Until then its pid, and the number
/// of its process group, cannot be given to another process, so whoever has just seen it run may
/// signal it by number.
const REAP_DELAY: Duration = Duration::from_secs(1);
const REAP_LOOK_MS: u16 = 250;

/// Program to keep.
#[derive(Debug)]
pub struct Kept<'a> {
    /// Folder for the records, made if it does not exist.
    pub folder: &'a Path,
    /// Name of the program, as it is to show in lists of processes.
    pub name: &'a str,
    /// Arguments with which this program is started once more, to be the one that is kept. The
    /// pid of the keeper is added, for [`crate::die_with_parent`].
    pub arguments: &'a [OsString],
    /// Environment variable to copy from each child into the records.
    pub variable: &'a str,
}

/// Reason for which nothing could be kept.
#[derive(Debug, Error)]
pub enum KeepError {
    /// Another program holds the folder.
    #[error("another agent runs with {}", folder.display())]
    InUse {
        /// Folder of the records.
        folder: PathBuf,
    },
    /// The operating system refuses.
    #[error("{doing}")]
    System {
        /// Operation that failed.
        doing: &'static str,
        /// Cause.
        #[source]
        source: io::Error,
    },
}

fn failed<E: Into<io::Error>>(doing: &'static str) -> impl FnOnce(E) -> KeepError {
    move |error| KeepError::System {
        doing,
        source: error.into(),
    }
}

/// Is the keeper: starts the program, tells the [`crate::front`] its end, and returns when its last
/// child has ended. For a process whose standard input is the link to the front, with one thread.
///
/// # Errors
/// [`KeepError`] when the program cannot be started, or its children cannot be recorded.
pub fn keep(kept: &Kept<'_>) -> Result<(), KeepError> {
    let mut received = SigSet::empty();
    // The front gets what is meant for the program. A service manager that ends every process of
    // the service tells the program too.
    for signal in [
        Signal::SIGCHLD,
        Signal::SIGTERM,
        Signal::SIGINT,
        Signal::SIGHUP,
    ] {
        received.add(signal);
    }
    let mut signals = Signals::receive(&received).map_err(failed("receiving signals"))?;
    // Out of the reach of the terminal. Fails for the leader of a process group, which has that
    // already.
    let _is_leader = setsid();
    prctl::set_child_subreaper(true).map_err(failed("becoming a subreaper"))?;
    let mut link = Link::of_standard_input().map_err(failed("taking the link to the front"))?;
    let Some(lock) = lock(kept.folder, &mut signals, &link)? else {
        return Ok(());
    };
    let own_pid = std::process::id().to_string();
    let program = Command::new(OWN_PROGRAM)
        .arg0(kept.name)
        .args(kept.arguments)
        .arg(own_pid)
        .stdin(Stdio::null())
        .spawn()
        .map_err(failed("starting the program"))?;
    let pid = i32::try_from(program.id()).map_err(|_| KeepError::InUse {
        folder: kept.folder.to_owned(),
    })?;
    let status = wait_for_program(pid, &mut signals, &mut link)
        .map_err(failed("waiting for the program"))?;
    reap(pid);
    // The kernel has given its children to this process before it showed its end.
    let orphans = children().map_err(failed("listing the children"))?;
    let orphans: Vec<LeftProcess> = orphans
        .into_iter()
        .filter_map(|pid| describe(pid, kept.variable))
        .collect();
    let records = (!orphans.is_empty())
        .then(|| RecordFile::create(kept.folder, &orphans))
        .transpose();
    drop(lock);
    // The front may have died.
    let _died = link.send_end(status);
    let Some(records) = records.map_err(failed("recording the children"))? else {
        return Ok(());
    };
    release_output();
    let mut pending = Pending::of(orphans);
    pending
        .record_all(records, &mut signals)
        .map_err(failed("waiting for the children"))
}

/// Takes the lock of the folder, or `None` when the front has died meanwhile.
fn lock(folder: &Path, signals: &mut Signals, link: &Link) -> Result<Option<File>, KeepError> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)
        .map_err(failed("making the folder of the records"))?;
    let mut options = OpenOptions::new();
    let options = options.write(true).create(true).truncate(false).mode(0o600);
    let file = options
        .open(folder.join(LOCK))
        .map_err(failed("opening the lock of the records"))?;
    let deadline = Instant::now() + LOCK_PATIENCE;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(Some(file)),
            Err(TryLockError::Error(error)) => {
                return Err(failed("locking the folder of the records")(error));
            }
            Err(TryLockError::WouldBlock) if Instant::now() >= deadline => {
                let folder = folder.to_owned();
                return Err(KeepError::InUse { folder });
            }
            Err(TryLockError::WouldBlock) => {}
        }
        let happened = signals.wait(Some(link.as_fd()), Some(LOCK_RETRY_MS));
        if matches!(happened, Ok(Happened::Link)) {
            // Nothing was started yet: a signal ends it like the front's death.
            return Ok(None);
        }
    }
}

/// Waits for the end of the program, which gets the front's signals and dies with the front.
/// Returns its status.
fn wait_for_program(pid: i32, signals: &mut Signals, link: &mut Link) -> io::Result<i32> {
    let program = Pid::from_raw(pid);
    let mut front_lives = true;
    loop {
        if let Some(status) = peek(pid)? {
            return Ok(status);
        }
        match signals.wait(front_lives.then(|| link.as_fd()), None)? {
            Happened::Link => {
                let signal = link.read_signal().unwrap_or(None);
                front_lives = signal.is_some();
                // It is not reaped yet, so the pid is its own.
                let _ended = kill(program, signal.unwrap_or(Signal::SIGKILL));
            }
            Happened::Signals(_) | Happened::Nothing => {}
        }
    }
}

/// Lets go of the standard streams, whose readers may wait for their end.
fn release_output() {
    if let Ok(null) = OpenOptions::new().read(true).write(true).open("/dev/null") {
        let _closed = dup2_stdin(&null);
        let _closed = dup2_stdout(&null);
        let _closed = dup2_stderr(&null);
    }
}

/// Children of the program, by pid: those that have not been reaped.
struct Pending {
    processes: BTreeMap<i32, (ProcessIdentity, Option<Instant>)>,
}

impl Pending {
    fn of(left: Vec<LeftProcess>) -> Self {
        let process = |left: LeftProcess| (left.process.pid, (left.process, None));
        let processes = left.into_iter().map(process).collect();
        Self { processes }
    }

    /// Records each end, until no child is left. Orphans of the children are reaped unrecorded: the
    /// number of records is that of the children at the program's end.
    fn record_all(&mut self, mut records: RecordFile, signals: &mut Signals) -> io::Result<()> {
        loop {
            let children = children()?;
            if children.is_empty() {
                return Ok(());
            }
            let now = Instant::now();
            let mut has_reaped = false;
            for pid in children {
                has_reaped |= self.look_at(pid, &mut records, now)?;
            }
            if has_reaped {
                // Perhaps the last one.
                continue;
            }
            let mut recorded = self.processes.values().map(|(_, recorded)| recorded);
            let wait_ms = recorded.any(Option::is_some).then_some(REAP_LOOK_MS);
            signals.wait(None, wait_ms)?;
        }
    }

    /// Looks at one child; whether it was reaped.
    fn look_at(&mut self, pid: i32, records: &mut RecordFile, now: Instant) -> io::Result<bool> {
        match self.processes.get_mut(&pid) {
            None => return Ok(reap(pid)),
            Some((_, Some(recorded))) => {
                if now.duration_since(*recorded) >= REAP_DELAY {
                    self.processes.remove(&pid);
                    return Ok(reap(pid));
                }
            }
            Some((process, recorded @ None)) => {
                if let Some(status) = peek(pid)? {
                    records.ended(*process, status)?;
                    *recorded = Some(now);
                }
            }
        }
        Ok(false)
    }
}
