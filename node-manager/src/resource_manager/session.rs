//! The node's part of its conversation with the ResourceManager: the numbers of heartbeats, what
//! an unanswered call leaves open, and the meaning of an answer. Pure: [`super::updater`] connects,
//! waits, tries again and puts keys in force.

use std::time::Duration;

use container_runtime::monitor::Sample;
use node_core::{Delivery, HeartbeatOrders, HeartbeatReport, RegistrationReport};
use records::Resource;
use thiserror::Error;
use wire::proto::hadoop_yarn::{
    NodeActionProto, NodeHeartbeatRequestProto, NodeHeartbeatResponseProto,
    RegisterNodeManagerRequestProto, RegisterNodeManagerResponseProto,
};
use wire::token::MasterKey;

use super::messages::{self, NodeDescription};
use crate::secrets::NewKeys;

/// Times between heartbeats.
#[derive(Clone, Copy, Debug)]
pub struct Intervals {
    /// Between two heartbeats, until the ResourceManager names an interval and when it names none.
    pub usual: Duration,
    /// Upper limit: the ResourceManager would take the node for lost.
    pub max: Duration,
}

/// Conversation with the ResourceManager, from one registration to the next.
#[derive(Debug)]
pub struct Session {
    node: NodeDescription,
    intervals: Intervals,
    /// Response id of the last answered heartbeat; 0 after a registration.
    response_id: i32,
    /// Number of the newest system credentials that this node has; 0 for none.
    token_sequence_no: i64,
    /// Number of credentials that came and are not stored yet.
    to_store: Option<i64>,
    interval: Duration,
    /// Set from a call to its answer.
    is_unanswered: bool,
}

/// Heartbeat to send.
#[derive(Debug)]
pub struct Heartbeat {
    /// The call's request.
    pub request: NodeHeartbeatRequestProto,
    /// Conclusion from an answer.
    pub delivery: Delivery,
}

/// Accepted registration.
#[derive(Clone, Debug)]
pub struct Registered {
    /// Identifier of the ResourceManager, which container tokens name.
    pub rm_identifier: i64,
    /// Capacity that the ResourceManager sets, if it differs.
    pub resource: Option<Resource>,
    /// Keys of tokens from now on.
    pub keys: NewKeys,
}

/// Refusal of a registration's answer.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RegistrationRefused {
    /// The ResourceManager does not want the node, and says why.
    #[error("the ResourceManager refused to register this node: {0}")]
    ByResourceManager(String),
    /// The answer lacks a field.
    #[error("the ResourceManager's answer to the registration lacks {0}")]
    Incomplete(&'static str),
}

/// Meaning of a heartbeat's answer.
#[derive(Debug)]
pub enum Answer {
    /// The node follows orders, and verifies tokens with new keys, if there are some.
    GoOn {
        /// Orders of the ResourceManager.
        orders: Box<HeartbeatOrders>,
        /// Keys of tokens from now on.
        keys: NewKeys,
        /// Number of applications whose credentials are left out.
        refused_credentials: usize,
    },
    /// The node must register again.
    Resync,
    /// The node must shut down.
    Shutdown {
        /// Diagnostics of the ResourceManager.
        diagnostics: String,
    },
}

impl Session {
    /// Returns a session that is not registered.
    #[must_use]
    pub fn new(node: NodeDescription, intervals: Intervals) -> Self {
        Self {
            node,
            interval: intervals.usual,
            intervals,
            response_id: 0,
            token_sequence_no: 0,
            to_store: None,
            is_unanswered: false,
        }
    }

    /// Returns the facts about the node.
    #[must_use]
    pub const fn node(&self) -> &NodeDescription {
        &self.node
    }

    /// Returns the time from one heartbeat to the next.
    #[must_use]
    pub const fn interval(&self) -> Duration {
        self.interval
    }

    /// Returns whether the last call was answered.
    #[must_use]
    pub const fn is_answered(&self) -> bool {
        !self.is_unanswered
    }

    /// Makes the request of `registerNodeManager`.
    #[must_use]
    pub fn registration(
        &self,
        report: RegistrationReport,
        heartbeat: HeartbeatReport,
        utilization: Sample,
    ) -> RegisterNodeManagerRequestProto {
        let status = messages::node_status(&self.node, 0, heartbeat, utilization);
        messages::registration(&self.node, report, status)
    }

