//! A cgroup of a test's own in this machine's hierarchies, for an agent; removed afterwards.

use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use cgroup::{Controller, Delegation, Layout, Root, RootConfig, Unusable};
use test_support::skip::{skip, skip_by_kernel};

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

/// Reason why the tests of isolation cannot run on this machine.
#[derive(Clone, Debug)]
pub struct Lack {
    what: String,
    why: String,
    /// Whether nothing is mounted. Otherwise rights are missing, or others are in the way.
    is_of_kernel: bool,
}

impl Lack {
    fn new(what: String, why: &Unusable) -> Self {
        Self {
            what,
            why: why.to_string(),
            is_of_kernel: matches!(why, Unusable::NotMounted),
        }
    }
}

impl fmt::Display for Lack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.what, self.why)
    }
}

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
    pub fn new() -> Result<Self, Lack> {
        static NEXT: AtomicU32 = AtomicU32::new(1);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let hierarchy = Self(format!(
            "nm-agent-test-{}-node-{number}",
            std::process::id()
        ));
        if guest::is_here() {
            return Ok(hierarchy);
        }
        let root = hierarchy.open();
        let root = root.map_err(|why| Lack::new("cgroups cannot be used".to_owned(), &why))?;
        let Some(controller) = WANTED.iter().find(|wanted| !root.controls(**wanted)) else {
            return Ok(hierarchy);
        };
        let mut missing = root.missing().iter();
        let missing = missing.find(|missing| missing.controllers.contains(controller));
        let why = missing.map_or(&Unusable::NotMounted, |missing| &missing.reason);
        Err(Lack::new(format!("no {controller} controller"), why))
    }

    /// Makes a path for a test. Where this machine's hierarchies lack something, reports the test
    /// as skipped and returns `None`.
    pub fn for_test(test: &str) -> Option<Self> {
        Self::new()
            .inspect_err(|lack| {
                if lack.is_of_kernel {
                    skip_by_kernel(test, lack);
                } else {
                    skip(test, lack);
                }
            })
            .ok()
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

    /// Returns the number of containers whose cgroups exist, also while the agent runs.
    #[must_use]
    pub fn container_count(&self) -> usize {
        let names = self.container_paths();
        let names = names.iter().filter_map(|path| path.file_name());
        names.collect::<BTreeSet<_>>().len()
    }

    /// Returns the folders of a container's cgroup, one for each hierarchy that has it, the unified
    /// one first. `container` is the container's name.
    #[must_use]
    pub fn paths_of(&self, container: &str) -> Vec<PathBuf> {
        let mut paths = self.container_paths();
        paths.retain(|path| path.ends_with(container));
        paths
    }

    /// Lists the folders of all containers' cgroups. A running agent has the root locked, so it is
    /// not opened as an agent does.
    fn container_paths(&self) -> Vec<PathBuf> {
        let Layout { unified, legacy } = Layout::of_this_process();
        let legacy = legacy.into_iter().map(|legacy| legacy.hierarchy);
        let roots = unified.into_iter().chain(legacy);
        let roots = roots.map(|hierarchy| hierarchy.mount.join(&self.0));
        let classes = roots.flat_map(|root| CLASSES.map(|class| root.join(class)));
        let entries = classes.flat_map(|class| fs::read_dir(class).into_iter().flatten().flatten());
        let folders = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        folders.map(|entry| entry.path()).collect()
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
