//! Estimates of queue waits: collects the node's state as the input of the simulation in
//! [`crate::wait_estimate`].

use records::{ContainerId, ExecutionType, MonoMillis, Resource};

use super::ContainerScheduler;
use crate::admission;
use crate::container::{Container, Estimate};
use crate::container_state::{ContainerState as S, Phase};
use crate::utilization::Amount;
use crate::wait_estimate::{Load, Run, Situation, Waits};

/// Assumed size of the next opportunistic container before the first has come: Hadoop's smallest
/// allocation.
pub(super) const TYPICAL_ASK_AT_FIRST: Resource = Resource::new(1_024, 1);

impl ContainerScheduler {
    /// Returns the estimated wait from now on of each waiting container, in milliseconds and in the
    /// order of [`Self::queue`]: at most an hour, from an assumed run time as long as no container
    /// has ended on this node. Runs a simulation of about a millisecond.
    #[must_use]
    pub fn estimated_waits(&self, now: MonoMillis) -> Vec<u64> {
        self.waits(now).waiting
    }

    /// Returns the wait of another opportunistic container that came now, in milliseconds; `None`:
    /// it would not be admitted. From the same simulation as [`Self::estimated_waits`], while the
    /// status for heartbeats has the estimate of the last [`crate::Event::EstimateWaits`].
    #[must_use]
    pub fn estimated_newcomer_wait(&self, now: MonoMillis) -> Option<u64> {
        if self.drain.is_some() {
            return None;
        }
        let (amount, node) = (self.newcomer(), self.node_amount());
        let admitted = admission::admit(&self.config, amount, &self.index, node);
        admitted.ok().map(|()| self.waits(now).newcomer)
    }

    /// Estimates the wait of another opportunistic container, and of each container that joined the
    /// queue since the last estimate. The first is `None` if such a container would not be
    /// admitted: the ResourceManager then leaves the node out when it places by wait.
    pub(super) fn estimate_waits(&mut self, now: MonoMillis) {
        if self.drain.is_some() {
            self.estimated_wait_ms = None;
            return;
        }
        let amount = self.newcomer();
        let admitted = admission::admit(&self.config, amount, &self.index, self.node_amount());
        let joined = self.without_estimate();
        if admitted.is_err() && joined.is_empty() {
            self.estimated_wait_ms = None;
            return;
        }
        let waits = self.waits(now);
        self.estimated_wait_ms = admitted.ok().map(|()| waits.newcomer);
        let knows = !self.run_times.is_empty();
        for (at, id) in joined {
            if let Some(container) = self.containers.get_mut(&id)
                && let Some(wait_ms) = waits.waiting.get(at)
            {
                container.estimate = if knows {
                    Estimate::Wait(now.since(container.joined).saturating_add(*wait_ms))
                } else {
                    Estimate::Unknown
                };
            }
        }
    }

    /// Returns the opportunistic containers without an estimate, with their positions in the order
    /// of [`Self::queue`], from 0. In the order of arrival new ones join at the end, so finding
    /// them costs no more than their number. Under another order all that wait are visited.
    fn without_estimate(&self) -> Vec<(usize, ContainerId)> {
        let count = self.index.guaranteed().len() + self.index.opportunistic().len();
        let last_first = self.index.opportunistic().unstarted_last_first();
        let positions = (0..count).rev().zip(last_first);
        let is_open = |(_, id): &(usize, ContainerId)| {
            let container = self.containers.get(id);
            container.is_some_and(|container| container.estimate == Estimate::Open)
        };
        if self.config.queue_order.uses_lengths() {
            positions.filter(is_open).collect()
        } else {
            positions.take_while(is_open).collect()
        }
    }

    /// Returns the wait of each waiting container, in the order of [`Self::queue`], and that of
    /// another opportunistic container.
    pub(super) fn waits(&self, now: MonoMillis) -> Waits {
        if self.has_room_for_newcomer() {
            // On most nodes at most times: a simulation would only be more expensive.
            debug_assert_eq!(self.situation(now).estimate(), Waits::NONE);
            return Waits::NONE;
        }
        self.situation(now).estimate()
    }

