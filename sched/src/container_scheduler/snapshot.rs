//! State of the scheduler as a value that can be stored, and a scheduler that goes on from there.

use std::collections::BTreeSet;

use records::{ContainerName, Resource};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::ContainerScheduler;
use crate::action::{ContainerQueuingLimit, DrainExtent};
use crate::config::{CONTAINERS_MAX, ContainerSchedulerConfig};
use crate::container::Container;
use crate::container_state::ContainerState as S;
use crate::index::Index;
use crate::queue_order::{EXPECTED_MAX_MS, QueuePlace};
use crate::retry::{FAILURES_IN_WINDOW_MAX, Retries};
use crate::run_profile::{LearntRuns, ProfiledRuns};
use crate::run_times::{RunTimes, StoredRunTimes};
use crate::timers::{Timer, Timers};

/// Largest time and number that is read back: 2^53, which every reader of JSON has exactly.
const NUMBER_MAX: u64 = 1 << 53;

/// State of a [`ContainerScheduler`], without the containers' diagnostics. Two schedulers with the
/// same state answer the same events with the same actions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SchedulerSnapshot {
    config: ContainerSchedulerConfig,
    node: Resource,
    /// Containers in the order of their ids.
    containers: Vec<Container>,
    withheld: Vec<(ContainerName, Resource)>,
    timers: Vec<(Timer, records::MonoMillis)>,
    queuing_limit: Option<ContainerQueuingLimit>,
    drain: Option<DrainExtent>,
    run_times: StoredRunTimes,
    #[serde(default, skip_serializing_if = "LearntRuns::is_empty")]
    profiled_runs: LearntRuns,
    typical_ask: Resource,
    estimated_wait_ms: Option<u64>,
    utc_offset_s: i32,
    last_number: u64,
}

/// Error for a snapshot that no scheduler has written.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("not a scheduler's state: {0}")]
pub struct SnapshotError(String);

impl SchedulerSnapshot {
    /// Returns the configuration.
    #[must_use]
    pub const fn config(&self) -> &ContainerSchedulerConfig {
        &self.config
    }

    /// Returns the resources that the node offers.
    #[must_use]
    pub const fn node_resource(&self) -> Resource {
        self.node
    }

    /// Changes whether victims are frozen instead of killed. Settings that a running node may
    /// change come with [`crate::Event::Settings`].
    pub const fn set_use_pause(&mut self, use_pause_for_preemption: bool) {
        self.config.use_pause_for_preemption = use_pause_for_preemption;
    }

    /// Lets no container start again after a failure.
    pub fn forget_retries(&mut self) {
        for container in &mut self.containers {
            container.retries = Retries::default();
            container.can_roll_back = false;
        }
    }

    /// Checks what the invariants of a scheduler take for granted: distinct numbers and ids.
    fn check(&self) -> Result<(), SnapshotError> {
        let broken = |words: &str| Err(SnapshotError(words.to_owned()));
        if self.containers.len() > CONTAINERS_MAX || self.withheld.len() > CONTAINERS_MAX {
            return broken("too many containers");
        }
        if self.last_number > NUMBER_MAX || self.timers.len() > 3 * CONTAINERS_MAX {
            return broken("too many events or timers");
        }
        let (mut numbers, mut ids) = (BTreeSet::new(), BTreeSet::new());
        for container in &self.containers {
            if !ids.insert(container.spec.id) {
                return broken("two containers have one id");
            }
            let waits = container.state.waits_at().map(|place| place.arrival());
            let pause = container.earlier_pause.map(|pause| pause.place.arrival());
            let starts = starts_at(container.state);
            for number in [waits, pause, starts].into_iter().flatten() {
                if number > self.last_number || !numbers.insert(number) {
                    return broken("two containers have one place");
                }
            }
            let expected_ms = container.state.waits_at().map(QueuePlace::expected_ms);
            if expected_ms.is_some_and(|ms| ms > EXPECTED_MAX_MS) {
                return broken("a container is expected to run for longer than any");
            }
            let times = [container.since.0, container.joined.0];
            let retries = container.retries.granted().recent.len();
            if times.into_iter().any(|at| at > NUMBER_MAX)
                || container.ran_before_ms() > NUMBER_MAX
                || retries > usize::try_from(FAILURES_IN_WINDOW_MAX).unwrap_or(usize::MAX)
            {
                return broken("a container has been there for longer than any");
            }
        }
        Ok(())
    }
}

/// Returns a container's place in the order of starts.
const fn starts_at(state: S) -> Option<u64> {
    match state {
        S::Launching { order }
        | S::Running { order }
        | S::Resuming { order }
        | S::Relaunching { order } => Some(order),
        S::Localizing
        | S::Queued { .. }
        | S::Pausing
        | S::Paused { .. }
        | S::Restarting
        | S::Killing { .. }
        | S::Gone { .. }
        | S::Completing(_)
        | S::Done(_) => None,
    }
}

impl ContainerScheduler {
    /// Returns the state. Visits every container.
    #[must_use]
    pub fn snapshot(&self) -> SchedulerSnapshot {
        let containers = self.containers.values();
        let withheld = self.withheld.iter();
        SchedulerSnapshot {
            config: self.config,
            node: self.node,
            containers: containers.map(Container::without_diagnostics).collect(),
            withheld: withheld.map(|(name, size)| (*name, *size)).collect(),
            timers: self.timers.stored(),
            queuing_limit: self.queuing_limit,
            drain: self.drain,
            run_times: self.run_times.stored(),
            profiled_runs: self.profiled_runs.stored(),
            typical_ask: self.typical_ask,
            estimated_wait_ms: self.estimated_wait_ms,
            utc_offset_s: self.utc_offset_s,
            last_number: self.last_number,
        }
    }

