//! Configuration of control groups, as plain values that the node manager reads from Hadoop's
//! properties.

use std::path::PathBuf;

/// Limits that the kernel enforces (`yarn.nodemanager.linux-container-executor.cgroups.*`, and the
/// properties that enable them).
#[derive(Clone, Debug, PartialEq)]
pub struct CgroupConfig {
    /// Whether a property needs cgroups; then it is reported if they cannot be used.
    pub asked_for: bool,
    /// Path below each mount, where no cgroup was delegated to the agent.
    pub hierarchy: String,
    /// Path below the unified hierarchy's mount of the cgroup that a service manager delegated for
    /// containers, apart from the agent's own; `None`: the agent's own, if that was delegated.
    pub delegated: Option<String>,
    /// Path below which hierarchies must be mounted to be used; `None`: any.
    pub mount_path: Option<PathBuf>,
    /// Whether CPU time is shared by virtual cores.
    pub cpu: bool,
    /// Whether a container's CPU time is limited to its virtual cores even if CPUs are idle.
    pub strict_cpu: bool,
    /// Share of all CPUs that containers together may use, 1 to 100.
    pub cpu_limit_percent: u32,
    /// Whether CPUs are counted as hardware threads instead of cores.
    pub count_logical_processors: bool,
    /// Whether memory is limited to a container's allocation.
    pub memory: bool,
    /// Share of a guaranteed container's memory that is protected from reclaim, 0 to 100.
    pub memory_soft_limit_percent: f64,
    /// Swappiness of guaranteed containers, 0 to 100 (v1 only).
    pub swappiness: u8,
    /// Whether I/O of guaranteed containers has priority.
    pub io: bool,
    /// Maximum of tasks in one container; `None`: unlimited (-1).
    pub pids_max: Option<u64>,
    /// Time for which the removal of a container's cgroup is retried.
    pub delete_timeout_ms: u64,
    /// Deadline of a container that is frozen to make room; one that has not stopped by then is
    /// killed.
    pub freeze_timeout_ms: u64,
}
