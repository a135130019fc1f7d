//! A launcher with Hadoop's defaults, and a container for it, as the tests use that need a process
//! of their own.

use std::path::Path;

use container_runtime::launch::{LaunchConfig, LaunchPlan};
use records::{ApplicationId, NodeId};
use test_support::folders::make_container_dirs;

pub(crate) fn config() -> LaunchConfig {
    let node_id = NodeId {
        host: "localhost".to_owned(),
        port: 8041,
    };
    LaunchConfig::new(node_id, 8042)
}

/// With its folders below `root`.
pub(crate) fn plan(root: &Path, number: i64, command: &str) -> Box<LaunchPlan> {
    let container_id = ApplicationId::new(i64::from(std::process::id()), 8)
        .attempt(1)
        .container(number);
    let dirs = make_container_dirs(&root.join(number.to_string()));
    Box::new(LaunchPlan {
        commands: vec![command.to_owned()],
        ..LaunchPlan::new(container_id, "alice".to_owned(), dirs)
    })
}
