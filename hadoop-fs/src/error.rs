//! Errors of file systems. Each names the URI and the step that failed.

use std::io;
use std::time::Duration;

use thiserror::Error;

/// Failure of a step in a file system.
#[derive(Debug, Error)]
pub enum FsError {
    /// Scheme that no file system of this crate has. The text is Hadoop's
    /// (`FileSystem.getFileSystemClass`).
    #[error("No FileSystem for scheme \"{scheme}\"")]
    UnsupportedScheme {
        /// URI of the file.
        uri: String,
        /// Scheme of the URI.
        scheme: String,
    },
    /// URI of HDFS in a program that was built without it.
    #[error("cannot use {uri}: this program was built without the feature `hdfs`")]
    WithoutHdfs {
        /// URI of the file.
        uri: String,
    },
    /// Cluster whose HDFS wants Kerberos or delegation tokens.
    #[error(
        "cannot use {uri}: hadoop.security.authentication is {method}, and only simple is supported"
    )]
    Authentication {
        /// URI of the file.
        uri: String,
        /// Value of the property.
        method: String,
    },
    /// URI without a host where the default file system gives none either.
    #[error("{uri} names no host, and fs.defaultFS is of another file system")]
    NoHost {
        /// URI of the file.
        uri: String,
    },
    /// File or folder that does not exist.
    #[error("File does not exist: {uri}")]
    NotFound {
        /// URI of the file.
        uri: String,
    },
    /// File or folder that exists already.
    #[error("cannot {step} {uri}: it exists already")]
    Exists {
        /// Operation that failed, as a verb.
        step: &'static str,
        /// URI of the file.
        uri: String,
    },
    /// Operation that the user may not perform.
    #[error("cannot {step} {uri}: {message}")]
    Denied {
        /// Operation that failed, as a verb.
        step: &'static str,
        /// URI of the file.
        uri: String,
        /// Text of the file system.
        message: String,
    },
    /// Exception of the NameNode.
    #[error("cannot {step} {uri}: {class}: {message}")]
    Remote {
        /// Operation that failed, as a verb.
        step: &'static str,
        /// URI of the file.
        uri: String,
        /// Java class of the exception.
        class: String,
        /// First line of the exception's text.
        message: String,
    },
    /// Step that took longer than the limit. Its connection is given up.
    #[error("cannot {step} {uri}: no answer within {limit:?}")]
    TimedOut {
        /// Operation that failed, as a verb.
        step: &'static str,
        /// URI of the file.
        uri: String,
        /// Limit on the time of a step.
        limit: Duration,
    },
    /// Folder with more entries than the caller takes.
    #[error("{uri} has more than {limit} entries")]
    TooMany {
        /// URI of the folder.
        uri: String,
        /// Limit on the number of entries.
        limit: usize,
    },
    /// Operation that the kernel refused, or connection that broke.
    #[error("cannot {step} {uri}")]
    Io {
        /// Operation that failed, as a verb.
        step: &'static str,
        /// URI of the file.
        uri: String,
        /// Cause of the failure.
        #[source]
        source: io::Error,
    },
    /// Failure inside the HDFS client.
    #[error("cannot {step} {uri}: {message}")]
    Client {
        /// Operation that failed, as a verb.
        step: &'static str,
        /// URI of the file.
        uri: String,
        /// Text of the client.
        message: String,
    },
    /// End or absence of the process that does this work for its caller.
    #[error("cannot {step} {uri}: {message}")]
    Worker {
        /// Operation that failed, as a verb.
        step: &'static str,
        /// URI of the file.
        uri: String,
        /// Reason, such as the signal that ended the process.
        message: String,
    },
}

/// Operations that errors name.
const STEPS: [&str; 12] = [
    "read the status of",
    "list",
    "open",
    "create",
    "rename",
    "set the mode of",
    "set the owner of",
    "delete",
    "read",
    "write",
    "complete",
    "start a thread for",
];

