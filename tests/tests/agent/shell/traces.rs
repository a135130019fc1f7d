//! Traces of containers at a collector: those of the proxy that chose a container's node and those
//! of the node are one, and a collector that answers nobody holds nothing up.

#![expect(clippy::unwrap_used, reason = "helpers of tests: they fail with it")]

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::sync::{Arc, Mutex};

use serde_json::Value;
use test_support::LaunchContext;
use tests::conf::{self, Properties};
use tests::ports::Port;
use tests::process::Process;
use tests::scripted_cluster::ScriptedCluster;
use tests::{http, wait};

use crate::AGENT;
use crate::shell::cluster::{Cluster, DEADLINE, ended, row};

const ENDPOINT: &str = "yarn.nodemanager.agent.traces.endpoint";

/// Spans that a collector has taken.
type Taken = Arc<Mutex<Vec<Value>>>;

/// Starts a collector, which serves until the test's process ends; returns its address.
fn collector(taken: &Taken) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let taken = Arc::clone(taken);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let document = take(stream.unwrap());
            let spans = &document["resourceSpans"][0]["scopeSpans"][0]["spans"];
            taken
                .lock()
                .unwrap()
                .extend_from_slice(spans.as_array().unwrap());
        }
    });
    address
}

/// Reads a request, answers it, and returns its document.
fn take(mut stream: TcpStream) -> Value {
    let mut text = Vec::new();
    loop {
        let mut bytes = [0; 4096];
        let count = stream.read(&mut bytes).unwrap();
        assert_ne!(count, 0, "{}", String::from_utf8_lossy(&text));
        text.extend_from_slice(&bytes[..count]);
        let whole = String::from_utf8_lossy(&text);
        let body = whole.split_once("\r\n\r\n").map(|(_, body)| body);
        if let Some(Ok(document)) = body.map(serde_json::from_str) {
            let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}";
            stream.write_all(answer).unwrap();
            return document;
        }
    }
}

/// Returns the names of the spans of each trace, by the container's id, with the ids of its traces.
fn by_container(spans: &[Value]) -> BTreeMap<String, (Vec<String>, BTreeSet<String>)> {
    let mut traces = BTreeMap::<_, (Vec<String>, BTreeSet<String>)>::new();
    for span in spans {
        let container = &span["attributes"][0];
        assert_eq!(container["key"], "container.id");
        let id = container["value"]["stringValue"].as_str().unwrap();
        let (names, ids) = traces.entry(id.to_owned()).or_default();
        names.push(span["name"].as_str().unwrap().to_owned());
        names.sort();
        ids.insert(span["traceId"].as_str().unwrap().to_owned());
    }
    traces
}

#[test]
fn a_container_is_one_trace_from_its_ask_to_its_end() {
    let taken = Taken::default();
    let endpoint = collector(&taken);
    let proxy = format!("localhost:{}", Port::reserve().release());
    let mut client = Properties::default();
    let cluster = Cluster::start_with(1, |site| {
        client = site.clone();
        client.set("yarn.resourcemanager.scheduler.address", &proxy);
        site.set("yarn.nodemanager.distributed-scheduling.enabled", true)
            .set("yarn.nodemanager.amrmproxy.address", &proxy)
            .set(ENDPOINT, &endpoint);
    });
    let core_site = conf::core_site(cluster.folder(), "nobody");
    conf::write(&cluster.folder().join("client"), &core_site, &client);
    let mut shell = Command::new(AGENT);
    shell
        .args(["shell", "--conf", "client", "--type", "opportunistic"])
        .args(["-n", "3", "--memory", "512", "--", "true"])
        .current_dir(cluster.folder());
    let (status, log) = ended(Process::start("shell", &mut shell, cluster.folder()));
    assert_eq!(status, Some(0), "{log}");
    assert_eq!(row(&log, "succeeded"), 3, "{log}");
    // Without resources nothing is localized.
    let whole = ["allocate", "container", "launch", "queue", "run"];
    let traces = wait::until("whole traces", DEADLINE, || {
        let traces = by_container(&taken.lock().unwrap());
        let complete = traces.values().filter(|(names, _)| *names == whole).count();
        if complete == 3 {
            Ok(traces)
        } else {
            Err(format!("{traces:?}"))
        }
    });
    let ids: BTreeSet<_> = traces.values().flat_map(|(_, ids)| ids).collect();
    assert_eq!(ids.len(), traces.len(), "{traces:?}");
    let metrics = http::get(&cluster.node_url(0, "metrics")).unwrap().body;
    assert!(
        metrics.contains("\nnm_agent_trace_spans_dropped_total 0\n"),
        "{metrics}"
    );
    cluster.assert_nothing_is_left();
}

#[test]
fn the_localization_of_resources_is_a_span_of_the_containers_trace() {
    let taken = Taken::default();
    let endpoint = collector(&taken);
    let cluster = ScriptedCluster::start_with(AGENT, |site| {
        site.set(ENDPOINT, &endpoint);
    });
    let file = cluster.node.folder().join("resource");
    std::fs::write(&file, "content").unwrap();
    let context = LaunchContext::command("cat link; exit 3").file("link", &file);
    let am = &cluster.am;
    let id = am.try_start(&am.allocate(), context).unwrap();
    cluster.rm.wait_completed(id);
    let whole = ["container", "launch", "localize", "queue", "run"];
    wait::until("a whole trace", DEADLINE, || {
        let traces = by_container(&taken.lock().unwrap());
        let found = traces.get(&id.to_string()).map(|(names, _)| names.clone());
        let is_whole = found.as_deref().is_some_and(|found| *found == whole);
        wait::check(is_whole, format!("{found:?}"))
    });
}

#[test]
fn a_collector_that_answers_nobody_holds_no_container_and_no_stop_up() {
    // The kernel takes connections and requests.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", silent.local_addr().unwrap());
    let mut cluster = Cluster::start_with(1, |site| {
        site.set(ENDPOINT, &endpoint);
    });
    let (status, log) = cluster.shell_to_end(&["-n", "3", "--memory", "512", "--", "true"]);
    assert_eq!(status, Some(0), "{log}");
    wait::until("dropped spans", DEADLINE, || {
        let metrics = http::get(&cluster.node_url(0, "metrics"))?.body;
        let name = "\nnm_agent_trace_spans_dropped_total ";
        let dropped = metrics
            .split_once(name)
            .map(|(_, rest)| !rest.starts_with("0\n"));
        wait::check(dropped == Some(true), metrics)
    });
    let node = cluster.node_process(0);
    node.terminate();
    let status = node.wait_exit(DEADLINE);
    assert_eq!(status.code(), Some(0), "{}", node.log());
    assert!(
        node.log().contains("the collector takes no traces"),
        "{}",
        node.log()
    );
}
