//! Reports for clients and web pages. Read-only.

use records::{ApplicationAttemptId, ApplicationId, ContainerId, ExecutionType, NodeId, Resource};
use sched::ClusterNode;
use wire::convert::{MEMORY_NAME, MEMORY_UNIT, VCORES_NAME};
use wire::proto::hadoop_yarn::{
    ApplicationAttemptReportProto, ApplicationReportProto, ApplicationResourceUsageReportProto,
    ContainerReportProto, ContainerStateProto, ExecutionTypeProto, NodeReportProto, NodeStateProto,
    QueueInfoProto, QueueStateProto, ResourceTypeInfoProto, ResourceTypesProto,
    YarnApplicationStateProto, YarnClusterMetricsProto,
};

use super::{Core, QUEUE};
use crate::applications::{Application, ApplicationState, Attempt};
use crate::containers::Container;
use crate::nodes::{Node, NodeState};
use crate::refusal::Refusal;

/// Length, in characters, to which an application's type is cut (Hadoop:
/// `YarnConfiguration.APPLICATION_TYPE_LENGTH`).
const TYPE_CHARS_MAX: usize = 20;

/// Text in place of an unknown address on a page or in a report.
const NOT_AVAILABLE: &str = "N/A";

/// Returns the two resource types that are scheduled.
pub(super) fn resource_types() -> Vec<ResourceTypeInfoProto> {
    [(MEMORY_NAME, MEMORY_UNIT), (VCORES_NAME, "")]
        .map(|(name, units)| ResourceTypeInfoProto {
            name: name.to_owned(),
            units: Some(units.to_owned()),
            r#type: Some(ResourceTypesProto::Countable.into()),
        })
        .to_vec()
}

/// Returns a node's report for AMs, which do not read the allocated resources, so that these are
/// zero.
pub(super) fn node_report(node: &Node) -> NodeReportProto {
    NodeReportProto {
        node_id: Some((&node.id).into()),
        http_address: Some(node.http_address.clone()),
        rack_name: Some(node.rack.clone()),
        used: Some(Resource::new(0, 0).into()),
        capability: Some(node.capability.into()),
        num_containers: Some(0),
        node_state: Some(NodeStateProto::from(node.state).into()),
        health_report: Some(node.health_report.clone()),
        last_health_report_time: Some(node.last_contact_wall.0),
        ..NodeReportProto::default()
    }
}

/// Returns the attempt's tracking URL, or `N/A` without one.
fn url(attempt: &Attempt) -> String {
    if attempt.tracking_url.is_empty() {
        NOT_AVAILABLE.to_owned()
    } else {
        attempt.tracking_url.clone()
    }
}

fn attempt_report(attempt: &Attempt) -> ApplicationAttemptReportProto {
    use wire::proto::hadoop_yarn::YarnApplicationAttemptStateProto as State;
    ApplicationAttemptReportProto {
        application_attempt_id: Some(attempt.id.into()),
        host: Some(attempt.host.clone()),
        rpc_port: Some(attempt.rpc_port),
        tracking_url: Some(url(attempt)),
        diagnostics: Some(attempt.diagnostics.clone()),
        yarn_application_attempt_state: Some(State::from(attempt.state).into()),
        am_container_id: attempt.master.map(Into::into),
        original_tracking_url: Some(url(attempt)),
        start_time: Some(attempt.started.0),
        finish_time: Some(attempt.finished.map_or(0, |time| time.0)),
    }
}

impl Core {
    /// Returns a remembered application.
    ///
    /// # Errors
    /// [`Refusal::UnknownApplication`].
    pub fn application(&self, id: ApplicationId) -> Result<&Application, Refusal> {
        self.applications
            .get(&id)
            .ok_or(Refusal::UnknownApplication(id))
    }

    /// Returns all remembered applications, ordered by id.
    pub fn applications(&self) -> impl DoubleEndedIterator<Item = &Application> {
        self.applications.values()
    }

    /// Returns all remembered nodes, ordered by id.
    pub fn nodes(&self) -> impl Iterator<Item = &Node> {
        self.nodes.values()
    }

    /// Returns a remembered node.
    #[must_use]
    pub fn node(&self, id: &NodeId) -> Option<&Node> {
        self.nodes.get(id)
    }

    /// Returns the resources that guaranteed containers hold on a node.
    #[must_use]
    pub fn used_of(&self, node: &Node) -> Resource {
        let room = self.guaranteed.node(&node.id);
        room.map_or(Resource::new(0, 0), |room| room.allocated)
    }

    /// Returns a node's queue as of its last heartbeat; `None` for a node that gets no
    /// opportunistic containers.
    #[must_use]
    pub fn load_of(&self, node: &Node) -> Option<&ClusterNode> {
        self.load.node(&node.id)
    }

