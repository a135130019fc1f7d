//! Metrics, dashboard and alerts with a real Prometheus.

#![expect(clippy::unwrap_used, reason = "helpers of tests: they fail with it")]

mod picture;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;
use tests::cgroups::Hierarchy;
use tests::prometheus::{Prometheus, promtool};
use tests::scripted_cluster::ScriptedCluster;
use tests::{http, require, skip, wait};
use wire::proto::hadoop_yarn::ContainerSubStateProto::{CssRunning, CssScheduled};

use crate::AGENT;

/// Deadline for two scrapes after an event, on a machine that is busy building.
const SCRAPE_DEADLINE: Duration = Duration::from_secs(60);

/// Values of Grafana's variables. The range holds many scrapes.
const VARIABLES: [(&str, &str); 3] = [
    ("$__rate_interval", "1m"),
    ("$job", ".*"),
    ("$instance", ".*"),
];

/// A series that an agent has only where its containers are in a measured hierarchy of cgroups:
/// version 2, under a kernel that counts pressure. Elsewhere the series is missing, and a test
/// prints which.
const OF_THE_HIERARCHY: &str = "nm_agent_containers_pressure_seconds_total";

/// A node between scripted peers, its containers in cgroups where this machine has any. Fields are
/// dropped in this order.
struct Node {
    cluster: ScriptedCluster,
    _hierarchy: Option<Hierarchy>,
}

impl Node {
    fn start() -> Self {
        let hierarchy = Hierarchy::new().ok();
        let cluster = ScriptedCluster::start_with(AGENT, |site| {
            if let Some(hierarchy) = &hierarchy {
                hierarchy.configure(site);
            }
        });
        Self {
            cluster,
            _hierarchy: hierarchy,
        }
    }

    fn web_port(&self) -> u16 {
        web_port(&self.cluster)
    }
}

/// Returns whether this exposition has the series that only some hierarchies have; if not, prints
/// which part of a test is left out.
fn measures_classes(exposition: &str, test: &str) -> bool {
    let measures = exposition.contains(OF_THE_HIERARCHY);
    if !measures {
        let why = format!("containers are in no hierarchy that tells {OF_THE_HIERARCHY}");
        skip::print_skipped_by_kernel(test, &why);
    }
    measures
}

fn dashboards() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../dashboards")
}

fn web_port(cluster: &ScriptedCluster) -> u16 {
    let port = cluster.rm.wait_registrations(1).http_port();
    u16::try_from(port).unwrap()
}

fn metrics(port: u16) -> String {
    let answer = http::get(&format!("http://127.0.0.1:{port}/metrics")).unwrap();
    assert_eq!(answer.status, 200);
    answer.body
}

/// Returns panel title and expression of every query of the dashboard.
fn dashboard_queries() -> Vec<(String, String)> {
    let file = dashboards().join("nm-agent.json");
    let dashboard: Value = serde_json::from_slice(&fs::read(file).unwrap()).unwrap();
    let mut queries = Vec::new();
    for panel in dashboard["panels"].as_array().unwrap() {
        for target in panel["targets"].as_array().into_iter().flatten() {
            let expression = without_variables(target["expr"].as_str().unwrap());
            queries.push((panel["title"].to_string(), expression));
        }
    }
    queries
}

/// Returns a query of the dashboard with values in place of Grafana's variables.
fn without_variables(expression: &str) -> String {
    let mut expression = expression.to_owned();
    for (variable, value) in VARIABLES {
        expression = expression.replace(variable, value);
    }
    assert!(!expression.contains('$'), "unknown variable: {expression}");
    expression
}

/// Causes each event that the dashboard shows: starts, a wait, an eviction, ends.
fn let_things_happen(cluster: &ScriptedCluster) {
    let gate = cluster.gate("gate");
    let opportunistic = |memory_mb| cluster.am.allocate().opportunistic().memory_mb(memory_mb);
    let victim = cluster.am.start(&opportunistic(1024), &gate.then("true"));
    cluster.rm.wait_sub_state(victim, CssRunning);
    let guaranteed = cluster
        .am
        .start(&cluster.am.allocate().memory_mb(1024), &gate.then("true"));
    assert_eq!(cluster.rm.wait_completed(victim).exit_status, -108);
    cluster.rm.wait_sub_state(guaranteed, CssRunning);
    let queued = cluster.am.start(&opportunistic(1024), "true");
    cluster.rm.wait_sub_state(queued, CssScheduled);
    gate.open();
    for id in [guaranteed, queued] {
        assert_eq!(cluster.rm.wait_completed(id).exit_status, 0);
    }
}

