//! Which containers have cgroups, and what is true of each. The table's lock is held for table operations only; each
//! container has a lock of its own for what takes system calls, so that nothing is moved while it is killed.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cgroup::{Cgroup, CgroupError};
use records::{ContainerId, ExecutionType};
use sched::ContainerSpec;

/// The cgroups of one container.
#[derive(Debug, Default)]
pub(super) struct Groups {
    /// Where its processes are, and the class that this lies in. `None`: not made yet, or removed.
    pub(super) current: Option<(ExecutionType, Cgroup)>,
    /// Where they were before a promotion or demotion, in the other class: what they used there stays counted there, and
    /// one that could not be moved is still there.
    pub(super) former: Option<Cgroup>,
    /// It is being ended: it is not frozen any more.
    pub(super) ending: bool,
    /// It has been killed before.
    pub(super) killed: bool,
    /// It was told to stop by us and not told to go on: all its cgroups are.
    pub(super) frozen: bool,
}

impl Groups {
    /// All of them, the current one first.
    pub(super) fn all(&self) -> impl Iterator<Item = &Cgroup> {
        let current = self.current.iter().map(|(_, group)| group);
        current.chain(&self.former)
    }

    /// Tells all its processes to stop or to go on, wherever they are.
    ///
    /// # Errors
    /// The first refusal; the others are told all the same.
    pub(super) fn set_frozen(&mut self, frozen: bool) -> Result<(), CgroupError> {
        self.frozen = frozen;
        let told = self.all().map(|group| group.set_frozen(frozen));
        told.fold(Ok(()), Result::and)
    }

