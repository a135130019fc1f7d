//! The ResourceManager ends while containers run, and restarts without memory of them: it stores
//! nothing.

use std::time::Duration;

use records::Resource;
use test_support::LaunchContext;
use tests::client::Client;
use tests::node::NodeKind;
use tests::node_process::NodeProcess;
use tests::ports::Port;
use tests::{http, proc, wait};
use wire::proto::hadoop_yarn::{ApplicationSubmissionContextProto, YarnApplicationStateProto};

use crate::AGENT;
use crate::mini_rm::process::{DEADLINE, MiniRm};

/// A ResourceManager that keeps its ports over a restart, and an agent. Fields are dropped in this
/// order.
struct Cluster {
    node: NodeProcess,
    rm: MiniRm,
}

impl Cluster {
    fn start() -> Self {
        let [tracker, client]: [u16; 2] = [Port::reserve(), Port::reserve()].map(Port::release);
        let mut rm = MiniRm::start(|site| {
            site.set(
                "yarn.resourcemanager.resource-tracker.address",
                format!("127.0.0.1:{tracker}"),
            )
            .set(
                "yarn.resourcemanager.address",
                format!("127.0.0.1:{client}"),
            )
            .set("yarn.resourcemanager.am.max-attempts", 1)
            .set("yarn.scheduler.minimum-allocation-mb", 128)
            .set(
                "yarn.resourcemanager.nodemanagers.heartbeat-interval-ms",
                100,
            );
        });
        let node = NodeProcess::start_toward(&NodeKind::Agent(AGENT.into()), tracker, |_| {});
        wait_active(&mut rm);
        Self { node, rm }
    }

    /// Submits an application whose master is a command.
    fn submit(&mut self, command: &str) -> records::ApplicationId {
        let client = Client::connect(self.rm.address("client").port());
        let id = client.new_application();
        let submission = ApplicationSubmissionContextProto {
            application_id: Some(id.into()),
            am_container_spec: Some(LaunchContext::command(command).into_proto()),
            resource: Some(Resource::new(128, 1).into()),
            ..ApplicationSubmissionContextProto::default()
        };
        client.submit(submission).unwrap();
        id
    }

    /// Waits until a container has begun to sleep, and returns its processes.
    fn wait_sleeping(&self) -> Vec<i32> {
        wait::until("a container that sleeps", DEADLINE, || {
            let found = self.node.container_processes();
            let sleeps = |process: &proc::Found| process.command.starts_with("sleep");
            wait::check(found.iter().any(sleeps), format!("{found:?}"))?;
            Ok::<_, String>(pids(&found))
        })
    }
}

fn pids(found: &[proc::Found]) -> Vec<i32> {
    found.iter().map(|process| process.pid).collect()
}

fn wait_active(rm: &mut MiniRm) {
    let web = rm.web();
    wait::until("a node that runs", DEADLINE, || {
        let metrics = http::get_json(&format!("{web}/metrics"))?;
        let active = metrics["clusterMetrics"]["activeNodes"].clone();
        wait::check(active == 1, active.to_string())
    });
}

#[test]
fn containers_outlive_the_rm_and_are_ended_by_one_that_does_not_know_them() {
    let mut cluster = Cluster::start();
    let before = cluster.submit("exec sleep 600");
    let pids_before = cluster.wait_sleeping();

    cluster.rm.kill();
    // The agent logs which ResourceManager it lost, and keeps its containers.
    cluster
        .node
        .process
        .wait_log("will be tried again", DEADLINE);
    assert_eq!(pids(&cluster.node.container_processes()), pids_before);

    cluster.rm.start_again();
    wait_active(&mut cluster.rm);
    wait::until("the end of what nobody knows", DEADLINE, || {
        let left = cluster.node.container_processes();
        wait::check(left.is_empty(), format!("{left:?}"))
    });
    let client = Client::connect(cluster.rm.address("client").port());
    assert!(client.report(before).is_err());

    // The node serves the new one: this application's master does not register, so it counts as
    // failed, with its exit status.
    let id = cluster.submit("exit 7");
    let report = wait::until("the end of an application", DEADLINE, || {
        let report = client.report(id).map_err(|error| error.to_string())?;
        let failed = report.yarn_application_state() == YarnApplicationStateProto::Failed;
        wait::check(failed, format!("{report:?}"))?;
        Ok::<_, String>(report)
    });
    assert!(
        report.diagnostics().contains("exit status 7"),
        "{}",
        report.diagnostics()
    );
}

#[test]
fn a_master_without_a_command_fails_its_application_and_leaves_nothing() {
    let mut cluster = Cluster::start();
    let client = Client::connect(cluster.rm.address("client").port());
    let id = client.new_application();
    let submission = ApplicationSubmissionContextProto {
        application_id: Some(id.into()),
        am_container_spec: Some(Default::default()),
        resource: Some(Resource::new(128, 1).into()),
        ..ApplicationSubmissionContextProto::default()
    };
    client.submit(submission).unwrap();
    let report = wait::until("the end of the application", DEADLINE, || {
        let report = client.report(id).map_err(|error| error.to_string())?;
        let failed = report.yarn_application_state() == YarnApplicationStateProto::Failed;
        wait::check(failed, format!("{report:?}"))?;
        Ok::<_, String>(report)
    });
    assert!(!report.diagnostics().is_empty());
    assert!(cluster.node.container_processes().is_empty());
}

#[test]
fn a_node_that_is_told_to_stop_while_the_rm_is_gone_leaves_nothing_running() {
    let mut cluster = Cluster::start();
    let _ = cluster.submit("exec sleep 600");
    let _ = cluster.wait_sleeping();
    cluster.rm.kill();
    cluster.node.process.terminate();
    let exit = cluster.node.process.wait_exit(Duration::from_secs(60));
    assert_eq!(exit.code(), Some(0), "{}", cluster.node.process.log());
    assert!(cluster.node.container_processes().is_empty());
}

#[test]
fn an_rm_that_is_told_to_stop_ends_in_order_beside_nodes_and_clients() {
    let mut cluster = Cluster::start();
    let _ = cluster.submit("exec sleep 600");
    let pids_before = cluster.wait_sleeping();
    let client = Client::connect(cluster.rm.address("client").port());
    cluster.rm.process.terminate();
    let exit = cluster.rm.process.wait_exit(DEADLINE);
    assert_eq!(exit.code(), Some(0), "{}", cluster.rm.process.log());
    assert_eq!(pids(&cluster.node.container_processes()), pids_before);
    drop(client);
}
