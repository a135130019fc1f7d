//! Handshakes over loopback with key stores that `keytool` has made.

use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use key_store::Passwords;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName};
use rustls::{ClientConfig, ProtocolVersion, RootCertStore, SupportedProtocolVersion, version};
use tempfile::TempDir;
use test_support::{Keytool, STORE_PASSWORD};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsConnector;

use super::*;

const BOTH: [Protocol; 2] = [Protocol::Tls12, Protocol::Tls13];
const VERSIONS: [&SupportedProtocolVersion; 2] = [&version::TLS12, &version::TLS13];

/// Folder with the store `host` of a server's key, its certificate in `host.cer`.
struct Host {
    folder: TempDir,
    keytool: Keytool,
}

impl Host {
    fn new(arguments: &str) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let test = std::thread::current().name().unwrap_or_default().to_owned();
        let keytool = Keytool::find(&test, folder.path())?;
        keytool.add_key("host", "host", arguments);
        keytool.export("host", "host", "host.cer");
        Some(Self { folder, keytool })
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
            protocols: BOTH.to_vec(),
            excluded_suites: Vec::new(),
            reload_interval: Some(Duration::from_secs(10)),
        }
    }

    fn load(&self, change: impl FnOnce(&mut TlsConfig)) -> Result<TlsServer, TlsError> {
        let mut config = self.config();
        change(&mut config);
        TlsServer::load(config)
    }

    /// Makes the store `name` of a client's key, and one that trusts it.
    fn add_client(&self, name: &str) {
        self.keytool.add_key(name, name, "EC");
        let certificate = format!("{name}.cer");
        self.keytool.export(name, name, &certificate);
        let trust = format!("{name}.trust");
        self.keytool.import(&trust, name, &certificate, "");
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }
}

macro_rules! host {
    ($arguments:expr) => {
        match Host::new($arguments) {
            Some(host) => host,
            None => return,
        }
    };
}

