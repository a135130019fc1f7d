//! Places in the opportunistic queue under orders that use expected runs ([`crate::queue_order`]).
//!
//! A place is made when a container begins to wait, and again only when something that it was made
//! of changes by more than time: the order itself, what is known of the run times of the
//! container's application, or under `least-left` how many of a small attempt wait.

use std::collections::BTreeMap;

use records::{ApplicationAttemptId, ApplicationId, ContainerId, ExecutionType, MonoMillis};

use super::ContainerScheduler;
use super::room::Change;
use crate::action::Refusal;
use crate::container::Container;
use crate::container_spec::ContainerSpec;
use crate::container_state::ContainerState as S;
use crate::queue::Work;
use crate::queue_order::{
    self, ATTEMPT_WAITING_MAX, EXPECTED_MAX_MS, Prospect, QueueOrder, QueuePlace,
};
use crate::run_profile::{LearntRuns, ProfiledRuns, RunProfile};
use crate::run_times::mean_ms;

/// Most running containers whose ends are foreseen for the start of another in the order of
/// arrival.
const RUNNING_MAX: usize = 8;

impl ContainerScheduler {
    /// Returns the place of a container that begins to wait now and has not started.
    pub(super) fn next_place(&mut self, spec: &ContainerSpec, now: MonoMillis) -> QueuePlace {
        let arrival = self.allocate_number();
        let order = self.config.queue_order;
        if spec.execution_type == ExecutionType::Guaranteed || !order.uses_lengths() {
            return QueuePlace::fifo(arrival);
        }
        let ahead_ms = self.work_ahead_ms(now);
        let queue = self.index.opportunistic();
        let others = queue.ranked_of(spec.id.attempt).take(ATTEMPT_WAITING_MAX);
        let prospect = Prospect {
            arrived_ms: now.0,
            fifo_start_ms: now.0.saturating_add(ahead_ms),
            expected_ms: self.expected_run_ms(spec),
            attempt_waiting: others.count() + 1,
        };
        if let Some(container) = self.containers.get_mut(&spec.id) {
            container.fifo_start_ms = prospect.fifo_start_ms;
        }
        queue_order::place(order, self.config.queue_bound_factor, arrival, prospect)
    }

    /// Returns the place of a container that is frozen: frozen ones keep the order of arrival.
    pub(super) fn next_frozen_place(&mut self) -> QueuePlace {
        QueuePlace::fifo(self.allocate_number())
    }

    pub(super) fn set_profile(
        &mut self,
        id: ContainerId,
        profile: RunProfile,
    ) -> Result<Change, Refusal> {
        let Container { spec, state, .. } = *self.known(id)?;
        if let Some(container) = self.containers.get_mut(&id) {
            container.profile = Some(profile);
        }
        if let S::Queued { place } = state
            && place.is_ranked()
        {
            let of_attempt = self.index.opportunistic().ranked_of(id.attempt);
            let attempt_waiting = of_attempt.take(ATTEMPT_WAITING_MAX).count();
            self.place_again(place, self.expected_run_ms(&spec), attempt_waiting);
        }
        Ok(Change::Other)
    }

    /// Returns the run times to expect of a container, shortest first, at least one. What was
    /// learnt by user and command counts for orders that use lengths, and changes nothing under
    /// others.
    pub(super) fn expected_runs(&self, spec: &ContainerSpec) -> &[u64] {
        let container = self.containers.get(&spec.id);
        let profile = container.and_then(|container| container.profile.as_ref());
        let profile = profile.filter(|_| self.config.queue_order.uses_lengths());
        let of_command = profile.and_then(|profile| self.profiled_runs.expected(profile));
        self.run_times
            .expected(spec.id.application_id(), spec.resource, of_command)
    }

