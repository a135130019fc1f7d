//! Limits of running containers, promotion and demotion, and the memory that stays charged to the
//! cgroup a container has left.

use std::time::Duration;

use cgroup::{CgroupError, Limits};
use records::{ContainerId, ExecutionType};
use sched::ContainerSpec;

use super::super::limits::MIB;
use super::action::late;
use super::container::{Change, Container, other};
use super::{FreezeReason, Group, Groups, Job, Lane, Severity, State, WriteReason};

/// Time between two checks of memory and processes in former cgroups.
const CHECK_FORMER_INTERVAL: Duration = Duration::from_secs(5);
/// Change of a former cgroup's charge, in bytes, from which on the sums follow.
const CHARGE_CHANGE_LEAST: u64 = MIB;
/// Jobs of moving, after which a former cgroup whose processes fork faster than they are moved is
/// frozen for it.
const FREE_ROUNDS: usize = 64;
/// Jobs of moving altogether: more processes than a container can have.
const ROUNDS_MAX: usize = 1_024;

impl State {
    /// Size or type has changed.
    pub(super) fn change(&mut self, spec: ContainerSpec) {
        if let Some(container) = self.containers.get_mut(&spec.id) {
            container.spec = spec;
            container.outdated = true;
            self.reconcile(spec.id);
        }
    }

    /// Begins to bring limits and class up to date, unless a change is under way already.
    pub(super) fn reconcile(&mut self, id: ContainerId) {
        let Some(container) = self.containers.get_mut(&id) else {
            return;
        };
        // One that is only being launched is compared once its cgroup is made.
        let Some(class) = container.class.filter(|_| container.is_changeable()) else {
            return;
        };
        if container.change != Change::None || !std::mem::take(&mut container.outdated) {
            return;
        }
        let limits = self.rules.container(&container.spec);
        let wanted = container.spec.execution_type;
        if class != wanted {
            container.change = Change::Creating;
            let group = Group { class: wanted, id };
            self.push(Lane::Limits, Job::Create { group, limits });
            return;
        }
        let limits = limits.changes_from(&container.known);
        if limits == Limits::default() {
            self.measure(id);
            return;
        }
        container.change = Change::Writing;
        let group = Group { class, id };
        let reason = WriteReason::Limits;
        self.push(
            Lane::Limits,
            Job::Write {
                group,
                limits,
                reason,
            },
        );
    }

    /// The container, if a change is under way that may go on; otherwise that change is over.
    fn changing(
        &mut self,
        id: ContainerId,
        change: impl Fn(Change) -> bool,
    ) -> Option<&mut Container> {
        let container = self.containers.get_mut(&id)?;
        if !change(container.change) {
            return None;
        }
        if !container.is_changeable() {
            container.change = Change::None;
            return None;
        }
        Some(container)
    }

    pub(super) fn limits_written(&mut self, id: ContainerId) {
        if self
            .changing(id, |change| change == Change::Writing)
            .is_some()
        {
            self.measure(id);
        }
    }

    /// A cgroup in the other class was made, or refused.
    pub(super) fn class_created(
        &mut self,
        group: Group,
        limits: Limits,
        result: Result<(), CgroupError>,
    ) {
        let id = group.id;
        let container = self.changing(id, |change| change == Change::Creating);
        match (container, result) {
            (Some(container), Ok(())) => {
                container.change = Change::Entering(limits);
                let frozen = container.frozen;
                let groups = Groups {
                    former: None,
                    current: Some(group),
                };
                self.set_frozen(id, groups, frozen, FreezeReason::Enter);
            }
            (Some(_), Err(error)) => self.stay_in_class(group, error),
            (None, Ok(())) => self.remove_unused(group),
            (None, Err(error)) => {
                let what = "a cgroup for another class cannot be made";
                self.report_of_container(id, what, error, Severity::Debug);
                self.remove_unused(group);
            }
        }
    }

    /// The new cgroup has the container's frozen state: from now on both cgroups are killed, frozen
    /// and removed with the container.
    pub(super) fn enter_class(&mut self, id: ContainerId, result: Result<(), CgroupError>) {
        let is_entering = |change| matches!(change, Change::Entering(_));
        let Some(container) = self.changing(id, is_entering) else {
            return;
        };
        let (Some(from), Change::Entering(limits)) = (container.class, container.change) else {
            return;
        };
        let to = Group {
            class: other(from),
            id,
        };
        if let Err(error) = result {
            self.stay_in_class(to, error);
            return;
        }
        container.class = Some(to.class);
        container.has_former = true;
        container.former_low = container.known.memory_low;
        container.known = limits;
        self.begin_moving(id);
    }

    /// A change of class was refused: the container stays where it is.
    fn stay_in_class(&mut self, to: Group, error: CgroupError) {
        let what = "a container cannot change its class";
        self.report_of_container(to.id, what, error, Severity::Error);
        self.remove_unused(to);
        self.measure(to.id);
    }

    /// Removes a cgroup that was made for a container which did not enter it.
    fn remove_unused(&mut self, group: Group) {
        let container = self.containers.get(&group.id);
        if !container.is_some_and(|container| container.has(group)) {
            self.push(Lane::Limits, Job::Remove { group });
        }
    }

