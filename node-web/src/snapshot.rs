//! Snapshot of the node for web pages, REST answers and metrics: plain data, taken at one moment.
//!
//! The owner of the node's state makes a [`NodeSnapshot`] and implements [`NodeSource`]; readers
//! only look at it. Names and numbers are Hadoop's, so that a page can print them without knowing
//! how they came about. No I/O, no decisions.

use std::future::Future;
use std::path::PathBuf;
use std::sync::Arc;

use records::{
    ApplicationId, ContainerExitStatus, ContainerId, EpochMillis, ExecutionType, NodeId,
    PerExecutionType, Resource,
};
use sched::{ContainerQueuingLimit, ContainerState, Ending, OpportunisticContainersStatus};
use tokio::sync::watch;

use crate::overview::Overview;

/// Source of snapshots of the node.
pub trait NodeSource: Send + Sync + 'static {
    /// Takes a snapshot now; `None` once the agent is stopping.
    fn snapshot(&self) -> impl Future<Output = Option<Arc<NodeSnapshot>>> + Send;

    /// Takes an overview for people who watch the node: less of it, and its recent decisions.
    fn overview(&self) -> impl Future<Output = Option<Overview>> + Send;

    /// Returns the changes after which [`Self::overview`] may differ. To be dropped when there are
    /// no readers: then a change costs nothing.
    fn changes(&self) -> Changes;
}

/// Changes of an overview, from when this value was made.
#[derive(Clone, Debug)]
pub struct Changes {
    /// The core's revision. Its sender is gone when nothing will change any more.
    node: watch::Receiver<u64>,
    /// Calls that pass the AMRMProxy, if there is one.
    masters: Option<watch::Receiver<()>>,
}

impl Changes {
    /// Joins the changes of the node and those of the calls that pass its AMRMProxy.
    #[must_use]
    pub fn new(mut node: watch::Receiver<u64>, masters: Option<watch::Receiver<()>>) -> Self {
        node.mark_unchanged();
        Self { node, masters }
    }

    /// Waits for a change since the last call; `None` when nothing will change any more.
    pub async fn next(&mut self) -> Option<()> {
        let Self { node, masters } = self;
        let passing = async {
            // The proxy may end before the node; then only the node is left to wait for.
            if let Some(masters) = masters
                && masters.changed().await.is_ok()
            {
                return;
            }
            std::future::pending().await
        };
        tokio::select! {
            changed = node.changed() => changed.ok(),
            () = passing => Some(()),
        }
    }
}

/// The node at one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeSnapshot {
    /// As registered with the RM.
    pub node_id: NodeId,
    /// The port that serves the web pages, as registered with the RM.
    pub http_port: u16,
    /// Versions of the software.
    pub versions: Versions,
    /// When the agent started.
    pub started_at: EpochMillis,
    /// The RM has accepted the last registration and has not asked for a new one since.
    pub registered: bool,
    /// Health as the heartbeat reports it.
    pub health: NodeHealth,
    /// Resources that the node offers.
    pub total: Resource,
    /// Resources of containers with a process.
    pub allocated: Resource,
    /// Limits of memory use as configured.
    pub memory_checks: MemoryChecks,
    /// Containers by what they do, computed from the scheduler's state.
    pub counts: ContainerCounts,
    /// The opportunistic numbers of the last heartbeat's kind.
    pub opportunistic: OpportunisticContainersStatus,
    /// Mebibytes that frozen containers hold.
    pub frozen_memory_mb: u64,
    /// The limit that the RM published last; `None` before the first.
    pub queuing_limit: Option<ContainerQueuingLimit>,
    /// Usable directories of `yarn.nodemanager.log-dirs`. A container's logs are in
    /// `<root>/APP/CONTAINER` of some of them.
    pub log_roots: Vec<PathBuf>,
    /// Every application the node knows, in the order of their ids.
    pub applications: Vec<ApplicationSnapshot>,
    /// Every container the node knows, finished ones that the RM has not acknowledged too, in the
    /// order of their ids.
    pub containers: Vec<ContainerSnapshot>,
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

/// Containers by execution type and by what they do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ContainerCounts {
    /// With a process that is not frozen.
    pub running: PerExecutionType,
    /// Containers that wait for resources and were never started.
    pub queued: PerExecutionType,
    /// Containers frozen in favour of others: opportunistic ones only.
    pub paused: u32,
}

