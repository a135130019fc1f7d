//! The node for operators of its machine: state, queue, running containers, the story of one.
//!
//! The admin socket carries these values as JSON. Fields may be added; readers ignore those that
//! they do not know. Times are milliseconds since 1970-01-01 UTC, durations milliseconds, amounts
//! of memory mebibytes.

use serde::{Deserialize, Serialize};

use crate::usage::{Usage, Used};

/// State of the node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    /// `host:port` as registered with the ResourceManager.
    pub node_id: String,
    /// `host:port` of the web pages.
    pub web_address: String,
    /// Whether the pages are served over TLS alone.
    #[serde(default)]
    pub web_over_tls: bool,
    /// Version of the agent.
    pub version: String,
    /// Process id of the agent.
    pub pid: u32,
    /// Time of this status.
    pub at_ms: i64,
    /// Time at which the agent started.
    pub started_at_ms: i64,
    /// Contact to the ResourceManager: `registering`, `registered` or `silent`.
    pub resource_manager: String,
    /// Duration of this contact.
    pub resource_manager_for_ms: u64,
    /// Whether the node reports itself healthy.
    pub healthy: bool,
    /// Faults of the node; empty when there are none.
    pub health_report: String,
    /// Drain that is in force; none: the node is in service.
    #[serde(default)]
    pub drain: Option<DrainState>,
    /// Work of an earlier agent that does not simply go on, in words; empty: all does.
    #[serde(default)]
    pub recovery: String,
    /// Resources that containers hold, and those of the node.
    pub memory_mb: Share,
    /// Virtual cores that containers hold, and those of the node.
    pub vcores: Share,
    /// Guaranteed containers that hold resources.
    pub running_guaranteed: u32,
    /// Opportunistic containers that hold resources.
    pub running_opportunistic: u32,
    /// Containers of both types that wait, frozen ones included.
    pub waiting: u32,
    /// Containers that are frozen.
    pub paused: u32,
    /// Opportunistic containers that may wait, by this node's configuration.
    pub queue_capacity: u32,
    /// Opportunistic containers that may wait, by the ResourceManager; none: no limit.
    pub queue_limit: Option<usize>,
    /// Wait that the ResourceManager allows; none: no limit.
    pub wait_limit_ms: Option<u64>,
    /// Estimated wait of another opportunistic container from now on; none: it would not be
    /// admitted.
    pub estimated_wait_ms: Option<u64>,
    /// Use as measured last; none: containers are not measured, or not yet.
    #[serde(default)]
    pub usage: Option<Usage>,
}

/// Drain in force.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DrainState {
    /// Mode: the containers that are ended.
    pub mode: DrainMode,
    /// Reason that the operator gave; may be empty.
    pub reason: String,
    /// Name of the operator.
    pub by: String,
    /// Time of the order.
    pub since_ms: i64,
    /// Time at which the mode's containers are ended; none: it ends none.
    pub ends_at_ms: Option<i64>,
    /// Whether that time has come.
    pub is_ending: bool,
    /// Guaranteed containers that have not ended.
    pub guaranteed_left: usize,
    /// Opportunistic containers that have not ended.
    pub opportunistic_left: usize,
}

/// Containers that a drain ends. In every mode those that wait leave the queue, and no
/// opportunistic container starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DrainMode {
    /// No running container.
    Graceful,
    /// The opportunistic ones.
    Quick,
    /// Every container; the node then reports itself unhealthy.
    Fast,
}

impl DrainMode {
    /// Returns the name of the mode.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Graceful => "graceful",
            Self::Quick => "quick",
            Self::Fast => "fast",
        }
    }
}

/// Amount that is in use, and what there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Share {
    /// Amount that containers hold.
    pub used: u64,
    /// Amount that the node offers.
    pub total: u64,
}

/// Head of the queue of waiting containers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Queue {
    /// Number of waiting containers.
    pub total: usize,
    /// The head of the queue, as many as were asked for.
    pub containers: Vec<Waiting>,
}

/// Container that waits for resources.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Waiting {
    /// Place in the order of starts, from 1.
    pub place: usize,
    /// Id of the container.
    pub container: String,
    /// User of the application. Chosen by a peer.
    pub user: String,
    /// `GUARANTEED` or `OPPORTUNISTIC`.
    pub execution_type: String,
    /// Memory that the container asks for.
    pub memory_mb: u64,
    /// Virtual cores that the container asks for.
    pub vcores: u32,
    /// Whether the container is frozen, and will be resumed.
    pub paused: bool,
    /// Wait so far; of a frozen container the duration of its pause.
    pub waited_ms: u64,
    /// Estimated wait from now on, at most an hour.
    pub estimated_wait_ms: u64,
}

/// Containers that hold resources.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Running {
    /// Number of these containers.
    pub total: usize,
    /// As many as were asked for.
    pub containers: Vec<Holding>,
}

/// Container that holds resources.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holding {
    /// Id of the container.
    pub container: String,
    /// User of the application. Chosen by a peer.
    pub user: String,
    /// `GUARANTEED` or `OPPORTUNISTIC`.
    pub execution_type: String,
    /// Memory of the container.
    pub memory_mb: u64,
    /// Virtual cores of the container.
    pub vcores: u32,
    /// Progress of the container, in a word.
    pub state: String,
    /// Duration of this state.
    pub state_for_ms: u64,
    /// Use as measured last; none: not yet.
    #[serde(default)]
    pub used: Option<Used>,
}

/// Story of a container. Facts that the node has forgotten are absent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Explanation {
    /// Id of the container.
    pub container: String,
    /// User of the application. Chosen by a peer.
    pub user: Option<String>,
    /// `GUARANTEED` or `OPPORTUNISTIC`.
    pub execution_type: Option<String>,
    /// Memory of the container.
    pub memory_mb: Option<u64>,
    /// Virtual cores of the container.
    pub vcores: Option<u32>,
    /// Progress of the container, in a word; `forgotten` if only its steps are remembered.
    pub state: String,
    /// Duration of this state.
    pub state_for_ms: Option<u64>,
    /// Place in the order of starts, from 1, of a container that waits.
    pub place: Option<usize>,
    /// Estimated wait from now on of a container that waits.
    pub estimated_wait_ms: Option<u64>,
    /// Exit status of a container that has ended.
    pub exit_status: Option<i32>,
    /// Use as measured last; none: not yet, or no process is left.
    #[serde(default)]
    pub used: Option<Used>,
    /// Steps of the story, oldest first.
    pub steps: Vec<Told>,
    /// Steps that are lost, after the first few.
    pub omitted_steps: usize,
}

/// Step of a container's story.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Told {
    /// Time of the step.
    pub at_ms: i64,
    /// Step and its reason. May have output of the container.
    pub text: String,
}

/// Story of an application's containers on this node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApplicationExplanation {
    /// Id of the application.
    pub application: String,
    /// User of the application. Chosen by a peer; none: the node has forgotten the application.
    pub user: Option<String>,
    /// State of the application on this node, as REST names it.
    pub state: Option<String>,
    /// Use by its containers as measured last; none: none was measured.
    pub used: Option<Used>,
    /// Containers whose steps are remembered.
    pub containers: usize,
    /// Containers of these that wait.
    pub waiting: usize,
    /// Containers of these that hold resources.
    pub running: usize,
    /// Last steps of all of them, oldest first.
    pub steps: Vec<ToldOf>,
    /// Steps before these.
    pub omitted_steps: usize,
}

/// Step of a container's story among those of others.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToldOf {
    /// Id of the container.
    pub container: String,
    /// The step.
    #[serde(flatten)]
    pub told: Told,
}
