//! Requests from what the core reports, and orders from what the ResourceManager answers. Pure.

use std::collections::HashSet;
use std::fmt::Display;
use std::time::Duration;

use container_runtime::launch::ContainerSignal;
use container_runtime::monitor::{Sample, Utilization};
use node_core::{
    HeartbeatOrders, HeartbeatReport, RegistrationReport, TOKENS_BYTES_MAX, UpdateRequest,
    read_spec,
};
use prost::Message;
use records::{ApplicationId, ContainerId, NodeId, Resource};
use refusals::Findings;
use sched::{ContainerQueuingLimit, OpportunisticContainersStatus};
use wire::convert::ConvertError;
use wire::credentials::Credentials;
use wire::proto::hadoop_yarn::{
    ContainerProto, ContainerQueuingLimitProto, ContainerTokenIdentifierProto, MasterKeyProto,
    NodeHealthStatusProto, NodeHeartbeatRequestProto, NodeHeartbeatResponseProto, NodeStatusProto,
    OpportunisticContainersStatusProto, RegisterNodeManagerRequestProto, ResourceUtilizationProto,
    SystemCredentialsForAppsProto,
};
use wire::token::{MasterKey, Token, kind};

use crate::container_manager::read_signal;

/// Mebibytes in a gibibyte: the wire's unit of opportunistic memory.
const MB_PER_GB: u64 = 1024;

/// Bytes of the credentials of all applications in one answer that are read.
const SYSTEM_CREDENTIALS_BYTES_MAX: usize = 8 << 20;

/// The wire's word for no estimate: a ResourceManager that places by wait leaves the node out.
const NO_ESTIMATE: i32 = -1;

/// Facts about the node that do not change while it runs.
#[derive(Clone, Debug)]
pub struct NodeDescription {
    /// Host and port of the container management service.
    pub node_id: NodeId,
    /// The web port that listens.
    pub http_port: u16,
    /// Resources that the node offers.
    pub capability: Resource,
    /// Resources of the machine.
    pub physical: Resource,
    /// A version in Hadoop's form; the RM may demand a minimum.
    pub version: String,
}

/// Makes the request of `registerNodeManager`.
#[must_use]
pub(super) fn registration(
    node: &NodeDescription,
    report: RegistrationReport,
    status: NodeStatusProto,
) -> RegisterNodeManagerRequestProto {
    RegisterNodeManagerRequestProto {
        node_id: Some((&node.node_id).into()),
        http_port: Some(i32::from(node.http_port)),
        resource: Some(node.capability.into()),
        nm_version: Some(node.version.clone()),
        container_statuses: report.containers,
        running_applications: report
            .running_applications
            .into_iter()
            .map(Into::into)
            .collect(),
        physical_resource: Some(node.physical.into()),
        log_aggregation_reports_for_apps: report.log_reports,
        node_status: Some(status),
        ..Default::default()
    }
}

/// The node's part of a registration or heartbeat. `response_id`: that of the last answered
/// heartbeat.
#[must_use]
pub(super) fn node_status(
    node: &NodeDescription,
    response_id: i32,
    report: HeartbeatReport,
    utilization: Sample,
) -> NodeStatusProto {
    NodeStatusProto {
        node_id: Some((&node.node_id).into()),
        response_id: Some(response_id),
        containers_statuses: report.containers,
        node_health_status: Some(NodeHealthStatusProto {
            is_node_healthy: Some(report.health.healthy),
            health_report: Some(report.health.report),
            last_health_report_time: Some(report.health.updated_at.0),
        }),
        // A Java ResourceManager's node pages fail over a node that sends none.
        containers_utilization: Some(used(utilization.containers)),
        node_utilization: Some(used(utilization.node)),
        keep_alive_applications: report.keep_alive.into_iter().map(Into::into).collect(),
        increased_containers: report.increased.iter().map(Into::into).collect(),
        opportunistic_containers_status: Some(opportunistic(report.opportunistic)),
    }
}

/// `nodeHeartbeat`. Both keys always go along: while keys roll, a Java ResourceManager reads them
/// unchecked.
#[must_use]
pub(super) fn heartbeat(
    status: NodeStatusProto,
    (container_token_key, nm_token_key): (Option<MasterKey>, Option<MasterKey>),
    token_sequence_no: i64,
) -> NodeHeartbeatRequestProto {
    // The ResourceManager reads the id only, so the key itself is not sent back.
    let known = |key: Option<MasterKey>| {
        key.map(|key| MasterKeyProto {
            key_id: Some(key.key_id),
            bytes: Some(Default::default()),
        })
    };
    NodeHeartbeatRequestProto {
        node_status: Some(status),
        last_known_container_token_master_key: known(container_token_key),
        last_known_nm_token_master_key: known(nm_token_key),
        token_sequence_no: Some(token_sequence_no),
        ..Default::default()
    }
}

