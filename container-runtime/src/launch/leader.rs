//! The first process of a container as its watch sees it: a child of this agent, or one that an
//! earlier agent started and left to its keeper.
//!
//! A child is not reaped before its watch is done, so its pid, and the number of its group, stay
//! its own. The keeper reaps the others, a second after it has recorded their status: their group
//! is signalled by number only right after a look that finds the same process, ended or not.

use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use keeper::{ExitRecords, ProcessIdentity};
use records::ContainerExitStatus;
use tokio::io::unix::{AsyncFd, AsyncFdRegisterError};
use tokio::time::{Instant, sleep, timeout};

use super::blocking::blocking;
use super::process::{open_process, signal_group};
use super::process_tree::Process;
use super::registered::register;
use super::spawn::Leader;
use super::tracer::end_tracers;

/// Longest wait for the record of a status (Hadoop:
/// `yarn.nodemanager.linux-container-executor` … `exit-code-file.timeout-ms`, 2 s).
const RECORD_WAIT: Duration = Duration::from_secs(2);
/// Pause between two looks for it.
const RECORD_LOOK: Duration = Duration::from_millis(5);
/// Longest wait for a tracer to let go of a child that has ended, as strace and gdb do at once.
const TRACER_WAIT: Duration = Duration::from_secs(2);
/// Shortest and longest pause between two looks whether it has.
const TRACER_LOOK: Duration = Duration::from_millis(1);
const TRACER_LOOK_MAX: Duration = Duration::from_millis(50);
/// Time between two tries to end processes of an earlier agent that survive SIGKILL.
const STRANGER_RETRY: Duration = Duration::from_secs(1);

/// Records of the keepers of earlier agents.
#[derive(Clone, Debug)]
pub struct SharedExits(Arc<Mutex<ExitRecords>>);

impl SharedExits {
    /// Shares what was read at the start.
    #[must_use]
    pub fn new(records: ExitRecords) -> Self {
        Self(Arc::new(Mutex::new(records)))
    }

