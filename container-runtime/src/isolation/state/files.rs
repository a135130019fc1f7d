//! Jobs carried out on files: those of the kernel, or of a model of it.

use cgroup::{CgroupError, Limits};

use super::action::{Done, FreezeReason, Group, Groups, Job, Progress, Scope};

/// Files of all cgroups, as far as jobs use them.
pub(crate) trait Files {
    fn write_scope(&mut self, scope: Scope, limits: &Limits) -> Result<(), CgroupError>;
    fn write(&mut self, group: Group, limits: &Limits) -> Result<(), CgroupError>;
    /// Freezes or thaws all cgroups of a container.
    fn set_frozen(
        &mut self,
        groups: Groups,
        frozen: bool,
        reason: FreezeReason,
    ) -> Result<(), CgroupError>;
    /// Returns whether all processes of a frozen cgroup have stopped.
    fn has_stopped(&mut self, group: Group) -> Result<bool, CgroupError>;
    /// Makes a cgroup with limits, or takes the one of that name.
    fn create(&mut self, group: Group, limits: &Limits) -> Result<(), CgroupError>;
    /// Removes an empty cgroup; one that is gone is fine.
    fn remove(&mut self, group: Group);
    /// Moves some processes and returns their number.
    fn move_some(&mut self, from: Group, to: Group) -> Result<usize, CgroupError>;
    /// Returns whether a process is inside; `false` where it cannot be read.
    fn is_populated(&mut self, group: Group) -> bool;
    /// Returns the memory charged, in bytes; `None`: unknown.
    fn held_bytes(&mut self, group: Group) -> Option<u64>;
    /// Reclaims memory; returns `false` where the kernel cannot do so on request.
    fn reclaim(&mut self, group: Group, bytes: u64) -> Result<bool, CgroupError>;
}

impl Job {
    /// Carries the job out. May block, unless it is a fast one.
    pub(crate) fn run(self, files: &mut impl Files) -> Option<Done> {
        Some(match self {
            Self::WriteScope {
                scope,
                part,
                limits,
            } => Done::ScopeWritten {
                scope,
                part,
                limits,
                result: files.write_scope(scope, &limits),
            },
            Self::Write {
                group,
                limits,
                reason,
            } => Done::Written {
                group,
                limits,
                reason,
                result: files.write(group, &limits),
            },
            Self::SetFrozen {
                id,
                groups,
                frozen,
                reason,
            } => Done::FrozenSet {
                id,
                reason,
                result: files.set_frozen(groups, frozen, reason),
            },
            Self::CheckFrozen { id, groups } => Done::FrozenChecked {
                id,
                result: progress(files, groups),
            },
            Self::Create { group, limits } => Done::Created {
                group,
                limits,
                result: files.create(group, &limits),
            },
            Self::Remove { group } => {
                files.remove(group);
                return None;
            }
            Self::Move { from, to } => Done::Moved {
                from,
                result: files.move_some(from, to),
            },
            Self::Measure { former } => Done::Measured {
                former,
                populated: files.is_populated(former),
                held: files.held_bytes(former).unwrap_or(0),
            },
            Self::Reclaim { id, groups, bytes } => Done::Reclaimed {
                id,
                result: match groups.current {
                    Some(group) if bytes > 0 => files.reclaim(group, bytes),
                    Some(_) | None => Ok(true),
                },
                held: held_bytes(files, groups),
            },
        })
    }
}

fn progress(files: &mut impl Files, groups: Groups) -> Result<Progress, CgroupError> {
    for group in groups.all() {
        if !files.has_stopped(group)? {
            return Ok(Progress::Stopping);
        }
    }
    Ok(Progress::Stopped(held_bytes(files, groups)))
}

fn held_bytes(files: &mut impl Files, groups: Groups) -> Option<u64> {
    groups.all().map(|group| files.held_bytes(group)).sum()
}
