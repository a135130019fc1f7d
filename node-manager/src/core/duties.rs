//! Toward the ResourceManager: what a registration and a heartbeat carry, and the duties that an
//! answer brings.

use std::sync::Arc;

use container_runtime::launch::ContainerSignal;
use node_web::live::{Decision, RmContact};
use records::{ApplicationId, ContainerId, Now, Resource};
use sched::{
    ContainerQueuingLimit, ContainerSpec, Event, KillReason, OpportunisticContainersStatus,
};
use tokio::sync::oneshot;
use wire::proto::hadoop_yarn::{
    ContainerProto, ContainerStatusProto, ContainerTokenIdentifierProto, NmContainerStatusProto,
};

use super::Core;

/// What a registration says of this node's past.
#[derive(Debug, Default)]
pub struct RegistrationReport {
    /// Every container in memory.
    pub containers: Vec<NmContainerStatusProto>,
    /// Applications that are not finished here. The RM takes a node that names none for a new one.
    pub running_applications: Vec<ApplicationId>,
}

/// What a heartbeat says, but for the node's own health and ids.
#[derive(Debug, Default)]
pub struct HeartbeatReport {
    /// Every container that is not done, and every completion not yet told.
    pub containers: Vec<ContainerStatusProto>,
    /// Resource increases not yet told.
    pub increased: Vec<ContainerProto>,
    /// The opportunistic numbers.
    pub opportunistic: OpportunisticContainersStatus,
}

/// What an answered heartbeat has told the ResourceManager.
#[derive(Clone, Debug, PartialEq)]
pub enum Delivery {
    /// All that it carried; these increases among it.
    Everything {
        /// As reported.
        increased: Vec<ContainerProto>,
    },
    /// Perhaps nothing. The heartbeat before was not answered, so the ResourceManager may have
    /// taken this one for its repetition: then it has not looked at it and only repeated its own
    /// last answer.
    PerhapsNothing,
}

/// What the answer to a heartbeat asks of the node.
#[derive(Debug, Default)]
pub struct HeartbeatDuties {
    /// Completions that the RM and the AM have seen.
    pub acknowledged: Vec<ContainerId>,
    /// To be killed with -106.
    pub kill_containers: Vec<ContainerId>,
    /// To be ended with all their containers.
    pub finish_applications: Vec<ApplicationId>,
    /// Decreases and changes of type that the RM decided itself.
    pub updates: Vec<(ContainerSpec, Arc<ContainerTokenIdentifierProto>)>,
    /// Signals ordered by job clients.
    pub signals: Vec<(ContainerId, ContainerSignal)>,
    /// How much may wait on this node.
    pub queuing_limit: Option<ContainerQueuingLimit>,
    /// What the node offers from now on.
    pub resource: Option<Resource>,
}

impl Core {
    /// For `registerNodeManager`.
    #[must_use]
    pub fn registration_report(&self) -> RegistrationReport {
        RegistrationReport {
            containers: self.registration_statuses(),
            running_applications: self.applications.unfinished().collect(),
        }
    }

    /// The RM has accepted the registration: containers of this incarnation may start.
    pub fn registered(&mut self, rm_identifier: i64, resource: Option<Resource>, now: Now) {
        self.rm_identifier = Some(rm_identifier);
        if self.set_rm_contact(RmContact::Registered, now) {
            self.decided(Decision::Registered, now);
        }
        if let Some(resource) = resource {
            self.hands.node_resource(resource);
            self.must_feed(Event::NodeResource(resource), now);
        }
    }

