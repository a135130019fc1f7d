//! The page's table of applications behind the node's AMRMProxy.

use records::Resource;
use serde_json::Value;
use test_support::scripted::{IdleScheduler, answering};
use test_support::scripted::{Launched, ScriptedAmRmClient};
use tests::browser::{Browser, Page};
use tests::conf::Properties;
use tests::node::NodeKind;
use tests::proxy_cluster::ProxyCluster;
use tests::scripted_cluster::ScriptedCluster;
use tests::{http, require};
use wire::proto::hadoop_yarn::{AllocateRequestProto, ExecutionTypeProto};

use crate::AGENT;
use crate::page::picture::save;
use crate::page::{place, wait_place};

/// Starts a node with a proxy that allocates containers on the node itself.
fn start() -> ProxyCluster {
    let distributed = |site: &mut Properties| {
        site.set("yarn.nodemanager.distributed-scheduling.enabled", true);
    };
    let kind = NodeKind::Agent(AGENT.into());
    let peers = ProxyCluster::start(&kind, IdleScheduler::default().into_script(), distributed);
    let nothing = IdleScheduler {
        nodes: vec![peers.remote_node()],
    };
    peers.scheduler.set_script(nothing.into_script());
    peers
}

fn url(peers: &ProxyCluster, path: &str) -> String {
    let port = peers.rm.wait_registrations(1).http_port();
    format!("http://127.0.0.1:{port}{path}")
}

/// Launches the master of the application with this number, and registers it.
fn register(peers: &ProxyCluster, application: i32) -> ScriptedAmRmClient {
    let launched: Launched = peers.launch(application);
    peers.rm.runtime().block_on(async {
        let master = ScriptedAmRmClient::connect(peers.proxy, launched).await;
        master.register().await;
        master
    })
}

/// Sends a heartbeat that asks for this many opportunistic containers.
fn beat(peers: &ProxyCluster, master: &mut ScriptedAmRmClient, count: i32) {
    let size = Resource::new(128, 1);
    let ask = ScriptedAmRmClient::ask(count, size, ExecutionTypeProto::Opportunistic);
    let request = AllocateRequestProto {
        ask: vec![ask],
        ..AllocateRequestProto::default()
    };
    let answer = peers.rm.runtime().block_on(master.allocate(request));
    let _ = answer.expect("a heartbeat is answered");
}

/// Returns the expression for the text of an element in an attempt's row.
fn word(attempt: &str, name: &str) -> String {
    format!(
        "[...document.querySelectorAll('#masters-table tbody tr')]\
         .find((row) => row.querySelector('[data-cell=attempt]').textContent === '{attempt}')\
         ?.querySelector('[data-word={name}]').textContent"
    )
}

#[track_caller]
fn wait_word(page: &mut Page, attempt: &str, name: &str, text: &str) {
    let what = format!("{text:?} as {name} of {attempt}");
    page.wait(&what, &format!("{} === {text:?}", word(attempt, name)));
}

#[test]
fn the_table_follows_the_calls_of_masters_and_says_the_same_with_and_without_a_script() {
    require!(chromium);
    let peers = start();
    let mut page = Browser::start().open(&url(&peers, "/"), 1280, 900);
    wait_place(&mut page, "feed", "Live.");
    let nobody = page.text(&place("masters_more"));
    assert!(nobody.starts_with("None passes."), "{nobody}");
    let mut one = register(&peers, 1);
    let mut other = register(&peers, 2);
    let (first, second) = (one.attempt.to_string(), other.attempt.to_string());
    wait_word(&mut page, &first, "calls", "1");
    wait_word(&mut page, &first, "wanted", "none asked for");
    beat(&peers, &mut one, 3);
    wait_word(&mut page, &first, "calls", "2");
    wait_word(
        &mut page,
        &first,
        "wanted",
        "2 wanted of 3 asked for, 1 live",
    );
    let given = "1 given: 0 node, 0 rack, 1 any";
    wait_word(&mut page, &first, "given", given);
    beat(&peers, &mut other, 5);
    wait_word(
        &mut page,
        &second,
        "wanted",
        "4 wanted of 5 asked for, 1 live",
    );
    // Except ages.
    let texts = |root: &str| {
        format!(
            "JSON.stringify([...{root}.querySelectorAll('#masters, #masters [data-word], #masters .note, #masters [data-cell]')]\
             .filter((e) => e.id !== 'masters' || e.hidden)\
             .map((e) => [e.dataset.word ?? e.dataset.cell, e.dataset.cell === 'last' || e.dataset.cell === 'nodes' ? '' : e.textContent, e.hidden, e.getAttribute('href')]))"
        )
    };
    let by_script = page.text(&texts("document"));
    let by_server = page.text(&format!(
        "fetch('/').then((answer) => answer.text()).then((html) => {{\
         const page = new DOMParser().parseFromString(html, 'text/html'); return {}; }})",
        texts("page")
    ));
    assert_eq!(by_script, by_server);
    page.resize(1280, 1200);
    save(&mut page, "masters.png");
    page.resize(360, 1800);
    let widths = page.eval("[document.scrollingElement.scrollWidth, innerWidth]");
    assert_eq!(widths[0], 360, "the table is wider than a phone: {widths}");
    save(&mut page, "masters-phone.png");
    let document = http::get_json(&url(&peers, "/live.json")).unwrap();
    let attempts = &document["masters"]["attempts"];
    assert_eq!(attempts[0]["attempt"], first);
    assert_eq!(attempts[0]["containers_outstanding"], 2);
    assert_eq!(attempts[1]["containers_asked"], 5);
}

#[test]
fn a_node_without_a_proxy_has_no_such_table() {
    let cluster = ScriptedCluster::start(AGENT);
    let port = cluster.rm.wait_registrations(1).http_port();
    let url = |path: &str| format!("http://127.0.0.1:{port}{path}");
    let document = http::get_json(&url("/live.json")).unwrap();
    assert_eq!(document["masters"], Value::Null);
    let html = http::get(&url("/")).unwrap().body;
    assert!(
        html.contains("aria-labelledby=\"masters-head\" hidden>"),
        "{html}"
    );
}

/// Figures stay while the ResourceManager does not answer.
#[test]
fn a_call_that_is_held_hides_nothing() {
    let peers = start();
    let mut master = register(&peers, 1);
    beat(&peers, &mut master, 3);
    // Each call of this scheduler waits for the test.
    let (asked, was_asked) = std::sync::mpsc::channel();
    let (go_on, may_go_on) = std::sync::mpsc::channel::<()>();
    let may_go_on = std::sync::Mutex::new(may_go_on);
    let nothing = IdleScheduler {
        nodes: vec![peers.remote_node()],
    };
    peers.scheduler.set_script(answering(move |call| {
        asked.send(()).unwrap();
        may_go_on.lock().unwrap().recv().unwrap();
        nothing.answer(call)
    }));
    std::thread::scope(|scope| {
        let held = scope.spawn(|| beat(&peers, &mut master, 2));
        was_asked.recv().unwrap();
        let document = http::get_json(&url(&peers, "/live.json")).unwrap();
        let attempt = &document["masters"]["attempts"][0];
        assert_eq!(attempt["calls"], 2, "{attempt}");
        assert_eq!(attempt["containers_outstanding"], 2, "{attempt}");
        let metrics = http::get(&url(&peers, "/metrics")).unwrap().body;
        let outstanding = "nm_agent_amrmproxy_outstanding_containers 2";
        assert!(metrics.contains(outstanding), "{metrics}");
        go_on.send(()).unwrap();
        held.join().unwrap();
    });
}
