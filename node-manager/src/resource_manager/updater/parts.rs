//! Configuration of the loop, the parts it works with, and the ways in which it ends.

use std::sync::Arc;
use std::time::Duration;

use container_runtime::monitor::Sample;
use node_web::metrics::Metrics;
use thiserror::Error;
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;
use wire::failover::{CallError, Link};

use super::super::messages::NodeDescription;
use super::super::session::RegistrationRefused;
use crate::clock::Clock;
use crate::config::MinimumVersion;
use crate::core_task::{Handle, Stopped};
use crate::node_labels::NodeReports;
use crate::secrets::NodeSecrets;

/// How the node behaves toward the ResourceManager.
#[derive(Clone, Debug)]
pub struct UpdaterConfig {
    /// Before the first registration.
    pub first_pause: Duration,
    /// Between two heartbeats, until the ResourceManager names an interval and when it names none.
    pub heartbeat_interval: Duration,
    /// Upper limit on the interval: the ResourceManager would take the node for lost.
    pub heartbeat_interval_max: Duration,
    /// The longest pause between two tries when nobody answers.
    pub retry_interval: Duration,
    /// When to give up; `None`: never.
    pub give_up_after: Option<Duration>,
    /// `yarn.resourcemanager.work-preserving-recovery.enabled`: containers live through a resync.
    pub keep_containers_on_resync: bool,
    /// `yarn.nodemanager.resourcemanager.minimum.version`: an older ResourceManager is not worked
    /// for.
    pub minimum_version: MinimumVersion,
    /// Longest wait for the end of containers that are not kept, before the node registers again.
    pub kill_patience: Duration,
}

/// Why the loop ended, when nothing is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The agent is stopping; the node is registered and should be unregistered.
    Stopping,
    /// The ResourceManager ordered the node to shut down (decommissioned). It is no longer
    /// registered.
    ShutdownOrdered {
        /// Diagnostics of the ResourceManager.
        diagnostics: String,
    },
}

/// Why the loop ended, when something is.
#[derive(Debug, Error)]
pub enum UpdaterError {
    /// The ResourceManager refuses this node, or its answer lacks what a node needs.
    #[error(transparent)]
    Refused(#[from] RegistrationRefused),
    /// The ResourceManager is older than the configuration of this node accepts.
    #[error(
        "the ResourceManager's version is {found}, less than {wanted} (yarn.nodemanager.resourcemanager.minimum.version)"
    )]
    TooOld {
        /// Version that the ResourceManager states.
        found: String,
        /// Version that the configuration requires.
        wanted: String,
    },
    /// No ResourceManager answered for as long as configured.
    #[error(
        "no ResourceManager answered for {waited_ms} ms (yarn.resourcemanager.connect.max-wait.ms)"
    )]
    GaveUp {
        /// How long, milliseconds.
        waited_ms: u128,
        /// The last failure.
        #[source]
        source: Box<CallError>,
    },
    /// The core task is gone.
    #[error(transparent)]
    Stopped(#[from] Stopped),
}

/// Parts that the loop works with.
pub struct UpdaterParts<T = Link> {
    /// The loop's part of the configuration.
    pub config: UpdaterConfig,
    /// Facts about the node for registrations and heartbeats.
    pub node: NodeDescription,
    /// Link to the ResourceManagers.
    pub tracker: T,
    /// Access to the agent's state.
    pub handle: Handle,
    /// Store of the keys that the ResourceManager sends.
    pub secrets: Arc<NodeSecrets>,
    /// Counters of heartbeats and registrations.
    pub metrics: Arc<Metrics>,
    /// Wakes for an out-of-band heartbeat.
    pub heartbeat_now: Arc<Notify>,
    /// Latest sample of the use of resources by the node and its containers.
    pub utilization: watch::Receiver<Sample>,
    /// Statements of the node on itself besides its resources.
    pub node_reports: NodeReports,
    /// The agent's clock.
    pub clock: Clock,
    /// Ends the loop.
    pub stop: CancellationToken,
}
