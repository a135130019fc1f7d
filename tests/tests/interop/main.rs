//! Unmodified Hadoop (ResourceManager, the clients and ApplicationMasters of DistributedShell and MapReduce) with our agent as the node.
//!
//! A test that needs nothing that only Hadoop's ResourceManager has also runs with `nm-agent rm` in its place: one body, two entries
//! ([`with_each_rm`]), which the test's name tells apart.
//!
//! With `NM_AGENT_TEST_NODE=java` the same tests run with Hadoop's own NodeManager as the node: what fails then is a wrong test.
//! Any other value is the path of an agent to test instead of the one built with the tests.

#![expect(
    clippy::unwrap_used,
    reason = "bodies of tests are tests too: a panic is a failed test"
)]

/// Makes two tests of each function named: `hadoop_rm::…` with Hadoop's ResourceManager and `mini_rm::…` with the agent's own. The
/// function takes which.
macro_rules! with_each_rm {
    ($($test:ident),+ $(,)?) => {
        mod hadoop_rm {
            $(#[test]
            fn $test() {
                tests::require!(java, hadoop);
                super::$test(&tests::rm::RmKind::Hadoop);
            })+
        }

        mod mini_rm {
            $(#[test]
            fn $test() {
                tests::require!(java, hadoop);
                super::$test(&crate::mini_rm());
            })+
        }
    };
}

mod eviction;
mod freezing;
mod jobs;
mod links;
mod map_reduce;
mod proxied;
mod registration;
mod restart;
mod shell;
mod shutdown;
mod waits;

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use records::ContainerId;
use tests::conf::Options;
use tests::distributed_shell::{self, ContainerType, Job};
use tests::job_client::JobClient;
use tests::lab::Lab;
use tests::node::{Node, NodeKind};
use tests::rm::{ResourceManager, RmKind};
use tests::{proc, wait};

/// For a job to end once nothing holds it back: some JVM starts and heartbeats on a machine that may be busy building.
const JOB_DEADLINE: Duration = Duration::from_secs(180);

/// For a state to be reached that takes an ApplicationMaster's start at most.
const STATE_DEADLINE: Duration = Duration::from_secs(90);

/// Size of every container of these tests. A node's memory is a number of such slots.
const SLOT_MB: u32 = 256;

/// Which node the tests run with.
fn node_kind() -> NodeKind {
    match std::env::var("NM_AGENT_TEST_NODE").as_deref() {
        Ok("java") => NodeKind::Java,
        Ok(program) => NodeKind::Agent(PathBuf::from(program)),
        Err(_) => NodeKind::Agent(PathBuf::from(env!("CARGO_BIN_EXE_agent-under-test"))),
    }
}

/// The agent's own ResourceManager, of the program built with the tests.
fn mini_rm() -> RmKind {
    RmKind::Mini(PathBuf::from(env!("CARGO_BIN_EXE_agent-under-test")))
}

/// A ResourceManager and one registered node. Fields are dropped in this order.
struct Cluster {
    node: Node,
    rm: ResourceManager,
    lab: Lab,
}

impl Cluster {
    /// Starts one whose node holds `slots` containers of [`SLOT_MB`].
    fn start(rm: &RmKind, slots: u32, options: Options) -> Self {
        Self::start_on(rm, &node_kind(), slots, options)
    }

    /// The same with this kind of node.
    fn start_on(rm: &RmKind, node: &NodeKind, slots: u32, options: Options) -> Self {
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

    /// Starts a job of one-slot containers.
    fn submit(
        &self,
        name: &str,
        command: &str,
        containers: u32,
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

    /// A place for a file that commands of containers wait for.
    fn gate(&self, name: &str) -> Gate {
        Gate(self.lab.folder().join(name))
    }

    /// Waits until exactly `count` containers of an application, its ApplicationMaster left out, have begun their command.
    #[track_caller]
    fn wait_begun(&self, application_id: &str, count: usize) {
        let what = format!("{count} containers of {application_id} at their command");
        wait::until(what, STATE_DEADLINE, || {
            let begun = self.node.logs(application_id).first_lines();
            wait::check(begun.len() == count, begun.len())
        });
    }

    /// The process ids of an application's containers.
    fn pids(&self, application_id: &str) -> Vec<i32> {
        let mut found = proc::containers(self.lab.folder());
        found.retain(|process| {
            let id = process.container_id.as_ref();
            id.is_some_and(|id| is_of_application(id, application_id))
        });
        found.into_iter().map(|process| process.pid).collect()
    }
}

/// Whether a container is an application's. An epoch may stand in its id.
fn is_of_application(container_id: &str, application_id: &str) -> bool {
    let id = container_id.parse::<ContainerId>();
    id.is_ok_and(|id| id.application_id().to_string() == application_id)
}

/// A file that lets containers go on once it exists, so that no test has to guess how long something takes.
struct Gate(PathBuf);

impl Gate {
    /// Shell text that waits for the gate.
    fn wait_command(&self) -> String {
        format!("while [ ! -e {} ]; do sleep 0.1; done", self.0.display())
    }

    /// Lets them go on.
    fn open(&self) {
        fs::write(&self.0, "")
            .unwrap_or_else(|error| panic!("cannot open {}: {error}", self.0.display()));
    }
}

/// Shell text that prints the time of the container's first instruction, in nanoseconds.
const PRINT_BEGIN: &str = "date +%s%N";
