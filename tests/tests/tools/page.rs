//! The agent's live page in a browser, while containers start and end.
//!
//! `NM_AGENT_SCREENSHOTS=DIR cargo test -p tests --test tools the_picture` takes its time and
//! writes pictures of the page into that folder: `live-page.png`, which is `docs/live-page.png` for
//! README.md, and the same in dark and on a phone.

mod masters;
pub(crate) mod picture;
mod subjects;

use std::time::Duration;

use records::ContainerId;
use serde_json::Value;
use test_support::{Allocation, LaunchContext};
use tests::browser::{Browser, Page};
use tests::gate::Gate;
use tests::scripted_cluster::ScriptedCluster;
use tests::{http, require, wait};
use wire::proto::hadoop_yarn::ContainerSubStateProto::{CssRunning, CssScheduled};

use crate::AGENT;

/// Deadline for two renderings of the page to agree, on a machine that is busy building.
const SAME_DEADLINE: Duration = Duration::from_secs(30);

/// Memory of the node, in MiB.
const NODE_MB: u64 = 1024;

/// A cluster of one agent, and functions that start containers on it.
struct Watched {
    cluster: ScriptedCluster,
}

impl Watched {
    fn start() -> Self {
        Self {
            cluster: ScriptedCluster::start(AGENT),
        }
    }

    fn url(&self, path: &str) -> String {
        let port = self.cluster.rm.wait_registrations(1).http_port();
        format!("http://127.0.0.1:{port}{path}")
    }

    fn browse(&self, width: u32, height: u32) -> Page {
        Browser::start().open(&self.url("/"), width, height)
    }

    fn opportunistic(&self, memory_mb: u64) -> Allocation {
        self.cluster
            .am
            .allocate()
            .opportunistic()
            .memory_mb(memory_mb)
    }

    fn guaranteed(&self, memory_mb: u64) -> Allocation {
        self.cluster.am.allocate().memory_mb(memory_mb)
    }

    fn running(&self, allocation: &Allocation, gate: &Gate) -> ContainerId {
        let id = self.cluster.am.start(allocation, &gate.then("true"));
        self.cluster.rm.wait_sub_state(id, CssRunning);
        id
    }

    fn queued(&self, memory_mb: u64) -> ContainerId {
        let id = self
            .cluster
            .am
            .start(&self.opportunistic(memory_mb), "true");
        self.cluster.rm.wait_sub_state(id, CssScheduled);
        id
    }
}

/// Returns the expression for the text of an element of the page.
fn place(key: &str) -> String {
    format!("document.querySelector('[data-text=\"{key}\"]').textContent")
}

#[track_caller]
fn wait_place(page: &mut Page, key: &str, text: &str) {
    page.wait(
        &format!("{text:?} as {key}"),
        &format!("{} === {text:?}", place(key)),
    );
}

/// Returns the containers in a table, in its order.
fn containers(page: &mut Page, table: &str) -> Vec<String> {
    let links = format!(
        "[...document.querySelectorAll('#{table} [data-cell=container]')].map((link) => link.textContent)"
    );
    let Value::Array(ids) = page.eval(&links) else {
        panic!("no list of containers in {table}");
    };
    ids.iter()
        .filter_map(|id| id.as_str().map(str::to_owned))
        .collect()
}

/// Waits for a decision about a container; the newest is first.
#[track_caller]
fn wait_decision(page: &mut Page, id: ContainerId, words: &str) {
    let row = format!(
        "[...document.querySelectorAll('#decisions-table tbody tr')].some((row) => \
         row.querySelector('[data-cell=container]').textContent === '{id}' && \
         row.querySelector('[data-cell=words]').textContent === {words:?})"
    );
    page.wait(&format!("the decision that {id} was {words:?}"), &row);
}

