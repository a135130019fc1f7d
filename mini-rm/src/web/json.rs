//! The JSON of each resource, in Hadoop's names.

use records::{ApplicationAttemptId, ExecutionType, Now, Resource};
use serde_json::{Value, json};

use crate::applications::{Application, ApplicationState};
use crate::core::{Core, QUEUE, RM_VERSION};
use crate::nodes::{Node, NodeState};

/// Version of this program, as the build versions name it.
const VERSION: &str = concat!("mini-rm-", env!("CARGO_PKG_VERSION"));

pub(super) fn info(core: &Core) -> Value {
    json!({"clusterInfo": {
        "id": core.started_ms(),
        "startedOn": core.started_ms(),
        "state": "STARTED",
        "haState": "ACTIVE",
        "rmStateStoreName": "none",
        "resourceManagerVersion": VERSION,
        "resourceManagerBuildVersion": VERSION,
        "resourceManagerVersionBuiltOn": "",
        "hadoopVersion": RM_VERSION,
        "hadoopBuildVersion": RM_VERSION,
        "hadoopVersionBuiltOn": "",
        "haZooKeeperConnectionState": "ResourceManager HA is not enabled.",
        "about": "an embedded ResourceManager for tests and trials: one queue, no high availability, \
                  no recovery, no security beyond tokens",
    }})
}

pub(super) fn metrics(core: &Core) -> Value {
    let applications = |state| core.count_applications(state);
    let running = || core.nodes().filter(|node| node.state == NodeState::Running);
    // A node may claim any size.
    let sum = |all: &mut dyn Iterator<Item = Resource>| {
        all.fold(Resource::default(), Resource::saturating_add)
    };
    let total = sum(&mut running().map(|node| node.capability));
    let used = sum(&mut running().map(|node| core.used_of(node)));
    let free = total.saturating_sub(used);
    let pending: u64 = core
        .applications()
        .map(|application| core.outstanding_of(application).0)
        .sum();
    json!({"clusterMetrics": {
        "appsSubmitted": core.applications().count(),
        "appsPending": applications(ApplicationState::Accepted),
        "appsRunning": applications(ApplicationState::Running),
        "appsCompleted": applications(ApplicationState::Finished),
        "appsFailed": applications(ApplicationState::Failed),
        "appsKilled": applications(ApplicationState::Killed),
        "totalMB": total.memory_mb,
        "allocatedMB": used.memory_mb,
        "availableMB": free.memory_mb,
        "totalVirtualCores": total.vcores,
        "allocatedVirtualCores": used.vcores,
        "availableVirtualCores": free.vcores,
        "reservedMB": 0,
        "reservedVirtualCores": 0,
        "containersAllocated": running().map(|node| core.guaranteed_of(node)).sum::<usize>(),
        "containersReserved": 0,
        "containersPending": pending,
        "totalNodes": core.nodes().count(),
        "activeNodes": core.count_nodes(NodeState::Running),
        "unhealthyNodes": core.count_nodes(NodeState::Unhealthy),
        "lostNodes": core.count_nodes(NodeState::Lost),
        "decommissionedNodes": 0,
        "decommissioningNodes": 0,
        "rebootedNodes": 0,
        "shutdownNodes": core.count_nodes(NodeState::Shutdown),
    }})
}

pub(super) fn scheduler(core: &Core) -> Value {
    let none = Resource::new(0, 0);
    let running = || core.nodes().filter(|node| node.state == NodeState::Running);
    let total = running().fold(none, |sum, node| sum.saturating_add(node.capability));
    let used = running().fold(none, |sum, node| sum.saturating_add(core.used_of(node)));
    json!({"scheduler": {"schedulerInfo": {
        "type": "fifoScheduler",
        "qstate": "RUNNING",
        "queueName": QUEUE,
        "capacity": 1.0,
        "usedCapacity": core.used_share(),
        "minQueueMemoryCapacity": core.allocation_min().memory_mb,
        "maxQueueMemoryCapacity": core.allocation_max().memory_mb,
        "numNodes": running().count(),
        "usedNodeCapacity": used.memory_mb,
        "availNodeCapacity": total.saturating_sub(used).memory_mb,
        "totalNodeCapacity": total.memory_mb,
        "numContainers": running().map(|node| core.guaranteed_of(node)).sum::<usize>(),
        "opportunisticQueueLimit": core.queue_limit(),
    }}})
}

/// Without `states` those that are active, as in Hadoop.
pub(super) fn nodes(core: &Core, query: &str) -> Value {
    let states = parameter(query, "states");
    let is_wanted = |node: &&Node| match states {
        Some(states) => states
            .split(',')
            .any(|state| state.eq_ignore_ascii_case(node.state.as_str())),
        None => node.state.is_active(),
    };
    let nodes: Vec<Value> = core
        .nodes()
        .filter(is_wanted)
        .map(|each| node(core, each))
        .collect();
    json!({"nodes": {"node": nodes}})
}

pub(super) fn node(core: &Core, node: &Node) -> Value {
    let used = core.used_of(node);
    let free = node.capability.saturating_sub(used);
    json!({
        "id": node.id.to_string(),
        "rack": node.rack,
        "state": node.state.as_str(),
        "nodeHostName": node.id.host,
        "nodeHTTPAddress": node.http_address,
        "version": node.version,
        "healthReport": node.health_report,
        "lastHealthUpdate": node.last_contact_wall.0,
        "numContainers": core.guaranteed_of(node),
        "usedMemoryMB": used.memory_mb,
        "availMemoryMB": free.memory_mb,
        "usedVirtualCores": used.vcores,
        "availableVirtualCores": free.vcores,
        "numRunningOpportContainers": node.opportunistic.running,
        "usedMemoryOpportGB": node.opportunistic.used.0,
        "usedVirtualCoresOpport": node.opportunistic.used.1,
        "numQueuedContainers": node.opportunistic.queued,
        "totalResource": resource(node.capability),
        "usedResource": resource(used),
        "availableResource": resource(free),
    })
}

