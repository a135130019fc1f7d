//! One upload: the logs of some containers of an application, from the local disks into one file.
//!
//! Blocking. Files are read by directory handle: a link in a log folder is no log, wherever it
//! points, nor is a pipe or a folder.

use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::sync::Arc;
use std::time::UNIX_EPOCH;

use dir_handle::DirHandle;
use hadoop_fs::FsError;
use localize::NodeDirs;
use records::{ApplicationId, ContainerName, EpochMillis};

use crate::aggregated_log::{Acls, Appended};
use crate::destination::{Destination, RemoteFile};
use crate::format::{Format, LogWriter};
use crate::indexed_log::Description;
use crate::remote;
use crate::selection::{Phase, Selection};
use crate::tfile::Compression;

mod candidates;

use self::candidates::{Candidates, Earlier, container_folders};

/// Bytes for files that an upload names afterwards, those of [`Uploaded::listed`].
const LISTED_BYTES_MAX: usize = 128 * 1024;

/// Bytes for the names of files that one rolling upload takes and that are to be deleted, or told
/// from others, afterwards. What is beyond is left to the next upload.
const ROLLED_BYTES_MAX: usize = 256 * 1024;

/// Facts that all uploads of a node share.
pub struct Uploader {
    /// Local and log directories of the node.
    pub dirs: NodeDirs,
    /// File system for the aggregated logs.
    pub destination: Box<dyn Destination>,
    /// Suffix in the folders' names, such as `logs-tfile`.
    pub suffix: String,
    /// Name of the node in file names, see [`remote::node_name`].
    pub node: String,
    /// Format of the files.
    pub format: Format,
    /// Host and port of the node, which the files name.
    pub node_id: String,
    /// Compression of the files.
    pub compression: Compression,
    /// Files that this node keeps of an application that runs for long.
    pub files_per_application: usize,
    /// Whether rolled files are deleted on this node once they are uploaded.
    pub deletes_rolled: bool,
    /// Clock for the names of files.
    pub wall_now: fn() -> EpochMillis,
}

/// An upload to perform.
#[derive(Debug)]
pub struct Upload {
    /// Id of the application.
    pub application: ApplicationId,
    /// User of the application.
    pub user: String,
    /// Access control lists of the application.
    pub acls: Arc<Acls>,
    /// Files to take.
    pub selection: Arc<Selection>,
    /// Containers to take, each in its phase.
    pub containers: Vec<(ContainerName, Phase)>,
    /// Files that an earlier upload took.
    pub uploaded: Arc<BTreeSet<UploadedFile>>,
    /// Containers of which nothing is to be taken any more.
    pub settled: BTreeSet<ContainerName>,
    /// Whether this upload ends the application's aggregation. Then it also takes containers that
    /// ended under an earlier agent: those with a folder of logs that are neither listed nor
    /// settled, as far as the policy allows.
    pub is_last: bool,
    /// Whether the application is uploaded several times, so that its files need dates.
    pub is_rolling: bool,
}

/// Identity of a file that was uploaded: one that has changed since is another.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct UploadedFile {
    /// Name of the container.
    pub container: ContainerName,
    /// Name of the file.
    pub name: String,
    /// Time of the last modification, in seconds since the epoch.
    pub modified_s: i64,
    /// Length in bytes.
    pub length: u64,
}

/// Result of an upload.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Uploaded {
    /// Number of files in the upload. If it is 0, no remote file was made.
    pub files: u64,
    /// Bytes of these files.
    pub bytes: u64,
    /// The first of these files, as many as fit in 128 KiB. A tenant decides how many files there
    /// are and how long their names are.
    pub listed: Vec<UploadedFile>,
    /// Files of running containers that stay here although they are in the upload.
    pub left: Vec<UploadedFile>,
    /// Containers of which the upload has a part, and a later one must take the rest.
    pub unfinished: BTreeSet<ContainerName>,
    /// Remote file with these files; `None` if there are none.
    pub remote: Option<RemoteLog>,
}

/// Remote file that an upload made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoteLog {
    /// Name of the file in the application's folder.
    pub name: String,
    /// Time of its completion.
    pub completed_at: EpochMillis,
    /// Names of older files of this node that were removed for it.
    pub removed: Vec<String>,
}

/// Failure of an upload. Nothing of it is left but, at worst, the temporary file.
#[derive(Debug, thiserror::Error)]
#[error("cannot {step} {}", path.join("/"))]
pub struct UploadError {
    step: &'static str,
    path: Vec<String>,
    #[source]
    source: io::Error,
}

impl UploadError {
    /// Returns the failure of an upload that was not begun.
    #[must_use]
    pub fn not_begun(source: io::Error) -> Self {
        Self {
            step: "go on with the upload",
            path: vec!["of logs".to_owned()],
            source,
        }
    }
}