    /// Returns the milliseconds that a container is expected to run: the mean of what is known of
    /// its like, and its hint as far as hints of its user are trusted. At least 1, as in places:
    /// what runs counts like what waits.
    fn expected_run_ms(&self, spec: &ContainerSpec) -> u64 {
        let known_ms = mean_ms(self.expected_runs(spec));
        let container = self.containers.get(&spec.id);
        let expected_ms = match container.and_then(|container| container.profile.as_ref()) {
            Some(profile) => self.profiled_runs.weigh_hint(profile, known_ms),
            None => known_ms,
        };
        expected_ms.clamp(1, EXPECTED_MAX_MS)
    }

    /// Returns the milliseconds that a container of which nothing is known is expected to run.
    #[must_use]
    pub fn unknown_run_ms(&self) -> u64 {
        self.run_times.expected_of_any_ms()
    }

    /// Returns the number of its expected runs that one may wait for others.
    #[must_use]
    pub const fn queue_bound_factor(&self) -> u32 {
        self.config.queue_bound_factor
    }

    /// Returns whether the order in force has a use for [`crate::Event::RunProfile`].
    #[must_use]
    pub const fn uses_run_profiles(&self) -> bool {
        self.config.queue_order.uses_lengths()
    }

    /// Returns the number of runs from which something was learnt by user and command.
    #[must_use]
    pub const fn learnt_runs_count(&self) -> u64 {
        self.profiled_runs.uses()
    }

    /// Returns what has been learnt by user and command, to be stored over a restart.
    #[must_use]
    pub fn learnt_runs(&self) -> LearntRuns {
        self.profiled_runs.stored()
    }

    /// Takes over what was learnt before a restart, in place of what is known by user and command.
    /// Returns whether it can have been learnt; if not, nothing changes.
    pub fn recall_runs(&mut self, learnt: &LearntRuns) -> bool {
        let runs = ProfiledRuns::from_stored(learnt);
        let is_some = runs.is_some();
        self.profiled_runs = runs.unwrap_or_else(|| self.profiled_runs.clone());
        is_some
    }

    /// Returns the milliseconds after which a container that comes now would start in the order of
    /// arrival, if the node were one large place.
    fn work_ahead_ms(&self, now: MonoMillis) -> u64 {
        let ahead = self.running_work(now) + self.index.opportunistic().work();
        ahead.takes_ms(self.node_amount())
    }

    /// Returns what is left of the opportunistic containers that run. Of more than
    /// [`RUNNING_MAX`] one ends soon, and nothing is returned.
    fn running_work(&self, now: MonoMillis) -> Work {
        let mut work = Work::default();
        for (count, (id, amount)) in self.index.evictable_newest_first().enumerate() {
            if count == RUNNING_MAX {
                return Work::default();
            }
            if let Some(container) = self.containers.get(&id) {
                let expected_ms = self.expected_run_ms(&container.spec);
                work.count(amount, expected_ms.saturating_sub(container.ran_ms(now)));
            }
        }
        work
    }

    /// Returns the place that another opportunistic container would get: one of a large attempt,
    /// with the mean run of this node.
    pub(super) fn newcomer_place(&self, now: MonoMillis) -> QueuePlace {
        let ahead_ms = self.work_ahead_ms(now);
        let prospect = Prospect {
            arrived_ms: now.0,
            fifo_start_ms: now.0.saturating_add(ahead_ms),
            expected_ms: self.run_times.expected_of_any_ms(),
            attempt_waiting: ATTEMPT_WAITING_MAX,
        };
        let (order, factor) = (self.config.queue_order, self.config.queue_bound_factor);
        queue_order::place(order, factor, u64::MAX, prospect)
    }

    /// Returns whether the container counts for the places of its attempt.
    pub(super) const fn counts_for_attempt(spec: &ContainerSpec, state: S) -> bool {
        matches!(
            (spec.execution_type, state),
            (ExecutionType::Opportunistic, S::Queued { .. })
        )
    }

