//! The scheduler in its plainest form: one list, searched and summed for every question. Predicts
//! each action of the real one, in order.

mod killing;
mod ordering;
mod scheduling;
mod values;

use records::{ContainerExitStatus, ContainerId, ExecutionType, Resource};
use sched::{
    ContainerSchedulerConfig, ContainerSpec, Event, OpportunisticContainersQueuePolicy,
    OpportunisticContainersStatus, PauseEnd, QUEUE_LENGTH_MAX, QueueOrder, RejectReason,
};

use ordering::Run;
use values::Frozen;
pub(crate) use values::{Decision, Phase, Sum, ToyContainer};

/// Toy scheduler: configuration, node, containers and predicted actions as plain values.
#[derive(Clone, Debug)]
pub(crate) struct Toy {
    config: ContainerSchedulerConfig,
    pub(crate) node: Resource,
    pub(crate) containers: Vec<ToyContainer>,
    /// Runs that have ended, oldest first.
    runs: Vec<Run>,
    clock: u64,
    decisions: Vec<Decision>,
}

/// Refusal of an event that does not fit the state.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Refused;

impl Toy {
    pub(crate) fn new(config: ContainerSchedulerConfig, node: Resource) -> Self {
        Self {
            config,
            node,
            containers: Vec::new(),
            runs: Vec::new(),
            clock: 0,
            decisions: Vec::new(),
        }
    }

    /// Returns the actions that the real scheduler must order.
    pub(crate) fn handle(&mut self, event: &Event, now_ms: u64) -> Result<Vec<Decision>, Refused> {
        let grew_running = self.apply(event, now_ms)?;
        self.start_queued(now_ms);
        self.reclaim(grew_running, now_ms);
        self.start_queued(now_ms);
        while self.reclaim_frozen_memory(now_ms) {
            self.start_queued(now_ms);
        }
        self.count_runs(now_ms);
        Ok(std::mem::take(&mut self.decisions))
    }

    pub(crate) fn get(&self, id: ContainerId) -> Option<&ToyContainer> {
        self.containers
            .iter()
            .find(|container| container.spec.id == id)
    }

    fn at(&mut self, id: ContainerId) -> Result<&mut ToyContainer, Refused> {
        self.containers
            .iter_mut()
            .find(|container| container.spec.id == id)
            .ok_or(Refused)
    }

    fn tick_clock(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }

    fn decide(&mut self, decision: Decision) {
        self.decisions.push(decision);
    }

    pub(crate) fn sum(&self, which: impl Fn(&ToyContainer) -> bool) -> Sum {
        let chosen = self.containers.iter().filter(|container| which(container));
        chosen.fold(Sum::default(), |sum, container| {
            sum.plus(Sum::of(container.spec.resource))
        })
    }

    /// Returns the waiting containers of a type, in queue order.
    pub(crate) fn queue(&self, kind: ExecutionType) -> Vec<ToyContainer> {
        let waits = |container: &&ToyContainer| container.is(kind) && container.place().is_some();
        let mut queue: Vec<_> = self.containers.iter().filter(waits).copied().collect();
        queue.sort_by_key(|container| {
            let rank = self.rank(container);
            (!container.is_frozen(), rank, container.place())
        });
        queue
    }

    pub(crate) fn is_fifo(&self) -> bool {
        self.config.queue_order == QueueOrder::Fifo
    }

    pub(crate) fn pause_max_ms(&self) -> u64 {
        self.config.pause_max_ms
    }

    /// Returns the mebibytes by which running and frozen containers exceed the ceiling, negative if
    /// below.
    pub(crate) fn frozen_excess(&self) -> i64 {
        let ceiling = self.config.memory_ceiling_mb.max(self.node.memory_mb);
        let frozen: u64 = self
            .containers
            .iter()
            .filter_map(ToyContainer::frozen_mb)
            .sum();
        let running = self.sum(ToyContainer::holds_room).memory_mb;
        running + i64::try_from(frozen).unwrap() - i64::try_from(ceiling).unwrap()
    }

    fn capacity(&self) -> usize {
        match self.config.queue_policy {
            OpportunisticContainersQueuePolicy::ByQueueLen => self.config.queue_length_max,
            OpportunisticContainersQueuePolicy::ByResources => QUEUE_LENGTH_MAX,
        }
    }

