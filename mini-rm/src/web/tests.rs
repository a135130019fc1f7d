//! Pages and REST of a cluster, with texts that a peer wrote into it.

use bytes::Bytes;
use http_server::Service as _;
use hyper::header::HOST;
use hyper::{Method, Request};
use records::ExecutionType;
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::{Answer, Content, Site, get, page};
use crate::core::tests::{World, node};
use crate::{Config, core_task};

/// A text that breaks out of HTML wherever it is not escaped.
const EVIL: &str = "</td><script>alert(1)</script>&\"'";

/// A node, an AM on it with one container of each type, and hostile names.
fn world() -> World {
    let mut world = World::new(&[]);
    world.register(&node(1), 4, Vec::new());
    world.heartbeat(&node(1), 0, Vec::new());
    world
        .try_submit(|submission| {
            submission.application_name = Some(EVIL.to_owned());
            submission.application_type = Some("T".to_owned());
        })
        .unwrap();
    let attempt = world.start_master();
    world.now.mono = world.now.mono + 1_001;
    world.core.tick(world.now);
    world.ask(attempt, 1, ExecutionType::Guaranteed);
    world.ask(attempt, 12, ExecutionType::Opportunistic);
    world
}

fn json(world: &World, path: &str) -> Value {
    let (path, query) = path.split_once('?').unwrap_or((path, ""));
    let parts: Vec<&str> = path.split('/').collect();
    let Answer { content, .. } = get(&world.core, &parts, query, world.now);
    match content {
        Content::Json(value) => value,
        Content::Page(page) => panic!("a page: {page}"),
    }
}

/// Every name is there.
#[track_caller]
fn assert_has(value: &Value, names: &[&str]) {
    for name in names {
        assert!(!value[name].is_null(), "{name}: {value}");
    }
}

#[test]
fn the_page_says_what_this_is_not_and_shows_nodes_and_applications() {
    let page = page::cluster(&world().core);
    assert!(page.contains("not a cluster manager"), "{page}");
    assert!(page.contains(">n:1</a>"), "{page}");
    assert!(page.contains("application_1000_0001"), "{page}");
}

#[test]
fn nothing_that_a_peer_wrote_becomes_part_of_the_page() {
    let mut world = world();
    let application = world.core.applications().next().unwrap().id;
    world.core.kill(application, EVIL, world.now).unwrap();
    let page = page::cluster(&world.core);
    assert!(!page.contains("<script"), "{page}");
    assert!(page.contains("&lt;script&gt;"), "{page}");
}

#[tokio::test]
async fn a_request_for_another_host_is_misdirected() {
    let config = Config::of(&[("yarn.resourcemanager.webapp.address", "rm.example:0")]).unwrap();
    let world = World::new(&[]);
    let stop = CancellationToken::new();
    let handle = core_task::start(
        |_| world.core,
        wire::protection::Protections::default(),
        &TaskTracker::new(),
        stop,
    );
    let site = Site::new(&config, handle);
    let kill = "/ws/v1/cluster/apps/application_1000_0001/state";
    for (method, path, host, status) in [
        (Method::GET, "/", "evil.example", 421),
        (Method::GET, "/ws/v1/cluster/info", "evil.example:8088", 421),
        (Method::PUT, kill, "evil.example", 421),
        (Method::GET, "/", "rm.example:8088", 200),
        (Method::GET, "/ws/v1/cluster/info", "127.0.0.1:8088", 200),
    ] {
        let request = Request::builder()
            .method(&method)
            .uri(path)
            .header(HOST, host);
        let answer = site.answer(request.body(Bytes::new()).unwrap()).await;
        assert_eq!(answer.status(), status, "{method} {path} {host}");
    }
}

#[test]
fn a_node_has_the_fields_that_clients_read() {
    let world = world();
    let nodes = json(&world, "nodes?states=RUNNING");
    let node = &nodes["nodes"]["node"][0];
    assert_has(
        node,
        &[
            "id",
            "rack",
            "state",
            "nodeHostName",
            "nodeHTTPAddress",
            "version",
            "healthReport",
            "lastHealthUpdate",
            "numRunningOpportContainers",
            "usedMemoryOpportGB",
            "usedVirtualCoresOpport",
            "numQueuedContainers",
            "totalResource",
            "usedResource",
            "availableResource",
        ],
    );
    // The AM and the guaranteed one.
    assert_eq!(node["numContainers"], 2);
    assert_eq!(node["usedMemoryMB"], 2_048);
    assert_eq!(json(&world, "nodes/n:1")["node"], *node);
    let lost = json(&world, "nodes?states=LOST");
    assert_eq!(lost["nodes"]["node"].as_array().unwrap().len(), 0);
}

#[test]
fn an_application_has_the_fields_that_clients_read() {
    let world = world();
    let applications = json(&world, "apps");
    let application = &applications["apps"]["app"][0];
    assert_has(
        application,
        &[
            "id",
            "user",
            "name",
            "queue",
            "state",
            "finalStatus",
            "progress",
            "trackingUI",
            "trackingUrl",
            "diagnostics",
            "clusterId",
            "applicationType",
            "applicationTags",
            "priority",
            "startedTime",
            "launchTime",
            "finishedTime",
            "elapsedTime",
            "amContainerLogs",
            "amHostHttpAddress",
            "allocatedVCores",
        ],
    );
    // The AM, the guaranteed one and ten that fit the queue, of which two are promised what
    // they may use.
    assert_eq!(application["runningContainers"], 12);
    assert_eq!(application["allocatedMB"], 2_048);
    assert_eq!(application["pendingContainers"]["OPPORTUNISTIC"], 2);
    let attempts = json(&world, "apps/application_1000_0001/appattempts");
    assert_has(
        &attempts["appAttempts"]["appAttempt"][0],
        &["id", "startTime", "containerId", "nodeId", "state"],
    );
}

#[test]
fn applications_are_listed_by_what_is_asked_for() {
    let world = world();
    let count = |query: &str| {
        let applications = json(&world, &format!("apps?{query}"));
        applications["apps"]["app"].as_array().unwrap().len()
    };
    assert_eq!(count("states=RUNNING,FINISHED&user=u"), 1);
    assert_eq!(count("states=FINISHED"), 0);
    assert_eq!(count("applicationTypes=t&finalStatus=UNDEFINED"), 1);
    assert_eq!(count("user=other"), 0);
    assert_eq!(count("limit=0"), 0);
    assert_eq!(count("limit=x&states=&novalue"), 1);
}

#[test]
fn the_cluster_has_the_fields_that_clients_read() {
    let world = world();
    assert_has(
        &json(&world, "info")["clusterInfo"],
        &[
            "id",
            "startedOn",
            "state",
            "haState",
            "rmStateStoreName",
            "resourceManagerVersion",
            "resourceManagerBuildVersion",
            "hadoopVersion",
            "hadoopBuildVersion",
            "haZooKeeperConnectionState",
        ],
    );
    let metrics = &json(&world, "metrics")["clusterMetrics"];
    assert_has(
        metrics,
        &[
            "appsSubmitted",
            "appsRunning",
            "availableMB",
            "reservedMB",
            "containersReserved",
            "containersPending",
            "totalNodes",
            "activeNodes",
            "decommissionedNodes",
            "rebootedNodes",
        ],
    );
    assert_eq!(metrics["containersAllocated"], 2);
    let scheduler = &json(&world, "scheduler")["scheduler"]["schedulerInfo"];
    assert_has(
        scheduler,
        &["type", "usedCapacity", "totalNodeCapacity", "numNodes"],
    );
}