    /// The RM does not know this node any more: nothing starts until it is registered again. `done`
    /// is answered when the registration may follow: at once, or when all containers have ended if
    /// they are not kept.
    pub fn resync(&mut self, keep_containers: bool, done: oneshot::Sender<()>, now: Now) {
        self.rm_identifier = None;
        if self.set_rm_contact(RmContact::Registering, now) {
            self.decided(Decision::Resync, now);
        }
        // What is in memory goes along with the registration. What is not must still be told: the
        // RM may be the same as before, and waits for those completions.
        let containers = &self.containers;
        self.ledger.drop_pending(|id| containers.contains_key(id));
        if keep_containers {
            let _gone = done.send(());
            return;
        }
        self.waiting_for_the_end.push(done);
        let ids: Vec<ApplicationId> = self.applications.iter().map(|(id, _)| *id).collect();
        for id in ids {
            let reason = KillReason::ResourceManager;
            self.must_feed(Event::KillApplication { id, reason }, now);
        }
        self.answer_if_all_ended();
    }

    /// For `nodeHeartbeat`.
    pub fn heartbeat_report(&mut self, now: Now) -> HeartbeatReport {
        self.must_feed(Event::EstimateWaits, now);
        HeartbeatReport {
            containers: self.heartbeat_statuses(),
            increased: self.increased.values().cloned().collect(),
            opportunistic: self.scheduler.opportunistic_status(),
        }
    }

    /// A heartbeat was answered: what it carried has arrived, and these are the RM's orders, in
    /// Hadoop's order.
    pub fn heartbeat_answered(&mut self, delivery: &Delivery, duties: HeartbeatDuties, now: Now) {
        self.heartbeats_answered_again(now);
        for id in duties.acknowledged {
            self.forget(id, now);
        }
        match delivery {
            Delivery::Everything { increased } => {
                self.ledger.heartbeat_answered();
                self.increased
                    .retain(|_, increase| !increased.contains(increase));
            }
            Delivery::PerhapsNothing => {}
        }
        for id in duties.kill_containers {
            self.must_feed(
                Event::Kill {
                    id,
                    reason: KillReason::ResourceManager,
                },
                now,
            );
        }
        for id in duties.finish_applications {
            self.finish_application(id, KillReason::ApplicationFinished, now);
        }
        for (spec, token) in duties.updates {
            let id = spec.id;
            if let Err(refusal) = self.update(spec, token, now) {
                tracing::warn!(container = %id, %refusal, "the ResourceManager's update was not applied");
            }
        }
        for (id, signal) in duties.signals {
            self.signal(id, signal, now);
        }
        if let Some(limit) = duties.queuing_limit {
            if self.scheduler.queuing_limit() != Some(limit) {
                self.decided(Decision::QueuingLimit(limit), now);
            }
            self.must_feed(Event::QueuingLimit(limit), now);
        }
        if let Some(resource) = duties.resource {
            self.hands.node_resource(resource);
            self.must_feed(Event::NodeResource(resource), now);
        }
    }

    fn finish_application(&mut self, id: ApplicationId, reason: KillReason, now: Now) {
        if self.applications.finish(&id) {
            self.must_feed(Event::KillApplication { id, reason }, now);
            self.finish_application_if_ready(&id, now);
        }
    }

    /// Ends every application and refuses new containers. `done` is answered when no container
    /// lives any more.
    pub fn stop(&mut self, done: oneshot::Sender<()>, now: Now) {
        self.stopping = true;
        self.waiting_for_the_end.push(done);
        let ids: Vec<ApplicationId> = self.applications.unfinished().collect();
        for id in ids {
            self.finish_application(id, KillReason::Shutdown, now);
        }
        self.answer_if_all_ended();
    }

    /// Containers that are not done.
    #[must_use]
    pub fn live_containers(&self) -> usize {
        self.applications
            .iter()
            .map(|(_, application)| application.live.len())
            .sum()
    }

    pub(super) fn answer_if_all_ended(&mut self) {
        if self.waiting_for_the_end.is_empty() || self.live_containers() > 0 {
            return;
        }
        for done in std::mem::take(&mut self.waiting_for_the_end) {
            // Who asked may have run out of patience.
            let _gone = done.send(());
        }
    }
}