    fn forces(&self) -> bool {
        self.capacity() == 0
    }

    /// Applies an event; returns whether a guaranteed container that holds an allocation grew.
    fn apply(&mut self, event: &Event, now_ms: u64) -> Result<bool, Refused> {
        match event {
            Event::Start(spec) => self.start(*spec)?,
            Event::RetryPolicy { id, policy } => {
                let container = self.at(*id)?;
                container.retries = policy.max_retries.unwrap();
                container.retries_left = container.retries;
            }
            Event::RunProfile { id, profile } => {
                self.at(*id)?;
                self.set_profile(*id, *profile);
            }
            Event::Restart(id) => {
                let container = self.at(*id)?;
                if !matches!(container.phase, Phase::Running { .. }) {
                    return Err(Refused);
                }
                container.phase = Phase::Restarting;
                self.order_end(*id, now_ms, self.config.sigkill_delay_ms);
            }
            Event::Kill { id, reason } => {
                self.at(*id)?;
                self.record_kill(*id, *reason, now_ms);
                self.kill(*id, crate::status_of(*reason), now_ms);
            }
            Event::KillApplication { id, reason } => {
                let of = |container: &&ToyContainer| container.spec.id.application_id() == *id;
                let mut ids: Vec<_> = self
                    .containers
                    .iter()
                    .filter(of)
                    .map(|container| container.spec.id)
                    .collect();
                ids.sort();
                for id in ids {
                    self.record_kill(id, *reason, now_ms);
                    self.kill(id, crate::status_of(*reason), now_ms);
                }
            }
            Event::Update(spec) => return self.update(*spec, now_ms),
            Event::NodeResource(node) => self.node = *node,
            Event::QueuingLimit(limit) => self.shed(limit.max_queue_length, now_ms),
            Event::Forget(id) => {
                self.at(*id)?.forget = true;
                self.drop_forgotten();
            }
            Event::Annotate { id, .. } => {
                self.at(*id)?;
            }
            Event::UtcOffset { .. } | Event::EstimateWaits => {}
            Event::Settings(settings) => {
                let (order, factor) = (settings.queue_order, settings.queue_bound_factor);
                self.change_order(order, factor, now_ms);
            }
            Event::Drain(_) => unreachable!("no sequence drains the node"),
            Event::FrozenMemory { id, held_mb } => {
                if let Phase::Waiting {
                    frozen: Some(frozen),
                    ..
                } = &mut self.at(*id)?.phase
                {
                    frozen.held_mb = *held_mb;
                }
            }
            Event::Tick => self.tick(now_ms),
            answer => self.answer(answer, now_ms)?,
        }
        Ok(false)
    }

