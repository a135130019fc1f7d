//! The NodeManager as a library, so that a test can run a whole agent in its own process.
//!
//! [`run`] is the agent; [`cli`] is the program around it. ARCHITECTURE.md draws how the parts fit.

pub mod admin;
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
pub mod isolation;
pub mod launch;
pub mod launch_context;
pub mod live;
pub mod localize;
mod logging;
pub mod metrics;
pub mod monitor;
pub mod node_identity;
pub mod open_files;
pub mod quickstart;
pub mod resource_manager;
pub mod secrets;
mod signals;
pub mod site_xml;
pub mod started_tokens;
pub mod status_ledger;
pub mod view;
mod wiring;

pub use wiring::{AgentError, HADOOP_VERSION, NodeWatch, Process, Running, start};

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

/// An error with its causes in one line.
pub(crate) fn error_chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}