    /// Takes the answer to a registration.
    ///
    /// # Errors
    /// [`RegistrationRefused`].
    pub fn registered(
        &mut self,
        response: &mut RegisterNodeManagerResponseProto,
    ) -> Result<Registered, RegistrationRefused> {
        use RegistrationRefused::Incomplete;
        if response.node_action() == NodeActionProto::Shutdown {
            let diagnostics = refusals::cut(response.diagnostics_message());
            return Err(RegistrationRefused::ByResourceManager(diagnostics));
        }
        let rm_identifier = response.rm_identifier;
        let rm_identifier = rm_identifier.ok_or(Incomplete("rm_identifier"))?;
        let resource = response.resource.as_ref();
        let resource = resource.and_then(|resource| Resource::try_from(resource).ok());
        let container_token_key = messages::master_key(response.container_token_master_key.take())
            .ok_or(Incomplete("container_token_master_key"))?;
        let nm_token_key = messages::master_key(response.nm_token_master_key.take())
            .ok_or(Incomplete("nm_token_master_key"))?;
        self.response_id = 0;
        // Numbers of another ResourceManager count other credentials.
        self.token_sequence_no = 0;
        self.to_store = None;
        self.is_unanswered = false;
        Ok(Registered {
            rm_identifier,
            resource,
            keys: NewKeys {
                container_token: Some(container_token_key),
                nm_token: Some(nm_token_key),
            },
        })
    }

    /// Makes a heartbeat, which names the keys in force, the container-token key first. After one
    /// without an answer it has the same response id: the ResourceManager then repeats its last
    /// answer, whose orders it sends only once.
    #[must_use]
    pub fn heartbeat(
        &mut self,
        mut report: HeartbeatReport,
        utilization: Sample,
        keys: (Option<MasterKey>, Option<MasterKey>),
    ) -> Heartbeat {
        let delivery = if self.is_unanswered {
            Delivery::PerhapsNothing
        } else {
            Delivery::Everything {
                increased: report.increased.clone(),
                log_reports: report.log_reports.1,
            }
        };
        self.is_unanswered = true;
        let log_reports = std::mem::take(&mut report.log_reports.0);
        let status = messages::node_status(&self.node, self.response_id, report, utilization);
        let request = NodeHeartbeatRequestProto {
            log_aggregation_reports_for_apps: log_reports,
            ..messages::heartbeat(status, keys, self.token_sequence_no)
        };
        Heartbeat { request, delivery }
    }

    /// Takes the answer to a heartbeat.
    #[must_use]
    pub fn answered(&mut self, response: NodeHeartbeatResponseProto) -> Answer {
        self.is_unanswered = false;
        self.interval = messages::interval(&response)
            .unwrap_or(self.intervals.usual)
            .min(self.intervals.max);
        match response.node_action() {
            NodeActionProto::Shutdown => {
                let diagnostics = refusals::cut(response.diagnostics_message());
                return Answer::Shutdown { diagnostics };
            }
            NodeActionProto::Resync => return Answer::Resync,
            NodeActionProto::Normal => {}
        }
        let (orders, refused_credentials) = messages::orders(&response);
        self.response_id = response.response_id();
        self.take_credentials(&response);
        let keys = NewKeys {
            container_token: messages::master_key(response.container_token_master_key),
            nm_token: messages::master_key(response.nm_token_master_key),
        };
        Answer::GoOn {
            orders: Box::new(orders),
            keys,
            refused_credentials,
        }
    }

    /// Takes the number of an answer's system credentials. If it has some, it is acknowledged once
    /// they are stored: a ResourceManager sends again what a node has not acknowledged, and nothing
    /// else. It has them only with Kerberos
    /// (`yarn.resourcemanager.proxy-user-privileges.enabled`).
    fn take_credentials(&mut self, response: &NodeHeartbeatResponseProto) {
        let number = response.token_sequence_no.unwrap_or(self.token_sequence_no);
        if response.system_credentials_for_apps.is_empty() {
            self.token_sequence_no = number;
            self.to_store = None;
        } else {
            self.to_store = Some(number);
        }
    }

    /// Returns whether the last answer had system credentials that are not stored yet.
    #[must_use]
    pub const fn has_credentials_to_store(&self) -> bool {
        self.to_store.is_some()
    }

    /// Records that the system credentials of the last answer are stored.
    pub fn credentials_stored(&mut self) {
        if let Some(number) = self.to_store.take() {
            self.token_sequence_no = number;
        }
    }
}

#[cfg(test)]
mod tests;
