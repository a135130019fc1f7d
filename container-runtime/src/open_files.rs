//! The limit of open files. An agent watches, signals and samples many processes with a descriptor
//! for each, while a service is often started with room for a thousand; containers get what the
//! operator gave.

use std::io;
use std::sync::OnceLock;

use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// Open-file limits, soft and hard, that this process was started with. Set once the limit has been
/// raised.
static AT_START: OnceLock<(u64, u64)> = OnceLock::new();

/// Raises the soft limit of this process to its hard one: how many files it may have open from now
/// on. For the beginning of a program. Containers are started with the limits of before.
///
/// # Errors
/// The kernel does not tell.
pub fn raise() -> io::Result<u64> {
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    AT_START.get_or_init(|| (soft, hard));
    if soft >= hard {
        return Ok(soft);
    }
    match setrlimit(Resource::RLIMIT_NOFILE, hard, hard) {
        Ok(()) => Ok(hard),
        Err(error) => {
            tracing::warn!(%error, soft, hard, "the limit of open files cannot be raised");
            Ok(soft)
        }
    }
}

/// Returns the open-file limit of this process.
///
/// # Errors
/// Those of the kernel; it names none.
pub fn limit() -> io::Result<u64> {
    let (soft, _) = getrlimit(Resource::RLIMIT_NOFILE)?;
    Ok(soft)
}

/// The limits that containers get, soft and hard; `None`: those of this process.
pub(crate) fn of_containers() -> Option<(u64, u64)> {
    AT_START.get().copied()
}