    pub(super) fn begin_moving(&mut self, id: ContainerId) {
        if let Some(container) = self.containers.get_mut(&id) {
            container.change = Change::Moving { round: 0 };
            self.move_some(id);
        }
    }

    fn move_some(&mut self, id: ContainerId) {
        let groups = self.groups(id);
        if let (Some(from), Some(to)) = (groups.former, groups.current) {
            self.push(Lane::Limits, Job::Move { from, to });
        }
    }

    /// Goes on after a job of moving. The container may be killed, frozen and thawed between jobs.
    pub(super) fn moved(&mut self, from: Group, result: Result<usize, CgroupError>) {
        let id = from.id;
        let Some(container) = self.changing(id, |change| matches!(change, Change::Moving { .. }))
        else {
            return;
        };
        let Change::Moving { round } = &mut container.change else {
            return;
        };
        *round += 1;
        let round = *round;
        match result {
            Ok(0) => self.end_moving(id, round),
            Ok(_) if round < ROUNDS_MAX => {
                if round == FREE_ROUNDS {
                    self.set_former_frozen(id, true);
                }
                self.move_some(id);
            }
            Ok(_) => {
                let error = late("be moved", id, Duration::ZERO);
                self.report_not_moved(id, error);
                self.end_moving(id, round);
            }
            Err(error) => {
                self.report_not_moved(id, error);
                self.end_moving(id, round);
            }
        }
    }

    fn report_not_moved(&mut self, id: ContainerId, error: CgroupError) {
        let what = "a container cannot be moved to its class";
        self.report_of_container(id, what, error, Severity::Error);
    }

    fn end_moving(&mut self, id: ContainerId, rounds: usize) {
        if rounds > FREE_ROUNDS {
            let container = self.containers.get(&id);
            let frozen = container.is_some_and(|container| container.frozen);
            self.set_former_frozen(id, frozen);
        }
        self.measure(id);
    }

    fn set_former_frozen(&mut self, id: ContainerId, frozen: bool) {
        let groups = Groups {
            current: None,
            ..self.groups(id)
        };
        self.set_frozen(id, groups, frozen, FreezeReason::Former);
    }

    /// Reads the charge of the former cgroup after a change.
    fn measure(&mut self, id: ContainerId) {
        let Some(container) = self.containers.get_mut(&id) else {
            return;
        };
        match container.groups().former {
            Some(former) => {
                container.change = Change::Measuring;
                self.push(Lane::Limits, Job::Measure { former });
            }
            None => self.settle(id, 0),
        }
    }

    /// Reads all former cgroups, if that is due: memory may have been freed there, and processes
    /// that could not be moved may still be there.
    pub(super) fn check_former(&mut self) {
        if self.check_former_at.is_none_or(|at| at > self.now) {
            return;
        }
        let mut jobs = Vec::new();
        let mut is_any = false;
        for container in self.containers.values_mut() {
            let Some(former) = container.groups().former else {
                continue;
            };
            is_any = true;
            if container.change == Change::None && container.is_changeable() {
                container.change = Change::Checking;
                jobs.push(Job::Measure { former });
            }
        }
        self.check_former_at = is_any.then(|| self.now + CHECK_FORMER_INTERVAL);
        for job in jobs {
            self.push(Lane::Limits, job);
        }
    }

    pub(super) fn measured(&mut self, former: Group, populated: bool, held: u64) {
        let id = former.id;
        let is_measuring = |change| matches!(change, Change::Measuring | Change::Checking);
        let Some(container) = self.changing(id, is_measuring) else {
            return;
        };
        let is_check = container.change == Change::Checking;
        if is_check && populated {
            self.begin_moving(id);
        } else if is_check && held.abs_diff(container.former_held) < CHARGE_CHANGE_LEAST {
            container.change = Change::None;
            self.reconcile(id);
        } else {
            self.settle(id, held);
        }
    }

    /// Ends a change: counts the container in its class, with `held` bytes in the former one.
    fn settle(&mut self, id: ContainerId, held: u64) {
        let Some(container) = self.containers.get_mut(&id) else {
            return;
        };
        container.change = Change::None;
        container.former_held = held;
        let Some(class) = container.class else {
            return;
        };
        if let Some(former) = container.groups().former {
            // The charge belongs to a promoted container, which was promised its memory. The
            // charge of a demoted one belongs to nobody.
            let low = match class {
                ExecutionType::Guaranteed => held,
                ExecutionType::Opportunistic => 0,
            };
            if self.rules.config.memory && container.former_low.replace(low) != Some(low) {
                let limits = Limits {
                    memory_low: Some(low),
                    ..Limits::default()
                };
                let job = Job::Write {
                    group: former,
                    limits,
                    reason: WriteReason::FormerCharge,
                };
                self.actions.push_back(super::Action::Do(Lane::Limits, job));
            }
            let next = self.now + CHECK_FORMER_INTERVAL;
            self.check_former_at.get_or_insert(next);
        }
        let Some(container) = self.containers.get(&id) else {
            return;
        };
        let share = self.rules.share(&container.spec, class, held);
        self.count(id, share);
        self.reconcile(id);
    }
}
