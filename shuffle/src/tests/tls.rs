//! The same server over TLS, with key stores that `keytool` has made.

use std::fs;
use std::io::{self, Read as _, Write as _};

use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use tempfile::TempDir;
use test_support::{Keytool, STORE_PASSWORD};
use tls_server::{Password, Protocol, StoreFile, TlsConfig};

use super::*;

/// Folder with the stores of a server and of two clients, of which the server trusts one.
struct Stores {
    keytool: Keytool,
    _folder: TempDir,
}

impl Stores {
    fn new() -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let test = std::thread::current().name().unwrap_or_default().to_owned();
        let keytool = Keytool::find(&test, folder.path())?;
        for name in ["host", "friend", "stranger"] {
            keytool.add_key(name, name, "EC");
            keytool.export(name, name, &format!("{name}.cer"));
        }
        keytool.import("trust", "friend", "friend.cer", "");
        Some(Self {
            keytool,
            _folder: folder,
        })
    }

    fn store(&self, name: &str) -> StoreFile {
        StoreFile {
            path: self.keytool.path(name),
            password: Some(Password::new(STORE_PASSWORD)),
        }
    }

    fn config(&self) -> TlsConfig {
        TlsConfig {
            key_store: self.store("host"),
            key_password: Password::new(STORE_PASSWORD),
            clients: None,
            protocols: vec![Protocol::Tls12, Protocol::Tls13],
            excluded_suites: Vec::new(),
            reload_interval: None,
        }
    }

    /// Serves a job over TLS.
    fn serve(&self, job: &Job, change: impl FnOnce(&mut ShuffleConfig)) -> RunningShuffle {
        serve(job, |config| {
            config.tls = Some(self.config());
            change(config);
        })
    }

    /// Opens a connection over TLS, on which the client shows the key of a store. The handshake
    /// comes with the first bytes.
    fn connect(&self, server: &RunningShuffle, shown: Option<&str>) -> Tls {
        self.connect_to("host", server, shown)
    }

    /// Opens a connection as [`Self::connect`] does, to a server with the key of this name.
    fn connect_to(&self, host: &str, server: &RunningShuffle, shown: Option<&str>) -> Tls {
        let mut roots = RootCertStore::empty();
        let trusted = fs::read(self.keytool.path(&format!("{host}.cer"))).unwrap();
        roots.add(CertificateDer::from(trusted)).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots);
        let config = match shown {
            None => builder.with_no_client_auth(),
            Some(name) => {
                let password = Password::new(STORE_PASSWORD);
                let passwords = key_store::Passwords {
                    store: Some(&password),
                    keys: Some(&password),
                };
                let bytes = fs::read(self.keytool.path(name)).unwrap();
                let entry = key_store::read(&bytes, passwords).unwrap().keys.remove(0);
                let chain = entry.chain.into_iter().map(|one| one.0.into()).collect();
                let key = PrivatePkcs8KeyDer::from(entry.private_key.unwrap().0);
                let key = PrivateKeyDer::Pkcs8(key);
                builder.with_client_auth_cert(chain, key).unwrap()
            }
        };
        let name = ServerName::try_from("localhost").unwrap();
        let client = ClientConnection::new(Arc::new(config), name).unwrap();
        StreamOwned::new(client, connect(server))
    }
}

type Tls = StreamOwned<ClientConnection, TcpStream>;

macro_rules! stores {
    () => {
        match Stores::new() {
            Some(stores) => stores,
            None => return,
        }
    };
}

/// Sends bytes and returns everything up to the end, which must be TLS's own.
fn ask_tls(stream: &mut Tls, bytes: &[u8]) -> io::Result<Vec<u8>> {
    stream.write_all(bytes)?;
    let mut reply = Vec::new();
    stream.read_to_end(&mut reply)?;
    Ok(reply)
}

#[test]
fn a_fetch_over_tls_has_the_bytes_of_a_plain_one() {
    let stores = stores!();
    let job = Job::new();
    let large: Vec<u8> = (0..3_000_000_u32).map(|n| (n % 251) as u8).collect();
    job.write("l0", "small", &[b"before", b"x"]);
    job.write("l1", "large", &[b"skipped", &large]);
    let target = target("1", "small,large,small");
    let plain = serve(&job, |_| {});
    let expected = ask(&plain, request(plain.port(), &target).as_bytes());
    let server = stores.serve(&job, |config| config.readahead_bytes = 0);
    let request = request(server.port(), &target);
    let reply = ask_tls(&mut stores.connect(&server, None), request.as_bytes()).unwrap();
    // The head has a hash over the port.
    let body = |reply: &[u8]| {
        let end = reply.windows(4).position(|four| four == b"\r\n\r\n");
        reply[end.unwrap()..].to_vec()
    };
    assert!(text(&reply).starts_with("HTTP/1.1 200 OK\r\n"));
    assert_eq!(body(&reply).len(), body(&expected).len());
    assert!(body(&reply) == body(&expected));
    wait_counts(&server, |counts| {
        (counts.outputs_ok, counts.connections) == (3, 0)
    });
    assert_refused(&server, &[]);
}

