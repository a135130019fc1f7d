//! The server over real connections on a port that the system chooses, with a node made up by each
//! test.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use sched::ContainerState;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::overview::fixture::overview;
use crate::snapshot::fixture::{APP, container, container_id, node};
use crate::snapshot::{ApplicationSnapshot, ApplicationState, RmContact};
use crate::source::Changes;

const ID: &str = "container_1700000000000_0007_01_000001";
const HOSTILE: &str = "<script>alert('x')</script>&\"";

/// Source that always gives the same snapshot; `None` is an agent that is stopping.
struct Fixed(Option<Arc<NodeSnapshot>>);

impl NodeSource for Fixed {
    async fn snapshot(&self) -> Option<Arc<NodeSnapshot>> {
        self.0.clone()
    }

    async fn overview(&self) -> Option<Overview> {
        self.0.as_ref().map(|_| overview())
    }

    fn changes(&self) -> Changes {
        Changes::new(watch::Sender::new(0).subscribe(), None)
    }
}

/// A running server, a log root for its node and, in it, the log directory of container 1.
struct Lab {
    address: SocketAddr,
    shutdown: CancellationToken,
    served: JoinHandle<()>,
    logs: PathBuf,
    _root: TempDir,
}

struct Reply {
    status: u16,
    head: String,
    body: Vec<u8>,
}

impl Reply {
    fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (found, value) = line.split_once(": ")?;
            found.eq_ignore_ascii_case(name).then_some(value)
        })
    }
}

/// A node with `alice`'s application and her running container 1.
fn busy_node() -> NodeSnapshot {
    let mut node = node();
    node.containers = vec![container(1)];
    node.applications = vec![ApplicationSnapshot {
        id: APP,
        user: "alice".to_owned(),
        state: ApplicationState::Running,
        containers: vec![container_id(1)],
    }];
    node
}

impl Lab {
    async fn start(node: NodeSnapshot) -> Self {
        Self::start_with(node, AdminOptions::default()).await
    }

    async fn start_with(mut node: NodeSnapshot, options: AdminOptions) -> Self {
        let root = tempfile::tempdir().unwrap();
        let logs = root.path().join(APP.to_string()).join(ID);
        fs::create_dir_all(&logs).unwrap();
        Arc::make_mut(&mut node.about).log_roots = vec![root.path().to_owned()];
        let source = Arc::new(Fixed(Some(Arc::new(node))));
        let server = AdminServer::bind(
            SocketAddr::from(([127, 0, 0, 1], 0)),
            source,
            Arc::new(Metrics::new()),
            options,
        )
        .await
        .unwrap()
        .with_host_names(["node-1.example"]);
        let shutdown = CancellationToken::new();
        Self {
            address: server.local_address(),
            served: tokio::spawn(server.serve(shutdown.clone())),
            shutdown,
            logs,
            _root: root,
        }
    }

    async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    async fn get(&self, path: &str) -> Reply {
        self.send(&format!(
            "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
        ))
        .await
    }

    async fn send(&self, request: &str) -> Reply {
        let mut stream = self.connect().await;
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).await.unwrap();
        parse(&bytes)
    }
}

fn parse(bytes: &[u8]) -> Reply {
    let end = bytes.windows(4).position(|w| w == b"\r\n\r\n").unwrap();
    let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
    let mut body = bytes[end + 4..].to_vec();
    if head.to_lowercase().contains("transfer-encoding: chunked") {
        body = dechunked(&body);
    }
    Reply {
        status: head.split(' ').nth(1).unwrap().parse().unwrap(),
        head,
        body,
    }
}

fn dechunked(mut bytes: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    loop {
        let end = bytes.windows(2).position(|w| w == b"\r\n").unwrap();
        let length =
            usize::from_str_radix(std::str::from_utf8(&bytes[..end]).unwrap(), 16).unwrap();
        if length == 0 {
            return body;
        }
        body.extend_from_slice(&bytes[end + 2..end + 2 + length]);
        bytes = &bytes[end + 2 + length + 2..];
    }
}

