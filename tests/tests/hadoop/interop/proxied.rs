//! ApplicationMasters that reach the ResourceManager through their node's AMRMProxy.
//!
//! On one machine every master's `localhost` is the same, so each node's containers have a
//! configuration with their own proxy's port.

use std::net::Ipv4Addr;

use nix::sys::signal::Signal;
use test_support::scripted::connect_scheduler;
use tests::cluster::{Cluster, JOB_DEADLINE, PRINT_BEGIN, STATE_DEADLINE};
use tests::conf::{Options, StateStore};
use tests::distributed_shell::ContainerType;
use tests::node::{Node, NodeKind};
use tests::proxy_cluster::tokens_of;
use tests::rm::RmKind;
use tests::{map_reduce, wait};
use wire::client::RpcError;
use wire::exception::HadoopException;
use wire::token::Token;

use crate::interop::{mini_rm, node_kind, start_cluster};

fn proxied(options: Options) -> Options {
    options.with("yarn.nodemanager.amrmproxy.enabled", true)
}

/// Returns the AMRMToken in the token file of an application's master, which must be the only one.
pub(super) fn master_token(cluster: &Cluster, application_id: &str) -> Token {
    // The id may have an epoch.
    let attempts = cluster.rm.attempts(application_id).unwrap();
    let master = attempts[0]["containerId"].as_str();
    let master = master.expect("a running attempt has a container");
    let tokens = tokens_of(&cluster.node.site.local_dir(), master.parse().unwrap());
    let mut tokens = tokens.expect("a running master has its tokens");
    assert_eq!(tokens.len(), 1, "{tokens:?}");
    tokens.remove(0)
}

/// Opens a connection to the scheduler on this port and closes it.
pub(super) fn try_connect(port: u16, token: &Token) -> Result<(), RpcError> {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime can be made");
    let scheduler = (Ipv4Addr::LOCALHOST, port).into();
    runtime
        .block_on(connect_scheduler(scheduler, token))
        .map(|_| ())
}

with_each_rm!(
    a_job_of_guaranteed_containers_succeeds_and_its_master_holds_a_token_of_this_node_only,
    a_job_of_opportunistic_containers_is_spread_over_both_nodes_by_the_masters_own,
);

fn a_job_of_guaranteed_containers_succeeds_and_its_master_holds_a_token_of_this_node_only(
    rm: &RmKind,
) {
    let cluster = start_cluster(rm, 8, proxied(Options::default()));
    let gate = cluster.gate("gate");
    let mut shell = cluster.submit(
        "proxied",
        &gate.wait_command(),
        6,
        ContainerType::Guaranteed,
    );
    let id = shell.application_id();
    wait::until(
        "the master's heartbeats through the proxy",
        STATE_DEADLINE,
        || {
            let series = "nm_agent_amrmproxy_calls_total{method=\"allocate\",outcome=\"ok\"}";
            let calls = cluster.node.metric(series)?;
            wait::check(calls >= 2.0, calls.to_string())
        },
    );
    assert_eq!(cluster.node.metric("nm_agent_amrmproxy_pipelines"), Ok(1.0));
    let token = master_token(&cluster, &id);
    assert_eq!(token.service, "");
    try_connect(cluster.node.site.ports.amrm_proxy, &token)
        .expect("the node's own token opens the proxy");
    let refusal =
        try_connect(cluster.lab.rm_ports().scheduler, &token).expect_err("it opens nothing else");
    let refusal = refusal.remote().expect("the ResourceManager says why");
    assert!(refusal.is(HadoopException::InvalidToken), "{refusal}");
    gate.open();
    shell.assert_succeeds(JOB_DEADLINE);
    cluster.node.logs(&id).assert_succeeded(6);
    wait::until("the pipeline's end", STATE_DEADLINE, || {
        let pipelines = cluster.node.metric("nm_agent_amrmproxy_pipelines")?;
        wait::check(pipelines == 0.0, pipelines.to_string())
    });
}

