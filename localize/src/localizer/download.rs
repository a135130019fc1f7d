//! Threads of downloads, and one download: its place, its content, and the rename that makes it
//! visible when complete.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nix::errno::Errno;

use super::super::cache::{Download, Place};
use super::super::deletion::Deletion;
use super::super::disk::Disk;
use super::super::error::{DirsError, FetchError};
use super::super::fetch::{self, Fetch, Wanted};
use super::super::kept::{self, Seal};
use super::super::layout::Scope;
use super::super::resource::{ResourceKind, ResourceSpec};
use super::Shared;
use dir_handle::DirHandle;

/// Limit on numbers tried for a download whose folder already exists. Only a folder that is still
/// being deleted, or that a user created, is in the way.
const PLACE_TRIES_MAX: u32 = 1000;

/// A resource that is complete in its place.
#[derive(Clone, Debug)]
pub(super) struct Stored {
    pub(super) place: Place,
    pub(super) bytes: u64,
    /// Facts by which it is known again; `None`: they cannot be read.
    pub(super) seal: Option<Seal>,
}

impl Shared {
    /// Starts the downloads whose turn it is, each on a thread.
    pub(super) fn start_downloads(self: &Arc<Self>) {
        loop {
            let downloads = self.take_downloads();
            if downloads.is_empty() {
                return;
            }
            for download in downloads {
                self.spawn(download);
            }
        }
    }

    fn take_downloads(&self) -> Vec<Download> {
        let mut state = self.state();
        if state.is_stopping {
            return Vec::new();
        }
        std::iter::from_fn(|| state.cache.next_download()).collect()
    }

    fn spawn(self: &Arc<Self>, download: Download) {
        let (shared, of_thread) = (self.clone(), download.clone());
        let thread = std::thread::Builder::new().name("localize-fetch".to_owned());
        let spawned = thread.spawn(move || shared.download_each(of_thread));
        if let Err(error) = spawned {
            self.finish(&download, Err(FetchError::NoThread(error)));
        }
    }

    /// Performs downloads while there are any whose turn it is.
    fn download_each(self: Arc<Self>, first: Download) {
        let mut next = Some(first);
        while let Some(download) = next {
            let result = self.download(&download);
            let place = result.as_ref().ok().map(|stored| stored.place.clone());
            let is_unwanted = self.finish(&download, result);
            if let (Some(place), true) = (place, is_unwanted) {
                self.discard(&download.scope, &place);
            }
            let mut others = self.take_downloads();
            next = others.pop();
            for other in others {
                self.spawn(other);
            }
        }
    }

    /// Records the end of a download and answers the requests that waited for it. Returns whether
    /// none did.
    fn finish(&self, download: &Download, result: Result<Stored, FetchError>) -> bool {
        let entry = download.entry;
        let now_ms = self.now_ms();
        let mut state = self.state();
        if result.is_ok() {
            state.cache.seen(entry, now_ms);
        }
        let stored = result.as_ref().ok().cloned();
        let result = result.map(|stored| (stored.place, stored.bytes));
        let finished = state.cache.finish(entry, result.map_err(Arc::new));
        state.cache.thread_ended(entry);
        if let Some(stored) = stored.filter(|_| !finished.unwanted) {
            // Before the lock is released, and with it before anything could evict the resource.
            self.keep(download, &stored);
        }
        drop(state);
        self.thread_ended.notify_all();
        self.answer(finished.complete, finished.failed);
        finished.unwanted
    }

    pub(super) fn path_of(&self, scope: &Scope, place: &Place) -> PathBuf {
        let disk = self.dirs.local(place.disk);
        let path = disk.map(|disk| disk.path.clone()).unwrap_or_default();
        path.join(kept::path_below(scope, place))
    }

    pub(super) fn is_on_disk(&self, scope: &Scope, place: &Place) -> bool {
        let disk = self.dirs.local(place.disk);
        disk.is_some_and(|disk| is_there(&disk, &kept::path_below(scope, place)))
    }

    pub(super) fn deletion_of(&self, scope: &Scope, place: &Place) -> Option<Deletion> {
        self.deletion_in(scope, place, place.id.to_string())
    }

    fn deletion_in(&self, scope: &Scope, place: &Place, last: String) -> Option<Deletion> {
        let disk = self.dirs.local(place.disk)?.clone();
        let mut names = kept::names_to(scope, place);
        names.push(last);
        Some(Deletion::new(disk, names))
    }

    /// Deletes a download that no request waits for.
    pub(super) fn discard(&self, scope: &Scope, place: &Place) {
        let mut state = self.state();
        state.cache.release_place(scope, place);
        let application_ended = !state.cache.has_scope(scope);
        drop(state);
        self.deletion.delete(self.deletion_of(scope, place));
        if let (Scope::Application(user, application), true) = (scope, application_ended) {
            // The download may have created the application's folder again after its deletion.
            let again = self.dirs.application_deletions(*application, user);
            self.deletion.delete(again);
        }
    }