/// As REST writes a size.
fn resource(resource: Resource) -> Value {
    json!({"memory": resource.memory_mb, "vCores": resource.vcores})
}

/// The value of a parameter. Nothing that is compared here needs percent-encoding.
fn parameter<'a>(query: &'a str, name: &str) -> Option<&'a str> {
    let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    let found = pairs.find(|(key, value)| *key == name && !value.is_empty());
    found.map(|(_, value)| value)
}

/// Returns the applications that `states`, `finalStatus`, `user` and `applicationTypes` let pass,
/// up to `limit`.
pub(super) fn applications(core: &Core, query: &str, now: Now) -> Value {
    let listed = |name: &str, value: &str| match parameter(query, name) {
        Some(wanted) => wanted
            .split(',')
            .any(|wanted| wanted.eq_ignore_ascii_case(value)),
        None => true,
    };
    let limit = parameter(query, "limit").and_then(|limit| limit.parse().ok());
    let all = core
        .applications()
        .filter(|each| listed("states", each.state.as_str()))
        .filter(|each| listed("finalStatus", final_status(each)))
        .filter(|each| listed("applicationTypes", each.submission.application_type()))
        .filter(|each| listed("user", &each.user))
        .take(limit.unwrap_or(usize::MAX))
        .map(|each| application(core, each, now));
    json!({"apps": {"app": all.collect::<Vec<Value>>()}})
}

pub(super) fn application(core: &Core, application: &Application, now: Now) -> Value {
    let attempt = application.attempt();
    let (containers, holds) = core.holdings(application);
    let finished = application.finished.map_or(0, |time| time.0);
    let until = application.finished.unwrap_or(now.wall);
    let master = core.master_of(attempt.master);
    let node = master.and_then(|master| core.node(&master.node));
    json!({
        "id": application.id.to_string(),
        "user": application.user,
        "name": application.submission.application_name(),
        "queue": QUEUE,
        "state": application.state.as_str(),
        "finalStatus": final_status(application),
        "progress": attempt.progress * 100.0,
        "trackingUI": if application.state.is_final() { "History" } else { "ApplicationMaster" },
        "trackingUrl": attempt.tracking_url,
        "diagnostics": application.diagnostics,
        "clusterId": core.started_ms(),
        "applicationType": application.submission.application_type(),
        "applicationTags": application.submission.application_tags.join(","),
        "priority": 0,
        "startedTime": application.submitted.0,
        "launchTime": application.launched.map_or(0, |time| time.0),
        "finishedTime": finished,
        "elapsedTime": until.0.saturating_sub(application.submitted.0).max(0),
        "amContainerLogs": master_logs(application, node),
        "amHostHttpAddress": node.map_or("", |node| &node.http_address),
        "runningContainers": containers,
        "allocatedMB": holds.memory_mb,
        "allocatedVCores": holds.vcores,
        "reservedMB": 0,
        "reservedVCores": 0,
        "pendingContainers": pending(core, application),
        "unmanagedApplication": false,
    })
}

/// By execution type.
fn pending(core: &Core, application: &Application) -> Value {
    let (guaranteed, opportunistic) = core.outstanding_of(application);
    json!({
        ExecutionType::Guaranteed.as_str(): guaranteed,
        ExecutionType::Opportunistic.as_str(): opportunistic,
    })
}

/// Returns the address where the node shows the AM's logs, while the AM runs.
fn master_logs(application: &Application, node: Option<&Node>) -> String {
    let (Some(node), Some(master)) = (node, application.attempt().master) else {
        return String::new();
    };
    let address = &node.http_address;
    format!(
        "http://{address}/node/containerlogs/{master}/{}",
        application.user
    )
}

/// Hadoop's name.
pub(super) fn final_status(application: &Application) -> &'static str {
    let name = application.final_status.as_str_name();
    name.strip_prefix("APP_").unwrap_or(name)
}

pub(super) fn attempts(core: &Core, application: &Application) -> Value {
    let all = application.attempts().iter().map(|attempt| {
        let master = core.master_of(attempt.master);
        json!({
            "id": attempt.id.attempt_id,
            "appAttemptId": attempt.id.to_string(),
            "startTime": attempt.started.0,
            "finishedTime": attempt.finished.map_or(0, |time| time.0),
            "containerId": attempt.master.map_or_else(String::new, |id| id.to_string()),
            "nodeId": master.map_or_else(String::new, |container| container.node.to_string()),
            "logsLink": master.and_then(|container| core.log_url(container)),
            "state": attempt.state.as_str(),
            "diagnosticsInfo": attempt.diagnostics,
        })
    });
    json!({"appAttempts": {"appAttempt": all.collect::<Vec<Value>>()}})
}

/// The unfinished containers of an attempt.
pub(super) fn containers(core: &Core, attempt: ApplicationAttemptId) -> Value {
    let all = core.containers_of(attempt).map(|container| {
        json!({
            "containerId": container.id.to_string(),
            "allocatedMB": container.resource.memory_mb,
            "allocatedVCores": container.resource.vcores,
            "priority": container.priority.to_string(),
            "executionType": container.execution_type.as_str(),
            "startedTime": container.created.0,
            "nodeId": container.node.to_string(),
            "nodeHttpAddress": core.node_url(container),
            "logUrl": core.log_url(container),
        })
    });
    json!({"container": all.collect::<Vec<Value>>()})
}
