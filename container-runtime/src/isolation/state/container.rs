//! State of one container's cgroups.

use cgroup::Limits;
use records::ExecutionType;
use sched::ContainerSpec;

use super::super::limits::MemorySums;
use super::action::{Group, Groups};

/// Progress towards the end of a container.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum End {
    #[default]
    No,
    /// Ordered, but nothing has been signalled yet.
    Ordered,
    /// Processes were signalled to end. Neither frozen nor moved any more.
    Terminating,
    /// Processes were killed.
    Killed,
}

/// Change of limits or class under way on the thread for limits.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) enum Change {
    #[default]
    None,
    /// Limits are being written.
    Writing,
    /// A cgroup in the other class is being made.
    Creating,
    /// The cgroup in the other class gets the container's frozen state; `Limits` hold there.
    Entering(Limits),
    /// Processes are being moved to the current cgroup, for so many rounds.
    Moving { round: usize },
    /// The former cgroup is being read after a change.
    Measuring,
    /// The former cgroup is being read in its turn.
    Checking,
}

/// State of a container from its announcement to the removal of its cgroups.
#[derive(Debug)]
pub(super) struct Container {
    /// Size and type that are wanted.
    pub(super) spec: ContainerSpec,
    /// Class of the cgroup that the processes are in. `None`: not made yet, or being removed.
    pub(super) class: Option<ExecutionType>,
    /// A cgroup in the other class exists, too.
    pub(super) has_former: bool,
    /// Limits that hold in the current cgroup; unknown ones are unset.
    pub(super) known: Limits,
    /// Bytes charged to the former cgroup when it was last read.
    pub(super) former_held: u64,
    /// Bytes protected in the former cgroup; `None`: unknown.
    pub(super) former_low: Option<u64>,
    /// Part of the sums. Zero until the cgroup is made.
    pub(super) counted: MemorySums,
    /// Frozen, or told to freeze: all its cgroups are.
    pub(super) frozen: bool,
    pub(super) end: End,
    pub(super) change: Change,
    /// `spec` has changed since `change` began.
    pub(super) outdated: bool,
}

impl Container {
    pub(super) fn new(spec: ContainerSpec) -> Self {
        Self {
            spec,
            class: None,
            has_former: false,
            known: Limits::default(),
            former_held: 0,
            former_low: None,
            counted: MemorySums::default(),
            frozen: false,
            end: End::No,
            change: Change::None,
            outdated: false,
        }
    }

    /// Whether processes were signalled to end.
    pub(super) fn is_ending(&self) -> bool {
        self.end >= End::Terminating
    }

    /// Whether its cgroups exist and may still be changed.
    pub(super) fn is_changeable(&self) -> bool {
        self.class.is_some() && !self.is_ending()
    }

    pub(super) fn groups(&self) -> Groups {
        let group = |class| Group {
            class,
            id: self.spec.id,
        };
        let former = self.class.filter(|_| self.has_former).map(other);
        Groups {
            former: former.map(group),
            current: self.class.map(group),
        }
    }

    /// Whether `group` is its current or former cgroup.
    pub(super) fn has(&self, group: Group) -> bool {
        self.groups().all().any(|own| own == group)
    }
}

/// Returns the class that a container in `class` was or will be in besides.
pub(in crate::isolation) fn other(class: ExecutionType) -> ExecutionType {
    match class {
        ExecutionType::Guaranteed => ExecutionType::Opportunistic,
        ExecutionType::Opportunistic => ExecutionType::Guaranteed,
    }
}