    /// Returns the numbers of containers that an application has outstanding: guaranteed, then
    /// opportunistic.
    #[must_use]
    pub fn outstanding_of(&self, application: &Application) -> (u64, u64) {
        let attempt = application.attempt().id;
        let guaranteed = self
            .guaranteed
            .asks(attempt)
            .map_or(0, |asks| asks.containers());
        let session = self.sessions.get(&application.id);
        let opportunistic = session.map_or(0, |session| session.opportunistic.asks().containers());
        (guaranteed, opportunistic)
    }

    /// Returns the number of guaranteed containers on a node. Opportunistic ones are counted apart,
    /// as in Hadoop, from the node's own report.
    #[must_use]
    pub fn guaranteed_of(&self, node: &Node) -> usize {
        let room = self.guaranteed.node(&node.id);
        room.map_or(0, |room| room.containers().len())
    }

    /// Returns the container of an AM until it completes.
    #[must_use]
    pub fn master_of(&self, id: Option<ContainerId>) -> Option<&Container> {
        self.containers.get(&id?)
    }

    /// Returns the start of this run in milliseconds since 1970, which is the cluster's id.
    #[must_use]
    pub const fn started_ms(&self) -> i64 {
        self.started.0
    }

    /// Returns the queue length limit that nodes get now; `None` when the limit is on waiting
    /// times.
    #[must_use]
    pub fn queue_limit(&self) -> Option<usize> {
        self.load.queuing_limit().max_queue_length
    }

    /// Returns the number of an application's unfinished containers, and the sum of the resources
    /// of the guaranteed ones.
    #[must_use]
    pub fn holdings(&self, application: &Application) -> (usize, Resource) {
        let none = Resource::new(0, 0);
        self.containers_of(application.attempt().id)
            .fold((0, none), |(count, sum), container| {
                let promised = match container.execution_type {
                    ExecutionType::Guaranteed => container.resource,
                    ExecutionType::Opportunistic => none,
                };
                (count + 1, sum.saturating_add(promised))
            })
    }

    /// Returns an application's report for clients.
    #[must_use]
    pub fn application_report(&self, application: &Application) -> ApplicationReportProto {
        let attempt = application.attempt();
        let submission = &application.submission;
        let (count, used) = self.holdings(application);
        ApplicationReportProto {
            application_id: Some(application.id.into()),
            user: Some(application.user.clone()),
            queue: Some(QUEUE.to_owned()),
            name: Some(submission.application_name().to_owned()),
            host: Some(attempt.host.clone()),
            rpc_port: Some(attempt.rpc_port),
            yarn_application_state: Some(YarnApplicationStateProto::from(application.state).into()),
            tracking_url: Some(url(attempt)),
            diagnostics: Some(application.diagnostics.clone()),
            start_time: Some(application.submitted.0),
            submit_time: Some(application.submitted.0),
            launch_time: Some(application.launched.map_or(0, |time| time.0)),
            finish_time: Some(application.finished.map_or(0, |time| time.0)),
            final_application_status: Some(application.final_status.into()),
            app_resource_usage: Some(ApplicationResourceUsageReportProto {
                num_used_containers: i32::try_from(count).ok(),
                num_reserved_containers: Some(0),
                used_resources: Some(used.into()),
                reserved_resources: Some(Resource::new(0, 0).into()),
                needed_resources: Some(used.into()),
                ..ApplicationResourceUsageReportProto::default()
            }),
            original_tracking_url: Some(url(attempt)),
            current_application_attempt_id: Some(attempt.id.into()),
            progress: Some(attempt.progress),
            application_type: Some(
                submission
                    .application_type()
                    .chars()
                    .take(TYPE_CHARS_MAX)
                    .collect(),
            ),
            application_tags: submission.application_tags.clone(),
            priority: Some(0.into()),
            ..ApplicationReportProto::default()
        }
    }

    /// Returns the reports of an application's attempts for clients.
    ///
    /// # Errors
    /// [`Refusal::UnknownApplication`].
    pub fn attempt_reports(
        &self,
        id: ApplicationId,
    ) -> Result<Vec<ApplicationAttemptReportProto>, Refusal> {
        let application = self.application(id)?;
        Ok(application.attempts().iter().map(attempt_report).collect())
    }

    /// Returns an attempt's report.
    ///
    /// # Errors
    /// [`Refusal::UnknownApplication`] or [`Refusal::UnknownAttempt`].
    pub fn attempt_report(
        &self,
        id: ApplicationAttemptId,
    ) -> Result<ApplicationAttemptReportProto, Refusal> {
        let attempts = self.application(id.application_id)?.attempts();
        let attempt = attempts.iter().find(|attempt| attempt.id == id);
        attempt
            .map(attempt_report)
            .ok_or(Refusal::UnknownAttempt(id))
    }

    /// Returns the reports of an attempt's unfinished containers, including its AM's.
    #[must_use]
    pub fn container_reports(&self, attempt: ApplicationAttemptId) -> Vec<ContainerReportProto> {
        self.containers_of(attempt)
            .map(|container| self.container_report(container))
            .collect()
    }