    /// Creates a scheduler that goes on from a state.
    ///
    /// # Errors
    /// [`SnapshotError`]: no scheduler has this state.
    pub fn from_snapshot(snapshot: &SchedulerSnapshot) -> Result<Self, SnapshotError> {
        snapshot.check()?;
        let config = snapshot.config;
        let run_times = RunTimes::from_stored(&snapshot.run_times);
        let none = || SnapshotError("run times that are none".to_owned());
        let run_times = run_times.ok_or_else(none)?;
        let profiled_runs = ProfiledRuns::from_stored(&snapshot.profiled_runs).ok_or_else(none)?;
        let mut index = Index::new(config.vmem_check);
        for container in &snapshot.containers {
            index.insert(&container.spec, container.state);
        }
        let withheld = snapshot.withheld.iter().copied().collect();
        let mut timers = Timers::default();
        for (timer, at) in &snapshot.timers {
            timers.set(*timer, *at);
        }
        let containers = snapshot.containers.iter();
        let containers = containers.map(|container| (container.spec.id, container.clone()));
        let mut scheduler = Self {
            config,
            node: snapshot.node,
            containers: containers.collect(),
            withheld,
            index,
            timers,
            queuing_limit: snapshot.queuing_limit,
            drain: snapshot.drain,
            run_times,
            profiled_runs,
            typical_ask: snapshot.typical_ask,
            estimated_wait_ms: snapshot.estimated_wait_ms,
            utc_offset_s: snapshot.utc_offset_s,
            last_number: snapshot.last_number,
            events: 0,
        };
        for size in scheduler.withheld.values() {
            scheduler.index.withhold(*size);
        }
        scheduler.check_invariants().map_err(SnapshotError)?;
        Ok(scheduler)
    }
}

#[cfg(test)]
mod tests {
    use records::{ExecutionType, MonoMillis, Now};
    use test_support::ids::container;

    use super::*;
    use crate::action::Action;
    use crate::container_spec::ContainerSpec;
    use crate::event::Event;

    fn now(ms: u64) -> Now {
        Now {
            mono: MonoMillis(ms),
            ..Now::default()
        }
    }

    fn start(id: i64, execution_type: ExecutionType) -> Event {
        Event::Start(ContainerSpec {
            id: container(id),
            resource: Resource::new(1_024, 1),
            execution_type,
            version: 0,
        })
    }

    fn busy() -> ContainerScheduler {
        let config = ContainerSchedulerConfig {
            queue_length_max: 5,
            use_pause_for_preemption: true,
            memory_ceiling_mb: 8_192,
            ..ContainerSchedulerConfig::default()
        };
        let mut scheduler = ContainerScheduler::new(config, Resource::new(2_048, 2));
        let mut actions = Vec::new();
        let mut feed = |event, ms| scheduler.handle(event, now(ms), &mut actions).unwrap();
        for id in 1..=4 {
            feed(start(id, ExecutionType::Opportunistic), 1);
            feed(Event::Localized(container(id)), 2);
        }
        feed(Event::Launched(container(1)), 3);
        feed(Event::Launched(container(2)), 3);
        feed(start(5, ExecutionType::Guaranteed), 10);
        feed(Event::Localized(container(5)), 11);
        let held_mb = Some(100);
        let id = container(2);
        feed(Event::Paused { id, held_mb }, 12);
        scheduler
    }

    #[test]
    fn a_scheduler_from_a_snapshot_goes_on_like_the_one_that_it_is_of() {
        let mut first = busy();
        let snapshot = first.snapshot();
        let mut second = ContainerScheduler::from_snapshot(&snapshot).unwrap();
        assert_eq!(second.snapshot(), snapshot);
        let (mut before, mut after): (Vec<Action>, Vec<Action>) = (Vec::new(), Vec::new());
        for event in [Event::Launched(container(5)), Event::EstimateWaits] {
            first.handle(event.clone(), now(20), &mut before).unwrap();
            second.handle(event, now(20), &mut after).unwrap();
        }
        let id = container(5);
        let (status, diagnostics) = (records::ContainerExitStatus::SUCCESS, String::new());
        let exited = Event::Exited {
            id,
            status,
            diagnostics,
        };
        first
            .handle(exited.clone(), now(400_000), &mut before)
            .unwrap();
        second.handle(exited, now(400_000), &mut after).unwrap();
        first
            .handle(Event::Tick, now(400_000), &mut before)
            .unwrap();
        second
            .handle(Event::Tick, now(400_000), &mut after)
            .unwrap();
        assert!(before.len() >= 3, "{before:?}");
        assert_eq!(before, after);
        assert_eq!(first.snapshot(), second.snapshot());
    }

    #[test]
    fn a_snapshot_that_no_scheduler_has_is_refused() {
        let snapshot = busy().snapshot();
        let refused = |change: fn(&mut SchedulerSnapshot)| {
            let mut changed = snapshot.clone();
            change(&mut changed);
            ContainerScheduler::from_snapshot(&changed).unwrap_err()
        };
        let doubled = |changed: &mut SchedulerSnapshot| {
            let first = changed.containers[0].clone();
            changed.containers.push(first);
        };
        assert_eq!(
            refused(doubled).to_string(),
            "not a scheduler's state: two containers have one id"
        );
        refused(|changed| changed.last_number = 1);
        refused(|changed| changed.timers.clear());
        refused(|changed| changed.node = Resource::new(1 << 20, 1 << 10));
        refused(|changed| changed.containers[0].since = MonoMillis(u64::MAX));
        refused(|changed| changed.containers[2].state = changed.containers[3].state);
    }
}
