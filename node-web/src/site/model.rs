//! The REST answers as values: field names, order and types are Hadoop's (`webapp.dao` of the
//! NodeManager). Pure.

use node_view::java_date::{java_date, java_date_of};
use node_view::snapshot::{
    AggregatedFile, AggregatedLogs, ApplicationSnapshot, ContainerSnapshot, NodeSnapshot,
};
use records::ContainerName;
use serde::ser::SerializeMap as _;
use serde::{Serialize, Serializer};
use time::UtcOffset;

use super::html;
use super::logs::LogFile;
use super::viewer::Viewer;

/// An object with one key.
#[derive(Debug)]
pub(super) struct Under<T>(pub(super) &'static str, pub(super) T);

impl<T: Serialize> Serialize for Under<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(1))?;
        map.serialize_entry(self.0, &self.1)?;
        map.end()
    }
}

/// An object with a list under one key; without the key when the list is empty, as Hadoop has it.
#[derive(Debug)]
pub(super) struct Items<'a, T>(pub(super) &'static str, pub(super) &'a [T]);

impl<T: Serialize> Serialize for Items<'_, T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        if !self.1.is_empty() {
            map.serialize_entry(self.0, self.1)?;
        }
        map.end()
    }
}

/// Document of `/ws/v1/node/info`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct NodeInfo<'a> {
    health_report: &'a str,
    #[serde(rename = "totalVmemAllocatedContainersMB")]
    total_vmem_allocated_containers_mb: u64,
    #[serde(rename = "totalPmemAllocatedContainersMB")]
    total_pmem_allocated_containers_mb: u64,
    #[serde(rename = "totalVCoresAllocatedContainers")]
    total_vcores_allocated_containers: u32,
    vmem_check_enabled: bool,
    pmem_check_enabled: bool,
    last_node_update_time: i64,
    resource_types: &'static str,
    node_healthy: bool,
    node_manager_version: &'a str,
    node_manager_build_version: &'a str,
    node_manager_version_built_on: &'static str,
    hadoop_version: &'a str,
    hadoop_build_version: &'a str,
    hadoop_version_built_on: &'static str,
    id: String,
    node_host_name: &'a str,
    #[serde(rename = "nmStartupTime")]
    nm_startup_time: i64,
}

impl<'a> NodeInfo<'a> {
    pub(super) fn of(node: &'a NodeSnapshot) -> Self {
        let (about, total) = (&node.about, node.numbers.total);
        let versions = &about.versions;
        Self {
            health_report: &about.health.report,
            total_vmem_allocated_containers_mb: virtual_mb(node),
            // The names say "allocated", the numbers always were what the node offers to
            // containers.
            total_pmem_allocated_containers_mb: total.memory_mb,
            total_vcores_allocated_containers: total.vcores,
            vmem_check_enabled: about.memory_checks.vmem,
            pmem_check_enabled: about.memory_checks.pmem,
            last_node_update_time: about.health.updated_at.0,
            resource_types: "memory-mb (unit=Mi), vcores",
            node_healthy: about.health.healthy,
            node_manager_version: &versions.node_manager,
            node_manager_build_version: &versions.node_manager_build,
            node_manager_version_built_on: versions.built_on,
            hadoop_version: &versions.hadoop,
            hadoop_build_version: &versions.hadoop_build,
            hadoop_version_built_on: versions.built_on,
            id: about.node_id.to_string(),
            node_host_name: &about.node_id.host,
            nm_startup_time: about.started_at.0,
        }
    }
}

/// Virtual memory for containers, in mebibytes.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a float cast clamps, and the product of sizes is not negative"
)]
fn virtual_mb(node: &NodeSnapshot) -> u64 {
    (node.numbers.total.memory_mb as f64 * node.about.memory_checks.vmem_pmem_ratio) as u64
}

/// Entry of `/ws/v1/node/apps`.
#[derive(Debug, Serialize)]
pub(super) struct AppInfo<'a> {
    id: String,
    state: &'static str,
    user: &'a str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    containerids: Vec<String>,
}

impl<'a> AppInfo<'a> {
    pub(super) fn of(app: &'a ApplicationSnapshot) -> Self {
        Self {
            id: app.id.to_string(),
            state: app.state.as_str(),
            user: &app.user,
            containerids: app.containers.iter().map(ToString::to_string).collect(),
        }
    }
}

