//! What can go wrong with kernel files: always operation, path and, where something was written, the data.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use thiserror::Error;

/// An operation on a cgroup that did not work.
#[derive(Debug, Error)]
pub enum CgroupError {
    /// Opening, reading, making or removing.
    #[error("cannot {operation} {}", path.display())]
    Io {
        /// What was tried.
        operation: &'static str,
        /// With which file or directory.
        path: PathBuf,
        /// The kernel's answer.
        source: io::Error,
    },
    /// The kernel refused a value.
    #[error("cannot write {data:?} to {}", path.display())]
    Write {
        /// The control file.
        path: PathBuf,
        /// What was written.
        data: String,
        /// The kernel's answer.
        source: io::Error,
    },
    /// A file says something else than its documentation.
    #[error("{} says {text:?}, which is not {expected}", path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// What was expected.
        expected: &'static str,
        /// The beginning of what it says.
        text: String,
    },
    /// Not a name for a cgroup: letters, digits, `_` and `-` only, at most 255 of them.
    #[error("{name:?} cannot be the name of a cgroup")]
    Name {
        /// As given.
        name: String,
    },
    /// No hierarchy here can do this.
    #[error("no hierarchy here can {operation}")]
    NotThere {
        /// What was asked for.
        operation: &'static str,
    },
    /// The kernel did not get there in the time given.
    #[error("{name} could not {operation} within {} ms", waited.as_millis())]
    Late {
        /// What was waited for.
        operation: &'static str,
        /// Which cgroup.
        name: String,
        /// How long.
        waited: Duration,
    },
}

impl CgroupError {
    /// The kernel's error number, if it was the kernel that refused.
    #[must_use]
    pub fn errno(&self) -> Option<i32> {
        match self {
            Self::Io { source, .. } | Self::Write { source, .. } => source.raw_os_error(),
            Self::Format { .. } | Self::Name { .. } | Self::NotThere { .. } | Self::Late { .. } => {
                None
            }
        }
    }
}

/// Why cgroups, or one hierarchy of them, cannot be used. The caller can go on without.
#[derive(Debug, Error)]
pub enum Unusable {
    /// There is no hierarchy with a controller that is wanted.
    #[error("no cgroup hierarchy is mounted")]
    NotMounted,
    /// No cgroup was given to this process, and no other may be used.
    #[error("no cgroup was delegated to this process")]
    NotDelegated,
    /// Making or writing is not allowed, or the hierarchy is mounted read-only.
    #[error("no right to use it")]
    NoRights(#[source] CgroupError),
    /// Controllers cannot be given to children of a cgroup that holds processes of others.
    #[error("the cgroup holds other processes")]
    Busy(#[source] CgroupError),
    /// Another process works there.
    #[error("{} is used by another agent", path.display())]
    InUse {
        /// The locked directory.
        path: PathBuf,
    },
    /// Anything else that the kernel refused.
    #[error("it does not work")]
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
    fn missing_rights_are_told_from_other_failures() {
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