/// Adds distributed scheduling: nodes allocate opportunistic containers themselves.
pub(super) fn distributed(options: Options) -> Options {
    proxied(options).with("yarn.nodemanager.distributed-scheduling.enabled", true)
}

/// Returns the printed numbers of the containers that an application used on a node, without its
/// master.
fn used_on(node: &Node, application_id: &str) -> Vec<i64> {
    let files = node.logs(application_id).files("stdout");
    let number = |id: &String| id.rsplit('_').next()?.parse().ok();
    files.keys().filter_map(number).collect()
}

/// Upper bound of the printed numbers from which a node counts down: ids have 40 bits within an
/// epoch.
const NODE_IDS_END: i64 = 1 << 40;

fn allocated(node: &Node) -> f64 {
    let series = "nm_agent_amrmproxy_allocated_containers_total{locality=\"off_switch\"}";
    node.metric(series).unwrap()
}

fn a_job_of_opportunistic_containers_is_spread_over_both_nodes_by_the_masters_own(rm: &RmKind) {
    let cluster = start_cluster(rm, 8, distributed(Options::default()));
    let second = Node::start_registered(&cluster.lab, &node_kind(), "second", &cluster.rm);
    let mut shell = cluster.submit("distributed", "sleep 1", 10, ContainerType::Opportunistic);
    let id = shell.application_id();
    shell.assert_succeeds(JOB_DEADLINE);
    let given_out = allocated(&cluster.node) + allocated(&second);
    assert!(given_out >= 10.0, "{given_out} given out by the nodes");
    let used = [&cluster.node, &second].map(|node| used_on(node, &id));
    for used in &used {
        assert!(!used.is_empty(), "nothing ran on one node: {used:?}");
        let from_the_end = |id: &i64| (NODE_IDS_END - 100..NODE_IDS_END).contains(id);
        assert!(used.iter().all(from_the_end), "{used:?}");
    }
    assert_eq!(used.concat().len(), 10, "{used:?}");
}

#[test]
fn a_java_node_takes_containers_that_our_node_gave_out() {
    tests::require!(java, hadoop);
    // Looks would not find a node that sleeps.
    let options = Options::default().with("yarn.nodemanager.agent.amrmproxy.placement", "spread");
    let cluster = start_cluster(&RmKind::Hadoop, 8, distributed(options));
    let java = Node::start_registered(&cluster.lab, &NodeKind::Java, "java", &cluster.rm);
    // A node that sends no heartbeats gets no master, and stays on the list for the others.
    java.process.signal(Signal::SIGSTOP);
    let mut shell = cluster.submit("to-java", "echo", 10, ContainerType::Opportunistic);
    let id = shell.application_id();
    wait::until("a container given out by our node", STATE_DEADLINE, || {
        let given_out = allocated(&cluster.node);
        wait::check(given_out >= 1.0, given_out.to_string())
    });
    java.process.signal(Signal::SIGCONT);
    shell.assert_succeeds(JOB_DEADLINE);
    assert!(
        !used_on(&java, &id).is_empty(),
        "nothing ran on the Java node"
    );
    assert!(allocated(&cluster.node) >= 10.0);
}

/// Either node has fewer places than the job has containers, so that what is held back on ours goes
/// to the Java node once it is there, and to whichever has room after that.
#[test]
fn a_java_node_is_looked_at_and_takes_what_had_no_room_on_ours() {
    tests::require!(java, hadoop);
    let options = Options {
        queue_length_max: 2,
        queue_limits: (2, 2),
        ..Options::default()
    };
    let cluster = start_cluster(&RmKind::Hadoop, 8, distributed(options));
    let gate = cluster.gate("gate");
    let command = gate.wait_command();
    let mut shell = cluster.submit("looked-at", &command, 30, ContainerType::Opportunistic);
    let id = shell.application_id();
    let metric = |series: &str| cluster.node.metric(series);
    wait::until("containers without room", STATE_DEADLINE, || {
        let held_back = metric("nm_agent_amrmproxy_held_back_containers_total")?;
        wait::check(held_back >= 1.0, held_back.to_string())
    });
    let java = Node::start_registered(&cluster.lab, &NodeKind::Java, "java", &cluster.rm);
    wait::until("a container on the Java node", STATE_DEADLINE, || {
        let used = used_on(&java, &id);
        wait::check(!used.is_empty(), "none")
    });
    gate.open();
    shell.assert_succeeds(JOB_DEADLINE);
    let looks = metric("nm_agent_amrmproxy_looks_total{outcome=\"ok\"}").unwrap();
    assert!(looks >= 1.0, "{looks} nodes have answered");
}

