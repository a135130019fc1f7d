//! State machine of the cgroups: the only owner of what containers and classes are limited to, and
//! of which containers are frozen, boosted, moved or being started.
//!
//! Pure: events and times in; jobs, answers and a deadline out. Neither clock, thread, file nor
//! lock. Fast jobs are answered before the next event; slow ones ([`Lane::Limits`],
//! [`Lane::Reclaim`]) at any later time, each lane in its order. At most one change of a container
//! and one write per part of a class are under way, so the queues are bounded by the containers.
//!
//! - `action`: the vocabulary; `container`: the state of one container
//! - `files`: jobs, carried out on the kernel's files or on a model of them
//! - `freezing`: pause, resume and the end of a container
//! - `adopt`: containers of an earlier agent
//! - `class_change`: limits, promotion, demotion, and memory charged to a former cgroup
//! - `reclaim`: memory of frozen containers
//! - `boost`: CPU time for containers that start, stop or end
//! - `scope_limits`: limits that hold in the parent cgroups

mod action;
mod adopt;
mod boost;
mod class_change;
mod container;
mod files;
mod freezing;
mod reclaim;
mod scope_limits;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use cgroup::{CgroupError, Limits};
use records::{ContainerId, ExecutionType};
use sched::ContainerSpec;

pub(super) use action::{
    Action, Adopted, Done, Event, FreezeReason, Group, Groups, Job, Lane, Part, Progress, Report,
    Scope, Severity, Subject, WriteReason,
};
use boost::Boost;
pub(super) use container::other;
use container::{Container, End};
pub(super) use files::Files;
use reclaim::ReclaimQueue;
use scope_limits::ScopeLimits;

use super::limits::{MemorySums, Rules};

/// Least time between two updates of the classes' limits. With hundreds of containers starting and
/// ending in a second, one write serves several of them, and no memory to speak of is used in so
/// short a time.
const SCOPES_INTERVAL: Duration = Duration::from_millis(10);

/// State machine. Bounded by the scheduler, which knows a limited number of containers.
#[derive(Debug)]
pub(super) struct State {
    rules: Rules,
    /// Time of the event that is being handled.
    now: Instant,
    containers: BTreeMap<ContainerId, Container>,
    /// Sums over `containers`.
    sums: MemorySums,
    scopes: ScopeLimits,
    /// Time of the next update of the classes' limits.
    scopes_at: Option<Instant>,
    /// Earliest time of a later update.
    scopes_next: Instant,
    boost: Boost,
    /// The class of opportunistic containers was ordered to be boosted.
    boosted: bool,
    /// Containers that were told to freeze, with the time at which that has failed.
    freezing: BTreeMap<ContainerId, Instant>,
    /// Time of the next check of `freezing`.
    check_frozen_at: Instant,
    /// Time of the next check of former cgroups. `None`: there is none.
    check_former_at: Option<Instant>,
    reclaim: ReclaimQueue,
    actions: VecDeque<Action>,
}

impl State {
    /// Makes a state without containers, whose first action writes the limits of the classes.
    pub(super) fn new(rules: Rules, now: Instant) -> Self {
        let mut state = Self {
            rules,
            now,
            containers: BTreeMap::new(),
            sums: MemorySums::default(),
            scopes: ScopeLimits::default(),
            scopes_at: None,
            scopes_next: now,
            boost: Boost::default(),
            boosted: false,
            freezing: BTreeMap::new(),
            check_frozen_at: now,
            check_former_at: None,
            reclaim: ReclaimQueue::default(),
            actions: VecDeque::new(),
        };
        state.update_scopes();
        state
    }

    /// Handles one event.
    pub(super) fn handle(&mut self, event: Event, now: Instant) {
        self.now = now;
        match event {
            Event::Announced(spec) => self.announce(spec),
            Event::Changed(spec) => self.change(spec),
            Event::Created(spec, limits) => self.created(&spec, limits),
            Event::Adopted(adopted) => self.adopt(adopted),
            Event::Started(id) => self.boost.end_start(id),
            Event::EndOrdered(id) => self.order_end(id),
            Event::Pause(id) => self.pause(id),
            Event::Resume(id) => self.resume(id),
            Event::Terminating(id) => self.begin_end(id, End::Terminating),
            Event::Killing(id) => self.begin_end(id, End::Killed),
            Event::Emptied(id) => self.boost.end_stop(id),
            Event::Finishing(id) => self.finish(id),
            Event::Removed(id) => self.remove(id),
            Event::NodeResource(total) => {
                self.rules.total = total;
                self.scopes_are_due();
            }
            Event::Done(done) => self.done(done),
        }
        self.update_boost();
    }

