//! The whole vocabulary of the container scheduler: what may happen to it, what it orders, why, and what it refuses.

use records::{
    ApplicationId, ContainerExitStatus, ContainerId, ExecutionType, MonoMillis, Resource,
};
use thiserror::Error;

/// A container as its token describes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContainerSpec {
    /// Its id.
    pub id: ContainerId,
    /// What it was promised (guaranteed) or may use while there is room (opportunistic).
    pub resource: Resource,
    /// Whether its resources are promised.
    pub execution_type: ExecutionType,
    /// Rises with each update of the container; 0 at first.
    pub version: i32,
}

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// `startContainers` accepted this container; its resources are to be localized.
    Start(ContainerSpec),
    /// Everything the container needs is on the local disk.
    Localized(ContainerId),
    /// Something it needs could not be had.
    LocalizationFailed {
        /// Which container.
        id: ContainerId,
        /// For the AM and people.
        diagnostics: String,
    },
    /// Answer to [`Action::Launch`]: its process exists.
    Launched(ContainerId),
    /// Answer to [`Action::Launch`]: no process came to be.
    LaunchFailed {
        /// Which container.
        id: ContainerId,
        /// Usually [`ContainerExitStatus::LAUNCH_FAILED`], or [`ContainerExitStatus::TERMINATED`] when
        /// [`Action::Terminate`] or [`Action::ForceKill`] came before the process was made.
        status: ContainerExitStatus,
        /// For the AM and people.
        diagnostics: String,
    },
    /// Its process and all that it started are gone, so its room is free. What there is to say of its end follows with
    /// `Exited`, when what it wrote has been read. May be left out.
    ProcessesGone(ContainerId),
    /// Its process and all that it started are gone, and this is how it ended.
    Exited {
        /// Which container.
        id: ContainerId,
        /// The process's own status, 128 + signal when it was signalled.
        status: ContainerExitStatus,
        /// What its error output says, for the AM and people; may be empty.
        diagnostics: String,
    },
    /// Answer to [`Action::Pause`]: it is frozen.
    Paused {
        /// Which container.
        id: ContainerId,
        /// Mebibytes that its processes hold, as measured; `None`: all that it was given.
        held_mb: Option<u64>,
    },
    /// What a frozen container holds was measured again, say after its memory was pressed back. One that is not frozen
    /// any more is passed over.
    FrozenMemory {
        /// Which container.
        id: ContainerId,
        /// Mebibytes that its processes hold.
        held_mb: u64,
    },
    /// Answer to [`Action::Resume`]: it runs again.
    Resumed(ContainerId),
    /// Answer to [`Action::Pause`] or [`Action::Resume`]: it did not work, so the container must be killed.
    PauseFailed(ContainerId),
    /// Answer to [`Action::CleanUp`]: its directories and cache references are given back.
    CleanedUp(ContainerId),
    /// Somebody wants it gone.
    Kill {
        /// Which container.
        id: ContainerId,
        /// Who and why.
        reason: KillReason,
    },
    /// All containers of an application are to be killed.
    KillApplication {
        /// Which application.
        id: ApplicationId,
        /// Who and why.
        reason: KillReason,
    },
    /// A verified container token changes size or execution type (promotion, demotion), or both.
    Update(ContainerSpec),
    /// What the node offers has changed.
    NodeResource(Resource),
    /// The limit that the RM published with a heartbeat.
    QueuingLimit(ContainerQueuingLimit),
    /// The ResourceManager is about to be told how long a new container would wait: work it out from what runs and waits
    /// now. Costs a look at every container, so it belongs to a heartbeat.
    EstimateWaits,
    /// The RM has acknowledged the completion (or the application is gone): forget the container. One that is not
    /// finished yet is forgotten when it is.
    Forget(ContainerId),
    /// Something was done to the container that its AM and people should read of. Changes nothing but its diagnostics;
    /// those of a finished one are final and stay as they are.
    Annotate {
        /// Which container.
        id: ContainerId,
        /// What was done.
        diagnostics: String,
    },
    /// The node's local time is this many seconds ahead of UTC from now on. Diagnostics are stamped in local time.
    UtcOffset {
        /// Seconds east of UTC.
        seconds: i32,
    },
    /// [`crate::ContainerScheduler::next_deadline`] has come.
    Tick,
}

