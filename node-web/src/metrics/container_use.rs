//! What is known of single containers while they are on the node: their use, look by look, and how
//! long it took to bring them up. For beans of `/jmx`, which name every container; the series of
//! `/metrics` name none.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use container_runtime::monitor::ContainerLook;
use records::ContainerId;

/// Statistics of a number that was seen again and again, over a container's life.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Statistics {
    /// How often the number was seen.
    pub count: u64,
    /// Mean; 0 of none.
    pub mean: f64,
    /// Least; 0 of none.
    pub min: f64,
    /// Greatest; 0 of none.
    pub max: f64,
    /// Sum of the squared distances from the mean.
    squares: f64,
}

impl Statistics {
    /// Takes in a number (Welford's method).
    fn add(&mut self, number: f64) {
        self.min = match self.count {
            0 => number,
            _ => self.min.min(number),
        };
        self.max = self.max.max(number);
        self.count += 1;
        let distance = number - self.mean;
        self.mean += distance / self.count as f64;
        self.squares += distance * (number - self.mean);
    }

    /// Returns the standard deviation of the numbers, as of a sample; 0 of less than two.
    #[must_use]
    pub fn deviation(&self) -> f64 {
        match self.count {
            0 | 1 => 0.0,
            count => (self.squares / (count - 1) as f64).max(0.0).sqrt(),
        }
    }
}

/// A container as it was measured and brought up.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ContainerUse {
    /// Id of the session leader; `None` before the first look.
    pub pid: Option<i32>,
    /// Physical memory in MiB, of each look.
    pub pmem_mb: Statistics,
    /// Processors kept busy, of each look but the first.
    pub busy_processors: Statistics,
    /// From the order to localize until all was there; `None` before.
    pub localized_in: Option<Duration>,
    /// From the acceptance until there was a process; `None` before.
    pub launched_in: Option<Duration>,
}

/// Containers on the node. An entry is there from a container's localization to the first look that
/// does not see it any more.
#[derive(Debug, Default)]
pub(super) struct ContainerUses(Mutex<BTreeMap<ContainerId, ContainerUse>>);

impl ContainerUses {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<ContainerId, ContainerUse>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes in a look.
    pub(super) fn observe(&self, looks: &[ContainerLook]) {
        let seen: BTreeSet<_> = looks.iter().map(|look| look.id).collect();
        let mut uses = self.lock();
        uses.retain(|id, container| container.pid.is_none() || seen.contains(id));
        for look in looks {
            let container = uses.entry(look.id).or_default();
            container.pid = Some(look.pid);
            container.pmem_mb.add(look.used.pmem_mb as f64);
            if look.was_known {
                container.busy_processors.add(look.used.cpu_vcores.into());
            }
        }
    }

    pub(super) fn localized(&self, id: ContainerId, took: Duration) {
        self.lock().entry(id).or_default().localized_in = Some(took);
    }

    pub(super) fn launched(&self, id: ContainerId, took: Duration) {
        self.lock().entry(id).or_default().launched_in = Some(took);
    }

    /// Forgets a container that has ended before a look has seen it: no look would forget it.
    pub(super) fn completed(&self, id: ContainerId) {
        let mut uses = self.lock();
        if uses
            .get(&id)
            .is_some_and(|container| container.pid.is_none())
        {
            uses.remove(&id);
        }
    }

    pub(super) fn all(&self) -> BTreeMap<ContainerId, ContainerUse> {
        self.lock().clone()
    }
}

#[cfg(test)]
mod tests {
    use container_runtime::monitor::{ContainerAccount, Utilization};

    use super::*;
    use crate::fixture::container_id;

    fn look(id: i64, pmem_mb: u64, cpu_vcores: f32, was_known: bool) -> ContainerLook {
        ContainerLook {
            id: container_id(id),
            pid: 100,
            was_known,
            spec: None,
            used: Utilization {
                pmem_mb,
                vmem_mb: 0,
                cpu_vcores,
            },
            account: ContainerAccount::default(),
        }
    }

    #[test]
    fn use_is_summed_up_from_look_to_look_and_the_first_tells_no_processors() {
        let uses = ContainerUses::default();
        uses.localized(container_id(1), Duration::from_millis(5));
        uses.observe(&[look(1, 2, 0.0, false)]);
        uses.observe(&[look(1, 4, 0.5, true)]);
        uses.observe(&[look(1, 9, 1.5, true)]);
        let container = uses.all()[&container_id(1)];
        assert_eq!(container.localized_in, Some(Duration::from_millis(5)));
        let Statistics {
            count,
            mean,
            min,
            max,
            ..
        } = container.pmem_mb;
        assert_eq!((count, mean, min, max), (3, 5.0, 2.0, 9.0));
        // The squares of 3, 1 and 4, over two.
        assert!((container.pmem_mb.deviation() - 13.0_f64.sqrt()).abs() < 1e-9);
        let busy = container.busy_processors;
        assert_eq!((busy.count, busy.mean), (2, 1.0));
    }

    #[test]
    fn a_container_is_forgotten_by_the_look_behind_its_end_or_at_its_end_without_a_look() {
        let uses = ContainerUses::default();
        uses.launched(container_id(1), Duration::ZERO);
        uses.observe(&[look(2, 1, 0.0, false)]);
        assert_eq!(uses.all().len(), 2, "one has not been looked at yet");
        uses.completed(container_id(2));
        assert_eq!(uses.all().len(), 2, "its figures can be read for a moment");
        uses.observe(&[]);
        let left: Vec<_> = uses.all().into_keys().collect();
        assert_eq!(left, [container_id(1)]);
        uses.completed(container_id(1));
        assert!(uses.all().is_empty());
    }
}
