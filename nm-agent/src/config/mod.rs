//! The agent's configuration: Hadoop's files and property names, parsed once into typed, validated values.
//!
//! In: the folders that hold the site files, and the environment as a map. Out: a [`Config`], or every problem at once.
//! Parts of the agent get their own section only. Nothing here reads the process's environment or opens a socket.

mod capacity;
mod sections;
mod values;

pub use capacity::{
    AGENT_MEMORY_MB, Capacity, DEFAULT_MEMORY_MB, DEFAULT_VCORES, Hardware, MemoryCapacity,
    NodeCapacityConfig, VcoreCapacity,
};
pub use sections::{
    AddressConfig, AuxServiceConfig, Config, ContainerExecutor, DeletionConfig, DirsConfig,
    DiskHealthConfig, HealthConfig, HealthScript, LaunchConfig, LocalizerConfig, LogConfig,
    MonitorConfig, RecoveryConfig, ResourceManagerConfig, RmEndpoint, SchedulerConfig, WebConfig,
};
pub use values::{
    HostPort, MinimumVersion, OpportunisticContainersQueuePolicy, ParseHostPortError,
};
