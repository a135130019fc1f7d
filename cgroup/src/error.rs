//! Errors of kernel files. Each names the operation, the path and, for writes, the data.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use thiserror::Error;

/// An operation on a cgroup that failed.
#[derive(Debug, Error)]
pub enum CgroupError {
    /// Opening, reading, creating or removing failed.
    #[error("cannot {operation} {}", path.display())]
    Io {
        /// Verb for the message, such as "open".
        operation: &'static str,
        /// File or directory that the operation was tried on.
        path: PathBuf,
        /// Error number from the kernel.
        source: io::Error,
    },
    /// A write to a control file failed.
    #[error("cannot write {data:?} to {}", path.display())]
    Write {
        /// Control file that was written to.
        path: PathBuf,
        /// Text that was written.
        data: String,
        /// Error number from the kernel.
        source: io::Error,
    },
    /// A file's content does not match the kernel's documentation.
    #[error("{} says {text:?}, which is not {expected}", path.display())]
    Format {
        /// File that was read.
        path: PathBuf,
        /// Format that was expected, for the message.
        expected: &'static str,
        /// First 80 characters of the content.
        text: String,
    },
    /// A text that cannot name a cgroup: letters, digits, `_` and `-` only, at most 255 of them.
    #[error("{name:?} cannot be the name of a cgroup")]
    Name {
        /// Text as given, shortened to 255 characters.
        name: String,
    },
    /// No hierarchy of this host supports the operation.
    #[error("no hierarchy here can {operation}")]
    Unsupported {
        /// Verb for the message, such as "freeze".
        operation: &'static str,
    },
    /// The kernel did not finish within the timeout.
    #[error("{name} could not {operation} within {} ms", waited.as_millis())]
    Timeout {
        /// Verb for the message, such as "freeze".
        operation: &'static str,
        /// Name of the cgroup that was waited for.
        name: String,
        /// Timeout that has passed.
        waited: Duration,
    },
}

impl CgroupError {
    /// Returns the kernel's error number, if the kernel refused.
    #[must_use]
    pub fn errno(&self) -> Option<i32> {
        match self {
            Self::Io { source, .. } | Self::Write { source, .. } => source.raw_os_error(),
            Self::Format { .. }
            | Self::Name { .. }
            | Self::Unsupported { .. }
            | Self::Timeout { .. } => None,
        }
    }
}

/// Reason why cgroups, or one hierarchy of them, cannot be used. The caller can go on without them.
#[derive(Debug, Error)]
pub enum Unusable {
    /// No mounted hierarchy has a wanted controller.
    #[error("no cgroup hierarchy is mounted")]
    NotMounted,
    /// No cgroup was delegated to this process, and none is configured.
    #[error("no cgroup was delegated to this process")]
    NotDelegated,
    /// Creating or writing is not permitted, or the hierarchy is mounted read-only.
    #[error("no right to use it")]
    NoRights(#[source] CgroupError),
    /// The cgroup holds processes of others, so controllers cannot be enabled for its children.
    #[error("the cgroup holds other processes")]
    Busy(#[source] CgroupError),
    /// Another process holds the lock of the directory.
    #[error("{} is used by another agent", path.display())]
    InUse {
        /// Directory that is locked.
        path: PathBuf,
    },
    /// Any other refusal of the kernel.
    #[error("the kernel refuses")]
    Broken(#[source] CgroupError),
}

impl From<CgroupError> for Unusable {
    fn from(error: CgroupError) -> Self {
        match error.errno() {
            Some(libc::EACCES | libc::EPERM | libc::EROFS) => Self::NoRights(error),
            // EOPNOTSUPP: the cgroup has become the root of a threaded subtree.
            Some(libc::EBUSY | libc::EOPNOTSUPP) => Self::Busy(error),
            Some(_) | None => Self::Broken(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn io_error(errno: i32) -> CgroupError {
        CgroupError::Io {
            operation: "make",
            path: PathBuf::from("/x"),
            source: io::Error::from_raw_os_error(errno),
        }
    }

    #[test]
    fn missing_rights_differ_from_other_failures() {
        for errno in [libc::EACCES, libc::EPERM, libc::EROFS] {
            assert!(matches!(io_error(errno).into(), Unusable::NoRights(_)));
        }
        assert!(matches!(io_error(libc::EBUSY).into(), Unusable::Busy(_)));
        assert!(matches!(io_error(libc::EIO).into(), Unusable::Broken(_)));
    }

    #[test]
    fn an_error_names_operation_path_and_data() {
        let error = CgroupError::Write {
            path: PathBuf::from("/c/memory.max"),
            data: "1".to_owned(),
            source: io::Error::from_raw_os_error(libc::EINVAL),
        };
        assert_eq!(error.to_string(), "cannot write \"1\" to /c/memory.max");
    }
}
