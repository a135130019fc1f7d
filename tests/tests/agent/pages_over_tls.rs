//! Pages of a node with `yarn.http.policy` = `HTTPS_ONLY`, as curl reads them.

#![expect(
    clippy::unwrap_used,
    reason = "in a test a failure is to be seen where it happens"
)]

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;
use test_support::scripted::{ScriptedAm, ScriptedRm};
use test_support::{Keytool, STORE_PASSWORD};
use tests::conf::Properties;
use tests::node::NodeKind;
use tests::node_process::NodeProcess;
use tests::wait;

use crate::AGENT;

const DEADLINE: Duration = Duration::from_secs(60);

/// Key stores of a node, and the certificates that its clients trust.
pub(crate) struct Stores {
    keytool: Keytool,
    folder: TempDir,
}

impl Stores {
    /// Makes the key `first`; without Java, skips the test and returns `None`.
    pub(crate) fn new() -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let test = std::thread::current().name().unwrap_or_default().to_owned();
        let keytool = Keytool::find(&test, folder.path())?;
        let stores = Self { keytool, folder };
        stores.make("first");
        stores.serve("first");
        Some(stores)
    }

    /// Makes a key of this name and the file with its certificate.
    fn make(&self, name: &str) {
        self.keytool.add_key(name, name, "EC");
        self.keytool.run(&format!(
            "-exportcert -rfc -keystore {name} -storepass {STORE_PASSWORD} -alias {name} -file {name}.pem"
        ));
    }

    /// Puts the store with this key where the node reads it.
    fn serve(&self, name: &str) {
        let new = self.folder.path().join("new");
        fs::copy(self.folder.path().join(name), &new).unwrap();
        fs::rename(new, self.folder.path().join("stores")).unwrap();
    }

    /// Returns the file with the certificate of a key.
    pub(crate) fn certificate(&self, name: &str) -> String {
        let path = self.folder.path().join(format!("{name}.pem"));
        path.display().to_string()
    }

    /// Returns `ssl-server.xml`, by which the stores are read again twice a second.
    pub(crate) fn ssl_server(&self) -> Properties {
        let mut file = Properties::default();
        let path = self.folder.path().join("stores");
        file.set("ssl.server.keystore.location", path.display())
            .set("ssl.server.keystore.password", STORE_PASSWORD)
            .set("ssl.server.stores.reload.interval", 500);
        file
    }
}

/// Sets what has pages served over TLS on a free port.
pub(crate) fn over_tls(site: &mut Properties) {
    site.set("yarn.http.policy", "HTTPS_ONLY")
        .set("yarn.nodemanager.webapp.https.address", "localhost:0")
        .set("yarn.nodemanager.webapp.address", "localhost:1");
}

/// A node of a scripted ResourceManager.
struct Node {
    web: u16,
    rm: ScriptedRm,
    process: NodeProcess,
}

impl Node {
    fn start(stores: &Stores, change: impl FnOnce(&mut Properties)) -> Self {
        let rm = ScriptedRm::start();
        let kind = NodeKind::Agent(AGENT.into());
        let files = [("ssl-server.xml", &stores.ssl_server())];
        let port = rm.address().port();
        let process = NodeProcess::start_with_files(&kind, port, Vec::new(), &files, |site| {
            over_tls(site);
            change(site);
        });
        let registered = rm.wait_registrations(1);
        Self {
            web: u16::try_from(registered.http_port.unwrap()).unwrap(),
            rm,
            process,
        }
    }

    fn url(&self, path: &str) -> String {
        format!("https://localhost:{}{path}", self.web)
    }
}

/// Gets a URL with curl; returns the head and the body of the answer, or what curl says.
fn curl(url: &str, certificate: &str, more: &[&str]) -> Result<String, String> {
    let output = Command::new("curl")
        .args(["--silent", "--show-error", "--include", "--max-time", "30"])
        .args(["--cacert", certificate])
        .args(more)
        .arg(url)
        .output()
        .unwrap();
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    } else {
        Err(String::from_utf8_lossy(&output.stderr).into_owned())
    }
}

