//! The configuration of control groups, as plain values: the node manager reads them from Hadoop's properties.

use std::path::PathBuf;

/// Limits that the kernel enforces (`yarn.nodemanager.linux-container-executor.cgroups.*` and what enables it).
#[derive(Clone, Debug, PartialEq)]
pub struct CgroupConfig {
    /// A property asks for what takes cgroups: then it is worth telling when they cannot be used.
    pub asked_for: bool,
    /// Path below each mount, where no cgroup was delegated to the agent.
    pub hierarchy: String,
    /// Only hierarchies mounted below this count.
    pub mount_path: Option<PathBuf>,
    /// Processor time by virtual cores.
    pub cpu: bool,
    /// No container gets more processor time than its virtual cores, even if nobody else wants it.
    pub strict_cpu: bool,
    /// All containers together get so much of the processors, 1 to 100.
    pub cpu_limit_percent: u32,
    /// Processors are hardware threads, not cores.
    pub count_logical_processors: bool,
    /// Memory by what was asked for.
    pub memory: bool,
    /// This much of a guaranteed container's memory is protected, 0 to 100.
    pub memory_soft_limit_percent: f64,
    /// How readily guaranteed containers are swapped out, 0 to 100 (v1 only).
    pub swappiness: u8,
    /// Guaranteed containers come first at devices.
    pub io: bool,
    /// Most tasks of one container; `None`: no bound (-1).
    pub pids_max: Option<u64>,
    /// How long a container's cgroup is tried to be removed.
    pub delete_timeout_ms: u64,
    /// How long a container that is frozen to make room may take to stop; then it is killed instead.
    pub freeze_timeout_ms: u64,
}