    fn with<T>(&self, act: impl FnOnce(&mut ExitRecords) -> T) -> T {
        // Each change adds a record that was read whole.
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns the pids of the keepers that still have children.
    pub(super) fn keepers(&self) -> Vec<i32> {
        self.with(|records| records.keepers())
    }

    /// Returns the status of a process that has ended, once its keeper has recorded it. `None`: no
    /// keeper lives that could, or it takes too long.
    async fn status(&self, process: ProcessIdentity) -> Option<ContainerExitStatus> {
        let deadline = Instant::now() + RECORD_WAIT;
        loop {
            let shared = self.clone();
            let look = move || {
                shared.with(|records| {
                    // Before the look: what it had written when it ended is seen.
                    let is_last = records.keepers().is_empty();
                    if let Err(error) = records.refresh() {
                        tracing::warn!(%error, "the exit statuses of an earlier run cannot be read");
                    }
                    (records.status(&process), is_last)
                })
            };
            let (status, is_last) = tokio::task::spawn_blocking(look).await.ok()?;
            if status.is_some() || is_last || Instant::now() >= deadline {
                return status.map(ContainerExitStatus);
            }
            sleep(RECORD_LOOK).await;
        }
    }
}

/// Process of an earlier agent's container.
#[derive(Debug)]
pub(super) struct AdoptedLeader {
    process: ProcessIdentity,
    /// Readable once it has ended; `None`: it had ended before.
    handle: Option<AsyncFd<OwnedFd>>,
    exits: Option<SharedExits>,
}

impl AdoptedLeader {
    /// Takes over a process, in the context of the runtime. One that cannot be watched counts as
    /// ended.
    pub(super) fn of(process: ProcessIdentity, exits: Option<SharedExits>) -> Self {
        let handle = open_process(process.pid).ok();
        // The handle may be on a later process with the same pid; the start time tells.
        let handle = handle.filter(|_| is_same(process));
        let handle = handle.and_then(|handle| {
            let refused = |error: &AsyncFdRegisterError<OwnedFd>| {
                let pid = process.pid;
                tracing::error!(pid, %error, "a container of an earlier run cannot be watched");
            };
            register(handle).inspect_err(refused).ok()
        });
        Self {
            process,
            handle,
            exits,
        }
    }
}

/// Returns whether the process still exists, ended or not.
fn is_same(process: ProcessIdentity) -> bool {
    Process::read(process.pid).is_some_and(|now| now.start_time == process.start_time)
}

/// Signals the group of a process that was not started by this agent, if it still exists.
pub(super) fn signal_group_of(process: ProcessIdentity, signal: i32) -> bool {
    is_same(process) && signal_group(process.pid, signal)
}

/// Kills processes of earlier agents with their groups, and those that keep them from ending by
/// tracing them, and returns what waits until the last of them is gone. For the start, in the
/// context of the runtime: their keeper has them, so their numbers are not others' for a second
/// after their ends.
pub fn end_leftovers(leftovers: &[ProcessIdentity]) -> impl Future<Output = ()> + Send + use<> {
    let watch = |leftover: &ProcessIdentity| {
        let watched = WatchedLeader::Adopted(AdoptedLeader::of(*leftover, None));
        if signal_group_of(*leftover, libc::SIGKILL) {
            let pid = leftover.pid;
            tracing::warn!(
                pid,
                "killed a process of an unknown container of the last agent"
            );
        }
        watched
    };
    let watched: Vec<WatchedLeader> = leftovers.iter().map(watch).collect();
    async move {
        for leader in watched {
            while timeout(STRANGER_RETRY, leader.ended()).await.is_err() {
                leader.signal_group(libc::SIGKILL);
                let (pid, agent) = (leader.pid(), std::process::id().cast_signed());
                blocking(move || end_tracers(&[pid], agent)).await;
            }
        }
    }
}

/// Returns the status of a child that has ended, once no tracer has it any more. `None`: somebody
/// else has reaped it, or the tracer takes too long.
async fn status_of_child(leader: &Leader) -> Option<ContainerExitStatus> {
    let deadline = Instant::now() + TRACER_WAIT;
    let mut pause = TRACER_LOOK;
    loop {
        match leader.peek() {
            Ok(Some(status)) => return Some(status),
            Ok(None) if Instant::now() < deadline => {
                sleep(pause).await;
                pause = (pause * 2).min(TRACER_LOOK_MAX);
            }
            Ok(None) => return None,
            Err(error) => {
                tracing::debug!(pid = leader.pid(), %error, "no status");
                return None;
            }
        }
    }
}

/// A container's first process.
#[derive(Debug)]
pub(super) enum WatchedLeader {
    /// Child of this agent.
    Child(AsyncFd<Leader>),
    /// Started by an earlier agent.
    Adopted(AdoptedLeader),
}

impl WatchedLeader {
    pub(super) fn pid(&self) -> i32 {
        match self {
            Self::Child(leader) => leader.get_ref().pid(),
            Self::Adopted(leader) => leader.process.pid,
        }
    }

    /// Waits until it has ended.
    pub(super) async fn ended(&self) {
        let ended = match self {
            Self::Child(leader) => leader.readable().await.map(drop),
            Self::Adopted(AdoptedLeader {
                handle: Some(handle),
                ..
            }) => handle.readable().await.map(drop),
            Self::Adopted(AdoptedLeader { handle: None, .. }) => Ok(()),
        };
        if let Err(error) = ended {
            // Only when the runtime is shutting down, and then this task is dropped at its next
            // wait.
            tracing::debug!(%error, "cannot wait for a process");
            std::future::pending::<()>().await;
        }
    }

    /// Returns the status of a leader that has ended; `None`: nobody knows it, or not in time.
    pub(super) async fn status(&self) -> Option<ContainerExitStatus> {
        match self {
            Self::Child(leader) => status_of_child(leader.get_ref()).await,
            Self::Adopted(AdoptedLeader { process, exits, .. }) => {
                exits.as_ref()?.status(*process).await
            }
        }
    }

    /// Signals its process group, if that is certainly its own.
    pub(super) fn signal_group(&self, signal: i32) {
        match self {
            Self::Child(leader) => signal_group(leader.get_ref().pid(), signal),
            Self::Adopted(leader) => signal_group_of(leader.process, signal),
        };
    }
}