#[test]
fn a_kept_connection_over_tls_answers_one_request_after_the_other() {
    let stores = stores!();
    let job = Job::new();
    job.write("l0", "m", &[b"aaaa"]);
    let server = stores.serve(&job, |config| config.keep_alive_timeout = PATIENCE);
    let kept = request(server.port(), &(target("0", "m") + "&keepAlive=true"));
    let mut stream = stores.connect(&server, None);
    for _ in 0..3 {
        stream.write_all(kept.as_bytes()).unwrap();
        let (head, body) = read_reply(&mut stream);
        assert!(head.contains("Connection: Keep-Alive\r\n"), "{head}");
        assert_eq!(body, b"\x01m\x04\0\0aaaa");
    }
    let last = request(server.port(), &target("0", "m"));
    let reply = ask_tls(&mut stream, last.as_bytes()).unwrap();
    assert!(text(&reply).contains("Connection: close\r\n"));
}

#[test]
fn a_request_without_the_secret_is_refused_inside_tls() {
    let stores = stores!();
    let job = Job::new();
    job.write("l0", "m", &[b"aaaa"]);
    let server = stores.serve(&job, |_| {});
    let good = request(server.port(), &target("0", "m"));
    let wrong = good.replace("UrlHash: ", "UrlHash: A");
    let mut stream = stores.connect(&server, None);
    let reply = text(&ask_tls(&mut stream, wrong.as_bytes()).unwrap());
    assert!(reply.starts_with("HTTP/1.1 401 "), "{reply}");
    assert_refused(&server, &[(Reason::Unauthorized, 1)]);
}

#[test]
fn plain_http_on_a_port_with_tls_gets_an_alert() {
    let stores = stores!();
    let job = Job::new();
    job.write("l0", "m", &[b"aaaa"]);
    let server = stores.serve(&job, |_| {});
    let request = request(server.port(), &target("0", "m"));
    let reply = ask(&server, request.as_bytes());
    // An alert, level fatal.
    assert_eq!((reply[0], reply[5]), (21, 2), "{reply:?}");
    assert!(!text(&reply).contains("aaaa"));
    assert_refused(&server, &[(Reason::Malformed, 1)]);
}

