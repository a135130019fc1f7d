//! The cgroups of Hadoop's LinuxContainerExecutor around the containers of its default executor.
//!
//! That executor needs a program of its own, setuid and built for the machine. What isolates its
//! containers is what it writes to cgroups before it starts them, and this bench writes the same
//! for version 1 (Hadoop 3.4.2: `CGroupsCpuResourceHandlerImpl`, `CGroupsMemoryResourceHandlerImpl`
//! with their defaults: no strict resource usage, all CPUs, memory enforced).

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use records::ExecutionType;
use test_support::Allocation;
use tests::wait;

/// `CPU_DEFAULT_WEIGHT`: `cpu.shares` of one virtual core of a guaranteed container.
const SHARES_PER_VCORE: u64 = 1024;

/// `CPU_DEFAULT_WEIGHT_OPPORTUNISTIC`: `cpu.shares` of an opportunistic container of any size.
const SHARES_OPPORTUNISTIC: u64 = 2;

/// `DEFAULT_NM_MEMORY_RESOURCE_CGROUPS_SOFT_LIMIT_PERCENTAGE`, of a guaranteed container's memory.
const SOFT_LIMIT_PERCENT: u64 = 90;

/// `DEFAULT_NM_MEMORY_RESOURCE_CGROUPS_SWAPPINESS`, of a guaranteed container.
const SWAPPINESS: u64 = 0;

/// `OPPORTUNISTIC_SWAPPINESS`: `memory.swappiness` of an opportunistic container.
const SWAPPINESS_OPPORTUNISTIC: u64 = 100;

/// Deadline for the processes of a killed container to leave its cgroup.
const REMOVE_DEADLINE: Duration = Duration::from_secs(30);

/// Settings of one container: name of the file and its value.
type Settings<const N: usize> = [(&'static str, String); N];

/// A cgroup for the containers in the hierarchies of CPU and memory, removed when it is dropped,
/// which must happen after the node has ended.
pub(crate) struct ExecutorGroups {
    cpu: PathBuf,
    memory: PathBuf,
}

impl ExecutorGroups {
    /// Makes the cgroup that all containers are below.
    ///
    /// # Errors
    /// When this machine has no hierarchies of version 1, or they cannot be written to.
    pub(crate) fn new() -> Result<Self, String> {
        let mounts = fs::read_to_string("/proc/self/mountinfo");
        let mounts = mounts.map_err(|error| format!("cannot read the mounts: {error}"))?;
        let make = |controller| {
            let mount = hierarchy(&mounts, controller)
                .ok_or_else(|| format!("no {controller} controller of version 1"))?;
            let folder = mount.join(format!("nm-agent-bench-{}", std::process::id()));
            let made = fs::create_dir(&folder);
            made.map_err(|error| format!("cannot create {}: {error}", folder.display()))?;
            Ok::<PathBuf, String>(folder)
        };
        let cpu = make("cpu")?;
        let memory = make("memory").inspect_err(|_| drop(fs::remove_dir(&cpu)))?;
        Ok(Self { cpu, memory })
    }

    /// Makes a container's cgroups. Returns the commands with which its shell enters them, for
    /// a launch script.
    pub(crate) fn confine(&self, allocation: &Allocation) -> String {
        let name = allocation.id.to_string();
        let cpu = create(&self.cpu.join(&name), cpu_settings(allocation));
        let memory = create(&self.memory.join(&name), memory_settings(allocation));
        format!("echo \\$\\$ > '{cpu}' && echo \\$\\$ > '{memory}' && ")
    }

    /// Removes the cgroups of a container that has ended.
    pub(crate) fn remove(&self, allocation: &Allocation) {
        let name = allocation.id.to_string();
        for parent in [&self.cpu, &self.memory] {
            let folder = parent.join(&name);
            wait::until(folder.display(), REMOVE_DEADLINE, || {
                fs::remove_dir(&folder).map_err(|error| error.to_string())
            });
        }
    }
}

impl Drop for ExecutorGroups {
    fn drop(&mut self) {
        // After a failure containers may be left; nothing else is to be done about them here.
        drop(fs::remove_dir(&self.cpu));
        drop(fs::remove_dir(&self.memory));
    }
}

/// Creates a cgroup; returns the path of the file that takes its processes.
fn create<const N: usize>(folder: &Path, settings: Settings<N>) -> String {
    fs::create_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    for (name, value) in settings {
        let file = folder.join(name);
        let written = fs::write(&file, &value);
        written.unwrap_or_else(|error| panic!("{value} into {}: {error}", file.display()));
    }
    folder.join("cgroup.procs").display().to_string()
}

fn cpu_settings(allocation: &Allocation) -> Settings<1> {
    let shares = match allocation.execution_type {
        ExecutionType::Guaranteed => SHARES_PER_VCORE * u64::from(allocation.resource.vcores),
        ExecutionType::Opportunistic => SHARES_OPPORTUNISTIC,
    };
    [("cpu.shares", shares.to_string())]
}

fn memory_settings(allocation: &Allocation) -> Settings<3> {
    let limit_mb = allocation.resource.memory_mb;
    let (soft_mb, swappiness) = match allocation.execution_type {
        ExecutionType::Guaranteed => (limit_mb * SOFT_LIMIT_PERCENT / 100, SWAPPINESS),
        ExecutionType::Opportunistic => (0, SWAPPINESS_OPPORTUNISTIC),
    };
    [
        ("memory.limit_in_bytes", format!("{limit_mb}M")),
        ("memory.soft_limit_in_bytes", format!("{soft_mb}M")),
        ("memory.swappiness", swappiness.to_string()),
    ]
}

/// Returns the mount point of a controller's hierarchy of version 1.
fn hierarchy(mountinfo: &str, controller: &str) -> Option<PathBuf> {
    mountinfo.lines().find_map(|line| {
        let (mount, file_system) = line.split_once(" - ")?;
        let (r#type, source_and_options) = file_system.split_once(' ')?;
        let options = source_and_options.rsplit(' ').next()?;
        let is_there = r#type == "cgroup" && options.split(',').any(|option| option == controller);
        is_there.then(|| mount.split(' ').nth(4).map(PathBuf::from))?
    })
}
