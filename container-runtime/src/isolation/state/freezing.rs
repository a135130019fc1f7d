//! Pause, resume and end. All containers that are to freeze are told at once, and checked until
//! they have stopped.
//!
//! With CPU time a process stops within milliseconds. It takes longer only if it waits for a
//! device, or if the kernel throttles it for its class's memory, for up to two seconds that only a
//! kill cuts short (`mem_cgroup_handle_over_high`). Containers that wait for the resources are then
//! better served by a kill, so a pause has a deadline.

use std::time::Duration;

use cgroup::{Bound, CgroupError, Limits};
use records::{ContainerId, ExecutionType};

use super::super::limits::MIB;
use super::action::late;
use super::boost::BOOST_MAX;
use super::container::{Container, End};
use super::{Action, FreezeReason, Groups, Job, Lane, Progress, Severity, State, WriteReason};
use crate::isolation::IsolationEvent;

/// Time between two checks of freezing containers. The kernel notifies, too, but holds a second
/// notification back for 10 ms.
const CHECK_INTERVAL: Duration = Duration::from_micros(500);

impl State {
    fn answer(&mut self, effect: IsolationEvent) {
        self.actions.push_back(Action::Answer(effect));
    }

    fn patience(&self) -> Duration {
        Duration::from_millis(self.rules.config.freeze_timeout_ms)
    }

    pub(super) fn pause(&mut self, id: ContainerId) {
        let container = self.containers.get_mut(&id);
        let Some(container) = container.filter(|container| container.is_changeable()) else {
            self.answer(IsolationEvent::PauseFailed(id));
            return;
        };
        container.frozen = true;
        let groups = container.groups();
        let deadline = self.now + self.patience();
        self.freezing.insert(id, deadline);
        self.check_frozen_at = self.now;
        if is_opportunistic(groups) {
            self.boost.begin_stop(id, deadline);
        }
        self.set_frozen(id, groups, true, FreezeReason::Pause);
    }

    pub(super) fn resume(&mut self, id: ContainerId) {
        if self.fail_pause(id) {
            self.boost.end_stop(id);
        }
        let Some(container) = self.containers.get_mut(&id) else {
            self.answer(IsolationEvent::Resumed(id));
            return;
        };
        container.frozen = false;
        let groups = container.groups();
        self.forbid_swap_if_thawed(id);
        // The processes go on whenever they get to run. If the container has ended meanwhile, its
        // exit is reported elsewhere.
        self.set_frozen(id, groups, false, FreezeReason::Resume);
    }

    /// Writes the swap limit of a container that is not frozen, unless it is known to hold.
    pub(super) fn forbid_swap_if_thawed(&mut self, id: ContainerId) {
        let container = self.containers.get(&id);
        let Some(container) = container.filter(|container| !container.frozen) else {
            return;
        };
        let none = Some(Bound::At(0));
        if let Some(group) = container.groups().current
            && self.rules.config.memory
            && container.known.swap_max != none
            && !container.is_ending()
        {
            let limits = Limits {
                swap_max: none,
                ..Limits::default()
            };
            let reason = WriteReason::ForbidSwap;
            self.push(
                Lane::Fast,
                Job::Write {
                    group,
                    limits,
                    reason,
                },
            );
        }
    }

    pub(super) fn set_frozen(
        &mut self,
        id: ContainerId,
        groups: Groups,
        frozen: bool,
        reason: FreezeReason,
    ) {
        self.push(
            Lane::Fast,
            Job::SetFrozen {
                id,
                groups,
                frozen,
                reason,
            },
        );
    }

    pub(super) fn frozen_set(
        &mut self,
        id: ContainerId,
        reason: FreezeReason,
        result: Result<(), CgroupError>,
    ) {
        match (reason, result) {
            (FreezeReason::Enter, result) => self.enter_class(id, result),
            (FreezeReason::Resume, Ok(())) => self.answer(IsolationEvent::Resumed(id)),
            (
                FreezeReason::Pause
                | FreezeReason::Undo
                | FreezeReason::End
                | FreezeReason::Adopt
                | FreezeReason::Former,
                Ok(()),
            ) => {}
            (FreezeReason::Pause, Err(error)) => self.undo_pause(id, error),
            (FreezeReason::Undo, Err(error)) => {
                let what = "a container is not thawed after a failed pause";
                self.report_of_container(id, what, error, Severity::Debug);
            }
            (FreezeReason::Resume, Err(error)) => {
                let what = "a container cannot be thawed";
                self.report_of_container(id, what, error, Severity::Warn);
                self.answer(IsolationEvent::PauseFailed(id));
            }
            (FreezeReason::End, Err(error)) => {
                let what = "a container that is to end cannot be thawed";
                self.report(super::Subject::Container(id), what, error, Severity::Warn);
            }
            (FreezeReason::Adopt, Err(error)) => {
                let what = "a container of an earlier run cannot be thawed";
                self.report_of_container(id, what, error, Severity::Warn);
            }
            (FreezeReason::Former, Err(error)) => {
                let what = "a former cgroup is not frozen or thawed as its container is";
                self.report_of_container(id, what, error, Severity::Debug);
            }
        }
    }