/// Something the caller must do, in the order given.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum Action {
    /// Bring its resources to the local disk; answer `Localized` or `LocalizationFailed`.
    Localize(ContainerId),
    /// Start its process; answer `Launched` or `LaunchFailed`, later `ProcessesGone` and `Exited`.
    Launch(ContainerId),
    /// Freeze it; answer `Paused` or `PauseFailed`. May follow `Resume` before that is answered: the answers of one
    /// container come in the order of its actions.
    Pause(ContainerId),
    /// Thaw it; answer `Resumed` or `PauseFailed`.
    Resume(ContainerId),
    /// Ask all its processes to end (SIGTERM), thawing them first if they are frozen. `Exited` follows when they have.
    ///
    /// It may come before `Launch` is answered. Then the launcher either does not make the process and answers
    /// `LaunchFailed`, or makes it and ends it, and answers `Launched` and `Exited`.
    Terminate(ContainerId),
    /// End all its processes (SIGKILL), thawing them if a frozen process takes no signal. `Exited` follows. May come
    /// before `Launch` is answered, like `Terminate`.
    ForceKill(ContainerId),
    /// Its limits changed: size or execution type.
    ApplyLimits(ContainerSpec),
    /// Give back its directories and cache references, and give up its localization if that still goes on; answer
    /// `CleanedUp`.
    CleanUp(ContainerId),
    /// It is finished and its exit status is final: tell the RM at once.
    Completed(Completion),
    /// For metrics, logs and the live page; nothing depends on it.
    Note(Note),
}

/// The end of a container. Each container has exactly one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Completion {
    /// Which container.
    pub id: ContainerId,
    /// Final.
    pub exit_status: ContainerExitStatus,
    /// Its type at the end.
    pub execution_type: ExecutionType,
}

/// A decision and its reason, as people and metrics see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Note {
    /// It waits for room; its place in the queue counts from 1.
    Queued {
        /// Which container.
        id: ContainerId,
        /// Its type.
        execution_type: ExecutionType,
        /// 1 is the head.
        position: usize,
    },
    /// It is being launched, or resumed after a pause.
    Started {
        /// Which container.
        id: ContainerId,
        /// Its type.
        execution_type: ExecutionType,
        /// Milliseconds since it joined the queue of its type: since it became ready to run, was frozen, or was promoted
        /// or demoted while it waited.
        queue_wait_ms: u64,
        /// Milliseconds that the ResourceManager was told a new container would wait when this one, opportunistic, became
        /// ready; `None` if it was told nothing, or the container was resumed or its type changed. Of others that came
        /// since the last heartbeat it knows nothing: it tells what the ResourceManager could know, not what this
        /// container was to expect.
        told_wait_ms: Option<u64>,
        /// Milliseconds that this container was expected to wait from when it became ready, at the place in the queue that
        /// it had at the first heartbeat after that. `None` if it started before, if no container had ended on this node so
        /// that nothing was known, and in the cases above.
        estimated_wait_ms: Option<u64>,
        /// It had been paused before.
        resumed: bool,
    },
    /// An opportunistic container was not admitted to the queue.
    Rejected {
        /// Which container.
        id: ContainerId,
        /// Why.
        reason: RejectReason,
    },
    /// An opportunistic container was taken out of the queue because the RM's limit dropped.
    Shed {
        /// Which container.
        id: ContainerId,
        /// Which of the limits.
        reason: ShedReason,
    },
    /// A running opportunistic container is killed or paused to make room.
    Evicted {
        /// The victim.
        id: ContainerId,
        /// The guaranteed container that needs the room.
        for_container: ContainerId,
        /// Frozen, not killed.
        paused: bool,
        /// Milliseconds that the victim had run, over all its thaws: the work that a kill throws away.
        ran_ms: u64,
    },
    /// A frozen container is killed after all.
    PausedKilled {
        /// Which container.
        id: ContainerId,
        /// Why it cannot stay frozen.
        reason: PauseEnd,
        /// Milliseconds since it was frozen.
        paused_ms: u64,
        /// Milliseconds that it had run: the work that is thrown away.
        ran_ms: u64,
    },
    /// Its execution type was raised to guaranteed.
    Promoted(ContainerId),
    /// Its execution type was lowered to opportunistic.
    Demoted(ContainerId),
}

/// Why an opportunistic container may not wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RejectReason {
    /// No more may wait: `yarn.nodemanager.opportunistic-containers-max-queue-length` are waiting already or, under
    /// `BY_RESOURCES`, what runs and waits leaves no room on the node.
    QueueFull,
    /// It asks for more than the whole node has.
    NeverFits,
}

/// Which limit of the ResourceManager the queue exceeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShedReason {
    /// Too many waited.
    QueueLength {
        /// Queued containers that the RM allows.
        limit: usize,
    },
    /// It would have had to wait for too long.
    WaitTime {
        /// Milliseconds of wait that the RM allows.
        limit_ms: u64,
        /// Milliseconds that it would have waited from now on.
        estimated_ms: u64,
    },
}

