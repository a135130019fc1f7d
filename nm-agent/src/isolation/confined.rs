//! A launched container's cgroups, as its watch uses them: signal, kill, wait, and what is to be said at its end. All of it
//! blocks for as long as the kernel takes.

use std::sync::Arc;
use std::time::Duration;

use cgroup::{CgroupError, MemoryEvents};
use crossbeam_channel::Sender;
use records::ContainerId;

use super::shared::Shared;
use super::worker::Job;

/// How long a thaw may take before a signal is sent all the same.
const THAW_PATIENCE: Duration = Duration::from_millis(100);

/// One container's cgroups.
#[derive(Clone, Debug)]
pub(crate) struct Confined {
    pub(super) shared: Arc<Shared>,
    pub(super) jobs: Sender<Job>,
    pub(super) id: ContainerId,
}

impl Confined {
    /// Signals all its processes, thawed first: a frozen one takes no signal. It is not frozen any more from now on.
    /// How many were signalled.
    pub(crate) fn signal(&self, signal: i32) -> Result<usize, CgroupError> {
        let signalled = self.shared.with_groups(self.id, |_, groups| {
            groups.ending = true;
            if std::mem::take(&mut groups.frozen)
                && let Some((_, group)) = &groups.current
                && let Err(error) = group.thaw(THAW_PATIENCE)
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
            groups.ending = true;
            if !std::mem::replace(&mut groups.hurried, true) {
                self.shared.hurry();
            }
            groups.all().try_for_each(cgroup::Cgroup::kill)
        });
        killed.unwrap_or(Ok(()))
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
        populated.unwrap_or(Ok(false))
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

    /// Reads what happened to its memory, removes its cgroups and forgets it.
    pub(crate) fn finish(&self) -> MemoryEvents {
        let patience = Duration::from_millis(self.shared.rules.config.delete_timeout_ms);
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
            let all: Vec<_> = groups.all().cloned().collect();
            groups.current = None;
            groups.former.clear();
            for group in all {
                if let Err(error) = group.destroy(patience) {
                    tracing::warn!(error = crate::error_chain(&error), "a cgroup is left behind");
                }
            }
            if std::mem::take(&mut groups.hurried) {
                self.shared.calm();
            }
            events
        });
        self.shared.table.remove(self.id);
        if self.shared.classes_due.ask() {
            // Nobody takes orders any more only when the agent has stopped.
            let _stopped = self.jobs.send(Job::Classes);
        }
        events.unwrap_or_default()
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
        limit_hits: sum(a.limit_hits, b.limit_hits),
        high_hits: sum(a.high_hits, b.high_hits),
        peak_bytes: a.peak_bytes.max(b.peak_bytes),
        limit_bytes: a.limit_bytes.or(b.limit_bytes),
    }
}
