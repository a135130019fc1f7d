//! Directories of a hierarchy by handle, and the control files in and below them.
//!
//! A directory is opened once and everything else is reached relative to it, so that no path is
//! walked twice and nothing outside can be reached. Paths are kept for messages only.
//!
//! Not a `dir_handle::DirHandle`: control files are reached by `cgroup/file` from the one handle
//! that stays open, `..` leads back up, and a launch affords no `fchmod` for each directory that it
//! creates. The names are the agent's or the kernel's, and no container can put links here.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use nix::dir;
use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, open, openat};
use nix::sys::stat::{Mode, mkdirat};
use nix::unistd::{AccessFlags, UnlinkatFlags, faccessat, unlinkat};

use crate::error::CgroupError;

/// Limit on the bytes read of a control file. The largest read here, `cgroup.procs` of a fork bomb,
/// is read in several rounds.
const FILE_READ_MAX: u64 = 1 << 20;

const DIRECTORY: OFlag = OFlag::O_DIRECTORY
    .union(OFlag::O_CLOEXEC)
    .union(OFlag::O_RDONLY);

/// An open directory with the path that messages name it by.
#[derive(Debug)]
pub(crate) struct Dir {
    handle: OwnedFd,
    path: PathBuf,
}

impl AsFd for Dir {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.handle.as_fd()
    }
}

fn io_error(operation: &'static str, path: PathBuf) -> impl FnOnce(Errno) -> CgroupError {
    move |errno| CgroupError::Io {
        operation,
        path,
        source: errno.into(),
    }
}

impl Dir {
    /// Opens a directory by its path.
    pub(crate) fn open(path: &Path) -> Result<Self, CgroupError> {
        let handle = open(path, DIRECTORY, Mode::empty());
        Ok(Self {
            handle: handle.map_err(io_error("open", path.to_path_buf()))?,
            path: path.to_path_buf(),
        })
    }

    /// Returns the path that the directory was opened by.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Opens the subdirectory `name`, creating it if needed.
    pub(crate) fn child(&self, name: &str) -> Result<Self, CgroupError> {
        self.make(name)?;
        self.open_dir(name)
    }

    /// Creates the subdirectory `name`. Returns `false` if it already exists.
    pub(crate) fn make(&self, name: &str) -> Result<bool, CgroupError> {
        match mkdirat(&self.handle, name, Mode::from_bits_truncate(0o755)) {
            Ok(()) => Ok(true),
            Err(Errno::EEXIST) => Ok(false),
            Err(errno) => Err(io_error("create", self.path.join(name))(errno)),
        }
    }

    /// Opens the subdirectory `name`, which may be a relative path.
    pub(crate) fn open_dir(&self, name: &str) -> Result<Self, CgroupError> {
        let path = self.path.join(name);
        let flags = DIRECTORY | OFlag::O_NOFOLLOW;
        let handle = openat(&self.handle, name, flags, Mode::empty());
        match handle {
            Ok(handle) => Ok(Self { handle, path }),
            Err(errno) => Err(io_error("open", path)(errno)),
        }
    }

    /// Opens the parent directory.
    pub(crate) fn parent(&self) -> Result<Self, CgroupError> {
        let mut path = self.path.clone();
        path.pop();
        match openat(&self.handle, "..", DIRECTORY, Mode::empty()) {
            Ok(handle) => Ok(Self { handle, path }),
            Err(errno) => Err(io_error("open", path)(errno)),
        }
    }

    /// Removes the empty subdirectory `name`. A missing one is no error.
    pub(crate) fn remove(&self, name: &str) -> Result<(), CgroupError> {
        match unlinkat(&self.handle, name, UnlinkatFlags::RemoveDir) {
            Ok(()) | Err(Errno::ENOENT) => Ok(()),
            Err(errno) => Err(io_error("remove", self.path.join(name))(errno)),
        }
    }

    /// Returns whether the file `name` exists.
    pub(crate) fn has(&self, name: &str) -> bool {
        faccessat(
            &self.handle,
            name,
            AccessFlags::F_OK,
            AtFlags::AT_SYMLINK_NOFOLLOW,
        )
        .is_ok()
    }

    /// Opens the file `name` for reading.
    pub(crate) fn open_file(&self, name: &str) -> Result<File, CgroupError> {
        self.open_with(name, OFlag::O_RDONLY)
    }

    fn open_with(&self, name: &str, flags: OFlag) -> Result<File, CgroupError> {
        let flags = flags | OFlag::O_CLOEXEC | OFlag::O_NOFOLLOW;
        match openat(&self.handle, name, flags, Mode::empty()) {
            Ok(handle) => Ok(File::from(handle)),
            Err(errno) => Err(io_error("open", self.path.join(name))(errno)),
        }
    }

    /// Opens the file `name` for writing, for a process that writes its own pid into a cgroup.
    pub(crate) fn open_for_writing(&self, name: &str) -> Result<File, CgroupError> {
        self.open_with(name, OFlag::O_WRONLY)
    }

    /// Reads the file `name`.
    pub(crate) fn read(&self, name: &str) -> Result<String, CgroupError> {
        let mut text = Vec::new();
        let file = self.open_file(name)?;
        let read = file.take(FILE_READ_MAX).read_to_end(&mut text);
        match read {
            Ok(_) => Ok(String::from_utf8_lossy(&text).into_owned()),
            Err(source) => Err(CgroupError::Io {
                operation: "read",
                path: self.path.join(name),
                source,
            }),
        }
    }

