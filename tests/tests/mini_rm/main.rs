//! Our own ResourceManager, `nm-agent rm`, with unmodified Hadoop around it: DistributedShell's client and
//! ApplicationMaster as they come, our agent or Hadoop's own NodeManager as the node. And with simulated nodes and masters,
//! where those do not go.

mod command;
mod distributed;

use std::fs;
use std::path::Path;
use std::time::Duration;

use serde_json::Value;
use tests::conf::Options;
use tests::distributed_shell::{ContainerType, DistributedShell, Job};
use tests::lab::Lab;
use tests::node::{Node, NodeKind};
use tests::rm::ResourceManager;
use tests::{require, wait};

const PROGRAM: &str = env!("CARGO_BIN_EXE_agent-under-test");

/// For a job to end: two JVM starts on a machine that may be busy building.
const JOB_DEADLINE: Duration = Duration::from_secs(120);

/// Size of every container.
const SLOT_MB: u32 = 256;

/// A ResourceManager of ours and one node. Fields are dropped in this order.
struct Cluster {
    node: Node,
    rm: ResourceManager,
    lab: Lab,
}

impl Cluster {
    fn start(kind: &NodeKind) -> Self {
        let lab = Lab::new(Options {
            node_memory_mb: 4 * SLOT_MB,
            ..Options::default()
        });
        let rm = ResourceManager::start_mini(&lab, Path::new(PROGRAM));
        let node = Node::start_registered(&lab, kind, "node", &rm);
        Self { node, rm, lab }
    }

    fn submit(
        &self,
        name: &str,
        containers: u32,
        command: &str,
        container_type: ContainerType,
    ) -> DistributedShell {
        let job = Job {
            command,
            containers,
            container_memory_mb: SLOT_MB,
            master_memory_mb: SLOT_MB,
            container_type,
        };
        DistributedShell::start(&self.lab, name, &job)
    }

    /// Runs five containers on a node with room for three beside the master.
    #[track_caller]
    fn assert_runs_five(&self, name: &str, container_type: ContainerType) {
        let mut shell = self.submit(name, 5, "true", container_type);
        let id = shell.application_id();
        let outcome = shell.outcome(JOB_DEADLINE);
        assert!(outcome.succeeded, "{}\n{}", outcome.log, self.rm.log());
        let statuses = self.node.logs(&id).exit_statuses_of_used();
        assert_eq!(statuses.len(), 5, "{statuses:?}");
        assert!(
            statuses.iter().all(|(_, status)| *status == 0),
            "{statuses:?}"
        );
        let application = self.rm.application(&id).expect("the application is known");
        assert_eq!(application["state"], "FINISHED", "{application}");
        assert_eq!(application["finalStatus"], "SUCCEEDED", "{application}");
    }

    /// Runs three opportunistic containers, for which there is room, whose master has each promoted once it has started.
    #[track_caller]
    fn assert_promotes_three(&self) {
        let gate = self.lab.folder().join("gate");
        let command = format!("while [ ! -e {} ]; do sleep 0.1; done", gate.display());
        let kind = ContainerType::OpportunisticThenPromoted;
        let mut shell = self.submit("promoted", 3, &command, kind);
        let id = shell.application_id();
        wait::until("three promoted containers", JOB_DEADLINE, || {
            let at_rm = self.node.at_rm(&self.rm)?;
            let at_node = self.node.containers()?;
            let is_guaranteed = |container: &&Value| container["executionType"] == "GUARANTEED";
            // The ApplicationMaster is the fourth.
            let guaranteed = at_node.iter().filter(is_guaranteed).count();
            wait::check(
                guaranteed == 4 && at_rm["usedMemoryMB"] == 4 * SLOT_MB,
                format!("{at_rm}, {at_node:?}"),
            )
        });
        fs::write(&gate, "").expect("a file can be made");
        let outcome = shell.outcome(JOB_DEADLINE);
        assert!(outcome.succeeded, "{}\n{}", outcome.log, self.rm.log());
        let statuses = self.node.logs(&id).exit_statuses_of_used();
        assert_eq!(statuses.len(), 3, "{statuses:?}");
    }

    /// Nothing is left of any application.
    #[track_caller]
    fn assert_becomes_idle(&self) {
        wait::until("a node without containers", JOB_DEADLINE, || {
            let at_rm = self.node.at_rm(&self.rm)?;
            let at_node = self.node.containers()?;
            wait::check(
                at_rm["numContainers"] == 0 && at_rm["usedMemoryMB"] == 0 && at_node.is_empty(),
                format!("{at_rm}, {at_node:?}"),
            )
        });
    }
}

#[test]
fn java_applications_of_both_container_types_succeed_on_our_agent() {
    require!(java, hadoop);
    let cluster = Cluster::start(&NodeKind::Agent(PROGRAM.into()));
    cluster.assert_runs_five("guaranteed", ContainerType::Guaranteed);
    cluster.assert_runs_five("opportunistic", ContainerType::Opportunistic);
    cluster.assert_promotes_three();
    cluster.assert_becomes_idle();
}

#[test]
fn a_java_node_runs_an_application_and_a_killed_one_leaves_nothing_on_it() {
    require!(java, hadoop);
    let cluster = Cluster::start(&NodeKind::Java);
    cluster.assert_runs_five("guaranteed", ContainerType::Guaranteed);
    let mut shell = cluster.submit("killed", 5, "sleep 1000", ContainerType::Guaranteed);
    let id = shell.application_id();
    cluster
        .rm
        .wait_application(&id, "RUNNING", Duration::from_secs(60));
    cluster.rm.kill_application(&cluster.lab, &id);
    let outcome = shell.outcome(JOB_DEADLINE);
    assert!(!outcome.succeeded, "{}", outcome.log);
    cluster.assert_becomes_idle();
}