#[test]
fn a_handshake_that_does_not_go_on_ends_in_time() {
    let stores = stores!();
    let job = Job::new();
    let server = stores.serve(&job, |config| {
        config.request_timeout = Duration::from_millis(1);
    });
    // A record of a handshake, of which most is missing.
    for (number, sent) in [
        (1, &b""[..]),
        (2, b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03"),
    ] {
        let mut stream = connect(&server);
        let _sent_or_closed = stream.write_all(sent);
        let mut reply = Vec::new();
        let _closed_or_reset = stream.read_to_end(&mut reply);
        assert_eq!(reply, b"");
        // The connection may end first.
        wait_counts(&server, |_| server.refusals().of(Reason::Late) >= number);
        assert_refused(&server, &[(Reason::Late, number)]);
    }
    wait_counts(&server, |counts| counts.connections == 0);
}

#[test]
fn silent_handshakes_make_place_for_reducers() {
    let stores = stores!();
    let job = Job::new();
    job.write("l0", "m", &[b"aaaa"]);
    let server = stores.serve(&job, |config| {
        config.connections_max = 2;
        config.request_timeout = PATIENCE;
    });
    let silent = [connect(&server), connect(&server)];
    wait_counts(&server, |counts| counts.connections == 2);
    let fetch = request(server.port(), &target("0", "m"));
    // As reducers do, until a silent connection is old enough to be missed by nobody.
    let deadline = std::time::Instant::now() + PATIENCE;
    loop {
        let mut stream = stores.connect(&server, None);
        let reply = ask_tls(&mut stream, fetch.as_bytes()).unwrap_or_default();
        if reply.ends_with(b"aaaa") {
            break;
        }
        let is_refusal = text(&reply).starts_with("HTTP/1.1 429 ");
        assert!(is_refusal || reply.is_empty(), "{}", text(&reply));
        assert!(std::time::Instant::now() < deadline);
    }
    assert!(server.refusals().of(Reason::Evicted) > 0);
    drop(silent);
}

#[test]
fn certificates_of_clients_are_required_if_configured() {
    let stores = stores!();
    let job = Job::new();
    job.write("l0", "m", &[b"aaaa"]);
    let trusted = stores.store("trust");
    let server = stores.serve(&job, |config| {
        config.tls.as_mut().unwrap().clients = Some(trusted);
    });
    let fetch = request(server.port(), &target("0", "m"));
    for (number, shown) in [(1, None), (2, Some("stranger"))] {
        let mut stream = stores.connect(&server, shown);
        let error = ask_tls(&mut stream, fetch.as_bytes()).unwrap_err();
        // The alert, and not a connection that breaks off.
        assert_eq!(error.kind(), io::ErrorKind::InvalidData, "{error}");
        // The alert may come first.
        wait_counts(&server, |_| {
            server.refusals().of(Reason::Unauthorized) >= number
        });
        assert_refused(&server, &[(Reason::Unauthorized, number)]);
    }
    let mut stream = stores.connect(&server, Some("friend"));
    let reply = ask_tls(&mut stream, fetch.as_bytes()).unwrap();
    assert!(reply.ends_with(b"aaaa"));
}

#[test]
fn keys_and_trusted_certificates_that_change_are_those_of_new_connections() {
    let stores = stores!();
    let job = Job::new();
    job.write("l0", "m", &[b"aaaa"]);
    let trusted = stores.store("trust");
    let server = stores.serve(&job, |config| {
        let tls = config.tls.as_mut().unwrap();
        tls.clients = Some(trusted);
        tls.reload_interval = Some(Duration::from_millis(1));
        config.keep_alive_timeout = PATIENCE;
    });
    let kept = request(server.port(), &(target("0", "m") + "&keepAlive=true"));
    let mut before = stores.connect(&server, Some("friend"));
    before.write_all(kept.as_bytes()).unwrap();
    assert_eq!(read_reply(&mut before).1, b"\x01m\x04\0\0aaaa");

    // The key of the server becomes the stranger's, and with it whom it trusts.
    let path = |name: &str| stores.keytool.path(name);
    stores
        .keytool
        .import("next", "stranger", "stranger.cer", "");
    fs::copy(path("stranger"), path("next-host")).unwrap();
    fs::rename(path("next"), path("trust")).unwrap();
    fs::rename(path("next-host"), path("host")).unwrap();
    let fetch = request(server.port(), &target("0", "m"));
    let deadline = std::time::Instant::now() + PATIENCE;
    loop {
        let mut stream = stores.connect_to("stranger", &server, Some("stranger"));
        if let Ok(reply) = ask_tls(&mut stream, fetch.as_bytes()) {
            assert!(reply.ends_with(b"aaaa"));
            break;
        }
        assert!(
            std::time::Instant::now() < deadline,
            "the stores are not read"
        );
    }
    let mut former = stores.connect_to("stranger", &server, Some("friend"));
    ask_tls(&mut former, fetch.as_bytes()).unwrap_err();
    let mut former = stores.connect(&server, Some("stranger"));
    ask_tls(&mut former, fetch.as_bytes()).unwrap_err();
    // A connection goes on with the keys that it began with.
    before.write_all(kept.as_bytes()).unwrap();
    assert_eq!(read_reply(&mut before).1, b"\x01m\x04\0\0aaaa");
}

#[test]
fn a_reducer_that_takes_nothing_is_cut_inside_tls_too() {
    let stores = stores!();
    let job = Job::new();
    job.write("l0", "large", &[&vec![7; 64 << 20]]);
    job.write("l0", "m", &[b"aaaa"]);
    let server = stores.serve(&job, |config| {
        config.threads = 1;
        config.stall_timeout = Duration::from_secs(2);
    });
    let slow = request(server.port(), &target("0", "large"));
    let stalled: Vec<_> = (0..5)
        .map(|_| {
            let mut stream = stores.connect(&server, None);
            stream.write_all(slow.as_bytes()).unwrap();
            stream
        })
        .collect();
    let quick = request(server.port(), &target("0", "m"));
    let reply = ask_tls(&mut stores.connect(&server, None), quick.as_bytes()).unwrap();
    assert!(reply.ends_with(b"aaaa"));
    wait_counts(&server, |counts| counts.outputs_failed == 5);
    assert_refused(&server, &[(Reason::Stalled, 5)]);
    drop(stalled);
}

#[test]
fn stores_that_cannot_be_read_are_an_error_at_the_start() {
    let stores = stores!();
    let job = Job::new();
    let mut tls = stores.config();
    tls.key_password = Password::new("other");
    tls.key_store.path = stores.keytool.path("missing");
    let config = ShuffleConfig {
        port: 0,
        tls: Some(tls),
        ..ShuffleConfig::default()
    };
    let server = ShuffleServer::bind(config).unwrap();
    let error = server
        .start(Arc::clone(&job.jobs), Arc::default())
        .unwrap_err();
    assert!(matches!(error, crate::StartShuffleError::Tls(_)), "{error}");
}
