//! How long those that wait will wait: what the node knows, made into a situation to be played forward.

use records::{ContainerId, ExecutionType, MonoMillis, Resource};

use super::ContainerScheduler;
use crate::container::{Container, Estimate};
use crate::container_state::ContainerState as S;
use crate::utilization::Amount;
use crate::wait_estimate::{Load, Run, Situation, Waits};

/// What the next opportunistic container is taken to ask for before one has come: Hadoop's smallest allocation.
pub(super) const TYPICAL_ASK_AT_FIRST: Resource = Resource::new(1_024, 1);

impl ContainerScheduler {
    /// Works out how long one more opportunistic container would wait, and how long those will that have joined the queue
    /// since this was done last. The first is `None` if it would not even be admitted: the ResourceManager then leaves the
    /// node out when it places by wait.
    pub(super) fn estimate_waits(&mut self, now: MonoMillis) {
        let amount = self.newcomer();
        let admitted = self.config.admit(amount, &self.index, self.node_amount());
        let joined = self.joined_since_the_last_estimate();
        if admitted.is_err() && joined.is_empty() {
            self.estimated_wait_ms = None;
            return;
        }
        let waits = self.waits(now);
        self.estimated_wait_ms = admitted.ok().map(|()| waits.newcomer);
        let knows = !self.run_times.is_empty();
        for (id, wait_ms) in joined.iter().zip(waits.waiting.into_iter().rev()) {
            if let Some(container) = self.containers.get_mut(id) {
                container.estimate = if knows {
                    Estimate::Wait(now.since(container.joined).saturating_add(wait_ms))
                } else {
                    Estimate::Unknown
                };
            }
        }
    }

    /// Opportunistic containers that nothing was estimated for yet, the newest first. Who joins joins at the end, so they
    /// are the end of the queue, and a look at it costs no more than they are many.
    fn joined_since_the_last_estimate(&self) -> Vec<ContainerId> {
        let newest_first = self.index.opportunistic().unstarted_newest_first();
        newest_first
            .take_while(|id| {
                let container = self.containers.get(id);
                container.is_some_and(|container| container.estimate == Estimate::Open)
            })
            .collect()
    }

    /// How long each that waits will wait, in the order of [`Self::queue`], and how long one more would.
    pub(super) fn waits(&self, now: MonoMillis) -> Waits {
        let holding = self
            .containers
            .values()
            .filter(|container| container.state.holds_room())
            .map(|container| self.load(container, now))
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
        }
        .estimate()
    }

    /// What one more takes: like the one that came last, and never more than the whole node.
    fn newcomer(&self) -> Amount {
        let ask = Resource {
            memory_mb: self.typical_ask.memory_mb.min(self.node.memory_mb),
            vcores: self.typical_ask.vcores.min(self.node.vcores),
        };
        Amount::new(ask, self.config.vmem_check)
    }

    fn load(&self, container: &Container, now: MonoMillis) -> Load<'_> {
        let spec = &container.spec;
        let run = match container.state {
            S::Killing { .. } => {
                let lasted_ms = now.since(container.since);
                let within_ms = self.config.sigkill_delay_ms.saturating_sub(lasted_ms);
                Run::Ending { within_ms }
            }
            S::Pausing => Run::Ending { within_ms: 0 },
            S::Localizing
            | S::Queued { .. }
            | S::Launching { .. }
            | S::Running { .. }
            | S::Paused { .. }
            | S::Resuming { .. }
            | S::Gone { .. }
            | S::Completing(_)
            | S::Done(_) => Run::Going {
                known: self
                    .run_times
                    .expected(spec.id.application_id(), spec.resource),
                ran_ms: container.ran_ms(now),
            },
        };
        Load {
            amount: self.index.amount(spec),
            run,
        }
    }

    /// Remembers how long a container took whose application was done with it, be it that it ended by itself or was told
    /// to. One that was evicted, or ended because the agent stops, would have gone on: it says nothing.
    pub(super) fn remember_run_time(&mut self, id: ContainerId, now: MonoMillis) {
        if let Some(container) = self.containers.get(&id) {
            let application = id.application_id();
            let ran_ms = container.ran_ms(now);
            self.run_times
                .record(application, container.spec.resource, ran_ms);
        }
    }
}
