//! A launched container's cgroups as its watch uses them: signal, kill, wait, and what the kernel
//! recorded. The owner of the state names the cgroups and gives CPU time; the calling thread does
//! the work, and blocks for as long as the kernel takes.

use std::fmt;
use std::time::Duration;

use cgroup::{Cgroup, CgroupError, MemoryEvents};
use records::ContainerId;

use super::Isolation;
use super::state::Event;

/// Cgroups of one container.
#[derive(Clone)]
pub(crate) struct Confined {
    pub(super) isolation: Isolation,
    pub(super) id: ContainerId,
}

impl fmt::Debug for Confined {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Confined")
            .field(&self.id.to_string())
            .finish()
    }
}

impl Confined {
    /// Signals all processes to end. They are thawed first, and get CPU time. Returns the number
    /// of processes signalled.
    ///
    /// # Errors
    /// A process cannot be signalled; those after it are not tried.
    pub(crate) fn signal(&self, signal: i32) -> Result<usize, CgroupError> {
        let mut signalled = 0;
        for group in self.groups(Some(Event::Terminating(self.id)))? {
            signalled += group.signal(signal, None)?;
        }
        Ok(signalled)
    }

    /// Kills all processes (SIGKILL). None can escape: a process that is being moved meanwhile is
    /// still in the former cgroup, which is killed first, or already in the current one.
    ///
    /// # Errors
    /// The first refusal of the kernel.
    pub(crate) fn kill(&self) -> Result<(), CgroupError> {
        let groups = self.groups(Some(Event::Killing(self.id)))?;
        groups.iter().try_for_each(Cgroup::kill)
    }

    /// Whether a process is in one of the cgroups.
    ///
    /// # Errors
    /// A cgroup cannot be read.
    pub(crate) fn holds(&self, pid: i32) -> Result<bool, CgroupError> {
        for group in self.groups(None)? {
            if group.processes()?.contains(&pid) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Whether a process lives in one of the cgroups.
    ///
    /// # Errors
    /// A cgroup cannot be read.
    pub(crate) fn is_populated(&self) -> Result<bool, CgroupError> {
        for group in self.groups(None)? {
            if group.is_populated()? {
                return Ok(true);
            }
        }
        self.isolation.mailbox.tell(Event::Emptied(self.id));
        Ok(false)
    }

    /// Returns the pids of the processes that are left in the cgroups.
    ///
    /// # Errors
    /// A cgroup cannot be read.
    pub(crate) fn left(&self) -> Result<Vec<i32>, CgroupError> {
        let mut left = Vec::new();
        for group in self.groups(None)? {
            left.extend(group.running()?);
        }
        Ok(left)
    }

    /// Returns the cgroups themselves, for whoever ends what is left there when the container is
    /// forgotten.
    pub(crate) fn cgroups(&self) -> Vec<Cgroup> {
        self.groups(None).unwrap_or_default()
    }

    /// Memory events of all cgroups. Zero after [`Confined::finish`].
    pub(crate) fn memory_events(&self) -> MemoryEvents {
        let mut events = MemoryEvents::default();
        for group in self.groups(None).unwrap_or_default().iter().rev() {
            match group.memory_events() {
                Ok(more) => events = together(events, more),
                Err(error) => {
                    let error = crate::error_chain(&error);
                    tracing::warn!(container = %self.id, error, "memory events of a container are lost");
                }
            }
        }
        events
    }

    /// Removes the cgroups and forgets the container. Where processes are known to stay, waits for
    /// nothing: the removal is retried.
    pub(crate) fn finish(&self, processes_stay: bool) {
        let isolation = &self.isolation;
        let patience = if processes_stay {
            Duration::ZERO
        } else {
            Duration::from_millis(isolation.rules.config.delete_timeout_ms)
        };
        let groups = self.groups(Some(Event::Finishing(self.id)));
        for group in groups.unwrap_or_default() {
            if let Err(error) = group.destroy(patience) {
                let error = crate::error_chain(&error);
                tracing::warn!(error, "a cgroup is left behind and its removal retried");
                isolation.leftovers.leave(group);
            }
        }
        isolation.mailbox.tell(Event::Removed(self.id));
    }

    /// The cgroups from before `event`, the former one first.
    fn groups(&self, event: Option<Event>) -> Result<Vec<Cgroup>, CgroupError> {
        let groups = self.isolation.mailbox.ask(self.id, event);
        let groups = groups.ok_or(CgroupError::Unsupported {
            operation: "find a container's cgroups",
        })?;
        let places = &self.isolation.places;
        groups.all().map(|group| places.group(group)).collect()
    }
}

/// Adds the events of two cgroups of one container: the limit in force is the first one's.
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
