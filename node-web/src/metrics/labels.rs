//! The closed sets of label values. A series can only carry a value listed here, so a peer cannot
//! make new series.

use node_view::outcome::{CacheUse, CallOutcome};
use node_view::snapshot::ContainerRestState;
use records::{ContainerExitStatus, ExecutionType};
use refusals::Reason;
use sched::{PassReason, PauseEnd, RejectReason, ShedReason};

/// A label whose values are the variants of an enum.
pub(super) trait Label: Copy + 'static {
    /// The label's name.
    const NAME: &'static str;
    /// Every value, in the order of [`Label::index`].
    const ALL: &'static [Self];
    /// Returns the text of the value in the exposition.
    fn value(self) -> &'static str;
    /// The place in [`Label::ALL`].
    fn index(self) -> usize;
}

/// Writes an enum together with its [`Label`], so that names and order stand in one place.
macro_rules! label {
    (
        $(#[$doc:meta])*
        $visibility:vis enum $name:ident, $label:literal {
            $( $(#[$variant_doc:meta])* $variant:ident => $value:literal, )+
        }
    ) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        $visibility enum $name {
            $( $(#[$variant_doc])* $variant, )+
        }

        label! { for $name, $label { $( $variant => $value, )+ } }
    };
    // The same for an enum of another crate.
    (for $name:ident, $label:literal { $( $variant:ident => $value:literal, )+ }) => {
        impl Label for $name {
            const NAME: &'static str = $label;
            const ALL: &'static [Self] = &[ $( Self::$variant, )+ ];

            fn value(self) -> &'static str {
                match self {
                    $( Self::$variant => $value, )+
                }
            }

            fn index(self) -> usize {
                self as usize
            }
        }
    };
}

label! {
    /// A port of this node.
    pub enum Port, "port" {
        /// Calls of ApplicationMasters to the NodeManager.
        ContainerManagement => "container_management",
        /// Calls of ApplicationMasters to the AMRMProxy.
        AmrmProxy => "amrm_proxy",
        /// Pages, REST, metrics.
        Web => "web",
        /// Fetches of reducers.
        Shuffle => "shuffle",
        /// Fetches and registrations of Spark's executors, of all services together.
        SparkShuffle => "spark_shuffle",
        /// Questions and orders of operators, on a Unix socket.
        Admin => "admin",
    }
}

impl Label for Reason {
    const NAME: &'static str = "reason";
    const ALL: &'static [Self] = Self::ALL;

    fn value(self) -> &'static str {
        self.as_str()
    }

    fn index(self) -> usize {
        self as usize
    }
}

label! {
    /// A method of ApplicationMasterProtocol.
    pub(super) enum ProxiedMethod, "method" {
        /// See its value.
        Register => "registerApplicationMaster",
        /// See its value.
        Allocate => "allocate",
        /// See its value.
        Finish => "finishApplicationMaster",
    }
}

label! {
    /// How near a container is to where it was asked for.
    pub(super) enum AllocationLocality, "locality" {
        /// On a host that was named.
        NodeLocal => "node_local",
        /// On a rack that was named.
        RackLocal => "rack_local",
        /// On any other node.
        OffSwitch => "off_switch",
    }
}

label! {
    /// Node of a container of a service with a role history.
    pub(super) enum PlacedOn, "node" {
        /// A node where the container's role had run.
        History => "history",
        /// Any other node.
        Other => "other",
    }
}

label! {
    /// Why the AMRMProxy held a call back.
    pub(super) enum Throttled, "reason" {
        /// Too many calls a second: delayed.
        CallRate => "call_rate",
        /// Too many calls at once: refused.
        CallsWaiting => "calls_waiting",
        /// Too many asks in one call: refused.
        AsksPerCall => "asks_per_call",
        /// Too many containers outstanding: refused.
        OutstandingContainers => "outstanding_containers",
    }
}

label! {
    /// A part of a container's launch.
    pub enum LaunchPhase, "phase" {
        /// Script, tokens and directories are written.
        Prepare => "prepare",
        /// From the order to start the process until it exists.
        Spawn => "spawn",
        /// From `startContainers` until the process exists; includes localization and queueing.
        Total => "total",
    }
}

label! {
    /// How a container ended, in classes that a dashboard can tell apart.
    pub enum Outcome, "outcome" {
        /// Exit status 0.
        Succeeded => "succeeded",
        /// The process ended with a status of its own.
        Failed => "failed",
        /// The process was signalled, without an order of this node.
        Signalled => "signalled",
        /// No process came to be.
        LaunchFailed => "launch_failed",
        /// A resource could not be localized, or nothing ever set a status.
        LocalizationFailed => "localization_failed",
        /// Stopped by its AM.
        KilledByApplicationMaster => "killed_by_appmaster",
        /// Stopped by the RM.
        KilledByResourceManager => "killed_by_resourcemanager",
        /// Stopped because its application ended or the agent stopped.
        KilledAfterApplication => "killed_after_app_completion",
        /// Rejected, shed or evicted by this node's scheduler.
        KilledByContainerScheduler => "killed_by_container_scheduler",
        /// Preempted, or pausing it did not work.
        Preempted => "preempted",
        /// Killed for using more memory than allowed.
        ExceededMemory => "exceeded_memory",
        /// Killed for logs that grew too large.
        ExceededLogs => "exceeded_logs",
        /// Lost, with its node or over a restart, or the disks failed.
        Lost => "lost",
        /// A status that Hadoop does not define.
        Unknown => "unknown",
    }
}

label! {
    for CallOutcome, "outcome" {
        Ok => "ok",
        Error => "error",
    }
}

label! {
    /// Methods of `ContainerManagementProtocol`. Calls of other methods count as
    /// [`RpcMethod::Other`].
    pub enum RpcMethod, "method" {
        /// Start of containers (`startContainers`).
        StartContainers => "startContainers",
        /// Stop of containers (`stopContainers`).
        StopContainers => "stopContainers",
        /// Statuses of containers (`getContainerStatuses`).
        GetContainerStatuses => "getContainerStatuses",
        /// Increase of resources, as old AMs ask for it (`increaseContainersResource`).
        IncreaseContainersResource => "increaseContainersResource",
        /// Update of resources or execution type (`updateContainer`).
        UpdateContainer => "updateContainer",
        /// Signal to a container (`signalToContainer`).
        SignalToContainer => "signalToContainer",
        /// Further resources of a running container (`localize`).
        Localize => "localize",
        /// New launch context in a running container (`reInitializeContainer`).
        ReInitializeContainer => "reInitializeContainer",
        /// Restart of the process (`restartContainer`).
        RestartContainer => "restartContainer",
        /// Return to the launch context before (`rollbackLastReInitialization`).
        RollbackLastReInitialization => "rollbackLastReInitialization",
        /// Confirmation of the new launch context (`commitLastReInitialization`).
        CommitLastReInitialization => "commitLastReInitialization",
        /// Statuses of resources (`getLocalizationStatuses`).
        GetLocalizationStatuses => "getLocalizationStatuses",
        /// Any other name.
        Other => "other",
    }
}

label! {
    for CacheUse, "cache" {
        Hit => "hit",
        Miss => "miss",
    }
}

label! {
    /// [`ExecutionType`] as a label.
    pub(super) enum TypeLabel, "execution_type" {
        Guaranteed => "guaranteed",
        Opportunistic => "opportunistic",
    }
}

label! {
    /// State of a container, in steps that a dashboard can tell apart.
    pub(super) enum StateLabel, "state" {
        Localizing => "localizing",
        Scheduled => "scheduled",
        Running => "running",
        Paused => "paused",
        Ending => "ending",
        Done => "done",
    }
}

label! {
    /// Resource that processes may have to wait for.
    pub(super) enum PressureLabel, "resource" {
        Cpu => "cpu",
        Io => "io",
        Memory => "memory",
    }
}

label! {
    /// How many of them wait.
    pub(super) enum StallLabel, "stalled" {
        Some => "some",
        All => "all",
    }
}

label! {
    /// Manner in which a running container gave up its resources.
    pub(super) enum How, "how" {
        Kill => "kill",
        Pause => "pause",
    }
}

label! {
    /// [`PauseEnd`] as a label.
    pub(super) enum PauseEndLabel, "reason" {
        TooLong => "too_long",
        MemoryNeeded => "memory_needed",
    }
}

label! {
    /// Cause of lost work.
    pub(super) enum LossLabel, "cause" {
        Evicted => "evicted",
        Drained => "drained",
        PausedTooLong => "paused_too_long",
        PausedMemoryNeeded => "paused_memory_needed",
    }
}

label! {
    /// [`ShedReason`] as a label.
    pub(super) enum ShedLabel, "limit" {
        QueueLength => "queue_length",
        Draining => "draining",
    }
}

label! {
    /// [`PassReason`] as a label.
    pub(super) enum PassLabel, "reason" {
        Order => "order",
        Backfill => "backfill",
    }
}

label! {
    /// Sign of an estimate's error.
    pub(super) enum ErrorSide, "side" {
        TooShort => "too_short",
        TooLong => "too_long",
    }
}

label! {
    /// [`RejectReason`] as a label.
    pub(super) enum RejectLabel, "reason" {
        QueueFull => "queue_full",
        NeverFits => "never_fits",
        Draining => "draining",
    }
}

label! {
    /// Change of a container's execution type.
    pub(super) enum Direction, "direction" {
        Promotion => "promotion",
        Demotion => "demotion",
    }
}

label! {
    /// Kind of node resource.
    pub(super) enum Share, "share" {
        Total => "total",
        Allocated => "allocated",
        Opportunistic => "opportunistic",
    }
}

impl RpcMethod {
    /// The method of this name; [`RpcMethod::Other`] for what the protocol does not have.
    #[must_use]
    pub fn from_name(name: &str) -> Self {
        Self::ALL
            .iter()
            .copied()
            .find(|method| method.value() == name)
            .unwrap_or(Self::Other)
    }
}

impl From<ExecutionType> for TypeLabel {
    fn from(execution_type: ExecutionType) -> Self {
        match execution_type {
            ExecutionType::Guaranteed => Self::Guaranteed,
            ExecutionType::Opportunistic => Self::Opportunistic,
        }
    }
}

impl From<ContainerRestState> for StateLabel {
    fn from(state: ContainerRestState) -> Self {
        use ContainerRestState as S;
        match state {
            S::Localizing => Self::Localizing,
            S::Scheduled | S::Relaunching | S::ReinitializingAwaitingKill => Self::Scheduled,
            S::Running | S::Pausing => Self::Running,
            S::Paused | S::Resuming => Self::Paused,
            S::Killing
            | S::ExitedWithSuccess
            | S::ExitedWithFailure
            | S::ContainerCleanedUpAfterKill
            | S::LocalizationFailed => Self::Ending,
            S::Done => Self::Done,
        }
    }
}

impl From<ShedReason> for ShedLabel {
    fn from(reason: ShedReason) -> Self {
        match reason {
            ShedReason::QueueLength { .. } => Self::QueueLength,
            ShedReason::Draining => Self::Draining,
        }
    }
}

impl From<PassReason> for PassLabel {
    fn from(reason: PassReason) -> Self {
        match reason {
            PassReason::Order { .. } => Self::Order,
            PassReason::Backfill { .. } => Self::Backfill,
        }
    }
}

impl From<PauseEnd> for PauseEndLabel {
    fn from(reason: PauseEnd) -> Self {
        match reason {
            PauseEnd::TooLong => Self::TooLong,
            PauseEnd::MemoryNeeded => Self::MemoryNeeded,
        }
    }
}

impl From<PauseEnd> for LossLabel {
    fn from(reason: PauseEnd) -> Self {
        match reason {
            PauseEnd::TooLong => Self::PausedTooLong,
            PauseEnd::MemoryNeeded => Self::PausedMemoryNeeded,
        }
    }
}

impl From<RejectReason> for RejectLabel {
    fn from(reason: RejectReason) -> Self {
        match reason {
            RejectReason::QueueFull => Self::QueueFull,
            RejectReason::NeverFits => Self::NeverFits,
            RejectReason::Draining => Self::Draining,
        }
    }
}

impl From<ContainerExitStatus> for Outcome {
    /// Classes of Hadoop's `ContainerExitStatus`; 154 is its `LOST`, for a container not found
    /// again after a restart.
    fn from(status: ContainerExitStatus) -> Self {
        match status {
            ContainerExitStatus::SUCCESS => Self::Succeeded,
            ContainerExitStatus::INVALID => Self::LocalizationFailed,
            ContainerExitStatus::LAUNCH_FAILED => Self::LaunchFailed,
            ContainerExitStatus::ABORTED
            | ContainerExitStatus::DISKS_FAILED
            | ContainerExitStatus(154) => Self::Lost,
            ContainerExitStatus::PREEMPTED => Self::Preempted,
            ContainerExitStatus::KILLED_EXCEEDED_VMEM
            | ContainerExitStatus::KILLED_EXCEEDED_PMEM => Self::ExceededMemory,
            ContainerExitStatus::KILLED_BY_APPMASTER => Self::KilledByApplicationMaster,
            ContainerExitStatus::KILLED_BY_RESOURCEMANAGER => Self::KilledByResourceManager,
            ContainerExitStatus::KILLED_AFTER_APP_COMPLETION => Self::KilledAfterApplication,
            ContainerExitStatus::KILLED_BY_CONTAINER_SCHEDULER => Self::KilledByContainerScheduler,
            ContainerExitStatus::KILLED_FOR_EXCESS_LOGS => Self::ExceededLogs,
            signalled if signalled.is_signalled() => Self::Signalled,
            ContainerExitStatus(1..=255) => Self::Failed,
            ContainerExitStatus(_) => Self::Unknown,
        }
    }
}

#[cfg(test)]
mod tests;
