//! The agent's configuration: Hadoop's files and property names, parsed once into typed, validated
//! values.
//!
//! In: the folders that hold the site files, and the environment as a map. Out: a [`Config`], or
//! every problem at once. Parts of the agent get their own section only. Nothing here reads the
//! process's environment or opens a socket.

mod addresses;
mod aux_services;
mod capacity;
pub mod keys;
mod load;
mod read_admin;
mod read_aux_host;
mod read_cgroups;
mod read_events;
mod read_filters;
mod read_history;
mod read_kerberos;
mod read_labels;
mod read_log;
mod read_logs;
mod read_node;
mod read_pages;
mod read_policy;
mod read_proxy;
mod read_runtimes;
mod read_security;
mod read_services;
mod read_spark_shuffle;
mod read_tls;
mod read_traces;
mod read_users;
mod read_work;
mod reading;
mod sections;
mod values;

pub use addresses::AddressConfig;
pub use aux_services::{AuxHostConfig, AuxServiceConfig, AuxServiceKind, HostedConfig, ServedBy};
pub use capacity::{
    AGENT_MEMORY_MB, Capacity, DEFAULT_MEMORY_MB, DEFAULT_VCORES, Hardware, MemoryCapacity,
    NodeCapacityConfig, VcoreCapacity,
};
pub use load::{CONTAINERS_CGROUP, Loaded, load_admin, load_file_systems};
pub use read_log::LOG_LEVEL;
pub use read_policy::Policies;
pub use reading::{ChangedProperty, Reading};
pub use sections::{
    AdminConfig, AmrmProxyConfig, Config, ContainerExecutor, ExecutorConfig, HealthConfig,
    KerberosConfig, LogAggregationConfig, LogConfig, MonitorConfig, NodeLabelsConfig,
    PageProofConfig, ProviderConfig, ProviderSource, RecoveryConfig, ResourceManagerConfig,
    SHARED_USER, SchedulerConfig, UsersConfig, WebConfig,
};
pub use values::MinimumVersion;

#[cfg(test)]
mod tests;
