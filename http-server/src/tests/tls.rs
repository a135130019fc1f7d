//! The server over TLS: handshakes have deadlines and places as heads have.

use std::fs;

use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tempfile::TempDir;
use test_support::{Keytool, STORE_PASSWORD};
use tls_server::{Password, Protocol, StoreFile, TlsConfig};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::*;

/// Keys of a server, and a client that trusts them.
struct Keys {
    server: Arc<TlsServer>,
    client: TlsConnector,
    _folder: TempDir,
}

impl Keys {
    fn new() -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let test = std::thread::current().name().unwrap_or_default().to_owned();
        let keytool = Keytool::find(&test, folder.path())?;
        keytool.add_key("host", "host", "EC");
        keytool.export("host", "host", "host.cer");
        let password = Password::new(STORE_PASSWORD);
        let config = TlsConfig {
            key_store: StoreFile {
                path: keytool.path("host"),
                password: Some(password.clone()),
            },
            key_password: password,
            clients: None,
            protocols: vec![Protocol::Tls12, Protocol::Tls13],
            excluded_suites: Vec::new(),
            reload_interval: None,
        };
        let mut roots = RootCertStore::empty();
        let certificate = fs::read(keytool.path("host.cer")).unwrap();
        roots.add(CertificateDer::from(certificate)).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let client = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        Some(Self {
            server: Arc::new(TlsServer::load(config).unwrap()),
            client: TlsConnector::from(Arc::new(client)),
            _folder: folder,
        })
    }

    async fn start(&self, limits: Limits) -> Running {
        Running::start_with(limits, Some(Arc::clone(&self.server))).await
    }

    async fn speak(&self, stream: TcpStream) -> io::Result<TlsStream<TcpStream>> {
        let name = ServerName::try_from("localhost").unwrap();
        self.client.connect(name, stream).await
    }

    /// Sends these bytes over TLS and returns what arrives until the end.
    async fn send(&self, stream: TcpStream, request: &[u8]) -> String {
        let mut stream = self.speak(stream).await.unwrap();
        stream.write_all(request).await.unwrap();
        let mut bytes = Vec::new();
        // The server may close without the alert of TLS.
        let read = timeout(Duration::from_secs(10), stream.read_to_end(&mut bytes)).await;
        let _ = read.expect("the connection is still open");
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

macro_rules! keys {
    () => {
        match Keys::new() {
            Some(keys) => keys,
            None => return,
        }
    };
}

const REQUEST: &[u8] = b"GET /64 HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";

#[tokio::test]
async fn answers_come_over_tls_and_only_so() {
    let keys = keys!();
    let running = keys.start(Limits::default()).await;
    let answer = keys.send(running.connect().await, REQUEST).await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer:.200}");
    assert!(answer.len() > 64 * PIECE.len(), "{}", answer.len());
    running.assert_counted(&[]).await;
    let plain = running.send(REQUEST).await;
    assert!(!plain.contains("HTTP/1.1"), "{plain:?}");
    running.assert_counted(&[(Reason::Malformed, 1)]).await;
}

#[tokio::test]
async fn heads_are_bounded_over_tls_as_without() {
    let keys = keys!();
    let running = keys.start(Limits::default()).await;
    let long = "x".repeat(64 * 1024);
    let request = format!("GET / HTTP/1.1\r\nHost: h\r\nUser-Agent: {long}\r\n\r\n");
    let answer = keys.send(running.connect().await, request.as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 431"), "{answer:.200}");
    running.assert_counted(&[(Reason::TooLarge, 1)]).await;
}

#[tokio::test]
async fn handshakes_that_stall_are_cut_at_the_deadline() {
    let keys = keys!();
    let short = Duration::from_millis(200);
    let running = keys
        .start(Limits {
            request_timeout: short,
            ..Limits::default()
        })
        .await;
    // A record of TLS that promises more than comes.
    for sent in [&b""[..], &b"\x16\x03\x01\x02\x00\x01"[..]] {
        let begun = Instant::now();
        assert_eq!(running.send(sent).await, "");
        assert!(begun.elapsed() >= short, "{sent:?}");
    }
    running.assert_counted(&[(Reason::Late, 2)]).await;
}

#[tokio::test]
async fn a_thousand_half_open_handshakes_delay_nobody() {
    let keys = keys!();
    let running = keys.start(Limits::default()).await;
    let mut kept = keys.speak(running.connect().await).await.unwrap();
    let request = b"GET /100000 HTTP/1.1\r\nHost: h\r\n\r\n";
    kept.write_all(request).await.unwrap();
    kept.read_exact(&mut [0; 100]).await.unwrap();
    let mut half_open = Vec::new();
    for number in 0..1_000 {
        let last = u8::try_from(number % 20 + 2).unwrap();
        let mut stream = running.connect_from([127, 0, 1, last]).await;
        // Those that are evicted already refuse it.
        let _ = stream.write_all(b"\x16\x03\x01\x02\x00\x01").await;
        half_open.push(stream);
    }
    let other = running.connect_from([127, 0, 1, 1]).await;
    let answer = timeout(Duration::from_secs(2), keys.send(other, REQUEST)).await;
    let answer = answer.expect("no answer within two seconds");
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer:.200}");
    // One that is answered keeps its place.
    kept.read_exact(&mut vec![0; 1 << 20]).await.unwrap();
    let evicted = running.refusals.of(Reason::Evicted);
    let most = u64::try_from(Limits::default().connections).unwrap();
    assert!(evicted >= 1_000 - most, "{evicted}");
}

#[tokio::test]
async fn a_reader_that_takes_nothing_of_the_end_is_cut() {
    let keys = keys!();
    let running = keys
        .start(Limits {
            stall_timeout: Duration::from_millis(300),
            ..Limits::default()
        })
        .await;
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(16 * 1024).unwrap();
    let stream = socket.connect(running.address).await.unwrap();
    let mut stream = keys.speak(stream).await.unwrap();
    stream
        .write_all(b"GET /128 HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
        .await
        .unwrap();
    running.assert_counted(&[(Reason::Stalled, 1)]).await;
    let mut bytes = Vec::new();
    let _ = stream.read_to_end(&mut bytes).await;
    assert!(bytes.len() < 128 * PIECE.len(), "{}", bytes.len());
}