    /// Makes the places of an attempt's containers anew after the number of those that wait has
    /// changed. Those of a large attempt stay as they are.
    pub(super) fn place_attempt_again(&mut self, attempt: ApplicationAttemptId) {
        if self.config.queue_order != QueueOrder::LeastLeft {
            return;
        }
        let places = self.index.opportunistic().ranked_of(attempt);
        let places: Vec<QueuePlace> = places.take(ATTEMPT_WAITING_MAX + 1).collect();
        if places.len() <= ATTEMPT_WAITING_MAX {
            let attempt_waiting = places.len();
            for place in places {
                self.place_again(place, place.expected_ms(), attempt_waiting);
            }
        }
    }

    /// Makes the places of an application's containers anew after more has become known of their
    /// run times. Walks over its containers that wait.
    pub(super) fn place_application_again(&mut self, application: ApplicationId) {
        if !self.config.queue_order.uses_lengths() {
            return;
        }
        let queue = self.index.opportunistic();
        let mut waiting: BTreeMap<ApplicationAttemptId, Vec<QueuePlace>> = BTreeMap::new();
        for (attempt, place) in queue.ranked_of_application(application) {
            waiting.entry(attempt).or_default().push(place);
        }
        for places in waiting.into_values() {
            let attempt_waiting = places.len();
            for place in places {
                let spec = self.index.opportunistic().at(place);
                let spec = spec.and_then(|waiting| self.containers.get(&waiting.id));
                if let Some(spec) = spec.map(|container| container.spec) {
                    let expected_ms = self.expected_run_ms(&spec);
                    self.place_again(place, expected_ms, attempt_waiting);
                }
            }
        }
    }

    fn place_again(&mut self, place: QueuePlace, expected_ms: u64, attempt_waiting: usize) {
        let waiting = self.index.opportunistic().at(place);
        let Some(container) = waiting.and_then(|waiting| self.containers.get(&waiting.id)) else {
            return;
        };
        let prospect = Prospect {
            arrived_ms: container.joined.0,
            fifo_start_ms: container.fifo_start_ms,
            expected_ms,
            attempt_waiting,
        };
        let (order, factor) = (self.config.queue_order, self.config.queue_bound_factor);
        let id = container.spec.id;
        self.set_place(
            id,
            queue_order::place(order, factor, place.arrival(), prospect),
        );
    }

    fn set_place(&mut self, id: ContainerId, place: QueuePlace) {
        if let Some(container) = self.containers.get_mut(&id)
            && let S::Queued { place: before } = container.state
            && before != place
        {
            self.index.remove(&container.spec, container.state);
            container.state = S::Queued { place };
            self.index.insert(&container.spec, container.state);
        }
    }

    /// Sorts the opportunistic containers that have not started by the order in force, as if those
    /// that came first were served first from now on. Visits all of them.
    pub(super) fn sort_queue(&mut self, now: MonoMillis) {
        let queue = self.index.opportunistic();
        let mut waiting: Vec<_> = queue.unstarted_behind(QueuePlace::FIRST).collect();
        waiting.sort_by_key(|(place, _)| place.arrival());
        let mut of_attempts: BTreeMap<ApplicationAttemptId, usize> = BTreeMap::new();
        for (_, waiting) in &waiting {
            *of_attempts.entry(waiting.id.attempt).or_default() += 1;
        }
        let (order, factor) = (self.config.queue_order, self.config.queue_bound_factor);
        let node = self.node_amount();
        let mut ahead = self.running_work(now);
        for (place, waiting) in waiting {
            let Some(container) = self.containers.get_mut(&waiting.id) else {
                continue;
            };
            let (arrived, spec) = (container.joined, container.spec);
            container.fifo_start_ms = if order.uses_lengths() {
                now.0.saturating_add(ahead.takes_ms(node))
            } else {
                0
            };
            let prospect = Prospect {
                arrived_ms: arrived.0,
                fifo_start_ms: container.fifo_start_ms,
                expected_ms: self.expected_run_ms(&spec),
                attempt_waiting: of_attempts.get(&spec.id.attempt).copied().unwrap_or(1),
            };
            let place = queue_order::place(order, factor, place.arrival(), prospect);
            ahead.count(waiting.amount, place.expected_ms());
            self.set_place(spec.id, place);
        }
    }
}
