//! An unmodified Spark in cluster mode, with HDFS as the default file system: its ApplicationMaster
//! and executors on the agent's nodes, its shuffle between them, and its aggregated logs.

#![expect(
    clippy::unwrap_used,
    reason = "bodies of tests are tests too: a panic is a failed test"
)]

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use tests::conf::{Options, Properties};
use tests::hdfs::Hdfs;
use tests::lab::{LOCALHOST, Lab};
use tests::node::Node;
use tests::node_process::node_kind;
use tests::require;
use tests::rm::{ResourceManager, RmKind};
use tests::spark::{DRIVER_MB, EXECUTOR_MB, JOB_DEADLINE, Spark};
use tests::yarn_logs::{wait_aggregated, yarn_logs};

use crate::AGENT;

/// Address of the second node. Executors of one host read each other's files from the disk.
const OTHER_HOST: &str = "127.0.0.2";

/// Memory of a node for a driver and an executor.
const BOTH_MB: u32 = DRIVER_MB + EXECUTOR_MB;

/// Deadline for a node to register or to leave, on a machine that is busy building.
const NODE_DEADLINE: Duration = Duration::from_secs(60);

#[test]
fn spark_jobs_succeed_and_their_logs_are_aggregated() {
    require!(java, hadoop, spark, python);
    let options = Options::default()
        .with("yarn.log-aggregation-enable", true)
        .with("yarn.nodemanager.remote-app-log-dir", "/logs");
    let mut lab = Lab::new(&RmKind::Hadoop, options);
    // Lives as long as the cluster, which writes to it.
    let hdfs = Hdfs::start_for(&mut lab);
    let rm = ResourceManager::start(&lab, &RmKind::Hadoop);
    let spark = Spark::new(&lab);
    pi_through_the_proxy(&lab, &rm, &spark);
    python_from_an_archive(&lab, &rm, &hdfs, &spark);
    words_between_two_nodes(&lab, &rm, &hdfs, &spark);
    drop((rm, hdfs));
}

/// Starts a node of this size.
fn start_node(
    lab: &Lab,
    rm: &ResourceManager,
    (name, host): (&str, &str),
    memory_mb: u32,
    change: impl FnOnce(&mut Properties),
) -> Node {
    let site = lab.node_site_changed(name, host, |site| {
        site.set("yarn.nodemanager.resource.memory-mb", memory_mb);
        change(site);
    });
    let mut node = Node::start_at(site, &node_kind(AGENT));
    node.wait_state(rm, "RUNNING", NODE_DEADLINE);
    node
}

/// Runs a job whose ApplicationMaster calls its node's proxy, on a node that leaves afterwards.
fn pi_through_the_proxy(lab: &Lab, rm: &ResourceManager, spark: &Spark) {
    let mut node = start_node(lab, rm, ("proxied", LOCALHOST), BOTH_MB, |site| {
        site.set("yarn.nodemanager.amrmproxy.enabled", true);
    });
    // An ApplicationMaster of Spark has the configuration of its client.
    let proxy = format!("localhost:{}", node.site.ports.amrm_proxy);
    let property = "spark.hadoop.yarn.resourcemanager.scheduler.address";
    let mut pi = spark.submit(lab, 1, &[(property, &proxy)], &["pi", "4"]);
    let id = pi.application_id();
    pi.assert_succeeds(JOB_DEADLINE);
    let series = "nm_agent_amrmproxy_calls_total{method=\"allocate\",outcome=\"ok\"}";
    assert!(node.metric(series).unwrap() > 0.0, "no call was proxied");
    wait_aggregated(rm, &id);
    let logs = yarn_logs(lab, &["-applicationId", &id, "-log_files", "stdout"]);
    let (_, estimate) = logs.split_once("Pi is roughly ").unwrap();
    let estimate: f64 = estimate.lines().next().unwrap().parse().unwrap();
    assert!((estimate - std::f64::consts::PI).abs() < 0.05, "{estimate}");
    node.process.terminate();
    node.wait_state(rm, "SHUTDOWN", NODE_DEADLINE);
}

