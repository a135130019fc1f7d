//! The containers and files that an upload takes, found one after the other. Tenants decide how
//! many there are, so only a part of their names is in memory at any time.

use std::collections::BTreeSet;
use std::vec;

use dir_handle::{DirHandle, FileKind};
use records::ContainerName;

use super::{Upload, UploadedFile};
use crate::listing::next_entries;
use crate::policy::ContainerEnd;
use crate::selection::Phase;

/// Containers in one upload that an earlier agent knew.
const EARLIER_MAX: usize = 100_000;

/// Files of one container in one upload, and all that is there beside them.
const FILES_MAX: usize = 10_000;

/// File names in memory at once. One takes at most 255 bytes.
const NAMES_PART: usize = 500;

/// Containers of an earlier agent in memory at once.
const EARLIER_PART: usize = 5_000;

/// Files of a container to upload, with their folders: those of a disk together and sorted by name,
/// as Hadoop does.
pub(super) struct Candidates<'a> {
    folders: &'a [DirHandle],
    id: ContainerName,
    phase: Phase,
    upload: &'a Upload,
    names: vec::IntoIter<String>,
    /// Last of the names that were read from the first folder.
    last: Option<String>,
    /// The first folder has no more names.
    is_at_end: bool,
    /// Number of names so far that are none of files uploaded before.
    count: usize,
}

impl<'a> Candidates<'a> {
    pub(super) fn new(
        folders: &'a [DirHandle],
        id: ContainerName,
        phase: Phase,
        upload: &'a Upload,
    ) -> Self {
        Self {
            folders,
            id,
            phase,
            upload,
            names: Vec::new().into_iter(),
            last: None,
            is_at_end: false,
            count: 0,
        }
    }

    /// Returns the upload that they are for.
    pub(super) fn upload(&self) -> &'a Upload {
        self.upload
    }

    /// Reads further names.
    fn read(&mut self, folder: &DirHandle) {
        let selected = |name: &str| {
            let is_selected = self.upload.selection.selects(self.phase, name);
            is_selected.then(|| name.to_owned())
        };
        let names = next_entries(folder, self.last.as_ref(), NAMES_PART, selected);
        self.is_at_end = names.len() < NAMES_PART;
        self.last = names.last().cloned();
        self.names = names.into_iter();
    }
}

impl<'a> Iterator for Candidates<'a> {
    type Item = (&'a DirHandle, UploadedFile);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let (folder, others) = self.folders.split_first()?;
            let Some(name) = self.names.next() else {
                if self.is_at_end {
                    (self.folders, self.last, self.is_at_end) = (others, None, false);
                } else {
                    self.read(folder);
                }
                continue;
            };
            let file = regular_file(folder, self.id, name);
            if file
                .as_ref()
                .is_some_and(|file| self.upload.uploaded.contains(file))
            {
                continue;
            }
            if self.count == FILES_MAX {
                tracing::warn!(container = %self.id, FILES_MAX, "further logs of the container are left out");
                self.folders = &[];
                return None;
            }
            self.count += 1;
            if let Some(file) = file {
                return Some((folder, file));
            }
        }
    }
}

fn regular_file(
    folder: &DirHandle,
    container: ContainerName,
    name: String,
) -> Option<UploadedFile> {
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

/// Opens a container's folder on each disk that has one.
pub(super) fn container_folders(folders: &[DirHandle], id: ContainerName) -> Vec<DirHandle> {
    let name = id.to_string();
    let opened = folders.iter().map(|folder| folder.open(&name));
    opened.filter_map(Result::ok).collect()
}

/// Containers that ended under an earlier agent: what is known of them are their logs.
pub(super) struct Earlier<'a> {
    folders: &'a [DirHandle],
    /// Index of the folder that is read.
    index: usize,
    upload: &'a Upload,
    listed: BTreeSet<ContainerName>,
    ids: vec::IntoIter<ContainerName>,
    last: Option<ContainerName>,
    is_at_end: bool,
    count: usize,
}

impl<'a> Earlier<'a> {
    /// Looks through the application's folders, one on each disk.
    pub(super) fn new(folders: &'a [DirHandle], upload: &'a Upload) -> Self {
        Self {
            folders,
            index: 0,
            upload,
            listed: upload.containers.iter().map(|(id, _)| *id).collect(),
            ids: Vec::new().into_iter(),
            last: None,
            is_at_end: false,
            count: 0,
        }
    }

    /// Returns the container that a folder is named after, if its logs are to be taken.
    fn wanted(&self, name: &str) -> Option<ContainerName> {
        let upload = self.upload;
        let id: ContainerName = name.parse().ok()?;
        let is_known = self.listed.contains(&id) || upload.settled.contains(&id);
        let is_wanted = id.application_id() == upload.application
            && !is_known
            && upload.selection.policy().takes(&ContainerEnd::unknown(id));
        is_wanted.then_some(id)
    }

    /// Reads further names.
    fn read(&mut self, folder: &DirHandle) {
        let wanted = |name: &str| self.wanted(name);
        let ids = next_entries(folder, self.last.as_ref(), EARLIER_PART, wanted);
        self.is_at_end = ids.len() < EARLIER_PART;
        self.last = ids.last().copied();
        self.ids = ids.into_iter();
    }

    /// Returns whether a folder that was read before has logs of the container as well.
    fn was_returned(&self, id: ContainerName) -> bool {
        let name = id.to_string();
        let before = self.folders.iter().take(self.index);
        before
            .map(|folder| folder.kind(&name))
            .any(|kind| kind.ok().flatten() == Some(FileKind::Directory))
    }
}

impl Iterator for Earlier<'_> {
    type Item = ContainerName;

    fn next(&mut self) -> Option<ContainerName> {
        loop {
            let folder = self.folders.get(self.index)?;
            let Some(id) = self.ids.next() else {
                if self.is_at_end {
                    self.index += 1;
                    (self.last, self.is_at_end) = (None, false);
                } else {
                    self.read(folder);
                }
                continue;
            };
            if self.was_returned(id) {
                continue;
            }
            if self.count == EARLIER_MAX {
                tracing::warn!(application = %self.upload.application, EARLIER_MAX, "further logs of the application are left out");
                self.index = self.folders.len();
                return None;
            }
            self.count += 1;
            return Some(id);
        }
    }
}
