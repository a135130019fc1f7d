//! The cgroup that a service manager has delegated to this process or, beside it, to its user.

use std::os::fd::AsFd;
use std::path::PathBuf;

use nix::errno::Errno;
use rustix::fs::fgetxattr;

use crate::dir::{Dir, checked_name};
use crate::error::{CgroupError, Unusable};
use crate::layout::{Hierarchy, Layout};
use crate::root_config::{Delegation, RootConfig, components};

/// Limit on the rounds of moving processes out of the delegated cgroup. Each round finds only
/// processes forked during the one before.
const MOVE_ROUNDS_MAX: usize = 100;

/// A cgroup that was delegated.
pub(crate) struct Delegated {
    pub(crate) dir: Dir,
    /// Whether this process is in it.
    pub(crate) is_own: bool,
}

/// Opens the delegated cgroup, if there is one.
pub(crate) fn delegated(
    unified: &Hierarchy,
    config: &RootConfig<'_>,
) -> Result<Option<Delegated>, Unusable> {
    match config.delegation {
        Delegation::None => return Ok(None),
        Delegation::Beside(path) => {
            let dir = open_beside(unified, path)?;
            return Ok(Some(Delegated { dir, is_own: false }));
        }
        Delegation::AsMarked | Delegation::Given => {}
    }
    let own = own_delegated(unified, config.delegation, config.own_leaf)?;
    Ok(own.map(|dir| Delegated { dir, is_own: true }))
}

/// Opens this process's own cgroup, if it was delegated. The process may be in the leaf `leaf` of
/// it.
fn own_delegated(
    unified: &Hierarchy,
    delegation: Delegation<'_>,
    leaf: &str,
) -> Result<Option<Dir>, Unusable> {
    let Some(own) = &unified.own else {
        return Ok(None);
    };
    // An agent that exec'ed this one has already moved to its leaf.
    let own = match own.file_name() {
        Some(name) if name == leaf => own.parent().unwrap_or(own),
        Some(_) | None => own,
    };
    if own.as_os_str().is_empty() && delegation == Delegation::AsMarked {
        return Ok(None);
    }
    let dir = match Dir::open(&unified.mount.join(own)) {
        // Without an explicit configuration the cgroup need not exist.
        Err(_) if delegation == Delegation::AsMarked => return Ok(None),
        opened => opened?,
    };
    let given = delegation == Delegation::Given || is_marked(&dir);
    Ok(given.then_some(dir))
}

/// Moves the processes of this process's own cgroup, if that was delegated, to its leaf `leaf`, so
/// that the cgroup can give controllers to its other children.
///
/// # Errors
/// The unified hierarchy is not mounted, or the kernel refuses.
pub fn move_below(layout: &Layout, leaf: &str) -> Result<(), Unusable> {
    let unified = layout.unified.as_ref().ok_or(Unusable::NotMounted)?;
    let own = own_delegated(unified, Delegation::AsMarked, leaf)?;
    move_to_leaf(&own.ok_or(Unusable::NotDelegated)?, leaf)
}

/// Moves this process from its own cgroup to the leaf `leaf` below the cgroup at the path `beside`
/// of the unified hierarchy, which was delegated ([`Delegation::Beside`]).
///
/// # Errors
/// There is no such cgroup, or the kernel refuses: the process stays where it is.
pub fn move_beside(layout: &Layout, beside: &str, leaf: &str) -> Result<(), Unusable> {
    let unified = layout.unified.as_ref().ok_or(Unusable::NotMounted)?;
    checked_name(leaf)?;
    let leaf = open_beside(unified, beside)?.child(leaf)?;
    // 0 stands for the process that writes.
    Ok(leaf.write("cgroup.procs", "0")?)
}

fn open_beside(unified: &Hierarchy, path: &str) -> Result<Dir, Unusable> {
    let below: PathBuf = components(path)?.into_iter().collect();
    Ok(Dir::open(&unified.mount.join(below))?)
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
