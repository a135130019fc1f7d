//! Effects: the work that the core leaves to the task that owns it.

use std::collections::BTreeMap;
use std::time::Duration;

use container_runtime::launch::{Adoption, ContainerSignal, LaunchTimings};
use event_record::Entry;
use launch_context::ServiceData;
use localize::{ResourceSpec, SetNumber, UsedSets, UserName};
use log_aggregation::policy::ContainerRole;
use node_view::outcome::{CacheUse, CallOutcome};
use records::{ApplicationId, ContainerId, NodeId, Resource};
use sched::{Completion, ContainerQueuingLimit, ContainerSpec, Note, Offer};
use wire::token::Token;

use crate::call::Asker;
use crate::order::{LaunchOrder, LinkOrder, LogOrder, StoreOrder};

/// Work outside of the core. The task performs effects in the order in which the core returns them,
/// before the caller whose call caused them gets its answer. None of them waits for a disk, a
/// process or a peer.
#[derive(Debug)]
pub enum Effect {
    /// Notify auxiliary services that a container begins. What it brings for them follows.
    ContainerInitialized(Box<ServedContainer>),
    /// Notify auxiliary services of the end of a container that they know.
    ContainerStopped(Box<ServedContainer>),
    /// Pass on what a container brings for auxiliary services.
    InitializeApplication {
        /// Id of the application.
        id: ApplicationId,
        /// User of the application.
        user: UserName,
        /// Data by the service's name; not empty.
        service_data: BTreeMap<String, ServiceData>,
    },
    /// Have the file systems know the application's user by these tokens, too, in a secure cluster.
    Tokens {
        /// Id of the application.
        id: ApplicationId,
        /// Tokens of a launch context; not empty.
        tokens: Vec<Token>,
    },
    /// Forget the tokens of an application that needs no file system any more.
    ForgetTokens(ApplicationId),
    /// Localize the resources of a container. An event reports the result.
    Localize {
        /// Id of the container.
        id: ContainerId,
        /// User of the container's application.
        user: UserName,
        /// Names of links in the work directory, each with its resource.
        resources: Vec<(String, ResourceSpec)>,
        /// Set of the container that the resources belong to.
        set: SetNumber,
        /// Use of the resources.
        purpose: LocalizeFor,
    },
    /// Release resources that a container has replaced and cannot go back to.
    UseSets {
        /// Id of the container.
        id: ContainerId,
        /// Sets that the container uses.
        sets: UsedSets,
    },
    /// Make links to further resources in the work folder of a running container.
    Link(Box<LinkOrder>),
    /// Create the directories of a container and start its process, on a launch thread. Events
    /// report the result.
    Launch(Box<LaunchOrder>),
    /// Freeze a container. An event reports the result.
    Pause(ContainerId),
    /// Thaw a container. An event reports the result.
    Resume(ContainerId),
    /// Apply the limits of a container whose size or type has changed.
    ApplyLimits(ContainerSpec),
    /// Apply the limits of the node, whose capacity has changed.
    SetNodeResource(Resource),
    /// Publish the identifier of the registration, which this node's own container tokens name.
    SetRmIdentifier(i64),
    /// Publish the limit of queues, which the ResourceManager has changed, to the AMRMProxy.
    SetQueuingLimit(ContainerQueuingLimit),
    /// Send SIGTERM to all processes of a container.
    Terminate(ContainerId),
    /// Send SIGKILL to all processes of a container.
    ForceKill(ContainerId),
    /// Signal the process group of a container. An event reports the text for its diagnostics.
    Signal {
        /// Id of the container.
        id: ContainerId,
        /// User of the container's application.
        user: UserName,
        /// Signal to send.
        signal: ContainerSignal,
    },
    /// Release the cached resources of a container whose localization was ordered.
    ReleaseResources(ContainerId),
    /// Forget what became of the resources of a container that is known no more.
    ForgetResources(ContainerId),
    /// Delete the directories of a container that has ended, in the background.
    CleanUp {
        /// Id of the container.
        id: ContainerId,
        /// User of the container's application.
        user: UserName,
    },
    /// Release the resources of an application except its logs.
    FinishApplication {
        /// Id of the application.
        id: ApplicationId,
        /// User of the application.
        user: UserName,
    },
    /// End the pipelines of an application in the AMRMProxy.
    EndPipelines(ApplicationId),
    /// Aggregate logs. Events report the outcomes of uploads.
    Logs(LogOrder),
    /// Delete the logs of an application.
    DeleteLogs(ApplicationId),
    /// Take over the process of an earlier agent's container. Events report its end.
    Adopt(Box<Adoption>),
    /// Store or forget a record for the next agent.
    Store(StoreOrder),
    /// Give up the first process of a container, which has ended, once all records so far are
    /// committed: they tell its end.
    Reap {
        /// Id of the container.
        id: ContainerId,
        /// The process; `None`: the container's last.
        pid: Option<i32>,
    },
    /// Record what the scheduler got and how it answered; not empty. Losing some is no harm, if
    /// [`crate::WorkerEvent::RecordAnew`] follows.
    Record(Vec<Entry>),
    /// Notify the callers that wait for the end of all containers.
    AllEnded,
    /// Send a heartbeat out of turn.
    HeartbeatNow,
    /// Offer room to the proxy on a node. [`WorkerEvent::OfferAnswered`](crate::WorkerEvent)
    /// follows.
    Offer(Box<Offer<NodeId>>),
    /// Tell metrics and audit log what was decided or observed.
    Observe(Observed),
}

