//! Vocabulary of the state machine: events in; jobs, answers and reports out. Cgroups are named by
//! class and container, so that all of it is plain data.

use std::time::Duration;

use cgroup::{CgroupError, Limits};
use records::{ContainerId, ExecutionType, Resource};
use sched::ContainerSpec;

use crate::isolation::IsolationEvent;

/// Cgroup of a container below one of the classes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Group {
    pub(crate) class: ExecutionType,
    pub(crate) id: ContainerId,
}

/// Cgroups of one container. Moves go from `former` to `current`, so `former` is always signalled,
/// killed and read first: a process that changes its cgroup meanwhile is then met at least once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Groups {
    /// Cgroup in the class that the container has left; keeps the charge for memory used there,
    /// and processes that could not be moved.
    pub(crate) former: Option<Group>,
    /// Cgroup that the processes are in. `None`: not made yet, or removed.
    pub(crate) current: Option<Group>,
}

impl Groups {
    /// Iterates over both, the former one first.
    pub(crate) fn all(self) -> impl Iterator<Item = Group> {
        self.former.into_iter().chain(self.current)
    }
}

/// Parent cgroup whose limits follow from sums over containers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    AllContainers,
    Guaranteed,
    Opportunistic,
}

/// Limits of a parent cgroup that are written, and refused, independently of the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// CPU time. Written at once: the kernel never delays it.
    Cpu,
    /// Memory. A lower bound is enforced by the writing thread, for as long as reclaim takes.
    Memory,
    /// Tasks and devices.
    Other,
}

/// Input of the state machine.
#[derive(Debug)]
pub(crate) enum Event {
    /// A launch of the container is queued.
    Announced(ContainerSpec),
    /// Size or execution type has changed.
    Changed(ContainerSpec),
    /// The launch thread has made the cgroup with these limits, and is about to start the process.
    Created(ContainerSpec, Limits),
    /// The container is an earlier agent's, with processes in the cgroups of these classes.
    Adopted(Adopted),
    /// The process executes its program.
    Started(ContainerId),
    /// The end was ordered. Processes that exist are signalled later.
    EndOrdered(ContainerId),
    /// Freezing is ordered; answered.
    Pause(ContainerId),
    /// Thawing is ordered; answered.
    Resume(ContainerId),
    /// Processes of the container are about to be signalled to end.
    Terminating(ContainerId),
    /// Processes of the container are about to be killed.
    Killing(ContainerId),
    /// No process is left.
    Emptied(ContainerId),
    /// The cgroups are about to be removed.
    Finishing(ContainerId),
    /// The cgroups are gone, or were never made.
    Removed(ContainerId),
    /// The node's capacity has changed.
    NodeResource(Resource),
    /// Result of a job.
    Done(Done),
}

/// Container of an earlier agent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Adopted {
    /// Size and type that are wanted.
    pub(crate) spec: ContainerSpec,
    /// Whether it has a cgroup in its own class.
    pub(crate) is_in_class: bool,
    /// Whether it has one in the other class.
    pub(crate) is_in_other: bool,
    /// Whether it is to be frozen.
    pub(crate) is_frozen: bool,
}

/// Executor of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lane {
    /// The owner's thread, before it takes the next event: writes and reads that never block.
    Fast,
    /// The thread for limits and moves, in order. A job may take as long as reclaim does.
    Limits,
    /// The thread that reclaims memory of frozen containers, in order.
    Reclaim,
}

