//! Events: what goes into the container scheduler.

use records::{ApplicationId, ContainerExitStatus, ContainerId, Resource};
use serde::{Deserialize, Serialize};

#[cfg(doc)]
use crate::action::Action;
use crate::action::{ContainerQueuingLimit, DrainExtent, KillReason};
use crate::config::RuntimeSettings;
use crate::container_spec::ContainerSpec;
use crate::retry::ContainerRetryContext;
use crate::run_profile::RunProfile;

/// Input of the scheduler: something happened outside it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Event {
    /// `startContainers` accepted this container; its resources must be localized.
    Start(ContainerSpec),
    /// The launch context of a container names a policy for retries, in place of none or an earlier
    /// one. Failures before this event do not count, but for those of an earlier run of the agent.
    RetryPolicy {
        /// Container that the policy is for.
        id: ContainerId,
        /// Policy to follow from now on.
        policy: ContainerRetryContext,
    },
    /// A launch context says how long its container may run. Changes the container's place in the
    /// queue, if the order in force depends on it.
    RunProfile {
        /// Container that the profile is of.
        id: ContainerId,
        /// User, command and hint.
        profile: RunProfile,
    },
    /// Whether the launch context before the present one is kept, so that a failure without a retry
    /// leads back to it by [`Action::RollBack`] instead of ending the container.
    CanRollBack {
        /// Container with the launch context.
        id: ContainerId,
        /// Whether an earlier launch context is kept.
        can_roll_back: bool,
    },
    /// The launch context of a running container changed, or its AM asked for a restart: end the
    /// process and launch the container again, from the queue of its type.
    Restart(ContainerId),
    /// Answer to [`Action::Localize`]: every resource of the container is on the local disk.
    Localized(ContainerId),
    /// Answer to [`Action::Localize`]: a resource of the container could not be fetched.
    LocalizationFailed {
        /// Container whose localization failed.
        id: ContainerId,
        /// Error text for the AM and for people.
        #[serde(skip)]
        diagnostics: String,
    },
    /// Answer to [`Action::Launch`]: the container's process exists.
    Launched(ContainerId),
    /// Answer to [`Action::Launch`]: no process was created.
    LaunchFailed {
        /// Container that was to be launched.
        id: ContainerId,
        /// Exit status to report: usually [`ContainerExitStatus::LAUNCH_FAILED`], or
        /// [`ContainerExitStatus::TERMINATED`] when [`Action::Terminate`] or [`Action::ForceKill`]
        /// came before the process was created.
        status: ContainerExitStatus,
        /// Error text for the AM and for people.
        #[serde(skip)]
        diagnostics: String,
    },
    /// No process of the container is left, so its resources are free. `Exited` follows once the
    /// container's output has been read. Optional: `Exited` alone is enough.
    ProcessesGone(ContainerId),
    /// No process of the container is left, and its exit status and output are known.
    Exited {
        /// Container that exited.
        id: ContainerId,
        /// Exit status of the process; 128 + signal if a signal ended it.
        status: ContainerExitStatus,
        /// End of the error output, for the AM and for people; may be empty.
        #[serde(skip)]
        diagnostics: String,
    },
    /// Answer to [`Action::Pause`]: the container is frozen.
    Paused {
        /// Container that was frozen.
        id: ContainerId,
        /// Memory that its processes hold, measured, in mebibytes; `None`: assume its whole
        /// allocation.
        held_mb: Option<u64>,
    },
    /// The memory of a frozen container was measured again, for example after reclaim. Ignored if
    /// the container is no longer frozen.
    FrozenMemory {
        /// Container that was measured.
        id: ContainerId,
        /// Memory that its processes hold, in mebibytes.
        held_mb: u64,
    },
    /// Answer to [`Action::Resume`]: the container runs again.
    Resumed(ContainerId),
    /// Answer to [`Action::Pause`] or [`Action::Resume`]: freezing or thawing failed, so the
    /// container must be killed.
    PauseFailed(ContainerId),
    /// Answer to [`Action::CleanUp`]: the container's directories and cache references are
    /// released.
    CleanedUp(ContainerId),
    /// A kill of one container was requested.
    Kill {
        /// Container to kill.
        id: ContainerId,
        /// Requester and reason of the kill.
        reason: KillReason,
    },
    /// A kill of all containers of an application was requested.
    KillApplication {
        /// Application to stop.
        id: ApplicationId,
        /// Requester and reason of the kill.
        reason: KillReason,
    },
    /// A verified container token changes size or execution type (promotion, demotion), or both.
    Update(ContainerSpec),
    /// The resources that the node offers have changed.
    NodeResource(Resource),
    /// The RM published a queuing limit with a heartbeat.
    QueuingLimit(ContainerQueuingLimit),
    /// The node is drained so far, or, with `None`, not any more.
    Drain(Option<DrainExtent>),
    /// The node's configuration has changed. What waits, waits on.
    Settings(RuntimeSettings),
    /// A heartbeat is about to report the wait of a new container: estimate it. Visits every
    /// container.
    EstimateWaits,
    /// The container may be forgotten once it has finished: the RM or nobody waits for its end.
    Forget(ContainerId),
    /// Another part acted on the container. Changes its diagnostics, unless it has finished.
    Annotate {
        /// Container whose diagnostics are extended.
        id: ContainerId,
        /// Text to append.
        #[serde(skip)]
        diagnostics: String,
    },
    /// The offset of local time from UTC changed. Diagnostics are stamped in local time.
    UtcOffset {
        /// Offset in seconds, positive east of UTC.
        seconds: i32,
    },
    /// The time of [`crate::ContainerScheduler::next_deadline`] is reached.
    Tick,
}

