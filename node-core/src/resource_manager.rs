//! Messages to and from the ResourceManager: the contents of a registration and of a heartbeat, and
//! the orders in an answer.

use container_runtime::launch::ContainerSignal;
use node_view::overview::Decision;
use node_view::snapshot::NodeHealth;
use records::{ApplicationId, ContainerId, Now, Resource};
use refusals::Findings;
use sched::{ContainerQueuingLimit, Event, KillReason, OpportunisticContainersStatus};
use wire::proto::hadoop_yarn::{
    ContainerStatusProto, LogAggregationReportProto, NmContainerStatusProto,
};
use wire::token::Token;

use super::Core;
use super::effect::Effect;
use crate::call::UpdateRequest;
use crate::messages::Increase;

/// Containers and applications that a registration reports.
#[derive(Debug, Default)]
pub struct RegistrationReport {
    /// Every container in memory.
    pub containers: Vec<NmContainerStatusProto>,
    /// Applications that are not finished here. The RM takes a node that names none for a new one.
    pub running_applications: Vec<ApplicationId>,
    /// Last report of each application whose logs were aggregated.
    pub log_reports: Vec<LogAggregationReportProto>,
}

/// Contents of a heartbeat except the node's ids.
#[derive(Debug)]
pub struct HeartbeatReport {
    /// Statuses of the containers that are not done, and completions not yet reported.
    pub containers: Vec<ContainerStatusProto>,
    /// Resource increases not yet reported.
    pub increased: Vec<Increase>,
    /// Queue length, estimated wait and resources of opportunistic containers.
    pub opportunistic: OpportunisticContainersStatus,
    /// Reports on uploaded logs, and the mark that [`Delivery`] takes.
    pub log_reports: (Vec<LogAggregationReportProto>, u64),
    /// Health of the node.
    pub health: NodeHealth,
    /// Ended applications whose tokens the ResourceManager is to keep.
    pub keep_alive: Vec<ApplicationId>,
}

/// Part of an answered heartbeat that the ResourceManager has certainly processed.
#[derive(Clone, Debug, PartialEq)]
pub enum Delivery {
    /// The whole heartbeat, with these increases.
    Everything {
        /// Resource increases as reported.
        increased: Vec<Increase>,
        /// Mark of the reports on uploaded logs.
        log_reports: u64,
    },
    /// Perhaps nothing. The heartbeat before was not answered, so the ResourceManager may have
    /// taken this one for its repetition, ignored its contents and repeated its own last answer.
    PerhapsNothing,
}

/// Orders in the answer to a heartbeat.
#[derive(Debug, Default)]
pub struct HeartbeatOrders {
    /// Completions that the RM and the AM have seen.
    pub acknowledged: Vec<ContainerId>,
    /// Containers to kill with exit status -106.
    pub kill_containers: Vec<ContainerId>,
    /// Applications to end with all their containers.
    pub finish_applications: Vec<ApplicationId>,
    /// Decreases and changes of type that the RM decided itself.
    pub updates: Vec<UpdateRequest>,
    /// Signals ordered by job clients.
    pub signals: Vec<(ContainerId, ContainerSignal)>,
    /// Limit on the queue of this node.
    pub queuing_limit: Option<ContainerQueuingLimit>,
    /// New capacity of the node.
    pub resource: Option<Resource>,
    /// Tokens for file systems that the ResourceManager has got anew, of every application that it
    /// does so for, also of those that are not here; empty: as before.
    pub tokens: Vec<(ApplicationId, Vec<Token>)>,
}

/// Whether a caller that has ordered the end of containers has to wait for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Wait {
    /// There is nothing to wait for.
    Over,
    /// Containers live; [`Effect::AllEnded`] follows when none does any more.
    ForEnds,
}

impl Core {
    /// Returns the node's part of `registerNodeManager`.
    #[must_use]
    pub fn registration_report(&self) -> RegistrationReport {
        RegistrationReport {
            containers: self.registration_statuses(),
            running_applications: self.applications.unfinished().collect(),
            log_reports: self.logs.reports.for_registration(),
        }
    }

    /// Records that the RM has accepted the registration: containers of this incarnation may start.
    pub fn registered(&mut self, rm_identifier: i64, resource: Option<Resource>, now: Now) {
        self.effects.push(Effect::SetRmIdentifier(rm_identifier));
        if self.registration.accepted(rm_identifier, now.mono) {
            self.decided(Decision::Registered, now);
        }
        if let Some(resource) = resource {
            self.effects.push(Effect::SetNodeResource(resource));
            self.must_feed(Event::NodeResource(resource), now);
        }
    }

