//! A directory of this machine, or one that it mounts.

use std::fs::File;
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};

use dir_handle::DirHandle;

use super::{Destination, RemoteFile, WRITE_BYTES};
use crate::remote::{FILE_MODE, FOLDER_MODE, ROOT_MODE};

/// A folder of this machine or of a mounted file system (`file:`).
#[derive(Debug)]
pub struct LocalDestination {
    root: PathBuf,
}

impl LocalDestination {
    /// Names the root, which is created when the first log needs it.
    #[must_use]
    pub fn new(root: PathBuf) -> Self {
        Self { root }
    }

    /// Opens the root. It is opened for each log, since it may be mounted late.
    fn open_root(&self) -> io::Result<DirHandle> {
        match DirHandle::open_ambient(&self.root) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            opened => return opened,
        }
        let parent = self.root.parent().unwrap_or(Path::new("/"));
        std::fs::create_dir_all(parent)?;
        let name = self.root.file_name().unwrap_or_default();
        DirHandle::open_ambient(parent)?.create_or_open(name, ROOT_MODE)
    }

    /// Opens a folder. The root is everybody's, so no link below it is followed.
    fn open(&self, folder: &[String]) -> io::Result<DirHandle> {
        self.open_root()?.open_all(folder)
    }
}

impl Destination for LocalDestination {
    fn create(&self, folder: &[String], name: &str) -> io::Result<Box<dyn RemoteFile>> {
        let mut directory = self.open_root()?;
        for name in folder {
            directory = directory.ensure(name, FOLDER_MODE)?;
        }
        match directory.unlink(name) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => {}
        }
        let file = directory.create_file(name, FILE_MODE)?;
        Ok(Box::new(BufWriter::with_capacity(WRITE_BYTES, file)))
    }

    fn names(&self, folder: &[String]) -> io::Result<Vec<String>> {
        let names = self.open(folder)?.names()?;
        names
            .map(|name| Ok(name?.to_string_lossy().into_owned()))
            .collect()
    }

    fn rename(&self, folder: &[String], name: &str, new_name: &str) -> io::Result<()> {
        let directory = self.open(folder)?;
        directory.rename(name, &directory, new_name)
    }

    fn remove(&self, folder: &[String], name: &str) -> io::Result<()> {
        self.open(folder)?.unlink(name)
    }
}

impl RemoteFile for BufWriter<File> {
    fn close(self: Box<Self>) -> io::Result<()> {
        let file = self.into_inner().map_err(io::IntoInnerError::into_error)?;
        file.sync_all()
    }
}
