//! Our own ResourceManager, `nm-agent rm`: the command itself, what it does with Hadoop's own NodeManager, and with simulated nodes
//! and masters. What it does with our agent is among the tests of `interop`.

#![expect(
    clippy::unwrap_used,
    reason = "functions that tests share are tests too: a panic is a failed test"
)]

mod clients;
mod command;
mod distributed;
mod garbage;
mod gone;
mod masters;
mod nodes;
mod process;
mod proxied;

use std::time::Duration;

use tests::conf::Options;
use tests::distributed_shell::{self, ContainerType, Job};
use tests::job_client::JobClient;
use tests::lab::Lab;
use tests::node::{Node, NodeKind};
use tests::rm::{ResourceManager, RmKind};
use tests::{require, wait};

const PROGRAM: &str = env!("CARGO_BIN_EXE_agent-under-test");

/// For a job to end: two JVM starts on a machine that may be busy building.
const JOB_DEADLINE: Duration = Duration::from_secs(120);

/// Size of every container.
const SLOT_MB: u32 = 256;

/// A ResourceManager of ours and one node of Hadoop's. Fields are dropped in this order.
struct Cluster {
    node: Node,
    rm: ResourceManager,
    lab: Lab,
}

impl Cluster {
    fn start() -> Self {
        let kind = RmKind::Mini(PROGRAM.into());
        let options = Options {
            node_memory_mb: 4 * SLOT_MB,
            ..Options::default()
        };
        let lab = Lab::new(&kind, options);
        let rm = ResourceManager::start(&lab, &kind);
        let node = Node::start_registered(&lab, &NodeKind::Java, "node", &rm);
        Self { node, rm, lab }
    }

    fn submit(
        &self,
        name: &str,
        containers: u32,
        command: &str,
        container_type: ContainerType,
    ) -> JobClient {
        let job = Job {
            command,
            containers,
            container_memory_mb: SLOT_MB,
            master_memory_mb: SLOT_MB,
            container_type,
        };
        distributed_shell::start(&self.lab, name, &job)
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
fn a_java_node_runs_an_application_and_a_killed_one_leaves_nothing_on_it() {
    require!(java, hadoop);
    let cluster = Cluster::start();
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
