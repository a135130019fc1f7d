//! Plans and configurations for the tests of this module.

use std::path::Path;
use std::sync::atomic::{AtomicI64, Ordering};

use localize::ContainerDirs;
use records::{ApplicationId, ContainerId, NodeId};

use super::context::{LaunchConfig, LaunchPlan};

/// An id that no other test of this run uses: left-over processes are recognised by it.
pub(crate) fn container_id() -> ContainerId {
    static NEXT: AtomicI64 = AtomicI64::new(1);
    ApplicationId::new(i64::from(std::process::id()), 7)
        .attempt(1)
        .container(NEXT.fetch_add(1, Ordering::Relaxed))
}

/// A plan below `root` that runs nothing yet.
pub(crate) fn plan(root: &Path) -> LaunchPlan {
    LaunchPlan::new(container_id(), "alice".to_owned(), dirs(root))
}

fn dirs(root: &Path) -> ContainerDirs {
    ContainerDirs {
        work_dir: root.join("work"),
        log_dir: root.join("log"),
        nm_private_dir: root.join("private"),
        local_dirs: vec![root.join("local")],
        local_user_dirs: vec![root.join("user")],
        log_dirs: vec![root.join("log")],
    }
}

/// Hadoop's defaults, without any environment of an agent.
pub(crate) fn config() -> LaunchConfig {
    let node_id = NodeId {
        host: "node1.example.com".to_owned(),
        port: 8041,
    };
    LaunchConfig {
        env_whitelist: ["JAVA_HOME", "PATH", "LANG"].map(str::to_owned).to_vec(),
        debug_info: false,
        launch_threads: 2,
        ..LaunchConfig::new(node_id, 8042)
    }
}
