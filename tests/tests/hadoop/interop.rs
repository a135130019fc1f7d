//! Unmodified Hadoop (ResourceManager, the clients and ApplicationMasters of DistributedShell and
//! MapReduce) with the agent as the node.
//!
//! A test that needs nothing special of Hadoop's ResourceManager also runs with `nm-agent rm` in
//! its place: one body, two entries ([`with_each_rm`]), which the test's name tells apart.
//!
//! With `NM_AGENT_TEST_NODE=java` the same tests run with Hadoop's own NodeManager as the node: a
//! test that fails then is wrong. Any other value is the path of an agent to test instead of the
//! one built with the tests.

#![expect(
    clippy::unwrap_used,
    reason = "bodies of tests are tests too: a panic is a failed test"
)]

/// Makes two tests of each named function: `hadoop_rm::…` with Hadoop's ResourceManager and
/// `mini_rm::…` with the agent's own, which the function takes as its argument.
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
                super::$test(&crate::interop::mini_rm());
            })+
        }
    };
}

mod adopt;
mod disks;
mod draining;
mod epochs;
mod eviction;
mod failover;
mod freezing;
mod jobs;
mod killed_often;
mod labels;
mod links;
mod logs;
mod map_reduce;
mod processes;
mod protected;
mod proxied;
mod recovery;
mod registration;
mod relabelled;
mod restart;
pub(crate) mod secure;
mod shell;
mod shutdown;
mod waits;
mod yarn_cli;

use records::ContainerName;
use tests::cluster::Cluster;
use tests::conf::Options;
use tests::lab::Lab;
use tests::node::NodeKind;
use tests::rm::RmKind;
use tests::{java, node_process};

use crate::AGENT;

/// Class of `yarn node`.
const NODE_CLI: &str = "org.apache.hadoop.yarn.client.cli.NodeCLI";

/// Returns the node that the tests run with.
fn node_kind() -> NodeKind {
    node_process::node_kind(AGENT)
}

/// Returns the agent's own ResourceManager, of the program built with the tests.
fn mini_rm() -> RmKind {
    RmKind::Mini(AGENT.into())
}

/// Starts a cluster with the node that the tests run with.
fn start_cluster(rm: &RmKind, slots: u32, options: Options) -> Cluster {
    Cluster::start(rm, &node_kind(), slots, options)
}

/// Returns whether a container is an application's; its id may have an epoch.
fn is_of_application(container_id: &str, application_id: &str) -> bool {
    let id = container_id.parse::<ContainerName>();
    id.is_ok_and(|id| id.application_id().to_string() == application_id)
}

/// Runs a client of Hadoop to its end and returns what it printed.
#[track_caller]
fn run_client(lab: &Lab, class: &str, arguments: &[&str]) -> String {
    let output = java::command(&lab.conf(), class, 256)
        .args(arguments)
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {errors}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}
