//! The node at one moment, for web pages, REST answers and metrics: plain data.
//!
//! The owner of the node's state makes a [`NodeSnapshot`], which names every container, or a
//! [`NodeOverview`](crate::overview::NodeOverview), which is bounded and has the recent past. Both
//! hold the same [`About`] and [`NodeNumbers`], which every reader prints as they are: a number of
//! the node is a field here and nowhere else. No I/O, no decisions.

mod notices;
mod state;

use std::path::PathBuf;
use std::sync::Arc;

use access_control::AccessList;
use records::{
    ApplicationId, ContainerExitStatus, ContainerId, ContainerName, EpochMillis, ExecutionType,
    MonoMillis, NodeId, PerExecutionType, Resource,
};
use sched::{ContainerQueuingLimit, ContainerState, OpportunisticContainersStatus};

use crate::usage::Uses;

pub use notices::{DrainNotice, RecoveryNotice};
pub use state::{ApplicationState, ContainerRestState};

/// Facts about the node. All but its health and its directories hold as long as it runs.
#[derive(Clone, Debug, PartialEq)]
pub struct About {
    /// Id as registered with the RM.
    pub node_id: NodeId,
    /// Port that serves the web pages, as registered with the RM.
    pub http_port: u16,
    /// Whether the web port speaks TLS alone.
    pub web_over_tls: bool,
    /// Versions of the software.
    pub versions: Versions,
    /// Time at which the agent started.
    pub started_at: EpochMillis,
    /// Reading of its monotonic clock then.
    pub started_mono: MonoMillis,
    /// Health as the heartbeat reports it.
    pub health: NodeHealth,
    /// Drain that an operator has ordered; `None`: the node is in service.
    pub drain: Option<DrainNotice>,
    /// Work of an earlier agent that does not simply go on.
    pub recovery: RecoveryNotice,
    /// Limits of memory use as configured.
    pub memory_checks: MemoryChecks,
    /// Figures of the directories of `yarn.nodemanager.local-dirs`.
    pub local_dirs: DirNumbers,
    /// Figures of the directories of `yarn.nodemanager.log-dirs`.
    pub log_dirs: DirNumbers,
    /// Directories of `yarn.nodemanager.log-dirs` that can be read. A container's logs are in
    /// `<root>/APP/CONTAINER` of some of them.
    pub log_roots: Vec<PathBuf>,
}

impl About {
    /// Returns the facts about a node that has just started: it is healthy and in service, its
    /// versions are unnamed and its directories have not been looked at.
    #[must_use]
    pub fn at_start(
        node_id: NodeId,
        http_port: u16,
        started_at: EpochMillis,
        memory_checks: MemoryChecks,
    ) -> Self {
        Self {
            node_id,
            http_port,
            web_over_tls: false,
            versions: Versions::default(),
            started_at,
            started_mono: MonoMillis(0),
            health: NodeHealth {
                healthy: true,
                report: String::new(),
                updated_at: started_at,
            },
            drain: None,
            recovery: RecoveryNotice::default(),
            memory_checks,
            local_dirs: DirNumbers::default(),
            log_dirs: DirNumbers::default(),
            log_roots: Vec::new(),
        }
    }

    /// `host:port` of the web pages: what log links point to.
    #[must_use]
    pub fn http_address(&self) -> String {
        format!("{}:{}", self.node_id.host, self.http_port)
    }

    /// URL of the web pages, without a slash at its end.
    #[must_use]
    pub fn web_url(&self) -> String {
        let scheme = if self.web_over_tls { "https" } else { "http" };
        format!("{scheme}://{}", self.http_address())
    }
}

