//! Which containers have cgroups, and what is true of each. The table's lock is held for table operations only; each
//! container has a lock of its own for what takes system calls, so that nothing is moved while it is killed.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cgroup::Cgroup;
use records::{ContainerId, ExecutionType};
use sched::ContainerSpec;

use super::rules::{Rules, memory_bytes};

/// The cgroups of one container.
#[derive(Debug)]
pub(super) struct Groups {
    /// Where its processes are, and the class that this lies in. `None`: not made yet, or removed.
    pub(super) current: Option<(ExecutionType, Cgroup)>,
    /// Where they were before a promotion or demotion: what they used there stays counted there.
    pub(super) former: Vec<Cgroup>,
    /// Bytes counted there that must not be pressed.
    pub(super) left_behind: u64,
    /// It is being ended: it is not frozen any more.
    pub(super) ending: bool,
    /// Frozen by us.
    pub(super) frozen: bool,
    /// Its class is hurried until it is dead.
    pub(super) hurried: bool,
}

impl Groups {
    /// All of them, the current one first.
    pub(super) fn all(&self) -> impl Iterator<Item = &Cgroup> {
        let current = self.current.iter().map(|(_, group)| group);
        current.chain(&self.former)
    }
}

#[derive(Clone, Debug)]
struct Entry {
    spec: ContainerSpec,
    groups: Arc<Mutex<Groups>>,
    /// Its limits are counted with its class.
    placed: bool,
    /// An order to bring its limits up to date is on its way.
    update_pending: bool,
}

/// Sums over the containers that have cgroups, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sums {
    /// Memory of guaranteed containers.
    pub(super) promised: u64,
    /// The part of it that is protected.
    pub(super) protected: u64,
    /// What promoted ones have left behind in their former class.
    pub(super) left_behind: u64,
}

/// The table. Its size is bounded by the scheduler, which knows at most so many containers.
#[derive(Debug, Default)]
pub(super) struct Table(Mutex<BTreeMap<ContainerId, Entry>>);

/// A panic under a lock leaves at worst a finished table operation or a cgroup half changed: both stay usable.
pub(super) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Table {
    /// A container is about to be launched.
    pub(super) fn announce(&self, spec: ContainerSpec) {
        let groups = Groups {
            current: None,
            former: Vec::new(),
            left_behind: 0,
            ending: false,
            frozen: false,
            hurried: false,
        };
        let entry = Entry {
            spec,
            groups: Arc::new(Mutex::new(groups)),
            placed: false,
            update_pending: false,
        };
        locked(&self.0).insert(spec.id, entry);
    }

    /// What it is allowed now, and its cgroups.
    pub(super) fn get(&self, id: ContainerId) -> Option<(ContainerSpec, Arc<Mutex<Groups>>)> {
        let entries = locked(&self.0);
        let entry = entries.get(&id)?;
        Some((entry.spec, Arc::clone(&entry.groups)))
    }

    /// Counts it with its class.
    pub(super) fn placed(&self, id: ContainerId) {
        if let Some(entry) = locked(&self.0).get_mut(&id) {
            entry.placed = true;
        }
    }

    /// Its size or type has changed; whether somebody must be told, who is not told yet.
    pub(super) fn changed(&self, spec: ContainerSpec) -> bool {
        let mut entries = locked(&self.0);
        let Some(entry) = entries.get_mut(&spec.id) else {
            return false;
        };
        entry.spec = spec;
        !std::mem::replace(&mut entry.update_pending, true)
    }

    /// The order to bring its limits up to date is being carried out: what changes from now on needs another.
    pub(super) fn update_begins(&self, id: ContainerId) {
        if let Some(entry) = locked(&self.0).get_mut(&id) {
            entry.update_pending = false;
        }
    }

    /// Forgets it.
    pub(super) fn remove(&self, id: ContainerId) {
        locked(&self.0).remove(&id);
    }

    /// Of all containers that have cgroups.
    pub(super) fn sums(&self, rules: &Rules) -> Sums {
        let placed: Vec<Entry> = {
            let entries = locked(&self.0);
            entries
                .values()
                .filter(|entry| entry.placed)
                .cloned()
                .collect()
        };
        let mut sums = Sums::default();
        for entry in placed {
            if entry.spec.execution_type == ExecutionType::Guaranteed {
                sums.promised = sums.promised.saturating_add(memory_bytes(&entry.spec));
                let protected = rules.protected(&entry.spec);
                sums.protected = sums.protected.saturating_add(protected);
            }
            let left_behind = locked(&entry.groups).left_behind;
            sums.left_behind = sums.left_behind.saturating_add(left_behind);
        }
        sums
    }
}
