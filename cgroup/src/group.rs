//! One container's cgroup: limit, freeze, read, end, remove.

use std::io::Read as _;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::dir::{Dir, FILE_READ_MAX};
use crate::error::CgroupError;
use crate::layout::Controller;
use crate::limits::{Limits, apply};
use crate::place::{Files, Folder, Kind, Places};
use crate::process::Handle;
use crate::text::{Pressure, value};
use crate::usage::{MemoryEvents, Sampler};

/// Between two looks at what the kernel does not tell of by itself, or tells of late.
const PAUSE: Duration = Duration::from_millis(1);
/// Rounds of killing what forks while it is killed. With a freezer, the first finds everything.
const KILL_ROUNDS_MAX: usize = 64;
/// Cgroups that a container may have made inside its own and that are still looked into. What has more is not removed.
const NESTED_MAX: usize = 1_024;
/// How deep they may be nested.
const DEPTH_MAX: usize = 16;

/// What a cgroup waits for ([`Cgroup::pressure`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resource {
    /// Processor time.
    Cpu,
    /// Memory being reclaimed.
    Memory,
    /// Devices.
    Io,
}

impl Resource {
    pub(crate) const fn file(self) -> &'static str {
        match self {
            Self::Cpu => "cpu.pressure",
            Self::Memory => "memory.pressure",
            Self::Io => "io.pressure",
        }
    }
}

/// A cgroup for processes, made by [`crate::Parent::create`]. It stays when this value is dropped.
#[derive(Clone, Debug)]
pub struct Cgroup {
    places: Places,
    name: String,
}

impl Cgroup {
    pub(crate) fn new(places: Places, name: String) -> Self {
        Self { places, name }
    }

