//! Files of exit statuses: one for each keeper, which alone writes it. Text, a line a record:
//!
//! ```text
//! exits 1 <boot id>
//! <pid> <start time> left <value of the variable, or ->      children, when the program ended
//! <pid> <start time> ended <status>
//! ```
//! A line without its end was cut off by a full disk or the end of the keeper, and is ignored until
//! it is whole. Nothing waits for
//! the disk: the processes do not outlive the machine either, and a file of an earlier boot counts
//! for nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, BufRead as _, BufReader, Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

use procfs::process::Process;

use crate::liveness::has_ended;

/// Last part of the names of these files; the first is the keeper's pid and start time.
pub(crate) const SUFFIX: &str = ".exits";
/// Bytes read of one file at a time; a hundred thousand records.
const READ_MAX: u64 = 8 << 20;

/// A process that no other can be taken for, while the machine runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProcessIdentity {
    /// Process id.
    pub pid: i32,
    /// Start time in clock ticks since boot (`/proc/PID/stat`).
    pub start_time: u64,
}

impl ProcessIdentity {
    /// Returns the identity of the process that has this pid now, ended or not; `None`: there is
    /// none.
    #[must_use]
    pub fn of(pid: i32) -> Option<Self> {
        let stat = Process::new(pid).and_then(|process| process.stat()).ok()?;
        let start_time = stat.starttime;
        Some(Self { pid, start_time })
    }

    /// Returns whether a thread of the process runs.
    #[must_use]
    pub fn lives(&self) -> bool {
        let stat = Process::new(self.pid).and_then(|process| process.stat());
        stat.is_ok_and(|stat| stat.starttime == self.start_time && !has_ended(&stat))
    }
}

/// Child that a program left to its keeper.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftProcess {
    /// The process.
    pub process: ProcessIdentity,
    /// Value of the variable that the keeper was asked to copy; `None`: it has none, or had ended.
    /// A process can set its own to anything.
    pub variable: Option<String>,
}

/// Returns the kernel's name of this boot.
///
/// # Errors
/// The kernel's file cannot be read.
pub fn boot_id() -> io::Result<String> {
    let id = fs::read_to_string("/proc/sys/kernel/random/boot_id")?;
    Ok(id.trim().to_owned())
}

/// File of one keeper, read as far as it has been written.
#[derive(Debug)]
struct Reader {
    path: PathBuf,
    keeper: ProcessIdentity,
    /// Children that were left to it.
    left: BTreeSet<ProcessIdentity>,
    /// Offset of the first line that has not been read.
    offset: u64,
    /// Set when the file is of another boot or form, so that its records count for nothing.
    is_foreign: bool,
}

/// Records of the keepers of all earlier programs.
#[derive(Debug)]
pub struct ExitRecords {
    boot_id: String,
    readers: Vec<Reader>,
    left: Vec<LeftProcess>,
    statuses: BTreeMap<ProcessIdentity, i32>,
}

impl ExitRecords {
    /// Reads the files in a folder. A folder that does not exist holds none.
    ///
    /// # Errors
    /// The folder, a file or the kernel's name of this boot cannot be read.
    pub fn read(folder: &Path) -> io::Result<Self> {
        let mut records = Self {
            boot_id: boot_id()?,
            readers: Vec::new(),
            left: Vec::new(),
            statuses: BTreeMap::new(),
        };
        let entries = match fs::read_dir(folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(records),
            entries => entries?,
        };
        for entry in entries {
            let entry = entry?;
            if let Some(keeper) = entry.file_name().to_str().and_then(keeper_of) {
                records.readers.push(Reader {
                    path: entry.path(),
                    keeper,
                    left: BTreeSet::new(),
                    offset: 0,
                    is_foreign: false,
                });
            }
        }
        records.refresh()?;
        Ok(records)
    }

    /// Reads what has been written since the last time.
    ///
    /// # Errors
    /// A file cannot be read. The others are read first.
    pub fn refresh(&mut self) -> io::Result<()> {
        let mut result = Ok(());
        for reader in &mut self.readers {
            let read = reader.read_on(&self.boot_id, &mut self.left, &mut self.statuses);
            result = result.and(read);
        }
        result
    }

    /// Returns the children that were left, in no order, with those that have ended since.
    #[must_use]
    pub fn left(&self) -> &[LeftProcess] {
        &self.left
    }

    /// Returns the recorded status of a process: its exit code, or 128 plus the signal that ended
    /// it.
    #[must_use]
    pub fn status(&self, process: &ProcessIdentity) -> Option<i32> {
        self.statuses.get(process).copied()
    }

    /// Returns the pids of the keepers that still have children.
    #[must_use]
    pub fn keepers(&self) -> Vec<i32> {
        let alive = self.readers.iter().map(|reader| reader.keeper);
        let alive = alive.filter(ProcessIdentity::lives);
        alive.map(|keeper| keeper.pid).collect()
    }

    /// Deletes the files of keepers that have ended and had none of the `needed` processes, whose
    /// ends the caller has not recorded yet. The records stay in memory.
    pub fn delete_finished(&mut self, needed: &BTreeSet<ProcessIdentity>) {
        self.readers.retain(|reader| {
            let is_needed = reader.keeper.lives() || !reader.left.is_disjoint(needed);
            // One that stays is read again by the next program, whose children it cannot confuse.
            is_needed || fs::remove_file(&reader.path).is_err()
        });
    }
}

fn keeper_of(name: &str) -> Option<ProcessIdentity> {
    let (pid, start_time) = name.strip_suffix(SUFFIX)?.split_once('-')?;
    Some(ProcessIdentity {
        pid: pid.parse().ok()?,
        start_time: start_time.parse().ok()?,
    })
}

