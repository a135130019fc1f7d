//! One upload: the logs of some containers of an application, from the local disks into one file.
//!
//! Blocking. Files are read by directory handle: a link in a log folder is no log, wherever it
//! points, nor is a pipe or a folder.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;

use dir_handle::{DirHandle, FileKind};
use localize::NodeDirs;
use records::{ApplicationId, ContainerId, EpochMillis};

use crate::aggregated_log::{Acls, AggregatedLog, Appended};
use crate::destination::{Destination, RemoteFile};
use crate::policy::ContainerEnd;
use crate::remote;
use crate::selection::{Phase, Selection};
use crate::tfile::Compression;

/// Containers in one upload that an earlier agent knew.
const EARLIER_MAX: usize = 100_000;

/// Files of one container in one upload. Their names are in memory while they are sorted.
const FILES_MAX: usize = 10_000;

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
    pub containers: Vec<(ContainerId, Phase)>,
    /// Files that an earlier upload took.
    pub uploaded: BTreeSet<UploadedFile>,
    /// Containers of which nothing is to be taken any more.
    pub settled: BTreeSet<ContainerId>,
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
    /// Id of the container.
    pub container: ContainerId,
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
    /// Files in the upload. If there are none, no remote file was made.
    pub files: Vec<UploadedFile>,
    /// Bytes of these files.
    pub bytes: u64,
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

#[cfg(test)]
impl UploadError {
    /// Returns some error.
    pub(crate) fn for_test() -> Self {
        Self {
            step: "create",
            path: Vec::new(),
            source: io::ErrorKind::StorageFull.into(),
        }
    }
}

/// A log file to upload.
struct Candidate<'a> {
    folder: &'a DirHandle,
    file: UploadedFile,
}

/// Remote file that is made when the first log file is found.
struct Target<'a> {
    uploader: &'a Uploader,
    folder: [String; 4],
    temporary: String,
    log: Option<AggregatedLog<Box<dyn RemoteFile>>>,
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
        let mut uploaded = Uploaded::default();
        let mut rolled = Vec::new();
        let mut containers = upload.containers.clone();
        if upload.is_last {
            containers.extend(earlier(&folders, upload));
        }
        for (id, phase) in &containers {
            let folders = container_folders(&folders, *id);
            let candidates = candidates(&folders, *id, *phase, upload);
            if candidates.is_empty() {
                continue;
            }
            target.append(*id, &candidates, upload, &mut uploaded)?;
            if !upload.is_last && self.deletes_rolled {
                rolled.push((*id, candidates.into_iter().map(|it| it.file.name).collect()));
            }
        }
        uploaded.remote = target.complete(upload)?;
        for (id, names) in rolled {
            delete_rolled(&container_folders(&folders, id), names);
        }
        Ok(uploaded)
    }
}

