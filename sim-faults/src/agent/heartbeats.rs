//! The loop of registrations and heartbeats, in the steps of `NodeStatusUpdater`.

use std::time::Duration;

use container_runtime::launch::ContainerSignal;
use container_runtime::monitor::Sample;
use node_core::{Delivery, HeartbeatOrders, Wait};
use node_manager::resource_manager::{Answer, Heartbeat, gap_after};
use records::{ContainerId, Resource};
use wire::proto::hadoop_yarn::{ContainerIdProto, ContainerStateProto};

use super::{Agent, Ground, Loop, Pending, Waiting};
use crate::context::Context;
use crate::event::{AgentEvent, Reply, Request};
use crate::observation::Observation;
use crate::planted::Planted;
use crate::scenario::CAPACITY;

/// Milliseconds of the pause after a call without an answer.
const PAUSE_MS: std::ops::RangeInclusive<u64> = 500..=2_500;

/// Probability of a signal of a job client in an answer, in parts per million.
const SIGNAL: u32 = 20_000;

/// Probability that an operator changes the node's capacity, in parts per million.
const RESIZE: u32 = 5_000;

/// Capacity that operators leave a node.
const HALF: Resource = Resource::new(CAPACITY.memory_mb / 2, CAPACITY.vcores / 2);

/// Milliseconds before a registration that follows another at once.
const RESYNC_MS: u64 = 1_000;

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

impl Agent {
    /// Plans the next beat, in place of the one planned before.
    pub(super) fn plan_beat(&mut self, at_ms: u64, context: &mut Context) {
        self.beat_at = at_ms.max(context.now_ms());
        let delay = self.beat_at - context.now_ms();
        context.agent_in(delay, self.node, self.incarnation, AgentEvent::Beat);
    }

    /// A container has ended.
    pub(super) fn beat_early(&mut self, context: &mut Context) {
        self.beats_early = true;
        let is_waiting = self.pending.is_none() && !self.is_sending;
        if is_waiting && self.stage == Loop::Beating && self.shell.session.is_answered() {
            let earliest = self.earliest_beat.max(context.now_ms());
            if earliest < self.beat_at {
                self.plan_beat(earliest, context);
            }
        }
    }

    pub(super) fn beat(&mut self, ground: &mut Ground<'_>, context: &mut Context) {
        if context.now_ms() != self.beat_at || self.pending.is_some() || self.is_sending {
            return;
        }
        let now = self.now(context);
        match self.stage {
            Loop::Resyncing => {}
            Loop::Registering => {
                let request = self.shell.registration(now);
                let request = Box::new(Request::RegisterNode(Box::new(request)));
                self.send(request, Pending::Registration, ground, context);
            }
            Loop::Beating => {
                self.beats_early = false;
                self.proxies_reserve(context);
                let report = self.shell.core.heartbeat_report(now);
                let interval = self.shell.session.interval();
                let gap = gap_after(report.containers.len(), interval);
                self.earliest_beat = context.now_ms() + millis(gap);
                let everything = Delivery::Everything {
                    increased: report.increased.clone(),
                    log_reports: report.log_reports.1,
                };
                let keys = self.shell.secrets.current_keys();
                let Heartbeat {
                    request,
                    mut delivery,
                } = self
                    .shell
                    .session
                    .heartbeat(report, Sample::default(), keys);
                if context.is_planted(Planted::EveryAnswerCounts) {
                    delivery = everything;
                }
                let request = Box::new(Request::Heartbeat(Box::new(request)));
                self.send(request, Pending::Heartbeat(delivery), ground, context);
            }
        }
    }

    /// Sends a request once its contents are stored.
    fn send(
        &mut self,
        request: Box<Request>,
        pending: Pending,
        ground: &mut Ground<'_>,
        context: &mut Context,
    ) {
        self.is_sending = true;
        self.after_commit(Waiting::Send(request, pending), ground, context);
    }

    /// Handles an answer of the ResourceManager.
    pub fn replied(
        &mut self,
        number: u64,
        reply: Reply,
        ground: &mut Ground<'_>,
        context: &mut Context,
    ) {
        let is_awaited = self.pending.as_ref().is_some_and(|(of, _)| *of == number);
        let Some((_, pending)) = self.pending.take_if(|_| is_awaited) else {
            return;
        };
        let now = self.now(context);
        match (pending, reply) {
            (Pending::Registration, Reply::NodeRegistered(mut response)) => {
                match self.shell.registered(&mut response, now) {
                    Ok(_) => {
                        self.stage = Loop::Beating;
                        self.plan_beat(context.now_ms(), context);
                    }
                    Err(_) => self.pause(ground, context),
                }
            }
            (Pending::Heartbeat(delivery), Reply::Heartbeat(response)) => {
                match self.shell.session.answered(*response) {
                    Answer::GoOn {
                        mut orders, keys, ..
                    } => {
                        self.shell.secrets.roll(keys);
                        self.add_orders(&mut orders, ground, context);
                        self.observe_orders(&orders, context);
                        spoil_orders(&mut orders, &delivery, context);
                        self.shell.core.heartbeat_answered(&delivery, *orders, now);
                        self.capacity_is_known(now.mono);
                        self.settle(ground, context);
                        self.observe_queue(context);
                        context.check(self.told.compare(self.node, &self.shell.core));
                        let interval = millis(self.shell.session.interval());
                        let due = self.earliest_beat.max(context.now_ms());
                        let at = if self.beats_early {
                            due
                        } else {
                            context.now_ms() + interval
                        };
                        self.plan_beat(at, context);
                    }
                    Answer::Resync => self.resync(ground, context),
                    // No node is decommissioned here.
                    Answer::Shutdown { .. } => self.pause(ground, context),
                }
            }
            (Pending::Registration | Pending::Heartbeat(_), _) => self.pause(ground, context),
        }
        self.settle(ground, context);
    }