#[tokio::test]
async fn node_info_has_hadoops_fields_and_types() {
    let lab = Lab::start(busy_node()).await;
    let expected = json!({"nodeInfo": {
        "healthReport": "",
        "totalVmemAllocatedContainersMB": 17203,
        "totalPmemAllocatedContainersMB": 8192,
        "totalVCoresAllocatedContainers": 8,
        "vmemCheckEnabled": false,
        "pmemCheckEnabled": true,
        "lastNodeUpdateTime": 1_700_000_009_000_i64,
        "resourceTypes": "memory-mb (unit=Mi), vcores",
        "nodeHealthy": true,
        "nodeManagerVersion": "3.4.2",
        "nodeManagerBuildVersion": "3.4.2 from abc",
        "nodeManagerVersionBuiltOn": "2025-08-20T10:30Z",
        "hadoopVersion": "3.4.2",
        "hadoopBuildVersion": "3.4.2 from abc",
        "hadoopVersionBuiltOn": "2025-08-20T10:30Z",
        "id": "node-1.example:8041",
        "nodeHostName": "node-1.example",
        "nmStartupTime": 1_700_000_000_123_i64,
    }});
    for path in ["/ws/v1/node", "/ws/v1/node/", "/ws/v1/node/info"] {
        let reply = lab.get(path).await;
        assert_eq!(
            (reply.status, reply.json()),
            (200, expected.clone()),
            "{path}"
        );
        assert_eq!(
            reply.header("content-type"),
            Some("application/json; charset=utf-8")
        );
        assert_eq!(reply.header("x-content-type-options"), Some("nosniff"));
        assert_eq!(reply.header("x-frame-options"), Some("SAMEORIGIN"));
    }
}

#[tokio::test]
async fn applications_are_listed_and_filtered() {
    let lab = Lab::start(busy_node()).await;
    let app = json!({
        "id": "application_1700000000000_0007",
        "state": "RUNNING",
        "user": "alice",
        "containerids": [ID],
    });
    let all = json!({"apps": {"app": [app]}});
    let none = json!({"apps": {}});
    for (query, expected) in [
        ("", &all),
        ("?state=RUNNING&user=alice", &all),
        ("?state=", &all),
        ("?state=FINISHED", &none),
        ("?user=bob", &none),
    ] {
        let reply = lab.get(&format!("/ws/v1/node/apps{query}")).await;
        assert_eq!((reply.status, &reply.json()), (200, expected), "{query}");
    }
    let one = lab
        .get("/ws/v1/node/apps/application_1700000000000_0007")
        .await;
    assert_eq!(one.json(), json!({"app": app}));
}

#[tokio::test]
async fn containers_have_hadoops_fields_and_their_log_files() {
    let mut node = busy_node();
    node.containers[0].diagnostics = HOSTILE.to_owned();
    let lab = Lab::start(node).await;
    fs::write(lab.logs.join("stdout"), "x").unwrap();
    fs::write(lab.logs.join("stderr"), "x").unwrap();
    let container = json!({
        "id": ID,
        "state": "RUNNING",
        "exitCode": -1000,
        "diagnostics": HOSTILE,
        "user": "alice",
        "totalMemoryNeededMB": 1024,
        "totalVCoresNeeded": 2,
        "executionType": "GUARANTEED",
        "containerLogsLink": format!("http://node-1.example:8042/node/containerlogs/{ID}/alice"),
        "nodeId": "node-1.example:8041",
        "containerLogFiles": ["stderr", "stdout"],
    });
    let all = lab.get("/ws/v1/node/containers").await.json();
    assert_eq!(all, json!({"containers": {"container": [container]}}));
    let one = lab
        .get(&format!("/ws/v1/node/containers/{ID}"))
        .await
        .json();
    assert_eq!(one, json!({"container": container}));
}

#[tokio::test]
async fn a_node_without_containers_gives_an_empty_object() {
    let lab = Lab::start(node()).await;
    let reply = lab.get("/ws/v1/node/containers").await;
    assert_eq!(reply.json(), json!({"containers": {}}));
}