impl Target<'_> {
    /// Appends the files of a container. The first one makes the remote file.
    fn append(
        &mut self,
        id: ContainerId,
        candidates: &[Candidate<'_>],
        upload: &Upload,
        uploaded: &mut Uploaded,
    ) -> Result<(), UploadError> {
        if self.log.is_none() {
            let destination = &self.uploader.destination;
            let log = destination
                .create(&self.folder, &self.temporary)
                .and_then(|file| {
                    let compression = self.uploader.compression;
                    AggregatedLog::new(file, compression, &upload.user, &upload.acls)
                });
            self.log = Some(log.map_err(|source| self.error("create", source))?);
        }
        let Some(log) = &mut self.log else {
            return Ok(());
        };
        let appended = log.append_container(id, |files| {
            for Candidate { folder, file } in candidates {
                let name = &file.name;
                let mut content = match folder.open_regular(name) {
                    Ok(content) => content,
                    Err(error) => {
                        tracing::warn!(container = %id, name, %error, "this log is left out");
                        continue;
                    }
                };
                if let Appended::Filled { missing, error } =
                    files.append(name, file.length, &mut content)?
                {
                    tracing::warn!(container = %id, name, missing, ?error, "this log has become shorter");
                }
                uploaded.bytes += file.length;
                uploaded.files.push(file.clone());
            }
            Ok(())
        });
        appended.map_err(|source| self.error("write", source))
    }

    /// Completes the remote file, if there is one, and gives it its name.
    fn complete(&mut self, upload: &Upload) -> Result<Option<RemoteLog>, UploadError> {
        let Some(log) = self.log.take() else {
            return Ok(None);
        };
        let closed = log.finish().and_then(RemoteFile::close);
        let renamed = closed.and_then(|()| self.rename(upload));
        if renamed.is_err() {
            // The error that matters is on its way already.
            let destination = &self.uploader.destination;
            let _left = destination.remove(&self.folder, &self.temporary);
        }
        renamed
            .map(Some)
            .map_err(|source| self.error("complete", source))
    }

    /// Renames the temporary file. What is there stays: an agent that was started again must not
    /// replace the logs that it uploaded before.
    fn rename(&self, upload: &Upload) -> io::Result<RemoteLog> {
        let Uploader {
            destination, node, ..
        } = self.uploader;
        let names = destination.names(&self.folder)?;
        let completed_at = (self.uploader.wall_now)();
        let name = if upload.is_rolling || names.contains(node) {
            remote::dated_name(node, completed_at)
        } else {
            node.clone()
        };
        let keep = self.uploader.files_per_application.saturating_sub(1);
        let removed = remote::surplus(&names, node, keep);
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

/// Returns the containers that ended under an earlier agent: what is known of them are their logs.
fn earlier(folders: &[DirHandle], upload: &Upload) -> BTreeMap<ContainerId, Phase> {
    let listed: BTreeSet<ContainerId> = upload.containers.iter().map(|(id, _)| *id).collect();
    let mut found = BTreeMap::new();
    for folder in folders {
        let names = folder.names().into_iter().flatten();
        let ids = names.filter_map(|name| name.ok()?.to_str()?.parse::<ContainerId>().ok());
        for id in ids.filter(|id| id.application_id() == upload.application) {
            let is_known = listed.contains(&id) || upload.settled.contains(&id);
            if is_known || !upload.selection.policy().takes(&ContainerEnd::unknown(id)) {
                continue;
            }
            if found.len() == EARLIER_MAX {
                tracing::warn!(application = %upload.application, EARLIER_MAX, "further logs of the application are left out");
                return found;
            }
            found.insert(id, Phase::ApplicationFinished);
        }
    }
    found
}

/// Opens a container's folder on each disk that has one.
fn container_folders(folders: &[DirHandle], id: ContainerId) -> Vec<DirHandle> {
    let name = id.to_string();
    let opened = folders.iter().map(|folder| folder.open(&name));
    opened.filter_map(Result::ok).collect()
}

/// Lists the files to upload, those of a disk together and sorted by name, as Hadoop does.
fn candidates<'a>(
    folders: &'a [DirHandle],
    id: ContainerId,
    phase: Phase,
    upload: &Upload,
) -> Vec<Candidate<'a>> {
    let mut candidates = Vec::new();
    for folder in folders {
        let begin = candidates.len();
        let names = folder.names().into_iter().flatten();
        for name in names.filter_map(|name| name.ok()?.into_string().ok()) {
            if !upload.selection.selects(phase, &name) {
                continue;
            }
            let Some(file) = regular_file(folder, id, name) else {
                continue;
            };
            if candidates.len() == FILES_MAX {
                tracing::warn!(container = %id, FILES_MAX, "further logs of the container are left out");
                break;
            }
            if !upload.uploaded.contains(&file) {
                candidates.push(Candidate { folder, file });
            }
        }
        candidates[begin..].sort_by(|one, other| one.file.name.cmp(&other.file.name));
    }
    candidates
}

fn regular_file(folder: &DirHandle, container: ContainerId, name: String) -> Option<UploadedFile> {
    let status = folder.status(&name).ok()?;
    match status.kind {
        FileKind::File => Some(UploadedFile {
            container,
            name,
            modified_s: status.modified_s,
            length: status.length,
        }),
        FileKind::Link => {
            tracing::warn!(%container, name, "a link among the logs is left out");
            None
        }
        FileKind::Directory | FileKind::Special => None,
    }
}

/// Deletes files that were uploaded while their application runs.
fn delete_rolled(folders: &[DirHandle], names: Vec<String>) {
    for name in names {
        for folder in folders {
            // One that is gone is what was wanted; another that stays is in the last upload's way
            // no more than any file.
            let _gone = folder.unlink(&name);
        }
    }
}

#[cfg(test)]
mod tests;
