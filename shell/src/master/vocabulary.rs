//! What the master's decisions are told and what they order: the whole vocabulary in and out.

use records::{ContainerExitStatus, ContainerId, ExecutionType, NodeId, Resource};

use crate::summary::Summary;

/// A container that the ResourceManager gives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Granted {
    /// Which one.
    pub id: ContainerId,
    /// Where.
    pub node: NodeId,
    /// `host:port` of the node's pages; may be empty.
    pub node_http: String,
    /// Guaranteed or opportunistic.
    pub execution_type: ExecutionType,
    /// The number of the ask that it answers; see [`super::asks`].
    pub allocation_request_id: i64,
    /// Counts its changes.
    pub version: i32,
}

/// A container that has ended, by whoever's account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Completed {
    /// Which one.
    pub id: ContainerId,
    /// How.
    pub exit_status: ContainerExitStatus,
    /// What the node or the ResourceManager says about it.
    pub diagnostics: String,
}

/// A change of a container that the ResourceManager has granted; the node is to be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Changed {
    /// Which one.
    pub id: ContainerId,
    /// Its version from now on.
    pub version: i32,
    /// Its type from now on.
    pub execution_type: ExecutionType,
}

/// Why a change was refused (Hadoop: the reasons in `UpdateContainerError`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeRefusal {
    /// The version is another.
    Version {
        /// The one that the ResourceManager has.
        current: i32,
    },
    /// An earlier change is not done.
    Outstanding,
    /// There is no such container any more, or it cannot be changed.
    Final,
}

/// The answer to a heartbeat.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// New containers.
    pub granted: Vec<Granted>,
    /// Containers that have ended.
    pub completed: Vec<Completed>,
    /// Changes that were granted.
    pub changed: Vec<Changed>,
    /// Changes that were not.
    pub refused: Vec<(ContainerId, ChangeRefusal)>,
}

/// How a node sees a container that it knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seen {
    /// It waits, or is being prepared.
    Waiting(ContainerId),
    /// Its command runs, or is about to end.
    Running(ContainerId),
    /// It has ended.
    Completed(Completed),
}

/// Why the job ends without a word to the ResourceManager.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Loss {
    /// It has not answered for as long as the configuration allows.
    Silent,
    /// It does not know this attempt any more.
    Disowned,
    /// The master's node ends the master. What becomes of the job is the ResourceManager's to say.
    Terminated,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The ResourceManager knows the master; it knows nothing of earlier asks.
    Registered {
        /// The largest container there is; `None` if the ResourceManager does not say.
        largest: Option<Resource>,
    },
    /// The heartbeat was answered.
    Answered(Answer),
    /// The ResourceManager has forgotten the registration, as after its restart.
    Resync,
    /// The ResourceManager refuses the heartbeat for good.
    AskRefused(String),
    /// There is no way on.
    Lost(Loss),
    /// A node has answered to [`Action::Start`], or cannot be reached: then all are refused.
    Started {
        /// Those that it took.
        accepted: Vec<ContainerId>,
        /// Those that it did not take, and why.
        refused: Vec<(ContainerId, String)>,
    },
    /// A node has answered to [`Action::Look`].
    Looked {
        /// Which node.
        node: NodeId,
        /// Its containers, without those that it does not know. `None`: it cannot be reached.
        seen: Option<Vec<Seen>>,
    },
    /// The user has had enough.
    Stop,
    /// Time has passed.
    Tick,
}

/// A line of what the master wants: so many containers of one type, in all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ask {
    /// Guaranteed or opportunistic.
    pub execution_type: ExecutionType,
    /// How many are still missing; replaces what was asked before.
    pub count: u32,
}

/// A promotion to ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Promote {
    /// Which container.
    pub id: ContainerId,
    /// The version that it has.
    pub version: i32,
}

/// What a heartbeat carries.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Heartbeat {
    /// Asks that have changed.
    pub asks: Vec<Ask>,
    /// Containers to give back.
    pub releases: Vec<ContainerId>,
    /// Promotions to ask for.
    pub promotions: Vec<Promote>,
}

/// A container to start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ToStart {
    /// Which container.
    pub id: ContainerId,
    /// For which task, from 0.
    pub task: u32,
}

/// What to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Register at the ResourceManager.
    Register,
    /// Send a heartbeat. There is never more than one unanswered.
    Allocate(Heartbeat),
    /// Have a node start containers, in one call.
    Start {
        /// Which node.
        node: NodeId,
        /// What to start.
        containers: Vec<ToStart>,
    },
    /// Ask a node how containers are, in one call. There is never more than one unanswered for a node.
    Look {
        /// Which node.
        node: NodeId,
        /// Which containers.
        containers: Vec<ContainerId>,
    },
    /// Show a node the new token of a container.
    Update {
        /// Which node.
        node: NodeId,
        /// Which container.
        container: ContainerId,
    },
    /// Have a node stop containers, in one call.
    StopContainers {
        /// Which node.
        node: NodeId,
        /// Which containers.
        containers: Vec<ContainerId>,
    },
    /// The job is over: unregister with this, unless the ResourceManager is lost. The last action.
    Finish {
        /// How it went.
        summary: Box<Summary>,
        /// Why the ResourceManager is not to be told; `None`: it is.
        loss: Option<Loss>,
    },
}