/// Work on kernel files. Each job but [`Job::Remove`] is answered by one [`Done`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Job {
    /// Change limits of a parent.
    WriteScope {
        scope: Scope,
        part: Part,
        limits: Limits,
    },
    /// Change limits of a container's cgroup.
    Write {
        group: Group,
        limits: Limits,
        reason: WriteReason,
    },
    /// Freeze or thaw.
    SetFrozen {
        id: ContainerId,
        groups: Groups,
        frozen: bool,
        reason: FreezeReason,
    },
    /// Read whether all processes have stopped.
    CheckFrozen { id: ContainerId, groups: Groups },
    /// Make a cgroup with limits, or take the one of that name.
    Create { group: Group, limits: Limits },
    /// Remove an empty cgroup.
    Remove { group: Group },
    /// Move some processes from the former cgroup to the current one.
    Move { from: Group, to: Group },
    /// Read what a former cgroup still holds.
    Measure { former: Group },
    /// Reclaim so many bytes (zero: none) of the current cgroup and read what is left.
    Reclaim {
        id: ContainerId,
        groups: Groups,
        bytes: u64,
    },
}

/// Purpose of a write to a container's cgroup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WriteReason {
    /// Size has changed.
    Limits,
    /// Protection of memory charged to a former cgroup.
    FormerCharge,
    /// Memory of a frozen container may go to swap.
    AllowSwap,
    /// A thawed container uses no swap.
    ForbidSwap,
}

/// Purpose of freezing or thawing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FreezeReason {
    /// Pause ordered by the scheduler.
    Pause,
    /// Thaw after a pause that failed.
    Undo,
    /// Resume ordered by the scheduler.
    Resume,
    /// Thaw so that a signal is delivered.
    End,
    /// A cgroup about to be entered gets the state of the current one.
    Enter,
    /// A container of an earlier agent is not frozen, whatever that one was about to do.
    Adopt,
    /// A former cgroup is frozen while its processes fork faster than they are moved, and gets
    /// the container's state back afterwards.
    Former,
}

/// Result of a job.
#[derive(Debug)]
pub(crate) enum Done {
    ScopeWritten {
        scope: Scope,
        part: Part,
        limits: Limits,
        result: Result<(), CgroupError>,
    },
    Written {
        group: Group,
        limits: Limits,
        reason: WriteReason,
        result: Result<(), CgroupError>,
    },
    FrozenSet {
        id: ContainerId,
        reason: FreezeReason,
        /// First refusal; the other cgroups were written all the same.
        result: Result<(), CgroupError>,
    },
    FrozenChecked {
        id: ContainerId,
        result: Result<Progress, CgroupError>,
    },
    Created {
        group: Group,
        limits: Limits,
        result: Result<(), CgroupError>,
    },
    Moved {
        from: Group,
        /// Number of processes moved; zero: none was left.
        result: Result<usize, CgroupError>,
    },
    Measured {
        former: Group,
        /// A process is still there.
        populated: bool,
        /// Charge in bytes; zero where it cannot be read.
        held: u64,
    },
    Reclaimed {
        id: ContainerId,
        /// `false`: the kernel cannot reclaim on request.
        result: Result<bool, CgroupError>,
        /// Charge of all cgroups in bytes; `None`: unknown.
        held: Option<u64>,
    },
}

/// Progress of freezing a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// At least one process still runs.
    Stopping,
    /// The processes have stopped and hold so many bytes; `None`: unknown.
    Stopped(Option<u64>),
}

/// Output of the state machine.
#[derive(Debug)]
pub(crate) enum Action {
    /// Carry out a job and hand back the result.
    Do(Lane, Job),
    /// Answer the scheduler.
    Answer(IsolationEvent),
    /// Log a refusal.
    Report(Report),
}

/// Refusal for the log.
#[derive(Debug)]
pub(crate) struct Report {
    pub(crate) subject: Subject,
    pub(crate) what: &'static str,
    pub(crate) error: CgroupError,
    pub(crate) severity: Severity,
}

/// Container or parent cgroup that a report is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Subject {
    Container(ContainerId),
    Scope(Scope),
}

/// Log level of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Severity {
    Debug,
    Warn,
    Error,
}

/// Error for a container that has not reached a state in time.
pub(super) fn late(operation: &'static str, id: ContainerId, waited: Duration) -> CgroupError {
    CgroupError::Timeout {
        operation,
        name: id.to_string(),
        waited,
    }
}