impl Reader {
    fn read_on(
        &mut self,
        boot_id: &str,
        left: &mut Vec<LeftProcess>,
        statuses: &mut BTreeMap<ProcessIdentity, i32>,
    ) -> io::Result<()> {
        if self.is_foreign {
            return Ok(());
        }
        let mut file = match File::open(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            file => file?,
        };
        file.seek(SeekFrom::Start(self.offset))?;
        let mut lines = BufReader::new(file.take(READ_MAX));
        let mut line = Vec::new();
        loop {
            line.clear();
            let length = lines.read_until(b'\n', &mut line)?;
            let Some(text) = line.strip_suffix(b"\n") else {
                return Ok(());
            };
            let text = String::from_utf8_lossy(text);
            if self.offset == 0 && text.strip_prefix("exits 1 ") != Some(boot_id) {
                self.is_foreign = true;
                return Ok(());
            }
            self.offset += length as u64;
            match read_line(&text) {
                Some((process, Line::Left(variable))) => {
                    self.left.insert(process);
                    left.push(LeftProcess { process, variable });
                }
                Some((process, Line::Ended(status))) => {
                    statuses.insert(process, status);
                }
                None => {}
            }
        }
    }
}

enum Line {
    Left(Option<String>),
    Ended(i32),
}

fn read_line(text: &str) -> Option<(ProcessIdentity, Line)> {
    let mut words = text.splitn(4, ' ');
    let process = ProcessIdentity {
        pid: words.next()?.parse().ok()?,
        start_time: words.next()?.parse().ok()?,
    };
    let line = match (words.next()?, words.next()?) {
        ("left", "-") => Line::Left(None),
        ("left", variable) => Line::Left(Some(variable.to_owned())),
        ("ended", status) => Line::Ended(status.parse().ok()?),
        _ => return None,
    };
    Some((process, line))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record_file::RecordFile;

    fn begin(folder: &Path, left: &[LeftProcess]) -> RecordFile {
        let mut file = RecordFile::prepare(folder).unwrap();
        file.begin(left).unwrap();
        file
    }

    fn process(pid: i32) -> ProcessIdentity {
        ProcessIdentity { pid, start_time: 7 }
    }

    fn left(pid: i32, variable: Option<&str>) -> LeftProcess {
        LeftProcess {
            process: process(pid),
            variable: variable.map(str::to_owned),
        }
    }

    #[test]
    fn records_are_read_as_they_are_written() {
        let folder = tempfile::tempdir().unwrap();
        let children = [left(1, Some("container_1")), left(2, None)];
        let mut file = begin(folder.path(), &children);
        let mut records = ExitRecords::read(folder.path()).unwrap();
        assert_eq!(records.left(), children);
        assert_eq!(records.status(&process(1)), None);
        file.ended(process(1), 143);
        assert!(file.write());
        records.refresh().unwrap();
        assert_eq!(records.status(&process(1)), Some(143));
        file.ended(process(2), 0);
        assert!(file.write());
        records.refresh().unwrap();
        assert_eq!(records.status(&process(2)), Some(0));
        // Not whoever got the pid later.
        let later = ProcessIdentity {
            start_time: 8,
            ..process(1)
        };
        assert_eq!(records.status(&later), None);
        assert_eq!(records.keepers().len(), 1);
        records.delete_finished(&BTreeSet::new());
        let files = fs::read_dir(folder.path()).unwrap().count();
        assert_eq!(files, 1, "its keeper lives");
    }

    #[test]
    fn a_line_that_was_cut_off_counts_once_it_is_whole() {
        let folder = tempfile::tempdir().unwrap();
        let mut file = begin(folder.path(), &[]);
        file.write_raw(b"1 7 ended 12");
        let mut records = ExitRecords::read(folder.path()).unwrap();
        assert_eq!(records.status(&process(1)), None);
        file.write_raw(b"3\n");
        records.refresh().unwrap();
        assert_eq!(records.status(&process(1)), Some(123));
    }

    #[test]
    fn a_status_that_nobody_has_recorded_elsewhere_stays_for_the_next_program() {
        let folder = tempfile::tempdir().unwrap();
        let boot_id = boot_id().unwrap();
        let file = folder.path().join("999999999-1.exits");
        let text = format!("exits 1 {boot_id}\n1 7 left -\n1 7 ended 5\n");
        fs::write(&file, text).unwrap();
        let needed = [process(1)].into();
        ExitRecords::read(folder.path())
            .unwrap()
            .delete_finished(&needed);
        let mut again = ExitRecords::read(folder.path()).unwrap();
        assert_eq!(again.status(&process(1)), Some(5));
        again.delete_finished(&[process(2)].into());
        assert!(!file.exists());
    }

    #[test]
    fn files_of_another_boot_and_of_others_are_ignored_and_those_of_the_dead_deleted() {
        let folder = tempfile::tempdir().unwrap();
        let name = folder.path().join("999999999-1.exits");
        fs::write(&name, "exits 1 another-boot\n1 7 ended 0\n").unwrap();
        fs::write(folder.path().join("notes"), "1 7 ended 0\n").unwrap();
        let mut records = ExitRecords::read(folder.path()).unwrap();
        records.refresh().unwrap();
        assert_eq!(records.status(&process(1)), None);
        assert!(records.keepers().is_empty());
        records.delete_finished(&BTreeSet::new());
        assert!(!name.exists());
        let none = ExitRecords::read(&folder.path().join("none")).unwrap();
        assert!(none.left().is_empty());
    }
}