impl UploadError {
    /// Returns whether the file system refuses the user's token, or there is none: another one may
    /// do.
    #[must_use]
    pub fn is_of_token(&self) -> bool {
        let source = self.source.get_ref();
        let source = source.and_then(|source| source.downcast_ref::<FsError>());
        source.is_some_and(FsError::is_of_token)
    }
}

#[cfg(test)]
impl UploadError {
    /// Returns the error of a file system that refuses a token.
    pub(crate) fn of_token() -> Self {
        let refused = FsError::Remote {
            step: "create",
            uri: "hdfs://nn/logs".to_owned(),
            class: "org.apache.hadoop.security.token.SecretManager$InvalidToken".to_owned(),
            message: "token expired".to_owned(),
        };
        Self {
            source: refused.into(),
            ..Self::for_test()
        }
    }

    /// Returns some error.
    pub(crate) fn for_test() -> Self {
        Self {
            step: "create",
            path: Vec::new(),
            source: io::ErrorKind::StorageFull.into(),
        }
    }
}

impl UploadedFile {
    /// Returns the bytes that it takes in memory.
    fn memory(&self) -> usize {
        size_of::<Self>() + self.name.len()
    }
}

/// Treatment of the files of a container that an upload has taken.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Then {
    /// The files stay, and nobody asks for them again.
    Settled,
    /// The files are deleted.
    Deleted,
    /// The files stay, and a later upload must not take them again.
    Left,
}

/// Files that one upload has taken so far.
#[derive(Default)]
struct Taken {
    uploaded: Uploaded,
    listed_bytes: usize,
    /// Bytes of names in `rolled` and in [`Uploaded::left`].
    rolled_bytes: usize,
    /// Files to delete, by container: their names, each with a `/` after it.
    rolled: Vec<(ContainerName, String)>,
}

impl Taken {
    /// Returns whether there is room to remember another file of this name.
    fn has_room(&self, file: &UploadedFile, then: Then) -> bool {
        then == Then::Settled || self.rolled_bytes + file.memory() <= ROLLED_BYTES_MAX
    }

    fn add(&mut self, file: UploadedFile, then: Then) {
        self.uploaded.files += 1;
        self.uploaded.bytes += file.length;
        match then {
            Then::Settled => {}
            Then::Deleted => {
                self.rolled_bytes += file.memory();
                if self
                    .rolled
                    .last()
                    .is_none_or(|(id, _)| *id != file.container)
                {
                    self.rolled.push((file.container, String::new()));
                }
                if let Some((_, names)) = self.rolled.last_mut() {
                    *names += &file.name;
                    names.push('/');
                }
            }
            Then::Left => {
                self.rolled_bytes += file.memory();
                self.uploaded.left.push(file.clone());
            }
        }
        self.listed_bytes += file.memory();
        if self.listed_bytes <= LISTED_BYTES_MAX {
            self.uploaded.listed.push(file);
        }
    }
}

/// Remote file that is made when the first log file is found.
struct Target<'a> {
    uploader: &'a Uploader,
    folder: [String; 4],
    temporary: String,
    log: Option<LogWriter<Box<dyn RemoteFile>>>,
    /// Names of the files of this upload that are complete.
    complete: Vec<String>,
}

impl Uploader {
    /// Performs an upload.
    ///
    /// # Errors
    /// [`UploadError`]: the destination failed. Files that cannot be read are left out and logged.
    pub fn upload(&self, upload: &Upload) -> Result<Uploaded, UploadError> {
        let folder = remote::folder(&upload.user, &self.suffix, upload.application);
        let mut target = Target {
            uploader: self,
            folder,
            temporary: remote::temporary_name(&self.node),
            log: None,
            complete: Vec::new(),
        };
        let result = self.write_all(upload, &mut target);
        if result.is_err() && target.log.take().is_some() {
            // The error that matters is on its way already.
            let _left = self.destination.remove(&target.folder, &target.temporary);
        }
        result
    }

    fn write_all(&self, upload: &Upload, target: &mut Target<'_>) -> Result<Uploaded, UploadError> {
        let folders = self.dirs.open_log_folders(upload.application);
        let mut taken = Taken::default();
        for (id, phase) in &upload.containers {
            let folders = container_folders(&folders, *id);
            let files = Candidates::new(&folders, *id, *phase, upload);
            target.append(*id, files, self.then(*phase, upload), &mut taken)?;
        }
        if upload.is_last {
            for id in Earlier::new(&folders, upload) {
                let (folders, phase) =
                    (container_folders(&folders, id), Phase::ApplicationFinished);
                let files = Candidates::new(&folders, id, phase, upload);
                target.append(id, files, Then::Settled, &mut taken)?;
            }
        }
        taken.uploaded.remote = target.complete(upload)?;
        for (id, names) in &taken.rolled {
            delete_rolled(&container_folders(&folders, *id), names);
        }
        Ok(taken.uploaded)
    }

    /// Decides about the files of a container in this phase once they are uploaded.
    fn then(&self, phase: Phase, upload: &Upload) -> Then {
        if upload.is_last {
            Then::Settled
        } else if self.deletes_rolled {
            Then::Deleted
        } else if phase == Phase::Running {
            Then::Left
        } else {
            Then::Settled
        }
    }
}