impl ContainerCounts {
    /// Counts containers by their type and the scheduler's state of them.
    #[must_use]
    pub fn of(containers: impl IntoIterator<Item = (ExecutionType, ContainerState)>) -> Self {
        let mut counts = Self::default();
        for (execution_type, state) in containers {
            match state {
                ContainerState::Running { .. }
                | ContainerState::Pausing
                | ContainerState::Killing { holds_room: true } => {
                    *counts.running.of(execution_type) += 1;
                }
                ContainerState::Queued { .. } => *counts.queued.of(execution_type) += 1,
                ContainerState::Paused { .. } | ContainerState::Resuming { .. } => {
                    counts.paused += 1;
                }
                ContainerState::Localizing
                | ContainerState::Launching { .. }
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
    /// User who submitted the application. Chosen by a peer: to be escaped wherever it is shown.
    pub user: String,
    /// State of the application on this node.
    pub state: ApplicationState,
    /// Containers of the application that have not ended, in the order of their ids.
    pub containers: Vec<ContainerId>,
}

/// A container on this node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContainerSnapshot {
    /// Id of the container.
    pub id: ContainerId,
    /// User who submitted the application. Chosen by a peer: to be escaped wherever it is shown.
    pub user: String,
    /// State of the container.
    pub state: ContainerRestState,
    /// [`ContainerExitStatus::INVALID`] until something set it.
    pub exit_status: ContainerExitStatus,
    /// For the AM and people; holds output of the container: to be escaped wherever it is shown.
    pub diagnostics: String,
    /// Resources that the container's token promises.
    pub resource: Resource,
    /// In force now.
    pub execution_type: ExecutionType,
}

/// An application's life (Hadoop: `ApplicationState` of the NodeManager).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ApplicationState {
    /// Just made known by a first container.
    New,
    /// Directories and logs are being set up.
    Initing,
    /// Containers may start.
    Running,
    /// The application has ended; its containers are being killed.
    FinishingContainersWait,
    /// The application's containers are gone; its files are being deleted.
    ApplicationResourcesCleaningUp,
    /// Only its logs are left.
    Finished,
}

impl ApplicationState {
    /// In the order of an application's life.
    pub const ALL: [Self; 6] = [
        Self::New,
        Self::Initing,
        Self::Running,
        Self::FinishingContainersWait,
        Self::ApplicationResourcesCleaningUp,
        Self::Finished,
    ];

    /// Hadoop's name, as in REST.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::New => "NEW",
            Self::Initing => "INITING",
            Self::Running => "RUNNING",
            Self::FinishingContainersWait => "FINISHING_CONTAINERS_WAIT",
            Self::ApplicationResourcesCleaningUp => "APPLICATION_RESOURCES_CLEANINGUP",
            Self::Finished => "FINISHED",
        }
    }

    /// The state of this name, exactly as [`Self::as_str`] writes it.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == name)
    }
}

/// A container's life as REST names it: finer than heartbeats and status replies (Hadoop:
/// `ContainerState` of the NodeManager).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContainerRestState {
    /// The container was just accepted.
    New,
    /// The container's resources are being brought to the local disk.
    Localizing,
    /// A resource of the container could not be localized.
    LocalizationFailed,
    /// The container is queued, or being launched.
    Scheduled,
    /// The container's process exists.
    Running,
    /// The container waits for another try.
    Relaunching,
    /// The process still runs while new resources are localized.
    Reinitializing,
    /// The process is being killed so that it can start anew.
    ReinitializingAwaitingKill,
    /// The process is being frozen.
    Pausing,
    /// The process is frozen.
    Paused,
    /// The process is being thawed.
    Resuming,
    /// The process is being killed.
    Killing,
    /// The process ended with 0; its cgroup and files are being removed.
    ExitedWithSuccess,
    /// The process ended with another status; its cgroup and files are being removed.
    ExitedWithFailure,
    /// The process was killed; its cgroup and files are being removed.
    ContainerCleanedUpAfterKill,
    /// The container is finished.
    Done,
}

impl ContainerRestState {
    /// Hadoop's name, as in REST.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::New => "NEW",
            Self::Localizing => "LOCALIZING",
            Self::LocalizationFailed => "LOCALIZATION_FAILED",
            Self::Scheduled => "SCHEDULED",
            Self::Running => "RUNNING",
            Self::Relaunching => "RELAUNCHING",
            Self::Reinitializing => "REINITIALIZING",
            Self::ReinitializingAwaitingKill => "REINITIALIZING_AWAITING_KILL",
            Self::Pausing => "PAUSING",
            Self::Paused => "PAUSED",
            Self::Resuming => "RESUMING",
            Self::Killing => "KILLING",
            Self::ExitedWithSuccess => "EXITED_WITH_SUCCESS",
            Self::ExitedWithFailure => "EXITED_WITH_FAILURE",
            Self::ContainerCleanedUpAfterKill => "CONTAINER_CLEANEDUP_AFTER_KILL",
            Self::Done => "DONE",
        }
    }
}

impl From<ContainerState> for ContainerRestState {
    /// A container that is queued, and one that is being launched, are both `SCHEDULED` to Hadoop.
    fn from(state: ContainerState) -> Self {
        match state {
            ContainerState::Localizing => Self::Localizing,
            ContainerState::Queued { .. } | ContainerState::Launching { .. } => Self::Scheduled,
            ContainerState::Running { .. } | ContainerState::Gone { killed: false } => {
                Self::Running
            }
            ContainerState::Pausing => Self::Pausing,
            ContainerState::Paused { .. } => Self::Paused,
            ContainerState::Resuming { .. } => Self::Resuming,
            ContainerState::Killing { .. } | ContainerState::Gone { killed: true } => Self::Killing,
            ContainerState::Completing(Ending::Succeeded) => Self::ExitedWithSuccess,
            ContainerState::Completing(Ending::Failed) => Self::ExitedWithFailure,
            ContainerState::Completing(Ending::Killed) => Self::ContainerCleanedUpAfterKill,
            ContainerState::Completing(Ending::LocalizationFailed) => Self::LocalizationFailed,
            ContainerState::Done(_) => Self::Done,
        }
    }
}

