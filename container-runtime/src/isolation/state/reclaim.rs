//! Reclaim of frozen containers' memory, one container at a time, on a thread of its own: it may
//! take as long as a disk does.

use std::collections::VecDeque;

use cgroup::{Bound, CgroupError, Limits};
use records::ContainerId;

use super::super::limits::{MIB, memory_bytes};
use super::freezing::is_reclaimable;
use super::{Action, Job, Lane, State, WriteReason};
use crate::isolation::IsolationEvent;

/// Bytes reclaimed by one job. Between two jobs, a container that is no longer frozen drops out.
const RECLAIM_BYTES: u64 = 64 << 20;
/// Frozen containers that may wait for reclaim. More stay as they are, which costs memory and
/// nothing else.
const RECLAIM_QUEUE_MAX: usize = 256;
/// Least progress of a job, in bytes: a page. After less, what is left cannot be reclaimed.
const PROGRESS_LEAST: u64 = 4096;

/// Containers whose memory is reclaimed.
#[derive(Debug, Default)]
pub(super) struct ReclaimQueue {
    waiting: VecDeque<ContainerId>,
    active: Option<Active>,
}

/// Container that a job is under way for.
#[derive(Clone, Copy, Debug)]
struct Active {
    id: ContainerId,
    /// Charge in bytes before the job; `None`: the job only reads.
    held: Option<u64>,
}

impl State {
    pub(super) fn queue_reclaim(&mut self, id: ContainerId) {
        if self.reclaim.waiting.len() < RECLAIM_QUEUE_MAX {
            self.reclaim.waiting.push_back(id);
        }
        self.reclaim_next();
    }

    /// Begins with the next container if none is under way.
    fn reclaim_next(&mut self) {
        while self.reclaim.active.is_none()
            && let Some(id) = self.reclaim.waiting.pop_front()
        {
            let container = self.containers.get(&id);
            let Some(container) = container.filter(|container| is_reclaimable(container)) else {
                continue;
            };
            // Memory may go to swap while it is not needed. Where that is refused, page cache is
            // reclaimed all the same.
            let swap = memory_bytes(&container.spec);
            if let Some(group) = container.groups().current
                && self.rules.config.memory
            {
                let limits = Limits {
                    swap_max: Some(Bound::At(swap)),
                    ..Limits::default()
                };
                let reason = WriteReason::AllowSwap;
                self.push(
                    Lane::Reclaim,
                    Job::Write {
                        group,
                        limits,
                        reason,
                    },
                );
            }
            self.reclaim_bytes(id, None);
        }
    }

    /// Reclaims a part of `held` bytes; `None`: only reads how many there are.
    fn reclaim_bytes(&mut self, id: ContainerId, held: Option<u64>) {
        self.reclaim.active = Some(Active { id, held });
        let groups = self.groups(id);
        let bytes = held.unwrap_or(0).min(RECLAIM_BYTES);
        self.push(Lane::Reclaim, Job::Reclaim { id, groups, bytes });
    }

    pub(super) fn reclaimed(
        &mut self,
        id: ContainerId,
        result: Result<bool, CgroupError>,
        held: Option<u64>,
    ) {
        let active = self.reclaim.active.take_if(|active| active.id == id);
        let Some(active) = active else {
            return;
        };
        let container = self.containers.get(&id);
        let is_frozen = container.is_some_and(is_reclaimable);
        if let (true, Some(held)) = (is_frozen, held) {
            let (is_over, held) = match (active.held, result) {
                (None, _) => (held == 0, held),
                (Some(before), Ok(true)) => (
                    held == 0 || held.saturating_add(PROGRESS_LEAST) > before,
                    held,
                ),
                // The kernel cannot, or the cgroup is gone.
                (Some(before), Ok(false) | Err(_)) => (true, before),
            };
            if is_over {
                let held_mb = held.div_ceil(MIB);
                let effect = IsolationEvent::FrozenMemory { id, held_mb };
                self.actions.push_back(Action::Answer(effect));
            } else {
                self.reclaim_bytes(id, Some(held));
            }
        }
        self.reclaim_next();
    }
}
