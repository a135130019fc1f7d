//! Configuration of the core.

use std::collections::BTreeMap;
use std::sync::Arc;

use launch_context::ContextLimits;
use log_aggregation::policy::Policy;
use time::UtcOffset;

use crate::runtimes::Runtimes;

/// Configuration of the core.
#[derive(Clone, Debug)]
pub struct CoreConfig {
    /// Machine in container statuses.
    pub machine: Machine,
    /// Value of `yarn.nodemanager.log.retain-seconds`, in milliseconds.
    pub log_retain_ms: u64,
    /// Aggregation of logs; `None`: they stay on the node.
    pub log_aggregation: Option<LogAggregation>,
    /// Value of `yarn.nodemanager.duration-to-track-stopped-containers`, milliseconds.
    pub track_stopped_ms: u64,
    /// Whether containers have cgroups that can be frozen.
    pub can_freeze: bool,
    /// Meaning of the runtime that a container asks for.
    pub runtimes: Runtimes,
    /// Limits on launch contexts.
    pub contexts: ContextLimits,
    /// Whether what containers write is only for those who may see it (`yarn.acl.enable`).
    pub private_output: bool,
    /// Auxiliary services of the node, with what they publish.
    pub service_metadata: ServiceMetadata,
    /// Whether records are kept for the next agent.
    pub remembers: bool,
    /// Number of the machine's boot, in which the monotonic clock of earlier agents is this one's
    /// (see [`crate::recovery::boot_number`]); 0: unknown.
    pub boot: u64,
    /// Whether file systems want proofs of users ([`crate::Effect::Tokens`]).
    pub is_secure: bool,
    /// Time after which the ResourceManager cancels tokens of an application that has ended, unless
    /// it is asked not to, in milliseconds (`yarn.nm.liveness-monitor.expiry-interval-ms`).
    pub tokens_end_after_ms: u64,
    /// Whether what the scheduler gets is recorded ([`crate::Effect::Record`]).
    pub records_events: bool,
}

/// The machine that containers run on, as their statuses name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    /// Name that the kernel has for the machine.
    pub name: String,
    /// Address that the name resolves to, or the name again if it does not resolve.
    pub address: String,
}

/// Metadata of auxiliary services by name. A name that is not in it does not exist for AMs.
pub type ServiceMetadata = Arc<BTreeMap<String, Vec<u8>>>;

/// Aggregation of a node's logs as far as the core decides on it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LogAggregation {
    /// Policy for applications without one of their own.
    pub policy: Policy,
    /// Whether logs are deleted on the node once they are uploaded.
    pub local_cleanup: bool,
    /// Offset of the node's time, for texts.
    pub utc_offset: UtcOffset,
}
