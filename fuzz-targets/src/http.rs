//! Bytes of a connection to the web port: every answer is a whole one of HTTP.

use std::cell::OnceCell;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use node_view::snapshot::{About, MemoryChecks, NodeNumbers, NodeSnapshot, RmContact};
use node_web::metrics::Metrics;
use node_web::overview::Overview;
use node_web::site::{WebOptions, WebServer};
use node_web::source::{Changes, NodeSource, RoleHistories};
use records::{EpochMillis, NodeId};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::runtime::Runtime;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::{Memory, Target};

pub(crate) const TARGET: Target = Target {
    name: "http",
    bytes_max: 20 * 1024,
    memory: Memory {
        base: 4 << 20,
        per_byte: 256,
    },
    run,
    seeds,
};

/// Bytes of an answer that are looked at. The live page's events have no end.
const ANSWER_BYTES_MAX: u64 = 1 << 20;

/// Time for an answer, after which its stream is taken to have no end.
const ANSWER_WAIT: Duration = Duration::from_millis(200);

/// A node without containers.
struct Idle(Arc<NodeSnapshot>);

impl NodeSource for Idle {
    async fn snapshot(&self) -> Option<Arc<NodeSnapshot>> {
        Some(Arc::clone(&self.0))
    }

    async fn numbers(&self) -> Option<NodeNumbers> {
        Some(self.0.numbers.clone())
    }

    async fn overview(&self) -> Option<Overview> {
        None
    }

    async fn role_histories(&self) -> Option<RoleHistories> {
        Some(RoleHistories::default())
    }

    fn changes(&self) -> Changes {
        Changes::new(watch::Sender::new(0).subscribe(), None)
    }
}

fn idle() -> Idle {
    let node_id = NodeId {
        host: "node-1.example".to_owned(),
        port: 8041,
    };
    let memory_checks = MemoryChecks {
        pmem: true,
        vmem: false,
        vmem_pmem_ratio: 2.1,
    };
    let started_at = EpochMillis(1_700_000_000_123);
    let about = About::at_start(node_id, 8042, started_at, memory_checks);
    Idle(Arc::new(NodeSnapshot {
        about: Arc::new(about),
        rm: RmContact::Registered,
        numbers: NodeNumbers::default(),
        applications: Vec::new(),
        containers: Vec::new(),
        uses: Arc::default(),
    }))
}

/// A server in the runtime of one thread.
struct Lab {
    runtime: Runtime,
    address: SocketAddr,
}

impl Lab {
    fn new() -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime");
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let options = WebOptions::default();
        let metrics = Arc::new(Metrics::new());
        let bound = WebServer::bind(any, Arc::new(idle()), metrics, options);
        let server = runtime.block_on(bound).expect("a free port");
        let server = server.with_host_names(["node-1.example"]);
        let address = server.local_address();
        runtime.spawn(server.serve(CancellationToken::new()));
        Self { runtime, address }
    }

    /// Sends bytes and returns what is answered.
    async fn ask(&self, bytes: &[u8]) -> Vec<u8> {
        let mut stream = TcpStream::connect(self.address)
            .await
            .expect("the server is there");
        let mut answer = Vec::new();
        let asking = async {
            // A server that has refused closes at once, before it has read everything.
            let _ended = stream.write_all(bytes).await;
            let _ended = stream.shutdown().await;
            let _ended = (&mut stream)
                .take(ANSWER_BYTES_MAX)
                .read_to_end(&mut answer)
                .await;
        };
        let _in_time = tokio::time::timeout(ANSWER_WAIT, asking).await;
        answer
    }
}

fn run(input: &[u8]) {
    thread_local!(static LAB: OnceCell<Lab> = const { OnceCell::new() });
    LAB.with(|lab| {
        let lab = lab.get_or_init(Lab::new);
        let answer = lab.runtime.block_on(lab.ask(input));
        if answer.is_empty() {
            return;
        }
        let begin = answer.get(..9).unwrap_or_default();
        assert!(
            begin == b"HTTP/1.1 " || begin == b"HTTP/1.0 ",
            "no answer of HTTP: {}",
            String::from_utf8_lossy(&answer)
        );
        let status = answer
            .get(9..12)
            .and_then(|status| std::str::from_utf8(status).ok());
        let status: u16 = status
            .and_then(|status| status.parse().ok())
            .expect("a status");
        // 503 is the answer of a node that is stopping, which this one is for its overview.
        assert!(
            (200..=505).contains(&status) && status != 500,
            "status {status}"
        );
    });
}

fn seeds() -> Vec<Vec<u8>> {
    let paths = [
        "/node",
        "/ws/v1/node/info",
        "/ws/v1/node/apps?state=RUNNING&user=alice",
        "/ws/v1/node/containers/container_1700000000000_0007_01_000002",
        "/node/containerlogs/container_1700000000000_0007_01_000002/alice/stdout/?start=-4096",
        "/ws/v1/node/containerlogs/container_1700000000000_0007_01_000002/stdout?size=-5",
        "/metrics",
        "/jmx?qry=Hadoop:*",
        "/conf?name=a&format=json",
        "/a%2e%2f..%00",
    ];
    let mut seeds: Vec<Vec<u8>> = paths
        .iter()
        .map(|path| format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").into_bytes())
        .collect();
    let more = [
        "POST /node HTTP/1.1\r\nHost: node-1\r\nContent-Length: 3\r\n\r\nabc",
        "GET / HTTP/1.0\r\n\r\n",
        "GET http://evil/node HTTP/1.1\r\nHost: evil\r\nAccept: text/html;q=0.5, */*\r\n\r\n",
        "GET /metrics HTTP/1.1\r\nHost: [::1]:8042\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    ];
    seeds.extend(more.iter().map(|text| text.as_bytes().to_vec()));
    seeds
}
