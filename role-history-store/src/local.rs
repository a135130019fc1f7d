//! Directory of a service on this machine, or in a file system that it has mounted.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Read, Write as _};
use std::path::{Path, PathBuf};

use records::ApplicationAttemptId;
use role_history::SavedHistory;
use role_history::avro::write_history;

use crate::fence::Fence;
use crate::files::{BUFFER_BYTES, Files, StoreError, io_error};
use crate::names::{self, HistoryFile};

/// Local directory, opened by one attempt.
#[derive(Debug)]
pub(crate) struct LocalDirectory {
    pub(crate) path: PathBuf,
    attempt: ApplicationAttemptId,
}

impl LocalDirectory {
    /// Opens a directory and makes the attempt its owner. Removes unfinished saves.
    pub(crate) fn open(path: &Path, attempt: ApplicationAttemptId) -> Result<Self, StoreError> {
        fs::create_dir_all(path).map_err(failed("create", path))?;
        let mut fence = Fence::lock(path).map_err(failed("lock", path))?;
        let acquired = fence.acquire(attempt).map_err(failed("fence", path))?;
        if let Err(owner) = acquired {
            return Err(StoreError::Fenced {
                directory: path.display().to_string(),
                owner: Some(owner),
            });
        }
        for file in files(path, names::is_temporary)? {
            let file = path.join(file.name);
            fs::remove_file(&file).map_err(failed("remove", &file))?;
        }
        Ok(Self {
            path: path.to_owned(),
            attempt,
        })
    }

    /// Gives a complete file its name, if the attempt still owns the directory.
    fn publish(&self, temporary: &Path, path: &Path) -> Result<(), StoreError> {
        let directory = &self.path;
        let fence = Fence::lock(directory).map_err(failed("lock", directory))?;
        if fence.owner() != Some(self.attempt) {
            return Err(StoreError::Fenced {
                directory: directory.display().to_string(),
                owner: fence.owner(),
            });
        }
        fs::rename(temporary, path).map_err(failed("rename to", path))?;
        let synchronized = File::open(directory).and_then(|directory| directory.sync_all());
        synchronized.map_err(failed("synchronize", directory))
    }
}

impl Files for &LocalDirectory {
    fn histories(&self) -> Result<Vec<HistoryFile>, StoreError> {
        files(&self.path, names::is_history)
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn Read>> {
        Ok(Box::new(File::open(self.path.join(name))?))
    }

    fn save(&self, name: &str, history: &SavedHistory) -> Result<(), StoreError> {
        let temporary = self.path.join(names::temporary(name, self.attempt));
        let saved = write_file(&temporary, history)
            .map_err(failed("write", &temporary))
            .and_then(|()| self.publish(&temporary, &self.path.join(name)));
        if saved.is_err() {
            // May be gone already: the next owner removes what it finds.
            let _ = fs::remove_file(&temporary);
        }
        saved
    }

    fn remove(&self, name: &str) -> Result<(), StoreError> {
        let path = self.path.join(name);
        fs::remove_file(&path).map_err(failed("remove", &path))
    }

    fn location(&self, name: &str) -> String {
        self.path.join(name).display().to_string()
    }

    /// A disk that cannot read a file now rarely can later.
    fn may_heal(&self, _: &io::Error) -> bool {
        false
    }
}

/// Returns the regular files of a directory with the wanted names.
fn files(directory: &Path, wanted: impl Fn(&str) -> bool) -> Result<Vec<HistoryFile>, StoreError> {
    let listed = || -> io::Result<_> {
        let mut files = Vec::new();
        for entry in fs::read_dir(directory)? {
            let entry = entry?;
            let Ok(name) = entry.file_name().into_string() else {
                continue;
            };
            // The metadata is that of the entry itself: a link is no regular file.
            let metadata = entry.metadata()?;
            if wanted(&name) && metadata.is_file() {
                let bytes = metadata.len();
                files.push(HistoryFile { name, bytes });
            }
        }
        Ok(files)
    };
    listed().map_err(failed("list", directory))
}

/// Writes a new file. One that an interrupted save of the same attempt left behind is replaced, and
/// a link in its place is not followed.
fn write_file(path: &Path, history: &SavedHistory) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        Ok(()) | Err(_) => {}
    }
    let file = OpenOptions::new().write(true).create_new(true).open(path)?;
    let mut output = BufWriter::with_capacity(BUFFER_BYTES, file);
    write_history(history, &mut output)?;
    output.flush()?;
    output.get_ref().sync_all()
}

fn failed(operation: &'static str, path: &Path) -> impl FnOnce(io::Error) -> StoreError {
    let path = path.display().to_string();
    move |source| io_error(operation, path, source)
}
