//! The file of starts: which child was made under which name, noted by the child itself before it
//! does anything else. So whenever a program is killed, the next one knows which processes are
//! whose, and needs to believe none of them.
//!
//! Slots of [`SLOT_BYTES`], the first one for the header `starts 1 <boot id>`:
//!
//! ```text
//! 0   time at which the program took the slot; 0: it is free     written by the program
//! 8   pid of the child; 0: it has not run yet                    written by the child
//! 16  time at which the child ran first                          written by the child
//! 24  name, a zero, a remark, filled up with zeros               written by the program
//! ```
//! Numbers are `u64` in the machine's order, times nanoseconds of `CLOCK_BOOTTIME`, whose ticks
//! `/proc/PID/stat` shows as start time: of all processes that ever have a pid, one was started
//! between the two times. Nothing waits for the disk, since the processes do not outlive the
//! machine, and slots of an earlier boot count for nothing.
//!
//! The file is locked while it is open. A child that has not noted itself yet has it open too,
//! so the next program begins when all have.

use std::collections::BTreeMap;
use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::os::unix::fs::{DirBuilderExt as _, FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use nix::fcntl::posix_fallocate;
use nix::time::{ClockId, clock_gettime};
use thiserror::Error;

use crate::records::{LeftProcess, ProcessIdentity, boot_id};

/// Name of the file.
const FILE: &str = "starts";
/// Length of a slot; a page of memory holds whole ones, so none is written in part.
const SLOT_BYTES: usize = 128;
/// Number of slots with the header. Many more processes than a machine runs containers.
const SLOTS: usize = 16_384;
const FILE_BYTES: usize = SLOTS * SLOT_BYTES;
const PID_AT: usize = 8;
const BEGAN_AT: usize = 16;
const NAME_AT: usize = 24;
/// Longest wait for children that have not noted themselves. They need microseconds of CPU time,
/// and may be in a cgroup that gets little.
const LOCK_PATIENCE: Duration = Duration::from_secs(30);
const LOCK_RETRY: Duration = Duration::from_millis(5);
const SECOND_NS: u64 = 1_000_000_000;

/// Reason for which the file cannot be used.
#[derive(Debug, Error)]
pub enum StartsError {
    /// A program still runs that has the file, or a child of one that has not begun.
    #[error(
        "{} is still in use after {} s, by an agent or by a process that it was starting",
        path.display(),
        LOCK_PATIENCE.as_secs()
    )]
    InUse {
        /// Path of the file.
        path: PathBuf,
    },
    /// No slot is free.
    #[error("{} has no place for another process, after {}", path.display(), SLOTS - 1)]
    Full {
        /// Path of the file.
        path: PathBuf,
    },
    /// A name does not fit into a slot.
    #[error("the name `{name}` is too long, empty or has a zero byte")]
    Name {
        /// The name.
        name: String,
    },
    /// A file operation failed.
    #[error("{doing} {}", path.display())]
    File {
        /// Operation that failed.
        doing: &'static str,
        /// Path of the file.
        path: PathBuf,
        /// Cause.
        #[source]
        source: io::Error,
    },
}

/// Start that an earlier program noted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundStart {
    /// Name under which the child was made.
    pub name: String,
    /// Remark of the program on the child; may be empty.
    pub remark: String,
    /// The pid; `None`: no child ever ran.
    pid: Option<i32>,
    /// Times between which the child was made, in clock ticks since boot.
    ticks: (u64, u64),
}

impl FoundStart {
    /// Makes the start of a process under a name: for tests of others, without a file.
    #[must_use]
    pub fn of(name: &str, process: ProcessIdentity) -> Self {
        Self {
            name: name.to_owned(),
            remark: String::new(),
            pid: Some(process.pid),
            ticks: (process.start_time, process.start_time),
        }
    }

    /// Adds a remark.
    #[must_use]
    pub fn with_remark(self, remark: &str) -> Self {
        let remark = remark.to_owned();
        Self { remark, ..self }
    }

    /// Returns the process, as the keepers have recorded it, or as it runs or waits to be reaped.
    /// One that nobody knows any more gets the latest start time that it can have. `None`: there
    /// was none.
    #[must_use]
    pub fn process(&self, left: &[LeftProcess]) -> Option<ProcessIdentity> {
        let pid = self.pid?;
        let mut recorded = left.iter().map(|left| left.process);
        let recorded = recorded.find(|process| self.is(process));
        let found = recorded.or_else(|| ProcessIdentity::of(pid).filter(|now| self.is(now)));
        let (_, start_time) = self.ticks;
        Some(found.unwrap_or(ProcessIdentity { pid, start_time }))
    }