    /// Reads the file `name`; `None` if the kernel has no such file.
    pub(crate) fn read_if_there(&self, name: &str) -> Result<Option<String>, CgroupError> {
        match self.read(name) {
            Ok(text) => Ok(Some(text)),
            Err(error) if error.errno() == Some(libc::ENOENT) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Writes to the control file `name` in a single `write`, as the kernel requires.
    pub(crate) fn write(&self, name: &str, data: &str) -> Result<(), CgroupError> {
        let failed = |source: io::Error| CgroupError::Write {
            path: self.path.join(name),
            data: data.to_owned(),
            source,
        };
        // The kernel's own files ignore O_TRUNC. With it, ordinary files can replace them in tests.
        let flags = OFlag::O_WRONLY | OFlag::O_TRUNC | OFlag::O_CLOEXEC | OFlag::O_NOFOLLOW;
        let handle = openat(&self.handle, name, flags, Mode::empty());
        let mut file = File::from(handle.map_err(|errno| failed(errno.into()))?);
        file.write_all(data.as_bytes()).map_err(failed)
    }

    /// Returns the names of the subdirectories, at most `max`, in no order.
    pub(crate) fn directories(&self, max: usize) -> Result<Vec<String>, CgroupError> {
        let failed = || io_error("list", self.path.clone());
        let handle = openat(&self.handle, ".", DIRECTORY, Mode::empty()).map_err(failed())?;
        let mut open = dir::Dir::from_fd(handle).map_err(failed())?;
        let mut names = Vec::new();
        for entry in open.iter() {
            let entry = entry.map_err(failed())?;
            let is_directory = entry.file_type() == Some(dir::Type::Directory);
            let name = entry.file_name();
            if !is_directory || name == c"." || name == c".." {
                continue;
            }
            if names.len() >= max {
                break;
            }
            // The agent creates no such names; foreign directories are left alone.
            if let Ok(name) = name.to_str() {
                names.push(name.to_owned());
            }
        }
        Ok(names)
    }
}

/// Decodes a path as printed in `mountinfo`: undoes its octal escapes.
pub(crate) fn unescaped(field: &str) -> PathBuf {
    use std::os::unix::ffi::OsStringExt as _;
    let bytes = field.as_bytes();
    let mut plain = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    while let Some((first, after)) = rest.split_first() {
        let octal = after.get(..3).filter(|_| *first == b'\\');
        let value = octal
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .and_then(|digits| u8::from_str_radix(digits, 8).ok());
        match value {
            Some(byte) => {
                plain.push(byte);
                rest = &after[3..];
            }
            None => {
                plain.push(*first);
                rest = after;
            }
        }
    }
    PathBuf::from(OsString::from_vec(plain))
}

/// Checks that a text may name a cgroup: no path, and no name of the kernel's own files.
pub(crate) fn checked_name(name: &str) -> Result<(), CgroupError> {
    let fine = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'-';
    if !name.is_empty() && name.len() <= 255 && name.bytes().all(fine) {
        return Ok(());
    }
    Err(CgroupError::Name {
        name: name.chars().take(255).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_could_be_paths_or_control_files_are_refused() {
        for name in ["container_1_0001_01_000001", "a", "A-b_9"] {
            assert!(checked_name(name).is_ok(), "{name}");
        }
        let long = "x".repeat(256);
        for name in ["", ".", "..", "a/b", "cgroup.procs", "a b", "é", &long] {
            assert!(checked_name(name).is_err(), "{name}");
        }
    }

    #[test]
    fn octal_escapes_of_mountinfo_are_undone() {
        for (field, plain) in [
            ("/a\\040b", "/a b"),
            ("/a\\134", "/a\\"),
            ("/a\\9", "/a\\9"),
            ("\\04", "\\04"),
            ("/\\777", "/\\777"),
        ] {
            assert_eq!(unescaped(field), PathBuf::from(plain), "{field}");
        }
    }

    #[test]
    fn a_missing_file_differs_from_one_that_cannot_be_read() {
        let folder = tempfile::tempdir().unwrap();
        let dir = Dir::open(folder.path()).unwrap();
        assert_eq!(dir.read_if_there("x").unwrap(), None);
        std::fs::write(folder.path().join("x"), "1\n").unwrap();
        assert_eq!(dir.read_if_there("x").unwrap().as_deref(), Some("1\n"));
        std::fs::create_dir(folder.path().join("d")).unwrap();
        assert!(dir.read_if_there("d").is_err());
    }

    #[test]
    fn only_directories_are_listed_and_never_more_than_asked_for() {
        let folder = tempfile::tempdir().unwrap();
        let dir = Dir::open(folder.path()).unwrap();
        for name in ["a", "b", "c"] {
            assert!(dir.make(name).unwrap());
            assert!(!dir.make(name).unwrap());
        }
        std::fs::write(folder.path().join("file"), "").unwrap();
        let mut names = dir.directories(10).unwrap();
        names.sort();
        assert_eq!(names, ["a", "b", "c"]);
        assert_eq!(dir.directories(2).unwrap().len(), 2);
    }
}