    /// The RM does not know this node any more: nothing starts until it is registered again. The
    /// registration may follow after the wait: at once, or when all containers have ended if they
    /// are not kept.
    pub fn resync(&mut self, keep_containers: bool, now: Now) -> Wait {
        if self.registration.lost(now.mono) {
            self.decided(Decision::Resync, now);
        }
        // The registration carries the containers in memory. Other completions stay pending: the RM
        // may be the same as before, and waits for them.
        let containers = &self.containers;
        self.ledger.drop_pending(|id| containers.contains_key(id));
        if keep_containers {
            return Wait::Over;
        }
        self.applications.await_end();
        let ids: Vec<ApplicationId> = self.applications.iter().map(|(id, _)| *id).collect();
        for id in ids {
            let reason = KillReason::ResourceManager;
            self.must_feed(Event::KillApplication { id, reason }, now);
        }
        self.wait_for_ends()
    }

    /// Returns the node's part of `nodeHeartbeat`.
    pub fn heartbeat_report(&mut self, now: Now) -> HeartbeatReport {
        self.must_feed(Event::EstimateWaits, now);
        self.remember_runs(now);
        HeartbeatReport {
            containers: self.heartbeat_statuses(),
            increased: self.increases.all(),
            opportunistic: self.scheduler.opportunistic_status(),
            log_reports: self.logs.reports.for_heartbeat(),
            health: self.condition.about().health.clone(),
            keep_alive: self.keep_alive(now),
        }
    }

    /// Records that a heartbeat was not answered.
    pub fn heartbeat_failed(&mut self, now: Now) {
        self.keep_alive.not_answered();
        if self.registration.not_answered(now.mono) {
            self.decided(Decision::RmSilent, now);
        }
    }

    /// Handles the answer to a heartbeat: clears what was delivered, and follows the RM's orders in
    /// Hadoop's sequence.
    pub fn heartbeat_answered(&mut self, delivery: &Delivery, orders: HeartbeatOrders, now: Now) {
        if self.registration.answered(now.mono) {
            self.decided(Decision::RmBack, now);
        }
        self.take_system_tokens(orders.tokens, now);
        for id in orders.acknowledged {
            self.forget(id, now);
        }
        match delivery {
            Delivery::Everything {
                increased,
                log_reports,
            } => {
                self.ledger.heartbeat_answered();
                self.logs.reports.delivered(*log_reports);
                self.increases.delivered(increased);
            }
            Delivery::PerhapsNothing => {}
        }
        for id in orders.kill_containers {
            self.must_feed(
                Event::Kill {
                    id,
                    reason: KillReason::ResourceManager,
                },
                now,
            );
        }
        for id in orders.finish_applications {
            self.finish_application(id, KillReason::ApplicationFinished, now);
        }
        self.apply_updates(orders.updates, now);
        for (id, signal) in orders.signals {
            self.signal(id, signal);
        }
        if let Some(limit) = orders.queuing_limit {
            if self.scheduler.queuing_limit() != Some(limit) {
                self.decided(Decision::QueuingLimit(limit), now);
                self.effects.push(Effect::SetQueuingLimit(limit));
            }
            self.must_feed(Event::QueuingLimit(limit), now);
        }
        if let Some(resource) = orders.resource {
            self.effects.push(Effect::SetNodeResource(resource));
            self.must_feed(Event::NodeResource(resource), now);
        }
    }

    fn apply_updates(&mut self, updates: Vec<UpdateRequest>, now: Now) {
        let mut refused = Findings::default();
        for update in updates {
            let id = update.spec.id;
            if let Err(refusal) = self.update(update, now) {
                refused.add(format_args!("{id}: {refusal}"));
            }
        }
        if !refused.is_empty() {
            let count = refused.count();
            tracing::warn!(count, %refused, "updates of the ResourceManager were not applied");
        }
    }

    fn finish_application(&mut self, id: ApplicationId, reason: KillReason, now: Now) {
        if self.applications.finish(&id) {
            self.remember_application(id, now);
            self.must_feed(Event::KillApplication { id, reason }, now);
            self.finish_application_if_ready(&id, now);
        }
    }

    /// Ends every application and refuses new containers. The wait is over when no container lives
    /// any more.
    pub fn stop(&mut self, now: Now) -> Wait {
        self.applications.stop();
        let ids: Vec<ApplicationId> = self.applications.unfinished().collect();
        for id in ids {
            self.finish_application(id, KillReason::Shutdown, now);
        }
        self.wait_for_ends()
    }

    /// Returns whether containers live whose ends a caller has to wait for.
    fn wait_for_ends(&mut self) -> Wait {
        self.notify_if_all_ended();
        if self.applications.is_end_awaited() {
            Wait::ForEnds
        } else {
            Wait::Over
        }
    }

    /// Returns the number of containers that are not done.
    #[must_use]
    pub fn live_containers(&self) -> usize {
        self.applications.live_containers()
    }

    pub(super) fn notify_if_all_ended(&mut self) {
        if self.applications.take_all_ended() {
            self.effects.push(Effect::AllEnded);
        }
    }
}
