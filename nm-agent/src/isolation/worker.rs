//! The two threads that act on cgroups of running containers: one that freezes, thaws and changes limits, in the order
//! of the orders, and one that presses memory back, which may take as long as a disk does.

use std::sync::Arc;
use std::time::Duration;

use cgroup::{Bound, Cgroup, CgroupError, Limits};
use crossbeam_channel::{Receiver, Sender, TrySendError};
use records::{ContainerId, ExecutionType};
use tokio::sync::mpsc;

use super::rules::memory_bytes;
use super::shared::Shared;
use super::table::Groups;
use crate::hands::Effect;

/// How long processes may take to stop. Only one that waits for a device takes more than milliseconds; whoever waits for
/// the room is then better served by a kill.
const FREEZE_PATIENCE: Duration = Duration::from_secs(2);
/// Memory pressed back at a time: between two times it is looked whether the container is still frozen.
const RECLAIM_BYTES: u64 = 64 << 20;
/// Frozen containers that may wait for their memory to be pressed back; more stay as they are, which costs memory and
/// nothing else.
pub(super) const RECLAIM_QUEUE_MAX: usize = 256;

const MIB: u64 = 1 << 20;

/// What is ordered. Per container at most one of each kind is under way: the scheduler waits for answers, and a changed
/// limit is ordered again only when the last order was carried out.
#[derive(Debug)]
pub(super) enum Job {
    Pause(ContainerId),
    Resume(ContainerId),
    /// Its size or type has changed.
    Update(ContainerId),
    /// The sums over the classes have changed.
    Classes,
}

pub(super) struct Worker {
    pub(super) shared: Arc<Shared>,
    pub(super) effects: mpsc::UnboundedSender<Effect>,
    pub(super) reclaim: Sender<ContainerId>,
}

impl Worker {
    /// Until nobody can order any more.
    pub(super) fn serve(&self, jobs: &Receiver<Job>) {
        for job in jobs {
            match job {
                Job::Pause(id) => self.pause(id),
                Job::Resume(id) => self.resume(id),
                Job::Update(id) => self.update(id),
                Job::Classes => {
                    self.shared.classes_due.begin();
                    self.shared.apply_classes();
                }
            }
        }
    }

    fn answer(&self, effect: Effect) {
        // The core is gone only when the agent has stopped.
        let _stopped = self.effects.send(effect);
    }

    fn pause(&self, id: ContainerId) {
        let frozen = self.shared.with_groups(id, |_, groups| {
            let (false, Some((_, group))) = (groups.ending, &groups.current) else {
                return Ok(None);
            };
            self.shared.hurry();
            let stopped = group.freeze(FREEZE_PATIENCE);
            self.shared.calm();
            stopped?;
            let held = held_bytes(groups);
            groups.frozen = true;
            Ok(Some(held))
        });
        match frozen {
            Some(Ok(Some(held))) => {
                let held_mb = held.map(|bytes| bytes.div_ceil(MIB));
                self.answer(Effect::Paused { id, held_mb });
                if let Err(TrySendError::Full(_)) = self.reclaim.try_send(id) {
                    tracing::debug!(container = %id, "memory of too many frozen containers waits to be pressed back");
                }
            }
            Some(Ok(None)) | None => self.answer(Effect::PauseFailed(id)),
            Some(Err(error)) => self.failed(id, &error, "cannot be frozen"),
        }
    }

    fn resume(&self, id: ContainerId) {
        let thawed = self.shared.with_groups(id, |_, groups| {
            groups.frozen = false;
            match &groups.current {
                Some((_, group)) => {
                    if self.shared.rules.config.memory {
                        forbid_swap(group, true, 0)?;
                    }
                    group.thaw(FREEZE_PATIENCE)
                }
                // Ended meanwhile: its exit is told by others.
                None => Ok(()),
            }
        });
        match thawed {
            Some(Ok(())) | None => self.answer(Effect::Resumed(id)),
            Some(Err(error)) => self.failed(id, &error, "cannot be thawed"),
        }
    }

    fn failed(&self, id: ContainerId, error: &CgroupError, what: &str) {
        tracing::warn!(container = %id, error = crate::error_chain(error), "a container {what}");
        self.answer(Effect::PauseFailed(id));
    }