/// Why a frozen container is killed instead of thawed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PauseEnd {
    /// It has been frozen for [`crate::ContainerSchedulerConfig::pause_max_ms`].
    TooLong,
    /// Running and frozen containers together hold more memory than they may.
    MemoryNeeded,
}

/// Who wants a container gone and why. Decides its exit status and diagnostics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KillReason {
    /// `stopContainers` by its AM: -105.
    ApplicationMaster,
    /// Named in a heartbeat's `containers_to_cleanup`, or a resync without work preservation: -106.
    ResourceManager,
    /// Its application ended: -107.
    ApplicationFinished,
    /// It came when its application had ended already: -107.
    ApplicationNotRunning,
    /// The agent stops: -107.
    Shutdown,
    /// It uses more virtual memory than it may: -103.
    ExceededVmem,
    /// It uses more physical memory than it may: -104.
    ExceededPmem,
}

/// What the RM allows to wait on this node (Hadoop: `ContainerQueuingLimit`, heartbeat response field 15).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContainerQueuingLimit {
    /// Queued opportunistic containers; `None` (the wire's -1): no limit by length.
    pub max_queue_length: Option<usize>,
    /// Milliseconds of estimated wait; `None` (the wire's -1): no limit by time.
    pub max_queue_wait_time_ms: Option<u64>,
}

/// An event from outside that does not fit what is known. The caller answers its peer with it; nothing has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Refusal {
    /// No such container.
    #[error("container {0} is not handled by this NodeManager")]
    UnknownContainer(ContainerId),
    /// A container with this id is known already.
    #[error("container {0} already is running on this node")]
    AlreadyKnown(ContainerId),
    /// As many containers are known as the agent is made for; see [`crate::CONTAINERS_MAX`].
    #[error("this node knows {0} containers already, which is its limit")]
    TooManyContainers(usize),
    /// The update is not newer than what is in force.
    #[error("container {id} has update version [{current}] >= requested version [{requested}]")]
    VersionNotGreater {
        /// Which container.
        id: ContainerId,
        /// In force.
        current: i32,
        /// Asked for.
        requested: i32,
    },
    /// An answer to an action that was not given, or was answered before: a fault of the caller's own parts, worth a
    /// line in the log. Late answers for a container that was killed meanwhile are not refused.
    #[error("container {id} in state {state} cannot take the answer {answer}")]
    UnexpectedAnswer {
        /// Which container.
        id: ContainerId,
        /// Its state, by Hadoop's name.
        state: &'static str,
        /// The event's name.
        answer: &'static str,
    },
}

/// Numbers for the heartbeat (Hadoop: `OpportunisticContainersStatus`), always those of the containers at hand: a
/// promotion or demotion cannot make them drift.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpportunisticContainersStatus {
    /// Opportunistic containers that hold room: their launch is ordered, they run, or they are being ended or frozen.
    pub running_opport_containers: u32,
    /// Their memory in mebibytes. The wire field is in gibibytes, rounded up.
    pub opport_memory_used_mb: u64,
    /// Their virtual cores.
    pub opport_cores_used: u32,
    /// Opportunistic containers waiting or paused.
    pub queued_opport_containers: u32,
    /// All waiting containers of both types: what the RM orders nodes by.
    pub wait_queue_length: u32,
    /// Milliseconds that one more opportunistic container of the size last seen would wait, as of the last
    /// [`Event::EstimateWaits`]; `None` if it would not be admitted to the queue.
    pub estimated_queue_wait_ms: Option<u32>,
    /// How many opportunistic containers may wait. Under `BY_RESOURCES` the length is not what limits the queue, and
    /// [`crate::QUEUE_LENGTH_MAX`] is reported: Hadoop's 0 would keep the RM from placing any.
    pub opport_queue_capacity: u32,
}

/// One container that waits for room, paused or not yet started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueuedContainer {
    /// Which container.
    pub id: ContainerId,
    /// Which queue it is in.
    pub execution_type: ExecutionType,
    /// It has a frozen process and will be resumed.
    pub paused: bool,
}

/// One container without its diagnostics: costs nothing to make, for readers that look at many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContainerSummary {
    /// Id, size, type and version in force.
    pub spec: ContainerSpec,
    /// Where it is in its life.
    pub state: crate::ContainerState,
    /// When the current state was entered.
    pub since: MonoMillis,
}

/// One container as others may see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContainerView {
    /// Id, size, type and version in force.
    pub spec: ContainerSpec,
    /// Where it is in its life.
    pub state: crate::ContainerState,
    /// [`ContainerExitStatus::INVALID`] until something set it.
    pub exit_status: ContainerExitStatus,
    /// For the AM and people; bounded.
    pub diagnostics: String,
    /// When the current state was entered.
    pub since: MonoMillis,
}
