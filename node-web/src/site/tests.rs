//! The server over real connections on a port that the system chooses, with a node made up by each
//! test.

mod access;
mod bounds;
mod filters;
mod lists;
mod log_level;
mod logs;
mod numbers;
mod pages;
mod rest;
mod role_histories;

use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;

use access_control::AccessList;
use node_view::operator::{Explanation, Told};
use node_view::snapshot::{ApplicationSnapshot, ApplicationState, NodeNumbers, RmContact};
use sched::ContainerState;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::fixture::{APP, container, container_id, node};
use crate::overview::fixture::overview;
use crate::source::Changes;

const ID: &str = "container_1700000000000_0007_01_000001";
const HOSTILE: &str = "<script>alert('x')</script>&\"";

/// Source that always gives the same snapshot; `None` is an agent that is stopping.
struct Fixed(Option<Arc<NodeSnapshot>>);

impl NodeSource for Fixed {
    async fn snapshot(&self) -> Option<Arc<NodeSnapshot>> {
        self.0.clone()
    }

    async fn numbers(&self) -> Option<NodeNumbers> {
        self.0.as_ref().map(|node| node.numbers.clone())
    }

    async fn overview(&self) -> Option<Overview> {
        self.0.as_ref().map(|_| overview())
    }

    async fn role_histories(&self) -> Option<RoleHistories> {
        self.0.as_ref().map(|_| role_histories::histories())
    }

    async fn explanation(&self, id: ContainerName) -> Option<Explanation> {
        let known = self.0.as_ref()?.container_named(id)?;
        let step = |at_ms, text: &str| Told {
            at_ms,
            text: text.to_owned(),
        };
        Some(Explanation {
            container: id.to_string(),
            user: Some(known.user.clone()),
            execution_type: Some("GUARANTEED".to_owned()),
            memory_mb: Some(1024),
            vcores: Some(2),
            state: "running".to_owned(),
            state_for_ms: Some(65_000),
            place: None,
            estimated_wait_ms: None,
            exit_status: None,
            used: None,
            steps: vec![
                step(1_700_000_000_000, "Queued at place 2, short of 128 MiB"),
                step(1_700_000_009_000, "Failed: its password <b>"),
            ],
            omitted_steps: 0,
        })
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
    node.numbers.counts.running_guaranteed = 1;
    node.applications = vec![ApplicationSnapshot {
        id: APP,
        user: "alice".to_owned(),
        state: ApplicationState::Running,
        containers: vec![container_id(1)],
        view_acl: AccessList::default(),
        aggregated: Vec::new(),
    }];
    node
}

impl Lab {
    async fn start(node: NodeSnapshot) -> Self {
        Self::start_with(node, WebOptions::default()).await
    }

    async fn start_with(mut node: NodeSnapshot, options: WebOptions) -> Self {
        let root = tempfile::tempdir().unwrap();
        let logs = root.path().join(APP.to_string()).join(ID);
        fs::create_dir_all(&logs).unwrap();
        Arc::make_mut(&mut node.about).log_roots = vec![root.path().to_owned()];
        Self::serve(Fixed(Some(Arc::new(node))), options, logs, root).await
    }

    async fn serve(
        source: impl NodeSource,
        options: WebOptions,
        logs: PathBuf,
        root: TempDir,
    ) -> Self {
        let server = WebServer::bind(
            SocketAddr::from(([127, 0, 0, 1], 0)),
            Arc::new(source),
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