    /// Returns the report of an unfinished container.
    ///
    /// # Errors
    /// [`Refusal::UnknownContainer`].
    pub fn report_of_container(&self, id: ContainerId) -> Result<ContainerReportProto, Refusal> {
        let container = self.containers.get(&id);
        let container = container.ok_or(Refusal::UnknownContainer(id))?;
        Ok(self.container_report(container))
    }

    fn container_report(&self, container: &Container) -> ContainerReportProto {
        ContainerReportProto {
            container_id: Some(container.id.into()),
            resource: Some(container.resource.into()),
            node_id: Some((&container.node).into()),
            priority: Some(container.priority.into()),
            creation_time: Some(container.created.0),
            finish_time: Some(0),
            container_state: Some(ContainerStateProto::CRunning.into()),
            log_url: self.log_url(container),
            node_http_address: self.node_url(container),
            execution_type: Some(ExecutionTypeProto::from(container.execution_type).into()),
            ..ContainerReportProto::default()
        }
    }

    /// Returns the URL of the web pages of a container's node.
    #[must_use]
    pub fn node_url(&self, container: &Container) -> Option<String> {
        let node = self.nodes.get(&container.node)?;
        Some(format!("http://{}", node.http_address))
    }

    /// Returns the URL of a container's logs on its node.
    #[must_use]
    pub fn log_url(&self, container: &Container) -> Option<String> {
        let application = self.applications.get(&container.id.application_id())?;
        let (node, user) = (self.node_url(container)?, &application.user);
        Some(format!("{node}/node/containerlogs/{}/{user}", container.id))
    }

    /// Returns the reports of nodes in one of these states; with no states, of all nodes.
    #[must_use]
    pub fn node_reports(&self, states: &[NodeStateProto]) -> Vec<NodeReportProto> {
        let wanted = |node: &&Node| states.is_empty() || states.contains(&node.state.into());
        let nodes = self.nodes.values().filter(wanted);
        nodes
            .map(|node| NodeReportProto {
                used: Some(self.used_of(node).into()),
                num_containers: i32::try_from(self.guaranteed_of(node)).ok(),
                ..node_report(node)
            })
            .collect()
    }

    /// Returns the number of nodes in this state.
    #[must_use]
    pub fn count_nodes(&self, state: NodeState) -> usize {
        self.nodes
            .values()
            .filter(|node| node.state == state)
            .count()
    }

    /// Returns the number of applications in this state.
    #[must_use]
    pub fn count_applications(&self, state: ApplicationState) -> usize {
        self.applications
            .values()
            .filter(|application| application.state == state)
            .count()
    }

    /// Returns the number of nodes by state. As in Hadoop the first number counts the nodes that
    /// may get containers.
    #[must_use]
    pub fn cluster_metrics(&self) -> YarnClusterMetricsProto {
        let count = |state| i32::try_from(self.count_nodes(state)).ok();
        YarnClusterMetricsProto {
            num_node_managers: count(NodeState::Running),
            num_decommissioned_nms: Some(0),
            num_active_nms: count(NodeState::Running),
            num_lost_nms: count(NodeState::Lost),
            num_unhealthy_nms: count(NodeState::Unhealthy),
            num_rebooted_nms: Some(0),
            num_decommissioning_nms: Some(0),
            num_shutdown_nms: count(NodeState::Shutdown),
        }
    }

    /// Returns the share of memory that guaranteed containers hold, from 0 to 1.
    #[must_use]
    pub fn used_share(&self) -> f32 {
        let free = self.free_resources().memory_mb;
        let all = self
            .running_nodes()
            .map(|node| node.capability.memory_mb)
            .fold(0, u64::saturating_add);
        if all == 0 {
            return 0.0;
        }
        // For display only: the precision of an f32 is enough.
        #[expect(clippy::cast_precision_loss, reason = "a share for people to read")]
        let share = 1.0 - free as f32 / all as f32;
        share.clamp(0.0, 1.0)
    }

    /// Returns the queue of this name: either the root or the one below it.
    #[must_use]
    pub fn queue_info(&self, name: &str, with_children: bool) -> Option<QueueInfoProto> {
        let is_root = name == "root";
        if !is_root && name != QUEUE && name != "root.default" {
            return None;
        }
        let children = (is_root && with_children)
            .then(|| self.queue_info(QUEUE, false))
            .flatten();
        Some(QueueInfoProto {
            queue_name: Some(if is_root { "root" } else { QUEUE }.to_owned()),
            queue_path: Some(if is_root { "root" } else { "root.default" }.to_owned()),
            capacity: Some(1.0),
            maximum_capacity: Some(1.0),
            current_capacity: Some(self.used_share()),
            state: Some(QueueStateProto::QRunning.into()),
            child_queues: children.into_iter().collect(),
            ..QueueInfoProto::default()
        })
    }

    /// Returns the types of resource that are scheduled.
    #[must_use]
    pub fn resource_types(&self) -> Vec<ResourceTypeInfoProto> {
        resource_types()
    }
}
