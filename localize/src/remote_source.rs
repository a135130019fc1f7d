//! Resources of other file systems than the node's own, such as `hdfs:`.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::rc::Rc;

use hadoop_fs::{FileSystem, Kind, ReadFile, Status};

use super::source::{Content, Opened, Source};

/// Permission bits with which others can list a folder and pass through it.
const OTHERS_READ_EXECUTE: u32 = 0o005;
const OTHERS_READ: u32 = 0o004;
const OTHERS_EXECUTE: u32 = 0o001;

/// Number of entries of one folder that are read. Bounds the memory of a list.
const LIST_MAX: usize = 100_000;

/// Memory of the names that one resource's folders still have to be copied, in bytes. A folder
/// below a folder is read while the one above is not yet done.
const NAMES_BYTES_MAX: usize = 16 << 20;

/// A file system of `hadoop-fs`, with the identity of the container's user or, for public
/// resources, of the agent.
pub(super) struct RemoteSource {
    file_system: Box<dyn FileSystem>,
    /// Folders through which others may pass. A resource's files share them.
    open_to_others: RefCell<BTreeSet<String>>,
    /// Memory that further [`Names`] may take, in bytes.
    names_bytes_left: Rc<Cell<usize>>,
}

/// Names in a folder that are still to be copied.
struct Names {
    rest: std::vec::IntoIter<OsString>,
    bytes: usize,
    bytes_left: Rc<Cell<usize>>,
}

impl Iterator for Names {
    type Item = io::Result<OsString>;

    fn next(&mut self) -> Option<Self::Item> {
        self.rest.next().map(Ok)
    }
}

impl Drop for Names {
    fn drop(&mut self) {
        self.bytes_left.set(self.bytes_left.get() + self.bytes);
    }
}

impl RemoteSource {
    pub(super) fn new(file_system: Box<dyn FileSystem>) -> Self {
        Self {
            file_system,
            open_to_others: RefCell::default(),
            names_bytes_left: Rc::new(Cell::new(NAMES_BYTES_MAX)),
        }
    }

    /// Returns whether others may read the file and pass through every folder above it (Hadoop:
    /// `FSDownload.isPublic`).
    fn is_public(&self, path: &Path, status: &Status) -> io::Result<bool> {
        let needed = match status.kind {
            Kind::Folder => OTHERS_READ_EXECUTE,
            Kind::File | Kind::Special => OTHERS_READ,
        };
        if status.mode & needed != needed {
            return Ok(false);
        }
        for folder in path.ancestors().skip(1) {
            let folder = text(folder)?;
            if self.open_to_others.borrow().contains(folder) {
                return Ok(true);
            }
            if self.file_system.status(folder)?.mode & OTHERS_EXECUTE == 0 {
                return Ok(false);
            }
        }
        let folders = path.ancestors().skip(1).filter_map(Path::to_str);
        let folders = folders.map(str::to_owned);
        self.open_to_others.borrow_mut().extend(folders);
        Ok(true)
    }
}

impl Source for RemoteSource {
    fn open(&self, path: &Path, public: bool) -> io::Result<Opened> {
        let name = text(path)?;
        let status = self.file_system.status(name)?;
        if public && !self.is_public(path, &status)? {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        match status.kind {
            Kind::File => Ok(Opened::File(Box::new(self.file_system.open(name)?))),
            Kind::Folder => {
                let listed = self.file_system.list(name, LIST_MAX)?.into_iter();
                let names: Vec<_> = listed.map(|status| OsString::from(status.name)).collect();
                let sizes = names.iter().map(|name| size_of::<OsString>() + name.len());
                let bytes = sizes.sum::<usize>();
                let Some(left) = self.names_bytes_left.get().checked_sub(bytes) else {
                    let text = "its folders have too many entries at the same time";
                    return Err(io::Error::new(io::ErrorKind::QuotaExceeded, text));
                };
                self.names_bytes_left.set(left);
                let names = Names {
                    rest: names.into_iter(),
                    bytes,
                    bytes_left: Rc::clone(&self.names_bytes_left),
                };
                Ok(Opened::Folder {
                    modified_ms: status.modified_ms,
                    names: Box::new(names),
                })
            }
            Kind::Special => Ok(Opened::Special),
        }
    }
}

impl Content for Box<dyn ReadFile> {
    fn modified_ms(&self) -> io::Result<i64> {
        self.as_ref().modified_ms()
    }
}

fn text(path: &Path) -> io::Result<&str> {
    path.to_str()
        .ok_or_else(|| io::ErrorKind::InvalidInput.into())
}

#[cfg(test)]
mod tests;