impl FsError {
    /// Returns the operation of this name; one that no error of this crate names is "use".
    #[must_use]
    pub fn known_step(name: &str) -> &'static str {
        let known = STEPS.into_iter().find(|step| *step == name);
        known.unwrap_or("use")
    }

    /// Returns the kind of the failure in the terms of [`io`].
    #[must_use]
    pub fn kind(&self) -> io::ErrorKind {
        match self {
            Self::UnsupportedScheme { .. }
            | Self::WithoutHdfs { .. }
            | Self::Authentication { .. } => io::ErrorKind::Unsupported,
            Self::NoHost { .. } => io::ErrorKind::InvalidInput,
            Self::NotFound { .. } => io::ErrorKind::NotFound,
            Self::Exists { .. } => io::ErrorKind::AlreadyExists,
            Self::Denied { .. } => io::ErrorKind::PermissionDenied,
            Self::TimedOut { .. } => io::ErrorKind::TimedOut,
            Self::Io { source, .. } => source.kind(),
            Self::Remote { .. }
            | Self::TooMany { .. }
            | Self::Client { .. }
            | Self::Worker { .. } => io::ErrorKind::Other,
        }
    }

    /// Returns whether the user's token is missing, has ended or was cancelled: the step may
    /// succeed with another token.
    #[must_use]
    pub fn is_of_token(&self) -> bool {
        match self {
            Self::Remote { class, .. } => class.ends_with(INVALID_TOKEN),
            // The client puts what ends a negotiation into its own text.
            Self::Client { message, .. } | Self::Denied { message, .. } => {
                message.contains(INVALID_TOKEN)
            }
            Self::UnsupportedScheme { .. }
            | Self::WithoutHdfs { .. }
            | Self::Authentication { .. }
            | Self::NoHost { .. }
            | Self::NotFound { .. }
            | Self::Exists { .. }
            | Self::TimedOut { .. }
            | Self::TooMany { .. }
            | Self::Io { .. }
            | Self::Worker { .. } => false,
        }
    }

    /// Returns whether the same step may succeed later: the connection failed, not the request.
    #[must_use]
    pub fn is_resumable(&self) -> bool {
        match self {
            Self::TimedOut { .. } | Self::Worker { .. } => true,
            Self::Io { source, .. } => is_broken_connection(source.kind()),
            Self::Remote { class, .. } => RESUMABLE_EXCEPTIONS.contains(&class.as_str()),
            Self::Client { .. }
            | Self::UnsupportedScheme { .. }
            | Self::WithoutHdfs { .. }
            | Self::Authentication { .. }
            | Self::NoHost { .. }
            | Self::NotFound { .. }
            | Self::Exists { .. }
            | Self::Denied { .. }
            | Self::TooMany { .. } => false,
        }
    }
}

/// End of the name of Hadoop's class of the exception about tokens
/// (`SecretManager$InvalidToken`).
const INVALID_TOKEN: &str = "InvalidToken";

/// Exceptions of a NameNode that is starting or on standby (Hadoop: `RetryPolicies`).
pub(crate) const RESUMABLE_EXCEPTIONS: [&str; 3] = [
    "org.apache.hadoop.ipc.StandbyException",
    "org.apache.hadoop.ipc.RetriableException",
    "org.apache.hadoop.hdfs.server.namenode.SafeModeException",
];

pub(crate) fn is_broken_connection(kind: io::ErrorKind) -> bool {
    matches!(
        kind,
        io::ErrorKind::ConnectionRefused
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionAborted
            | io::ErrorKind::NotConnected
            | io::ErrorKind::BrokenPipe
            | io::ErrorKind::UnexpectedEof
            | io::ErrorKind::HostUnreachable
            | io::ErrorKind::NetworkUnreachable
            | io::ErrorKind::TimedOut
    )
}

impl From<FsError> for io::Error {
    fn from(error: FsError) -> Self {
        Self::new(error.kind(), error)
    }
}