impl Target<'_> {
    /// Appends the files of a container. The first file of an upload makes the remote file.
    fn append(
        &mut self,
        id: ContainerName,
        files: Candidates<'_>,
        then: Then,
        taken: &mut Taken,
    ) -> Result<(), UploadError> {
        let upload = files.upload();
        let mut candidates = files.peekable();
        if candidates.peek().is_none() {
            return Ok(());
        }
        if self.log.as_ref().is_some_and(LogWriter::is_full) {
            self.complete(upload)?;
        }
        if self.log.is_none() {
            let destination = &self.uploader.destination;
            let log = destination
                .create(&self.folder, &self.temporary)
                .and_then(|file| {
                    let Uploader {
                        format,
                        compression,
                        ..
                    } = self.uploader;
                    LogWriter::new(file, *format, *compression, self.description(upload))
                });
            self.log = Some(log.map_err(|source| self.error("create", source))?);
        }
        let Some(log) = &mut self.log else {
            return Ok(());
        };
        let appended = log.append_container(id, |mut files| {
            for (folder, file) in candidates {
                if !taken.has_room(&file, then) {
                    taken.uploaded.unfinished.insert(id);
                    break;
                }
                let name = &file.name;
                let mut content = match folder.open_regular(name) {
                    Ok(content) => content,
                    Err(error) => {
                        tracing::warn!(container = %id, name, %error, "this log is left out");
                        continue;
                    }
                };
                let modified = modified_at(&content);
                if let Appended::Filled { missing, error } | Appended::Cut { missing, error } =
                    files.append(name, file.length, modified, &mut content)?
                {
                    tracing::warn!(container = %id, name, missing, ?error, "this log has become shorter");
                }
                taken.add(file, then);
            }
            Ok(())
        });
        appended.map_err(|source| self.error("write", source))
    }

    fn description(&self, upload: &Upload) -> Description {
        Description {
            application: upload.application,
            owner: upload.user.clone(),
            acls: upload.acls.to_vec(),
            node: self.uploader.node_id.clone(),
        }
    }

    /// Completes the remote file, if there is one, and gives it its name.
    fn complete(&mut self, upload: &Upload) -> Result<Option<RemoteLog>, UploadError> {
        let Some(log) = self.log.take() else {
            return Ok(None);
        };
        let completed = self.finish(log, upload);
        if completed.is_err() {
            // The error that matters is on its way already.
            let destination = &self.uploader.destination;
            let _left = destination.remove(&self.folder, &self.temporary);
        }
        let completed = completed.map_err(|source| self.error("complete", source))?;
        self.complete.push(completed.name.clone());
        Ok(Some(completed))
    }

    /// Completes and renames the temporary file. What is there stays: an agent that was started
    /// again must not replace the logs that it uploaded before.
    fn finish(
        &self,
        log: LogWriter<Box<dyn RemoteFile>>,
        upload: &Upload,
    ) -> io::Result<RemoteLog> {
        let Uploader {
            destination, node, ..
        } = self.uploader;
        let names = destination.names(&self.folder)?;
        let mut completed_at = (self.uploader.wall_now)();
        let mut name = node.clone();
        if upload.is_rolling || names.contains(node) {
            name = remote::dated_name(node, completed_at);
            while self.complete.contains(&name) {
                completed_at.0 += 1;
                name = remote::dated_name(node, completed_at);
            }
        }
        log.finish(&name, completed_at)?.close()?;
        let keep = self.uploader.files_per_application.saturating_sub(1);
        let mut removed = remote::surplus(&names, node, keep);
        removed.retain(|old| !self.complete.contains(old));
        for old in &removed {
            destination.remove(&self.folder, old)?;
        }
        destination.rename(&self.folder, &self.temporary, &name)?;
        Ok(RemoteLog {
            name,
            completed_at,
            removed,
        })
    }

    fn error(&self, step: &'static str, source: io::Error) -> UploadError {
        let mut path = self.folder.to_vec();
        path.push(self.temporary.clone());
        UploadError { step, path, source }
    }
}

/// Returns when a file was modified; the epoch if the file system does not say.
fn modified_at(file: &File) -> EpochMillis {
    let modified = file.metadata().and_then(|metadata| metadata.modified());
    let since = modified
        .ok()
        .and_then(|at| at.duration_since(UNIX_EPOCH).ok());
    EpochMillis(since.map_or(0, |since| {
        i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
    }))
}

/// Deletes files that were uploaded while their application runs. Each name has a `/` after it.
fn delete_rolled(folders: &[DirHandle], names: &str) {
    for name in names.split_terminator('/') {
        for folder in folders {
            // One that is gone is what was wanted; another that stays is in the last upload's way
            // no more than any file.
            let _gone = folder.unlink(name);
        }
    }
}

#[cfg(test)]
mod tests;
