//! The whole demonstration, observed from outside while it runs.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::Value;
use tests::http;

use crate::quickstart::run::{DEADLINE, Pages, Run};

/// Pause between two observations. Each state that must be seen lasts for seconds.
const LOOK_INTERVAL: Duration = Duration::from_millis(50);

/// Largest observed values.
#[derive(Debug, Default)]
struct Seen {
    running_opportunistic: f64,
    running_guaranteed: f64,
    queued: f64,
    queueings: f64,
    evictions: f64,
    sheds: f64,
    succeeded: f64,
    /// Queued containers by the ResourceManager's count.
    rm_queued: u64,
    node_containers: usize,
    applications: BTreeSet<String>,
    final_statuses: BTreeSet<String>,
}

impl Seen {
    fn look(&mut self, pages: &Pages) {
        let metrics: Vec<String> = pages
            .nodes
            .iter()
            .filter_map(|node| Some(http::get(&format!("{node}/metrics")).ok()?.body))
            .collect();
        if metrics.len() == pages.nodes.len() {
            let sum = |series: &str, labels: &[&str]| -> f64 {
                metrics.iter().map(|text| value(text, series, labels)).sum()
            };
            let opportunistic = ["execution_type=\"opportunistic\""];
            let larger = |seen: &mut f64, found: f64| *seen = seen.max(found);
            larger(
                &mut self.running_opportunistic,
                sum("nm_agent_containers_running", &opportunistic),
            );
            larger(
                &mut self.running_guaranteed,
                sum(
                    "nm_agent_containers_running",
                    &["execution_type=\"guaranteed\""],
                ),
            );
            larger(
                &mut self.queued,
                sum("nm_agent_containers_queued", &opportunistic),
            );
            larger(
                &mut self.queueings,
                sum("nm_agent_container_queueings_total", &opportunistic),
            );
            larger(
                &mut self.evictions,
                sum("nm_agent_container_evictions_total", &[]),
            );
            larger(&mut self.sheds, sum("nm_agent_container_sheds_total", &[]));
            larger(
                &mut self.succeeded,
                sum(
                    "nm_agent_container_completions_total",
                    &["execution_type=\"opportunistic\"", "outcome=\"succeeded\""],
                ),
            );
        }
        self.look_at_rest(pages);
    }

    fn look_at_rest(&mut self, pages: &Pages) {
        for node in &pages.nodes {
            if let Ok(answer) = http::get_json(&format!("{node}/ws/v1/node/containers")) {
                let count = answer["containers"]["container"]
                    .as_array()
                    .map_or(0, Vec::len);
                self.node_containers = self.node_containers.max(count);
            }
        }
        if let Ok(answer) = http::get_json(&format!("{}/ws/v1/cluster/nodes", pages.rm)) {
            let nodes = answer["nodes"]["node"]
                .as_array()
                .cloned()
                .unwrap_or_default();
            let queued = nodes
                .iter()
                .filter_map(|node| node["numQueuedContainers"].as_u64());
            self.rm_queued = self.rm_queued.max(queued.sum());
        }
        if let Ok(answer) = http::get_json(&format!("{}/ws/v1/cluster/apps", pages.rm)) {
            for application in answer["apps"]["app"].as_array().into_iter().flatten() {
                let text = |name: &str| application[name].as_str().unwrap_or_default().to_owned();
                self.applications.insert(text("name"));
                if text("state") == "FINISHED" {
                    self.final_statuses
                        .insert(format!("{} {}", text("name"), text("finalStatus")));
                }
            }
        }
    }
}

/// Sums a series' values over all label sets with these labels.
fn value(metrics: &str, series: &str, labels: &[&str]) -> f64 {
    metrics
        .lines()
        .filter_map(|line| {
            let rest = line.strip_prefix(series)?;
            let (label_set, number) = match rest.strip_prefix('{') {
                Some(rest) => rest.split_once('}')?,
                None => ("", rest.strip_prefix(' ')?),
            };
            labels
                .iter()
                .all(|label| label_set.contains(label))
                .then(|| number.trim().parse::<f64>().ok())?
        })
        .sum()
}

#[test]
fn every_part_of_the_story_is_seen_from_outside_and_nothing_is_left() {
    let mut run = Run::start(&[]);
    let pages = run.pages();
    assert_eq!(pages.nodes.len(), 3);
    let mut seen = Seen::default();
    let begin = std::time::Instant::now();
    while !run.output().contains("The pages stay until Ctrl-C.") {
        assert!(run.process.exit().is_none(), "{}", run.output());
        assert!(begin.elapsed() < DEADLINE, "{seen:?}\n{}", run.output());
        seen.look(&pages);
        std::thread::sleep(LOOK_INTERVAL);
    }
    seen.look(&pages);
    let output = run.output();
    assert!(seen.running_opportunistic >= 12.0, "{seen:?}");
    assert!(
        seen.running_guaranteed >= 2.0,
        "two masters at least: {seen:?}"
    );
    assert!(seen.queued > 0.0 && seen.queueings > 0.0, "{seen:?}");
    assert!(seen.evictions >= 4.0 && seen.sheds > 0.0, "{seen:?}");
    assert!(seen.succeeded >= 36.0, "{seen:?}");
    assert!(seen.rm_queued > 0 && seen.node_containers > 4, "{seen:?}");
    assert_eq!(seen.applications.len(), 2, "{seen:?}");
    let succeeded = seen
        .final_statuses
        .iter()
        .filter(|status| status.ends_with("SUCCEEDED"));
    assert_eq!(succeeded.count(), 2, "{seen:?}");
    assert!(output.contains("36 of 36 ended well"), "{output}");
    assert!(
        output.contains("first opportunistic container ran after "),
        "{output}"
    );
    assert!(
        !output.contains('\x1b'),
        "no colours and no cursor movements in a file: {output}"
    );
    for node in &pages.nodes {
        let idle = http::get_json(&format!("{node}/ws/v1/node/containers"));
        let idle = idle.unwrap_or_else(|error| panic!("{error}"));
        let running = |each: &&Value| each["state"] == "RUNNING";
        let left = idle["containers"]["container"]
            .as_array()
            .into_iter()
            .flatten();
        assert_eq!(left.filter(running).count(), 0, "{idle}");
    }
    run.process.terminate();
    assert_eq!(run.end().code(), Some(0), "{}", run.output());
    run.assert_nothing_is_left();
}

#[test]
fn told_once_it_ends_by_itself_with_the_jobs_status() {
    let mut run = Run::start(&["--once", "--nodes", "4"]);
    assert_eq!(run.end().code(), Some(0), "{}", run.output());
    let output = run.output();
    for part in [
        "4 nodes have registered",
        "wait in the queues of their nodes",
        "took their place at once",
        "evicted 4 opportunistic containers for it, the newest first",
        "shed the newest",
        "got new places",
        "48 of 48 ended well",
    ] {
        // Lines are broken at blanks.
        let flat = output.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(flat.contains(part), "{part}\n{output}");
    }
    run.assert_nothing_is_left();
}