    /// Returns whether nothing waits and another container fits beside those that hold an
    /// allocation.
    fn has_room_for_newcomer(&self) -> bool {
        let kinds = [ExecutionType::Guaranteed, ExecutionType::Opportunistic];
        kinds.iter().all(|kind| self.queue_length(*kind) == 0)
            && (self.index.allocated() + self.newcomer()).fits_in(self.node_amount())
    }

    fn situation(&self, now: MonoMillis) -> Situation<'_> {
        let holding = self
            .containers
            .values()
            .filter(|container| container.state.holds_room())
            .map(|container| self.load(container, now))
            .chain(
                self.withheld
                    .values()
                    .map(|resource| self.being_freed(*resource)),
            )
            .collect();
        let waiting = [ExecutionType::Guaranteed, ExecutionType::Opportunistic]
            .into_iter()
            .flat_map(|execution_type| self.index.queue(execution_type).iter())
            .filter_map(|(waiting, _)| self.containers.get(&waiting.id))
            .map(|container| self.load(container, now))
            .collect();
        Situation {
            node: self.node_amount(),
            holding,
            waiting,
            newcomer: self.newcomer(),
            newcomer_at: self.newcomer_at(now),
        }
    }

    /// Returns the number of waiting containers that another opportunistic one would not pass.
    fn newcomer_at(&self, now: MonoMillis) -> usize {
        let queue = self.index.opportunistic();
        let unstarted = if self.config.queue_order.uses_lengths() {
            queue.unstarted_before(self.newcomer_place(now))
        } else {
            queue.unstarted_len()
        };
        self.index.guaranteed().len() + queue.paused_len() + unstarted
    }

    /// Returns the expected size of another container: that of the last one, clamped to the whole
    /// node.
    fn newcomer(&self) -> Amount {
        let ask = Resource {
            memory_mb: self.typical_ask.memory_mb.min(self.node.memory_mb),
            vcores: self.typical_ask.vcores.min(self.node.vcores),
        };
        Amount::new(ask, self.config.vmem_check)
    }

    fn being_freed(&self, resource: Resource) -> Load<'_> {
        Load {
            amount: Amount::new(resource, self.config.vmem_check),
            run: Run::Ending { within_ms: 0 },
        }
    }

    fn load(&self, container: &Container, now: MonoMillis) -> Load<'_> {
        let spec = &container.spec;
        let run = match container.state.phase() {
            Phase::Restarting | Phase::Killing => {
                let lasted_ms = now.since(container.since);
                let within_ms = self.config.sigkill_delay_ms.saturating_sub(lasted_ms);
                Run::Ending { within_ms }
            }
            Phase::Active if container.state == S::Pausing => Run::Ending { within_ms: 0 },
            Phase::Unstarted | Phase::Active | Phase::Relaunching | Phase::Gone | Phase::Ended => {
                Run::Running {
                    known: self.expected_runs(spec),
                    ran_ms: container.ran_ms(now),
                }
            }
        };
        Load {
            amount: self.index.amount(spec),
            run,
        }
    }

    /// Records the run time of a container that ended by itself or because its application no
    /// longer needs it. A container that was evicted, or ended because the agent stops, would have
    /// run longer, so its time is not recorded. A launch that was stopped did not run at all.
    pub(super) fn record_run_time(&mut self, id: ContainerId, now: MonoMillis) {
        if let Some(container) = self.containers.get(&id)
            && !matches!(container.state, S::Launching { .. })
        {
            let application = id.application_id();
            let ran_ms = container.ran_ms(now);
            if let Some(profile) = container.profile {
                self.profiled_runs.record(profile, ran_ms);
            }
            let size = container.spec.resource;
            if self.run_times.record(application, size, ran_ms) {
                self.place_application_again(application);
            }
        }
    }
}