    pub(super) fn download(&self, download: &Download) -> Result<Stored, FetchError> {
        let disk = self
            .dirs
            .choose_for(expected_bytes(&download.spec), &mut rand::rng())?;
        let reader = self.dirs.reader_of(&download.scope)?;
        let wanted = Wanted {
            url: &download.spec.url,
            scope: &download.scope,
            asker: &download.asker,
        };
        let source = (self.source_of)(&wanted, reader)?;
        let (place, parent, folder) = self.create_folder(download, disk)?;
        let job = Fetch {
            spec: &download.spec,
            name: &place.name,
            target: &folder,
            public: download.scope.is_public(),
            modes: download.scope.modes(),
            wall_clock: self.wall_clock,
            progress: &download.progress,
            source: source.as_ref(),
            read_archive: &self.sources.archive_reader(&wanted),
        };
        // Names and contents are a stranger's choice: a panic because of them must fail this
        // resource, and the turns must learn that the thread is free. None of the state is used
        // afterwards.
        let fetched = catch_unwind(AssertUnwindSafe(|| fetch::fetch(&job)));
        let fetched = fetched.unwrap_or_else(|_| {
            Err(FetchError::BrokeOff {
                url: download.spec.url.to_string(),
            })
        });
        let unfinished = unfinished_name(&place);
        let renamed = fetched.and_then(|bytes| {
            let renamed = parent.rename(&unfinished, &parent, place.id.to_string());
            renamed.map(|()| bytes).map_err(|source| FetchError::Write {
                name: unfinished.clone(),
                source,
            })
        });
        match renamed {
            Ok(bytes) => {
                let seal = folder.status(&place.name).ok();
                let seal = seal.and_then(|status| Seal::of(&status));
                Ok(Stored { place, bytes, seal })
            }
            Err(error) => {
                self.state().cache.release_place(&download.scope, &place);
                let unfinished = self.deletion_in(&download.scope, &place, unfinished);
                self.deletion.delete(unfinished);
                Err(error)
            }
        }
    }

    /// Creates the folder `<id>_tmp` for a download. Returns its place, its parent, and the folder
    /// itself.
    fn create_folder(
        &self,
        download: &Download,
        disk_index: usize,
    ) -> Result<(Place, DirHandle, DirHandle), FetchError> {
        let scope = &download.scope;
        let disk = self.dirs.local(disk_index);
        let disk = disk.ok_or(DirsError::NoRoom { bytes: 0 })?;
        let modes = self.dirs.modes();
        let owner = scope.user().map(|user| self.dirs.owner_of(user));
        let owner = owner.transpose()?.flatten();
        let mut tries = PLACE_TRIES_MAX;
        loop {
            let taken = self.state().cache.take_place(download.entry, disk_index);
            let place = taken.ok_or(FetchError::GivenUp)?;
            let mut steps = scope.steps(modes);
            let shards = place.shard_names().into_iter();
            steps.extend(shards.map(|name| scope.shard(name, modes)));
            let error = match disk.ensure(&steps, owner) {
                Ok(parent) => match create_unfinished(&parent, &place, scope.modes().folder) {
                    Ok(folder) => return Ok((place, parent, folder)),
                    Err(error) => FetchError::Write {
                        name: unfinished_name(&place),
                        source: error,
                    },
                },
                Err(error) => FetchError::Dirs(error),
            };
            self.state().cache.release_place(scope, &place);
            tries -= 1;
            let taken = matches!(&error, FetchError::Write { source, .. }
                if source.kind() == io::ErrorKind::AlreadyExists);
            if !taken || tries == 0 {
                return Err(error);
            }
        }
    }
}

/// Looks whether there is anything at this path below a local directory. A link on the way is no
/// way to a resource.
pub(super) fn is_there(disk: &Disk, below: &Path) -> bool {
    match disk.root.has_beneath(below) {
        Ok(is_there) => is_there,
        // A lack of handles in the agent does not mean that the file is missing.
        Err(error) => matches!(
            error.raw_os_error().map(Errno::from_raw),
            Some(Errno::EMFILE | Errno::ENFILE | Errno::ENOMEM)
        ),
    }
}

fn unfinished_name(place: &Place) -> String {
    format!("{}_tmp", place.id)
}

/// Creates the unfinished folder. A folder that is still being deleted, or that the user created,
/// may have the number: then the caller tries the next.
fn create_unfinished(parent: &DirHandle, place: &Place, mode: u32) -> io::Result<DirHandle> {
    if parent.kind(place.id.to_string())?.is_some() {
        return Err(io::ErrorKind::AlreadyExists.into());
    }
    parent.create(unfinished_name(place), mode)
}

/// Returns the bytes to look for on a disk, from the size in the request; 0 for an invalid size
/// (Hadoop: `ResourceLocalizationService.getEstimatedSize` takes five times the size of an
/// archive).
fn expected_bytes(spec: &ResourceSpec) -> u64 {
    const UNPACKED_FACTOR: u64 = 5;
    let size = u64::try_from(spec.size).unwrap_or(0);
    match spec.kind {
        ResourceKind::File => size,
        ResourceKind::Archive | ResourceKind::Pattern(_) => size.saturating_mul(UNPACKED_FACTOR),
    }
}
