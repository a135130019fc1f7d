//! Jobs of the state machine, carried out on the kernel's files.

use cgroup::{Cgroup, CgroupError, Limits, Parent, Root};
use records::ExecutionType;

use super::limits::of_new_cgroup;
use super::state::{Files, FreezeReason, Group, Groups, Scope};

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
}

impl Files for &Places {
    fn write_scope(&mut self, scope: Scope, limits: &Limits) -> Result<(), CgroupError> {
        match scope {
            Scope::AllContainers => self.root.apply(limits),
            Scope::Guaranteed => self.guaranteed.apply(limits),
            Scope::Opportunistic => self.opportunistic.apply(limits),
        }
    }

    fn write(&mut self, group: Group, limits: &Limits) -> Result<(), CgroupError> {
        self.group(group)?.apply(limits)
    }

    /// Continues after a refusal and returns the first one.
    fn set_frozen(
        &mut self,
        groups: Groups,
        frozen: bool,
        reason: FreezeReason,
    ) -> Result<(), CgroupError> {
        let set = |group| self.group(group)?.set_frozen(frozen);
        let results = groups.all().map(|group| match (reason, set(group)) {
            // Where nothing can freeze, every process runs anyway.
            (
                FreezeReason::Enter | FreezeReason::Former | FreezeReason::Adopt,
                Err(CgroupError::Unsupported { .. }),
            ) if !frozen => Ok(()),
            (_, result) => result,
        });
        results.fold(Ok(()), Result::and)
    }

    fn has_stopped(&mut self, group: Group) -> Result<bool, CgroupError> {
        self.group(group)?.is_frozen()
    }

    fn create(&mut self, group: Group, limits: &Limits) -> Result<(), CgroupError> {
        let made = self.class(group.class).create(&group.id.to_string())?;
        made.apply(limits)
    }

    fn remove(&mut self, group: Group) {
        // Fine if somebody else has removed it.
        if let Err(error) = self.group(group).and_then(|group| group.remove()) {
            let error = crate::error_chain(&error);
            tracing::debug!(container = %group.id, error, "a cgroup is not removed");
        }
    }

    fn move_some(&mut self, from: Group, to: Group) -> Result<usize, CgroupError> {
        self.group(to)?.move_from(&self.group(from)?, MOVED_AT_ONCE)
    }

    fn is_populated(&mut self, group: Group) -> bool {
        let populated = self.group(group).and_then(|group| group.is_populated());
        populated.unwrap_or(false)
    }

    fn reclaim(&mut self, group: Group, bytes: u64) -> Result<bool, CgroupError> {
        self.group(group)?.reclaim(bytes)
    }

    fn held_bytes(&mut self, group: Group) -> Option<u64> {
        let sampler = self.group(group).ok()?.sampler().ok()?;
        sampler.read().ok()?.memory_bytes
    }
}
