//! The keeper: starts the program, and stays for its children.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io;
use std::os::fd::OwnedFd;
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
use crate::last_end::{LastEnd, ended_for_memory};
use crate::link::{Happened, Link, Signals};
use crate::record_file::RecordFile;
use crate::records::{LeftProcess, ProcessIdentity};

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
/// Pause between two attempts to write records that the disk does not take, or to see children that
/// the kernel does not list.
const RETRY_MS: u16 = 1_000;

/// Program to keep.
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
    /// Descriptor that the program inherits, which the arguments name by its number. The keeper,
    /// which may outlive the program, does not hold it any longer.
    pub handed_on: Option<OwnedFd>,
    /// Called once, before the front ends, when the program has left children: the keeper outlives
    /// the service then.
    pub when_left: &'a mut dyn FnMut(),
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
/// [`KeepError`] when the program cannot be started, or its children cannot be listed at its end.
pub fn keep(kept: Kept<'_>) -> Result<(), KeepError> {
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
    let mut records = RecordFile::prepare(kept.folder).map_err(failed("making the records"))?;
    let own_pid = std::process::id().to_string();
    let ended_before = ended_for_memory();
    let program = Command::new(OWN_PROGRAM)
        .arg0(kept.name)
        .args(kept.arguments)
        .arg(own_pid)
        .stdin(Stdio::null())
        .spawn()
        .map_err(failed("starting the program"))?;
    drop(kept.handed_on);
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
    if !orphans.is_empty() {
        // What cannot be recorded now is tried again below.
        let _later = records.begin(&orphans);
        (kept.when_left)();
    }
    let end = LastEnd {
        status,
        out_of_memory: ended_for_memory() > ended_before,
    };
    // An end that the disk does not take counts for nothing.
    let _untold = end.write(kept.folder);
    drop(lock);
    // The front may have died.
    let _died = link.send_end(status);
    if orphans.is_empty() {
        return Ok(());
    }
    release_output();
    Pending::of(orphans, records).record_all(&mut signals);
    Ok(())
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
            Happened::Signals(_) | Happened::Beside | Happened::Nothing => {}
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

/// Children of the program that have not been reaped, and their records.
struct Pending {
    children: BTreeMap<i32, Child>,
    records: RecordFile,
}

struct Child {
    process: ProcessIdentity,
    end: End,
}

enum End {
    /// The child runs.
    NotYet,
    /// The record waits to be written.
    Known,
    /// The record was written at this time.
    Recorded(Instant),
}

impl Pending {
    fn of(left: Vec<LeftProcess>, records: RecordFile) -> Self {
        let child = |LeftProcess { process, .. }: LeftProcess| {
            let end = End::NotYet;
            (process.pid, Child { process, end })
        };
        let children = left.into_iter().map(child).collect();
        Self { children, records }
    }

    /// Records each end, until no child is left and everything is written. Orphans of the children
    /// are reaped unrecorded: the number of records is that of the children at the program's end.
    fn record_all(&mut self, signals: &mut Signals) {
        loop {
            let children = children();
            let mut has_reaped = false;
            for pid in children.iter().flatten() {
                has_reaped |= self.look_at(*pid, Instant::now());
            }
            let is_written = self.write(Instant::now());
            if has_reaped {
                // Perhaps the last one.
                continue;
            }
            if is_written && children.as_ref().is_ok_and(Vec::is_empty) {
                return;
            }
            let mut ends = self.children.values().map(|child| &child.end);
            let wait_ms = if !is_written || children.is_err() {
                Some(RETRY_MS)
            } else {
                let is_due = ends.any(|end| matches!(end, End::Recorded(_)));
                is_due.then_some(REAP_LOOK_MS)
            };
            if signals.wait(None, wait_ms).is_err() {
                std::thread::sleep(Duration::from_millis(RETRY_MS.into()));
            }
        }
    }

    /// Looks at one child; whether it was reaped.
    fn look_at(&mut self, pid: i32, now: Instant) -> bool {
        let Some(child) = self.children.get_mut(&pid) else {
            return reap(pid);
        };
        match child.end {
            End::NotYet => {
                if let Ok(Some(status)) = peek(pid) {
                    self.records.ended(child.process, status);
                    child.end = End::Known;
                }
            }
            End::Known => {}
            End::Recorded(at) => {
                if now.duration_since(at) >= REAP_DELAY {
                    self.children.remove(&pid);
                    return reap(pid);
                }
            }
        }
        false
    }

    /// Writes what is known; whether nothing is left to write.
    fn write(&mut self, now: Instant) -> bool {
        let is_written = self.records.write();
        if is_written {
            for child in self.children.values_mut() {
                if matches!(child.end, End::Known) {
                    child.end = End::Recorded(now);
                }
            }
        }
        is_written
    }
}
