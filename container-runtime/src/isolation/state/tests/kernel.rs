//! A model of the kernel's files, with refusals.

use std::collections::{BTreeMap, BTreeSet};

use cgroup::{CgroupError, Limits};
use records::ContainerId;
use sched::ContainerSpec;

use super::super::super::limits::Rules;
use super::super::action::{FreezeReason, Group, Groups, Scope};
use super::super::files::Files;

/// Most processes moved by one job.
const MOVED_AT_ONCE: usize = 64;

/// Files of one cgroup of a container.
#[derive(Clone, Debug, Default)]
pub(super) struct GroupFiles {
    pub(super) limits: Limits,
    pub(super) frozen: bool,
    pub(super) processes: usize,
    /// Memory charged, in bytes.
    pub(super) charge: u64,
    /// The last write was refused: what holds need not be known.
    uncertain: bool,
}

/// Files of all cgroups, and refusals to come.
#[derive(Debug, Default)]
pub(super) struct Kernel {
    pub(super) root: Limits,
    pub(super) guaranteed: Limits,
    pub(super) opportunistic: Limits,
    pub(super) groups: BTreeMap<Group, GroupFiles>,
    /// Containers whose processes have stopped, as far as they are frozen.
    stopped: BTreeSet<ContainerId>,
    /// Writes of limits.
    pub(super) writes: usize,
    /// Jobs refused next.
    pub(super) refusals: usize,
    /// Containers for which a job was refused.
    pub(super) refused: BTreeSet<ContainerId>,
    /// Parents for which a write was refused.
    uncertain_scopes: Vec<Scope>,
    /// Bytes of a container that reclaim leaves.
    pub(super) unreclaimable: u64,
}

fn refusal() -> CgroupError {
    CgroupError::Unsupported {
        operation: "be tested",
    }
}

impl Kernel {
    pub(super) fn refuse_next(&mut self, jobs: usize) {
        self.refusals = jobs;
    }

    /// Makes a container's cgroup as a launch thread does, with one process.
    pub(super) fn launch(&mut self, rules: &Rules, spec: &ContainerSpec) -> Limits {
        let limits = rules.container(spec);
        let files = GroupFiles {
            limits,
            processes: 1,
            ..GroupFiles::default()
        };
        let group = Group {
            class: spec.execution_type,
            id: spec.id,
        };
        self.groups.insert(group, files);
        limits
    }

    /// What holds in a cgroup is not known, as to an agent that has not made it.
    pub(super) fn forget(&mut self, group: Group) {
        if let Some(files) = self.groups.get_mut(&group) {
            files.uncertain = true;
        }
    }

    /// The processes of a frozen container have stopped.
    pub(super) fn stop(&mut self, id: ContainerId) {
        self.stopped.insert(id);
    }

    pub(super) fn charge(&mut self, group: Group, bytes: u64) {
        if let Some(files) = self.groups.get_mut(&group) {
            files.charge = bytes;
        }
    }

    /// Whether no write to a parent was ever refused.
    pub(super) fn is_certain(&self, scope: Scope) -> bool {
        !self.uncertain_scopes.contains(&scope)
    }

    fn is_refused(&mut self, id: Option<ContainerId>) -> bool {
        let is_refused = self.refusals > 0;
        self.refusals = self.refusals.saturating_sub(1);
        if is_refused {
            self.refused.extend(id);
        }
        is_refused
    }
}

impl Files for Kernel {
    fn write_scope(&mut self, scope: Scope, limits: &Limits) -> Result<(), CgroupError> {
        self.writes += 1;
        if self.is_refused(None) {
            self.uncertain_scopes.push(scope);
            return Err(refusal());
        }
        let file = match scope {
            Scope::AllContainers => &mut self.root,
            Scope::Guaranteed => &mut self.guaranteed,
            Scope::Opportunistic => &mut self.opportunistic,
        };
        assert!(
            self.uncertain_scopes.contains(&scope)
                || limits.changes_from(file) != Limits::default(),
            "written twice: {scope:?} {limits:?}"
        );
        *file = limits.written_over(*file);
        Ok(())
    }

    fn write(&mut self, group: Group, limits: &Limits) -> Result<(), CgroupError> {
        self.writes += 1;
        let is_refused = self.is_refused(Some(group.id));
        let files = self.groups.get_mut(&group).ok_or_else(refusal)?;
        if is_refused {
            files.uncertain = true;
            return Err(refusal());
        }
        assert!(
            files.uncertain || limits.changes_from(&files.limits) != Limits::default(),
            "written twice: {group:?} {limits:?}"
        );
        files.limits = limits.written_over(files.limits);
        Ok(())
    }

    fn set_frozen(
        &mut self,
        groups: Groups,
        frozen: bool,
        _: FreezeReason,
    ) -> Result<(), CgroupError> {
        let id = groups.all().next().map(|group| group.id);
        if self.is_refused(id) {
            return Err(refusal());
        }
        for group in groups.all() {
            self.groups.get_mut(&group).ok_or_else(refusal)?.frozen = frozen;
        }
        self.stopped.retain(|stopped| Some(*stopped) != id);
        Ok(())
    }

    fn has_stopped(&mut self, group: Group) -> Result<bool, CgroupError> {
        assert!(self.groups[&group].frozen);
        Ok(self.stopped.contains(&group.id))
    }

    fn create(&mut self, group: Group, limits: &Limits) -> Result<(), CgroupError> {
        let is_refused = self.is_refused(Some(group.id));
        let files = self.groups.entry(group).or_default();
        if is_refused {
            files.uncertain = true;
            return Err(refusal());
        }
        files.limits = limits.written_over(files.limits);
        Ok(())
    }

    fn move_some(&mut self, from: Group, to: Group) -> Result<usize, CgroupError> {
        if self.is_refused(Some(from.id)) {
            return Err(refusal());
        }
        let source = self.groups.get_mut(&from).ok_or_else(refusal)?;
        let moved = source.processes.min(MOVED_AT_ONCE);
        source.processes -= moved;
        self.groups.get_mut(&to).ok_or_else(refusal)?.processes += moved;
        Ok(moved)
    }

    fn remove(&mut self, group: Group) {
        let removed = self.groups.remove(&group);
        assert_eq!(removed.map_or(0, |files| files.processes), 0, "{group:?}");
    }

    fn is_populated(&mut self, group: Group) -> bool {
        let files = self.groups.get(&group);
        files.is_some_and(|files| files.processes > 0)
    }

    fn held_bytes(&mut self, group: Group) -> Option<u64> {
        Some(self.groups.get(&group).map_or(0, |files| files.charge))
    }

    fn reclaim(&mut self, group: Group, bytes: u64) -> Result<bool, CgroupError> {
        let least = self.unreclaimable;
        if let Some(files) = self.groups.get_mut(&group) {
            let left = files.charge.saturating_sub(bytes);
            files.charge = left.max(least.min(files.charge));
        }
        Ok(true)
    }
}
