//! MapReduce's own client, ApplicationMaster and tasks, whose reducers fetch from the node's
//! shuffle.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use tests::client::Client;
use tests::cluster::{SLOT_MB, STATE_DEADLINE};
use tests::conf::Options;
use tests::map_reduce::{self, ShuffleStores};
use tests::node::{Node, NodeKind};
use tests::rm::RmKind;

use crate::interop::{node_kind, start_cluster};

with_each_rm!(pi_is_estimated_by_maps_and_a_reduce_that_fetches_from_this_node);

fn pi_is_estimated_by_maps_and_a_reduce_that_fetches_from_this_node(rm: &RmKind) {
    // The ApplicationMaster takes two slots.
    let cluster = start_cluster(rm, 8, map_reduce::with_shuffle(Options::default()));
    let mut pi = map_reduce::start_pi(&cluster.lab, "pi", 4);
    let id = pi.application_id();
    let application = cluster.rm.wait_application(&id, "RUNNING", STATE_DEADLINE);
    assert_eq!(application["applicationType"], "MAPREDUCE", "{application}");

    let client = Client::connect(cluster.lab.rm_ports().client);
    let report = client.report(id.parse().unwrap()).unwrap();
    assert_ne!(report.host(), "N/A", "{report:?}");
    assert!(report.rpc_port() > 0, "{report:?}");
    assert!(report.original_tracking_url().contains(':'), "{report:?}");
    // The master's two slots; maps may have more.
    let used = report.app_resource_usage.unwrap_or_default();
    let memory_mb = used.used_resources.map_or(0, |used| used.memory());
    assert!(memory_mb >= i64::from(2 * SLOT_MB), "{memory_mb} MiB");

    let outcome = pi.outcome(map_reduce::JOB_DEADLINE);
    assert!(outcome.succeeded, "{}", outcome.log);
    // Four maps take ten samples each; Hadoop's NodeManager gives the same estimate.
    let estimate = "Estimated value of Pi is 3.40000000000000000000";
    assert!(outcome.log.contains(estimate), "{}", outcome.log);
    assert!(outcome.log.contains("Shuffled Maps =4"), "{}", outcome.log);
}

/// Returns the shuffle servers that reducers on a node fetched from, as `host:port`.
fn fetched_from(node: &Node, application_id: &str) -> BTreeSet<String> {
    let logs = node.logs(application_id).files("syslog.shuffle");
    let freed = |line: &str| {
        let (before, _) = line.split_once(" freed by fetcher")?;
        before.rsplit(' ').next().map(str::to_owned)
    };
    let lines = logs.values().flat_map(|log| log.lines());
    lines.filter_map(freed).collect()
}

/// Writes six files of words below `folder`, and returns how often each word occurs in them.
fn write_words(folder: &std::path::Path) -> BTreeMap<String, u32> {
    let mut counts = BTreeMap::new();
    fs::create_dir(folder).unwrap();
    for file in 0..6_u32 {
        let words: Vec<_> = (0..500)
            .map(|n| format!("w{}", n * n * (file + 3) % 97))
            .collect();
        for word in &words {
            *counts.entry(word.clone()).or_default() += 1;
        }
        fs::write(folder.join(file.to_string()), words.join(" ")).unwrap();
    }
    counts
}

#[test]
fn reducers_on_a_java_node_and_on_ours_fetch_from_both() {
    tests::require!(java, hadoop);
    let options = map_reduce::with_shuffle(Options::default());
    count_words_across_nodes(options, "");
}

#[test]
fn reducers_on_a_java_node_and_on_ours_fetch_from_both_over_tls() {
    tests::require!(java, hadoop);
    let stores = ShuffleStores::make();
    let options = map_reduce::with_shuffle(Options::default());
    count_words_across_nodes(stores.with_tls(options), "tls=true");
}

/// Runs a job over a Java node and ours, in which each reducer needs outputs of both. `listening`
/// is in the agent's line about its shuffle: over TLS, no reducer could fetch otherwise.
fn count_words_across_nodes(options: Options, listening: &str) {
    // Neither node has slots for all six maps, nor for all six reducers.
    let cluster = start_cluster(&RmKind::Hadoop, 4, options);
    if let NodeKind::Agent(_) = node_kind() {
        let log = cluster.node.process.log();
        let line = log.lines().find(|line| line.contains("mapreduce_shuffle"));
        assert!(line.is_some_and(|line| line.contains(listening)), "{log}");
    }
    let java = Node::start_registered(&cluster.lab, &NodeKind::Java, "java", &cluster.rm);
    let (words, counts) = (
        cluster.lab.folder().join("words"),
        cluster.lab.folder().join("counts"),
    );
    let expected = write_words(&words);
    let mut job = map_reduce::start(
        &cluster.lab,
        "wordcount",
        [
            "wordcount",
            "-Dmapreduce.job.reduces=6",
            "-Dmapreduce.job.reduce.slowstart.completedmaps=1.0",
            words.to_str().unwrap(),
            counts.to_str().unwrap(),
        ],
    );
    let id = job.application_id();
    job.assert_succeeds(map_reduce::JOB_DEADLINE);
    let mut counted = BTreeMap::new();
    for part in 0..6 {
        let text = fs::read_to_string(counts.join(format!("part-r-{part:05}"))).unwrap();
        counted.extend(text.lines().map(|line| {
            let (word, count) = line.split_once('\t').unwrap();
            (word.to_owned(), count.parse().unwrap())
        }));
    }
    assert_eq!(counted, expected);
    let servers = [&cluster.node, &java].map(|node| fetched_from(node, &id));
    assert!(
        servers.iter().all(|servers| servers.len() == 2),
        "{servers:?}"
    );
    assert_eq!(servers[0], servers[1]);
}