    /// No answer came.
    pub fn timed_out(&mut self, number: u64, ground: &mut Ground<'_>, context: &mut Context) {
        if self.pending.as_ref().is_some_and(|(of, _)| *of == number) {
            self.pending = None;
            let now = self.now(context);
            if self.stage == Loop::Beating {
                self.shell.core.heartbeat_failed(now);
            }
            self.pause(ground, context);
            self.settle(ground, context);
        }
    }

    fn pause(&mut self, ground: &mut Ground<'_>, context: &mut Context) {
        let pause = ground.random.within(PAUSE_MS);
        self.plan_beat(context.now_ms() + pause, context);
    }

    fn resync(&mut self, ground: &mut Ground<'_>, context: &mut Context) {
        let now = self.now(context);
        self.stage = Loop::Resyncing;
        // `AllEnded` leads on where containers have to end first.
        let wait = self.shell.core.resync(self.keeps_containers_on_resync, now);
        self.settle(ground, context);
        if wait == Wait::Over {
            self.stage = Loop::Registering;
        }
        if self.stage == Loop::Registering {
            let at = context.now_ms() + ground.random.below(RESYNC_MS);
            self.plan_beat(at, context);
        }
    }

    /// Shows which ends of containers a request tells.
    pub(super) fn tell_ends(&self, request: &Request, context: &mut Context) {
        let node = self.node;
        let is_over = |state: ContainerStateProto| state == ContainerStateProto::CComplete;
        let mut tell = |id: Option<&ContainerIdProto>| {
            if let Some(Ok(id)) = id.map(ContainerId::try_from) {
                context.observe(Observation::EndTold { node, id });
            }
        };
        if let Request::Heartbeat(heartbeat) = request {
            let statuses = heartbeat.node_status.iter();
            let statuses = statuses.flat_map(|status| &status.containers_statuses);
            let ended = statuses.filter(|status| is_over(status.state()));
            ended.for_each(|status| tell(status.container_id.as_ref()));
        } else if let Request::RegisterNode(registration) = request {
            let ended = registration.container_statuses.iter();
            let ended = ended.filter(|status| is_over(status.container_state()));
            ended.for_each(|status| tell(status.container_id.as_ref()));
        }
    }

    fn observe_orders(&mut self, orders: &HeartbeatOrders, context: &mut Context) {
        let node = self.node;
        for id in orders.acknowledged.iter().chain(&orders.kill_containers) {
            context.observe(Observation::Forgettable { node, id: *id });
        }
        for id in &orders.finish_applications {
            context.observe(Observation::ApplicationOver { node, id: *id });
        }
        if let Some(limit) = orders.queuing_limit {
            self.queue_limit = limit.max_queue_length;
        }
    }

    /// Adds orders of job clients and operators, which `mini_rm` does not pass on.
    fn add_orders(&self, orders: &mut HeartbeatOrders, ground: &mut Ground<'_>, context: &Context) {
        if ground.random.chance(SIGNAL) {
            let id = ground.machine.any_task(ground.random);
            let signal = ContainerSignal::OutputThreadDump;
            orders.signals.extend(id.map(|id| (id, signal)));
        }
        let is_whole = self.told.node_resource.is_none_or(|it| it == CAPACITY);
        if context.now_ms() >= ground.failures.agents_until_ms {
            orders.resource = (!is_whole).then_some(CAPACITY);
        } else if ground.random.chance(RESIZE) {
            let resource = if is_whole { HALF } else { CAPACITY };
            orders.resource = Some(resource);
        }
    }

    fn observe_queue(&self, context: &mut Context) {
        let node = self.node;
        let limit = self.queue_limit;
        context.observe(Observation::HeartbeatHandled { node, limit });
    }
}

/// Changes orders as a planted fault does.
fn spoil_orders(orders: &mut HeartbeatOrders, delivery: &Delivery, context: &Context) {
    if context.is_planted(Planted::LimitIgnored) {
        orders.queuing_limit = None;
    }
    if context.is_planted(Planted::RepeatedOrdersDropped) && *delivery == Delivery::PerhapsNothing {
        *orders = HeartbeatOrders::default();
    }
}