/// Numbers of the node that its scheduler knows without a walk over the containers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeNumbers {
    /// Resources that the node offers.
    pub total: Resource,
    /// Resources of containers with a process.
    pub allocated: Resource,
    /// Resources that are offered to proxies, or held for containers on their way.
    pub held: Resource,
    /// Containers that hold resources, and those that wait.
    pub counts: Counts,
    /// Number of the waiting containers that are frozen.
    pub paused: u32,
    /// Opportunistic numbers of the last heartbeat's kind.
    pub opportunistic: OpportunisticContainersStatus,
    /// Whether opportunistic containers are taken.
    pub takes_opportunistic: bool,
    /// Mebibytes that frozen containers hold.
    pub frozen_memory_mb: u64,
    /// Limit that the RM published last; `None` before the first.
    pub queuing_limit: Option<ContainerQueuingLimit>,
}

impl NodeNumbers {
    /// Returns the RM's limit on the number of waiting containers; `None`: no such limit.
    #[must_use]
    pub fn limit_length(&self) -> Option<usize> {
        self.queuing_limit?.max_queue_length
    }

    /// Returns the RM's limit on the estimated wait; `None`: no such limit.
    #[must_use]
    pub fn limit_wait_ms(&self) -> Option<u64> {
        self.queuing_limit?.max_queue_wait_time_ms
    }
}

/// Containers at one moment, as charts show them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Guaranteed containers that hold resources.
    pub running_guaranteed: u32,
    /// Opportunistic containers that hold resources.
    pub running_opportunistic: u32,
    /// Containers of both types that wait.
    pub waiting: u32,
}

impl Counts {
    /// Returns the larger of each.
    pub(crate) fn max(self, other: Self) -> Self {
        Self {
            running_guaranteed: self.running_guaranteed.max(other.running_guaranteed),
            running_opportunistic: self.running_opportunistic.max(other.running_opportunistic),
            waiting: self.waiting.max(other.waiting),
        }
    }
}

/// Contact to the RM.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RmContact {
    /// No registration is in force: the first, or one that the RM asked for, is under way.
    #[default]
    Registering,
    /// Registered, and heartbeats are answered.
    Registered,
    /// Registered, but the last heartbeat was not answered.
    Silent,
}

impl RmContact {
    /// Returns the word for JSON and the style sheet.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Registering => "registering",
            Self::Registered => "registered",
            Self::Silent => "silent",
        }
    }
}

/// The node with every application and container.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeSnapshot {
    /// Facts about the node.
    pub about: Arc<About>,
    /// Contact to the RM.
    pub rm: RmContact,
    /// Numbers of the node.
    pub numbers: NodeNumbers,
    /// Every application the node knows, in the order of their ids.
    pub applications: Vec<ApplicationSnapshot>,
    /// Every container the node knows, finished ones that the RM has not acknowledged too, in the
    /// order of their ids.
    pub containers: Vec<ContainerSnapshot>,
    /// Use of containers, from the monitor and not from the core.
    pub uses: Arc<Uses>,
}

impl NodeSnapshot {
    /// Returns whether the RM has accepted the last registration and has not asked for a new one
    /// since.
    #[must_use]
    pub fn is_registered(&self) -> bool {
        match self.rm {
            RmContact::Registering => false,
            RmContact::Registered | RmContact::Silent => true,
        }
    }

    /// Counts the containers by what they do.
    #[must_use]
    pub fn counts(&self) -> ContainerCounts {
        ContainerCounts::of(&self.containers)
    }

    /// Returns the application of this id, if the node knows it.
    #[must_use]
    pub fn application(&self, id: &ApplicationId) -> Option<&ApplicationSnapshot> {
        let place = self.applications.binary_search_by_key(id, |app| app.id);
        self.applications.get(place.ok()?)
    }

    /// Returns the container of this id, if the node knows it.
    #[must_use]
    pub fn container(&self, id: &ContainerId) -> Option<&ContainerSnapshot> {
        let place = self
            .containers
            .binary_search_by_key(id, |container| container.id);
        self.containers.get(place.ok()?)
    }

    /// Returns the container of this name, if the node knows it.
    #[must_use]
    pub fn container_named(&self, name: ContainerName) -> Option<&ContainerSnapshot> {
        name.ids().find_map(|id| self.container(&id))
    }
}

