//! Download of one resource from its source to the disk (Hadoop: `FSDownload`).
//!
//! Input: a container's request and an empty folder. Output: the resource in that folder under its
//! own name, and its size in bytes. The caller chooses the folder, and makes it visible only when
//! it is complete.

use std::ffi::{OsStr, OsString};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::Arc;

use archives::{ArchiveReader, Entries, Form, ReadError};
use hadoop_fs::{Caller, FileSystems, FsError};
use nix::errno::Errno;
use records::EpochMillis;
use time::OffsetDateTime;
use time::macros::format_description;

use super::budget::{Budget, CopyError, Exhausted};
use super::cache::Asker;
use super::error::FetchError;
use super::layout::{CacheModes, Scope};
use super::local_source::LocalSource;
use super::progress::Progress;
use super::remote_source::RemoteSource;
use super::resource::{ResourceKind, ResourceSpec, ResourceUrl};
use super::source::{Content, Opened, Reader, Source};
use super::unpack::{self, Packing, ReadArchive};
use dir_handle::DirHandle;

/// Deepest folder of a source that is copied. Each level is one recursion, so a link to its own
/// parent ends here.
const SOURCE_DEPTH_MAX: usize = 64;

/// Parameters of one download.
pub(super) struct Fetch<'a> {
    pub(super) spec: &'a ResourceSpec,
    /// Name of the resource in `target`.
    pub(super) name: &'a str,
    /// Empty folder for the resource.
    pub(super) target: &'a DirHandle,
    /// Whether the source must be readable by all users.
    pub(super) public: bool,
    /// Modes of the files and folders that are written.
    pub(super) modes: CacheModes,
    pub(super) wall_clock: fn() -> EpochMillis,
    pub(super) progress: &'a Progress,
    /// File system of the resource.
    pub(super) source: &'a dyn Source,
    /// Reader of the resource, if it is an archive.
    pub(super) read_archive: ReadArchive<'a>,
}

/// Function that opens the file system of a resource for its download.
pub(super) type SourceOf =
    Arc<dyn Fn(&Wanted<'_>, Reader) -> Result<Box<dyn Source>, FetchError> + Send + Sync>;

/// Resource whose file system is to be opened.
pub(super) struct Wanted<'a> {
    pub(super) url: &'a ResourceUrl,
    pub(super) scope: &'a Scope,
    pub(super) asker: &'a Asker,
}

/// Downloads the resource into the folder and returns its size in bytes.
pub(super) fn fetch(job: &Fetch<'_>) -> Result<u64, FetchError> {
    let mut copy = Copy {
        job,
        budget: Budget::new(job.target, job.progress),
    };
    copy.resource()?;
    Ok(copy.budget.written_bytes())
}

/// Source of resources.
#[derive(Clone, Debug)]
pub struct Sources {
    /// File systems of the node.
    pub file_systems: Arc<FileSystems>,
    /// Reader of archives.
    pub archives: Arc<dyn ArchiveReader>,
    /// Name of the agent's user towards file systems.
    pub own_user: String,
}

impl Sources {
    /// Returns the function that opens the file systems.
    pub(super) fn opener(&self) -> SourceOf {
        let Self {
            file_systems,
            own_user,
            ..
        } = self.clone();
        Arc::new(move |wanted, reader| {
            let uri = file_systems.resolve(&wanted.url.to_uri());
            if uri.has_scheme("file") {
                return Ok(Box::new(LocalSource { reader }));
            }
            let work = wanted.asker.application.to_string();
            let file_system = file_systems.open(&uri, wanted.caller(&own_user, &work))?;
            Ok(Box::new(RemoteSource::new(file_system)))
        })
    }

    /// Returns the function that reads the archive of a resource.
    pub(super) fn archive_reader<'a>(
        &'a self,
        wanted: &'a Wanted<'_>,
    ) -> impl Fn(Form<'_>, &mut dyn Read, &mut dyn Entries) -> Result<(), ReadError> + 'a {
        let work = wanted.asker.application.to_string();
        move |form, content, entries| {
            let caller = wanted.caller(&self.own_user, &work);
            self.archives.read(caller, form, content, entries)
        }
    }
}

