//! A launched container's cgroups, as its watch uses them: signal, kill, wait, and what is to be said at its end. All of it
//! blocks for as long as the kernel takes.

use std::sync::Arc;
use std::time::{Duration, Instant};

use cgroup::{CgroupError, MemoryEvents};
use records::{ContainerId, ExecutionType};

use super::Orders;
use super::freezing::FreezeOrder;
use super::hurry::HURRY_MAX;
use super::shared::Shared;
use super::table::Groups;

/// One container's cgroups.
#[derive(Clone, Debug)]
pub(crate) struct Confined {
    pub(super) shared: Arc<Shared>,
    pub(super) orders: Orders,
    pub(super) id: ContainerId,
}

impl Confined {
    /// Signals all its processes to end, thawed first: a frozen one takes no signal. It is not frozen any more from now
    /// on, and gets processor time to end. How many were signalled.
    pub(crate) fn signal(&self, signal: i32) -> Result<usize, CgroupError> {
        let signalled = self.shared.with_groups(self.id, |_, groups| {
            self.begin_end(groups, false);
            if groups.frozen
                && let Err(error) = groups.set_frozen(false)
            {
                tracing::warn!(container = %self.id, error = crate::error_chain(&error), "a container cannot be thawed");
            }
            let mut signalled = 0;
            for group in groups.all() {
                signalled += group.signal(signal, None)?;
            }
            Ok(signalled)
        });
        signalled.unwrap_or(Ok(0))
    }

    /// SIGKILL to all its processes, none of which can escape.
    pub(crate) fn kill(&self) -> Result<(), CgroupError> {
        let killed = self.shared.with_groups(self.id, |_, groups| {
            self.begin_end(groups, true);
            groups.all().try_for_each(cgroup::Cgroup::kill)
        });
        killed.unwrap_or(Ok(()))
    }

    /// It is being ended. Processor time that is left over may not suffice for that; a guaranteed one has its own. One that
    /// does not end, however often it is told, has had its time.
    fn begin_end(&self, groups: &mut Groups, is_kill: bool) {
        let is_repeated = if is_kill {
            groups.killed
        } else {
            groups.ending
        };
        groups.ending = true;
        groups.killed |= is_kill;
        if is_repeated {
            return;
        }
        let class = groups.current.as_ref().map(|(class, _)| *class);
        if class == Some(ExecutionType::Opportunistic)
            && self.shared.hurry_for(self.id, Instant::now() + HURRY_MAX)
        {
            self.orders.freeze(FreezeOrder::Hurried);
        }
    }

    /// Whether a process is in its cgroups.
    pub(crate) fn holds(&self, pid: i32) -> Result<bool, CgroupError> {
        let held = self.shared.with_groups(self.id, |_, groups| {
            for group in groups.all() {
                if group.processes()?.contains(&pid) {
                    return Ok(true);
                }
            }
            Ok(false)
        });
        held.unwrap_or(Ok(false))
    }

    /// Whether a process of it lives.
    pub(crate) fn is_populated(&self) -> Result<bool, CgroupError> {
        let populated = self.shared.with_groups(self.id, |_, groups| {
            for group in groups.all() {
                if group.is_populated()? {
                    return Ok(true);
                }
            }
            Ok(false)
        });
        let populated = populated.unwrap_or(Ok(false));
        if matches!(populated, Ok(false)) {
            self.shared.calm_for(self.id);
        }
        populated
    }

    /// Waits until none lives; whether that is so.
    pub(crate) fn wait_empty(&self, patience: Duration) -> bool {
        let groups = self.shared.with_groups(self.id, |_, groups| {
            groups.all().cloned().collect::<Vec<_>>()
        });
        // Without the lock, so that it can be killed meanwhile.
        let mut groups = groups.unwrap_or_default().into_iter();
        groups.all(|group| group.wait_empty(patience).is_ok())
    }

    /// What happened to its memory. Nothing, once it is finished.
    pub(crate) fn memory_events(&self) -> MemoryEvents {
        let events = self.shared.with_groups(self.id, |_, groups| {
            let mut events = MemoryEvents::default();
            for group in groups.all() {
                match group.memory_events() {
                    Ok(more) => events = together(events, more),
                    Err(error) => {
                        let error = crate::error_chain(&error);
                        tracing::warn!(container = %self.id, error, "what happened to a container's memory is lost");
                    }
                }
            }
            events
        });
        events.unwrap_or_default()
    }

    /// Removes its cgroups and forgets it.
    pub(crate) fn finish(&self) {
        let patience = Duration::from_millis(self.shared.rules.config.delete_timeout_ms);
        let taken = self.shared.with_groups(self.id, |_, groups| {
            let taken = std::mem::take(groups);
            groups.ending = true;
            taken
        });
        self.shared.calm_for(self.id);
        // Without the lock: removing may take as long as a process that waits for a device.
        for group in taken.iter().flat_map(Groups::all) {
            if let Err(error) = group.destroy(patience) {
                let error = crate::error_chain(&error);
                tracing::warn!(error, "a cgroup is left behind and tried again");
                self.orders.leftovers.leave(group.clone());
            }
        }
        self.shared.table.remove(self.id);
        self.orders.classes(&self.shared);
    }
}

/// The events of two cgroups of one container: the limit in force is the first one's.
fn together(a: MemoryEvents, b: MemoryEvents) -> MemoryEvents {
    let sum = |a: Option<u64>, b: Option<u64>| match (a, b) {
        (Some(a), Some(b)) => Some(a.saturating_add(b)),
        (one, other) => one.or(other),
    };
    MemoryEvents {
        oom_kills: sum(a.oom_kills, b.oom_kills),
        limit_ooms: sum(a.limit_ooms, b.limit_ooms),
        high_hits: sum(a.high_hits, b.high_hits),
        peak_bytes: a.peak_bytes.max(b.peak_bytes),
        limit_bytes: a.limit_bytes.or(b.limit_bytes),
    }
}
