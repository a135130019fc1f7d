//! A directory of this machine, or one that it mounts.

use std::fs::File;
use std::io::{self, BufWriter, Read};
use std::path::{Path, PathBuf};

use dir_handle::{DirHandle, Owner};
use nix::unistd::{Group, geteuid};

use super::{Destination, RemoteFile, WRITE_BYTES};
use crate::remote::{FILE_MODE, FOLDER_MODE, ROOT_MODE};

/// A folder of this machine or of a mounted file system (`file:`).
#[derive(Debug)]
pub struct LocalDestination {
    root: PathBuf,
    /// Group of a root that is created; `None`: that of this process.
    group: Option<String>,
}

impl LocalDestination {
    /// Names the root, which is created when the first log needs it, with this group.
    #[must_use]
    pub fn new(root: PathBuf, group: Option<String>) -> Self {
        Self { root, group }
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
        let parent = DirHandle::open_ambient(parent)?;
        let Some(group) = &self.group else {
            return parent.create_or_open(name, ROOT_MODE);
        };
        // The root is not created again: a process that ends after this one call leaves a root with
        // its group.
        let owned = owner_with(group).and_then(|owner| {
            let parent = parent.try_clone()?.owned_by(Some(owner));
            parent.create_or_open(name, ROOT_MODE)
        });
        let root = owned.or_else(|error| {
            tracing::warn!(root = %self.root.display(), group, %error,
                "the group of the folder for aggregated logs is not set");
            parent.create_or_open(name, ROOT_MODE)
        })?;
        Ok(root.owned_by(None))
    }

    /// Opens a folder. The root is everybody's, so no link below it is followed.
    fn open_folder(&self, folder: &[String]) -> io::Result<DirHandle> {
        self.open_root()?.open_all(folder)
    }
}

/// Returns this process's user with another group.
fn owner_with(group: &str) -> io::Result<Owner> {
    let found = Group::from_name(group)?;
    let group = found.ok_or_else(|| io::Error::other("there is no such group"))?;
    Ok(Owner {
        user: geteuid().as_raw(),
        group: group.gid.as_raw(),
    })
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

    fn open(&self, folder: &[String], name: &str) -> io::Result<Box<dyn Read + Send>> {
        Ok(Box::new(self.open_folder(folder)?.open_regular(name)?))
    }

    fn names(&self, folder: &[String]) -> io::Result<Vec<String>> {
        let names = self.open_folder(folder)?.names()?;
        names
            .map(|name| Ok(name?.to_string_lossy().into_owned()))
            .collect()
    }

    fn rename(&self, folder: &[String], name: &str, new_name: &str) -> io::Result<()> {
        let directory = self.open_folder(folder)?;
        directory.rename(name, &directory, new_name)
    }

    fn remove(&self, folder: &[String], name: &str) -> io::Result<()> {
        self.open_folder(folder)?.unlink(name)
    }
}

impl RemoteFile for BufWriter<File> {
    fn close(self: Box<Self>) -> io::Result<()> {
        let file = self.into_inner().map_err(io::IntoInnerError::into_error)?;
        file.sync_all()
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};

    use nix::unistd::{Uid, getegid};

    use super::*;

    #[test]
    fn a_root_that_is_created_gets_the_group_and_one_that_exists_keeps_its_own() {
        let base = tempfile::tempdir().unwrap();
        let root = base.path().join("remote");
        // Only the superuser may choose any group.
        let gid = if Uid::effective().is_root() {
            1
        } else {
            getegid().as_raw()
        };
        let group = Group::from_gid(gid.into()).unwrap().unwrap().name;
        for (group, kept) in [(group.as_str(), gid), ("no such group", gid)] {
            let destination = LocalDestination::new(root.clone(), Some(group.to_owned()));
            let file = destination.create(&["joe".to_owned()], group).unwrap();
            file.close().unwrap();
            let metadata = std::fs::metadata(&root).unwrap();
            assert_eq!(metadata.gid(), kept);
            assert_eq!(metadata.permissions().mode() & 0o7777, ROOT_MODE);
        }
    }

    #[test]
    fn a_group_that_does_not_exist_leaves_the_logs_without_it() {
        let base = tempfile::tempdir().unwrap();
        let group = Some("no such group".to_owned());
        let destination = LocalDestination::new(base.path().join("remote"), group);
        let file = destination.create(&["joe".to_owned()], "n").unwrap();
        file.close().unwrap();
        assert_eq!(destination.names(&["joe".to_owned()]).unwrap(), ["n"]);
    }
}
