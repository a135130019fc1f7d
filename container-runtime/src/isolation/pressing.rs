//! The thread that presses the memory of frozen containers back, which may take as long as a disk does.

use std::sync::Arc;

use cgroup::{Bound, Cgroup, CgroupError, Limits};
use crossbeam_channel::Receiver;
use records::ContainerId;
use tokio::sync::mpsc;

use super::rules::{MIB, memory_bytes};
use super::shared::Shared;
use super::table::Groups;
use crate::isolation::IsolationEvent;

/// Memory pressed back at a time: between two times it is looked whether the container is still frozen.
const RECLAIM_BYTES: u64 = 64 << 20;
/// Frozen containers that may wait for their memory to be pressed back; more stay as they are, which costs memory and
/// nothing else.
pub(super) const RECLAIM_QUEUE_MAX: usize = 256;

/// How much of a cgroup's memory may go to swap, in bytes.
pub(super) fn allow_swap(group: &Cgroup, bytes: u64) -> Result<(), CgroupError> {
    group.apply(&Limits {
        swap_max: Some(Bound::At(bytes)),
        ..Limits::default()
    })
}

/// Presses the memory of frozen containers back.
pub(super) struct Reclaimer {
    pub(super) shared: Arc<Shared>,
    pub(super) effects: mpsc::UnboundedSender<IsolationEvent>,
}

impl Reclaimer {
    pub(super) fn serve(&self, frozen: &Receiver<ContainerId>) {
        for id in frozen {
            if let Some(held) = self.press(id) {
                let held_mb = held.div_ceil(MIB);
                // The core is gone only when the agent has stopped.
                let _stopped = self
                    .effects
                    .send(IsolationEvent::FrozenMemory { id, held_mb });
            }
        }
    }

    /// Bytes held afterwards; `None`: nothing was done, or it is not frozen any more.
    fn press(&self, id: ContainerId) -> Option<u64> {
        let memory = self.shared.rules.config.memory;
        let group = self.while_frozen(id, |spec, groups| {
            let (_, group) = groups.current.as_ref()?;
            // Its memory may go to swap while it is not needed. Where that may not be said, page cache goes all the same.
            if memory && let Err(error) = allow_swap(group, memory_bytes(spec)) {
                tracing::debug!(container = %id, error = crate::error_chain(&error), "swap is not allowed");
            }
            Some(group.clone())
        })??;
        let mut held = self.while_frozen(id, |_, groups| groups.held_bytes())??;
        while held > 0 {
            // Without the container's lock: somebody may want to kill it.
            match group.reclaim(held.min(RECLAIM_BYTES)) {
                Ok(true) => {}
                // The kernel cannot, or the cgroup is gone.
                Ok(false) | Err(_) => break,
            }
            let now = self.while_frozen(id, |_, groups| groups.held_bytes())??;
            // Less than a page's worth of progress in a round: what is left cannot be moved.
            if now.saturating_add(4096) > held {
                held = now;
                break;
            }
            held = now;
        }
        Some(held)
    }

    fn while_frozen<T>(
        &self,
        id: ContainerId,
        act: impl FnOnce(&sched::ContainerSpec, &Groups) -> T,
    ) -> Option<T> {
        self.shared
            .with_groups(id, |spec, groups| {
                (groups.frozen && !groups.ending).then(|| act(spec, groups))
            })
            .flatten()
    }
}
