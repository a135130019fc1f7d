//! A ResourceManager and one node, which runs jobs of Hadoop's DistributedShell: the start of most
//! interop tests.

use std::time::Duration;

use crate::conf::Options;
use crate::distributed_shell::{self, ContainerType, Job};
use crate::gate::Gate;
use crate::job_client::JobClient;
use crate::lab::Lab;
use crate::node::{Node, NodeKind};
use crate::rm::{ResourceManager, RmKind};
use crate::wait;

/// Deadline for a job to end once nothing holds it back: some JVM starts and heartbeats on a
/// machine that may be busy building.
pub const JOB_DEADLINE: Duration = Duration::from_secs(180);

/// Deadline for a state that takes an ApplicationMaster's start at most.
pub const STATE_DEADLINE: Duration = Duration::from_secs(90);

/// Size of every container, in MiB. A node's memory is a number of such slots.
pub const SLOT_MB: u32 = 256;

/// Shell text that prints the time of the container's first instruction, in nanoseconds.
pub const PRINT_BEGIN: &str = "date +%s%N";

/// A ResourceManager and one registered node. Fields are dropped in this order.
#[derive(Debug)]
pub struct Cluster {
    /// The registered node.
    pub node: Node,
    /// The ResourceManager that the node is registered at.
    pub rm: ResourceManager,
    /// Folder with the files of both.
    pub lab: Lab,
}

impl Cluster {
    /// Starts a cluster whose node holds `slots` containers of [`SLOT_MB`].
    ///
    /// # Panics
    /// When a part does not come up.
    #[must_use]
    pub fn start(rm: &RmKind, node: &NodeKind, slots: u32, options: Options) -> Self {
        let lab = Lab::new(
            rm,
            Options {
                node_memory_mb: slots * SLOT_MB,
                ..options
            },
        );
        let rm = ResourceManager::start(&lab, rm);
        let node = Node::start_registered(&lab, node, "node", &rm);
        Self { node, rm, lab }
    }

    /// Starts a job whose containers, its ApplicationMaster's included, have one slot each.
    ///
    /// # Panics
    /// When the client cannot be started.
    #[must_use]
    pub fn submit(
        &self,
        name: &str,
        command: &str,
        containers: u32,
        container_type: ContainerType,
    ) -> JobClient {
        let job = Job {
            command,
            containers,
            memory_mb: SLOT_MB,
            container_type,
        };
        distributed_shell::start(&self.lab, name, &job)
    }

    /// Returns a gate for this name in the cluster's folder.
    #[must_use]
    pub fn gate(&self, name: &str) -> Gate {
        Gate::at(self.lab.folder().join(name))
    }

    /// Waits until exactly `count` containers of an application, without its ApplicationMaster's,
    /// have begun a command that starts with [`PRINT_BEGIN`].
    ///
    /// # Panics
    /// At the deadline.
    #[track_caller]
    pub fn wait_begun(&self, application_id: &str, count: usize) {
        let what = format!("{count} containers of {application_id} at their command");
        wait::until(what, STATE_DEADLINE, || {
            let begun = self.node.logs(application_id).first_lines();
            wait::check(begun.len() == count, begun.len())
        });
    }
}
