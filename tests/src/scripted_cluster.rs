//! A node process between a scripted ResourceManager and a scripted ApplicationMaster: what most
//! tests start with.

use std::fs;

use records::ContainerId;

use test_support::scripted::{ScriptedAm, ScriptedRm};

use crate::conf::Properties;
use crate::gate::Gate;
use crate::node::NodeKind;
use crate::node_process::{NodeProcess, node_kind};

/// A registered node with its ResourceManager and one master. Fields are dropped in this order.
pub struct ScriptedCluster {
    /// First attempt of the first application.
    pub am: ScriptedAm,
    /// Process of the node.
    pub node: NodeProcess,
    /// ResourceManager that the node is registered at.
    pub rm: ScriptedRm,
}

impl ScriptedCluster {
    /// Starts a node, the agent at this path unless the environment names another, and waits until
    /// it is registered.
    ///
    /// # Panics
    /// When the node does not register.
    #[must_use]
    #[track_caller]
    pub fn start(agent: &str) -> Self {
        Self::start_with(agent, |_| {})
    }

    /// Starts a node as [`start`](Self::start) does, after changes of its `yarn-site.xml`.
    ///
    /// # Panics
    /// When the node does not register.
    #[must_use]
    #[track_caller]
    pub fn start_with(agent: &str, change: impl FnOnce(&mut Properties)) -> Self {
        Self::start_kind(&node_kind(agent), change)
    }

    /// Starts a node of this kind as [`start_with`](Self::start_with) does.
    ///
    /// # Panics
    /// When the node does not register.
    #[must_use]
    #[track_caller]
    pub fn start_kind(kind: &NodeKind, change: impl FnOnce(&mut Properties)) -> Self {
        let rm = ScriptedRm::start();
        let node = NodeProcess::start(kind, &rm, change);
        let am = ScriptedAm::connect(&rm, 1);
        Self { am, node, rm }
    }

    /// Asserts that a new container starts and succeeds, whatever happened before.
    ///
    /// # Panics
    /// When the container does not.
    #[track_caller]
    pub fn assert_serves(&self) {
        let id = self.am.run("true");
        let completed = self.rm.wait_completed(id);
        assert_eq!(completed.exit_status, 0, "{completed:?}");
    }

    /// Returns a gate for this name in the node's folder.
    #[must_use]
    pub fn gate(&self, name: &str) -> Gate {
        Gate::at(self.node.folder().join(name))
    }

    /// Returns the text of a file in a container's log folder; empty when there is none.
    #[must_use]
    pub fn log(&self, id: ContainerId, file: &str) -> String {
        let folder = self.node.log_dir().join(id.application_id().to_string());
        fs::read_to_string(folder.join(id.to_string()).join(file)).unwrap_or_default()
    }
}
