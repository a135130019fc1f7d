//! Labels and attributes that a node gives itself, from the configuration or from an operator's
//! script (Hadoop: `NodeDescriptorsProvider`).
//!
//! ```text
//! property or script ─▶ provider thread ─▶ newest value ─▶ report ─▶ registration, heartbeats
//!                       at intervals       (watch)         when it changed, and at intervals
//! ```
//! A value that cannot be read or is not valid is logged, and the one before stays. Until the first
//! one is there, nothing is reported, so that the ResourceManager keeps what it knows. A Java
//! NodeManager reports there that the node has none.
//!
//! - `value`: labels and attributes, and their texts; pure
//! - `provider`: the thread that gets them
//! - `report`: what is sent when, and the ResourceManager's verdict; pure

mod provider;
mod report;
mod value;

use std::time::Duration;

use tokio::time::Instant;
use wire::proto::hadoop_yarn::{
    NodeHeartbeatRequestProto, NodeHeartbeatResponseProto, RegisterNodeManagerRequestProto,
    RegisterNodeManagerResponseProto,
};

pub use self::provider::{ProviderError, Providers, Reread};
pub use self::value::{Described, NodeAttributes, NodeLabels, ValueError};

use self::report::{Report, Verdict};

/// Longest wait for the first run of the scripts before the node registers: the ResourceManager
/// would place containers on a node whose labels it does not know. A script that takes longer is
/// reported with a heartbeat.
const FIRST_PATIENCE: Duration = Duration::from_secs(10);

/// Labels and attributes that the node reports with registrations and heartbeats. None by default.
#[derive(Debug, Default)]
pub struct NodeReports {
    labels: Option<Report<NodeLabels>>,
    attributes: Option<Report<NodeAttributes>>,
}

impl NodeReports {
    /// Waits until every provider has a value, at most ten seconds from now.
    pub(crate) async fn wait_first(&mut self) {
        let wait = async {
            if let Some(labels) = &mut self.labels {
                labels.wait_first().await;
            }
            if let Some(attributes) = &mut self.attributes {
                attributes.wait_first().await;
            }
        };
        if tokio::time::timeout(FIRST_PATIENCE, wait).await.is_err() {
            tracing::warn!(
                waited = ?FIRST_PATIENCE,
                "the node registers before its labels and attributes are known"
            );
        }
    }

    /// Adds what the node says of itself to a registration.
    pub(crate) fn add_to_registration(&mut self, request: &mut RegisterNodeManagerRequestProto) {
        let labels = self.labels.as_mut().and_then(Report::for_registration);
        let attributes = self.attributes.as_mut().and_then(Report::for_registration);
        request.node_labels = labels.map(Into::into);
        request.node_attributes = attributes.map(Into::into);
    }

    /// Takes the answer to the last registration.
    pub(crate) fn registered(&mut self, response: &RegisterNodeManagerResponseProto, now: Instant) {
        let accepted = [
            response.are_node_labels_accepted_by_rm(),
            response.are_node_attributes_accepted_by_rm(),
        ];
        self.answered(accepted, response.diagnostics_message(), now);
    }

    /// Adds what has changed, and what is due again, to a heartbeat.
    pub(crate) fn add_to_heartbeat(
        &mut self,
        request: &mut NodeHeartbeatRequestProto,
        now: Instant,
    ) {
        let labels = self.labels.as_mut();
        request.node_labels = labels.and_then(|it| it.for_heartbeat(now)).map(Into::into);
        let attributes = self.attributes.as_mut();
        request.node_attributes = attributes
            .and_then(|it| it.for_heartbeat(now))
            .map(Into::into);
    }

    /// Takes the answer to the last heartbeat.
    pub(crate) fn heartbeat_answered(
        &mut self,
        response: &NodeHeartbeatResponseProto,
        now: Instant,
    ) {
        let accepted = [
            response.are_node_labels_accepted_by_rm(),
            response.are_node_attributes_accepted_by_rm(),
        ];
        self.answered(accepted, response.diagnostics_message(), now);
    }

    fn answered(&mut self, [labels, attributes]: [bool; 2], diagnostics: &str, now: Instant) {
        let verdict = |is_accepted| Verdict {
            is_accepted,
            diagnostics,
        };
        if let Some(report) = &mut self.labels {
            report.answered(&verdict(labels), now);
        }
        if let Some(report) = &mut self.attributes {
            report.answered(&verdict(attributes), now);
        }
    }
}
