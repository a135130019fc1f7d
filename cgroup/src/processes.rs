//! The processes of a cgroup: listing, signalling, killing and moving them, and removing the
//! cgroup.

use std::collections::BTreeSet;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::error::CgroupError;
use crate::freezer::PAUSE;
use crate::group::Cgroup;
use crate::pidfd::PidFd;
use crate::text::value;
use crate::tree;

/// Limit on the rounds of killing processes that fork meanwhile. With a freezer the first round
/// finds all.
const KILL_ROUNDS_MAX: usize = 64;
/// Processes signalled at a time. Each takes a file descriptor until it is signalled.
const CHUNK: usize = 64;

impl Cgroup {
    /// Returns the pids in the cgroup and in cgroups made inside it, without those that have ended.
    /// Empty when the cgroup is gone.
    ///
    /// The unified hierarchy lists a process where its first thread is or has ended. So of a
    /// process whose first thread has ended and whose others were moved afterwards, the former
    /// cgroup shows the pid and this one does not.
    ///
    /// # Errors
    /// Any failure to read other than the cgroup's absence.
    pub fn processes(&self) -> Result<Vec<i32>, CgroupError> {
        self.listed_in("cgroup.procs")
    }

    /// Returns the pids of processes that have a running thread here: those that are listed or,
    /// when none is, those that [`Cgroup::processes`] does not show. Empty when the cgroup is gone.
    ///
    /// # Errors
    /// As for [`Cgroup::processes`].
    pub fn running(&self) -> Result<Vec<i32>, CgroupError> {
        if !self.is_populated()? {
            return Ok(Vec::new());
        }
        let listed = self.processes()?;
        if listed.is_empty() && self.files().unified().is_some() {
            return self.processes_of_threads();
        }
        Ok(listed)
    }

    /// Returns the pids of the processes that have a thread here, from the list of threads.
    fn processes_of_threads(&self) -> Result<Vec<i32>, CgroupError> {
        let threads = self.listed_in("cgroup.threads")?;
        let mut pids: Vec<i32> = threads.into_iter().filter_map(process_of).collect();
        pids.sort_unstable();
        pids.dedup();
        Ok(pids)
    }

    fn listed_in(&self, file: &str) -> Result<Vec<i32>, CgroupError> {
        let Some(first) = self.files().all().next() else {
            return Ok(Vec::new());
        };
        let mut pids = Vec::new();
        tree::visit(first.dir(), &self.name, |dir| {
            match dir.read(file) {
                Ok(text) => pids.extend(text.lines().filter_map(|line| line.parse::<i32>().ok())),
                // Removed meanwhile; or a threaded cgroup, whose processes are listed further up.
                Err(error)
                    if matches!(
                        error.errno(),
                        Some(libc::ENOENT | libc::ENODEV | libc::EOPNOTSUPP)
                    ) => {}
                Err(error) => return Err(error),
            }
            Ok(())
        })?;
        // 0 stands for a process of another pid namespace, which cannot be addressed from here.
        pids.retain(|pid| *pid > 0);
        Ok(pids)
    }

    /// Returns whether a thread of a process runs in the cgroup.
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

    /// Signals every process once, apart from `except`, and returns how many. Processes forked
    /// meanwhile may be missed.
    ///
    /// # Errors
    /// As for [`Cgroup::processes`], or no file descriptor is left; then some may not have been
    /// signalled. A process that is gone is no error.
    pub fn signal(&self, signal: i32, except: Option<i32>) -> Result<usize, CgroupError> {
        let mut pids = self.processes()?;
        pids.retain(|pid| Some(*pid) != except);
        self.signal_listed(&pids, signal, Self::processes)
    }

    /// Signals the listed processes that are still in the cgroup, as `list` tells; returns how
    /// many.
    fn signal_listed(
        &self,
        pids: &[i32],
        signal: i32,
        list: impl Fn(&Self) -> Result<Vec<i32>, CgroupError>,
    ) -> Result<usize, CgroupError> {
        // Any other number is no signal's name, and is delivered to none.
        let Some(signal) = Signal::from_named_raw(signal) else {
            return Ok(0);
        };
        let mut signalled = 0;
        for chunk in pids.chunks(CHUNK) {
            let mut handles = Vec::with_capacity(chunk.len());
            for pid in chunk {
                let handle = PidFd::open(*pid).map_err(|source| CgroupError::Io {
                    operation: "open a pidfd for",
                    path: format!("/proc/{pid}").into(),
                    source,
                })?;
                handles.extend(handle.map(|handle| (*pid, handle)));
            }
            // A pid that is still listed belongs to the process behind the handle, or to a newer
            // one that is in this cgroup too.
            let mut still = list(self)?;
            still.sort_unstable();
            let ours = handles
                .iter()
                .filter(|(pid, _)| still.binary_search(pid).is_ok());
            signalled += ours.filter(|(_, handle)| handle.signal(signal)).count();
        }
        Ok(signalled)
    }

