//! Messages that leave the core: what the ResourceManager and ApplicationMasters are told of
//! containers and logs, written here from the core's own values.

use std::sync::Arc;

use records::ContainerState;
use sched::{ContainerSpec, ContainerView};
use wire::proto::hadoop_yarn::{
    ContainerProto, ContainerStateProto, ContainerStatusProto, ContainerSubStateProto,
    ExecutionTypeProto, LogAggregationReportProto, LogAggregationStatusProto,
    NmContainerStatusProto, PriorityProto, StringStringMapProto,
};

use crate::config::Machine;
use crate::log_reports::{Cycle, LogReport};
use crate::token::TokenFacts;

/// Status of a container at a moment.
#[derive(Clone, Debug)]
pub(crate) struct Status {
    /// State, size and diagnostics, as the scheduler has them.
    pub(crate) view: ContainerView,
    /// Facts of the container's last token.
    pub(crate) facts: Arc<TokenFacts>,
    /// Whether a process has been started: then the message names the machine.
    pub(crate) had_process: bool,
}

impl Status {
    /// Writes the status for heartbeats and ApplicationMasters.
    pub(crate) fn into_message(self, machine: &Machine) -> ContainerStatusProto {
        let Self { view, facts, .. } = self;
        let attribute = |key: &str, value: &str| StringStringMapProto {
            key: Some(key.to_owned()),
            value: Some(value.to_owned()),
        };
        let mut container_attributes = Vec::new();
        if self.had_process {
            container_attributes.extend([
                attribute("HOST", &machine.name),
                attribute("IPS", &machine.address),
            ]);
            if view.state.container_state() == ContainerState::Complete {
                container_attributes.push(wire::run_time::attribute(view.ran_before_ms));
            }
        }
        ContainerStatusProto {
            container_id: Some(view.spec.id.into()),
            state: Some(ContainerStateProto::from(view.state.container_state()).into()),
            diagnostics: Some(view.diagnostics),
            exit_status: Some(view.exit_status.0),
            capability: facts.written_size.clone(),
            execution_type: Some(ExecutionTypeProto::from(view.spec.execution_type).into()),
            container_attributes,
            container_sub_state: Some(ContainerSubStateProto::from(view.state.sub_state()).into()),
        }
    }
}

/// Writes the status of a container for a registration.
pub(crate) fn registration_status(
    view: ContainerView,
    facts: &TokenFacts,
) -> NmContainerStatusProto {
    NmContainerStatusProto {
        container_id: Some(view.spec.id.into()),
        container_state: Some(ContainerStateProto::from(view.state.container_state()).into()),
        resource: facts.written_size.clone(),
        priority: facts.priority.map(|priority| PriorityProto {
            priority: Some(priority),
        }),
        diagnostics: Some(view.diagnostics),
        container_exit_status: Some(view.exit_status.0),
        creation_time: facts.creation_time,
        node_label_expression: facts.node_label_expression.clone(),
        version: Some(view.spec.version),
        execution_type: Some(ExecutionTypeProto::from(view.spec.execution_type).into()),
        allocation_request_id: facts.allocation_request_id,
        allocation_tags: facts.allocation_tags.clone(),
    }
}

/// Growth of a container that the ResourceManager has not been told yet.
#[derive(Clone, Debug, PartialEq)]
pub struct Increase {
    /// Size, type and version since then.
    pub spec: ContainerSpec,
    /// Facts of the token that brought it.
    pub facts: Arc<TokenFacts>,
}

impl From<&Increase> for ContainerProto {
    fn from(increase: &Increase) -> Self {
        let execution_type = ExecutionTypeProto::from(increase.spec.execution_type);
        Self {
            id: Some(increase.spec.id.into()),
            resource: increase.facts.written_size.clone(),
            execution_type: Some(execution_type.into()),
            ..Self::default()
        }
    }
}

impl From<&LogReport> for LogAggregationReportProto {
    fn from(report: &LogReport) -> Self {
        let status = match (report.cycle, report.is_end) {
            (Cycle::Uploaded | Cycle::Nothing, false) => LogAggregationStatusProto::LogRunning,
            (Cycle::Failed, false) => LogAggregationStatusProto::LogRunningWithFailure,
            (Cycle::Uploaded | Cycle::Nothing, true) => LogAggregationStatusProto::LogSucceeded,
            (Cycle::Failed, true) => LogAggregationStatusProto::LogFailed,
        };
        Self {
            application_id: Some(report.application.into()),
            log_aggregation_status: Some(status.into()),
            diagnostics: Some(report.diagnostics.clone()),
        }
    }
}
