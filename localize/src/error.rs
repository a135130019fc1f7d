//! Errors of localization, with the texts that AMs and people read.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use archives::{BadPattern, Unsupported};
use hadoop_fs::FsError;
use thiserror::Error;
use users::RefusedUser;

use super::user_name::InvalidUserName;

/// Failure to create, read or choose a folder of the node.
#[derive(Debug, Error)]
pub enum DirsError {
    /// Operation that the kernel refused.
    #[error("cannot {action} {path}", path = path.display())]
    Io {
        /// Operation that failed: `create`, `open`, …
        action: &'static str,
        /// Path that it was applied to.
        path: PathBuf,
        /// Cause of the failure.
        #[source]
        source: io::Error,
    },
    /// Configuration whose folders of one kind are all unusable.
    #[error("none of the {kind} can be used: {causes}")]
    NoneUsable {
        /// Property of the kind, `local-dirs` or `log-dirs`.
        kind: &'static str,
        /// Configured directories, each with its reason.
        causes: String,
    },
    /// Directory that another agent uses. Two agents need directories of their own.
    #[error("{path} cannot be used: {holder}", path = path.display())]
    InUse {
        /// The directory.
        path: PathBuf,
        /// Words that name the other agent's process, if it is known.
        holder: String,
    },
    /// Node with too few good directories for containers to start (Hadoop:
    /// `ContainerLaunch.call`).
    #[error("Most of the disks failed. {report}")]
    DisksFailed {
        /// Report on the directories that are not good.
        report: String,
    },
    /// Check of a directory for which the system starts no thread.
    #[error("cannot start a thread for the check of the directories")]
    NoThread(#[source] io::Error),
    /// User whose containers may not run here.
    #[error("containers of this user cannot run")]
    User(#[source] RefusedUser),
    /// Size for which no disk has enough free space.
    #[error("no local directory has {bytes} bytes free beyond what downloads leave to containers")]
    NoRoom {
        /// Size of the file in bytes.
        bytes: u64,
    },
}

/// Failure of a container's localization. The text, with its sources, goes into the container's
/// diagnostics.
#[derive(Clone, Debug, Error)]
pub enum LocalizeError {
    /// User name that cannot be part of a path.
    #[error(transparent)]
    InvalidUser(#[from] InvalidUserName),
    /// Resource whose path does not end in a file name.
    #[error("resource {url} for {link:?} has no file name")]
    NoName {
        /// Link name in the request.
        link: String,
        /// URL of the resource.
        url: String,
    },
    /// Resource that could not be localized.
    #[error("failed to localize {url}")]
    Resource {
        /// Link name in the request.
        link: String,
        /// URL of the resource.
        url: String,
        /// Cause of the failure, shared by all containers that waited for the resource.
        #[source]
        source: Arc<FetchError>,
    },
    /// Node with too few good directories (Hadoop: `ResourceLocalizationService.LocalizerRunner`).
    #[error("All disks failed. {report}")]
    DisksFailed {
        /// Report on the directories that are not good.
        report: String,
    },
    /// Request of a container that was released meanwhile.
    #[error("localization was cancelled")]
    Cancelled,
    /// Request that was open when the node stopped.
    #[error("the node is stopping")]
    Stopping,
}

impl LocalizeError {
    /// Returns the text for the container's diagnostics: Hadoop's, which is the message and once
    /// more behind its Java class, or else the whole chain of causes in one line.
    #[must_use]
    pub fn diagnostics(&self) -> String {
        if let Self::Resource { source, .. } = self
            && let Some(class) = source.java_class()
        {
            let note = source.note();
            return format!("{source}\n{class}: {source}\n{note}\n");
        }
        crate::error_chain(self)
    }
}

/// Failure to download one resource. The texts with a Java class are Hadoop's own, for which people
/// search.
#[derive(Debug, Error)]
pub enum FetchError {
    /// Failure of a file system other than the node's own, or a scheme that none has.
    #[error(transparent)]
    FileSystem(#[from] FsError),
    /// Source that does not exist (Hadoop: `RawLocalFileSystem.getFileStatus`).
    #[error("File {url} does not exist")]
    Missing {
        /// URL of the resource.
        url: String,
    },
    /// Source that has changed since the application was submitted (Hadoop:
    /// `FSDownload.verifyAndCopy`).
    #[error(
        "Resource {url} changed on src filesystem - expected: \"{expected}\", was: \"{was}\", current time: \"{now}\""
    )]
    Changed {
        /// URL of the resource.
        url: String,
        /// Modification time in the request, ISO 8601.
        expected: String,
        /// Modification time found, ISO 8601.
        was: String,
        /// Time of the check, ISO 8601.
        now: String,
    },
    /// Public resource that other users may not read (Hadoop: `FSDownload.verifyAndCopy`).
    #[error(
        "Resource {url} is not publicly accessible and as such cannot be part of the public cache."
    )]
    NotPublic {
        /// URL of the resource.
        url: String,
    },
    /// Source that cannot be read.
    #[error("cannot {action} {path}")]
    Source {
        /// Operation that failed.
        action: &'static str,
        /// Path in the source's file system.
        path: String,
        /// Cause of the failure.
        #[source]
        source: io::Error,
    },
    /// Source that is, or holds, a device, pipe or socket.
    #[error("{path} is neither a file nor a folder")]
    SpecialFile {
        /// Path in the source's file system.
        path: String,
    },
    /// Source whose folders are nested above the limit.
    #[error("{path} is nested deeper than {limit} folders")]
    TooDeep {
        /// Path in the source's file system.
        path: String,
        /// Limit on nested folders.
        limit: usize,
    },
    /// Source folder with more files than one resource may have.
    #[error("too many files, at {name}")]
    TooManyEntries {
        /// First name above the limit.
        name: String,
    },
    /// Source that delivered nothing for the limit. A thread may hang in it for longer.
    #[error("{url} made no progress for {limit_ms} ms")]
    Stalled {
        /// URL of the resource.
        url: String,
        /// Limit on the time without progress, in milliseconds.
        limit_ms: u64,
    },
    /// Download for which the system starts no thread.
    #[error("cannot start a thread for the download")]
    NoThread(#[source] io::Error),
    /// Archive that cannot be unpacked.
    #[error(transparent)]
    Unpack(UnpackError),
    /// Copy that cannot be written.
    #[error("cannot write {name} to the cache")]
    Write {
        /// Name of the file or entry that was being written.
        name: String,
        /// Cause of the failure.
        #[source]
        source: io::Error,
    },
    /// Failure to create a folder for the download.
    #[error(transparent)]
    Dirs(#[from] DirsError),
    /// Download that no container waits for any more.
    #[error("the download was given up")]
    GivenUp,
    /// Panic while this resource was read; other downloads continue.
    #[error("reading {url} broke off inside the agent")]
    BrokeOff {
        /// URL of the resource.
        url: String,
    },
}

impl FetchError {
    /// Returns the class of Hadoop's exception with this text; `None` for a text of our own.
    fn java_class(&self) -> Option<&str> {
        match self {
            Self::FileSystem(error) => java_class(error),
            Self::Missing { .. } => Some("java.io.FileNotFoundException"),
            Self::Changed { .. } | Self::NotPublic { .. } => Some("java.io.IOException"),
            Self::Source { .. }
            | Self::SpecialFile { .. }
            | Self::TooDeep { .. }
            | Self::TooManyEntries { .. }
            | Self::Stalled { .. }
            | Self::NoThread(_)
            | Self::Unpack(_)
            | Self::Write { .. }
            | Self::Dirs(_)
            | Self::GivenUp
            | Self::BrokeOff { .. } => None,
        }
    }

    /// Returns what Hadoop's text does not tell; often empty. Stands where Java has its stack.
    fn note(&self) -> String {
        if let Self::FileSystem(FsError::UnsupportedScheme { uri, .. }) = self {
            format!("cannot read {uri}: only file: and hdfs: resources are read")
        } else {
            String::new()
        }
    }
}

/// Returns the class of Hadoop's exception with the text of a file system's error.
fn java_class(error: &FsError) -> Option<&str> {
    match error {
        FsError::UnsupportedScheme { .. } => {
            Some("org.apache.hadoop.fs.UnsupportedFileSystemException")
        }
        FsError::NotFound { .. } => Some("java.io.FileNotFoundException"),
        FsError::WithoutHdfs { .. }
        | FsError::Authentication { .. }
        | FsError::NoHost { .. }
        | FsError::Exists { .. }
        | FsError::Denied { .. }
        | FsError::Remote { .. }
        | FsError::TimedOut { .. }
        | FsError::TooMany { .. }
        | FsError::Io { .. }
        | FsError::Client { .. }
        | FsError::Worker { .. } => None,
    }
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

/// Failure to unpack an archive.
#[derive(Debug, Error)]
pub enum UnpackError {
    /// Entry that is refused because it would do harm.
    #[error("archive {archive}, entry {entry:?}: {reason}")]
    Refused {
        /// File name of the archive.
        archive: String,
        /// Name of the entry, cut to a length that fits a log line.
        entry: String,
        /// Rule that the entry breaks.
        reason: RefusedEntry,
    },
    /// Archive whose content is not of the format that its name states.
    #[error("archive {archive} cannot be read")]
    Malformed {
        /// File name of the archive.
        archive: String,
        /// Error of the format's reader.
        #[source]
        source: io::Error,
    },
    /// Pattern, to select entries, that does not compile.
    #[error("pattern {pattern:?} for archive {archive}")]
    Pattern {
        /// File name of the archive.
        archive: String,
        /// Pattern, cut to a length that fits a log line.
        pattern: String,
        /// Error of the compiler.
        #[source]
        source: BadPattern,
    },
    /// Entry that cannot be written to the cache.
    #[error("archive {archive}, entry {entry:?} cannot be written")]
    Write {
        /// File name of the archive.
        archive: String,
        /// Name of the entry, cut to a length that fits a log line.
        entry: String,
        /// Cause of the failure.
        #[source]
        source: io::Error,
    },
    /// Download that no container waits for any more.
    #[error("the download was given up")]
    GivenUp,
}

/// Rule for which an archive's entry is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum RefusedEntry {
    /// Name with a `..` part.
    #[error("its name leaves the folder")]
    LeavesFolder,
    /// Name that cannot be a path: empty, too long, or with a NUL.
    #[error("its name cannot be a path")]
    BadName,
    /// Name with more parts than the limit.
    #[error("its name has too many parts")]
    TooDeep,
    /// Name with a file where a folder is needed.
    #[error("its name goes through something that is no folder")]
    ThroughFile,
    /// Name that goes through links of the archive out of its folder, or in a circle.
    #[error("its name goes through a link that leaves the folder")]
    ThroughLink,
    /// Symbolic link to nothing: an empty text, one that is too long, or one with a NUL.
    #[error("it is a link whose target cannot be a path")]
    BadTarget,
    /// Hard link to anything but a file or a link of this archive.
    #[error("it is a hard link to no file of the archive")]
    LinkToNoFile,
    /// Form that the archive uses and no reader knows.
    #[error(transparent)]
    Unsupported(#[from] Unsupported),
    /// File with the name of an existing folder.
    #[error("there already is a folder of this name")]
    ReplacesFolder,
    /// Entry above the limit on entries.
    #[error("the archive has too many entries")]
    TooManyEntries,
    /// Content above the free space of the disk.
    #[error("it does not fit on the disk")]
    DiskFull,
}