#[tokio::test]
async fn errors_are_remote_exceptions() {
    let lab = Lab::start(busy_node()).await;
    let package = "org.apache.hadoop.yarn.webapp";
    for (path, status, class, message) in [
        (
            "containers/container_1_2_3_4",
            404,
            format!("{package}.NotFoundException"),
            "java.lang.Exception: container with id, container_1_2_3_4, not found",
        ),
        (
            "containers/x",
            400,
            format!("{package}.BadRequestException"),
            "java.lang.Exception: invalid container id, x",
        ),
        (
            "containers/x/logs",
            400,
            format!("{package}.BadRequestException"),
            "java.lang.Exception: invalid container id, x",
        ),
        (
            "apps/application_1_0001",
            404,
            format!("{package}.NotFoundException"),
            "java.lang.Exception: app with id application_1_0001 not found",
        ),
        (
            "apps/application_x",
            400,
            format!("{package}.BadRequestException"),
            "java.lang.IllegalArgumentException: Invalid ApplicationId: application_x",
        ),
        (
            "apps?user=",
            400,
            format!("{package}.BadRequestException"),
            "java.lang.Exception: Error: You must specify a non-empty string for the user",
        ),
        (
            "apps?state=running",
            400,
            "java.lang.IllegalArgumentException".to_owned(),
            "No enum constant org.apache.hadoop.yarn.server.nodemanager.containermanager.application.ApplicationState.running",
        ),
        (
            "containers/container_1_2_3_4/logs",
            404,
            format!("{package}.NotFoundException"),
            "java.lang.Exception: Unknown container. Container either has not started or has already completed or doesn't belong to this node at all.",
        ),
        (
            "nothing",
            404,
            format!("{package}.NotFoundException"),
            "java.lang.Exception: HTTP 404 Not Found",
        ),
    ] {
        let reply = lab.get(&format!("/ws/v1/node/{path}")).await;
        let expected = json!({"RemoteException": {
            "exception": class.rsplit('.').next(),
            "message": message,
            "javaClassName": class,
        }});
        assert_eq!((reply.status, reply.json()), (status, expected), "{path}");
    }
}

#[tokio::test]
async fn xml_is_for_those_who_accept_nothing_else() {
    let lab = Lab::start(busy_node()).await;
    let request = |accept| {
        format!(
            "GET /ws/v1/node/apps HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAccept: {accept}\r\n\r\n"
        )
    };
    let reply = lab.send(&request("application/xml")).await;
    assert_eq!(
        reply.header("content-type"),
        Some("application/xml; charset=utf-8")
    );
    assert!(
        reply.text().contains("<apps><app><containerids>"),
        "{}",
        reply.text()
    );
    let reply = lab
        .send(&request("text/html,application/xml;q=0.9,*/*"))
        .await;
    assert_eq!(
        reply.header("content-type"),
        Some("application/json; charset=utf-8")
    );
}

#[tokio::test]
async fn the_list_of_logs_has_sizes_as_texts_and_javas_dates() {
    let lab = Lab::start(busy_node()).await;
    fs::write(lab.logs.join("stdout"), "hello").unwrap();
    let reply = lab
        .get(&format!("/ws/v1/node/containers/{ID}/logs"))
        .await
        .json();
    let info = &reply["containerLogsInfo"];
    assert_eq!(info["logAggregationType"], "LOCAL");
    assert_eq!(info["containerId"], ID);
    assert_eq!(info["nodeId"], "node-1.example:8041");
    let file = &info["containerLogInfo"][0];
    assert_eq!(
        (&file["fileName"], &file["fileSize"]),
        (&json!("stdout"), &json!("5"))
    );
    assert_eq!(
        file["lastModifiedTime"].as_str().unwrap().len(),
        "Tue Nov 14 22:13:20 +0000 2023".len()
    );
}

#[tokio::test]
async fn a_log_file_is_framed_as_the_yarn_command_prints_it() {
    let lab = Lab::start(busy_node()).await;
    let path = lab.logs.join("stdout");
    fs::write(&path, "one\ntwo\n").unwrap();
    let time = std::time::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
    fs::File::options()
        .write(true)
        .open(&path)
        .unwrap()
        .set_modified(time)
        .unwrap();
    let opening = format!("Container: {ID} on node-1.example:8041");
    let expected = format!(
        "{opening}\nLogAggregationType: LOCAL\n{}\nLogType:stdout\nLogLastModifiedTime:Tue Nov 14 22:13:20 +0000 2023\n\
         LogLength:8\nLogContents:\ntwo\nEnd of LogType:stdout.This log file belongs to a running container ({ID}) and so \
         may not be complete.\n{}\n\n",
        "=".repeat(opening.len()),
        "*".repeat("End of LogType:stdout".len() + 50),
    );
    for path in [
        format!("containers/{ID}/logs/stdout"),
        format!("containerlogs/{ID}/stdout"),
    ] {
        let reply = lab.get(&format!("/ws/v1/node/{path}?size=-4")).await;
        assert_eq!(
            (reply.status, reply.text()),
            (200, expected.clone()),
            "{path}"
        );
        assert_eq!(
            reply.header("content-type"),
            Some("text/plain; charset=utf-8")
        );
    }
    let reply = lab
        .get(&format!(
            "/ws/v1/node/containerlogs/{ID}/stdout?format=octet-stream&size=3"
        ))
        .await;
    assert_eq!(
        reply.header("content-type"),
        Some("application/octet-stream; charset=utf-8")
    );
    assert!(
        reply
            .text()
            .contains("LogContents:\noneEnd of LogType:stdout.")
    );
    fs::write(lab.logs.join("empty"), "").unwrap();
    let reply = lab
        .get(&format!("/ws/v1/node/containers/{ID}/logs/empty"))
        .await;
    assert!(
        reply
            .text()
            .contains("LogLength:0\nLogContents:\nEnd of LogType:empty.")
    );
}