    /// Whether all its processes have stopped.
    pub(super) fn have_stopped(&self) -> Result<bool, CgroupError> {
        for group in self.all() {
            if !group.is_frozen()? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The memory that all of them hold, in bytes; `None`: nobody tells.
    pub(super) fn held_bytes(&self) -> Option<u64> {
        self.all().map(held_bytes).sum()
    }
}

/// The memory that is counted in a cgroup, in bytes; `None`: nobody tells.
pub(super) fn held_bytes(group: &Cgroup) -> Option<u64> {
    group.sampler().ok()?.read().ok()?.memory_bytes
}

/// Sums over the containers that have cgroups, in bytes. Each number comes from somebody else, and the sum of as many as
/// there can be fits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sums {
    /// Memory of guaranteed containers, and what demoted ones hold in that class.
    pub(super) promised: u128,
    /// The part of it that is protected.
    pub(super) protected: u128,
    /// What promoted ones hold in their former class.
    pub(super) left_behind: u128,
}

impl Sums {
    /// After one container's part has changed.
    fn with(self, before: Self, after: Self) -> Self {
        let change =
            |sum: u128, before: u128, after: u128| sum.saturating_sub(before).saturating_add(after);
        Self {
            promised: change(self.promised, before.promised, after.promised),
            protected: change(self.protected, before.protected, after.protected),
            left_behind: change(self.left_behind, before.left_behind, after.left_behind),
        }
    }
}

#[derive(Debug)]
struct Entry {
    spec: ContainerSpec,
    groups: Arc<Mutex<Groups>>,
    /// Its part of the sums. Nothing until its cgroup is there.
    counted: Sums,
    /// An order to bring its limits up to date is on its way.
    update_pending: bool,
}

#[derive(Debug, Default)]
struct Entries {
    by_id: BTreeMap<ContainerId, Entry>,
    sums: Sums,
}

/// The table. Its size is bounded by the scheduler, which knows at most so many containers.
#[derive(Debug, Default)]
pub(super) struct Table(Mutex<Entries>);

/// A panic under a lock leaves at worst a finished table operation or a cgroup half changed: both stay usable.
pub(super) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Table {
    /// A container is about to be launched.
    pub(super) fn announce(&self, spec: ContainerSpec) {
        let entry = Entry {
            spec,
            groups: Arc::default(),
            counted: Sums::default(),
            update_pending: false,
        };
        let mut entries = locked(&self.0);
        if let Some(before) = entries.by_id.insert(spec.id, entry) {
            entries.sums = entries.sums.with(before.counted, Sums::default());
        }
    }

    /// What it is allowed now, and its cgroups.
    pub(super) fn get(&self, id: ContainerId) -> Option<(ContainerSpec, Arc<Mutex<Groups>>)> {
        let entries = locked(&self.0);
        let entry = entries.by_id.get(&id)?;
        Some((entry.spec, Arc::clone(&entry.groups)))
    }

    /// Its part of the sums is this from now on.
    pub(super) fn count(&self, id: ContainerId, share: Sums) {
        let mut entries = locked(&self.0);
        let Some(entry) = entries.by_id.get_mut(&id) else {
            return;
        };
        let before = std::mem::replace(&mut entry.counted, share);
        entries.sums = entries.sums.with(before, share);
    }

    /// Its size or type has changed; whether somebody must be told, who is not told yet.
    pub(super) fn changed(&self, spec: ContainerSpec) -> bool {
        let mut entries = locked(&self.0);
        let Some(entry) = entries.by_id.get_mut(&spec.id) else {
            return false;
        };
        entry.spec = spec;
        !std::mem::replace(&mut entry.update_pending, true)
    }

    /// The order to bring its limits up to date is being carried out: what changes from now on needs another.
    pub(super) fn update_begins(&self, id: ContainerId) {
        if let Some(entry) = locked(&self.0).by_id.get_mut(&id) {
            entry.update_pending = false;
        }
    }

    /// Forgets it.
    pub(super) fn remove(&self, id: ContainerId) {
        let mut entries = locked(&self.0);
        if let Some(entry) = entries.by_id.remove(&id) {
            entries.sums = entries.sums.with(entry.counted, Sums::default());
        }
    }

    /// Of all containers that have cgroups.
    pub(super) fn sums(&self) -> Sums {
        locked(&self.0).sums
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use records::{ApplicationAttemptId, ApplicationId, Resource};

    use super::*;

    fn spec(id: i64) -> ContainerSpec {
        let application_id = ApplicationId {
            cluster_timestamp: 1,
            id: 1,
        };
        let attempt = ApplicationAttemptId {
            application_id,
            attempt_id: 1,
        };
        ContainerSpec {
            id: ContainerId { attempt, id },
            resource: Resource::new(1, 1),
            execution_type: ExecutionType::Guaranteed,
            version: 0,
        }
    }

    #[derive(Clone, Debug)]
    enum Step {
        Announce(i64),
        Count(i64, Sums),
        Remove(i64),
    }

    fn step() -> impl Strategy<Value = Step> {
        let id = 0_i64..4;
        let share = any::<[u64; 3]>().prop_map(|[promised, protected, left_behind]| Sums {
            promised: promised.into(),
            protected: protected.into(),
            left_behind: left_behind.into(),
        });
        prop_oneof![
            id.clone().prop_map(Step::Announce),
            (id.clone(), share).prop_map(|(id, share)| Step::Count(id, share)),
            id.prop_map(Step::Remove),
        ]
    }

    proptest! {
        #[test]
        fn running_sums_are_the_sums(steps in proptest::collection::vec(step(), 0..50)) {
            let table = Table::default();
            let mut model = BTreeMap::new();
            for step in steps {
                match step {
                    Step::Announce(id) => {
                        table.announce(spec(id));
                        model.insert(id, Sums::default());
                    }
                    Step::Count(id, share) => {
                        table.count(spec(id).id, share);
                        model.entry(id).and_modify(|counted| *counted = share);
                    }
                    Step::Remove(id) => {
                        table.remove(spec(id).id);
                        model.remove(&id);
                    }
                }
            }
            let sum = |of: fn(&Sums) -> u128| model.values().map(of).sum::<u128>();
            let sums = table.sums();
            prop_assert_eq!(sums.promised, sum(|sums| sums.promised));
            prop_assert_eq!(sums.protected, sum(|sums| sums.protected));
            prop_assert_eq!(sums.left_behind, sum(|sums| sums.left_behind));
        }
    }

    #[test]
    fn one_order_does_for_all_changes_before_it_is_carried_out() {
        let table = Table::default();
        let spec = spec(1);
        assert!(!table.changed(spec));
        table.announce(spec);
        assert!(table.changed(spec));
        assert!(!table.changed(spec));
        table.update_begins(spec.id);
        assert!(table.changed(spec));
    }
}
