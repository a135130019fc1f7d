//! Jobs that name their node's AMRMProxy beside jobs that do not know it, on nodes whose masters
//! keep the ResourceManager's token.

use std::time::Duration;

use tests::cluster::{Cluster, JOB_DEADLINE, PRINT_BEGIN, STATE_DEADLINE};
use tests::conf::Options;
use tests::distributed_shell::ContainerType;
use tests::map_reduce::{self, OrderedJob};
use tests::rm::RmKind;
use tests::{require, wait};

use crate::proxy_interop::{agent, distributed};

/// Expiry interval of a silent master, during which the node is restarted.
const AM_EXPIRY: Duration = Duration::from_secs(15);

/// Interval between two keys: Hadoop's minimum is three of the above.
const ROLL_INTERVAL: Duration = Duration::from_secs(46);

/// Deadline for the new key to have taken the place of the old one.
const ROLL_DEADLINE: Duration = Duration::from_secs(200);

/// Slots for two masters, of which MapReduce's takes two, and their containers.
const SLOTS: u32 = 8;

fn keeping() -> Options {
    let keys = "yarn.resourcemanager.am-rm-tokens.master-key-rolling-interval-secs";
    let expiry = "yarn.am.liveness-monitor.expiry-interval-ms";
    map_reduce::with_shuffle(distributed())
        .with("yarn.nodemanager.agent.amrmproxy.token", "keep")
        .with("yarn.nodemanager.recovery.enabled", true)
        .with(expiry, AM_EXPIRY.as_millis())
        .with(keys, ROLL_INTERVAL.as_secs())
}

/// Waits until masters have called through the node this often since it was started.
#[track_caller]
fn wait_calls(cluster: &Cluster, calls: f64) {
    let series = "nm_agent_amrmproxy_calls_total{method=\"allocate\",outcome=\"ok\"}";
    wait::until("calls through the node", STATE_DEADLINE, || {
        let found = cluster.node.metric(series)?;
        wait::check(found >= calls, found.to_string())
    });
}

#[test]
fn both_kinds_of_jobs_go_on_over_a_rolled_key_and_a_killed_node() {
    require!(jdk, hadoop);
    let mut cluster = Cluster::start(&RmKind::Hadoop, &agent(), SLOTS, keeping());
    let gate = cluster.gate("gate");
    // The configuration that the containers of this node see names its proxy; MapReduce's travels
    // with the job and is its client's, which knows the ResourceManager only.
    let command = format!("({PRINT_BEGIN}; {})", gate.wait_command());
    let mut through = cluster.submit("through", &command, 1, ContainerType::Guaranteed);
    let job = OrderedJob::compile(&cluster.lab);
    let gate_property = format!("ordered.gate={}", gate.path().display());
    let properties = [&gate_property, "mapreduce.job.reduces=0"];
    let mut straight = job.start(&cluster.lab, "straight", &properties);
    let ids = [through.application_id(), straight.application_id()];
    cluster.wait_begun(&ids[0], 1);
    for id in &ids {
        let _running = cluster.rm.wait_application(id, "RUNNING", STATE_DEADLINE);
    }
    wait_calls(&cluster, 2.0);
    let registered =
        "nm_agent_amrmproxy_calls_total{method=\"registerApplicationMaster\",outcome=\"ok\"}";
    assert_eq!(cluster.node.metric(registered), Ok(1.0), "one of two");

    wait::until("the new key", ROLL_DEADLINE, || {
        let log = cluster.rm.log();
        wait::check(log.contains("Activating next master key"), "still the old")
    });
    let renewed = "the ResourceManager has renewed the AMRMToken";
    assert!(cluster.node.process.log().contains(renewed));
    cluster.node.process.kill();
    cluster.node.start_again(&agent());
    cluster
        .node
        .wait_state(&cluster.rm, "RUNNING", STATE_DEADLINE);
    // The master has to connect anew, with the token that it was sent.
    wait_calls(&cluster, 2.0);
    gate.open();
    through.assert_succeeds(JOB_DEADLINE);
    let outcome = straight.outcome(JOB_DEADLINE);
    assert!(outcome.succeeded, "{}", outcome.log);
    for id in &ids {
        assert_eq!(cluster.rm.attempts(id).unwrap().len(), 1, "{id}");
    }
}