/// Runs the Python of a packed environment in executors, which localize it from HDFS, as
/// `spark-submit --archives` has them do.
fn python_from_an_archive(lab: &Lab, rm: &ResourceManager, hdfs: &Hdfs, spark: &Spark) {
    let mut node = start_node(lab, rm, ("python", LOCALHOST), BOTH_MB, |_| {});
    let _ = hdfs.write("/environment.tar.gz", &packed_environment(lab.folder()));
    let archive = format!("{}/environment.tar.gz#env", hdfs.uri());
    let mut squares = spark.submit(lab, 1, &[("--archives", &archive)], &["python", "4"]);
    let id = squares.application_id();
    squares.assert_succeeds(JOB_DEADLINE);
    wait_aggregated(rm, &id);
    let logs = yarn_logs(lab, &["-applicationId", &id, "-log_files", "stdout"]);
    assert!(logs.contains("Sum of squares: 338350"), "{logs}");
    node.process.terminate();
    node.wait_state(rm, "SHUTDOWN", NODE_DEADLINE);
}

/// Packs a virtual environment of the machine's Python, whose program is a link out of it, with a
/// module `packed` that runs nowhere else.
fn packed_environment(folder: &Path) -> Vec<u8> {
    const SCRIPT: &str = r#"
        python3 -m venv --symlinks --without-pip environment
        [[ $(readlink environment/bin/python3) == /* ]]
        site=$(echo environment/lib/python3.*/site-packages)
        cat > "$site/packed.py" <<'END'
import sys
assert sys.prefix != sys.base_prefix, sys.prefix
for line in sys.stdin:
    print(int(line) ** 2)
END
        tar -czf environment.tar.gz -C environment .
    "#;
    let packed = Command::new("bash")
        .args(["-euc", SCRIPT])
        .current_dir(folder)
        .output();
    let packed = packed.unwrap();
    assert!(
        packed.status.success(),
        "{}",
        String::from_utf8_lossy(&packed.stderr)
    );
    fs::read(folder.join("environment.tar.gz")).unwrap()
}

/// Counts words with an executor on each of two nodes, which have room for the driver and one
/// executor, and for one executor.
fn words_between_two_nodes(lab: &Lab, rm: &ResourceManager, hdfs: &Hdfs, spark: &Spark) {
    let _nodes = [
        start_node(lab, rm, ("first", LOCALHOST), BOTH_MB, |_| {}),
        start_node(lab, rm, ("second", OTHER_HOST), EXECUTOR_MB, |_| {}),
    ];
    let (text, expected) = words();
    let _ = hdfs.write("/words", text.as_bytes());
    let mut words = spark.submit(lab, 2, &[], &["words", "4", "/words", "/counts"]);
    let id = words.application_id();
    words.assert_succeeds(JOB_DEADLINE);
    assert_eq!(counts(hdfs), expected);
    wait_aggregated(rm, &id);
    let logs = yarn_logs(lab, &["-applicationId", &id, "-log_files", "stderr"]);
    // A line for each task that fetches.
    let fetched: Vec<_> = logs.lines().filter_map(remote_blocks).collect();
    assert!(fetched.len() >= 4, "{fetched:?}");
    assert!(fetched.iter().any(|blocks| *blocks > 0), "{fetched:?}");
    let containers = logs.lines().filter(|line| line.starts_with("Container: "));
    assert_eq!(containers.count(), 3, "{logs}");
}

/// Returns a text and how often each word occurs in it.
fn words() -> (String, BTreeMap<String, u64>) {
    let mut text = String::new();
    let mut counts = BTreeMap::new();
    for line in 0..2000_u32 {
        let words = (0..5).map(|word| format!("w{}", line * line * (word + 3) % 97));
        let words: Vec<_> = words.collect();
        text.push_str(&words.join(" "));
        text.push('\n');
        for word in words {
            *counts.entry(word).or_default() += 1;
        }
    }
    (text, counts)
}

/// Returns what the job wrote.
fn counts(hdfs: &Hdfs) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    for part in 0..4 {
        let text = hdfs.read(&format!("/counts/part-{part:05}"));
        for line in String::from_utf8(text).unwrap().lines() {
            let (word, count) = line.split_once(' ').unwrap();
            let before = counts.insert(word.to_owned(), count.parse().unwrap());
            assert_eq!(before, None, "{word} twice");
        }
    }
    counts
}

/// Returns the number of blocks that a task fetched over the network, if this line of an executor's
/// log tells one.
fn remote_blocks(line: &str) -> Option<u32> {
    let (before, _) = line.split_once(" remote blocks")?;
    let (before, _size) = before.rsplit_once(" (")?;
    before.rsplit(' ').next()?.parse().ok()
}