    pub(crate) fn files(&self) -> Files<'_> {
        Files::below(&self.places, &self.name)
    }

    /// Its name below its parent.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its directories, for messages; the unified hierarchy's first.
    #[must_use]
    pub fn paths(&self) -> Vec<PathBuf> {
        self.files().all().map(|folder| folder.path("")).collect()
    }

    /// Changes its limits.
    ///
    /// # Errors
    /// The first that the kernel refuses; those after it are not tried.
    pub fn apply(&self, limits: &Limits) -> Result<(), CgroupError> {
        apply(self.files(), limits)
    }

    /// What has happened to its memory.
    ///
    /// # Errors
    /// A file that cannot be read.
    pub fn memory_events(&self) -> Result<MemoryEvents, CgroupError> {
        MemoryEvents::read(self.files())
    }

    /// Opens what [`Sampler::read`] reads.
    ///
    /// # Errors
    /// A file that cannot be opened.
    pub fn sampler(&self) -> Result<Sampler, CgroupError> {
        Sampler::open(self.files())
    }

    /// How long its tasks waited for a resource; `None` where the kernel does not say (PSI, unified hierarchy only).
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn pressure(&self, resource: Resource) -> Result<Option<Pressure>, CgroupError> {
        pressure(self.files(), resource)
    }

    /// Times that a fork was refused for `pids_max`; `None`: no hierarchy tells.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn refused_forks(&self) -> Result<Option<u64>, CgroupError> {
        match self.files().controller(Controller::Pids) {
            None => Ok(None),
            Some(folder) => Ok(folder
                .read_if_there("pids.events")?
                .and_then(|text| value(&text, "max"))),
        }
    }

    /// Presses memory back, at most so many bytes; `false` where the kernel cannot (v1, or before Linux 5.19). May take
    /// as long as writing that much to swap.
    ///
    /// # Errors
    /// The kernel refuses otherwise than by finding less than that.
    pub fn reclaim(&self, bytes: u64) -> Result<bool, CgroupError> {
        let Some(folder) = self.files().controller(Controller::Memory) else {
            return Ok(false);
        };
        match folder.write_if_there("memory.reclaim", &bytes.to_string()) {
            Ok(there) => Ok(there),
            // It found less than was asked for.
            Err(error) if error.errno() == Some(libc::EAGAIN) => Ok(true),
            Err(error) => Err(error),
        }
    }

    /// Stops all its processes, and returns when all have stopped.
    ///
    /// # Errors
    /// [`CgroupError::NotThere`] where nothing can freeze; [`CgroupError::Late`] when they have not stopped within
    /// `patience` (one that waits for a device cannot be), and then they run again.
    pub fn freeze(&self, patience: Duration) -> Result<(), CgroupError> {
        self.set_frozen(true)?;
        let frozen = self.wait_frozen(true, patience);
        if frozen.is_err() {
            self.set_frozen(false)?;
        }
        frozen
    }

    /// Lets its processes go on. Does nothing if they do.
    ///
    /// # Errors
    /// As for [`Cgroup::freeze`].
    pub fn thaw(&self, patience: Duration) -> Result<(), CgroupError> {
        self.set_frozen(false)?;
        self.wait_frozen(false, patience)
    }

    /// Whether its processes are stopped, all of them.
    ///
    /// # Errors
    /// As for [`Cgroup::freeze`].
    pub fn is_frozen(&self) -> Result<bool, CgroupError> {
        let folder = self.freezer()?;
        match folder.kind {
            Kind::V2 => Ok(value(&folder.read("cgroup.events")?, "frozen") == Some(1)),
            Kind::V1 => Ok(folder.read("freezer.state")?.trim() == "FROZEN"),
        }
    }

    fn freezer(&self) -> Result<Folder<'_>, CgroupError> {
        let unified = self.files().unified();
        unified
            .or_else(|| self.files().controller(Controller::Freezer))
            .ok_or(CgroupError::NotThere {
                operation: "freeze",
            })
    }

    fn set_frozen(&self, frozen: bool) -> Result<(), CgroupError> {
        let folder = self.freezer()?;
        match (folder.kind, frozen) {
            (Kind::V2, true) => folder.write("cgroup.freeze", "1"),
            (Kind::V2, false) => folder.write("cgroup.freeze", "0"),
            (Kind::V1, true) => folder.write("freezer.state", "FROZEN"),
            (Kind::V1, false) => folder.write("freezer.state", "THAWED"),
        }
    }

    fn wait_frozen(&self, frozen: bool, patience: Duration) -> Result<(), CgroupError> {
        let operation = if frozen { "freeze" } else { "thaw" };
        let folder = self.freezer()?;
        match folder.kind {
            Kind::V2 => {
                let wanted = Some(u64::from(frozen));
                self.wait_event(folder, operation, patience, |events| {
                    value(events, "frozen") == wanted
                })
            }
            Kind::V1 => {
                let wanted = if frozen { "FROZEN" } else { "THAWED" };
                // Reading is what makes the kernel look again.
                self.wait(operation, patience, || {
                    Ok(folder.read("freezer.state")?.trim() == wanted)
                })
            }
        }
    }

    /// Waits for what `cgroup.events` says. The kernel wakes us, but may hold a second message back for 10 ms.
    fn wait_event(
        &self,
        folder: Folder<'_>,
        operation: &'static str,
        patience: Duration,
        holds: impl Fn(&str) -> bool,
    ) -> Result<(), CgroupError> {
        const EVENTS: &str = "cgroup.events";
        let file = folder.open(EVENTS)?;
        let mut buffer = [0; 256];
        let deadline = Instant::now() + patience;
        loop {
            let length = file
                .read_at(&mut buffer, 0)
                .map_err(|source| CgroupError::Io {
                    operation: "read",
                    path: folder.path(EVENTS),
                    source,
                })?;
            if holds(&String::from_utf8_lossy(&buffer[..length])) {
                return Ok(());
            }
            if Instant::now() >= deadline {
                return Err(self.late(operation, patience));
            }
            wait_for_message(file.as_fd());
        }
    }

    fn wait(
        &self,
        operation: &'static str,
        patience: Duration,
        holds: impl Fn() -> Result<bool, CgroupError>,
    ) -> Result<(), CgroupError> {
        let deadline = Instant::now() + patience;
        loop {
            if holds()? {
                return Ok(());
            }
            if Instant::now() >= deadline {
                return Err(self.late(operation, patience));
            }
            thread::sleep(PAUSE);
        }
    }

    fn late(&self, operation: &'static str, waited: Duration) -> CgroupError {
        CgroupError::Late {
            operation,
            name: self.name.clone(),
            waited,
        }
    }

    /// The processes in it and in what they made inside it, zombies left out. Empty when the cgroup is gone.
    ///
    /// # Errors
    /// Something else than its absence.
    pub fn processes(&self) -> Result<Vec<i32>, CgroupError> {
        let Some(first) = self.files().all().next() else {
            return Ok(Vec::new());
        };
        let mut pids = Vec::new();
        for below in nested(first.dir(), &self.name)? {
            let Some(text) = first
                .dir()
                .read_if_there(&format!("{below}/cgroup.procs"))?
            else {
                continue;
            };
            pids.extend(text.lines().filter_map(|line| line.parse::<i32>().ok()));
        }
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
    /// As for [`Cgroup::processes`]. A process that is gone is no error.
    pub fn signal(&self, signal: i32, except: Option<i32>) -> Result<usize, CgroupError> {
        let mut handles = Vec::new();
        for pid in self.processes()? {
            if Some(pid) != except
                && let Some(handle) = Handle::open(pid)
            {
                handles.push((pid, handle));
            }
        }
        if handles.is_empty() {
            return Ok(0);
        }
        // Whoever is still listed now is who the handle was opened on, or another one that belongs here.
        let mut still = self.processes()?;
        still.sort_unstable();
        let ours = handles
            .iter()
            .filter(|(pid, _)| still.binary_search(pid).is_ok());
        Ok(ours.filter(|(_, handle)| handle.signal(signal)).count())
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
        let mut killed = Ok(0);
        for _round in 0..KILL_ROUNDS_MAX {
            killed = self.signal(libc::SIGKILL, None);
            if frozen || matches!(killed, Ok(0) | Err(_)) {
                break;
            }
        }
        if self.freezer().is_ok() && self.is_populated()? {
            // On v1 a frozen process does not even die.
            self.set_frozen(false)?;
        }
        killed.map(drop)
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

    /// Moves all processes of another cgroup here, in all hierarchies. Memory that they have used stays counted there
    /// on v2. A frozen cgroup's processes stay frozen.
    ///
    /// # Errors
    /// The kernel refuses, or they fork faster than they are moved.
    pub fn take_over(&self, from: &Self) -> Result<(), CgroupError> {
        if from.is_frozen().unwrap_or(false) {
            self.set_frozen(true)?;
        }
        for _round in 0..KILL_ROUNDS_MAX {
            let pids = from.processes()?;
            if pids.is_empty() {
                return Ok(());
            }
            for pid in pids {
                self.add(pid)?;
            }
        }
        Err(from.late("be moved", Duration::ZERO))
    }

    /// Moves a process here with all its threads. One that is gone is no error.
    fn add(&self, pid: i32) -> Result<(), CgroupError> {
        for folder in self.files().all() {
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
            // Deepest first.
            for below in nested(folder.dir(), &self.name)?.iter().rev() {
                folder.dir().remove(below)?;
            }
        }
        Ok(())
    }
}

/// A cgroup's pressure file.
pub(crate) fn pressure(
    files: Files<'_>,
    resource: Resource,
) -> Result<Option<Pressure>, CgroupError> {
    let Some(folder) = files.unified() else {
        return Ok(None);
    };
    let file = resource.file();
    let Ok(open) = folder.open(file) else {
        return Ok(None);
    };
    let mut text = String::new();
    match open.take(FILE_READ_MAX).read_to_string(&mut text) {
        Ok(_) => Ok(Pressure::parse(&text)),
        // Switched off at boot or for this cgroup.
        Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => Ok(None),
        Err(source) => Err(CgroupError::Io {
            operation: "read",
            path: folder.path(file),
            source,
        }),
    }
}

/// A directory and the directories in it, each before what is in it, by their names below `dir`. One that is gone
/// leaves nothing.
fn nested(dir: &Dir, name: &str) -> Result<Vec<String>, CgroupError> {
    let mut found = vec![name.to_owned()];
    let (mut next, mut depth_end, mut depth) = (0, 1, 0);
    while next < found.len() {
        if next == depth_end {
            depth += 1;
            depth_end = found.len();
        }
        let below = match dir.open_dir(&found[next]) {
            Ok(open) if depth < DEPTH_MAX => open.directories(NESTED_MAX)?,
            Ok(_) => Vec::new(),
            Err(error) if error.errno() == Some(libc::ENOENT) => Vec::new(),
            Err(error) => return Err(error),
        };
        for child in below {
            if found.len() >= NESTED_MAX {
                return Ok(found);
            }
            found.push(format!("{}/{child}", found[next]));
        }
        next += 1;
    }
    Ok(found)
}

/// Until the kernel has something to say of a file, or a moment has passed.
fn wait_for_message(file: BorrowedFd<'_>) {
    let mut files = [PollFd::new(file, PollFlags::POLLPRI)];
    let timeout = PollTimeout::try_from(PAUSE).unwrap_or(PollTimeout::ZERO);
    // Whether it said something or was interrupted: the caller looks again.
    let _ = poll(&mut files, timeout);
}