/// The page changes while it is open, without a reload.
#[test]
fn an_open_page_follows_the_queue_its_limit_and_the_decisions() {
    require!(chromium);
    let watched = Watched::start();
    let mut page = watched.browse(1280, 900);
    wait_place(&mut page, "feed", "Live.");
    wait_place(&mut page, "waiting", "0");
    wait_place(&mut page, "limit", "none");
    let nothing = page.text(&place("queue_more"));
    assert!(nothing.starts_with("Nothing waits."), "{nothing}");
    page.eval("window.neverReloaded = true");

    let gate = watched.cluster.gate("gate");
    let older = watched.running(&watched.opportunistic(NODE_MB / 2), &gate);
    let newer = watched.running(&watched.opportunistic(NODE_MB / 2), &gate);
    let waiting: Vec<ContainerId> = (0..4).map(|_| watched.queued(NODE_MB / 2)).collect();
    wait_place(&mut page, "running_opportunistic", "2");
    wait_place(&mut page, "waiting", "4");
    wait_decision(
        &mut page,
        waiting[3],
        &format!("Queued at place 4, short of {} MiB", NODE_MB / 2),
    );
    let in_order: Vec<String> = waiting.iter().map(ToString::to_string).collect();
    assert_eq!(containers(&mut page, "queue-table"), in_order);
    // By id, and a node counts its ids down.
    assert_eq!(
        containers(&mut page, "running-table"),
        [newer.to_string(), older.to_string()]
    );

    watched.cluster.rm.order_queuing_limit(2);
    wait_place(&mut page, "limit", "2");
    wait_place(&mut page, "waiting", "2");
    wait_decision(
        &mut page,
        waiting[3],
        "Shed over the ResourceManager's limit of 2 waiting",
    );
    assert_eq!(containers(&mut page, "queue-table"), in_order[..2]);

    let taker = watched.running(&watched.guaranteed(NODE_MB / 2), &gate);
    wait_place(&mut page, "running_guaranteed", "1");
    let evicted = format!("Evicted for {taker} after ");
    page.wait(
        "the eviction",
        &format!(
            "document.querySelector('[data-kind=evicted]')?.textContent.startsWith('{evicted}')"
        ),
    );
    gate.open();
    wait_decision(&mut page, older, "Completed with exit status 0");
    wait_place(&mut page, "waiting", "0");
    wait_place(&mut page, "running_guaranteed", "0");
    assert_eq!(page.eval("window.neverReloaded"), true);
}

/// A row stays the same element as long as its container is listed.
#[test]
fn a_focused_link_keeps_the_focus_while_other_rows_come_and_go() {
    require!(chromium);
    let watched = Watched::start();
    let mut page = watched.browse(1280, 900);
    wait_place(&mut page, "feed", "Live.");
    let (first_gate, gate) = (watched.cluster.gate("first"), watched.cluster.gate("gate"));
    watched.running(&watched.opportunistic(NODE_MB / 2), &first_gate);
    let kept = watched.running(&watched.opportunistic(NODE_MB / 2), &gate);
    wait_place(&mut page, "running_opportunistic", "2");
    page.eval(&format!(
        "[...document.querySelectorAll('#running-table a')] \
             .find((link) => link.textContent === '{kept}').focus(), \
             window.focused = document.activeElement, true"
    ));
    first_gate.open();
    wait_place(&mut page, "running_opportunistic", "1");
    watched.running(&watched.opportunistic(NODE_MB / 2), &gate);
    wait_place(&mut page, "running_opportunistic", "2");
    assert_eq!(page.eval("document.activeElement === window.focused"), true);
    assert_eq!(page.text("window.focused.textContent"), kept.to_string());
}

#[test]
fn without_a_script_the_page_shows_the_state_of_its_request() {
    let watched = Watched::start();
    let gate = watched.cluster.gate("gate");
    let runs = watched.running(&watched.guaranteed(NODE_MB), &gate);
    let waits = watched.queued(NODE_MB);
    let html = http::get(&watched.url("/")).unwrap();
    assert_eq!(html.status, 200);
    for text in [
        "Registered with the ResourceManager",
        "data-text=\"running_guaranteed\">1<",
        "data-text=\"waiting\">1<",
        "Queued at place 1",
        "Started at once",
        "<path class=\"line\" d=\"M",
        &format!("href=\"/node/container/{runs}\""),
        &format!("href=\"/node/container/{waits}\""),
    ] {
        assert!(html.body.contains(text), "{text} is not in\n{}", html.body);
    }
    let document = http::get_json(&watched.url("/live.json")).unwrap();
    assert_eq!(
        document["queue"]["containers"][0]["container"],
        waits.to_string()
    );
    assert_eq!(
        document["running"]["containers"][0]["container"],
        runs.to_string()
    );
}