#[tokio::test]
async fn bad_parameters_of_a_log_file_are_refused() {
    let lab = Lab::start(busy_node()).await;
    fs::write(lab.logs.join("stdout"), "x").unwrap();
    let log = format!("/ws/v1/node/containers/{ID}/logs/stdout");
    let reply = lab.get(&format!("{log}?format=html")).await;
    assert_eq!(reply.status, 400);
    let reply = lab.get(&format!("{log}?size=1e9")).await;
    assert_eq!(
        (reply.status, &reply.json()["RemoteException"]["exception"]),
        (400, &json!("NumberFormatException"))
    );
    let reply = lab.get("/ws/v1/node/containers/x/logs/stdout").await;
    assert_eq!(reply.status, 400);
    let reply = lab
        .get(&format!("/ws/v1/node/containers/{ID}/logs/stderr"))
        .await;
    assert_eq!(
        (reply.status, reply.text().as_str()),
        (
            404,
            "java.lang.Exception: Cannot find this log on the local disk."
        )
    );
}

#[tokio::test]
async fn logs_of_a_container_without_a_process_are_not_shown() {
    let mut node = busy_node();
    node.containers[0].state = ContainerState::Queued { place: 1 };
    let lab = Lab::start(node).await;
    fs::write(lab.logs.join("stdout"), "x").unwrap();
    let reply = lab
        .get(&format!("/ws/v1/node/containers/{ID}/logs/stdout"))
        .await;
    assert_eq!(
        (reply.status, reply.text().as_str()),
        (
            404,
            "java.lang.Exception: Container is not yet running. Current state is SCHEDULED"
        )
    );
    let files = &lab.get("/ws/v1/node/containers").await.json()["containers"]["container"][0];
    assert_eq!(files.get("containerLogFiles"), None);
}

#[tokio::test]
async fn logs_outlive_their_container_as_long_as_the_application_is_known() {
    let mut node = busy_node();
    node.containers.clear();
    let lab = Lab::start(node).await;
    fs::write(lab.logs.join("stdout"), "x").unwrap();
    let reply = lab
        .get(&format!("/ws/v1/node/containers/{ID}/logs/stdout"))
        .await;
    assert_eq!(reply.status, 200);
    assert!(!reply.text().contains("running container"));
}

#[tokio::test]
async fn no_path_leads_out_of_a_log_directory() {
    let lab = Lab::start(busy_node()).await;
    fs::write(lab.logs.parent().unwrap().join("secret"), "not for you").unwrap();
    symlink("../secret", lab.logs.join("link")).unwrap();
    for name in [
        "..%2fsecret",
        "..%2Fsecret",
        "%2e%2e%2fsecret",
        "..%252fsecret",
        "../secret",
        "%2e%2e/secret",
        "x%00/../secret",
        "secret%00",
        "..",
        "%2e%2e",
        "link",
    ] {
        for base in [
            format!("/ws/v1/node/containers/{ID}/logs"),
            format!("/ws/v1/node/containerlogs/{ID}"),
            format!("/node/containerlogs/{ID}/alice"),
        ] {
            let reply = lab.get(&format!("{base}/{name}")).await;
            assert!(
                matches!(reply.status, 400 | 404),
                "{base}/{name}: {}",
                reply.status
            );
            assert!(!reply.text().contains("not for you"), "{base}/{name}");
        }
    }
}

#[tokio::test]
async fn a_log_page_shows_the_end_unless_asked_otherwise() {
    let lab = Lab::start(busy_node()).await;
    fs::write(
        lab.logs.join("stdout"),
        format!("begin{}end", "-".repeat(5000)),
    )
    .unwrap();
    let page = format!("/node/containerlogs/{ID}/alice/stdout");
    let tail = lab.get(&format!("{page}/?start=-4096")).await;
    assert!(
        tail.text().contains("Showing 4096 bytes of 5008 total."),
        "{}",
        tail.text()
    );
    assert!(tail.text().contains("-end</pre>") && !tail.text().contains("begin"));
    assert_eq!(lab.get(&page).await.text(), tail.text());
    let all = lab.get(&format!("{page}?start=0")).await.text();
    assert!(
        all.contains("<pre>\nbegin-") && all.contains("-end</pre>") && !all.contains("Showing")
    );
    let middle = lab.get(&format!("{page}?start=2&end=-5000")).await.text();
    assert!(middle.contains("<pre>\ngin---</pre>"), "{middle}");
    for query in [
        "start=6000",
        "start=3&end=2",
        "start=x",
        "end=99999999999999999999",
    ] {
        assert_eq!(
            lab.get(&format!("{page}?{query}")).await.status,
            400,
            "{query}"
        );
    }
}

