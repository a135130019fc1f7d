//! Bounds on what clients can take, refused requests, and the end of the server.

use http_server::Limits;

use super::*;

#[tokio::test]
async fn only_reading_is_served_and_no_request_body_is_taken() {
    let lab = Lab::start(busy_node()).await;
    for method in ["POST", "PUT", "DELETE", "TRACE"] {
        let reply = lab
            .send(&format!(
                "{method} /ws/v1/node HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n"
            ))
            .await;
        assert_eq!(
            (reply.status, reply.header("allow")),
            (405, Some("GET, HEAD, OPTIONS")),
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
    let options = WebOptions {
        limits,
        ..WebOptions::default()
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
    let server = WebServer::bind(address, source, metrics, WebOptions::default())
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
    let options = WebOptions {
        hosts: vec!["extra.example".to_owned()],
        ..WebOptions::default()
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