/// Returns what a client needs that trusts the certificate in a file, and shows the key of a store.
fn client(
    trusted: &Path,
    versions: &[&'static SupportedProtocolVersion],
    shown: Option<&Path>,
) -> TlsConnector {
    let mut roots = RootCertStore::empty();
    roots
        .add(CertificateDer::from(fs::read(trusted).unwrap()))
        .unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(versions)
        .unwrap()
        .with_root_certificates(roots);
    let config = match shown {
        None => builder.with_no_client_auth(),
        Some(path) => {
            let password = Password::new(STORE_PASSWORD);
            let passwords = Passwords {
                store: Some(&password),
                keys: Some(&password),
            };
            let mut store = key_store::read(&fs::read(path).unwrap(), passwords).unwrap();
            let entry = store.keys.remove(0);
            let chain = entry.chain.into_iter().map(|one| one.0.into()).collect();
            let key = PrivatePkcs8KeyDer::from(entry.private_key.unwrap().0);
            let key = PrivateKeyDer::Pkcs8(key);
            builder.with_client_auth_cert(chain, key).unwrap()
        }
    };
    TlsConnector::from(Arc::new(config))
}

/// End of a handshake and of one byte in each direction: the version, or what each side says.
type Talk = Result<ProtocolVersion, (Option<Option<Refused>>, io::Error)>;

/// Lets a client talk to a server.
async fn talk(server: &TlsServer, client: &TlsConnector) -> Talk {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let serve = async {
        let (stream, _) = listener.accept().await.unwrap();
        let mut stream = server
            .accept(stream)
            .await
            .map_err(|failed| failed.refused)?;
        // The client may not have waited for the end of the handshake.
        let byte = stream.read_u8().await.unwrap_or_default();
        let _closed = stream.write_u8(byte + 1).await;
        let _closed = stream.shutdown().await;
        Ok(())
    };
    let ask = async {
        let stream = TcpStream::connect(address).await.unwrap();
        let name = ServerName::try_from("localhost").unwrap();
        let mut stream = client.connect(name, stream).await?;
        stream.write_u8(7).await?;
        assert_eq!(stream.read_u8().await?, 8);
        Ok(stream.get_ref().1.protocol_version().unwrap())
    };
    let (served, asked): (Result<(), _>, io::Result<_>) = tokio::join!(serve, ask);
    asked.map_err(|error| (served.err(), error))
}

#[tokio::test]
async fn keys_of_both_kinds_and_formats_serve_both_versions() {
    for arguments in [
        "RSA -keysize 2048 -storetype JKS",
        "RSA -keysize 2048 -storetype PKCS12",
        "EC -groupname secp256r1 -storetype JKS",
        "EC -groupname secp384r1 -storetype PKCS12",
    ] {
        let host = host!(arguments);
        let server = host.load(|_| {}).unwrap();
        for (version, expected) in [
            (&version::TLS12, ProtocolVersion::TLSv1_2),
            (&version::TLS13, ProtocolVersion::TLSv1_3),
        ] {
            let client = client(&host.path().join("host.cer"), &[version], None);
            assert_eq!(
                talk(&server, &client).await.unwrap(),
                expected,
                "{arguments}"
            );
        }
    }
}

#[tokio::test]
async fn a_client_gets_the_key_that_it_can_verify() {
    let host = host!("RSA -keysize 2048");
    host.keytool.add_key("host", "curve", "EC");
    host.keytool.export("host", "curve", "curve.cer");
    let server = host.load(|_| {}).unwrap();
    let of_curves = ["TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"];
    for (certificate, suites) in [("host.cer", &[][..]), ("curve.cer", &of_curves)] {
        let trusted = host.path().join(certificate);
        let connector = client(&trusted, &[&version::TLS12], None);
        let mut config = ClientConfig::clone(connector.config());
        if !suites.is_empty() {
            let mut provider = rustls::crypto::ring::default_provider();
            let wanted = |suite: &rustls::SupportedCipherSuite| {
                suites.contains(&suite.suite().as_str().unwrap())
            };
            provider.cipher_suites.retain(wanted);
            let mut roots = RootCertStore::empty();
            let trusted = CertificateDer::from(fs::read(&trusted).unwrap());
            roots.add(trusted).unwrap();
            config = ClientConfig::builder_with_provider(Arc::new(provider))
                .with_protocol_versions(&[&version::TLS12])
                .unwrap()
                .with_root_certificates(roots)
                .with_no_client_auth();
        }
        talk(&server, &TlsConnector::from(Arc::new(config)))
            .await
            .unwrap();
    }
}

#[tokio::test]
async fn versions_and_suites_that_are_left_out_are_not_spoken() {
    let host = host!("EC");
    let trusted = host.path().join("host.cer");
    let server = host
        .load(|config| config.protocols = vec![Protocol::Tls12])
        .unwrap();
    let newest = client(&trusted, &[&version::TLS13], None);
    let (served, _) = talk(&server, &newest).await.unwrap_err();
    assert_eq!(served, Some(Some(Refused::Malformed)));
    let either = client(&trusted, &VERSIONS, None);
    let spoken = talk(&server, &either).await.unwrap();
    assert_eq!(spoken, ProtocolVersion::TLSv1_2);

    let names = rustls::crypto::ring::default_provider().cipher_suites;
    let names = names.iter().map(|suite| suite.suite().as_str().unwrap());
    let names: Vec<String> = names.map(|name| name.replace("TLS13_", "TLS_")).collect();
    assert!(
        names.contains(&"TLS_AES_128_GCM_SHA256".to_owned()),
        "{names:?}"
    );
    let newest_only: Vec<_> = names
        .iter()
        .filter(|name| !name.contains("_WITH_"))
        .cloned()
        .collect();
    let server = host
        .load(|config| config.excluded_suites = newest_only)
        .unwrap();
    let spoken = talk(&server, &either).await.unwrap();
    assert_eq!(spoken, ProtocolVersion::TLSv1_2);
    let error = host
        .load(|config| config.excluded_suites = names)
        .unwrap_err();
    assert_eq!(error.setting(), Setting::ExcludedSuites, "{error}");
}

#[tokio::test]
async fn clients_show_a_certificate_where_one_is_required() {
    let host = host!("EC");
    for name in ["friend", "stranger"] {
        host.add_client(name);
    }
    let trusted = host.path().join("host.cer");
    let store = host.store("friend.trust");
    let server = host.load(|config| config.clients = Some(store)).unwrap();
    for version in VERSIONS {
        for (shown, is_welcome) in [
            (Some("friend"), true),
            (Some("stranger"), false),
            (None, false),
        ] {
            let shown = shown.map(|name| host.path().join(name));
            let client = client(&trusted, &[version], shown.as_deref());
            match talk(&server, &client).await {
                Ok(_) => assert!(is_welcome, "{shown:?}"),
                Err((served, error)) => {
                    assert!(!is_welcome, "{error}");
                    assert_eq!(served, Some(Some(Refused::Certificate)), "{shown:?}");
                }
            }
        }
    }
}

#[tokio::test]
async fn a_client_that_does_not_trust_the_server_is_not_refused() {
    let host = host!("EC");
    host.add_client("other");
    let server = host.load(|_| {}).unwrap();
    let client = client(&host.path().join("other.cer"), &VERSIONS, None);
    let (served, _) = talk(&server, &client).await.unwrap_err();
    assert_eq!(served, Some(None));
}

#[tokio::test]
async fn bytes_that_are_no_tls_are_refused_with_an_alert() {
    let host = host!("EC");
    let server = host.load(|_| {}).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let serve = async {
        let (stream, _) = listener.accept().await.unwrap();
        server.accept(stream).await.unwrap_err().refused
    };
    let ask = async {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
        let mut alert = [0; 2];
        stream.read_exact(&mut alert).await.unwrap();
        alert
    };
    let (refused, alert) = tokio::join!(serve, ask);
    assert_eq!(refused, Some(Refused::Malformed));
    assert_eq!(alert[0], 21);
}

#[tokio::test]
async fn stores_that_change_are_read_again_and_broken_ones_change_nothing() {
    let host = host!("EC");
    host.add_client("next");
    let server = host.load(|_| {}).unwrap();
    assert!(!server.reload().unwrap());
    let path = host.path().join("host");
    fs::write(&path, b"broken").unwrap();
    let error = server.reload().unwrap_err();
    assert_eq!(error.setting(), Setting::KeyStore, "{error}");
    // Reported once.
    assert!(!server.reload().unwrap());
    let [old, new] = ["host.cer", "next.cer"].map(|name| {
        let certificate = host.path().join(name);
        client(&certificate, &VERSIONS, None)
    });
    talk(&server, &old).await.unwrap();
    fs::rename(host.path().join("next"), &path).unwrap();
    assert!(server.reload().unwrap());
    talk(&server, &new).await.unwrap();
    talk(&server, &old).await.unwrap_err();
    fs::remove_file(&path).unwrap();
    assert!(server.reload().is_err());
    talk(&server, &new).await.unwrap();
}

#[tokio::test]
async fn trusted_certificates_are_read_again_where_only_they_have_changed() {
    let host = host!("EC");
    for name in ["friend", "next"] {
        host.add_client(name);
    }
    let store = host.store("friend.trust");
    let server = host.load(|config| config.clients = Some(store)).unwrap();
    let [friend, next] = ["friend", "next"].map(|name| {
        let shown = host.path().join(name);
        client(&host.path().join("host.cer"), &VERSIONS, Some(&shown))
    });
    talk(&server, &next).await.unwrap_err();
    let path = |name: &str| host.path().join(name);
    fs::rename(path("next.trust"), path("friend.trust")).unwrap();
    assert!(server.reload().unwrap());
    talk(&server, &next).await.unwrap();
    talk(&server, &friend).await.unwrap_err();
}

#[test]
fn an_error_names_the_setting_to_change() {
    let host = host!("EC");
    host.keytool
        .add_key("differs", "a", "EC -storetype JKS -keypass key-password");
    host.keytool
        .add_key("dsa", "a", "DSA -keysize 1024 -sigalg SHA1withDSA");
    host.add_client("friend");
    make_pipe(&host.path().join("pipe"));
    let key_store = |name: &'static str| {
        let host = &host;
        move |config: &mut TlsConfig| config.key_store = host.store(name)
    };
    let trust_store = |name: &'static str| {
        let host = &host;
        move |config: &mut TlsConfig| config.clients = Some(host.store(name))
    };
    let setting = |change: &dyn Fn(&mut TlsConfig)| {
        let error = host.load(change).unwrap_err();
        let text = format!("{error:?}");
        assert!(!text.contains(STORE_PASSWORD), "{text}");
        error.setting()
    };
    assert_eq!(setting(&key_store("missing")), Setting::KeyStore);
    assert_eq!(setting(&key_store("pipe")), Setting::KeyStore);
    assert_eq!(setting(&key_store("host.cer")), Setting::KeyStore);
    assert_eq!(setting(&key_store("friend.trust")), Setting::KeyStore);
    assert_eq!(setting(&key_store("dsa")), Setting::KeyStore);
    assert_eq!(setting(&key_store("differs")), Setting::KeyPassword);
    assert_eq!(setting(&trust_store("missing")), Setting::TrustStore);
    let wrong = Password::new("wrong");
    assert_eq!(
        setting(&|config| config.key_store.password = Some(wrong.clone())),
        Setting::KeyStorePassword
    );
    assert_eq!(
        setting(&|config| {
            trust_store("friend.trust")(config);
            config.clients.as_mut().unwrap().password = Some(wrong.clone());
        }),
        Setting::TrustStorePassword
    );
    // The certificates of this format are encrypted, so without a password there are none.
    assert_eq!(
        setting(&|config| {
            trust_store("friend.trust")(config);
            config.clients.as_mut().unwrap().password = None;
        }),
        Setting::TrustStore
    );
}

fn make_pipe(path: &Path) {
    let status = std::process::Command::new("mkfifo").arg(path).status();
    assert!(status.unwrap().success());
}
