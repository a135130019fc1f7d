//! Hadoop's filters on the answers of the server, and the port of `/metrics` alone.

use access_control::AccessRules;
use http_server::{HttpServer, Limits};

use super::super::filters::{CrossOrigin, CsrfPrevention, Filters, Frames};
use super::*;

const HEADERS: &str = "X-Requested-With,Content-Type,Accept,Origin";

async fn lab(filters: Filters) -> Lab {
    let options = WebOptions {
        filters: Arc::new(filters),
        ..WebOptions::default()
    };
    Lab::start_with(busy_node(), options).await
}

async fn asked(lab: &Lab, line: &str, headers: &str) -> Reply {
    lab.send(&format!(
        "{line} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{headers}\r\n"
    ))
    .await
}

#[tokio::test]
async fn a_browser_without_the_header_is_refused_before_anything_else() {
    let csrf = CsrfPrevention::new("X-XSRF-Header", "OPTIONS", "^Mozilla.*,^Opera.*");
    let lab = lab(Filters {
        csrf: csrf.ok(),
        ..Filters::default()
    })
    .await;
    let browser = "User-Agent: Mozilla/5.0\r\n";
    for line in ["GET /node", "GET /metrics", "POST /node", "DELETE /x"] {
        let refused = asked(&lab, line, browser).await;
        assert_eq!(refused.status, 400, "{line}");
        assert!(refused.text().contains("Missing Required Header for CSRF"));
        assert_eq!(refused.header("x-frame-options"), Some("SAMEORIGIN"));
    }
    let with_header = format!("{browser}X-XSRF-Header: \r\n");
    assert_eq!(asked(&lab, "GET /node", &with_header).await.status, 200);
    assert_eq!(asked(&lab, "OPTIONS /node", browser).await.status, 200);
    let curl = "User-Agent: curl/8\r\n";
    assert_eq!(asked(&lab, "GET /node", curl).await.status, 200);
    let long = format!("User-Agent: Mozilla{}\r\n", "x".repeat(64 * 1024));
    assert_eq!(asked(&lab, "GET /node", &long).await.status, 431);
}

#[tokio::test]
async fn answers_and_refusals_say_who_may_frame_them() {
    for (frames, options, policy) in [
        (Frames::default(), Some("SAMEORIGIN"), "'self'"),
        (Frames::of("DENY").unwrap(), Some("DENY"), "'none'"),
        (Frames::of_all(), None, ""),
    ] {
        let lab = lab(Filters {
            frames,
            ..Filters::default()
        })
        .await;
        for path in ["/", "/node", "/nosuch", "/ws/v1/node/info", "/metrics"] {
            let reply = lab.get(path).await;
            assert_eq!(reply.header("x-frame-options"), options, "{path}");
            let told = reply.header("content-security-policy").unwrap();
            let told = told.split_once("; frame-ancestors ");
            assert_eq!(told.map_or("", |(_, told)| told), policy, "{path}");
        }
    }
}

#[tokio::test]
async fn scripts_of_allowed_origins_may_read_answers() {
    let rule = CrossOrigin::new("https://a.example", "GET,HEAD", HEADERS, "60");
    let lab = lab(Filters {
        cross_origin: rule.ok(),
        ..Filters::default()
    })
    .await;
    let name = "access-control-allow-origin";
    let origin = "Origin: https://a.example\r\n";
    for line in ["GET /ws/v1/node/info", "OPTIONS /ws/v1/node/info", "GET /x"] {
        let reply = asked(&lab, line, origin).await;
        assert_eq!(reply.header(name), Some("https://a.example"), "{line}");
        let credentials = reply.header("access-control-allow-credentials");
        assert_eq!(credentials, Some("true"));
        assert_eq!(reply.header("access-control-max-age"), Some("60"));
    }
    for other in [
        "",
        "Origin: https://b.example\r\n",
        "Origin: https://a.example\r\nAccess-Control-Request-Method: PUT\r\n",
    ] {
        let reply = asked(&lab, "GET /node", other).await;
        assert_eq!((reply.status, reply.header(name)), (200, None), "{other}");
    }
    // A line break never gets into a header: it ends one, or the request.
    for (broken, status) in [
        ("Origin: https://a.example\r\n X: y\r\n", 400),
        ("Origin: https://a.example\rX: y\r\n", 400),
    ] {
        let reply = asked(&lab, "GET /node", broken).await;
        assert_eq!(
            (reply.status, reply.header("x")),
            (status, None),
            "{broken}"
        );
    }
}

#[tokio::test]
async fn the_port_of_metrics_serves_nothing_else_and_asks_nobody() {
    let root = tempfile::tempdir().unwrap();
    let options = WebOptions {
        access: Arc::new(AccessRules {
            enabled: true,
            anonymous_allowed: false,
            ..AccessRules::default()
        }),
        ..WebOptions::default()
    };
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let source = Arc::new(Fixed(Some(Arc::new(busy_node()))));
    let metrics = Arc::new(Metrics::new());
    let server = WebServer::bind(any, source, metrics, options)
        .await
        .unwrap();
    let port = HttpServer::bind(any, Limits::default()).await.unwrap();
    let (address, web) = (port.local_address(), server.local_address());
    let shutdown = CancellationToken::new();
    let served = server.with_metrics_port(port).serve(shutdown.clone());
    let mut lab = Lab {
        address,
        served: tokio::spawn(served),
        shutdown,
        logs: root.path().to_owned(),
        _root: root,
    };
    let reply = lab.get("/metrics").await;
    assert_eq!(reply.status, 200);
    assert!(reply.text().contains("nm_agent_"), "{}", reply.text());
    assert_eq!(lab.get("/health").await.status, 200);
    for path in ["/", "/node", "/conf", "/jmx", "/metrics/", "//metrics"] {
        assert_eq!(lab.get(path).await.status, 404, "{path}");
    }
    let foreign = lab.send("GET /metrics HTTP/1.1\r\nHost: evil\r\nConnection: close\r\n\r\n");
    assert_eq!(foreign.await.status, 421);
    let posted = asked(&lab, "POST /metrics", "").await;
    assert_eq!(posted.status, 405);
    lab.address = web;
    assert_eq!(lab.get("/metrics").await.status, 401);
    lab.shutdown.cancel();
    (&mut lab.served).await.unwrap();
    assert!(TcpStream::connect(address).await.is_err());
}
