//! The NodeManager as a library, so that a test can run a whole agent in its own process.
//!
//! [`run`] is the agent; [`cli`] is the program around it. ARCHITECTURE.md draws how the parts fit.

pub mod applications;
mod audit;
pub mod check;
pub mod cli;
pub mod clock;
pub mod config;
pub mod container_manager;
pub mod core;
pub mod core_task;
pub mod hands;
pub mod launch_context;
mod logging;
pub mod node_identity;
pub mod quickstart;
pub mod resource_manager;
pub mod secrets;
mod signals;
pub mod site_xml;
pub mod started_tokens;
pub mod status_ledger;
mod wiring;

pub use wiring::{AgentError, HADOOP_VERSION, NodeWatch, Process, Running, start};

use records::error_chain;
use tokio_util::sync::CancellationToken;

/// Runs the agent until `stop` is cancelled or the ResourceManager orders it to end.
///
/// # Errors
/// [`AgentError`]: a part could not start, the ResourceManager refuses the node, or nobody answered for as long as
/// configured.
pub async fn run(
    config: config::Config,
    process: Process,
    stop: CancellationToken,
) -> Result<(), AgentError> {
    start(config, process, stop).await?.join().await
}
