//! A file system that is named by a URI, such as HDFS.

use std::io::{self, BufWriter, Read, Write};
use std::sync::Arc;

use hadoop_fs::{Caller, FileSystem, FileSystems, FsError, ReadFile, Uri, WriteFile};

use super::{Destination, RemoteFile, WRITE_BYTES};
use crate::remote::{FILE_MODE, FOLDER_MODE, ROOT_MODE};

/// Names that are read of one folder: a file for each node or upload.
const NAMES_MAX: usize = 100_000;

/// Name of the work at the root.
const ROOT_WORK: &str = "aggregated-logs";

/// A folder of a file system. The root belongs to the agent's user, what is below it to the user
/// whose logs they are: the agent acts in that user's name there.
pub struct UriDestination {
    systems: Arc<FileSystems>,
    root: Uri,
    /// User of the agent.
    own_user: String,
    /// Group of a root that is created; `None` leaves the choice to the file system.
    group: Option<String>,
}

impl UriDestination {
    /// Names the root, which is created when the first log needs it, with this group. Folders in
    /// HDFS have the group of the one above, so the group of the root is that of all logs: with it
    /// the history server reads them.
    #[must_use]
    pub fn new(
        systems: Arc<FileSystems>,
        root: Uri,
        own_user: String,
        group: Option<String>,
    ) -> Self {
        Self {
            systems,
            root,
            own_user,
            group,
        }
    }

    /// Creates the root if it is missing (Hadoop:
    /// `LogAggregationFileController.verifyAndCreateRemoteLogDir`).
    fn ensure_root(&self) -> io::Result<()> {
        let (system, path) = (self.system(&[])?, &self.root.path);
        let is_new = ensure(&*system, path, ROOT_MODE)?;
        if let Some(group) = self.group.as_ref().filter(|_| is_new)
            && let Err(error) = system.set_owner(path, &self.own_user, group)
        {
            // Logs of one user need no group, and the root will not be created again.
            tracing::warn!(root = %self.root, group, error = %records::error_chain(&error),
                "the group of the folder for aggregated logs is not set");
        }
        Ok(())
    }

    fn system(&self, folder: &[String]) -> io::Result<Box<dyn FileSystem>> {
        let caller = match folder {
            [] => Caller::own(&self.own_user, ROOT_WORK),
            // The last is that of the application.
            [user, .., application] => Caller::user(user, application),
            [user] => Caller::user(user, ""),
        };
        Ok(self.systems.open(&self.root, caller)?)
    }

    fn path(&self, names: &[String]) -> String {
        let root = self.root.path.trim_end_matches('/');
        format!("{root}/{}", names.join("/"))
    }

    fn file(&self, folder: &[String], name: &str) -> String {
        format!("{}/{name}", self.path(folder))
    }
}

/// Creates a folder with exactly this mode, if it is missing; returns whether it was. A file system
/// may take away bits of the mode that it is given.
fn ensure(system: &dyn FileSystem, path: &str, mode: u32) -> Result<bool, FsError> {
    match system.status(path) {
        Err(FsError::NotFound { .. }) => {}
        found => return found.map(|_| false),
    }
    system.make_dirs(path, mode)?;
    system.set_mode(path, mode)?;
    Ok(true)
}

impl Destination for UriDestination {
    fn create(&self, folder: &[String], name: &str) -> io::Result<Box<dyn RemoteFile>> {
        let system = self.system(folder)?;
        // Mostly there, with all above it.
        if let Err(FsError::NotFound { .. }) = system.status(&self.path(folder)) {
            self.ensure_root()?;
            for depth in 1..=folder.len() {
                ensure(&*system, &self.path(&folder[..depth]), FOLDER_MODE)?;
            }
        }
        let file = system.create(&self.file(folder, name), FILE_MODE, true)?;
        Ok(Box::new(UriFile {
            file: BufWriter::with_capacity(WRITE_BYTES, file),
            _system: system,
        }))
    }

    fn open(&self, folder: &[String], name: &str) -> io::Result<Box<dyn Read + Send>> {
        let system = self.system(folder)?;
        let file = system.open(&self.file(folder, name))?;
        Ok(Box::new(OpenFile {
            file,
            _system: system,
        }))
    }

    fn names(&self, folder: &[String]) -> io::Result<Vec<String>> {
        let listed = self.system(folder)?.list(&self.path(folder), NAMES_MAX)?;
        Ok(listed.into_iter().map(|status| status.name).collect())
    }

    fn rename(&self, folder: &[String], name: &str, new_name: &str) -> io::Result<()> {
        let (from, to) = (self.file(folder, name), self.file(folder, new_name));
        Ok(self.system(folder)?.rename(&from, &to, false)?)
    }

    fn remove(&self, folder: &[String], name: &str) -> io::Result<()> {
        let _existed = self.system(folder)?.delete(&self.file(folder, name))?;
        Ok(())
    }
}

struct OpenFile {
    file: Box<dyn ReadFile>,
    /// Connections of the file.
    _system: Box<dyn FileSystem>,
}

impl Read for OpenFile {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.file.read(buffer)
    }
}

struct UriFile {
    file: BufWriter<Box<dyn WriteFile>>,
    /// Connections of the file.
    _system: Box<dyn FileSystem>,
}

impl Write for UriFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl RemoteFile for UriFile {
    fn close(self: Box<Self>) -> io::Result<()> {
        let file = self.file.into_inner();
        Ok(file.map_err(io::IntoInnerError::into_error)?.close()?)
    }
}

#[cfg(test)]
mod tests {
    use hadoop_fs::FsConfig;

    use super::*;

    #[test]
    fn a_group_that_does_not_exist_leaves_the_logs_without_it() {
        let base = tempfile::tempdir().unwrap();
        let systems = Arc::new(FileSystems::new(FsConfig::default()));
        let root = format!("file:{}/remote", base.path().display());
        let group = Some("no such group".to_owned());
        let user = "no such user".to_owned();
        let destination = UriDestination::new(systems, root.parse().unwrap(), user, group);
        let file = destination.create(&["joe".to_owned()], "n").unwrap();
        file.close().unwrap();
        assert_eq!(destination.names(&["joe".to_owned()]).unwrap(), ["n"]);
    }

    #[test]
    fn a_file_is_written_renamed_listed_and_removed() {
        let base = tempfile::tempdir().unwrap();
        let root = format!("file:{}/remote", base.path().display());
        let systems = Arc::new(FileSystems::new(FsConfig::default()));
        let destination =
            UriDestination::new(systems, root.parse().unwrap(), "nm".to_owned(), None);
        let folder = ["joe".to_owned(), "app".to_owned()];
        for name in ["n.tmp", "m.tmp"] {
            let mut file = destination.create(&folder, name).unwrap();
            file.write_all(b"log").unwrap();
            file.close().unwrap();
        }
        destination.rename(&folder, "n.tmp", "n").unwrap();
        let taken = destination.rename(&folder, "m.tmp", "n").unwrap_err();
        assert_eq!(taken.kind(), io::ErrorKind::AlreadyExists);
        destination.remove(&folder, "m.tmp").unwrap();
        assert_eq!(destination.names(&folder).unwrap(), ["n"]);
        let opened = destination.open(&folder, "n").unwrap();
        assert_eq!(io::read_to_string(opened).unwrap(), "log");
        let read = std::fs::read(base.path().join("remote/joe/app/n")).unwrap();
        assert_eq!(read, b"log");
    }
}
