//! What checkers see of a run: facts of the simulated world, in the order in which they happen.
//! Facts come from the outside of the code under test, except for the scheduler's own notes.

use std::collections::BTreeSet;

use records::{ApplicationAttemptId, ContainerId, ExecutionType, Resource};
use sched::Note;

/// Containers that an agent knows at its start.
#[derive(Clone, Debug, Default)]
pub struct Known {
    /// All containers, ended or not.
    pub all: BTreeSet<ContainerId>,
    /// Containers that are past the queue: launched before, or ended.
    pub begun: BTreeSet<ContainerId>,
    /// Containers that wait to be started, in the order of the queue of their type.
    pub waiting: Vec<(ContainerId, ExecutionType)>,
    /// Containers that hold an allocation and are not to end, in the order of their starts.
    pub started: Vec<(ContainerId, ExecutionType)>,
}

/// Fact about a run.
#[derive(Clone, Debug)]
pub enum Observation {
    /// An answer gave a container to the AM.
    Allocated {
        /// The container, of the AM's attempt.
        id: ContainerId,
        /// Node on which it may be started.
        node: usize,
    },
    /// The ResourceManager launches an AM in a container.
    MasterLaunched {
        /// The container, of the AM's attempt.
        id: ContainerId,
        /// Node on which it is started.
        node: usize,
    },
    /// An answer told the AM that a container has ended.
    Completed {
        /// Attempt whose AM got the answer.
        attempt: ApplicationAttemptId,
        /// The container.
        id: ContainerId,
        /// Exit status that the AM was told.
        status: i32,
    },
    /// An AM ended, in order or not.
    MasterGone(ApplicationAttemptId),
    /// A node answered that a start was accepted, which is a promise. The answer may be lost.
    StartAcknowledged {
        /// Node that answered.
        node: usize,
        /// The container.
        id: ContainerId,
    },
    /// A node answered that a stop was accepted.
    StopAcknowledged {
        /// Node that answered.
        node: usize,
        /// The container.
        id: ContainerId,
    },
    /// A node has accepted that a container is launched again in its place.
    Restarts {
        /// Node that runs it.
        node: usize,
        /// The container.
        id: ContainerId,
    },
    /// A process of a container exists.
    ProcessStarted {
        /// Node that runs it.
        node: usize,
        /// The container.
        id: ContainerId,
        /// Size of the container.
        resource: Resource,
    },
    /// The processes of a container are gone.
    ProcessEnded {
        /// Node that ran them.
        node: usize,
        /// The container.
        id: ContainerId,
        /// Exit status of the first process.
        status: i32,
        /// Whether it ended by itself, and not by a signal or with the machine.
        by_itself: bool,
    },
    /// The processes of a container were frozen or thawed.
    Frozen {
        /// Node that runs them.
        node: usize,
        /// The container.
        id: ContainerId,
        /// Whether they are frozen now.
        is_frozen: bool,
    },
    /// A request to the ResourceManager leaves the node and says that a container has ended.
    EndTold {
        /// The node.
        node: usize,
        /// The container.
        id: ContainerId,
    },
    /// The agent ordered the end of a container's processes.
    EndOrdered {
        /// Node of the agent.
        node: usize,
        /// The container.
        id: ContainerId,
        /// Whether by SIGKILL.
        by_force: bool,
        /// Whether there are processes, or a launch under way. An agent that takes over a container
        /// which restarts orders the end of its process, which may have ended with the machine.
        reaches: bool,
    },
    /// A decision of a node's scheduler.
    Noted {
        /// Node of the scheduler.
        node: usize,
        /// The decision.
        note: Note,
    },
    /// A node has handled the answer to a heartbeat.
    HeartbeatHandled {
        /// The node.
        node: usize,
        /// Length that the ResourceManager allows the queue of opportunistic containers.
        limit: Option<usize>,
    },
    /// A node cleans up after a container, which has ended or will not start.
    Done {
        /// The node.
        node: usize,
        /// The container.
        id: ContainerId,
    },
    /// A node may forget a container: its AM has learned of the end.
    Forgettable {
        /// The node.
        node: usize,
        /// The container.
        id: ContainerId,
    },
    /// A node may forget an application and all of its containers, which it must end.
    ApplicationOver {
        /// The node.
        node: usize,
        /// The application.
        id: records::ApplicationId,
    },
    /// An agent has ended without warning.
    AgentGone {
        /// Node of the agent.
        node: usize,
        /// Whether the machine has ended with it.
        with_machine: bool,
    },
    /// An agent has started and taken over what the one before has left.
    AgentStarted {
        /// Node of the agent.
        node: usize,
        /// Containers that the agent knows.
        known: Known,
    },
    /// The ResourceManager has forgotten everything.
    ResourceManagerRestarted,
}

impl Observation {
    /// Returns the container that the fact is about.
    #[must_use]
    pub fn container(&self) -> Option<ContainerId> {
        match self {
            Self::Allocated { id, .. }
            | Self::MasterLaunched { id, .. }
            | Self::Completed { id, .. }
            | Self::StartAcknowledged { id, .. }
            | Self::StopAcknowledged { id, .. }
            | Self::Restarts { id, .. }
            | Self::ProcessStarted { id, .. }
            | Self::ProcessEnded { id, .. }
            | Self::Frozen { id, .. }
            | Self::EndTold { id, .. }
            | Self::EndOrdered { id, .. }
            | Self::Done { id, .. }
            | Self::Forgettable { id, .. } => Some(*id),
            Self::Noted { note, .. } => Some(subject(note)),
            Self::MasterGone(_)
            | Self::HeartbeatHandled { .. }
            | Self::ApplicationOver { .. }
            | Self::AgentGone { .. }
            | Self::AgentStarted { .. }
            | Self::ResourceManagerRestarted => None,
        }
    }

    /// Returns the node on which the fact happened.
    #[must_use]
    pub const fn node(&self) -> Option<usize> {
        match self {
            Self::Allocated { node, .. }
            | Self::MasterLaunched { node, .. }
            | Self::StartAcknowledged { node, .. }
            | Self::StopAcknowledged { node, .. }
            | Self::Restarts { node, .. }
            | Self::ProcessStarted { node, .. }
            | Self::ProcessEnded { node, .. }
            | Self::Frozen { node, .. }
            | Self::EndTold { node, .. }
            | Self::EndOrdered { node, .. }
            | Self::Noted { node, .. }
            | Self::HeartbeatHandled { node, .. }
            | Self::Done { node, .. }
            | Self::Forgettable { node, .. }
            | Self::ApplicationOver { node, .. }
            | Self::AgentGone { node, .. }
            | Self::AgentStarted { node, .. } => Some(*node),
            Self::Completed { .. } | Self::MasterGone(_) | Self::ResourceManagerRestarted => None,
        }
    }
}

/// Returns the container that a decision is about.
fn subject(note: &Note) -> ContainerId {
    match note {
        Note::Queued { id, .. }
        | Note::Started { id, .. }
        | Note::Passed { id, .. }
        | Note::LargerThanNode { id, .. }
        | Note::Rejected { id, .. }
        | Note::Shed { id, .. }
        | Note::Evicted { id, .. }
        | Note::Drained { id, .. }
        | Note::PausedKilled { id, .. }
        | Note::Retried { id, .. }
        | Note::Promoted(id)
        | Note::Demoted(id) => *id,
    }
}
