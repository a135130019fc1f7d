//! The writer of a keeper's file. What a full disk does not take stays in memory and is written
//! later: a line for each child at its beginning and its end, so not more than the children need.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use nix::fcntl::{FallocateFlags, fallocate};

use crate::records::{LeftProcess, ProcessIdentity, SUFFIX, boot_id};

/// Last part of the name of a file that has no records yet. No reader takes it for one.
const PREPARED: &str = ".new";
/// Space that is reserved on the disk, in bytes: the records of a thousand children, without which
/// the next program would not see who was left.
const RESERVED_BYTES: i64 = 128 << 10;

/// A keeper's file.
#[derive(Debug)]
pub(crate) struct RecordFile {
    file: File,
    /// Path while it is prepared; `None`: it has its name.
    prepared: Option<PathBuf>,
    /// Path with its name.
    path: PathBuf,
    /// Bytes that the disk has not taken yet.
    unwritten: Vec<u8>,
}

impl Drop for RecordFile {
    fn drop(&mut self) {
        if let Some(path) = &self.prepared {
            // Otherwise the next keeper deletes it.
            let _left = fs::remove_file(path);
        }
    }
}

impl RecordFile {
    /// Makes the file of the calling keeper, invisible to readers, with space for records. Deletes
    /// what keepers have left that were killed before they had any: the caller is the only one.
    pub(crate) fn prepare(folder: &Path) -> io::Result<Self> {
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            let name = entry.file_name();
            if name.to_str().is_some_and(|name| name.ends_with(PREPARED)) {
                fs::remove_file(entry.path())?;
            }
        }
        let own = i32::try_from(std::process::id()).map_err(io::Error::other)?;
        let own = ProcessIdentity::of(own).ok_or(io::ErrorKind::NotFound)?;
        let name = format!("{}-{}{SUFFIX}", own.pid, own.start_time);
        let path = folder.join(&name);
        let prepared = folder.join(name + PREPARED);
        let mut options = OpenOptions::new();
        let options = options.append(true).create_new(true).mode(0o600);
        let mut file = options.open(&prepared)?;
        // A file system that reserves nothing, or has no space now, may have some later.
        let _unreserved = fallocate(
            &file,
            FallocateFlags::FALLOC_FL_KEEP_SIZE,
            0,
            RESERVED_BYTES,
        );
        file.write_all(format!("exits 1 {}\n", boot_id()?).as_bytes())?;
        Ok(Self {
            file,
            prepared: Some(prepared),
            path,
            unwritten: Vec::new(),
        })
    }

    /// Gives the file its name, with the children that were left.
    ///
    /// # Errors
    /// The folder cannot be changed; it may be tried again.
    pub(crate) fn begin(&mut self, left: &[LeftProcess]) -> io::Result<()> {
        for LeftProcess { process, variable } in left {
            let variable = variable.as_deref().unwrap_or("-");
            let line = format!("{} {} left {variable}\n", process.pid, process.start_time);
            self.unwritten.extend_from_slice(line.as_bytes());
        }
        self.write();
        self.name()
    }

    fn name(&mut self) -> io::Result<()> {
        if let Some(prepared) = &self.prepared {
            fs::rename(prepared, &self.path)?;
            self.prepared = None;
        }
        Ok(())
    }

    /// Records the status of a process: its exit code, or 128 plus the signal that ended it.
    pub(crate) fn ended(&mut self, process: ProcessIdentity, status: i32) {
        let ProcessIdentity { pid, start_time } = process;
        let line = format!("{pid} {start_time} ended {status}\n");
        self.unwritten.extend_from_slice(line.as_bytes());
    }

    /// Writes what is not written yet, under the file's name; whether all of it is.
    pub(crate) fn write(&mut self) -> bool {
        while !self.unwritten.is_empty() {
            match self.file.write(&self.unwritten) {
                Ok(0) => return false,
                Ok(written) => drop(self.unwritten.drain(..written)),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return false,
            }
        }
        self.name().is_ok()
    }

    /// Writes bytes as they are.
    #[cfg(test)]
    pub(crate) fn write_raw(&mut self, bytes: &[u8]) {
        self.unwritten.extend_from_slice(bytes);
        assert!(self.write());
    }
}