    /// Acts on deadlines that have passed.
    pub(super) fn tick(&mut self, now: Instant) {
        self.now = now;
        self.boost.expire(now);
        self.update_boost();
        self.check_frozen();
        self.check_former();
        if self.scopes_at.is_some_and(|at| at <= now) {
            self.update_scopes();
        }
    }

    /// Time of the next [`State::tick`]; `None`: only an event can change anything.
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        let freezing = (!self.freezing.is_empty()).then_some(self.check_frozen_at);
        let deadlines = [
            self.boost.next_deadline(),
            freezing,
            self.check_former_at,
            self.scopes_at,
        ];
        deadlines.into_iter().flatten().min()
    }

    /// Takes the oldest action that was not taken yet.
    pub(super) fn next_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// Cgroups of a container. None for one that is unknown.
    pub(super) fn groups(&self, id: ContainerId) -> Groups {
        self.containers
            .get(&id)
            .map(Container::groups)
            .unwrap_or_default()
    }

    fn push(&mut self, lane: Lane, job: Job) {
        self.actions.push_back(Action::Do(lane, job));
    }

    fn report(
        &mut self,
        subject: Subject,
        what: &'static str,
        error: CgroupError,
        severity: Severity,
    ) {
        self.actions.push_back(Action::Report(Report {
            subject,
            what,
            error,
            severity,
        }));
    }

    fn announce(&mut self, spec: ContainerSpec) {
        self.remove(spec.id);
        self.containers.insert(spec.id, Container::new(spec));
    }

    /// The launch thread made the cgroup for `spec` as it was announced.
    fn created(&mut self, spec: &ContainerSpec, limits: Limits) {
        let class = spec.execution_type;
        let Some(container) = self.containers.get_mut(&spec.id) else {
            return;
        };
        container.class = Some(class);
        container.known = limits;
        container.outdated =
            container.spec != *spec || self.rules.container(&container.spec) != limits;
        if class == ExecutionType::Opportunistic {
            let at_once = container.end > End::No;
            self.boost.begin_start(spec.id, self.now, at_once);
        }
        self.count(spec.id, self.rules.share(spec, class, 0));
        self.reconcile(spec.id);
    }

    /// The cgroups are being removed by the caller.
    fn finish(&mut self, id: ContainerId) {
        self.fail_pause(id);
        self.boost.end_start(id);
        self.boost.end_stop(id);
        if let Some(container) = self.containers.get_mut(&id) {
            container.end = End::Killed;
            container.class = None;
            container.has_former = false;
        }
    }

    fn remove(&mut self, id: ContainerId) {
        self.finish(id);
        self.count(id, MemorySums::default());
        self.containers.remove(&id);
    }

    /// Sets a container's part of the sums.
    fn count(&mut self, id: ContainerId, share: MemorySums) {
        let Some(container) = self.containers.get_mut(&id) else {
            return;
        };
        let before = std::mem::replace(&mut container.counted, share);
        self.sums = self.sums.with(before, share);
        self.scopes_are_due();
    }

    fn scopes_are_due(&mut self) {
        self.scopes_at.get_or_insert(self.scopes_next.max(self.now));
    }

    /// Writes the limits of the classes that differ from those known to hold.
    fn update_scopes(&mut self) {
        self.scopes_at = None;
        self.scopes_next = self.now + SCOPES_INTERVAL;
        for (scope, limits) in [
            (Scope::AllContainers, self.rules.root(self.sums)),
            (Scope::Guaranteed, self.rules.guaranteed(self.sums)),
            // Known already, unless it was refused the last time.
            (Scope::Opportunistic, Rules::opportunistic_cpu(self.boosted)),
            (Scope::Opportunistic, self.rules.opportunistic(self.sums)),
        ] {
            self.update_scope(scope, &limits);
        }
    }

    /// Writes the CPU time of the opportunistic class if the boost has begun or ended.
    fn update_boost(&mut self) {
        if self.boost.is_on() != self.boosted {
            self.boosted = self.boost.is_on();
            let cpu = Rules::opportunistic_cpu(self.boosted);
            self.update_scope(Scope::Opportunistic, &cpu);
        }
    }

    fn update_scope(&mut self, scope: Scope, wanted: &Limits) {
        for (part, limits) in self.scopes.update(scope, wanted) {
            let lane = match part {
                Part::Cpu => Lane::Fast,
                Part::Memory | Part::Other => Lane::Limits,
            };
            self.push(
                lane,
                Job::WriteScope {
                    scope,
                    part,
                    limits,
                },
            );
        }
    }

    fn scope_written(
        &mut self,
        scope: Scope,
        part: Part,
        limits: Limits,
        result: Result<(), CgroupError>,
    ) {
        let finished = self.scopes.finish(scope, part, limits, result.is_err());
        match part {
            // A boost that has ended meanwhile must not last longer.
            Part::Cpu if finished.is_outdated => self.update_scopes(),
            Part::Memory | Part::Other if finished.is_outdated => self.scopes_are_due(),
            Part::Cpu | Part::Memory | Part::Other => {}
        }
        if let Err(error) = result {
            let (what, severity) = if finished.was_refused {
                ("limits still cannot be changed", Severity::Debug)
            } else {
                ("limits cannot be changed", Severity::Error)
            };
            self.report(Subject::Scope(scope), what, error, severity);
        }
    }

    fn done(&mut self, done: Done) {
        match done {
            Done::ScopeWritten {
                scope,
                part,
                limits,
                result,
            } => self.scope_written(scope, part, limits, result),
            Done::Written {
                group,
                limits,
                reason,
                result,
            } => self.written(group, limits, reason, result),
            Done::FrozenSet { id, reason, result } => self.frozen_set(id, reason, result),
            Done::FrozenChecked { id, result } => self.frozen_checked(id, result),
            Done::Created {
                group,
                limits,
                result,
            } => self.class_created(group, limits, result),
            Done::Moved { from, result } => self.moved(from, result),
            Done::Measured {
                former,
                populated,
                held,
            } => self.measured(former, populated, held),
            Done::Reclaimed { id, result, held } => self.reclaimed(id, result, held),
        }
    }

    fn written(
        &mut self,
        group: Group,
        limits: Limits,
        reason: WriteReason,
        result: Result<(), CgroupError>,
    ) {
        let refusal = self.record_written(group, limits, reason, result);
        if let Some(error) = refusal {
            let (what, severity) = match reason {
                WriteReason::Limits => ("limits cannot be changed", Severity::Error),
                WriteReason::FormerCharge => {
                    ("memory left behind is not protected", Severity::Error)
                }
                WriteReason::AllowSwap => ("swap is not allowed", Severity::Debug),
                WriteReason::ForbidSwap => ("swap stays allowed", Severity::Debug),
            };
            self.report_of_container(group.id, what, error, severity);
        }
        match reason {
            WriteReason::Limits => self.limits_written(group.id),
            WriteReason::AllowSwap => self.forbid_swap_if_thawed(group.id),
            WriteReason::FormerCharge | WriteReason::ForbidSwap => {}
        }
    }

    /// Records which limits hold in a container's cgroup. Returns the refusal.
    fn record_written(
        &mut self,
        group: Group,
        limits: Limits,
        reason: WriteReason,
        result: Result<(), CgroupError>,
    ) -> Option<CgroupError> {
        if let Some(container) = self.containers.get_mut(&group.id) {
            if container.groups().current == Some(group) {
                // After a refusal it is not known which of them were written.
                container.known = match result {
                    Ok(()) => limits.written_over(container.known),
                    Err(_) => Limits::default(),
                };
            } else if reason == WriteReason::FormerCharge && result.is_err() {
                container.former_low = None;
            }
        }
        result.err()
    }

    /// Reports a refusal for a container. One that ends takes its files with it.
    fn report_of_container(
        &mut self,
        id: ContainerId,
        what: &'static str,
        error: CgroupError,
        severity: Severity,
    ) {
        let container = self.containers.get(&id);
        let severity = if container.is_some_and(Container::is_changeable) {
            severity
        } else {
            Severity::Debug
        };
        self.report(Subject::Container(id), what, error, severity);
    }
}