#[tokio::test]
async fn a_huge_sparse_log_is_not_read_as_a_whole() {
    let lab = Lab::start(busy_node()).await;
    let file = fs::File::create(lab.logs.join("stdout")).unwrap();
    // A tebibyte: reading it all would take many minutes.
    file.set_len(1 << 40).unwrap();
    let page = format!("/node/containerlogs/{ID}/alice/stdout/?start=-10");
    let page = timeout(Duration::from_secs(60), lab.get(&page))
        .await
        .unwrap();
    let shown = format!("Showing 10 bytes of {} total.", 1_u64 << 40);
    assert!(page.text().contains(&shown), "{}", page.text());
    let rest = format!("/ws/v1/node/containerlogs/{ID}/stdout?size=-10");
    let rest = timeout(Duration::from_secs(60), lab.get(&rest))
        .await
        .unwrap();
    assert!(rest.text().contains("LogLength:1099511627776\n"));
    assert!(rest.body.len() < 1000, "{}", rest.body.len());
}

#[tokio::test]
async fn a_log_longer_than_a_chunk_arrives_whole_and_in_order() {
    let lab = Lab::start(busy_node()).await;
    let lines: String = (0..30_000).map(|n| format!("{n}\n")).collect();
    fs::write(lab.logs.join("stdout"), &lines).unwrap();
    let reply = lab
        .get(&format!("/ws/v1/node/containerlogs/{ID}/stdout"))
        .await
        .text();
    let (_, contents) = reply.split_once("LogContents:\n").unwrap();
    let (contents, _) = contents.split_once("End of LogType:").unwrap();
    assert_eq!(contents, lines);
}

#[tokio::test]
async fn hostile_texts_are_escaped_on_every_page() {
    let mut node = busy_node();
    node.containers[0].diagnostics = HOSTILE.to_owned();
    node.containers[0].user = HOSTILE.to_owned();
    node.applications[0].user = HOSTILE.to_owned();
    Arc::make_mut(&mut node.about).health.report = HOSTILE.to_owned();
    let lab = Lab::start(node).await;
    fs::write(lab.logs.join("<b>&.log"), HOSTILE).unwrap();
    let app = APP.to_string();
    for path in [
        "/node".to_owned(),
        "/node/allApplications".to_owned(),
        "/node/allContainers".to_owned(),
        format!("/node/application/{app}"),
        format!("/node/container/{ID}"),
        format!("/node/containerlogs/{ID}/%3Cscript%3E%22"),
        format!("/node/containerlogs/{ID}/a/%3Cb%3E&.log"),
    ] {
        let reply = lab.get(&path).await;
        assert_eq!(reply.status, 200, "{path}");
        assert_eq!(
            reply.header("content-type"),
            Some("text/html; charset=utf-8")
        );
        let text = reply.text();
        assert!(
            !text.contains("<script") && !text.contains("<b>"),
            "{path}: {text}"
        );
        assert!(reply.header("content-security-policy").is_some());
    }
    for path in [
        "/node/containerlogs/%3Cscript%3E/a",
        "/node/%3Cscript%3E",
        "/%3Cscript%3E",
    ] {
        let reply = lab.get(path).await;
        assert!(matches!(reply.status, 400 | 404), "{path}");
        assert!(!reply.text().contains("<script"), "{path}");
    }
}

#[tokio::test]
async fn the_live_page_brings_its_own_files_and_allows_nothing_else() {
    let lab = Lab::start(busy_node()).await;
    let page = lab.get("/").await;
    assert_eq!(page.status, 200);
    let policy = page.header("content-security-policy").unwrap();
    assert!(
        policy.contains("default-src 'none'") && !policy.contains("unsafe"),
        "{policy}"
    );
    let text = page.text();
    assert!(!text.contains("style=") && !text.contains("<style") && !text.contains("onclick"));
    let files: Vec<&str> = text
        .split("/static/")
        .skip(1)
        .map(|rest| rest.split('"').next().unwrap())
        .collect();
    assert_eq!(files, ["icon.svg", "agent.css", "live.js"]);
    for (name, content_type) in [
        ("icon.svg", "image/svg+xml"),
        ("agent.css", "text/css; charset=utf-8"),
        ("live.js", "text/javascript; charset=utf-8"),
    ] {
        let file = lab.get(&format!("/static/{name}")).await;
        assert_eq!(
            (file.status, file.header("content-type")),
            (200, Some(content_type))
        );
    }
    for path in [
        "/static/",
        "/static/live.html",
        "/static/x/agent.css",
        "/static",
    ] {
        assert_eq!(lab.get(path).await.status, 404, "{path}");
    }
}