fn used(utilization: Utilization) -> ResourceUtilizationProto {
    let mb = |mb: u64| Some(i32::try_from(mb).unwrap_or(i32::MAX));
    ResourceUtilizationProto {
        pmem: mb(utilization.pmem_mb),
        vmem: mb(utilization.vmem_mb),
        cpu: Some(utilization.cpu_vcores),
        ..Default::default()
    }
}

fn opportunistic(status: OpportunisticContainersStatus) -> OpportunisticContainersStatusProto {
    let count = |n: u32| Some(i32::try_from(n).unwrap_or(i32::MAX));
    let memory_gb = status.opport_memory_used_mb.div_ceil(MB_PER_GB);
    OpportunisticContainersStatusProto {
        running_opport_containers: count(status.running_opport_containers),
        opport_memory_used: Some(i64::try_from(memory_gb).unwrap_or(i64::MAX)),
        opport_cores_used: count(status.opport_cores_used),
        queued_opport_containers: count(status.queued_opport_containers),
        wait_queue_length: count(status.wait_queue_length),
        estimated_queue_wait_time: Some(
            status
                .estimated_queue_wait_ms
                .map_or(NO_ESTIMATE, |ms| i32::try_from(ms).unwrap_or(i32::MAX)),
        ),
        opport_queue_capacity: count(status.opport_queue_capacity),
    }
}

/// Returns the interval until the next heartbeat; `None` when the ResourceManager names none
/// (Hadoop: not above 0).
#[must_use]
pub(super) fn interval(response: &NodeHeartbeatResponseProto) -> Option<Duration> {
    let interval_ms = u64::try_from(response.next_heart_beat_interval()).ok()?;
    (interval_ms > 0).then(|| Duration::from_millis(interval_ms))
}

/// A key as the ResourceManager sends it; `None` when there is none or it lacks its id or bytes.
#[must_use]
pub(super) fn master_key(key: Option<MasterKeyProto>) -> Option<MasterKey> {
    MasterKey::try_from(key?).ok()
}

/// Reads the orders in a heartbeat's answer. Invalid entries are left out, with one log line for
/// each list: the others still count. Returns as well how many applications' credentials are left
/// out.
#[must_use]
pub(super) fn orders(response: &NodeHeartbeatResponseProto) -> (HeartbeatOrders, usize) {
    let credentials = &response.system_credentials_for_apps;
    let tokens = read_tokens(credentials);
    let refused = credentials.len().saturating_sub(tokens.len());
    let orders = HeartbeatOrders {
        acknowledged: read_all(
            "containers_to_be_removed_from_nm",
            &response.containers_to_be_removed_from_nm,
        ),
        kill_containers: read_all("containers_to_cleanup", &response.containers_to_cleanup),
        finish_applications: read_all::<_, ApplicationId>(
            "applications_to_cleanup",
            &response.applications_to_cleanup,
        ),
        updates: last_of_each(read_each(
            "containers_to_update",
            &response.containers_to_update,
            read_update,
        )),
        signals: each_once(read_each(
            "containers_to_signal",
            &response.containers_to_signal,
            |order| {
                let id = ContainerId::try_from(&order.container_id)?;
                Ok::<_, ConvertError>((id, read_signal(order.command())))
            },
        )),
        queuing_limit: response.container_queuing_limit.as_ref().map(read_limit),
        resource: response
            .resource
            .as_ref()
            .and_then(|resource| Resource::try_from(resource).ok()),
        tokens,
    };
    (orders, refused)
}

/// Reads the tokens for file systems of all applications that fit into the limits.
fn read_tokens(credentials: &[SystemCredentialsForAppsProto]) -> Vec<(ApplicationId, Vec<Token>)> {
    let mut left = SYSTEM_CREDENTIALS_BYTES_MAX;
    read_each("system_credentials_for_apps", credentials, |entry| {
        let id = entry
            .app_id
            .as_ref()
            .ok_or("credentials of no application")?;
        let id = ApplicationId::try_from(id).map_err(|error| error.to_string())?;
        let bytes = entry.credentials_for_app();
        if bytes.len() > TOKENS_BYTES_MAX || bytes.len() > left {
            return Err(format!("{} bytes of {id} are too many", bytes.len()));
        }
        left -= bytes.len();
        let read = Credentials::read(bytes).map_err(|error| error.to_string())?;
        let tokens = read.tokens.into_values();
        let tokens = tokens.filter(|token| token.kind == kind::HDFS_DELEGATION_TOKEN);
        Ok((id, tokens.collect()))
    })
}