    /// Reads all containers that were told to freeze, if that is due.
    pub(super) fn check_frozen(&mut self) {
        if self.freezing.is_empty() || self.check_frozen_at > self.now {
            return;
        }
        self.check_frozen_at = self.now + CHECK_INTERVAL;
        let ids: Vec<_> = self.freezing.keys().copied().collect();
        for id in ids {
            let groups = self.groups(id);
            self.push(Lane::Fast, Job::CheckFrozen { id, groups });
        }
    }

    pub(super) fn frozen_checked(
        &mut self,
        id: ContainerId,
        result: Result<Progress, CgroupError>,
    ) {
        let Some(deadline) = self.freezing.get(&id).copied() else {
            return;
        };
        match result {
            Ok(Progress::Stopped(held)) => {
                self.freezing.remove(&id);
                self.boost.end_stop(id);
                let held_mb = held.map(|bytes| bytes.div_ceil(MIB));
                self.answer(IsolationEvent::Paused { id, held_mb });
                self.queue_reclaim(id);
            }
            Ok(Progress::Stopping) if self.now < deadline => {}
            Ok(Progress::Stopping) => self.undo_pause(id, late("freeze", id, self.patience())),
            Err(error) => self.undo_pause(id, error),
        }
    }

    /// Lets a container go on that could not be frozen.
    fn undo_pause(&mut self, id: ContainerId, error: CgroupError) {
        let what = "a container cannot be frozen";
        self.report_of_container(id, what, error, Severity::Warn);
        if self.fail_pause(id) {
            self.boost.end_stop(id);
        }
        if let Some(container) = self.containers.get_mut(&id) {
            container.frozen = false;
            let groups = container.groups();
            self.set_frozen(id, groups, false, FreezeReason::Undo);
        }
    }

    /// Answers a pause under way as failed; whether there was one.
    pub(super) fn fail_pause(&mut self, id: ContainerId) -> bool {
        let was_freezing = self.freezing.remove(&id).is_some();
        if was_freezing {
            self.answer(IsolationEvent::PauseFailed(id));
        }
        was_freezing
    }

    /// Records that the end was ordered. A process that is just being made has no watch yet that
    /// signals it, and cannot be killed before it executes its program.
    pub(super) fn order_end(&mut self, id: ContainerId) {
        if let Some(container) = self.containers.get_mut(&id) {
            container.end = container.end.max(End::Ordered);
            self.boost.expedite_start(id, self.now);
        }
    }

    /// Prepares a container for being signalled: thawed, since a frozen process takes no signal,
    /// and with CPU time, which a guaranteed one has anyway. Repeated orders prolong no boost.
    pub(super) fn begin_end(&mut self, id: ContainerId, end: End) {
        self.fail_pause(id);
        let Some(container) = self.containers.get_mut(&id) else {
            return;
        };
        let is_repeated = container.end >= end;
        container.end = container.end.max(end);
        let groups = container.groups();
        // A kill reaches frozen processes, too.
        let thaws = end == End::Terminating && std::mem::take(&mut container.frozen);
        if !is_repeated && is_opportunistic(groups) {
            self.boost.begin_stop(id, self.now + BOOST_MAX);
        }
        if thaws {
            self.set_frozen(id, groups, false, FreezeReason::End);
        }
    }
}

fn is_opportunistic(groups: Groups) -> bool {
    groups
        .current
        .is_some_and(|group| group.class == ExecutionType::Opportunistic)
}

/// Whether memory of the container is to be reclaimed.
pub(super) fn is_reclaimable(container: &Container) -> bool {
    container.frozen && container.is_changeable()
}
