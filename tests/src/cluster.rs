//! A ResourceManager and one node, which runs the jobs of Hadoop's DistributedShell: what most tests between the two start with.

use std::time::Duration;

use crate::conf::Options;
use crate::distributed_shell::{self, ContainerType, Job};
use crate::gate::Gate;
use crate::job_client::JobClient;
use crate::lab::Lab;
use crate::node::{Node, NodeKind};
use crate::rm::{ResourceManager, RmKind};
use crate::wait;

/// For a job to end once nothing holds it back: some JVM starts and heartbeats on a machine that may be busy building.
pub const JOB_DEADLINE: Duration = Duration::from_secs(180);

/// For a state to be reached that takes an ApplicationMaster's start at most.
pub const STATE_DEADLINE: Duration = Duration::from_secs(90);

/// Size of every container. A node's memory is a number of such slots.
pub const SLOT_MB: u32 = 256;

/// Shell text that prints the time of the container's first instruction, in nanoseconds.
pub const PRINT_BEGIN: &str = "date +%s%N";

/// A ResourceManager and one registered node. Fields are dropped in this order.
#[derive(Debug)]
pub struct Cluster {
    /// The node.
    pub node: Node,
    /// The ResourceManager.
    pub rm: ResourceManager,
    /// Where both have their files.
    pub lab: Lab,
}

impl Cluster {
    /// Starts one whose node holds `slots` containers of [`SLOT_MB`].
    ///
    /// # Panics
    /// When it does not come up.
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

    /// Starts a job of containers of one slot each, its ApplicationMaster's too.
    ///
    /// # Panics
    /// When its client cannot be started.
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

    /// A file that commands wait for.
    #[must_use]
    pub fn gate(&self, name: &str) -> Gate {
        Gate::at(self.lab.folder().join(name))
    }

    /// Waits until exactly `count` containers of an application, its ApplicationMaster left out, have begun a command that starts
    /// with [`PRINT_BEGIN`].
    ///
    /// # Panics
    /// When they have not in time.
    #[track_caller]
    pub fn wait_begun(&self, application_id: &str, count: usize) {
        let what = format!("{count} containers of {application_id} at their command");
        wait::until(what, STATE_DEADLINE, || {
            let begun = self.node.logs(application_id).first_lines();
            wait::check(begun.len() == count, begun.len())
        });
    }
}