/// Container as auxiliary services see it (Hadoop: `ContainerContext`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServedContainer {
    /// Id, size and execution type.
    pub spec: ContainerSpec,
    /// User of the application.
    pub user: UserName,
    /// Role in the application.
    pub role: ContainerRole,
}

/// Use of localized resources.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LocalizeFor {
    /// For the container's first launch.
    Start,
    /// For the running process, by `localize`, in the set that was in force then.
    Running,
    /// For the launch context of a re-initialization.
    Reinit,
}

/// Stage of a re-initialization.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReinitStage {
    /// A caller or a failure has asked for it.
    Started,
    /// The container is being launched with the launch context that was asked for.
    Finished,
}

/// Decision or observation that metrics count or the audit log names.
#[derive(Clone, Debug)]
pub enum Observed {
    /// Decision of the scheduler.
    Note(Note),
    /// `startContainers` accepted a container.
    Accepted {
        /// Id of the container.
        id: ContainerId,
        /// Caller of `startContainers`.
        asker: Asker,
    },
    /// `stopContainers` named a container.
    StopRequested {
        /// Id of the container.
        id: ContainerId,
        /// Caller of `stopContainers`.
        asker: Asker,
    },
    /// A running container is launched again in its place, after a re-initialization, a restart
    /// or a rollback.
    Reinit {
        /// Id of the container.
        id: ContainerId,
        /// User of the container's application.
        user: UserName,
        /// Whether this is the beginning or the end of it.
        stage: ReinitStage,
    },
    /// A container has completed.
    Completed {
        /// Id and exit status of the container.
        completion: Completion,
        /// User of the container's application; `None` if the container is not known any more.
        user: Option<UserName>,
    },
    /// A localization has succeeded or failed.
    Localized {
        /// Id of the container.
        id: ContainerId,
        /// Result of the localization.
        outcome: CallOutcome,
        /// Time from the order to the localizer until its answer.
        took: Duration,
        /// Size in bytes of each resource, and whether the cache held it. Empty after a failure.
        resources: Vec<(CacheUse, u64)>,
    },
    /// A container's process exists.
    Launched {
        /// Id of the container.
        id: ContainerId,
        /// Durations measured by the launch thread.
        timings: LaunchTimings,
        /// Duration since `startContainers` accepted the container.
        total: Duration,
    },
    /// Logs of an application were uploaded, or an upload has failed.
    LogsUploaded {
        /// Result of the upload.
        outcome: CallOutcome,
        /// Number of files.
        files: u64,
        /// Size of the files in bytes.
        bytes: u64,
    },
    /// A launch thread could not start a process.
    LaunchFailed,
    /// A proxy has answered an offer of room.
    OfferAnswered {
        /// Tasks that it has bound to the room.
        bound: u32,
    },
}
