//! A container's execution type, its states as peers see them, and its exit status.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Guarantee class of a container's resources (Hadoop: `ExecutionType`).
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
pub enum ExecutionType {
    /// Resources are reserved: the container starts at once and is never evicted. Default of an
    /// unset field.
    #[default]
    Guaranteed,
    /// Uses resources that are free at the moment: the container may wait in the node's queue and
    /// is evicted when a guaranteed container needs its resources.
    Opportunistic,
}

impl ExecutionType {
    /// Returns Hadoop's name of the type, as used in REST responses and logs.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Guaranteed => "GUARANTEED",
            Self::Opportunistic => "OPPORTUNISTIC",
        }
    }
}

impl fmt::Display for ExecutionType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Coarse container state in heartbeats and status replies (Hadoop: `ContainerState`). A
/// NodeManager never sends `NEW`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ContainerState {
    /// Known and not finished, whether or not a process exists.
    Running,
    /// Finished, with a final exit status.
    Complete,
}

/// Fine container state, reported beside [`ContainerState`] (Hadoop: `ContainerSubState`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ContainerSubState {
    /// Localizing, queued, or about to be launched.
    Scheduled,
    /// Launched: a process exists.
    Running,
    /// Frozen, to make room for a guaranteed container.
    Paused,
    /// Ended: no process is left, and directories and cache references are being released.
    Completing,
    /// Finished and cleaned up.
    Done,
}

/// Exit status of a container (Hadoop: `ContainerExitStatus`). Values from 0 to 255 come from the
/// process; negative ones are defined by YARN.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ContainerExitStatus(pub i32);

impl ContainerExitStatus {
    /// Normal exit: the process returned 0.
    pub const SUCCESS: Self = Self(0);
    /// Initial value, until a status is set. Localization failures are reported with it too.
    pub const INVALID: Self = Self(-1000);
    /// Failed launch: no process was created.
    pub const LAUNCH_FAILED: Self = Self(-1);
    /// Lost node or lost container.
    pub const ABORTED: Self = Self(-100);
    /// Too many bad disks on the node.
    pub const DISKS_FAILED: Self = Self(-101);
    /// Preempted by the scheduler.
    pub const PREEMPTED: Self = Self(-102);
    /// Killed: used more virtual memory than allowed.
    pub const KILLED_EXCEEDED_VMEM: Self = Self(-103);
    /// Killed: used more physical memory than allowed.
    pub const KILLED_EXCEEDED_PMEM: Self = Self(-104);
    /// Killed with `stopContainers` by the ApplicationMaster.
    pub const KILLED_BY_APPMASTER: Self = Self(-105);
    /// Killed by order of the ResourceManager.
    pub const KILLED_BY_RESOURCEMANAGER: Self = Self(-106);
    /// Killed because the application ended.
    pub const KILLED_AFTER_APP_COMPLETION: Self = Self(-107);
    /// Rejected, shed or evicted by the node's container scheduler.
    pub const KILLED_BY_CONTAINER_SCHEDULER: Self = Self(-108);
    /// Killed because the container's logs grew too large.
    pub const KILLED_FOR_EXCESS_LOGS: Self = Self(-109);
    /// Process ended by SIGKILL (128 + 9).
    pub const FORCE_KILLED: Self = Self(137);
    /// Process ended by SIGTERM (128 + 15).
    pub const TERMINATED: Self = Self(143);

    /// Returns whether SIGTERM or SIGKILL ended the process. If this node sent the signal, the
    /// reason for the kill is more informative than this status.
    #[must_use]
    pub fn is_signalled(self) -> bool {
        self == Self::FORCE_KILLED || self == Self::TERMINATED
    }
}

impl fmt::Display for ContainerExitStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