    fn answer(&mut self, event: &Event, now_ms: u64) -> Result<(), Refused> {
        let place = self.tick_clock();
        let id = crate::id_of(event);
        let container = self.at(id)?;
        match (event, container.phase) {
            (Event::Localized(_), Phase::Localizing) => self.localized(id, place, now_ms)?,
            (Event::LocalizationFailed { .. }, Phase::Localizing) => self.end(id),
            (Event::Launched(_), Phase::Launching { order })
            | (Event::Resumed(_), Phase::Resuming { order }) => {
                container.phase = Phase::Running { order };
            }
            (Event::ProcessesGone(_), phase) if phase.has_process() => {
                let killed = matches!(phase, Phase::Killing { .. });
                let ends = container.retries == 0 && phase != Phase::Restarting;
                if ends && !killed {
                    self.record_run(id, now_ms);
                }
                let container = self.at(id)?;
                if killed || ends {
                    container.phase = Phase::Gone { killed };
                    container.force_kill_at = None;
                }
            }
            (
                Event::LaunchFailed { status, .. },
                Phase::Launching { .. } | Phase::Killing { .. },
            )
            | (Event::Exited { status, .. }, Phase::Gone { .. }) => {
                self.gone(id, *status, place, now_ms)?;
            }
            (Event::Exited { .. }, Phase::Restarting) => {
                container.force_kill_at = None;
                self.wait(id, place, now_ms);
            }
            (Event::Exited { status, .. }, phase) if phase.has_process() => {
                if !matches!(phase, Phase::Killing { .. }) {
                    self.record_run(id, now_ms);
                }
                self.gone(id, *status, place, now_ms)?;
            }
            (Event::Paused { held_mb, .. }, Phase::Freezing) => {
                let held_mb = held_mb.unwrap_or(container.spec.resource.memory_mb);
                let since = now_ms;
                container.phase = Phase::Waiting {
                    place,
                    frozen: Some(Frozen { since, held_mb }),
                };
            }
            (Event::PauseFailed(_), Phase::Freezing | Phase::Resuming { .. }) => {
                self.kill(id, -102, now_ms);
            }
            (Event::CleanedUp(_), Phase::Ended) => self.cleaned_up(id)?,
            // A late answer, or one overtaken by a later action.
            (
                Event::Localized(_) | Event::LocalizationFailed { .. },
                Phase::Ended | Phase::Done,
            )
            | (Event::Resumed(_), Phase::Freezing)
            | (
                Event::Launched(_)
                | Event::Paused { .. }
                | Event::Resumed(_)
                | Event::PauseFailed(_),
                Phase::Killing { .. } | Phase::Gone { .. } | Phase::Ended | Phase::Done,
            )
            | (
                Event::Paused { .. } | Event::Resumed(_) | Event::PauseFailed(_),
                Phase::Relaunching { .. },
            ) => {}
            _ => return Err(Refused),
        }
        Ok(())
    }

    fn tick(&mut self, now_ms: u64) {
        let mut overdue = Vec::new();
        for container in &mut self.containers {
            if container.force_kill_at.is_some_and(|at| at <= now_ms) {
                overdue.push((container.force_kill_at.take(), 0, container.spec.id));
            }
            let pause_end = container
                .frozen()
                .filter(|_| container.is(ExecutionType::Opportunistic))
                .map(|frozen| frozen.since + self.config.pause_max_ms);
            if pause_end.is_some_and(|at| at <= now_ms) {
                overdue.push((pause_end, 1, container.spec.id));
            }
            if let Phase::Relaunching { at, .. } = container.phase
                && at <= now_ms
            {
                overdue.push((Some(at), 2, container.spec.id));
            }
        }
        overdue.sort();
        for (_, kind, id) in overdue {
            match kind {
                0 => self.decide(Decision::ForceKill(id)),
                1 => {
                    self.decide(Decision::EndPause(id, PauseEnd::TooLong));
                    self.kill(id, -108, now_ms);
                }
                _ => {
                    let container = self.at(id).unwrap();
                    let order = container.order().unwrap();
                    container.phase = Phase::Launching { order };
                    self.decide(Decision::Launch(id));
                }
            }
        }
    }

    fn start(&mut self, spec: ContainerSpec) -> Result<(), Refused> {
        if self.get(spec.id).is_some() {
            return Err(Refused);
        }
        self.containers.push(ToyContainer {
            spec,
            phase: Phase::Localizing,
            status: ContainerExitStatus::INVALID,
            forget: false,
            force_kill_at: None,
            joined_ms: 0,
            basis: None,
            profile: None,
            passed_until: None,
            ran_ms: 0,
            runs_since: None,
            retries: 0,
            retries_left: 0,
        });
        self.decide(Decision::Localize(spec.id));
        Ok(())
    }

    fn localized(&mut self, id: ContainerId, place: u64, now_ms: u64) -> Result<(), Refused> {
        let ToyContainer { spec, .. } = *self.at(id)?;
        let reason = (spec.execution_type == ExecutionType::Opportunistic)
            .then(|| self.reason_to_reject(spec.resource))
            .flatten();
        if let Some(reason) = reason {
            self.decide(Decision::Reject(id, reason));
            self.kill(id, -108, now_ms);
        } else {
            self.wait(id, place, now_ms);
        }
        Ok(())
    }