#[tokio::test]
async fn the_live_picture_is_served_as_json_and_as_events_until_the_server_ends() {
    let lab = Lab::start(busy_node()).await;
    let document = lab.get("/live.json").await.json();
    assert_eq!(document["node"]["id"], "node-1.example:8041");
    let mut stream = lab.connect().await;
    stream
        .write_all(b"GET /live HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        .await
        .unwrap();
    // The answer has begun.
    stream.read_exact(&mut [0; 15]).await.unwrap();
    lab.shutdown.cancel();
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).await.unwrap();
    timeout(Duration::from_secs(10), lab.served)
        .await
        .unwrap()
        .unwrap();
    let rest = String::from_utf8(rest).unwrap();
    assert!(rest.contains("content-type: text/event-stream"), "{rest}");
    assert!(rest.contains("\ndata: {\"at_epoch_ms\""), "{rest}");
}

#[tokio::test]
async fn an_unknown_application_leads_to_the_log_server() {
    let options = AdminOptions {
        log_aggregation_enabled: true,
        log_server_url: Some("http://history:19888/jobhistory/logs".to_owned()),
        log_server_web_service_url: Some("http://history:8188/ws/v1".to_owned()),
        ..AdminOptions::default()
    };
    let lab = Lab::start_with(node(), options).await;
    let page = lab
        .get(&format!(
            "/node/containerlogs/{ID}/alice/stdout?start=-4096"
        ))
        .await;
    assert_eq!(page.status, 307);
    assert_eq!(
        page.header("location").unwrap(),
        format!(
            "http://history:19888/jobhistory/logs/node-1.example:8041/{ID}/{ID}/alice/stdout?start=-4096"
        )
    );
    for path in ["logs", "logs/stdout"] {
        let rest = lab
            .get(&format!("/ws/v1/node/containers/{ID}/{path}"))
            .await;
        assert_eq!(rest.status, 307);
        assert_eq!(
            rest.header("location").unwrap(),
            format!("http://history:8188/ws/v1/containers/{ID}/{path}?redirected_from_node=true")
        );
    }
}

#[tokio::test]
async fn without_a_log_server_an_unknown_application_is_not_found() {
    let options = AdminOptions {
        log_aggregation_enabled: true,
        ..AdminOptions::default()
    };
    let lab = Lab::start_with(node(), options).await;
    let page = lab.get(&format!("/node/containerlogs/{ID}/alice")).await;
    assert_eq!(page.status, 404);
    assert!(page.text().contains("Log Server url may not be configured"));
}

