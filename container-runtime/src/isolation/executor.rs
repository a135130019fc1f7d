//! Jobs of the state machine, carried out on the kernel's files.

use cgroup::{Cgroup, CgroupError, Limits, Parent, Root};
use records::ExecutionType;

use super::limits::of_new_cgroup;
use super::state::{Done, FreezeReason, Group, Groups, Job, Progress, Scope};

/// Processes moved by one job, after which the container may be killed or frozen: a few
/// milliseconds' worth.
const MOVED_AT_ONCE: usize = 64;

/// Open parent cgroups of all containers. Nothing here ever changes, so every thread may use it.
#[derive(Debug)]
pub(super) struct Places {
    pub(super) root: Root,
    pub(super) guaranteed: Parent,
    pub(super) opportunistic: Parent,
}

impl Places {
    pub(super) fn class(&self, class: ExecutionType) -> &Parent {
        match class {
            ExecutionType::Guaranteed => &self.guaranteed,
            ExecutionType::Opportunistic => &self.opportunistic,
        }
    }

    /// Names a container's cgroup, whether it exists or not.
    pub(super) fn group(&self, group: Group) -> Result<Cgroup, CgroupError> {
        self.class(group.class).child(&group.id.to_string())
    }

    /// Makes a container's cgroup with its limits.
    ///
    /// # Errors
    /// The kernel refuses. Nothing is left then.
    pub(super) fn create_new(&self, group: Group, limits: Limits) -> Result<Cgroup, CgroupError> {
        let made = self.class(group.class).create(&group.id.to_string())?;
        if let Err(error) = made.apply(&of_new_cgroup(limits)) {
            if let Err(error) = made.remove() {
                let error = crate::error_chain(&error);
                tracing::warn!(error, "a new cgroup is left behind");
            }
            return Err(error);
        }
        Ok(made)
    }

    /// Carries out a job. May block, unless the job is a fast one.
    pub(super) fn run(&self, job: Job) -> Option<Done> {
        Some(match job {
            Job::WriteScope {
                scope,
                part,
                limits,
            } => Done::ScopeWritten {
                scope,
                part,
                limits,
                result: self.write_scope(scope, &limits),
            },
            Job::Write {
                group,
                limits,
                reason,
            } => Done::Written {
                group,
                limits,
                reason,
                result: self.group(group).and_then(|group| group.apply(&limits)),
            },
            Job::SetFrozen {
                id,
                groups,
                frozen,
                reason,
            } => Done::FrozenSet {
                id,
                reason,
                result: self.set_frozen(groups, frozen, reason),
            },
            Job::CheckFrozen { id, groups } => Done::FrozenChecked {
                id,
                result: self.progress(groups),
            },
            Job::Create { group, limits } => Done::Created {
                group,
                limits,
                result: self.create(group, &limits),
            },
            Job::Remove { group } => {
                self.remove(group);
                return None;
            }
            Job::Move { from, to } => Done::Moved {
                from,
                result: self.move_some(from, to),
            },
            Job::Measure { former } => Done::Measured {
                former,
                populated: self
                    .group(former)
                    .and_then(|group| group.is_populated())
                    .unwrap_or(false),
                held: self.held_bytes(former).unwrap_or(0),
            },
            Job::Reclaim { id, groups, bytes } => Done::Reclaimed {
                id,
                result: self.reclaim(groups, bytes),
                held: groups.all().map(|group| self.held_bytes(group)).sum(),
            },
        })
    }

    fn write_scope(&self, scope: Scope, limits: &Limits) -> Result<(), CgroupError> {
        match scope {
            Scope::AllContainers => self.root.apply(limits),
            Scope::Guaranteed => self.guaranteed.apply(limits),
            Scope::Opportunistic => self.opportunistic.apply(limits),
        }
    }

    /// Freezes or thaws all cgroups, also after a refusal; returns the first one.
    fn set_frozen(
        &self,
        groups: Groups,
        frozen: bool,
        reason: FreezeReason,
    ) -> Result<(), CgroupError> {
        let set = |group| self.group(group)?.set_frozen(frozen);
        let results = groups.all().map(|group| match (reason, set(group)) {
            // Where nothing can freeze, every process runs anyway.
            (FreezeReason::Enter | FreezeReason::Former, Err(CgroupError::Unsupported { .. }))
                if !frozen =>
            {
                Ok(())
            }
            (_, result) => result,
        });
        results.fold(Ok(()), Result::and)
    }

    fn progress(&self, groups: Groups) -> Result<Progress, CgroupError> {
        for group in groups.all() {
            if !self.group(group)?.is_frozen()? {
                return Ok(Progress::Stopping);
            }
        }
        let held = groups.all().map(|group| self.held_bytes(group)).sum();
        Ok(Progress::Stopped(held))
    }

    fn create(&self, group: Group, limits: &Limits) -> Result<(), CgroupError> {
        let made = self.class(group.class).create(&group.id.to_string())?;
        made.apply(limits)
    }

    fn remove(&self, group: Group) {
        // Fine if somebody else has removed it.
        if let Err(error) = self.group(group).and_then(|group| group.remove()) {
            let error = crate::error_chain(&error);
            tracing::debug!(container = %group.id, error, "a cgroup is not removed");
        }
    }

    fn move_some(&self, from: Group, to: Group) -> Result<usize, CgroupError> {
        self.group(to)?.move_from(&self.group(from)?, MOVED_AT_ONCE)
    }

    fn reclaim(&self, groups: Groups, bytes: u64) -> Result<bool, CgroupError> {
        match groups.current {
            Some(group) if bytes > 0 => self.group(group)?.reclaim(bytes),
            Some(_) | None => Ok(true),
        }
    }

    /// Memory charged to a cgroup, in bytes; `None`: unknown.
    fn held_bytes(&self, group: Group) -> Option<u64> {
        let sampler = self.group(group).ok()?.sampler().ok()?;
        sampler.read().ok()?.memory_bytes
    }
}
