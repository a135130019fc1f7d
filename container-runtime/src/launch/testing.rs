//! Plans and configurations for the tests of this module.

use std::path::Path;
use std::sync::atomic::{AtomicI64, Ordering};

use localize::ContainerDirs;
use records::{ApplicationId, ContainerId, NodeId};
use tempfile::TempDir;
use test_support::folders::{container_dirs, make_container_dirs};

use super::context::{LaunchConfig, LaunchPlan};

/// An id that no other test of this run uses: left-over processes are recognised by it.
pub(crate) fn container_id() -> ContainerId {
    static NEXT: AtomicI64 = AtomicI64::new(1);
    ApplicationId::new(i64::from(std::process::id()), 7)
        .attempt(1)
        .container(NEXT.fetch_add(1, Ordering::Relaxed))
}

/// A plan that runs nothing yet, with folders in `root` that do not exist.
pub(crate) fn plan(root: &Path) -> LaunchPlan {
    let id = container_id();
    LaunchPlan::new(id, "alice".to_owned(), container_dirs(root))
}

/// Folders of one container, in a temporary directory.
pub(crate) struct Folders {
    disk: TempDir,
    pub(crate) id: ContainerId,
    pub(crate) dirs: ContainerDirs,
}

impl Folders {
    pub(crate) fn new() -> Self {
        let disk = tempfile::tempdir().expect("a temporary directory can be made");
        let dirs = make_container_dirs(&disk.path().join("container"));
        Self {
            disk,
            id: container_id(),
            dirs,
        }
    }

    /// Puts a link in the place of the folder above the container's, as its user can. Returns
    /// the link's target, an empty directory, in which the same folders are made.
    pub(crate) fn swap_for_link(&self) -> ContainerDirs {
        let (folder, outside) = (
            self.disk.path().join("container"),
            self.disk.path().join("outside"),
        );
        std::fs::rename(&folder, self.disk.path().join("moved")).expect("the folder can be moved");
        let dirs = make_container_dirs(&outside);
        std::os::unix::fs::symlink(outside, folder).expect("the name is free");
        dirs
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
        launch_threads_max: 2,
        ..LaunchConfig::new(node_id, 8042)
    }
}
