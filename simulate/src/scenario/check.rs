//! Values of a scenario that cannot be simulated.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;

use super::Scenario;
use super::arm::Arm;
use super::cluster::Cluster;
use super::failures::Failures;
use super::known;
use super::level;
use super::problem::ScenarioProblem;
use crate::delay::is_interval;

/// Most nodes. NodeManagers of one cluster are at most some ten thousands.
const NODES_MAX: usize = 60_000;
/// Most places of a node.
const PLACES_MAX: u32 = 1_000;
/// Speeds of nodes.
const SPEEDS: RangeInclusive<f64> = 0.01..=100.0;
/// Longest times of failures: ten years.
const SECONDS_MAX: u64 = 10 * 365 * 24 * 3_600;
/// Most seeds.
const SEEDS_MAX: u64 = 1_000;
/// Most containers of one run: each takes some 100 bytes until the end of the run.
const CONTAINERS_MAX: u64 = 20_000_000;

/// Problems found so far.
#[derive(Default)]
struct Problems(Vec<ScenarioProblem>);

impl Problems {
    fn add(&mut self, key: impl Into<String>, reason: impl Into<String>) {
        let (key, reason) = (key.into(), reason.into());
        self.0.push(ScenarioProblem { key, reason });
    }

    fn within(&mut self, key: &str, value: u64, from: u64, to: u64) {
        if !(from..=to).contains(&value) {
            self.add(key, format!("{value} is not from {from} to {to}"));
        }
    }
}

fn check_nodes(cluster: &Cluster, found: &mut Problems) {
    for (number, kind) in cluster.kinds().enumerate() {
        let key = |name: &str| match number {
            0 => format!("cluster.{name}"),
            further => format!("cluster.more {further}.{name}"),
        };
        found.within(&key("nodes"), kind.nodes as u64, 1, NODES_MAX as u64);
        let places = u64::from(kind.places);
        found.within(&key("places"), places, 1, u64::from(PLACES_MAX));
        if !SPEEDS.contains(&kind.speed) {
            let (from, to) = (SPEEDS.start(), SPEEDS.end());
            let reason = format!("{} is not from {from} to {to}", kind.speed);
            found.add(key("speed"), reason);
        }
    }
    let all = cluster.node_count() as u64;
    if !cluster.more.is_empty() && all > NODES_MAX as u64 {
        found.add(
            "cluster.more",
            format!("{all} nodes, more than {NODES_MAX}"),
        );
    }
}

fn check_failures(failures: Failures, found: &mut Problems) {
    for (key, value) in [
        ("up-s", failures.up_s),
        ("expiry-s", failures.expiry_s),
        ("connect-s", failures.connect_s),
    ] {
        found.within(&format!("failures.{key}"), value, 0, SECONDS_MAX);
    }
    found.within("failures.down-s", failures.down_s, 1, SECONDS_MAX);
}

/// Returns every value that cannot be simulated.
pub(super) fn problems(scenario: &Scenario) -> Vec<ScenarioProblem> {
    let mut found = Problems::default();
    check_nodes(&scenario.cluster, &mut found);
    let delays = &scenario.delays;
    for (key, interval) in [
        ("delays.node-heartbeat-ms", &delays.node_heartbeat),
        ("delays.am-heartbeat-ms", &delays.am_heartbeat),
    ] {
        if !is_interval(interval) {
            found.add(key, "an interval has a mean of at least 1 ms");
        }
    }
    let share = u64::from(scenario.masters.share_percent);
    found.within("masters.share-percent", share, 1, 100);
    check_failures(scenario.failures, &mut found);
    let run = scenario.run;
    found.within("run.seeds", run.seeds, 1, SEEDS_MAX);
    let left_out = run.warm_up_percent.saturating_add(run.tail_percent);
    found.within("run.warm-up-percent + run.tail-percent", left_out, 0, 90);
    for problem in scenario.workload.problems() {
        found.add(problem.key, problem.reason);
    }
    let containers = scenario.workload.containers_about();
    found.within("workload: containers", containers, 1, CONTAINERS_MAX);
    if scenario.arms.is_empty() {
        found.add("arm", "no [[arm]]: nothing would be simulated");
    }
    for (number, arm) in scenario.arms.iter().enumerate() {
        let settings = arm.settings;
        let key = |name: &str| format!("arm {}.{name}", number + 1);
        if settings.nodes_used == 0 {
            found.add(key("nodes-used"), "0: no node would ever be offered");
        }
        if settings.sorting_interval_ms == 0 {
            found.add(key("sorting-interval-ms"), "0 is not an interval");
        }
        if settings.queue_bound_factor == 0 {
            found.add(key("queue-bound-factor"), "0 is not a bound");
        }
        let wrong = u64::from(settings.hints_wrong_percent);
        found.within(&key("hints-wrong-percent"), wrong, 0, 100);
        found.within(&key("pause-max-s"), settings.pause_max_s, 1, SECONDS_MAX);
        let percent = settings.pause_memory_percent;
        found.within(&key("pause-memory-percent"), percent, 0, 10_000);
        if !settings.limit_stdev.is_finite() {
            found.add(key("limit-stdev"), "not a finite number");
        }
    }
    for problem in level::problems(scenario) {
        found.add(problem.key, problem.reason);
    }
    let labels: Vec<String> = scenario.arms.iter().map(Arm::label).collect();
    for problem in known::problems(&scenario.known, &labels) {
        found.add(problem.key, problem.reason);
    }
    for label in repeated(&labels) {
        found.add("arm", format!("two arms are called {label:?}: set `name`"));
    }
    found.0
}

/// Returns the labels that stand for more than one arm.
fn repeated(labels: &[String]) -> BTreeSet<&String> {
    let mut seen = BTreeSet::new();
    labels.iter().filter(|label| !seen.insert(*label)).collect()
}
