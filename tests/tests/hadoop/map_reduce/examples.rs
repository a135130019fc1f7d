//! Hadoop's examples, whose results are known or checked by another program.

use std::collections::BTreeMap;

use tests::map_reduce::{JOB_DEADLINE, PI_10_100};

use super::cluster::Cluster;

/// Rows of 100 bytes that are sorted.
const ROWS: &str = "20000";

/// Ids of the applications that have ended.
pub(super) struct Ended {
    pub(super) pi: String,
    pub(super) wordcount: String,
}

/// Runs the examples and checks what they say and write.
pub(super) fn run(cluster: &Cluster) -> Ended {
    let expected = write_words(cluster);
    let share = "-Dmapreduce.job.num-opportunistic-maps-percent=40";
    let mut pi = cluster.example(["pi", share, "10", "100"]);
    let mut wordcount = cluster.example([
        "wordcount",
        "-Dmapreduce.job.reduces=2",
        "/words",
        "/counts",
    ]);
    let mut teragen = cluster.example(["teragen", "-Dmapreduce.job.maps=2", ROWS, "/rows"]);
    let ended = Ended {
        pi: pi.application_id(),
        wordcount: wordcount.application_id(),
    };
    let generated = teragen.outcome(JOB_DEADLINE);
    assert!(generated.succeeded, "{}", generated.log);
    let mut terasort =
        cluster.example(["terasort", "-Dmapreduce.job.reduces=2", "/rows", "/sorted"]);
    wordcount.assert_succeeds(JOB_DEADLINE);
    assert_eq!(counted(cluster), expected);
    terasort.assert_succeeds(JOB_DEADLINE);
    let mut teravalidate = cluster.example(["teravalidate", "/sorted", "/report"]);
    let outcome = pi.outcome(JOB_DEADLINE);
    assert!(outcome.succeeded, "{}", outcome.log);
    assert!(outcome.log.contains(PI_10_100), "{}", outcome.log);
    assert_maps_were_opportunistic(cluster);
    teravalidate.assert_succeeds(JOB_DEADLINE);
    assert_sorted(cluster, &generated.log);
    ended
}

/// MapReduce makes the first 40 of each hundred maps opportunistic: all ten of `pi`. A map whose
/// result the ApplicationMaster has may end by itself or be killed.
fn assert_maps_were_opportunistic(cluster: &Cluster) {
    let ended = |outcome: &str| {
        let labels = format!("{{execution_type=\"opportunistic\",outcome=\"{outcome}\"}}");
        let series = format!("nm_agent_container_completions_total{labels}");
        cluster.node.metric(&series).unwrap()
    };
    assert!(ended("succeeded") + ended("killed") >= 10.0);
}

/// Writes three files of words and returns how often each word occurs in them.
fn write_words(cluster: &Cluster) -> BTreeMap<String, u32> {
    let mut counts = BTreeMap::new();
    for file in 0..3_u32 {
        let words = (0..500).map(|n| format!("w{}", n * n * (file + 3) % 97));
        let words: Vec<_> = words.collect();
        for word in &words {
            *counts.entry(word.clone()).or_default() += 1;
        }
        let _ = cluster
            .hdfs
            .write(&format!("/words/{file}"), words.join(" ").as_bytes());
    }
    counts
}

/// Reads a file of HDFS.
fn text(cluster: &Cluster, path: &str) -> String {
    String::from_utf8(cluster.hdfs.read(path)).unwrap()
}

/// Reads what `wordcount` wrote.
fn counted(cluster: &Cluster) -> BTreeMap<String, u32> {
    let parts = (0..2).map(|part| text(cluster, &format!("/counts/part-r-{part:05}")));
    let text: String = parts.collect();
    let lines = text.lines().map(|line| {
        let (word, count) = line.split_once('\t').unwrap();
        (word.to_owned(), count.parse().unwrap())
    });
    lines.collect()
}

/// Asserts that the sorted rows are those that were generated, of which the generator printed the
/// sum in decimal digits, and that they are in order. `teravalidate` succeeds in any case: its
/// report has the sum in hexadecimal digits and a line for each disorder.
fn assert_sorted(cluster: &Cluster, teragen: &str) {
    let report = text(cluster, "/report/part-r-00000");
    let sum = report.trim().strip_prefix("checksum\t");
    let sum = sum.and_then(|sum| u64::from_str_radix(sum, 16).ok());
    let (_, generated) = teragen.split_once("CHECKSUM=").unwrap();
    let generated = generated.lines().next().unwrap().parse().ok();
    assert!(sum.is_some() && sum == generated, "{report}, {generated:?}");
}
