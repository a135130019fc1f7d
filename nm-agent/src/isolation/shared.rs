//! What the handle, the threads and the containers' watches share.

use cgroup::{Cgroup, CgroupError, Parent, Root};
use records::{ContainerId, ExecutionType};
use sched::ContainerSpec;

use super::rules::Rules;
use super::table::{Groups, Table, locked};

/// Everything but the orders.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) rules: Rules,
    pub(super) root: Root,
    pub(super) guaranteed: Parent,
    pub(super) opportunistic: Parent,
    pub(super) table: Table,
}

impl Shared {
    pub(super) fn parent(&self, class: ExecutionType) -> &Parent {
        match class {
            ExecutionType::Guaranteed => &self.guaranteed,
            ExecutionType::Opportunistic => &self.opportunistic,
        }
    }

    /// Acts on a container's cgroups with its own lock held. `None`: there is no such container.
    pub(super) fn with_groups<T>(
        &self,
        id: ContainerId,
        act: impl FnOnce(&ContainerSpec, &mut Groups) -> T,
    ) -> Option<T> {
        let (_, groups) = self.table.get(id)?;
        let mut groups = locked(&groups);
        // Read again: it may have changed while somebody else had the lock.
        let (spec, _) = self.table.get(id)?;
        Some(act(&spec, &mut groups))
    }

    /// Makes a container's cgroup with its limits.
    pub(super) fn make(&self, spec: &ContainerSpec) -> Result<Cgroup, CgroupError> {
        let parent = self.parent(spec.execution_type);
        let group = parent.create(&spec.id.to_string())?;
        if let Err(error) = group.apply(&self.rules.container(spec)) {
            if let Err(error) = group.remove() {
                tracing::warn!(
                    error = crate::error_chain(&error),
                    "a new cgroup is left behind"
                );
            }
            return Err(error);
        }
        Ok(group)
    }

    /// Brings the limits of the classes up to date.
    pub(super) fn apply_classes(&self) {
        let sums = self.table.sums(&self.rules);
        let applied = self
            .root
            .apply(&self.rules.root(sums.protected))
            .and_then(|()| {
                self.guaranteed
                    .apply(&self.rules.guaranteed(sums.protected))
            })
            .and_then(|()| {
                let limits = self.rules.opportunistic(sums.promised, sums.left_behind);
                self.opportunistic.apply(&limits)
            });
        if let Err(error) = applied {
            tracing::error!(
                error = crate::error_chain(&error),
                "limits of a class cannot be changed"
            );
        }
    }
}
