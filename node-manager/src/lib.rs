//! A whole NodeManager as a library: a test or another program can run one, or several, in its own
//! process.
//!
//! [`start`] starts all parts and [`run`] waits for their end as well. In: a [`config::Config`] and
//! what the process was started with. Out: a node that is registered with its ResourceManager, or
//! why there is none.
//!
//! - [`config`]: Hadoop's properties, read once into typed values
//! - [`core_task`]: the one owner of the node's state, a [`node_core::Core`]; [`performer`]:
//!   performs the core's effects on files and processes; [`worker_channels`]: channels of the
//!   results that come back
//! - [`event_writer`]: the files of the record of the scheduler's events
//! - [`aux_services`]: services that containers of a job share on the node
//! - [`container_manager`]: the calls of ApplicationMasters; [`resource_manager`]: registration and
//!   heartbeats
//! - [`node_labels`]: labels and attributes that the node gives itself
//! - `operators`: requests that come through the admin socket
//! - [`descriptors`]: the division of open files among peers and containers
//! - `wiring`: makes every part and ends them in order
//!
//! Owns the node's state and the order of start and stop. May not know the command line, signals,
//! where the log goes, or the embedded ResourceManager. ARCHITECTURE.md draws how the parts fit.

mod application_tokens;
mod audit;
pub mod aux_services;
pub mod clock;
pub mod config;
pub mod container_manager;
#[cfg(test)]
mod core_fixture;
pub mod core_task;
pub mod descriptors;
pub mod event_writer;
mod late_binding;
mod launch_plan;
pub mod node_identity;
pub mod node_labels;
mod offers;
mod operators;
pub mod performer;
pub mod recovery;
pub mod reload;
mod reload_orders;
pub mod resource_manager;
pub mod secrets;
mod service_authorization;
mod traced;
mod uploaded_logs;
mod wiring;
pub mod worker_channels;

pub use node_web::site::LogLevels;
pub use wiring::{
    AgentError, HADOOP_VERSION, IdentityFinding, NodeWatch, Process, Running, check_identity,
    own_file_systems, start,
};

use records::error_chain;
use tokio_util::sync::CancellationToken;

/// Runs the agent until `stop` is cancelled or the ResourceManager orders it to end.
///
/// # Errors
/// [`AgentError`]: a part could not start, the ResourceManager refuses the node, or nobody answered
/// for as long as configured.
pub async fn run(
    config: config::Config,
    process: Process,
    stop: CancellationToken,
) -> Result<(), AgentError> {
    start(config, process, stop).await?.join().await
}
