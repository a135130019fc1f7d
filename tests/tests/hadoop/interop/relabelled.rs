//! Jobs whose ApplicationMasters do not know execution types, under an operator's rule that makes
//! their containers opportunistic and promotes old ones.

use tests::cluster::{JOB_DEADLINE, PRINT_BEGIN, SLOT_MB, STATE_DEADLINE};
use tests::conf::Options;
use tests::distributed_shell::ContainerType;
use tests::node::{Node, NodeKind};
use tests::rm::RmKind;
use tests::wait;

use crate::interop::start_cluster;

/// Delay of promotions: long enough to see a container run before.
const PROMOTE_AFTER_MS: u64 = 5_000;

/// Number of containers of a job.
const CONTAINERS: u32 = 4;

with_each_rm!(
    a_job_is_made_opportunistic_promoted_and_succeeds_and_its_master_hears_of_nothing,
    without_a_rule_nothing_is_made_opportunistic,
);

fn distributed() -> Options {
    Options::default()
        .with("yarn.nodemanager.amrmproxy.enabled", true)
        .with("yarn.nodemanager.distributed-scheduling.enabled", true)
}

fn under_a_rule() -> Options {
    distributed()
        .with("yarn.nodemanager.agent.amrmproxy.relabel.rules", "all")
        .with(
            "yarn.nodemanager.agent.amrmproxy.relabel.all.promote-after-ms",
            PROMOTE_AFTER_MS,
        )
}

fn given_out(node: &Node) -> f64 {
    let of = |locality: &str| {
        let name = "nm_agent_amrmproxy_allocated_containers_total";
        node.metric(&format!("{name}{{locality=\"{locality}\"}}"))
    };
    ["node_local", "rack_local", "off_switch"]
        .map(|locality| of(locality).unwrap())
        .iter()
        .sum()
}

/// Numbers of containers that the node runs, guaranteed and opportunistic.
fn running(node: &Node) -> Result<[f64; 2], String> {
    let of = |kind: &str| {
        node.metric(&format!(
            "nm_agent_containers_running{{execution_type=\"{kind}\"}}"
        ))
    };
    Ok([of("guaranteed")?, of("opportunistic")?])
}

/// Numbers of promotions that reached their nodes, and that failed.
fn promoted(node: &Node) -> Result<[f64; 2], String> {
    let name = "nm_agent_amrmproxy_promotions_ended_total";
    let of = |outcome: &str| node.metric(&format!("{name}{{outcome=\"{outcome}\"}}"));
    Ok([of("ok")?, of("error")?])
}

fn a_job_is_made_opportunistic_promoted_and_succeeds_and_its_master_hears_of_nothing(rm: &RmKind) {
    promoted_job(rm, under_a_rule());
}

/// The ResourceManager orders the promotion too: one order is enough, and two do no harm.
#[test]
fn a_promotion_of_which_the_resource_manager_tells_the_node_too_ends_well() {
    tests::require!(java, hadoop);
    let options = under_a_rule().with("yarn.resourcemanager.auto-update.containers", true);
    promoted_job(&RmKind::Hadoop, options);
}

fn promoted_job(rm: &RmKind, options: Options) {
    let cluster = start_cluster(rm, 8, options);
    let gate = cluster.gate("gate");
    let command = format!("({PRINT_BEGIN}; {})", gate.wait_command());
    let mut shell = cluster.submit("ruled", &command, CONTAINERS, ContainerType::Guaranteed);
    let id = shell.application_id();
    let wanted = f64::from(CONTAINERS);
    wait::until("opportunistic containers", STATE_DEADLINE, || {
        let running = running(&cluster.node)?;
        wait::check(running[1] >= 1.0, format!("{running:?}"))
    });
    cluster.wait_begun(&id, CONTAINERS as usize);
    assert!(given_out(&cluster.node) >= wanted);
    wait::until("all of them promoted at the node", STATE_DEADLINE, || {
        let running = running(&cluster.node)?;
        let promoted = promoted(&cluster.node)?;
        wait::check(
            running == [wanted + 1.0, 0.0] && promoted == [wanted, 0.0],
            format!("{running:?} run, {promoted:?} promoted"),
        )
    });
    wait::until("all of them promoted at the RM", STATE_DEADLINE, || {
        let node = cluster.node.at_rm(&cluster.rm)?;
        let memory_mb = u64::from((CONTAINERS + 1) * SLOT_MB);
        wait::check(
            node["usedMemoryMB"] == memory_mb && node["numRunningOpportContainers"] == 0,
            node.to_string(),
        )
    });
    gate.open();
    shell.assert_succeeds(JOB_DEADLINE);
    cluster.node.logs(&id).assert_succeeded(CONTAINERS as usize);
    let master = cluster.node.logs(&id).application_master();
    assert!(!master.contains("updateType"), "{master}");
}

fn without_a_rule_nothing_is_made_opportunistic(rm: &RmKind) {
    let cluster = start_cluster(rm, 8, distributed());
    let mut shell = cluster.submit("free", "sleep 1", CONTAINERS, ContainerType::Guaranteed);
    shell.assert_succeeds(JOB_DEADLINE);
    for series in [
        "nm_agent_amrmproxy_relabelled_containers_total",
        "nm_agent_amrmproxy_promotions_asked_total",
    ] {
        assert_eq!(cluster.node.metric(series), Ok(0.0), "{series}");
    }
    assert!(given_out(&cluster.node) == 0.0);
}

/// The container runs on the other node, which is Hadoop's.
#[test]
fn a_promotion_is_brought_to_a_java_node_by_the_masters_node() {
    tests::require!(java, hadoop);
    // No container is preempted: DistributedShell counts that as a failure, whatever the exit
    // status.
    let options = Options {
        node_vcores: 48,
        ..under_a_rule()
    };
    // On the list of nodes at once, where looks may be late on a busy machine.
    let options = options.with("yarn.nodemanager.agent.amrmproxy.placement", "spread");
    let cluster = start_cluster(&RmKind::Hadoop, 48, options);
    let gate = cluster.gate("gate");
    let command = gate.wait_command().replace("sleep 0.05", "sleep 1");
    let mut shell = cluster.submit("to-java", &command, 40, ContainerType::Guaranteed);
    wait::until("a container given out by our node", STATE_DEADLINE, || {
        let given_out = given_out(&cluster.node);
        wait::check(given_out >= 1.0, given_out.to_string())
    });
    // Only now, so that the master is on the agent's node.
    let java = Node::start_registered(&cluster.lab, &NodeKind::Java, "java", &cluster.rm);
    wait::until(
        "a promoted container on the Java node",
        STATE_DEADLINE,
        || {
            let containers = java.containers()?;
            let is_promoted = |container: &serde_json::Value| {
                container["executionType"] == "GUARANTEED" && container["state"] == "RUNNING"
            };
            wait::check(
                containers.iter().any(is_promoted),
                format!("{containers:?}, {:?}", promoted(&cluster.node)),
            )
        },
    );
    assert_eq!(promoted(&cluster.node).unwrap()[1], 0.0);
    gate.open();
    shell.assert_succeeds(JOB_DEADLINE);
}