impl Wanted<'_> {
    /// Returns the identity with which the resource is read: the user of its cache, or `own_user`
    /// for public resources (Hadoop: `ResourceLocalizationService`, whose public localizer runs as
    /// the NodeManager).
    fn caller<'a>(&'a self, own_user: &'a str, work: &'a str) -> Caller<'a> {
        match self.scope.user() {
            Some(user) => Caller::user(user.as_str(), work),
            None => Caller {
                charged: self.asker.user.as_str(),
                ..Caller::own(own_user, work)
            },
        }
    }
}

/// Content whose every read counts as a step: an archive may be read for long before there is
/// anything to write.
struct Counted<'a> {
    content: Box<dyn Content>,
    progress: &'a Progress,
}

impl Read for Counted<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.content.read(buffer)?;
        self.progress.count_step();
        Ok(length)
    }
}

impl Seek for Counted<'_> {
    fn seek(&mut self, position: SeekFrom) -> io::Result<u64> {
        self.content.seek(position)
    }
}

impl Content for Counted<'_> {
    fn modified_ms(&self) -> io::Result<i64> {
        self.content.modified_ms()
    }
}

struct Copy<'a> {
    job: &'a Fetch<'a>,
    budget: Budget<'a>,
}

impl Copy<'_> {
    fn resource(&mut self) -> Result<(), FetchError> {
        let spec = self.job.spec;
        let path = Path::new(&spec.url.path);
        match self.open(path)? {
            Opened::File(content) => {
                let progress = self.job.progress;
                let mut content = Counted { content, progress };
                self.check_time(content.modified_ms())?;
                match Packing::of(self.job.name, &spec.kind) {
                    Some(packing) => self.unpack(packing, &mut content)?,
                    None => {
                        if spec.kind != ResourceKind::File {
                            tracing::warn!(url = %spec.url, "no archive by its name; copied");
                        }
                        self.file(self.job.target, self.job.name.as_ref(), &mut content)?;
                    }
                }
                // The content is that of the request only if it did not change during the copy.
                self.check_time(content.modified_ms())
            }
            Opened::Folder { modified_ms, names } => {
                self.check_time(Ok(modified_ms))?;
                let name = self.job.name.as_ref();
                self.folder(path, names, self.job.target, name, 0)
            }
            Opened::Special => Err(special(path)),
        }
    }

    fn open(&self, path: &Path) -> Result<Opened, FetchError> {
        let opened = self.job.source.open(path, self.job.public);
        opened.map_err(|error| self.open_error(path, error))
    }

    fn open_error(&self, path: &Path, source: io::Error) -> FetchError {
        let (url, kind) = (&self.job.spec.url, source.kind());
        let resource = url.to_string();
        if source.get_ref().is_some_and(|error| error.is::<FsError>()) {
            read_error(path, source)
        } else if self.job.public && kind == io::ErrorKind::PermissionDenied {
            FetchError::NotPublic { url: resource }
        } else if kind == io::ErrorKind::NotFound && path == Path::new(&url.path) {
            FetchError::Missing { url: resource }
        } else {
            read_error(path, source)
        }
    }

    fn check_time(&self, modified_ms: io::Result<i64>) -> Result<(), FetchError> {
        let spec = self.job.spec;
        let was = modified_ms.map_err(|source| read_error(Path::new(&spec.url.path), source))?;
        if was == spec.timestamp_ms {
            return Ok(());
        }
        Err(FetchError::Changed {
            url: spec.url.to_string(),
            expected: iso_8601(spec.timestamp_ms),
            was: iso_8601(was),
            now: iso_8601((self.job.wall_clock)().0),
        })
    }

    fn unpack(
        &mut self,
        packing: Packing<'_>,
        content: &mut dyn Content,
    ) -> Result<(), FetchError> {
        let job = self.job;
        let unpacked = unpack::unpack(
            packing,
            job.name,
            content,
            job.target,
            job.modes,
            &mut self.budget,
            job.read_archive,
        );
        Ok(unpacked?)
    }

    fn file(
        &mut self,
        target: &DirHandle,
        name: &OsStr,
        content: &mut dyn Content,
    ) -> Result<(), FetchError> {
        let spent = self.budget.spend_entry();
        spent.map_err(|exhausted| give_up(name, exhausted))?;
        let file = target.create_file(name, self.job.modes.file);
        let mut file = file.map_err(|source| write_error(name, source))?;
        let copied = self.budget.copy(content, &mut file);
        copied.map_err(|error| match error {
            CopyError::Read(source) => read_error(Path::new(name), source),
            CopyError::Write(source) => write_error(name, source),
            CopyError::Exhausted(exhausted) => give_up(name, exhausted),
        })
    }

    fn folder(
        &mut self,
        path: &Path,
        names: Box<dyn Iterator<Item = io::Result<OsString>>>,
        target: &DirHandle,
        name: &OsStr,
        depth: usize,
    ) -> Result<(), FetchError> {
        if depth == SOURCE_DEPTH_MAX {
            return Err(FetchError::TooDeep {
                path: path.display().to_string(),
                limit: SOURCE_DEPTH_MAX,
            });
        }
        let spent = self.budget.spend_entry();
        spent.map_err(|exhausted| give_up(name, exhausted))?;
        let made = target.create(name, self.job.modes.folder);
        let made = made.map_err(|source| write_error(name, source))?;
        for inner in names {
            let inner = inner.map_err(|source| read_error(path, source))?;
            let inner_path = path.join(&inner);
            let opened = match self.job.source.open(&inner_path, self.job.public) {
                // A link to nothing, or a file that is gone since the list was read (Hadoop:
                // `RawLocalFileSystem.listStatus`).
                Err(error) if leads_nowhere(&error) => continue,
                opened => opened.map_err(|error| self.open_error(&inner_path, error))?,
            };
            match opened {
                Opened::File(mut content) => self.file(&made, &inner, content.as_mut())?,
                Opened::Folder { names, .. } => {
                    self.folder(&inner_path, names, &made, &inner, depth + 1)?;
                }
                Opened::Special => return Err(special(&inner_path)),
            }
        }
        Ok(())
    }
}

