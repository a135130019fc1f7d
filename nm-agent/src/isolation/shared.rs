//! What the handle, the threads and the containers' watches share.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use cgroup::{Bound, Cgroup, CgroupError, CpuQuota, Limits, Parent, Root, Weight};
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
    /// Opportunistic containers that are being frozen or killed.
    pub(super) hurried: Mutex<usize>,
    /// Whether the limits of the classes are to be brought up to date.
    pub(super) classes_due: Due,
}

/// Whether something is to be done that does for all who asked before it begins. So at most one order for it waits, however many
/// containers start and end, and who wants room is not behind a long row of them.
#[derive(Debug, Default)]
pub(super) struct Due(AtomicBool);

impl Due {
    /// What it goes by has changed. Whether it must be ordered: no order waits.
    pub(super) fn ask(&self) -> bool {
        !self.0.swap(true, Ordering::AcqRel)
    }

    /// It is being done: what changes from now on needs another order.
    pub(super) fn begin(&self) {
        self.0.swap(false, Ordering::AcqRel);
    }
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
        if let Err(error) = group.apply(&as_new(self.rules.container(spec))) {
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

    /// Gives opportunistic containers processor time for as long as one of them is being frozen or killed. A task stops or
    /// dies by running once more, and one that only gets what is left over may wait for that for ever: for room that a
    /// guaranteed container wants.
    pub(super) fn hurry(&self) {
        let mut hurried = locked(&self.hurried);
        *hurried += 1;
        if *hurried == 1 {
            self.apply_hurry(&Rules::hurry());
        }
    }

    /// One of them has stopped or is dead.
    pub(super) fn calm(&self) {
        let mut hurried = locked(&self.hurried);
        *hurried = hurried.saturating_sub(1);
        if *hurried == 0 {
            self.apply_hurry(&Rules::idle());
        }
    }

    fn apply_hurry(&self, limits: &Limits) {
        if let Err(error) = self.opportunistic.apply(limits) {
            tracing::warn!(
                error = crate::error_chain(&error),
                "the weight of opportunistic containers cannot be changed"
            );
        }
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
                let hurried = locked(&self.hurried);
                let mut limits = self.rules.opportunistic(sums.promised, sums.left_behind);
                if *hurried > 0 {
                    let hurry = Rules::hurry();
                    limits.cpu_idle = hurry.cpu_idle;
                    limits.cpu_weight = hurry.cpu_weight;
                }
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

/// What need not be said to a new cgroup: it has no bounds yet. Each write is a system call of a launch.
fn as_new(mut limits: Limits) -> Limits {
    limits.cpu_quota = limits
        .cpu_quota
        .filter(|quota| *quota != CpuQuota::Unlimited);
    limits.cpu_weight = limits
        .cpu_weight
        .filter(|weight| *weight != Weight::DEFAULT);
    limits.pids_max = limits.pids_max.filter(|max| *max != Bound::Unlimited);
    limits
}

#[cfg(test)]
mod tests {
    use super::Due;

    #[test]
    fn one_order_does_for_all_who_ask_before_it_is_carried_out() {
        let due = Due::default();
        assert!(due.ask());
        assert!(!due.ask());
        due.begin();
        assert!(due.ask());
    }
}
