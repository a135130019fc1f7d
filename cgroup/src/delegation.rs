//! The cgroup that a service manager has delegated to this process.

use std::os::fd::AsFd;

use nix::errno::Errno;
use rustix::fs::fgetxattr;

use crate::dir::{Dir, checked_name};
use crate::error::{CgroupError, Unusable};
use crate::layout::Hierarchy;
use crate::root::RootConfig;

/// Limit on the rounds of moving processes out of the delegated cgroup. Each round finds only
/// processes forked during the one before.
const MOVE_ROUNDS_MAX: usize = 100;

/// Whether this process's own cgroup of the unified hierarchy was delegated to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delegation {
    /// Decided by systemd's mark (`Delegate=yes`: attribute `user.delegate` or `trusted.delegate`).
    AsMarked,
    /// Delegated, with or without a mark.
    Given,
    /// Not delegated.
    None,
}

/// Opens the own cgroup, if it was delegated.
pub(crate) fn delegated(
    unified: &Hierarchy,
    config: &RootConfig<'_>,
) -> Result<Option<Dir>, Unusable> {
    if config.delegation == Delegation::None {
        return Ok(None);
    }
    let Some(own) = &unified.own else {
        return Ok(None);
    };
    // An agent that exec'ed this one has already moved to its leaf.
    let own = match own.file_name() {
        Some(name) if name == config.own_leaf => own.parent().unwrap_or(own),
        Some(_) | None => own,
    };
    if own.as_os_str().is_empty() && config.delegation == Delegation::AsMarked {
        return Ok(None);
    }
    let dir = match Dir::open(&unified.mount.join(own)) {
        // Without an explicit configuration the cgroup need not exist.
        Err(_) if config.delegation == Delegation::AsMarked => return Ok(None),
        opened => opened?,
    };
    let given = config.delegation == Delegation::Given || is_marked(&dir);
    Ok(given.then_some(dir))
}

/// Returns whether systemd has marked a cgroup as delegated.
fn is_marked(dir: &Dir) -> bool {
    [c"user.delegate", c"trusted.delegate"]
        .into_iter()
        .any(|name| {
            let mut value = [0_u8; 8];
            fgetxattr(dir.as_fd(), name, &mut value)
                .is_ok_and(|length| value.get(..length) == Some(b"1"))
        })
}

/// Moves all processes of a delegated cgroup to a leaf below it: they belong to this service.
pub(crate) fn move_to_leaf(own: &Dir, leaf: &str) -> Result<(), Unusable> {
    checked_name(leaf)?;
    let leaf = own.child(leaf)?;
    for _round in 0..MOVE_ROUNDS_MAX {
        let text = own.read("cgroup.procs")?;
        let mut pids = text.lines().peekable();
        if pids.peek().is_none() {
            return Ok(());
        }
        for pid in pids {
            match leaf.write("cgroup.procs", pid) {
                Ok(()) => {}
                Err(error) if error.errno() == Some(libc::ESRCH) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
    Err(Unusable::Busy(CgroupError::Io {
        operation: "empty",
        path: own.path().to_path_buf(),
        source: Errno::EBUSY.into(),
    }))
}