/// Returns whether the kernel found nothing at the end of a path: a name or the target of a link
/// does not exist, is below a file, or is a link in a circle. Errors of other file systems are none
/// of the kernel.
fn leads_nowhere(error: &io::Error) -> bool {
    let errno = error.raw_os_error().map(Errno::from_raw);
    matches!(errno, Some(Errno::ENOENT | Errno::ENOTDIR | Errno::ELOOP))
}

fn special(path: &Path) -> FetchError {
    FetchError::SpecialFile {
        path: path.display().to_string(),
    }
}

fn read_error(path: &Path, source: io::Error) -> FetchError {
    match source.downcast() {
        Ok(error) => FetchError::FileSystem(error),
        Err(source) => FetchError::Source {
            action: "read",
            path: path.display().to_string(),
            source,
        },
    }
}

fn write_error(name: &OsStr, source: io::Error) -> FetchError {
    FetchError::Write {
        name: name.display().to_string(),
        source,
    }
}

fn give_up(name: &OsStr, exhausted: Exhausted) -> FetchError {
    match exhausted {
        Exhausted::GivenUp => FetchError::GivenUp,
        Exhausted::Disk => write_error(name, io::ErrorKind::StorageFull.into()),
        Exhausted::Entries => FetchError::TooManyEntries {
            name: name.display().to_string(),
        },
    }
}

/// Formats a time as Hadoop's `Times.formatISO8601` does on a machine in UTC; times outside the
/// calendar as numbers.
fn iso_8601(epoch_ms: i64) -> String {
    let format = format_description!(
        "[year]-[month]-[day]T[hour]:[minute]:[second].[subsecond digits:3]+0000"
    );
    let nanoseconds = i128::from(epoch_ms) * 1_000_000;
    let formatted = OffsetDateTime::from_unix_timestamp_nanos(nanoseconds)
        .ok()
        .and_then(|time| time.format(format).ok());
    formatted.unwrap_or_else(|| epoch_ms.to_string())
}

#[cfg(test)]
mod tests;