/// Configures the client with the proxy of the node: MapReduce's configuration travels with the
/// job. Of each hundred maps, MapReduce makes the first 40 opportunistic: here all ten. Under
/// Hadoop's ResourceManager the same job runs in [`crate::map_reduce`].
#[test]
fn the_maps_of_pi_are_opportunistic_through_the_proxy_under_our_rm() {
    tests::require!(java, hadoop);
    let options = map_reduce::with_shuffle(distributed(Options::default()));
    // The ApplicationMaster takes two slots.
    let mut cluster = start_cluster(&mini_rm(), 8, options);
    let proxy = format!("localhost:{}", cluster.node.site.ports.amrm_proxy);
    cluster
        .lab
        .set("yarn.resourcemanager.scheduler.address", proxy);
    let share = "-Dmapreduce.job.num-opportunistic-maps-percent=40";
    let mut pi = map_reduce::start(&cluster.lab, "proxied-pi", ["pi", share, "10", "100"]);
    let outcome = pi.outcome(map_reduce::JOB_DEADLINE);
    assert!(outcome.succeeded, "{}", outcome.log);
    assert!(
        outcome.log.contains(map_reduce::PI_10_100),
        "{}",
        outcome.log
    );
    // A map whose result the ApplicationMaster has may end by itself or with the application.
    let ended = |outcome: &str| {
        let name = "nm_agent_container_completions_total";
        let labels = format!("execution_type=\"opportunistic\",outcome=\"{outcome}\"");
        cluster.node.metric(&format!("{name}{{{labels}}}"))
    };
    wait::until("the ends of ten opportunistic maps", STATE_DEADLINE, || {
        let mut ends = ended("succeeded")?;
        ends += ended("killed_by_appmaster")? + ended("killed_after_app_completion")?;
        wait::check(ends >= 10.0, ends.to_string())
    });
}

#[test]
fn a_proxied_job_goes_on_over_a_restart_of_the_rm_that_its_master_does_not_notice() {
    tests::require!(java, hadoop);
    let options = Options {
        state_store: StateStore::FileSystem,
        ..Options::default()
    };
    let mut cluster = start_cluster(&RmKind::Hadoop, 8, distributed(options));
    let gate = cluster.gate("gate");
    let command = format!("({PRINT_BEGIN}; {})", gate.wait_command());
    let mut shell = cluster.submit("restarted", &command, 4, ContainerType::Opportunistic);
    let id = shell.application_id();
    cluster.wait_begun(&id, 4);
    cluster.rm.kill();
    cluster.rm.start_again(&cluster.lab);
    cluster
        .node
        .wait_state(&cluster.rm, "RUNNING", STATE_DEADLINE);
    let _ = cluster.rm.wait_application(&id, "RUNNING", STATE_DEADLINE);
    let again = "nm_agent_amrmproxy_registrations_again_total";
    wait::until("the node registers it again", STATE_DEADLINE, || {
        let count = cluster.node.metric(again)?;
        wait::check(count >= 1.0, count.to_string())
    });
    gate.open();
    shell.assert_succeeds(JOB_DEADLINE);
    assert_eq!(used_on(&cluster.node, &id).len(), 4);
    let by_the_master =
        "nm_agent_amrmproxy_calls_total{method=\"registerApplicationMaster\",outcome=\"ok\"}";
    assert_eq!(cluster.node.metric(by_the_master), Ok(1.0));
}
