//! Events of the simulated world and messages between its parts.

use node_core::WorkerEvent;
use records::{ApplicationAttemptId, ContainerId};
use sched::ContainerSpec;
use sim_agent::{Each, Start};
use wire::proto::hadoop_common::TokenProto;
use wire::proto::hadoop_yarn::{
    AllocateRequestProto, AllocateResponseProto, ContainerLaunchContextProto,
    NodeHeartbeatRequestProto, NodeHeartbeatResponseProto, RegisterNodeManagerRequestProto,
    RegisterNodeManagerResponseProto, StringLocalResourceMapProto,
};
use wire::token::Token;

use crate::fault::Fault;
use crate::plan::Plan;

/// A machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Host {
    /// The ResourceManager's.
    Rm,
    /// A node.
    Node(usize),
}

/// Caller. A restarted program is another caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Client {
    /// An agent: its node and its incarnation.
    Agent(usize, u32),
    /// An AM.
    Master(ApplicationAttemptId),
    /// The ResourceManager's launcher of AMs, in an incarnation of the ResourceManager.
    Launcher(u32),
}

/// A call and its answer belong together by caller and number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// Caller of the method.
    pub client: Client,
    /// Machine on which the caller runs.
    pub from: Host,
    /// Number of the call, unique in a run.
    pub number: u64,
}

/// A request.
#[derive(Clone, Debug)]
pub enum Request {
    /// `registerNodeManager`.
    RegisterNode(Box<RegisterNodeManagerRequestProto>),
    /// `nodeHeartbeat`.
    Heartbeat(Box<NodeHeartbeatRequestProto>),
    /// `registerApplicationMaster`, by the process that began at this time.
    RegisterMaster(ApplicationAttemptId, u64),
    /// `allocate`.
    Allocate(ApplicationAttemptId, Box<AllocateRequestProto>),
    /// `finishApplicationMaster`.
    FinishMaster(ApplicationAttemptId),
    /// `startContainers`, on a connection opened with an NMToken.
    Start(Box<(Token, Vec<Start>)>),
    /// `stopContainers`.
    Stop(Box<(Token, Vec<ContainerId>)>),
    /// `updateContainer`.
    Update(Box<(Token, Vec<TokenProto>)>),
    /// A change of a running container.
    Change(Box<(Token, ContainerId, Change)>),
}

/// Change of a running container.
#[derive(Clone, Debug)]
pub enum Change {
    /// `localize`.
    Localize(Vec<StringLocalResourceMapProto>),
    /// `reInitializeContainer`, and whether the way back is given up at once.
    Reinitialize(Box<ContainerLaunchContextProto>, bool),
    /// `restartContainer`.
    Restart,
    /// `rollbackLastReInitialization`.
    RollBack,
    /// `commitLastReInitialization`.
    Commit,
}

/// An answer.
#[derive(Clone, Debug)]
pub enum Reply {
    /// To a registration of a node.
    NodeRegistered(Box<RegisterNodeManagerResponseProto>),
    /// To a heartbeat.
    Heartbeat(Box<NodeHeartbeatResponseProto>),
    /// To a registration or the end of an AM.
    Done,
    /// To an allocate call.
    Allocated(Box<AllocateResponseProto>),
    /// To a call about containers.
    Each(Each),
    /// The call is refused as a whole, with this exception.
    Refused(String),
}

/// Event of an agent.
#[derive(Debug)]
pub enum AgentEvent {
    /// A heartbeat or registration is due.
    Beat,
    /// A deadline of the core.
    Tick,
    /// A commit of the store has ended.
    Committed,
    /// Result of a worker.
    Work(WorkerEvent),
    /// A launch thread creates the process of a container.
    Spawn(ContainerSpec, Plan),
    /// The owner of the cgroups freezes or thaws a container.
    Freeze(ContainerId, bool),
}

/// Event of a machine, which needs no agent.
#[derive(Debug)]
pub enum MachineEvent {
    /// A process ends, unless its end has been moved since.
    Ends {
        /// Container of the process.
        id: ContainerId,
        /// Number of changes to its end.
        change: u32,
        /// Exit status.
        status: i32,
        /// Whether it ends by itself.
        by_itself: bool,
    },
    /// A signal reaches the processes of a container; true: SIGKILL.
    Signal(ContainerId, bool),
    /// The machine or its agent starts again.
    AgentStarts,
}

/// Event of the world.
#[derive(Debug)]
pub enum Event {
    /// A request arrives.
    Request(Host, Call, Request),
    /// An answer arrives.
    Reply(Call, Reply),
    /// A caller waits no longer.
    Timeout(Call),
    /// Event of an agent: node and incarnation.
    Agent(usize, u32, AgentEvent),
    /// Event of a machine: node and number of its boots.
    Machine(usize, u32, MachineEvent),
    /// An AM's next step is due.
    Master(ApplicationAttemptId),
    /// The ResourceManager's next tick is due.
    RmTick(u32),
    /// A client submits the next application.
    Submit,
    /// A fault begins.
    Fault(Fault),
}
