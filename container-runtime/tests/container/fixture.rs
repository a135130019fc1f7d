//! A launcher with Hadoop's defaults, and a container for it, as the tests use that need a process
//! of their own.

use std::path::Path;

use container_runtime::launch::{LaunchConfig, LaunchPlan};
use localize::ContainerDirs;
use records::{ApplicationId, NodeId};

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
    let root = root.join(number.to_string());
    let directory = |name: &str| {
        let path = root.join(name);
        std::fs::create_dir_all(&path).expect("a temporary directory is writable");
        path
    };
    let dirs = ContainerDirs {
        work_dir: directory("work"),
        log_dir: directory("log"),
        nm_private_dir: directory("private"),
        local_dirs: Vec::new(),
        local_user_dirs: Vec::new(),
        log_dirs: Vec::new(),
    };
    Box::new(LaunchPlan {
        commands: vec![command.to_owned()],
        ..LaunchPlan::new(container_id, "alice".to_owned(), dirs)
    })
}