impl NodeSnapshot {
    /// `host:port` of the web pages: what log links point to.
    #[must_use]
    pub fn http_address(&self) -> String {
        format!("{}:{}", self.node_id.host, self.http_port)
    }

    /// The application of this id, if the node knows it.
    #[must_use]
    pub fn application(&self, id: &ApplicationId) -> Option<&ApplicationSnapshot> {
        self.applications.iter().find(|app| app.id == *id)
    }

    /// The container of this id, if the node knows it.
    #[must_use]
    pub fn container(&self, id: &ContainerId) -> Option<&ContainerSnapshot> {
        self.containers.iter().find(|container| container.id == *id)
    }
}

/// A small node for the tests of this crate's readers.
#[cfg(test)]
pub(crate) mod fixture {
    use super::*;

    pub(crate) const APP: ApplicationId = test_support::ids::application(7);

    /// The container of this number in the first attempt of [`APP`].
    pub(crate) const fn container_id(id: i64) -> ContainerId {
        APP.attempt(1).container(id)
    }

    /// A running guaranteed container of `alice`.
    pub(crate) fn container(id: i64) -> ContainerSnapshot {
        ContainerSnapshot {
            id: container_id(id),
            user: "alice".to_owned(),
            state: ContainerRestState::Running,
            exit_status: ContainerExitStatus::INVALID,
            diagnostics: String::new(),
            resource: Resource::new(1024, 2),
            execution_type: ExecutionType::Guaranteed,
        }
    }

    /// A registered node without containers.
    pub(crate) fn node() -> NodeSnapshot {
        NodeSnapshot {
            node_id: NodeId {
                host: "node-1.example".to_owned(),
                port: 8041,
            },
            http_port: 8042,
            versions: Versions {
                node_manager: "3.4.2".to_owned(),
                node_manager_build: "3.4.2 from abc".to_owned(),
                hadoop: "3.4.2".to_owned(),
                hadoop_build: "3.4.2 from abc".to_owned(),
                built_on: "2025-08-20T10:30Z",
            },
            started_at: EpochMillis(1_700_000_000_123),
            registered: true,
            health: NodeHealth {
                healthy: true,
                report: String::new(),
                updated_at: EpochMillis(1_700_000_009_000),
            },
            total: Resource::new(8192, 8),
            allocated: Resource::new(1024, 2),
            memory_checks: MemoryChecks {
                pmem: true,
                vmem: false,
                vmem_pmem_ratio: 2.1,
            },
            counts: ContainerCounts {
                running: PerExecutionType {
                    guaranteed: 1,
                    opportunistic: 0,
                },
                ..ContainerCounts::default()
            },
            opportunistic: OpportunisticContainersStatus::default(),
            frozen_memory_mb: 0,
            queuing_limit: None,
            log_roots: Vec::new(),
            applications: Vec::new(),
            containers: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_container_is_found_by_its_whole_id() {
        let mut node = fixture::node();
        node.containers = vec![fixture::container(1), fixture::container(2)];
        node.applications = vec![ApplicationSnapshot {
            id: fixture::APP,
            user: "alice".to_owned(),
            state: ApplicationState::Running,
            containers: vec![fixture::container_id(1), fixture::container_id(2)],
        }];
        let second = fixture::container_id(2);
        assert_eq!(node.container(&second).map(|found| found.id), Some(second));
        assert_eq!(node.container(&fixture::container_id(3)), None);
        assert!(node.application(&fixture::APP).is_some());
        assert_eq!(node.http_address(), "node-1.example:8042");
    }

    #[test]
    fn containers_are_counted_by_what_they_do() {
        let counts = ContainerCounts::of([
            (
                ExecutionType::Guaranteed,
                ContainerState::Running { order: 1 },
            ),
            (ExecutionType::Opportunistic, ContainerState::Pausing),
            (
                ExecutionType::Opportunistic,
                ContainerState::Paused {
                    place: 1,
                    held_mb: 0,
                },
            ),
            (
                ExecutionType::Opportunistic,
                ContainerState::Queued { place: 2 },
            ),
            (ExecutionType::Guaranteed, ContainerState::Localizing),
            (
                ExecutionType::Guaranteed,
                ContainerState::Done(Ending::Killed),
            ),
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
        assert_eq!(counts, expected);
    }

    #[test]
    fn every_application_state_reads_back_from_its_name_and_nothing_else_does() {
        for state in ApplicationState::ALL {
            assert_eq!(ApplicationState::from_name(state.as_str()), Some(state));
        }
        for name in ["", "running", "RUNNING ", "DONE"] {
            assert_eq!(ApplicationState::from_name(name), None, "{name:?}");
        }
    }
}