/// Versions as in Hadoop's `nodeInfo`. The RM and people compare `node_manager` with the other
/// nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Versions {
    /// `nodeManagerVersion`: the version registered with the RM.
    pub node_manager: String,
    /// `nodeManagerBuildVersion`: version and source revision.
    pub node_manager_build: String,
    /// `hadoopVersion`: the Hadoop whose behaviour is followed.
    pub hadoop: String,
    /// `hadoopBuildVersion`: version and source revision.
    pub hadoop_build: String,
    /// `hadoopVersionBuiltOn` and `nodeManagerVersionBuiltOn`: the day and minute in UTC on which
    /// that Hadoop was built, as in `2025-08-20T10:30Z`.
    pub built_on: &'static str,
}

/// The node's health (Hadoop: `NodeHealthStatus`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeHealth {
    /// The RM places nothing on an unhealthy node.
    pub healthy: bool,
    /// Faults of the node, joined by `;`. Empty when healthy.
    pub report: String,
    /// When health was last looked at.
    pub updated_at: EpochMillis,
}

/// Figures of the directories of one kind (Hadoop: `NodeManagerMetrics`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DirNumbers {
    /// Configured directories that get no new files, because they have failed or are full.
    pub bad: u32,
    /// Used part of the others' disks together, in percent.
    pub good_utilization_percent: u32,
}

/// Configured limits of memory use.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MemoryChecks {
    /// Value of `yarn.nodemanager.pmem-check-enabled`. Hadoop reports it also where the kernel
    /// enforces memory and nothing is checked.
    pub pmem: bool,
    /// Value of `yarn.nodemanager.vmem-check-enabled`, likewise as configured.
    pub vmem: bool,
    /// `yarn.nodemanager.vmem-pmem-ratio`: virtual per physical mebibyte.
    pub vmem_pmem_ratio: f64,
}

/// Containers by execution type and by what they do, counted one by one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ContainerCounts {
    /// Containers with a process that is not frozen.
    pub running: PerExecutionType,
    /// Containers that wait for resources and were never started.
    pub queued: PerExecutionType,
    /// Containers frozen in favour of others, or being thawed: opportunistic ones only.
    pub paused: u32,
}

impl ContainerCounts {
    fn of(containers: &[ContainerSnapshot]) -> Self {
        let mut counts = Self::default();
        for container in containers {
            let execution_type = container.execution_type;
            match container.state {
                ContainerState::Running { .. }
                | ContainerState::Pausing
                | ContainerState::Restarting
                | ContainerState::Killing { holds_room: true } => {
                    *counts.running.of(execution_type) += 1;
                }
                ContainerState::Queued { .. } => *counts.queued.of(execution_type) += 1,
                ContainerState::Paused { .. } | ContainerState::Resuming { .. } => {
                    counts.paused += 1;
                }
                ContainerState::Localizing
                | ContainerState::Launching { .. }
                | ContainerState::Relaunching { .. }
                | ContainerState::Killing { holds_room: false }
                | ContainerState::Gone { .. }
                | ContainerState::Completing(_)
                | ContainerState::Done(_) => {}
            }
        }
        counts
    }
}

/// An application on this node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApplicationSnapshot {
    /// Id of the application.
    pub id: ApplicationId,
    /// User who submitted the application. Chosen by a peer.
    pub user: String,
    /// State of the application on this node.
    pub state: ApplicationState,
    /// Containers of the application that have not ended, in the order of their ids.
    pub containers: Vec<ContainerId>,
    /// Accounts that may see what the containers wrote, besides the user and administrators.
    pub view_acl: AccessList,
    /// Uploads of the containers' logs so far, as far as the node remembers them, the oldest first.
    pub aggregated: Vec<Arc<AggregatedLogs>>,
}

/// Log files of an application's containers that the node has uploaded into one remote file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AggregatedLogs {
    /// Name of the remote file.
    pub name: String,
    /// Time at which the remote file was complete.
    pub uploaded_at: EpochMillis,
    /// Log files in it, those of a container one after the other.
    pub files: Vec<AggregatedFile>,
}