    /// Returns whether a process is the one that was started.
    #[must_use]
    pub fn is(&self, process: &ProcessIdentity) -> bool {
        let (first, last) = self.ticks;
        self.pid == Some(process.pid) && (first..=last).contains(&process.start_time)
    }
}

/// The open file.
#[derive(Debug)]
pub struct StartSlots {
    file: File,
    path: PathBuf,
    slots: Mutex<Slots>,
}

#[derive(Debug)]
struct Slots {
    /// Free ones, the lowest last.
    free: Vec<usize>,
    /// Slots of earlier programs, by name.
    found: BTreeMap<String, Vec<usize>>,
}

impl StartSlots {
    /// Opens the file in a folder, which is made if it does not exist, and reads what the last
    /// program noted: by name, and of one name the latest last. Waits until every child of that
    /// program has noted itself.
    ///
    /// # Errors
    /// [`StartsError`].
    pub fn open(folder: &Path) -> Result<(Self, Vec<FoundStart>), StartsError> {
        let path = folder.join(FILE);
        let failed = |doing: &'static str| {
            let path = path.clone();
            move |source: io::Error| StartsError::File {
                doing,
                path,
                source,
            }
        };
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder)
            .map_err(failed("making the folder of"))?;
        let mut options = OpenOptions::new();
        let options = options.read(true).write(true).create(true).truncate(false);
        let file = options.mode(0o600).open(&path).map_err(failed("opening"))?;
        lock(&file, &path)?;
        let boot_id = boot_id().map_err(failed("reading the name of this boot for"))?;
        let mut bytes = vec![0; FILE_BYTES];
        let header = format!("starts 1 {boot_id}\n");
        let header = header.as_bytes();
        let is_ours = file.read_exact_at(&mut bytes, 0).is_ok() && bytes.starts_with(header);
        if !is_ours {
            bytes.fill(0);
            reset(&file, header).map_err(failed("reserving the disk's space for"))?;
        }
        let (slots, found) = read(&bytes);
        let slots = Self {
            file,
            path: path.clone(),
            slots: Mutex::new(slots),
        };
        Ok((slots, found))
    }

    fn lock(&self) -> MutexGuard<'_, Slots> {
        // Each change moves whole slots.
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a slot for a child that is about to be made. It stays taken until
    /// [`StartSlot::free`]. A remark that does not fit behind the name is left out.
    ///
    /// # Errors
    /// [`StartsError`].
    pub fn claim(self: &Arc<Self>, name: &str, remark: &str) -> Result<StartSlot, StartsError> {
        let is_good =
            !name.is_empty() && name.len() <= SLOT_BYTES - NAME_AT && !name.as_bytes().contains(&0);
        if !is_good {
            let name = name.to_owned();
            return Err(StartsError::Name { name });
        }
        let failed = |source| StartsError::File {
            doing: "writing",
            path: self.path.clone(),
            source,
        };
        let now_ns = boot_ns().map_err(failed)?;
        let Some(index) = self.lock().free.pop() else {
            let path = self.path.clone();
            return Err(StartsError::Full { path });
        };
        let mut slot = [0; SLOT_BYTES];
        slot[..PID_AT].copy_from_slice(&now_ns.to_ne_bytes());
        let (name_at, rest) = slot[NAME_AT..].split_at_mut(name.len());
        name_at.copy_from_slice(name.as_bytes());
        if let Some(remark_at) = rest.get_mut(1..=remark.len()) {
            remark_at.copy_from_slice(remark.as_bytes());
        }
        if let Err(error) = self.file.write_all_at(&slot, offset(index)) {
            self.lock().free.push(index);
            return Err(failed(error));
        }
        let slots = Arc::clone(self);
        Ok(StartSlot { slots, index })
    }

    /// Frees the slots that an earlier program took under a name: its process is known otherwise
    /// by now.
    pub fn forget(&self, name: &str) {
        let mut slots = self.lock();
        for index in slots.found.remove(name).into_iter().flatten() {
            self.free(&mut slots, index);
        }
    }

    fn free(&self, slots: &mut Slots, index: usize) {
        // The space is reserved. On a disk that cannot be written any more, the slot is lost.
        let freed = self.file.write_all_at(&[0; PID_AT], offset(index));
        slots.free.extend(freed.is_ok().then_some(index));
    }
}