    fn reason_to_reject(&self, asked: Resource) -> Option<RejectReason> {
        if self.queue(ExecutionType::Opportunistic).len() >= self.capacity() {
            return Some(RejectReason::QueueFull);
        }
        if !Sum::of(asked).fits(self.node) {
            return Some(RejectReason::NeverFits);
        }
        let all = self
            .sum(|c| c.holds_room() || c.place().is_some())
            .plus(Sum::of(asked));
        match self.config.queue_policy {
            OpportunisticContainersQueuePolicy::ByQueueLen => None,
            OpportunisticContainersQueuePolicy::ByResources => {
                (!all.fits(self.node)).then_some(RejectReason::QueueFull)
            }
        }
    }

    fn gone(
        &mut self,
        id: ContainerId,
        status: ContainerExitStatus,
        place: u64,
        now_ms: u64,
    ) -> Result<(), Refused> {
        let at = now_ms + self.config.retry_minimum_interval_ms;
        let container = self.at(id)?;
        let may_be_retried = !matches!(container.phase, Phase::Killing { .. } | Phase::Gone { .. })
            && ![0, 137, 143].contains(&status.0);
        if may_be_retried && container.retries_left > 0 {
            container.retries_left -= 1;
            container.status = status;
            if container.is_frozen() {
                self.wait(id, place, now_ms);
            } else {
                let order = container.order().unwrap_or(place);
                container.phase = Phase::Relaunching { order, at };
            }
            self.decide(Decision::Retry(id, status));
            return Ok(());
        }
        let killing = matches!(
            container.phase,
            Phase::Killing { .. } | Phase::Gone { killed: true }
        );
        if !(killing && (status.0 == 137 || status.0 == 143)) {
            container.status = status;
        }
        self.end(id);
        Ok(())
    }

    fn end(&mut self, id: ContainerId) {
        if let Ok(container) = self.at(id) {
            container.phase = Phase::Ended;
            container.force_kill_at = None;
            container.basis = None;
        }
        self.decide(Decision::CleanUp(id));
    }

    fn cleaned_up(&mut self, id: ContainerId) -> Result<(), Refused> {
        let container = self.at(id)?;
        container.phase = Phase::Done;
        let status = container.status;
        self.decide(Decision::Completed(id, status));
        self.drop_forgotten();
        Ok(())
    }

    fn drop_forgotten(&mut self) {
        self.containers
            .retain(|container| !(container.forget && container.phase == Phase::Done));
    }

    fn update(&mut self, spec: ContainerSpec, now_ms: u64) -> Result<bool, Refused> {
        let place = self.tick_clock();
        let container = self.at(spec.id)?;
        let old = container.spec;
        if spec.version <= old.version {
            return Err(Refused);
        }
        container.spec = spec;
        let type_changed = spec.execution_type != old.execution_type;
        let frozen = container.frozen();
        if type_changed && frozen.is_some() {
            container.phase = Phase::Waiting { place, frozen };
        } else if type_changed && container.place().is_some() {
            self.wait(spec.id, place, now_ms);
        }
        let container = self.at(spec.id)?;
        let relaunching = matches!(container.phase, Phase::Relaunching { .. });
        let limited = container.order().is_some() && !relaunching
            || container.phase == Phase::Freezing
            || frozen.is_some();
        let grew_running = container.holds_room()
            && spec.execution_type == ExecutionType::Guaranteed
            && !spec.resource.fits_in(old.resource);
        if limited && (type_changed || spec.resource != old.resource) {
            self.decide(Decision::ApplyLimits(spec));
        }
        Ok(grew_running)
    }

    /// Returns the numbers for the heartbeat, recounted.
    pub(crate) fn status(&self) -> OpportunisticContainersStatus {
        let running = |c: &ToyContainer| c.is(ExecutionType::Opportunistic) && c.holds_room();
        let count = |n: usize| u32::try_from(n).unwrap();
        let used = self.sum(running);
        let queued = self.queue(ExecutionType::Opportunistic).len();
        OpportunisticContainersStatus {
            running_opport_containers: count(self.containers.iter().filter(|c| running(c)).count()),
            opport_memory_used_mb: u64::try_from(used.memory_mb).unwrap(),
            opport_cores_used: u32::try_from(used.vcores).unwrap(),
            queued_opport_containers: count(queued),
            wait_queue_length: count(queued + self.queue(ExecutionType::Guaranteed).len()),
            estimated_queue_wait_ms: None,
            opport_queue_capacity: count(self.capacity()),
        }
    }
}
