//! Localization of containers whose files the node has.

use std::fs;

use test_support::LaunchContext;
use tests::http;
use tests::scripted_cluster::ScriptedCluster;

use crate::AGENT;

/// Files of each container: those of a MapReduce task are its job's jar, configuration and splits.
const FILES: usize = 5;

/// Containers that are started by one call.
const BATCH: usize = 20;

/// Starts this many containers of one application, after one for which its files are fetched.
/// Returns the mean time of their localization in milliseconds, as the agent measures it.
pub(crate) fn measure(containers: usize) -> f64 {
    let cluster = ScriptedCluster::start_with(AGENT, |site| {
        site.set("yarn.nodemanager.resource.memory-mb", 64_000);
    });
    let context = linked(&cluster);
    run(&cluster, &context, 1);
    let (sum, count) = localizations(&cluster);
    for _ in 0..containers / BATCH {
        run(&cluster, &context, BATCH);
    }
    let (sum_after, count_after) = localizations(&cluster);
    (sum_after - sum) * 1000.0 / (count_after - count)
}

fn linked(cluster: &ScriptedCluster) -> LaunchContext {
    (0..FILES).fold(LaunchContext::command(":"), |context, number| {
        let file = cluster.node.folder().join(format!("resource-{number}"));
        fs::write(&file, "resource").expect("the folder of the bench can be written to");
        context.file(&format!("link-{number}"), &file)
    })
}

/// Starts containers and waits for their ends.
fn run(cluster: &ScriptedCluster, context: &LaunchContext, count: usize) {
    let allocate = || cluster.am.allocate().memory_mb(16);
    let requests: Vec<_> = (0..count).map(|_| (allocate(), context.clone())).collect();
    let ids: Vec<_> = requests
        .iter()
        .map(|(allocation, _)| allocation.id)
        .collect();
    let started = cluster.am.start_all(requests);
    started.unwrap_or_else(|refusal| panic!("{refusal}"));
    for id in ids {
        let completed = cluster.rm.wait_completed(id);
        assert_eq!(completed.exit_status, 0, "{completed:?}");
    }
}

/// Returns the agent's sum of the times, in seconds, and their count.
fn localizations(cluster: &ScriptedCluster) -> (f64, f64) {
    let port = cluster.rm.wait_registrations(1).http_port();
    let answer = http::get(&format!("http://127.0.0.1:{port}/metrics"));
    let text = answer.unwrap_or_else(|error| panic!("{error}")).body;
    let series = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        let value = line.and_then(|value| value.trim().parse().ok());
        value.unwrap_or_else(|| panic!("no {name}"))
    };
    (
        series("nm_agent_localization_seconds_sum "),
        series("nm_agent_localization_seconds_count "),
    )
}