/// Slot of a child. Stays taken when this value is dropped: the child may outlive the program.
#[derive(Debug)]
pub struct StartSlot {
    slots: Arc<StartSlots>,
    index: usize,
}

impl StartSlot {
    /// Returns the file, and the offset at which the child has to write its pid and the time.
    #[must_use]
    pub fn note(&self) -> (BorrowedFd<'_>, u64) {
        let at = offset(self.index) + PID_AT as u64;
        (self.slots.file.as_fd(), at)
    }

    /// Frees the slot: there is no child, or its end is recorded elsewhere. Comes before the child
    /// is reaped.
    pub fn free(self) {
        self.slots.free(&mut self.slots.lock(), self.index);
    }
}

fn offset(index: usize) -> u64 {
    (index * SLOT_BYTES) as u64
}

/// Waits for the lock of the file, which ends with the last one that has it open.
fn lock(file: &File, path: &Path) -> Result<(), StartsError> {
    let deadline = Instant::now() + LOCK_PATIENCE;
    loop {
        let path = path.to_owned();
        match file.try_lock() {
            Ok(()) => return Ok(()),
            Err(TryLockError::Error(source)) => {
                return Err(StartsError::File {
                    doing: "locking",
                    path,
                    source,
                });
            }
            Err(TryLockError::WouldBlock) if Instant::now() >= deadline => {
                return Err(StartsError::InUse { path });
            }
            Err(TryLockError::WouldBlock) => std::thread::sleep(LOCK_RETRY),
        }
    }
}

/// Makes an empty file whose space is reserved, so that no later write needs a place on the disk.
fn reset(file: &File, header: &[u8]) -> io::Result<()> {
    file.set_len(0)?;
    let length = i64::try_from(FILE_BYTES).map_err(io::Error::other)?;
    posix_fallocate(file, 0, length)?;
    file.write_all_at(header, 0)
}

fn boot_ns() -> io::Result<u64> {
    let now = clock_gettime(ClockId::CLOCK_BOOTTIME)?;
    let seconds = now.tv_sec().unsigned_abs().wrapping_mul(SECOND_NS);
    Ok(seconds.wrapping_add(now.tv_nsec().unsigned_abs()))
}

fn read(bytes: &[u8]) -> (Slots, Vec<FoundStart>) {
    let mut slots = Slots {
        free: Vec::new(),
        found: BTreeMap::new(),
    };
    let mut found = Vec::new();
    let (all, _) = bytes.as_chunks::<SLOT_BYTES>();
    for (index, slot) in all.iter().enumerate().skip(1).rev() {
        match read_slot(slot) {
            Some((claimed_ns, start)) => {
                let indexes = slots.found.entry(start.name.clone()).or_default();
                indexes.push(index);
                found.push((claimed_ns, start));
            }
            None => slots.free.push(index),
        }
    }
    found.sort_by(|(claimed, start), (other_claimed, other)| {
        (&start.name, claimed).cmp(&(&other.name, other_claimed))
    });
    (slots, found.into_iter().map(|(_, start)| start).collect())
}

/// Reads a slot and the time of its claim; `None`: it is free, or makes no sense.
fn read_slot(slot: &[u8; SLOT_BYTES]) -> Option<(u64, FoundStart)> {
    let word = |at: usize| {
        let bytes = slot.get(at..at + 8)?.try_into().ok()?;
        Some(u64::from_ne_bytes(bytes))
    };
    let (claimed_ns, pid, began_ns) = (word(0)?, word(PID_AT)?, word(BEGAN_AT)?);
    let mut texts = slot[NAME_AT..].split(|byte| *byte == 0);
    let mut text = || std::str::from_utf8(texts.next().unwrap_or_default()).ok();
    let (name, remark) = (text()?, text().unwrap_or_default());
    if claimed_ns == 0 || name.is_empty() {
        return None;
    }
    let tick_ns = SECOND_NS / procfs::ticks_per_second().max(1);
    let start = FoundStart {
        name: name.to_owned(),
        remark: remark.to_owned(),
        pid: i32::try_from(pid).ok().filter(|pid| *pid > 0),
        ticks: (claimed_ns / tick_ns, began_ns / tick_ns),
    };
    Some((claimed_ns, start))
}

#[cfg(test)]
mod tests;