    /// Sends SIGKILL to all processes, frozen or not, so that none can escape by forking. Returns
    /// once all have the signal, possibly before they have exited ([`Cgroup::wait_empty`]).
    ///
    /// # Errors
    /// The kernel refuses the write, or a process cannot be signalled.
    pub fn kill(&self) -> Result<(), CgroupError> {
        if let Some(folder) = self.files().unified() {
            // `cgroup.kill` exists since Linux 5.14.
            match folder.write("cgroup.kill", "1") {
                Ok(()) => return self.kill_what_was_passed_by(),
                // The file, or the cgroup itself, does not exist.
                Err(error) if matches!(error.errno(), Some(libc::ENOENT | libc::ENODEV)) => {}
                Err(error) => return Err(error),
            }
        }
        let frozen = self.freezer().is_ok() && self.freeze(PAUSE * 100).is_ok();
        let killed = self.kill_in_rounds(frozen);
        if self.freezer().is_ok() && self.is_populated()? {
            // On v1 a frozen process does not exit before it is thawed.
            self.set_frozen(false)?;
        }
        killed
    }

    /// Sends SIGKILL to each process one by one. `cgroup.kill` signals first threads, so that a
    /// process does not notice whose first thread has ended while others run.
    fn kill_what_was_passed_by(&self) -> Result<(), CgroupError> {
        let left = self.running()?;
        self.signal_listed(&left, libc::SIGKILL, Self::running)?;
        Ok(())
    }

    /// Sends SIGKILL until a listing has no new process. Frozen processes cannot fork, and on v1
    /// they stay listed.
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
            self.signal_listed(&pids, libc::SIGKILL, Self::processes)?;
        }
        Ok(())
    }

    /// Waits until the cgroup holds no process.
    ///
    /// # Errors
    /// [`CgroupError::Timeout`] if it still does after `timeout`.
    pub fn wait_empty(&self, timeout: Duration) -> Result<(), CgroupError> {
        const OPERATION: &str = "become empty";
        match self.files().unified() {
            Some(folder) if folder.has("cgroup.events") => {
                self.wait_event(folder, OPERATION, timeout, |events| {
                    value(events, "populated") == Some(0)
                })
            }
            Some(_) | None => self.wait(OPERATION, timeout, || {
                self.processes().map(|pids| pids.is_empty())
            }),
        }
    }

    /// Moves at most `max` processes of the cgroup `from` here, in all hierarchies, and returns how
    /// many. From then on they are frozen or run as this cgroup does ([`Cgroup::set_frozen`]).
    /// Memory charged before stays charged to `from`.
    ///
    /// # Errors
    /// The kernel refuses. Processes not moved in every hierarchy are found by the next call.
    pub fn move_from(&self, from: &Self, max: usize) -> Result<usize, CgroupError> {
        let mut moved = 0;
        // A process whose first thread has ended stays listed where that was, and is not there.
        if !from.is_populated()? {
            return Ok(moved);
        }
        for pid in from.processes()?.into_iter().take(max) {
            self.add(pid)?;
            moved += 1;
        }
        Ok(moved)
    }

    /// Moves a process here with all its threads. A process that is gone is no error.
    fn add(&self, pid: i32) -> Result<(), CgroupError> {
        let folders: Vec<_> = self.files().all().collect();
        // The hierarchy that `processes` lists comes last, so that a process is found again if
        // another hierarchy refuses it.
        for folder in folders.into_iter().rev() {
            match folder.write("cgroup.procs", &pid.to_string()) {
                Ok(()) => {}
                Err(error) if error.errno() == Some(libc::ESRCH) => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Kills all processes, then removes the cgroup and those made inside it.
    ///
    /// # Errors
    /// The last failure to remove, if the cgroup still exists after `timeout`.
    pub fn destroy(&self, timeout: Duration) -> Result<(), CgroupError> {
        let deadline = Instant::now() + timeout;
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

    /// Removes the cgroup and the empty ones made inside it. A missing cgroup is no error.
    ///
    /// # Errors
    /// `EBUSY` as long as a process is inside.
    pub fn remove(&self) -> Result<(), CgroupError> {
        for folder in self.files().all() {
            tree::remove(folder.dir(), &self.name)?;
        }
        Ok(())
    }
}

/// Returns the process of a thread; `None` when it is gone.
fn process_of(thread: i32) -> Option<i32> {
    let status = std::fs::read_to_string(format!("/proc/{thread}/status")).ok()?;
    let pid = status.lines().find_map(|line| line.strip_prefix("Tgid:"))?;
    pid.trim().parse().ok()
}
