//! Logs that a node has uploaded of a running container: in its list of the container's logs, and
//! behind the logs on its disks.

use serde_json::Value;
use test_support::LaunchContext;
use tests::{require, wait};

use super::rest;
use super::twins::{DEADLINE, Twin, Twins};

const AGGREGATION: &str = "yarn.nodemanager.log-aggregation";

#[test]
fn uploaded_logs_of_a_running_container_are_listed_and_shown_as_by_hadoop() {
    require!(java, hadoop);
    let mut twins = Twins::start(|site| {
        site.set("yarn.log-aggregation-enable", true)
            .set(
                "yarn.nodemanager.remote-app-log-dir",
                "${hadoop.tmp.dir}/remote-logs",
            )
            .set(format!("{AGGREGATION}.roll-monitoring-interval-seconds"), 1)
            // Allows an interval of less than an hour.
            .set(format!("{AGGREGATION}.debug-enabled"), true)
            // Leaves uploaded files on the node.
            .set("yarn.nodemanager.delete.debug-delay-sec", 600)
            .set("yarn.nodemanager.log-container-debug-info.enabled", false);
    });
    twins.compare("a container without uploaded logs", |twin| {
        start(twin, 2, "part");
        lists(twin, 2, 0)
    });
    twins.compare("a container with one uploaded log", |twin| {
        twin.gate("2-1").open();
        lists(twin, 2, 1)
    });
    twins.compare("a container with logs of two uploads", |twin| {
        twin.gate("2-2").open();
        in_any_order(&lists(twin, 2, 2))
    });
    for name in ["stdout", "part.1", "part.2", "missing"] {
        twins.compare(&format!("the content of {name}"), |twin| {
            contents(twin, 2, name)
        });
    }
    twins.each(|twin| twin.gate("2-3").open());
}

/// Starts a container that writes one more file behind each of two gates, and ends behind a third.
fn start(twin: &Twin, number: i64, pattern: &str) {
    let wait = |step: u32| twin.gate(&format!("{number}-{step}")).wait_command();
    let command = format!(
        "echo open > <LOG_DIR>/stdout; {}; echo one > <LOG_DIR>/part.1; {}; \
         echo three > <LOG_DIR>/part.2; {}",
        wait(1),
        wait(2),
        wait(3)
    );
    let allocation = twin.allocation(number).rolled_logs(pattern);
    let context = LaunchContext::command(&command);
    let id = twin.am.try_start(&allocation, context).unwrap();
    wait::until("the first log", DEADLINE, || {
        let path = twin.log_folder(id).join("stdout");
        wait::check(path.exists(), path.display().to_string())
    });
}

/// Waits until this many remote files hold logs of the container. Returns the list of its logs, in
/// JSON and in XML.
fn lists(twin: &Twin, number: i64, uploads: usize) -> String {
    let id = twin.am.attempt().container(number);
    let path = format!("/containers/{id}/logs");
    let is_uploaded = |info: &&Value| info["logAggregationType"] == "AGGREGATED";
    wait::until(format!("{uploads} uploads"), DEADLINE, || {
        let (_, list) = twin.rest(&path);
        let infos = list["containerLogsInfo"].as_array();
        let count = infos.map_or(0, |infos| infos.iter().filter(is_uploaded).count());
        wait::check(count == uploads, list.to_string())
    });
    let json = masked(twin, &rest::rest(twin, &path));
    let xml = masked(twin, &rest::xml(twin, &path));
    format!("{json}\n{xml}")
}

/// Sorts the lines of a text in JSON, and the elements of one in XML: Hadoop's node lists remote
/// files as the file system does, which promises no order.
fn in_any_order(text: &str) -> String {
    let parts = text.split(['\n', '<']);
    let mut parts: Vec<&str> = parts
        .map(|part| part.trim().trim_end_matches(','))
        .collect();
    parts.sort_unstable();
    parts.join("\n")
}

/// Returns this log of the container in several forms.
fn contents(twin: &Twin, number: i64, name: &str) -> String {
    let id = twin.am.attempt().container(number);
    let forms = [
        "",
        "?size=2",
        "?size=-2",
        "?size=6",
        "?size=0",
        "?format=octet-stream",
    ];
    let texts = forms.map(|form| {
        let (status, text) = twin.rest(&format!("/containers/{id}/logs/{name}{form}"));
        let text = text.as_str().expect("a log is no JSON");
        format!("{form} {status}\n{}", masked(twin, text))
    });
    texts.concat()
}

/// Masks port and time in the names of remote files.
fn masked(twin: &Twin, text: &str) -> String {
    let port = format!("_{}_", twin.am.node().port);
    let mut masked = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once(&port) {
        masked += before;
        masked += "_<port>_<time>";
        rest = after.trim_start_matches(|letter: char| letter.is_ascii_digit());
    }
    masked + rest
}