#[test]
fn prometheus_scrapes_two_agents_and_every_query_of_the_dashboard_has_an_answer() {
    require!(prometheus);
    let test = "prometheus_scrapes_two_agents_and_every_query_of_the_dashboard_has_an_answer";
    let nodes = [Node::start(), Node::start()];
    let ports: Vec<u16> = nodes.iter().map(Node::web_port).collect();
    let prometheus = Prometheus::start(&ports, &dashboards().join("alerts.yml"));
    wait::until("both agents scraped", SCRAPE_DEADLINE, || {
        let up = prometheus.query("up == 1")?;
        wait::check(up.len() == 2, up.len().to_string()).map(drop)
    });
    for node in &nodes {
        let_things_happen(&node.cluster);
    }
    // Wait for the last event to be scraped: two containers of each type started, and ended.
    wait::until("the ends of all containers", SCRAPE_DEADLINE, || {
        let ended = prometheus
            .query("sum by (instance) (rate(nm_agent_container_completions_total[1m])) > 0")?;
        wait::check(ended.len() == 2, ended.len().to_string()).map(drop)
    });
    let measures = measures_classes(&metrics(ports[0]), test);
    for (title, expression) in dashboard_queries() {
        let result = prometheus.query(&expression).unwrap();
        let told = measures || !expression.contains(OF_THE_HIERARCHY);
        assert_eq!(
            !result.is_empty(),
            told,
            "{title}: {expression}: {result:?}"
        );
    }
    let evicted = "sum(nm_agent_container_evictions_total{how=\"kill\"})";
    let result = prometheus.query(evicted).unwrap();
    assert_eq!(result[0]["value"][1], "2", "{result:?}");
    let alerts = prometheus.alerts().unwrap();
    let firing = alerts["data"]["alerts"].as_array().unwrap().iter();
    let firing: Vec<_> = firing.filter(|alert| alert["state"] == "firing").collect();
    assert!(firing.is_empty(), "{firing:?}");
}

#[test]
fn the_metrics_follow_prometheus_rules() {
    require!(prometheus);
    let node = Node::start();
    let text = metrics(node.web_port());
    let found = promtool(&["check", "metrics"], Path::new("/"), &text);
    assert_eq!(found, Ok(String::new()), "{text}");
}

#[test]
fn the_alert_rules_are_valid_and_do_what_their_tests_say() {
    require!(prometheus);
    let folder = dashboards();
    promtool(&["check", "rules", "alerts.yml"], &folder, "").unwrap();
    promtool(&["test", "rules", "alerts.test.yml"], &folder, "").unwrap();
}

#[test]
fn every_alert_has_a_test_and_every_metric_that_is_watched_exists() {
    let test = "every_alert_has_a_test_and_every_metric_that_is_watched_exists";
    let node = Node::start();
    let text = metrics(node.web_port());
    let mut known: BTreeSet<&str> = text
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE "))
        .filter_map(|line| line.split(' ').next())
        .collect();
    if !measures_classes(&text, test) {
        known.insert(OF_THE_HIERARCHY);
    }
    let rules = fs::read_to_string(dashboards().join("alerts.yml")).unwrap();
    let tests = fs::read_to_string(dashboards().join("alerts.test.yml")).unwrap();
    for alert in rules
        .lines()
        .filter_map(|line| line.trim().strip_prefix("- alert: "))
    {
        let tested = format!("alertname: {alert}\n");
        assert!(tests.contains(&tested), "{alert} has no test");
    }
    let dashboard = fs::read_to_string(dashboards().join("nm-agent.json")).unwrap();
    for word in [rules, dashboard]
        .iter()
        .flat_map(|text| text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_')))
        // Names of series, not the beginnings of patterns, which end with `_`.
        .filter(|word| word.starts_with("nm_agent_") && !word.ends_with('_'))
    {
        let family = ["_bucket", "_sum", "_count"]
            .iter()
            .find_map(|suffix| word.strip_suffix(suffix))
            .unwrap_or(word);
        assert!(known.contains(family) || known.contains(word), "{word}");
    }
}
