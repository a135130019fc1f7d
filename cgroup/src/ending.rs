//! The processes of a cgroup: who they are, their end, their move to another cgroup, and its removal.

use std::collections::BTreeSet;
use std::thread;
use std::time::{Duration, Instant};

use crate::error::CgroupError;
use crate::freezer::PAUSE;
use crate::group::Cgroup;
use crate::process::Handle;
use crate::text::value;
use crate::tree;

/// Rounds of killing what forks while it is killed. With a freezer, the first finds everything.
const KILL_ROUNDS_MAX: usize = 64;
/// Processes that are told at a time: each takes a descriptor until it is.
const CHUNK: usize = 64;

impl Cgroup {
    /// The processes in it and in what they made inside it, zombies left out. Empty when the cgroup is gone.
    ///
    /// # Errors
    /// Something else than its absence.
    pub fn processes(&self) -> Result<Vec<i32>, CgroupError> {
        let Some(first) = self.files().all().next() else {
            return Ok(Vec::new());
        };
        let mut pids = Vec::new();
        tree::visit(first.dir(), &self.name, |dir| {
            match dir.read("cgroup.procs") {
                Ok(text) => pids.extend(text.lines().filter_map(|line| line.parse::<i32>().ok())),
                // Gone meanwhile; or one of threads, whose processes are listed further up.
                Err(error)
                    if matches!(
                        error.errno(),
                        Some(libc::ENOENT | libc::ENODEV | libc::EOPNOTSUPP)
                    ) => {}
                Err(error) => return Err(error),
            }
            Ok(())
        })?;
        // 0: a process of another pid namespace, which nobody here can name.
        pids.retain(|pid| *pid > 0);
        Ok(pids)
    }

    /// Whether a process is in it, zombies left out.
    ///
    /// # Errors
    /// As for [`Cgroup::processes`].
    pub fn is_populated(&self) -> Result<bool, CgroupError> {
        if let Some(folder) = self.files().unified() {
            let events = folder.read_if_there("cgroup.events")?;
            return Ok(events.is_some_and(|events| value(&events, "populated") == Some(1)));
        }
        self.processes().map(|pids| !pids.is_empty())
    }

    /// Signals each of its processes once, except one; how many. What they fork meanwhile may be missed.
    ///
    /// # Errors
    /// As for [`Cgroup::processes`], or no descriptor is left; then some may not have been signalled. A process that is
    /// gone is no error.
    pub fn signal(&self, signal: i32, except: Option<i32>) -> Result<usize, CgroupError> {
        let mut pids = self.processes()?;
        pids.retain(|pid| Some(*pid) != except);
        self.signal_listed(&pids, signal)
    }

    /// Signals those of the processes that are still in it; how many.
    fn signal_listed(&self, pids: &[i32], signal: i32) -> Result<usize, CgroupError> {
        let mut signalled = 0;
        for chunk in pids.chunks(CHUNK) {
            let mut handles = Vec::with_capacity(chunk.len());
            for pid in chunk {
                let handle = Handle::open(*pid).map_err(|source| CgroupError::Io {
                    operation: "open a handle on",
                    path: format!("/proc/{pid}").into(),
                    source,
                })?;
                handles.extend(handle.map(|handle| (*pid, handle)));
            }
            // Whoever is still listed now is who the handle was opened on, or another one that belongs here.
            let mut still = self.processes()?;
            still.sort_unstable();
            let ours = handles
                .iter()
                .filter(|(pid, _)| still.binary_search(pid).is_ok());
            signalled += ours.filter(|(_, handle)| handle.signal(signal)).count();
        }
        Ok(signalled)
    }

    /// SIGKILL to all its processes, frozen or not, so that none can escape by forking. Returns when all are doomed,
    /// not when they are gone ([`Cgroup::wait_empty`]).
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn kill(&self) -> Result<(), CgroupError> {
        if let Some(folder) = self.files().unified() {
            // Linux 5.14.
            match folder.write("cgroup.kill", "1") {
                Ok(()) => return Ok(()),
                // There is no such file, or no such cgroup any more.
                Err(error) if matches!(error.errno(), Some(libc::ENOENT | libc::ENODEV)) => {}
                Err(error) => return Err(error),
            }
        }
        let frozen = self.freezer().is_ok() && self.freeze(PAUSE * 100).is_ok();
        let killed = self.kill_in_rounds(frozen);
        if self.freezer().is_ok() && self.is_populated()? {
            // On v1 a frozen process does not even die.
            self.set_frozen(false)?;
        }
        killed
    }

    /// SIGKILL to all, until a listing has nobody new. What is frozen forks no more, and stays listed on v1.
    fn kill_in_rounds(&self, frozen: bool) -> Result<(), CgroupError> {
        let mut doomed = BTreeSet::new();
        for _round in 0..KILL_ROUNDS_MAX {
            let mut pids = self.processes()?;
            if frozen {
                pids.retain(|pid| doomed.insert(*pid));
            }
            if pids.is_empty() {
                break;
            }
            self.signal_listed(&pids, libc::SIGKILL)?;
        }
        Ok(())
    }

    /// Waits until no process is in it.
    ///
    /// # Errors
    /// [`CgroupError::Late`] when one still is.
    pub fn wait_empty(&self, patience: Duration) -> Result<(), CgroupError> {
        const OPERATION: &str = "become empty";
        match self.files().unified() {
            Some(folder) if folder.has("cgroup.events") => {
                self.wait_event(folder, OPERATION, patience, |events| {
                    value(events, "populated") == Some(0)
                })
            }
            Some(_) | None => self.wait(OPERATION, patience, || {
                self.processes().map(|pids| pids.is_empty())
            }),
        }
    }

    /// Moves at most `max` processes of another cgroup here, in all hierarchies; how many. Whether those go on is this
    /// cgroup's matter from then on ([`Cgroup::set_frozen`]). Memory that they have used stays counted there.
    ///
    /// # Errors
    /// The kernel refuses. What was not moved everywhere is found there by the next call.
    pub fn take_over(&self, from: &Self, max: usize) -> Result<usize, CgroupError> {
        let mut moved = 0;
        for pid in from.processes()?.into_iter().take(max) {
            self.add(pid)?;
            moved += 1;
        }
        Ok(moved)
    }

    /// Moves a process here with all its threads. One that is gone is no error.
    fn add(&self, pid: i32) -> Result<(), CgroupError> {
        let folders: Vec<_> = self.files().all().collect();
        // Last where it is looked for, so that it is found again if one refuses.
        for folder in folders.into_iter().rev() {
            match folder.write("cgroup.procs", &pid.to_string()) {
                Ok(()) => {}
                Err(error) if error.errno() == Some(libc::ESRCH) => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Ends all its processes and removes it, with the cgroups that were made inside it.
    ///
    /// # Errors
    /// What is still there after `patience`.
    pub fn destroy(&self, patience: Duration) -> Result<(), CgroupError> {
        let deadline = Instant::now() + patience;
        loop {
            let failed = match self.remove() {
                Ok(()) => return Ok(()),
                Err(error) => error,
            };
            if Instant::now() >= deadline {
                return Err(failed);
            }
            if self.is_populated()? {
                self.kill()?;
            }
            thread::sleep(PAUSE);
        }
    }

    /// Removes it, with the empty cgroups that were made inside it. Fine if it is not there.
    ///
    /// # Errors
    /// `EBUSY` as long as a process is in it.
    pub fn remove(&self) -> Result<(), CgroupError> {
        for folder in self.files().all() {
            tree::remove(folder.dir(), &self.name)?;
        }
        Ok(())
    }
}
