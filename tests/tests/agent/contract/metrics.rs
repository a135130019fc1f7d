//! Metrics under Hadoop's names: dashboards made for one node read the other.

use std::time::Duration;

use serde_json::Value;
use tests::{http, wait};

use crate::contract::cluster_with;

/// Deadline for a metric to change: the Java NodeManager renews its metrics every ten seconds.
const DEADLINE: Duration = Duration::from_secs(60);

/// Names on `/jmx`, and on `/prom` behind `node_manager_metrics_`.
const NAMES: [(&str, &str); 20] = [
    ("ContainersLaunched", "containers_launched"),
    ("ContainersCompleted", "containers_completed"),
    ("ContainersFailed", "containers_failed"),
    ("ContainersKilled", "containers_killed"),
    (
        "ContainerLaunchDurationNumOps",
        "container_launch_duration_num_ops",
    ),
    (
        "ContainerLaunchDurationAvgTime",
        "container_launch_duration_avg_time",
    ),
    ("ContainersIniting", "containers_initing"),
    ("ContainersRunning", "containers_running"),
    ("ContainersPaused", "containers_paused"),
    ("ContainersGuaranteedQueued", "containers_guaranteed_queued"),
    (
        "ContainersOpportunisticQueued",
        "containers_opportunistic_queued",
    ),
    (
        "RunningOpportunisticContainers",
        "running_opportunistic_containers",
    ),
    ("ApplicationsRunning", "applications_running"),
    ("AllocatedContainers", "allocated_containers"),
    ("AllocatedGB", "allocated_gb"),
    ("AvailableGB", "available_gb"),
    ("AllocatedVCores", "allocated_v_cores"),
    ("AvailableVCores", "available_v_cores"),
    ("AllocatedOpportunisticGB", "allocated_opportunistic_gb"),
    (
        "AllocatedOpportunisticVCores",
        "allocated_opportunistic_v_cores",
    ),
];

#[test]
fn numbers_have_hadoops_names_and_meanings() {
    let cluster = cluster_with(|site| {
        site.set("hadoop.prometheus.endpoint.enabled", true);
    });
    let port = cluster.rm.wait_registrations(1).http_port();
    let ended = cluster.am.run("true");
    let failed = cluster.am.run("exit 3");
    for id in [ended, failed] {
        cluster.rm.wait_completed(id);
    }
    let gate = cluster.gate("gate");
    cluster.am.run(&gate.then("true"));
    let query = "qry=Hadoop:service=NodeManager,name=NodeManagerMetrics";
    let bean = wait::until("the numbers", DEADLINE, || {
        let mut document = http::get_json(&format!("http://localhost:{port}/jmx?{query}"))?;
        let bean: Value = document["beans"][0].take();
        let expected = [
            ("ContainersLaunched", 3),
            ("ContainersCompleted", 1),
            ("ContainersFailed", 1),
            ("ContainersRunning", 1),
            ("ApplicationsRunning", 1),
            ("AllocatedContainers", 1),
            ("AllocatedGB", 1),
            ("AvailableGB", 0),
            ("AllocatedVCores", 1),
            ("AvailableVCores", 63),
        ];
        let holds = expected.iter().all(|(name, value)| bean[*name] == *value);
        if holds {
            Ok(bean)
        } else {
            Err(bean.to_string())
        }
    });
    assert_eq!(bean["modelerType"], "NodeManagerMetrics");
    assert_eq!(bean["tag.Context"], "yarn");
    for (name, _) in NAMES {
        assert!(bean[name].is_number(), "{name}: {bean}");
    }
    wait::until("Prometheus' names", DEADLINE, || {
        let text = http::get(&format!("http://localhost:{port}/prom"))?.body;
        let missing = NAMES.iter().find(|(_, name)| {
            let begin = format!("node_manager_metrics_{name}{{context=\"yarn\",hostname=\"");
            !text.lines().any(|line| line.starts_with(&begin))
        });
        match missing {
            None => Ok(()),
            Some((_, name)) => Err(format!("no {name} in {} lines", text.lines().count())),
        }
    });
    gate.open();
}
