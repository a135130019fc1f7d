//! The thread that freezes and thaws containers. It never waits for one of them while others could go on: all that are to
//! stop are told at once, and looked at until they have. Nor does it write what could take the kernel long.
//!
//! With processor time a process stops within milliseconds. It takes longer only if it waits for a device, or if the kernel
//! slows it down for its class's memory, for up to two seconds that only a kill cuts short (`mem_cgroup_handle_over_high`).
//! Whoever waits for the room is then better served by a kill, so the time for it is bounded.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cgroup::CgroupError;
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, TrySendError};
use records::{ContainerId, ExecutionType};
use tokio::sync::mpsc;

use super::rules::MIB;
use super::shared::Shared;
use super::table::Groups;
use crate::isolation::IsolationEvent;

/// Between two looks at those that are about to stop. The kernel tells of it too, but holds a second message back for 10 ms.
const LOOK_INTERVAL: Duration = Duration::from_micros(500);

/// What is ordered. Per container at most one of the first two is under way: the scheduler waits for answers.
#[derive(Debug)]
pub(super) enum FreezeOrder {
    Pause(ContainerId),
    Resume(ContainerId),
    /// Opportunistic containers are hurried from now on: somebody has to look when their time is over.
    Hurried,
}

/// How far a container is that was told to stop.
#[derive(Debug)]
enum Progress {
    /// It has, and holds so many bytes; `None`: nobody tells.
    Stopped(Option<u64>),
    Stopping,
    /// It is being ended, or gone.
    Ending,
    /// It goes on instead.
    Failed(CgroupError),
}

pub(super) struct Freezer {
    pub(super) shared: Arc<Shared>,
    pub(super) effects: mpsc::UnboundedSender<IsolationEvent>,
    pub(super) reclaim: Sender<ContainerId>,
    /// Containers that were told to stop, and until when they may take.
    pub(super) stopping: BTreeMap<ContainerId, Instant>,
}

impl Freezer {
    /// Until nobody can order any more.
    pub(super) fn serve(mut self, orders: &Receiver<FreezeOrder>) {
        let mut calm_at = None;
        loop {
            let look_at = (!self.stopping.is_empty()).then(|| Instant::now() + LOOK_INTERVAL);
            let received = match [look_at, calm_at].into_iter().flatten().min() {
                Some(at) => orders.recv_deadline(at),
                None => orders.recv().map_err(|_| RecvTimeoutError::Disconnected),
            };
            match received {
                Ok(order) => {
                    self.obey(&order);
                    // All that wait already, so that they stop at the same time.
                    orders.try_iter().for_each(|order| self.obey(&order));
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            self.look();
            calm_at = self.shared.calm_late();
        }
    }

    pub(super) fn obey(&mut self, order: &FreezeOrder) {
        match *order {
            FreezeOrder::Pause(id) => self.pause(id),
            FreezeOrder::Resume(id) => self.resume(id),
            // The loop looks.
            FreezeOrder::Hurried => {}
        }
    }

    fn patience(&self) -> Duration {
        Duration::from_millis(self.shared.rules.config.freeze_timeout_ms)
    }

    fn answer(&self, effect: IsolationEvent) {
        // The core is gone only when the agent has stopped.
        let _stopped = self.effects.send(effect);
    }

    fn pause(&mut self, id: ContainerId) {
        let deadline = Instant::now() + self.patience();
        let told = self.shared.with_groups(id, |_, groups| {
            let (false, Some((class, _))) = (groups.ending, &groups.current) else {
                return Ok(false);
            };
            if *class == ExecutionType::Opportunistic {
                // This thread looks anyway.
                let _first = self.shared.hurry_for(id, deadline);
            }
            groups.set_frozen(true).map(|()| true)
        });
        match told {
            Some(Ok(true)) => {
                self.stopping.insert(id, deadline);
            }
            Some(Ok(false)) | None => self.answer(IsolationEvent::PauseFailed(id)),
            Some(Err(error)) => {
                self.give_up(id);
                self.failed(id, &error, "cannot be frozen");
            }
        }
    }

    /// Looks at all that were told to stop.
    pub(super) fn look(&mut self) {
        if self.stopping.is_empty() {
            return;
        }
        let now = Instant::now();
        let patience = self.patience();
        for (id, deadline) in std::mem::take(&mut self.stopping) {
            let late = (now >= deadline).then_some(patience);
            let progress = self
                .shared
                .with_groups(id, |_, groups| progress(groups, late));
            match progress.unwrap_or(Progress::Ending) {
                Progress::Stopping => {
                    self.stopping.insert(id, deadline);
                }
                Progress::Stopped(held) => {
                    self.shared.calm_for(id);
                    self.stopped(id, held);
                }
                // Whoever ends it hurries it.
                Progress::Ending => self.answer(IsolationEvent::PauseFailed(id)),
                Progress::Failed(error) => {
                    self.give_up(id);
                    self.failed(id, &error, "cannot be frozen");
                }
            }
        }
    }

    fn stopped(&self, id: ContainerId, held: Option<u64>) {
        let held_mb = held.map(|bytes| bytes.div_ceil(MIB));
        self.answer(IsolationEvent::Paused { id, held_mb });
        if let Err(TrySendError::Full(_)) = self.reclaim.try_send(id) {
            tracing::debug!(container = %id, "memory of too many frozen containers waits to be pressed back");
        }
    }

    /// Lets one go on that could not be stopped, unless it is being ended.
    fn give_up(&self, id: ContainerId) {
        self.shared.with_groups(id, |_, groups| {
            if groups.ending {
                return;
            }
            self.shared.calm_for(id);
            if let Err(error) = groups.set_frozen(false) {
                tracing::debug!(container = %id, error = crate::error_chain(&error), "it is not thawed");
            }
        });
    }

    fn resume(&self, id: ContainerId) {
        let thawed = self.shared.with_groups(id, |_, groups| {
            if self.shared.rules.config.memory
                && let Some((_, group)) = &groups.current
                && let Err(error) = super::pressing::allow_swap(group, 0)
            {
                tracing::debug!(container = %id, error = crate::error_chain(&error), "swap stays allowed");
            }
            // At once, whenever its processes get to run. If it ended meanwhile, others tell of its exit.
            groups.set_frozen(false)
        });
        match thawed {
            Some(Ok(())) | None => self.answer(IsolationEvent::Resumed(id)),
            Some(Err(error)) => self.failed(id, &error, "cannot be thawed"),
        }
    }

    fn failed(&self, id: ContainerId, error: &CgroupError, what: &str) {
        tracing::warn!(container = %id, error = crate::error_chain(error), "a container {what}");
        self.answer(IsolationEvent::PauseFailed(id));
    }
}

/// `late`: it has had so long.
fn progress(groups: &Groups, late: Option<Duration>) -> Progress {
    if groups.ending || !groups.frozen || groups.current.is_none() {
        return Progress::Ending;
    }
    match groups.have_stopped() {
        Ok(true) => Progress::Stopped(groups.held_bytes()),
        Ok(false) => match late {
            Some(waited) => Progress::Failed(CgroupError::Timeout {
                operation: "freeze",
                name: groups.all().map(cgroup::Cgroup::name).take(1).collect(),
                waited,
            }),
            None => Progress::Stopping,
        },
        Err(error) => Progress::Failed(error),
    }
}
