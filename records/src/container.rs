//! What Hadoop says of a container: its type, its states as peers see them, its exit status.

use std::fmt;

/// Whether a container's resources are promised to it (Hadoop: `ExecutionType`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum ExecutionType {
    /// Starts at once; nothing is taken from it. What an unset field means.
    #[default]
    Guaranteed,
    /// Runs in room that is left over, may wait in the node's queue, and makes way for guaranteed containers.
    Opportunistic,
}

impl ExecutionType {
    /// Hadoop's name, as in REST and logs.
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

/// The coarse state in heartbeats and status replies (Hadoop: `ContainerState`). A NodeManager never sends `NEW`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ContainerState {
    /// Known and not finished, whether or not a process exists.
    Running,
    /// Finished; the exit status is final.
    Complete,
}

/// The fine state beside [`ContainerState`] (Hadoop: `ContainerSubState`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ContainerSubState {
    /// Localizing, queued or about to be launched.
    Scheduled,
    /// Its process exists.
    Running,
    /// Frozen to make room.
    Paused,
    /// Its process is gone, what it used is being given back.
    Completing,
    /// Finished.
    Done,
}

/// How a container ended (Hadoop: `ContainerExitStatus`). 0 to 255 are the process's own, negative ones are YARN's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ContainerExitStatus(pub i32);

impl ContainerExitStatus {
    /// The process ended with 0.
    pub const SUCCESS: Self = Self(0);
    /// Nothing has set a status yet; also how a localization failure is reported.
    pub const INVALID: Self = Self(-1000);
    /// The launch failed before a process existed.
    pub const LAUNCH_FAILED: Self = Self(-1);
    /// The node or the container was lost.
    pub const ABORTED: Self = Self(-100);
    /// Too many disks of the node are bad.
    pub const DISKS_FAILED: Self = Self(-101);
    /// Preempted by the scheduler.
    pub const PREEMPTED: Self = Self(-102);
    /// Used more virtual memory than allowed.
    pub const KILLED_EXCEEDED_VMEM: Self = Self(-103);
    /// Used more physical memory than allowed.
    pub const KILLED_EXCEEDED_PMEM: Self = Self(-104);
    /// `stopContainers`.
    pub const KILLED_BY_APPMASTER: Self = Self(-105);
    /// Ordered by the ResourceManager.
    pub const KILLED_BY_RESOURCEMANAGER: Self = Self(-106);
    /// Its application ended.
    pub const KILLED_AFTER_APP_COMPLETION: Self = Self(-107);
    /// Rejected, shed or evicted by the node's container scheduler.
    pub const KILLED_BY_CONTAINER_SCHEDULER: Self = Self(-108);
    /// Its logs grew too large.
    pub const KILLED_FOR_EXCESS_LOGS: Self = Self(-109);
    /// The process was ended by SIGKILL (128 + 9).
    pub const FORCE_KILLED: Self = Self(137);
    /// The process was ended by SIGTERM (128 + 15).
    pub const TERMINATED: Self = Self(143);

    /// Whether the process ended by SIGTERM or SIGKILL: then the reason for the kill says more than the status does.
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
