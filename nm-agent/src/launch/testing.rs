//! Plans and configurations for the tests of this module.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use records::{ApplicationId, ContainerId, NodeId};

use super::context::{LaunchConfig, LaunchPlan, LocalizationCounters};

/// An id that no other test of this run uses: left-over processes are recognised by it.
pub(crate) fn container_id() -> ContainerId {
    static NEXT: AtomicI64 = AtomicI64::new(1);
    ApplicationId::new(i64::from(std::process::id()), 7)
        .attempt(1)
        .container(NEXT.fetch_add(1, Ordering::Relaxed))
}

/// A plan below `root` that runs nothing yet.
pub(crate) fn plan(root: &Path) -> LaunchPlan {
    LaunchPlan {
        container_id: container_id(),
        user: "alice".to_owned(),
        commands: Vec::new(),
        environment: BTreeMap::new(),
        credentials: Vec::new(),
        links: Vec::new(),
        work_dir: root.join("work"),
        log_dir: root.join("log"),
        nm_private_dir: root.join("private"),
        local_dirs: vec![root.join("local")],
        local_user_dirs: vec![root.join("user")],
        log_dirs: vec![root.join("log")],
        service_metadata: BTreeMap::new(),
        localization_counters: LocalizationCounters::default(),
    }
}

/// Hadoop's defaults, without any environment of an agent.
pub(crate) fn config() -> LaunchConfig {
    LaunchConfig {
        node_id: NodeId {
            host: "node1.example.com".to_owned(),
            port: 8041,
        },
        http_port: 8042,
        agent_environment: BTreeMap::new(),
        env_whitelist: ["JAVA_HOME", "PATH", "LANG"].map(str::to_owned).to_vec(),
        admin_env: BTreeMap::new(),
        force_path: String::new(),
        user_home_dir: "/home/".to_owned(),
        java_feature_version: None,
        debug_info: false,
        sigkill_delay: Duration::from_millis(250),
        stderr_pattern: "{*stderr*,*STDERR*}".to_owned(),
        stderr_tail_bytes: 4096,
        launch_threads: 2,
        isolation: None,
    }
}

/// A plan of one command, in folders of its own below `root`, which are there.
pub(crate) fn plan_in_folders(root: &Path, id: ContainerId, command: &str) -> LaunchPlan {
    let mut plan = plan(root);
    plan.container_id = id;
    let root = root.join(id.to_string());
    plan.work_dir = root.join("work");
    plan.log_dir = root.join("log");
    plan.nm_private_dir = root.join("private");
    for directory in [&plan.work_dir, &plan.log_dir, &plan.nm_private_dir] {
        std::fs::create_dir_all(directory).unwrap();
    }
    plan.commands = vec![command.to_owned()];
    plan
}