/// Entry of `/ws/v1/node/containers`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ContainerInfo<'a> {
    id: String,
    state: &'static str,
    exit_code: i32,
    diagnostics: &'a str,
    user: &'a str,
    #[serde(rename = "totalMemoryNeededMB")]
    total_memory_needed_mb: u64,
    #[serde(rename = "totalVCoresNeeded")]
    total_vcores_needed: u32,
    execution_type: &'static str,
    container_logs_link: String,
    node_id: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    container_log_files: Vec<String>,
}

impl<'a> ContainerInfo<'a> {
    /// The log link names the address registered with the RM, not the one that the request was sent
    /// to: that text is the client's.
    pub(super) fn of(
        node: &NodeSnapshot,
        viewer: &Viewer,
        container: &'a ContainerSnapshot,
        log_files: Vec<LogFile>,
    ) -> Self {
        let id = container.id.to_string();
        Self {
            state: container.rest_state().as_str(),
            exit_code: container.exit_status.0,
            diagnostics: viewer.diagnostics(node, container),
            user: &container.user,
            total_memory_needed_mb: container.resource.memory_mb,
            total_vcores_needed: container.resource.vcores,
            execution_type: container.execution_type.as_str(),
            container_logs_link: format!(
                "{}/node/containerlogs/{id}/{}",
                node.about.web_url(),
                html::path_segment(&container.user)
            ),
            node_id: node.about.node_id.to_string(),
            container_log_files: log_files.into_iter().map(|file| file.name).collect(),
            id,
        }
    }
}

/// Document of `/ws/v1/node/containers/ID/logs`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ContainerLogsInfo {
    #[serde(skip_serializing_if = "Elements::is_empty")]
    container_log_info: Elements<ContainerLogInfo>,
    log_aggregation_type: &'static str,
    container_id: String,
    node_id: String,
}

/// A log file; its size is a text in Hadoop too.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ContainerLogInfo {
    file_name: String,
    file_size: String,
    last_modified_time: String,
}

/// A list as Hadoop writes it here: one element stands without a list around it.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(super) enum Elements<T> {
    One(T),
    Several(Vec<T>),
}

impl<T> From<Vec<T>> for Elements<T> {
    fn from(mut all: Vec<T>) -> Self {
        match (all.pop(), all.is_empty()) {
            (Some(only), true) => Self::One(only),
            (last, _) => {
                all.extend(last);
                Self::Several(all)
            }
        }
    }
}

impl<T> Elements<T> {
    fn is_empty(&self) -> bool {
        matches!(self, Self::Several(all) if all.is_empty())
    }
}

/// Documents of one container's logs: on the node, and in each remote file.
pub(super) fn all_logs(
    node: &NodeSnapshot,
    id: &ContainerName,
    files: Vec<LogFile>,
    offset: UtcOffset,
) -> Elements<ContainerLogsInfo> {
    let local = ContainerLogsInfo::local(node, id.to_string(), files, offset);
    let application = node.application(&id.application_id());
    let uploads = application.map_or(&[][..], |application| &application.aggregated);
    let aggregated = uploads
        .iter()
        .map(|uploaded| ContainerLogsInfo::aggregated(uploaded, id, offset))
        .filter(|info| !info.container_log_info.is_empty());
    let all: Vec<_> = std::iter::once(local).chain(aggregated).collect();
    all.into()
}

impl ContainerLogsInfo {
    /// The container's files in one remote file (Hadoop: `ContainerLogMeta`, whose node is the name
    /// of the remote file, and whose times are that file's).
    fn aggregated(uploaded: &AggregatedLogs, id: &ContainerName, offset: UtcOffset) -> Self {
        let files = uploaded.files.iter().filter(|file| file.container == *id);
        let info = |file: &AggregatedFile| ContainerLogInfo {
            file_name: file.name.clone(),
            file_size: file.length.to_string(),
            last_modified_time: java_date_of(uploaded.uploaded_at, offset),
        };
        Self {
            container_log_info: files.map(info).collect::<Vec<_>>().into(),
            log_aggregation_type: "AGGREGATED",
            container_id: id.to_string(),
            node_id: uploaded.name.clone(),
        }
    }

    pub(super) fn local(
        node: &NodeSnapshot,
        container_id: String,
        files: Vec<LogFile>,
        offset: UtcOffset,
    ) -> Self {
        let info = |file: LogFile| ContainerLogInfo {
            file_size: file.length.to_string(),
            last_modified_time: java_date(file.modified_s, offset),
            file_name: file.name,
        };
        Self {
            container_log_info: files.into_iter().map(info).collect::<Vec<_>>().into(),
            log_aggregation_type: "LOCAL",
            container_id,
            node_id: node.about.node_id.to_string(),
        }
    }
}
