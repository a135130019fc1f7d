//! What can go wrong, and the texts that AMs and people read.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use thiserror::Error;

use super::user_name::InvalidUserName;

/// A folder of the node could not be made, read or chosen.
#[derive(Debug, Error)]
pub enum DirsError {
    /// The kernel refused an operation.
    #[error("cannot {action} {path}", path = path.display())]
    Io {
        /// What was being done: `create`, `open`, …
        action: &'static str,
        /// To what.
        path: PathBuf,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// Every configured folder of a kind is unusable.
    #[error("none of the {kind} can be used: {}", list(causes))]
    NoneUsable {
        /// `local-dirs` or `log-dirs`.
        kind: &'static str,
        /// Each that the configuration names, and what is wrong with it.
        causes: Vec<UnusableDir>,
    },
    /// No disk has room for a file.
    #[error("no local directory has {bytes} bytes free")]
    NoRoom {
        /// How many were needed.
        bytes: u64,
    },
}

/// A container does not get its resources. The text, with its sources, goes into the container's diagnostics.
#[derive(Clone, Debug, Error)]
pub enum LocalizeError {
    /// The user's name cannot be part of a path.
    #[error(transparent)]
    InvalidUser(#[from] InvalidUserName),
    /// The path of the resource does not end in a file name.
    #[error("resource {url} for {link:?} has no file name")]
    NoName {
        /// Link name in the request.
        link: String,
        /// The resource.
        url: String,
    },
    /// More is waiting to be downloaded than this node keeps track of; a later try may succeed.
    #[error("the node already localizes {limit} resources")]
    Busy {
        /// The most resources that may wait at once.
        limit: usize,
    },
    /// A resource could not be had.
    #[error("failed to localize {url}")]
    Resource {
        /// Link name in the request.
        link: String,
        /// The resource.
        url: String,
        /// Why; shared by all containers that waited for it.
        #[source]
        source: Arc<FetchError>,
    },
    /// The container was given up while it waited.
    #[error("localization was cancelled")]
    Cancelled,
    /// The node is stopping.
    #[error("the node is stopping")]
    Stopping,
}

impl LocalizeError {
    /// The whole chain of causes in one line, for the container's diagnostics.
    #[must_use]
    pub fn diagnostics(&self) -> String {
        crate::error_chain(self)
    }
}

/// A configured directory that is left out.
#[derive(Debug)]
pub struct UnusableDir {
    /// Which one.
    pub path: PathBuf,
    /// Why.
    pub error: DirsError,
}

/// The paths with their reasons, as a text.
fn list(causes: &[UnusableDir]) -> String {
    // Each error names its path.
    let causes = causes.iter().map(|cause| crate::error_chain(&cause.error));
    causes.collect::<Vec<_>>().join("; ")
}

/// One resource could not be brought to the local disk. Two of the texts are Hadoop's own, which people look for.
#[derive(Debug, Error)]
pub enum FetchError {
    /// Nothing here reads this kind of file system.
    #[error("cannot read {url}: this build reads only file: resources, not {scheme}:")]
    UnsupportedScheme {
        /// The resource.
        url: String,
        /// Its scheme.
        scheme: String,
    },
    /// The source is not what the application's submitter saw (Hadoop's `FSDownload.verifyAndCopy`).
    #[error(
        "Resource {url} changed on src filesystem - expected: \"{expected}\", was: \"{was}\", current time: \"{now}\""
    )]
    Changed {
        /// The resource.
        url: String,
        /// Modification time in the request, ISO 8601.
        expected: String,
        /// Modification time found, ISO 8601.
        was: String,
        /// When that was, ISO 8601.
        now: String,
    },
    /// A public resource that not everybody may read (Hadoop's `FSDownload.verifyAndCopy`).
    #[error(
        "Resource {url} is not publicly accessible and as such cannot be part of the public cache."
    )]
    NotPublic {
        /// The resource.
        url: String,
    },
    /// The source cannot be read.
    #[error("cannot {action} {path}")]
    Source {
        /// What was being done.
        action: &'static str,
        /// Path in the source's file system.
        path: String,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// The source is, or holds, a device, pipe or socket.
    #[error("{path} is neither a file nor a folder")]
    SpecialFile {
        /// Path in the source's file system.
        path: String,
    },
    /// The source's folders are nested deeper than we follow.
    #[error("{path} is nested deeper than {limit} folders")]
    TooDeep {
        /// Path in the source's file system.
        path: String,
        /// The deepest we go.
        limit: usize,
    },
    /// The source folder holds more files than one resource may.
    #[error("too many files, at {name}")]
    TooManyEntries {
        /// The first one too many.
        name: String,
    },
    /// More downloads are queued than the node keeps track of.
    #[error("too many downloads are waiting")]
    QueueFull,
    /// The archive cannot be unpacked.
    #[error(transparent)]
    Unpack(UnpackError),
    /// The copy cannot be written.
    #[error("cannot write {name} to the cache")]
    Write {
        /// File or entry being written.
        name: String,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// No folder to put it in.
    #[error(transparent)]
    Dirs(#[from] DirsError),
    /// Nobody waits for it any more.
    #[error("the download was given up")]
    GivenUp,
    /// A bug in reading this very resource; other downloads go on.
    #[error("reading {url} broke off inside the agent")]
    BrokeOff {
        /// The resource.
        url: String,
    },
}

impl From<UnpackError> for FetchError {
    fn from(error: UnpackError) -> Self {
        if matches!(error, UnpackError::GivenUp) {
            Self::GivenUp
        } else {
            Self::Unpack(error)
        }
    }
}

/// An archive that is not unpacked.
#[derive(Debug, Error)]
pub enum UnpackError {
    /// One entry would do harm.
    #[error("archive {archive}, entry {entry:?}: {reason}")]
    Refused {
        /// File name of the archive.
        archive: String,
        /// Name of the entry, cut to a length that fits a log line.
        entry: String,
        /// What is wrong with it.
        reason: RefusedEntry,
    },
    /// It cannot be read as what its name says it is.
    #[error("archive {archive} cannot be read")]
    Malformed {
        /// File name of the archive.
        archive: String,
        /// What the reader found.
        #[source]
        source: io::Error,
    },
    /// The expression that selects entries is not one we understand.
    #[error("pattern {pattern:?} for archive {archive}")]
    Pattern {
        /// File name of the archive.
        archive: String,
        /// The expression, cut to a length that fits a log line.
        pattern: String,
        /// What is wrong with it.
        #[source]
        source: regex::Error,
    },
    /// An entry cannot be written to the cache.
    #[error("archive {archive}, entry {entry:?} cannot be written")]
    Write {
        /// File name of the archive.
        archive: String,
        /// Name of the entry, cut to a length that fits a log line.
        entry: String,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// Nobody waits for it any more.
    #[error("the download was given up")]
    GivenUp,
}

/// Why an archive's entry is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum RefusedEntry {
    /// The name is absolute.
    #[error("its name is absolute")]
    AbsoluteName,
    /// The name has a `..` in it.
    #[error("its name leaves the folder")]
    LeavesFolder,
    /// The name cannot be a path: empty, too long, a NUL in it.
    #[error("its name cannot be a path")]
    BadName,
    /// The name has more parts than we follow.
    #[error("its name has too many parts")]
    TooDeep,
    /// A part of the name is a link, or a file, where a folder is needed.
    #[error("its name goes through something that is no folder")]
    ThroughLink,
    /// A symbolic link that points, or may point, out of the folder.
    #[error("it is a link that leaves the folder")]
    LinkLeavesFolder,
    /// A hard link to something that is not a file of this archive.
    #[error("it is a hard link to no file of the archive")]
    LinkToNoFile,
    /// A device, pipe or the like.
    #[error("it is neither file, folder nor link")]
    SpecialFile,
    /// A file where there already is a folder.
    #[error("there already is a folder of this name")]
    ReplacesFolder,
    /// More entries than we unpack.
    #[error("the archive has too many entries")]
    TooManyEntries,
    /// It is larger than the disk has room for.
    #[error("it does not fit on the disk")]
    DiskFull,
}
