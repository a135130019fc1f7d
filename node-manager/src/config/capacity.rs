//! What the node offers the cluster: fixed numbers, or found from the hardware (Hadoop:
//! `NodeManagerHardwareUtils`).

use std::collections::BTreeMap;

use records::Resource;

/// Mebibytes offered when nothing is configured and the hardware is not to be asked (Hadoop:
/// `DEFAULT_NM_PMEM_MB`).
pub const DEFAULT_MEMORY_MB: u64 = 8192;
/// Virtual cores offered in the same case (Hadoop: `DEFAULT_NM_VCORES`).
pub const DEFAULT_VCORES: u32 = 8;
/// Allowance for the daemon's own memory. Java takes twice its maximum heap, which with the
/// daemon's usual 1000 MB is 2000; this agent has no heap limit and is made to stay under 40 MB, so
/// 64 leaves a margin.
pub const AGENT_MEMORY_MB: u64 = 64;
/// The part of the remaining memory that containers get when no reserve is configured, in percent
/// (Hadoop: 0.8).
const CONTAINER_MEMORY_PERCENT: u64 = 80;

/// Source of the memory that the node offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryCapacity {
    /// `yarn.nodemanager.resource.memory-mb`, or Hadoop's default.
    Fixed {
        /// Offered memory in mebibytes.
        memory_mb: u64,
    },
    /// Found from the machine's memory.
    Detect {
        /// Kept for the system; `None`: a fifth of what the agent itself does not need.
        system_reserved_mb: Option<u64>,
    },
}

/// Source of the virtual cores that the node offers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum VcoreCapacity {
    /// `yarn.nodemanager.resource.cpu-vcores`, or Hadoop's default.
    Fixed {
        /// Whole virtual cores.
        vcores: u32,
    },
    /// Found from the machine's processors.
    Detect {
        /// Hardware threads count as cores.
        count_logical_processors: bool,
        /// Virtual cores per core; above 0.
        vcores_per_core: f64,
    },
}

/// Resources that the node offers (`yarn.nodemanager.resource.*`).
#[derive(Clone, Debug, PartialEq)]
pub struct NodeCapacityConfig {
    /// Source of the offered memory.
    pub memory: MemoryCapacity,
    /// Source of the offered virtual cores.
    pub vcores: VcoreCapacity,
    /// Share of all processors that containers together may use, 1 to 100.
    pub physical_cpu_limit_percent: u32,
    /// Other resource types by name, as written with their units
    /// (`yarn.nodemanager.resource-type.NAME`).
    pub custom_types: BTreeMap<String, String>,
}

/// The machine, as whoever reads `/proc` found it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hardware {
    /// Physical memory in mebibytes.
    pub memory_mb: u64,
    /// Number of processor cores.
    pub cores: u32,
    /// Number of hardware threads.
    pub logical_processors: u32,
}

/// The outcome: what to register, and what of the machine stands behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capacity {
    /// Offered to the ResourceManager.
    pub offered: Resource,
    /// Resources of the machine.
    pub physical: Resource,
}

impl NodeCapacityConfig {
    /// Works out what to offer on this machine. Never offers nothing: at least 1 MB and 1 virtual
    /// core.
    #[must_use]
    pub fn resolve(&self, hardware: Hardware) -> Capacity {
        let memory_mb = match self.memory {
            MemoryCapacity::Fixed { memory_mb } => memory_mb,
            MemoryCapacity::Detect {
                system_reserved_mb: Some(reserved),
            } => hardware.memory_mb.saturating_sub(reserved),
            MemoryCapacity::Detect {
                system_reserved_mb: None,
            } => {
                let for_containers = hardware.memory_mb.saturating_sub(AGENT_MEMORY_MB);
                for_containers.saturating_mul(CONTAINER_MEMORY_PERCENT) / 100
            }
        };
        let vcores = match self.vcores {
            VcoreCapacity::Fixed { vcores } => vcores,
            VcoreCapacity::Detect {
                count_logical_processors,
                vcores_per_core,
            } => {
                let processors = if count_logical_processors {
                    hardware.logical_processors
                } else {
                    hardware.cores
                };
                let percent = f64::from(self.physical_cpu_limit_percent);
                round_to_u32(f64::from(processors) * percent / 100.0 * vcores_per_core)
            }
        };
        Capacity {
            offered: Resource::new(memory_mb.max(1), vcores.max(1)),
            physical: Resource::new(hardware.memory_mb, hardware.logical_processors),
        }
    }
}

/// The nearest whole number, clamped to what `u32` holds; not a number gives 0.
fn round_to_u32(value: f64) -> u32 {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "clamped to the range of u32 first, and `as` makes 0 of NaN"
    )]
    let rounded = value.round().clamp(0.0, f64::from(u32::MAX)) as u32;
    rounded
}

#[cfg(test)]
mod tests {
    use super::*;

    const MACHINE: Hardware = Hardware {
        memory_mb: 16_064,
        cores: 4,
        logical_processors: 8,
    };

    fn detecting(
        system_reserved_mb: Option<u64>,
        count_logical_processors: bool,
    ) -> NodeCapacityConfig {
        NodeCapacityConfig {
            memory: MemoryCapacity::Detect { system_reserved_mb },
            vcores: VcoreCapacity::Detect {
                count_logical_processors,
                vcores_per_core: 1.5,
            },
            physical_cpu_limit_percent: 50,
            custom_types: BTreeMap::new(),
        }
    }

    #[test]
    fn detection_takes_four_fifths_of_what_the_agent_leaves() {
        let capacity = detecting(None, false).resolve(MACHINE);
        assert_eq!(capacity.offered, Resource::new(12_800, 3));
        assert_eq!(capacity.physical, Resource::new(16_064, 8));
    }

    #[test]
    fn a_configured_reserve_replaces_the_fifth() {
        let capacity = detecting(Some(4064), true).resolve(MACHINE);
        assert_eq!(capacity.offered, Resource::new(12_000, 6));
    }

    #[test]
    fn a_reserve_larger_than_the_machine_still_leaves_something_to_register() {
        assert_eq!(
            detecting(Some(1 << 40), false)
                .resolve(MACHINE)
                .offered
                .memory_mb,
            1
        );
    }
}