/// A log file in a remote file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AggregatedFile {
    /// Container that wrote the file.
    pub container: ContainerName,
    /// Name of the file. Chosen by the container.
    pub name: String,
    /// Length in bytes.
    pub length: u64,
}

/// A container on this node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContainerSnapshot {
    /// Id of the container.
    pub id: ContainerId,
    /// User who submitted the application. Chosen by a peer.
    pub user: String,
    /// State of the container in the scheduler.
    pub state: ContainerState,
    /// [`ContainerExitStatus::INVALID`] until something set it.
    pub exit_status: ContainerExitStatus,
    /// Text for the AM and for people. Holds output of the container.
    pub diagnostics: String,
    /// Resources that the container's token promises.
    pub resource: Resource,
    /// Execution type in force now.
    pub execution_type: ExecutionType,
}

impl ContainerSnapshot {
    /// Returns the state as REST names it.
    #[must_use]
    pub fn rest_state(&self) -> ContainerRestState {
        self.state.into()
    }
}

#[cfg(test)]
mod tests {
    use records::ExecutionType::{Guaranteed, Opportunistic};
    use sched::Ending;
    use test_support::ids::{application, container as container_id};

    use super::*;

    fn container(id: i64) -> ContainerSnapshot {
        ContainerSnapshot {
            id: container_id(id),
            user: "alice".to_owned(),
            state: ContainerState::Running { order: 1 },
            exit_status: ContainerExitStatus::INVALID,
            diagnostics: String::new(),
            resource: Resource::new(1024, 2),
            execution_type: Guaranteed,
        }
    }

    fn node(containers: Vec<ContainerSnapshot>) -> NodeSnapshot {
        let node_id = test_support::ids::node("node-1.example");
        let memory_checks = MemoryChecks {
            pmem: true,
            vmem: false,
            vmem_pmem_ratio: 2.1,
        };
        NodeSnapshot {
            about: Arc::new(About::at_start(
                node_id,
                8042,
                EpochMillis(0),
                memory_checks,
            )),
            rm: RmContact::Registered,
            numbers: NodeNumbers::default(),
            applications: Vec::new(),
            containers,
            uses: Arc::default(),
        }
    }

    #[test]
    fn a_container_is_found_by_its_whole_id() {
        let mut node = node(vec![container(1), container(2)]);
        node.applications = vec![ApplicationSnapshot {
            id: application(1),
            user: "alice".to_owned(),
            state: ApplicationState::Running,
            containers: vec![container_id(1), container_id(2)],
            view_acl: AccessList::default(),
            aggregated: Vec::new(),
        }];
        let second = container_id(2);
        assert_eq!(node.container(&second).map(|found| found.id), Some(second));
        assert_eq!(node.container(&container_id(3)), None);
        assert!(node.application(&application(1)).is_some());
        assert_eq!(node.about.http_address(), "node-1.example:8042");
    }

    #[test]
    fn containers_are_counted_by_what_they_do() {
        let of = |id, execution_type, state| ContainerSnapshot {
            execution_type,
            state,
            ..container(id)
        };
        let paused = ContainerState::Paused {
            place: sched::QueuePlace::fifo(1),
            held_mb: 0,
        };
        let node = node(vec![
            of(1, Guaranteed, ContainerState::Running { order: 1 }),
            of(2, Opportunistic, ContainerState::Pausing),
            of(3, Opportunistic, paused),
            of(
                4,
                Opportunistic,
                ContainerState::Queued {
                    place: sched::QueuePlace::fifo(2),
                },
            ),
            of(5, Guaranteed, ContainerState::Localizing),
            of(6, Guaranteed, ContainerState::Done(Ending::Killed)),
        ]);
        let expected = ContainerCounts {
            running: PerExecutionType {
                guaranteed: 1,
                opportunistic: 1,
            },
            queued: PerExecutionType {
                guaranteed: 0,
                opportunistic: 1,
            },
            paused: 1,
        };
        assert_eq!(node.counts(), expected);
    }
}
