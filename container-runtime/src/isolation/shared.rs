//! What the handle, the threads and the containers' watches share.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use cgroup::{Bound, Cgroup, CgroupError, CpuQuota, Limits, Parent, Root, Weight};
use records::{ContainerId, ExecutionType};
use sched::ContainerSpec;

use super::applied::Applied;
use super::hurry::Hurry;
use super::rules::Rules;
use super::table::{Groups, Table, locked};

/// Everything but the orders.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) rules: Rules,
    pub(super) places: Places,
    pub(super) table: Table,
    /// Held while the processor time of opportunistic containers is changed. Nothing is written under it that could take the
    /// kernel long.
    hurry: Mutex<Hurry>,
    /// Whether the limits of the classes are to be brought up to date.
    pub(super) classes_due: Due,
}

/// Where the containers are, and what was written there.
#[derive(Debug)]
pub(super) struct Places {
    pub(super) root: Root,
    pub(super) guaranteed: Parent,
    pub(super) opportunistic: Parent,
    root_applied: Applied,
    guaranteed_applied: Applied,
    opportunistic_applied: Applied,
}

impl Places {
    /// Nothing is known yet of what holds there.
    pub(super) fn new(root: Root, guaranteed: Parent, opportunistic: Parent) -> Self {
        Self {
            root,
            guaranteed,
            opportunistic,
            root_applied: Applied::default(),
            guaranteed_applied: Applied::default(),
            opportunistic_applied: Applied::default(),
        }
    }

    fn bring_opportunistic(&self, limits: &Limits) {
        let write = |limits: &Limits| self.opportunistic.apply(limits);
        self.opportunistic_applied
            .bring("opportunistic containers", limits, write);
    }
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
    pub(super) fn new(rules: Rules, places: Places) -> Self {
        Self {
            rules,
            places,
            table: Table::default(),
            hurry: Mutex::default(),
            classes_due: Due::default(),
        }
    }

    pub(super) fn parent(&self, class: ExecutionType) -> &Parent {
        match class {
            ExecutionType::Guaranteed => &self.places.guaranteed,
            ExecutionType::Opportunistic => &self.places.opportunistic,
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

    /// Gives opportunistic containers processor time until [`Shared::calm`]. A task is born, stops or dies by running, and
    /// one that only gets what is left over may wait for that for ever: for room that a guaranteed container wants.
    pub(super) fn hurry(&self) {
        self.change_hurry(Hurry::begin);
    }

    /// One that was hurried for is ready.
    pub(super) fn calm(&self) {
        self.change_hurry(Hurry::end);
    }

    /// The same for a container that was told to stop or to end, not longer than `until`; whether somebody must be told, who
    /// looks when it is over ([`Shared::calm_late`]).
    #[must_use]
    pub(super) fn hurry_for(&self, id: ContainerId, until: Instant) -> bool {
        self.change_hurry(|hurry| hurry.begin_for(id, until))
    }

    /// The container has stopped or is dead.
    pub(super) fn calm_for(&self, id: ContainerId) {
        self.change_hurry(|hurry| hurry.end_for(id));
    }

    /// Takes it back from those who have had their time; when it is to be looked again.
    pub(super) fn calm_late(&self) -> Option<Instant> {
        self.change_hurry(|hurry| hurry.expire(Instant::now()))
    }

    fn change_hurry<T>(&self, change: impl FnOnce(&mut Hurry) -> T) -> T {
        let mut hurry = locked(&self.hurry);
        let before = hurry.is_on();
        let result = change(&mut hurry);
        if hurry.is_on() != before {
            self.bring_processors(&hurry);
        }
        result
    }

    fn bring_processors(&self, hurry: &Hurry) {
        let limits = if hurry.is_on() {
            Rules::hurry()
        } else {
            Rules::idle()
        };
        self.places.bring_opportunistic(&limits);
    }

    /// Brings the limits of the classes up to date. May take as long as pressing memory back does.
    pub(super) fn apply_classes(&self) {
        let sums = self.table.sums();
        let places = &self.places;
        places
            .root_applied
            .bring("all containers", &self.rules.root(sums), |limits| {
                places.root.apply(limits)
            });
        places.guaranteed_applied.bring(
            "guaranteed containers",
            &self.rules.guaranteed(sums),
            |limits| places.guaranteed.apply(limits),
        );
        // Known already, unless it was refused the last time.
        self.bring_processors(&locked(&self.hurry));
        places.bring_opportunistic(&self.rules.opportunistic(sums));
    }
}

/// What need not be said to a new cgroup: it has no bounds and no protection yet. Each write is a system call of a launch.
fn as_new(mut limits: Limits) -> Limits {
    limits.cpu_quota = limits
        .cpu_quota
        .filter(|quota| *quota != CpuQuota::Unlimited);
    limits.cpu_weight = limits
        .cpu_weight
        .filter(|weight| *weight != Weight::DEFAULT);
    limits.pids_max = limits.pids_max.filter(|max| *max != Bound::Unlimited);
    limits.memory_low = limits.memory_low.filter(|low| *low != 0);
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