    fn update(&self, id: ContainerId) {
        self.shared.table.update_begins(id);
        // While the room it had or gets is counted with neither class, nobody can be pressed for it.
        let updated = self.shared.with_groups(id, |spec, groups| {
            let Some((class, group)) = groups.current.clone() else {
                return Ok(());
            };
            if class == spec.execution_type {
                return group.apply(&self.shared.rules.container(spec));
            }
            self.shared.move_to_class(spec, groups, &group)
        });
        if let Some(Err(error)) = updated {
            tracing::error!(container = %id, error = crate::error_chain(&error), "limits cannot be changed");
        }
        self.shared.apply_classes();
    }
}

/// Whether a group's memory may go to swap, and how much.
fn forbid_swap(group: &Cgroup, forbid: bool, allowed: u64) -> Result<(), CgroupError> {
    let swap = if forbid { 0 } else { allowed };
    group.apply(&Limits {
        swap_max: Some(Bound::At(swap)),
        ..Limits::default()
    })
}

/// The memory that all cgroups of a container hold; `None`: nobody tells.
fn held_bytes(groups: &Groups) -> Option<u64> {
    let of = |group: &Cgroup| group.sampler().ok()?.read().ok()?.memory_bytes;
    groups.all().map(of).sum()
}

/// Presses the memory of frozen containers back.
pub(super) struct Reclaimer {
    pub(super) shared: Arc<Shared>,
    pub(super) effects: mpsc::UnboundedSender<Effect>,
}

impl Reclaimer {
    pub(super) fn serve(&self, frozen: &Receiver<ContainerId>) {
        for id in frozen {
            if let Some(held) = self.press(id) {
                let held_mb = held.div_ceil(MIB);
                // The core is gone only when the agent has stopped.
                let _stopped = self.effects.send(Effect::FrozenMemory { id, held_mb });
            }
        }
    }

    /// Bytes held afterwards; `None`: nothing was done, or it is not frozen any more.
    fn press(&self, id: ContainerId) -> Option<u64> {
        let memory = self.shared.rules.config.memory;
        let group = self.while_frozen(id, |spec, groups| {
            let (_, group) = groups.current.as_ref()?;
            // Its memory may go to swap while it is not needed. Where that may not be said, page cache goes all the same.
            if memory && let Err(error) = forbid_swap(group, false, memory_bytes(spec)) {
                tracing::debug!(container = %id, error = crate::error_chain(&error), "swap is not allowed");
            }
            Some(group.clone())
        })??;
        let mut held = self.while_frozen(id, |_, groups| held_bytes(groups))??;
        while held > 0 {
            // Without the container's lock: somebody may want to kill it.
            match group.reclaim(held.min(RECLAIM_BYTES)) {
                Ok(true) => {}
                // The kernel cannot, or the cgroup is gone.
                Ok(false) | Err(_) => break,
            }
            let now = self.while_frozen(id, |_, groups| held_bytes(groups))??;
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

impl Shared {
    /// Moves a promoted or demoted container to its class. What it has used stays counted where it was: that cgroup
    /// stays, its memory protected if it was promised now, until the container ends.
    fn move_to_class(
        &self,
        spec: &sched::ContainerSpec,
        groups: &mut Groups,
        from: &Cgroup,
    ) -> Result<(), CgroupError> {
        let to = self.parent(spec.execution_type).create(from.name())?;
        to.apply(&self.rules.container(spec))?;
        // Before anything is moved: from now on both are killed and removed with it.
        groups.current = Some((spec.execution_type, to.clone()));
        groups.former.retain(|group| !same(group, &to));
        groups.former.push(from.clone());
        to.take_over(from)?;
        groups.left_behind = 0;
        if self.rules.config.memory && spec.execution_type == ExecutionType::Guaranteed {
            let held = from
                .sampler()?
                .read()
                .ok()
                .and_then(|usage| usage.memory_bytes);
            groups.left_behind = held.unwrap_or(0);
            from.apply(&Limits {
                memory_low: Some(groups.left_behind),
                ..Limits::default()
            })?;
        }
        Ok(())
    }
}

fn same(a: &Cgroup, b: &Cgroup) -> bool {
    a.paths() == b.paths()
}
