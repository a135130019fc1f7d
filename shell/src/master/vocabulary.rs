//! Events in and actions out of the AM's decisions: their whole vocabulary.

use records::{ContainerExitStatus, ContainerId, ExecutionType, NodeId, Resource};
use wire::proto::hadoop_common::TokenProto;

use crate::summary::Summary;

/// A container that the ResourceManager has allocated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Granted {
    /// Id of the container.
    pub id: ContainerId,
    /// Node that the container is on.
    pub node: NodeId,
    /// Address of the node's web pages, `host:port`; may be empty.
    pub node_http: String,
    /// Execution type, guaranteed or opportunistic.
    pub execution_type: ExecutionType,
    /// Allocation request id of the ask that the container answers; see [`super::asks`].
    pub allocation_request_id: i64,
    /// Number of updates so far.
    pub version: i32,
}

/// A container that has completed, for any reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Completed {
    /// Id of the container.
    pub id: ContainerId,
    /// Exit status, or Hadoop's reason below 0.
    pub exit_status: ContainerExitStatus,
    /// Diagnostics from the node or the ResourceManager.
    pub diagnostics: String,
}

/// A container update that the ResourceManager has granted, for the node to apply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Changed {
    /// Id of the container.
    pub id: ContainerId,
    /// Version after the update.
    pub version: i32,
    /// Execution type after the update.
    pub execution_type: ExecutionType,
    /// Token that makes the node apply the update; `None` when the ResourceManager sent none.
    pub token: Option<TokenProto>,
}

/// Reason for which a container update was refused (Hadoop: the reasons in `UpdateContainerError`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeRefusal {
    /// The update named another version.
    Version {
        /// Version at the ResourceManager.
        current: i32,
    },
    /// An earlier update is pending.
    Outstanding,
    /// The container has completed, or cannot be updated.
    Final,
}

/// Answer to a heartbeat.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// Newly allocated containers.
    pub granted: Vec<Granted>,
    /// Containers that have completed.
    pub completed: Vec<Completed>,
    /// Granted updates.
    pub changed: Vec<Changed>,
    /// Refused updates.
    pub refused: Vec<(ContainerId, ChangeRefusal)>,
}

/// Status of a container that its node knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seen {
    /// Is queued, or being localized.
    Waiting(ContainerId),
    /// Runs its command, or is about to end.
    Running(ContainerId),
    /// Has completed.
    Completed(Completed),
}

/// Reason for which the job ends without unregistration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Loss {
    /// The ResourceManager has been silent for as long as the configuration allows.
    Silent,
    /// The ResourceManager does not know this attempt any more.
    Disowned,
    /// The AM's node terminates the AM. The ResourceManager decides about the job.
    Terminated,
}

/// Input of the decisions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The ResourceManager has registered the AM; it has no asks of it.
    Registered {
        /// Largest container; `None` if the ResourceManager does not report it.
        largest: Option<Resource>,
    },
    /// The heartbeat was answered.
    Answered(Answer),
    /// The ResourceManager has lost the registration, as after its restart.
    Resync,
    /// The ResourceManager refuses the heartbeat for good, for this reason.
    AskRefused(String),
    /// The job cannot continue.
    Lost(Loss),
    /// A node has answered [`Action::Start`], or cannot be reached: then all containers are
    /// refused.
    Started {
        /// Containers that the node accepted.
        accepted: Vec<ContainerId>,
        /// Containers that the node refused, with the reason.
        refused: Vec<(ContainerId, String)>,
    },
    /// A node has answered [`Action::PollStatus`].
    StatusPolled {
        /// Node that was polled.
        node: NodeId,
        /// Statuses of the containers that the node knows. `None`: the node cannot be reached.
        seen: Option<Vec<Seen>>,
    },
    /// A node has answered [`Action::Update`], or cannot be reached.
    Updated {
        /// Node that was called.
        node: NodeId,
        /// Changes that the node has, or refuses for good.
        settled: Vec<(ContainerId, TokenProto)>,
        /// Whether other changes of the call must be sent again.
        has_failed: bool,
    },
    /// The user stops the job.
    Stop,
    /// Time has passed.
    Tick,
}

/// Line of an ask: the total of outstanding containers of one type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ask {
    /// Execution type, guaranteed or opportunistic.
    pub execution_type: ExecutionType,
    /// Number of outstanding containers; replaces the previous count.
    pub count: u32,
}

/// Promotion to ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Promote {
    /// Id of the container.
    pub id: ContainerId,
    /// Version of the container that is promoted.
    pub version: i32,
}

/// Contents of a heartbeat.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Heartbeat {
    /// Asks that have changed.
    pub asks: Vec<Ask>,
    /// Containers to release.
    pub releases: Vec<ContainerId>,
    /// Promotions to ask for.
    pub promotions: Vec<Promote>,
}

/// A container to start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ToStart {
    /// Id of the container.
    pub id: ContainerId,
    /// Number of its task, from 0.
    pub task: u32,
}

/// Output of the decisions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Register at the ResourceManager.
    Register,
    /// Send a heartbeat. At most one is unanswered.
    Allocate(Heartbeat),
    /// Start containers on a node, in one call.
    Start {
        /// Node to call.
        node: NodeId,
        /// Containers to start.
        containers: Vec<ToStart>,
    },
    /// Poll a node for the status of containers, in one call. At most one poll of a node is
    /// unanswered.
    PollStatus {
        /// Node to poll.
        node: NodeId,
        /// Ids of the containers.
        containers: Vec<ContainerId>,
    },
    /// Pass the new tokens of containers to their node, in one call. At most one such call of a
    /// node is unanswered.
    Update {
        /// Node to call.
        node: NodeId,
        /// Containers, each with its new token.
        changes: Vec<(ContainerId, TokenProto)>,
    },
    /// Stop containers on a node, in one call.
    StopContainers {
        /// Node to call.
        node: NodeId,
        /// Ids of the containers.
        containers: Vec<ContainerId>,
    },
    /// End the job: unregister with this result, unless the ResourceManager is lost. The last
    /// action.
    Finish {
        /// Result of the job.
        summary: Box<Summary>,
        /// Reason not to unregister; `None`: the AM unregisters.
        loss: Option<Loss>,
    },
}
