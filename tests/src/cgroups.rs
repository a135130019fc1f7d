//! A cgroup of a test's own in this machine's hierarchies, for an agent; removed afterwards.

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use cgroup::{Controller, Delegation, Layout, Root, RootConfig};

use crate::conf::Properties;
use crate::guest;

/// Name of the cgroup that the agent makes below the configured path.
const CLASSES: [&str; 2] = ["guaranteed", "opportunistic"];

/// Property with the path of the agent's cgroup.
const PROPERTY: &str = "yarn.nodemanager.linux-container-executor.cgroups.hierarchy";

/// Controllers without which the tests of isolation would show nothing.
const WANTED: [Controller; 4] = [
    Controller::Cpu,
    Controller::Memory,
    Controller::Pids,
    Controller::Freezer,
];

/// A path below each hierarchy's mount that no other test uses. Dropping it, which must happen
/// after the agent has ended, kills what a killed agent left there. In the guest the agent has a
/// delegated cgroup instead.
#[derive(Debug)]
pub struct Hierarchy(String);

impl Hierarchy {
    /// Makes a path that no other test uses.
    ///
    /// # Errors
    /// When this machine's hierarchies lack something.
    pub fn new() -> Result<Self, String> {
        static NEXT: AtomicU32 = AtomicU32::new(1);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let hierarchy = Self(format!(
            "nm-agent-test-{}-node-{number}",
            std::process::id()
        ));
        if guest::is_here() {
            return Ok(hierarchy);
        }
        let root = hierarchy.open().map_err(|error| error.to_string())?;
        match WANTED.iter().find(|wanted| !root.controls(**wanted)) {
            None => Ok(hierarchy),
            Some(missing) => Err(format!("no {missing} controller that can be used")),
        }
    }

    /// Configures a node to limit CPU time and memory in these cgroups.
    pub fn configure(&self, site: &mut Properties) {
        let (property, path) = self.property();
        site.set(property, path)
            .set("yarn.nodemanager.resource.cpu.enabled", true)
            .set("yarn.nodemanager.resource.memory.enabled", true);
    }

    /// Returns the property with the path, and its value: for a node that another property makes
    /// use cgroups.
    #[must_use]
    pub fn property(&self) -> (&'static str, &str) {
        (PROPERTY, &self.0)
    }

    fn open(&self) -> Result<Root, cgroup::Unusable> {
        let config = RootConfig {
            hierarchy: Some(&self.0),
            wanted: &WANTED,
            delegation: Delegation::None,
            own_leaf: "agent",
            delegated_root: "containers",
        };
        Root::open(&Layout::of_this_process(), &config)
    }
}

impl Drop for Hierarchy {
    fn drop(&mut self) {
        if guest::is_here() {
            return;
        }
        // A killed agent leaves its containers and their cgroups behind.
        let Ok(root) = self.open() else {
            return;
        };
        for class in CLASSES {
            let groups = root.parent(class).and_then(|parent| parent.children());
            for group in groups.unwrap_or_default() {
                drop(group.destroy(Duration::from_secs(10)));
            }
        }
        let paths: Vec<PathBuf> = root.paths();
        for path in paths {
            for class in CLASSES {
                drop(fs::remove_dir(path.join(class)));
            }
            drop(fs::remove_dir(path));
        }
    }
}