#[test]
fn nothing_is_wider_than_a_phone() {
    require!(chromium);
    let watched = Watched::start();
    let gate = watched.cluster.gate("gate");
    let victim = watched.running(&watched.opportunistic(NODE_MB), &gate);
    let taker = watched.running(&watched.guaranteed(NODE_MB / 2), &gate);
    watched.queued(NODE_MB);
    let mut page = watched.browse(360, 740);
    wait_place(&mut page, "feed", "Live.");
    wait_place(&mut page, "waiting", "1");
    page.wait(
        "the eviction",
        "document.querySelector('[data-kind=evicted]') !== null",
    );
    for path in [
        "/".to_owned(),
        "/node".to_owned(),
        "/node/allContainers".to_owned(),
        format!("/node/container/{victim}"),
        format!("/node/container/{taker}"),
    ] {
        page.go(&watched.url(&path));
        let widths = page.eval("[document.scrollingElement.scrollWidth, innerWidth]");
        assert_eq!(widths[1], 360, "{path}");
        assert_eq!(widths[0], 360, "{path} is wider than its window");
    }
}

#[test]
fn what_a_container_says_stays_text() {
    require!(chromium);
    let watched = Watched::start();
    let mut page = watched.browse(1280, 900);
    wait_place(&mut page, "feed", "Live.");
    let hostile = "<script>document.title=1</script><img src=x onerror=document.title=2>";
    let command = format!("echo '{hostile}' > <LOG_DIR>/stderr; exit 3");
    let allocation = watched.opportunistic(NODE_MB);
    let id = watched
        .cluster
        .am
        .try_start(&allocation, LaunchContext::command(&command))
        .unwrap();
    watched.cluster.rm.wait_completed(id);
    wait_decision(
        &mut page,
        id,
        &format!("Completed with exit status 3: {hostile}"),
    );
    page.go(&watched.url("/"));
    wait_place(&mut page, "feed", "Live.");
    wait_decision(
        &mut page,
        id,
        &format!("Completed with exit status 3: {hostile}"),
    );
    page.go(&watched.url(&format!("/node/container/{id}")));
    let shown = format!("document.body.innerText.includes({hostile:?})");
    page.wait("the diagnostics on the container's page", &shown);
    let html = http::get(&watched.url("/")).unwrap().body;
    assert!(
        !html.contains("<script>") && !html.contains("<img"),
        "{html}"
    );
    page.go(&watched.url("/"));
    assert_eq!(page.eval("document.querySelectorAll('img').length"), 0);
    let title = page.text("document.title");
    assert!(title.ends_with("nm-agent"), "{title}");
}

#[test]
fn a_paused_page_stands_still_and_catches_up() {
    require!(chromium);
    let watched = Watched::start();
    let mut page = watched.browse(1280, 900);
    wait_place(&mut page, "feed", "Live.");
    page.eval("document.getElementById('pause').click()");
    let gate = watched.cluster.gate("gate");
    let id = watched.running(&watched.guaranteed(NODE_MB), &gate);
    let document = http::get_json(&watched.url("/live.json")).unwrap();
    assert_eq!(document["running"]["guaranteed"], 1);
    assert_eq!(page.text(&place("running_guaranteed")), "0");
    page.eval("document.getElementById('pause').click()");
    wait_place(&mut page, "running_guaranteed", "1");
    wait_decision(&mut page, id, "Started at once");
}

/// The page without its script has the same content as with it.
#[test]
fn the_server_and_the_script_say_the_same() {
    require!(chromium);
    let watched = Watched::start();
    let gate = watched.cluster.gate("gate");
    watched.running(&watched.opportunistic(NODE_MB), &gate);
    watched.running(&watched.guaranteed(NODE_MB / 2), &gate);
    watched.queued(NODE_MB);
    watched.cluster.rm.order_queuing_limit(3);
    let mut page = watched.browse(1280, 900);
    wait_place(&mut page, "feed", "Live.");
    wait_place(&mut page, "limit", "3");
    // Except what changes with time alone.
    let texts = |root: &str| {
        format!(
            "JSON.stringify([...{root}.querySelectorAll('main [data-text], main td, main .by, .contact')]\
             .filter((e) => !e.matches('.n[data-ms], [data-text=longest_wait], #contact, [data-text=rm]'))\
             .map((e) => [e.dataset.text ?? e.dataset.cell ?? '', e.textContent, e.hidden]))"
        )
    };
    let from_server = format!(
        "fetch('/').then((answer) => answer.text()).then((html) => {{\
         const page = new DOMParser().parseFromString(html, 'text/html'); return {}; }})",
        texts("page")
    );
    // The estimated wait counts down: a second may pass between the two looks.
    wait::until("the same texts", SAME_DEADLINE, || {
        let by_script = page.text(&texts("document"));
        let by_server = page.text(&from_server);
        let is_same = by_script == by_server;
        wait::check(is_same, format!("script {by_script}\nserver {by_server}"))
    });
}