impl Event {
    /// Returns the event without the diagnostics, which nothing that the scheduler does depends on.
    #[must_use]
    pub fn without_diagnostics(&self) -> Self {
        let diagnostics = String::new();
        match self {
            Self::LocalizationFailed { id, .. } => Self::LocalizationFailed {
                id: *id,
                diagnostics,
            },
            Self::LaunchFailed { id, status, .. } => Self::LaunchFailed {
                id: *id,
                status: *status,
                diagnostics,
            },
            Self::Exited { id, status, .. } => Self::Exited {
                id: *id,
                status: *status,
                diagnostics,
            },
            Self::Annotate { id, .. } => Self::Annotate {
                id: *id,
                diagnostics,
            },
            Self::Start(_)
            | Self::RetryPolicy { .. }
            | Self::RunProfile { .. }
            | Self::CanRollBack { .. }
            | Self::Localized(_)
            | Self::Launched(_)
            | Self::ProcessesGone(_)
            | Self::Paused { .. }
            | Self::FrozenMemory { .. }
            | Self::Resumed(_)
            | Self::PauseFailed(_)
            | Self::CleanedUp(_)
            | Self::Restart(_)
            | Self::Kill { .. }
            | Self::KillApplication { .. }
            | Self::Update(_)
            | Self::NodeResource(_)
            | Self::QueuingLimit(_)
            | Self::Drain(_)
            | Self::Settings(_)
            | Self::EstimateWaits
            | Self::Forget(_)
            | Self::UtcOffset { .. }
            | Self::Tick => self.clone(),
        }
    }

    /// Returns the container of an event that answers an order of the scheduler, as do the end of a
    /// process and what its memory holds; `None`: the event comes from elsewhere.
    #[must_use]
    pub const fn answering(&self) -> Option<ContainerId> {
        match self {
            Self::Localized(id)
            | Self::LocalizationFailed { id, .. }
            | Self::Launched(id)
            | Self::LaunchFailed { id, .. }
            | Self::ProcessesGone(id)
            | Self::Exited { id, .. }
            | Self::Paused { id, .. }
            | Self::FrozenMemory { id, .. }
            | Self::Resumed(id)
            | Self::PauseFailed(id)
            | Self::CleanedUp(id) => Some(*id),
            Self::Start(_)
            | Self::RetryPolicy { .. }
            | Self::RunProfile { .. }
            | Self::CanRollBack { .. }
            | Self::Restart(_)
            | Self::Kill { .. }
            | Self::KillApplication { .. }
            | Self::Update(_)
            | Self::NodeResource(_)
            | Self::QueuingLimit(_)
            | Self::Drain(_)
            | Self::Settings(_)
            | Self::EstimateWaits
            | Self::Forget(_)
            | Self::Annotate { .. }
            | Self::UtcOffset { .. }
            | Self::Tick => None,
        }
    }

    /// Returns the one container that an event concerns; `None`: it concerns several or none, or
    /// the container is forgotten after it.
    #[must_use]
    pub const fn subject(&self) -> Option<ContainerId> {
        match self {
            Self::Start(spec) | Self::Update(spec) => Some(spec.id),
            Self::RetryPolicy { id, .. }
            | Self::RunProfile { id, .. }
            | Self::CanRollBack { id, .. }
            | Self::Restart(id)
            | Self::Kill { id, .. }
            | Self::Annotate { id, .. } => Some(*id),
            Self::Localized(_)
            | Self::LocalizationFailed { .. }
            | Self::Launched(_)
            | Self::LaunchFailed { .. }
            | Self::ProcessesGone(_)
            | Self::Exited { .. }
            | Self::Paused { .. }
            | Self::FrozenMemory { .. }
            | Self::Resumed(_)
            | Self::PauseFailed(_)
            | Self::CleanedUp(_)
            | Self::KillApplication { .. }
            | Self::NodeResource(_)
            | Self::QueuingLimit(_)
            | Self::Drain(_)
            | Self::Settings(_)
            | Self::EstimateWaits
            | Self::Forget(_)
            | Self::UtcOffset { .. }
            | Self::Tick => self.answering(),
        }
    }
}