fn read_all<'a, P, T>(field: &'static str, entries: &'a [P]) -> Vec<T>
where
    T: TryFrom<&'a P, Error: Display>,
{
    read_each(field, entries, T::try_from)
}

/// Reads the entries of a list. However many make no sense, they have one line.
fn read_each<'a, P, T, E: Display>(
    field: &'static str,
    entries: &'a [P],
    mut read: impl FnMut(&'a P) -> Result<T, E>,
) -> Vec<T> {
    let mut found = Vec::with_capacity(entries.len());
    let mut wrong = Findings::default();
    for entry in entries {
        match read(entry) {
            Ok(value) => found.push(value),
            Err(error) => wrong.add(error),
        }
    }
    if !wrong.is_empty() {
        let count = wrong.count();
        tracing::warn!(field, count, error = %wrong, "entries of the heartbeat's answer make no sense");
    }
    found
}

/// Keeps the last update of each container: a Java ResourceManager never sends more than that
/// (`RMNodeImpl.toBeUpdatedContainers`), and each one that is carried out has its log lines.
fn last_of_each(updates: Vec<UpdateRequest>) -> Vec<UpdateRequest> {
    let mut seen = HashSet::new();
    let mut last: Vec<_> = updates
        .into_iter()
        .rev()
        .filter(|update| seen.insert(update.spec.id))
        .collect();
    last.reverse();
    last
}

/// Keeps each signal to a container once: the same one again, at once, does nothing more.
fn each_once(signals: Vec<(ContainerId, ContainerSignal)>) -> Vec<(ContainerId, ContainerSignal)> {
    let mut seen = HashSet::new();
    let is_new = |(id, signal): &(_, ContainerSignal)| seen.insert((*id, signal.as_str()));
    signals.into_iter().filter(is_new).collect()
}

/// The token came over the connection to the RM, which is trusted: it is not verified again (as in
/// Hadoop).
fn read_update(container: &ContainerProto) -> Result<UpdateRequest, Box<dyn std::error::Error>> {
    let token = container.container_token.as_ref();
    let token = token.ok_or("an update without a container token")?;
    let identifier = token.identifier.to_vec();
    let token = ContainerTokenIdentifierProto::decode(&*identifier)?;
    Ok(UpdateRequest {
        spec: read_spec(&token)?,
        token: token.into(),
        identifier,
    })
}

/// -1 on the wire, like an absent field, means no limit.
fn read_limit(limit: &ContainerQueuingLimitProto) -> ContainerQueuingLimit {
    ContainerQueuingLimit {
        max_queue_length: limit
            .max_queue_length
            .and_then(|length| usize::try_from(length).ok()),
        max_queue_wait_time_ms: limit
            .max_queue_wait_time_in_ms
            .and_then(|wait| u64::try_from(wait).ok()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn opportunistic_memory_is_reported_in_gibibytes_rounded_up() {
        let status = OpportunisticContainersStatus {
            opport_memory_used_mb: 1025,
            ..Default::default()
        };
        assert_eq!(opportunistic(status).opport_memory_used, Some(2));
    }

    #[test]
    fn a_node_that_takes_nobody_sends_no_estimate() {
        let reported = |estimated_queue_wait_ms| {
            opportunistic(OpportunisticContainersStatus {
                estimated_queue_wait_ms,
                ..Default::default()
            })
            .estimated_queue_wait_time
        };
        assert_eq!(reported(Some(1_500)), Some(1_500));
        assert_eq!(reported(Some(u32::MAX)), Some(i32::MAX));
        assert_eq!(reported(None), Some(-1));
    }

    #[test]
    fn a_negative_limit_means_none() {
        let limit = |length, wait| {
            read_limit(&ContainerQueuingLimitProto {
                max_queue_length: length,
                max_queue_wait_time_in_ms: wait,
            })
        };
        assert_eq!(limit(Some(-1), None).max_queue_length, None);
        assert_eq!(limit(Some(0), Some(-1)).max_queue_length, Some(0));
        assert_eq!(limit(Some(7), Some(100)).max_queue_wait_time_ms, Some(100));
    }

    #[test]
    fn a_heartbeat_names_both_keys_without_their_bytes() {
        let key = |id| Some(MasterKey::new(id, vec![1, 2, 3].into()));
        let request = heartbeat(NodeStatusProto::default(), (key(-5), key(6)), 3);
        let named = request.last_known_container_token_master_key.unwrap();
        assert_eq!((named.key_id, named.bytes.unwrap().len()), (Some(-5), 0));
        assert_eq!(
            request.last_known_nm_token_master_key.unwrap().key_id,
            Some(6)
        );
    }
}