#[test]
fn pages_are_served_over_tls_alone_at_the_port_that_the_cluster_knows() {
    let Some(stores) = Stores::new() else { return };
    let node = Node::start(&stores, |_| {});
    let trusted = stores.certificate("first");
    for version in ["--tlsv1.2", "--tlsv1.3"] {
        for path in ["/", "/node", "/jmx", "/metrics", "/health"] {
            let answer = curl(&node.url(path), &trusted, &[version]).unwrap();
            assert!(answer.starts_with("HTTP/1.1 200"), "{path}: {answer}");
        }
    }
    let old = ["--tls-max", "1.1"];
    assert!(curl(&node.url("/node"), &trusted, &old).is_err());
    let plain = node.url("/node").replace("https", "http");
    assert!(curl(&plain, &trusted, &[]).is_err());
    let cookie = curl(&node.url("/node?user.name=alice"), &trusted, &[]).unwrap();
    let cookie = cookie.to_ascii_lowercase();
    assert!(cookie.contains("; secure; httponly\r\n"), "{cookie}");
    // Containers and links name the port and the scheme.
    let am = ScriptedAm::connect(&node.rm, 1);
    let file = node.process.folder().join("port");
    let command = format!(
        "echo $NM_HTTP_PORT > {0}.new; mv {0}.new {0}; sleep 600",
        file.display()
    );
    let id = am.start(&am.allocate(), &command);
    let port: String = wait::until("the port", DEADLINE, || {
        fs::read_to_string(&file).map_err(|error| error.to_string())
    });
    assert_eq!(port.trim(), node.web.to_string());
    let path = format!("/ws/v1/node/containers/{id}");
    let answer = curl(&node.url(&path), &trusted, &[]).unwrap();
    let (_, json) = answer.split_once("\r\n\r\n").unwrap();
    let json: Value = serde_json::from_str(json).unwrap();
    let link = json["container"]["containerLogsLink"].as_str().unwrap();
    let begin = format!("https://localhost:{}/node/containerlogs/{id}/", node.web);
    assert!(link.starts_with(&begin), "{link}");
}

#[test]
fn changed_stores_are_read_again_and_broken_ones_leave_the_former() {
    let Some(stores) = Stores::new() else { return };
    let mut node = Node::start(&stores, |_| {});
    stores.make("second");
    stores.serve("second");
    let second = stores.certificate("second");
    let trusted = || curl(&node.url("/health"), &second, &[]);
    wait::until("the second key", DEADLINE, trusted);
    let first = stores.certificate("first");
    assert!(curl(&node.url("/health"), &first, &[]).is_err());
    let path: PathBuf = stores.folder.path().join("stores");
    fs::write(path, "no store").unwrap();
    node.process
        .process
        .wait_log("the former keys of the web port stay in use", DEADLINE);
    curl(&node.url("/health"), &second, &[]).unwrap();
}

#[test]
fn metrics_have_a_port_of_their_own_that_asks_nobody() {
    let Some(stores) = Stores::new() else { return };
    let mut node = Node::start(&stores, |site| {
        let anonymous = "hadoop.http.authentication.simple.anonymous.allowed";
        site.set("yarn.nodemanager.agent.metrics.address", "localhost:0")
            .set(anonymous, false);
    });
    let told = "/metrics has a port of its own";
    node.process.process.wait_log(told, DEADLINE);
    let log = node.process.process.log();
    let line = log.lines().find(|line| line.contains(told)).unwrap();
    let (_, port) = line.rsplit_once("127.0.0.1:").unwrap();
    let port: String = port.chars().take_while(char::is_ascii_digit).collect();
    let url = format!("https://localhost:{port}");
    let trusted = stores.certificate("first");
    let told = |path: &str| curl(&format!("{url}{path}"), &trusted, &[]).unwrap();
    assert!(told("/metrics").contains("\nnm_agent_"));
    assert!(told("/node").starts_with("HTTP/1.1 404"));
    let refused = curl(&node.url("/metrics"), &trusted, &[]).unwrap();
    assert!(refused.starts_with("HTTP/1.1 401"), "{refused}");
}