#[tokio::test]
async fn only_reading_is_served_and_no_request_body_is_taken() {
    let lab = Lab::start(busy_node()).await;
    for method in ["POST", "PUT", "DELETE", "OPTIONS", "TRACE"] {
        let reply = lab
            .send(&format!(
                "{method} /ws/v1/node HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n"
            ))
            .await;
        assert_eq!(
            (reply.status, reply.header("allow")),
            (405, Some("GET, HEAD")),
            "{method}"
        );
    }
    let reply = lab
        .send("GET /ws/v1/node HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999\r\n\r\n")
        .await;
    assert_eq!(reply.status, 413);
    let reply = lab
        .send("HEAD /ws/v1/node HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        .await;
    assert_eq!((reply.status, reply.body.len()), (200, 0));
    assert_ne!(reply.header("content-length"), Some("0"));
}

#[tokio::test]
async fn a_request_head_beyond_the_limit_is_refused() {
    let lab = Lab::start(busy_node()).await;
    let reply = lab
        .send(&format!(
            "GET / HTTP/1.1\r\nHost: localhost\r\nX: {}\r\n\r\n",
            "x".repeat(32 * 1024)
        ))
        .await;
    assert_eq!(reply.status, 431);
    let many: String = (0..200).map(|n| format!("X{n}: x\r\n")).collect();
    let reply = lab
        .send(&format!("GET / HTTP/1.1\r\nHost: localhost\r\n{many}\r\n"))
        .await;
    assert_eq!(reply.status, 431);
}

#[tokio::test]
async fn a_client_that_sends_its_request_too_slowly_is_dropped() {
    let limits = Limits {
        request_timeout: Duration::from_millis(50),
        idle_timeout: Duration::from_millis(50),
        ..Limits::default()
    };
    let options = AdminOptions {
        limits,
        ..AdminOptions::default()
    };
    let lab = Lab::start_with(busy_node(), options).await;
    for begin in ["", "GET / HTTP/1.1\r\nHost: localhost\r\n"] {
        let mut stream = lab.connect().await;
        stream.write_all(begin.as_bytes()).await.unwrap();
        let mut rest = Vec::new();
        let closed = timeout(Duration::from_secs(10), stream.read_to_end(&mut rest)).await;
        assert!(closed.is_ok(), "{begin:?} is still waited for");
    }
}

#[tokio::test]
async fn metrics_are_exposed_with_gauges_of_the_moment() {
    let lab = Lab::start(busy_node()).await;
    let reply = lab.get("/metrics").await;
    assert_eq!(
        reply.header("content-type"),
        Some("text/plain; version=0.0.4; charset=utf-8")
    );
    assert!(reply.text().contains("\nnm_agent_registered 1\n"));
    assert!(reply.text().contains("\nnm_agent_containers_known 1\n"));
}

#[tokio::test]
async fn jmx_answers_like_hadoops_servlet() {
    let lab = Lab::start(busy_node()).await;
    let bean = "Hadoop:service=NodeManager,name=NodeManagerMetrics";
    for query in [
        "",
        "?qry=Hadoop:service=NodeManager,name=NodeManagerMetrics",
        "?qry=Hadoop:service=NodeManager,*",
        "?qry=Hadoop:*",
        "?qry=*:*",
        "?qry=",
        "?qry=*:service=NodeManager,name=NodeManagerMetrics",
    ] {
        let beans = lab.get(&format!("/jmx{query}")).await.json();
        assert_eq!(beans["beans"][0]["name"], bean, "{query}");
        assert_eq!(beans["beans"][0]["ContainersLaunched"], 1, "{query}");
    }
    for query in ["?qry=java.lang:type=Memory", "?qry=java.lang:*"] {
        assert_eq!(
            lab.get(&format!("/jmx{query}")).await.json(),
            json!({"beans": []}),
            "{query}"
        );
    }
    let one = lab
        .get(&format!("/jmx?get={bean}::ContainersRunning"))
        .await
        .json();
    assert_eq!(
        one,
        json!({"beans": [{"name": bean, "modelerType": "NodeManagerMetrics", "ContainersRunning": 1}]})
    );
    assert_eq!(
        lab.get(&format!("/jmx?get={bean}::Nothing")).await.status,
        404
    );
    assert_eq!(lab.get("/jmx?get=nothing").await.status, 400);
}

#[tokio::test]
async fn prom_has_hadoops_names_and_labels() {
    let lab = Lab::start(busy_node()).await;
    let text = lab.get("/prom").await.text();
    let line = "\nnode_manager_metrics_allocated_v_cores{context=\"yarn\",hostname=\"node-1.example\"} 2\n";
    assert!(text.contains(line), "{text}");
    assert!(text.contains("# TYPE node_manager_metrics_containers_killed counter\n"));
}

#[tokio::test]
async fn health_is_bad_while_unregistered_or_unhealthy() {
    let reply = Lab::start(busy_node()).await.get("/health").await;
    assert_eq!((reply.status, reply.text().as_str()), (200, "ok\n"));
    let mut node = busy_node();
    node.rm = RmContact::Registering;
    assert_eq!(Lab::start(node).await.get("/health").await.status, 503);
    let mut node = busy_node();
    Arc::make_mut(&mut node.about).health.healthy = false;
    Arc::make_mut(&mut node.about).health.report = "1/1 local-dirs are bad".to_owned();
    let reply = Lab::start(node).await.get("/health").await;
    assert_eq!(
        (reply.status, reply.text().as_str()),
        (503, "unhealthy: 1/1 local-dirs are bad\n")
    );
}

#[tokio::test]
async fn shutdown_ends_idle_and_half_sent_connections_and_gives_the_port_back() {
    let lab = Lab::start(busy_node()).await;
    let idle = lab.connect().await;
    let mut half = lab.connect().await;
    half.write_all(b"GET / HT").await.unwrap();
    assert_eq!(lab.get("/health").await.status, 200);
    lab.shutdown.cancel();
    timeout(Duration::from_secs(10), lab.served)
        .await
        .unwrap()
        .unwrap();
    assert!(TcpStream::connect(lab.address).await.is_err());
    drop((idle, half));
}

#[tokio::test]
async fn an_agent_that_is_stopping_says_so_and_still_gives_its_counters() {
    let address = SocketAddr::from(([127, 0, 0, 1], 0));
    let (source, metrics) = (Arc::new(Fixed(None)), Arc::new(Metrics::new()));
    let server = AdminServer::bind(address, source, metrics, AdminOptions::default())
        .await
        .unwrap();
    let lab = Lab {
        address: server.local_address(),
        shutdown: CancellationToken::new(),
        served: tokio::spawn(server.serve(CancellationToken::new())),
        logs: PathBuf::new(),
        _root: tempfile::tempdir().unwrap(),
    };
    for path in ["/", "/live", "/live.json", "/health", "/ws/v1/node"] {
        assert_eq!(lab.get(path).await.status, 503, "{path}");
    }
    assert_eq!(lab.get("/metrics").await.status, 200);
}

#[tokio::test]
async fn readers_that_stop_reading_do_not_lock_out_others() {
    let lab = Lab::start(busy_node()).await;
    let file = fs::File::create(lab.logs.join("stdout")).unwrap();
    file.set_len(1 << 40).unwrap();
    let request =
        format!("GET /ws/v1/node/containerlogs/{ID}/stdout HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let mut stalled = Vec::new();
    for _ in 0..3 * WORK_MAX {
        let mut stream = lab.connect().await;
        stream.write_all(request.as_bytes()).await.unwrap();
        // The answer has begun.
        stream.read_exact(&mut [0; 15]).await.unwrap();
        stalled.push(stream);
    }
    assert_answers_at_once(&lab, "/node").await;
    assert_answers_at_once(&lab, "/health").await;
}

#[tokio::test]
async fn connections_that_send_nothing_do_not_lock_out_others() {
    let lab = Lab::start(busy_node()).await;
    let mut silent = Vec::new();
    for _ in 0..300 {
        silent.push(lab.connect().await);
    }
    for path in ["/health", "/metrics", "/node"] {
        assert_answers_at_once(&lab, path).await;
    }
}

/// Asserts that a page comes within the second that health checks may take.
async fn assert_answers_at_once(lab: &Lab, path: &str) {
    let reply = timeout(Duration::from_secs(1), lab.get(path)).await;
    assert_eq!(
        reply.expect("no answer within a second").status,
        200,
        "{path}"
    );
}

#[tokio::test]
async fn long_answers_that_nobody_reads_are_bounded_in_memory() {
    let mut node = busy_node();
    let diagnostics = "x".repeat(9 << 20);
    node.containers[0].diagnostics = diagnostics;
    let lab = Lab::start(node).await;
    let request = "GET /ws/v1/node/containers HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let mut unread = Vec::new();
    let mut statuses = Vec::new();
    for _ in 0..10 {
        let mut stream = lab.connect().await;
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut begin = [0; 12];
        stream.read_exact(&mut begin).await.unwrap();
        statuses.push(String::from_utf8_lossy(&begin[9..]).into_owned());
        unread.push(stream);
    }
    assert_eq!(statuses[..7], ["200"; 7]);
    assert_eq!(statuses[7..], ["503"; 3]);
    assert_answers_at_once(&lab, "/ws/v1/node/info").await;
    // Readers that go away give their share back.
    drop(unread);
    let reply = lab.get("/ws/v1/node/containers").await;
    assert_eq!(reply.status, 200);
}

#[tokio::test]
async fn a_request_for_another_host_is_misdirected() {
    let options = AdminOptions {
        hosts: vec!["extra.example".to_owned()],
        ..AdminOptions::default()
    };
    let lab = Lab::start_with(busy_node(), options).await;
    for (path, host, status) in [
        ("/", "evil.example", 421),
        ("/metrics", "evil.example:8042", 421),
        ("/ws/v1/node", "evil.example", 421),
        ("/health", "evil.example", 200),
        ("/", "extra.example:8042", 200),
        ("/", "node-1.example", 200),
        ("/", "127.0.0.1:8042", 200),
    ] {
        let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        let reply = lab.send(&request).await;
        assert_eq!(reply.status, status, "{path} {host}");
    }
    let reply = lab
        .send("GET / HTTP/1.1\r\nConnection: close\r\n\r\n")
        .await;
    assert_eq!(reply.status, 400);
}
