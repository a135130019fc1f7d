//! A secure cluster in which something is wrong: the library, the keytab, the KDC, the
//! ResourceManager.

use std::fs;
use std::io::{self, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Duration;

use bytes::BytesMut;
use tempfile::TempDir;
use test_support::realm::{REALM, Realm};
use test_support::scripted::ScriptedRm;
use tests::conf::Properties;
use tests::node::NodeKind;
use tests::node_process::NodeProcess;
use tests::ports::Port;
use tests::{http, require, wait};
use wire::header;
use wire::proto::hadoop_common::RpcSaslProto;
use wire::proto::hadoop_common::rpc_sasl_proto::{SaslAuth, SaslState};

use crate::AGENT;

/// Deadline for what an agent does at its start, on a machine that is busy building.
const DEADLINE: Duration = Duration::from_secs(60);

const NODE: &str = "nm/localhost";

/// Sets what a secure cluster needs, for a node with this keytab.
fn secure(site: &mut Properties, keytab: &Path) {
    site.set("hadoop.security.authentication", "kerberos")
        .set("yarn.nodemanager.principal", format!("{NODE}@{REALM}"))
        .set("yarn.nodemanager.keytab", keytab.display())
        .set(
            "yarn.resourcemanager.principal",
            format!("rm/localhost@{REALM}"),
        )
        .set("yarn.nodemanager.agent.kerberos.first-login-within-ms", 0)
        .set("hadoop.kerberos.min.seconds.before.relogin", 0)
        .set(
            "yarn.nodemanager.agent.accept-unsafe",
            "yarn.nodemanager.container-executor.class",
        );
}

/// A realm whose KDC knows the node and its ResourceManager.
struct Cluster {
    realm: Realm,
    keytab: PathBuf,
    _folder: TempDir,
}

impl Cluster {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let realm = Realm::start(folder.path());
        let _of_rm = realm.keytab("rm.keytab", &["rm/localhost"]);
        Self {
            keytab: realm.keytab("nm.keytab", &[NODE]),
            realm,
            _folder: folder,
        }
    }

    /// Runs `nm-agent check --connect` for a ResourceManager at this port; returns status and
    /// report.
    fn check(&self, rm_port: u16, change: impl FnOnce(&mut Properties)) -> (i32, String) {
        let mut site = Properties::default();
        secure(&mut site, &self.keytab);
        let tracker = "yarn.resourcemanager.resource-tracker.address";
        site.set(tracker, format!("localhost:{rm_port}"))
            .set("yarn.nodemanager.address", "localhost:0")
            .set("yarn.nodemanager.webapp.address", "localhost:0");
        change(&mut site);
        check(&site, &[("KRB5_CONFIG", &self.realm.configuration())], true)
    }

    fn start_node(&self, rm_port: u16, change: impl FnOnce(&mut Properties)) -> NodeProcess {
        let kind = NodeKind::Agent(AGENT.into());
        let krb5 = self.realm.configuration().display().to_string();
        let environment = [("KRB5_CONFIG".to_owned(), krb5)];
        NodeProcess::start_with(&kind, rm_port, environment.into(), |site| {
            secure(site, &self.keytab);
            change(site);
        })
    }
}

fn check(site: &Properties, environment: &[(&str, &Path)], connects: bool) -> (i32, String) {
    let conf = tempfile::tempdir().unwrap();
    fs::write(conf.path().join("yarn-site.xml"), site.to_xml()).unwrap();
    let mut command = Command::new(AGENT);
    command.arg("check").arg("--conf").arg(conf.path());
    command.args(connects.then_some("--connect"));
    command.env("HADOOP_LOG_DIR", conf.path());
    report(command.envs(environment.iter().copied()))
}

fn report(command: &mut Command) -> (i32, String) {
    let output = command.output().unwrap();
    let report = [output.stdout, output.stderr].concat();
    let report = String::from_utf8(report).unwrap();
    (output.status.code().unwrap(), report)
}

/// A ResourceManager that offers Kerberos under this host's name, and hangs up after a ticket.
struct Offering {
    port: u16,
}

impl Offering {
    fn start(host: &'static str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        thread::spawn(move || {
            for stream in listener.incoming() {
                // One that only looks whether somebody listens says nothing.
                drop(offer(stream.unwrap(), host));
            }
        });
        Self { port }
    }
}

fn offer(mut stream: TcpStream, host: &str) -> io::Result<()> {
    let mut preamble = [0; 7];
    stream.read_exact(&mut preamble)?;
    read_frame(&mut stream)?;
    let kerberos = SaslAuth {
        method: "KERBEROS".to_owned(),
        mechanism: "GSSAPI".to_owned(),
        protocol: Some("rm".to_owned()),
        server_id: Some(host.to_owned()),
        challenge: None,
    };
    let negotiate = RpcSaslProto {
        state: SaslState::Negotiate.into(),
        auths: vec![kerberos],
        ..RpcSaslProto::default()
    };
    let mut out = BytesMut::new();
    header::put_sasl_response(&mut out, &negotiate).unwrap();
    stream.write_all(&out)?;
    read_frame(&mut stream)
}

fn read_frame(stream: &mut TcpStream) -> io::Result<()> {
    let mut length = [0; 4];
    stream.read_exact(&mut length)?;
    let mut frame = vec![0; usize::try_from(u32::from_be_bytes(length)).unwrap()];
    stream.read_exact(&mut frame)
}

#[test]
fn the_program_needs_no_library_of_kerberos_to_start() {
    let output = Command::new("ldd").arg(AGENT).output().unwrap();
    let needed = String::from_utf8(output.stdout).unwrap();
    assert!(needed.contains("libc.so"), "{needed}");
    for library in ["gssapi", "krb5", "com_err"] {
        assert!(!needed.contains(library), "{needed}");
    }
}

#[test]
fn without_the_library_a_secure_cluster_is_refused_and_another_is_not() {
    require!(root, kerberos);
    let folder = tempfile::tempdir().unwrap();
    let keytab = folder.path().join("nm.keytab");
    fs::write(&keytab, [5, 2]).unwrap();
    fs::set_permissions(&keytab, fs::Permissions::from_mode(0o400)).unwrap();
    let mut site = Properties::default();
    let without_library = |site: &Properties| {
        fs::write(folder.path().join("yarn-site.xml"), site.to_xml()).unwrap();
        let hide = "for library in $(ldconfig -p | sed -n 's/.*libgssapi_krb5.* => //p'); do \
                    mount --bind /dev/null \"$library\" || exit 99; done; exec \"$0\" \"$@\"";
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", hide, AGENT, "check", "--conf"]);
        command
            .arg(folder.path())
            .env("HADOOP_LOG_DIR", folder.path());
        report(&mut command)
    };
    let (status, told) = without_library(&site);
    assert_eq!(status, 0, "{told}");
    secure(&mut site, &keytab);
    let (status, told) = without_library(&site);
    assert_eq!(status, 2, "{told}");
    let expected = "hadoop.security.authentication: libgssapi_krb5.so.2 cannot be loaded: install \
                    the package libgssapi-krb5-2";
    assert!(told.contains(expected), "{told}");
}

#[test]
fn check_says_what_is_wrong_and_what_to_do() {
    require!(kerberos);
    let mut cluster = Cluster::new();
    let (good, simple) = (Offering::start("localhost"), ScriptedRm::start());
    let other = Offering::start("elsewhere");
    let simple_port = simple.address().port();
    let nobody = cluster.realm.keytab("nobody.keytab", &["nobody"]);
    let old = cluster.realm.keytab("old.keytab", &["nm/old"]);
    cluster.realm.query("change_password -randkey nm/old");

    // It hangs up after the ticket, which is no answer to anybody.
    let (status, told) = cluster.check(good.port, |_| {});
    assert_eq!(status, 0, "{told}");
    let keytab = cluster.keytab.display();
    for part in [
        format!("this node is {NODE}@{REALM}; {keytab} has its key, of version 2"),
        format!("the KDC gives {NODE}@{REALM} a ticket"),
    ] {
        assert!(told.contains(&part), "{part} in {told}");
    }

    let principal = |site: &mut Properties, name: &str, keytab: &Path| {
        site.set("yarn.nodemanager.principal", format!("{name}@{REALM}"))
            .set("yarn.nodemanager.keytab", keytab.display());
    };
    let told = [
        cluster.check(good.port, |site| principal(site, NODE, &nobody)),
        cluster.check(good.port, |site| principal(site, "nm/old", &old)),
        cluster.check(good.port, |site| {
            site.set(
                "yarn.resourcemanager.principal",
                "rm/localhost@ELSEWHERE.TEST",
            );
        }),
        cluster.check(simple_port, |_| {}),
        cluster.check(other.port, |_| {}),
    ];
    let expected = [
        format!("has no key of {NODE}@{REALM}, which yarn.nodemanager.principal is on this"),
        "check failed: write the keytab anew".to_owned(),
        "yarn.resourcemanager.principal: localhost:".to_owned(),
        "only allow secure connections.: set hadoop.security.authentication there".to_owned(),
        format!("rm/elsewhere, expecting: rm/localhost@{REALM}: correct the property"),
    ];
    for ((status, told), expected) in told.iter().zip(expected) {
        assert_eq!(*status, 2, "{told}");
        assert!(told.contains(&expected), "{expected} in {told}");
    }

    cluster.realm.stop_kdc();
    let (status, told) = cluster.check(good.port, |_| {});
    assert_eq!(status, 2, "{told}");
    let expected = format!("Cannot contact any KDC for realm '{REALM}': look at krb5.conf");
    assert!(told.contains(&expected), "{told}");
}

#[test]
fn a_resource_manager_that_asks_for_no_proof_gets_no_node_unless_that_is_allowed() {
    require!(kerberos);
    let cluster = Cluster::new();
    let rm = ScriptedRm::start();
    let mut node = cluster.start_node(rm.address().port(), |_| {});
    let told = "Server asks us to fall back to SIMPLE auth";
    node.process.wait_log(told, DEADLINE);
    assert!(node.process.exit().is_none());
    drop(node);
    assert!(rm.with(|tracker| tracker.registrations.is_empty()));
    let _node = cluster.start_node(rm.address().port(), |site| {
        site.set("ipc.client.fallback-to-simple-auth-allowed", true);
    });
    rm.wait_registered();
}

#[test]
fn an_agent_waits_for_a_kdc_and_its_metrics_say_so() {
    require!(kerberos);
    let mut cluster = Cluster::new();
    cluster.realm.stop_kdc();
    let rm = Offering::start("localhost");
    let web = Port::reserve().release();
    let mut node = cluster.start_node(rm.port, |site| {
        site.set(
            "yarn.nodemanager.webapp.address",
            format!("127.0.0.1:{web}"),
        );
    });
    let told = format!("no Kerberos login of {NODE}@{REALM} by keytab ");
    node.process.wait_log(&told, DEADLINE);
    node.process.wait_log("Cannot contact any KDC", DEADLINE);
    let has = |line: &str| {
        let metrics = http::get(&format!("http://127.0.0.1:{web}/metrics"))?.body;
        wait::check(metrics.lines().any(|it| it.starts_with(line)), metrics)
    };
    wait::until("a login that fails", DEADLINE, || {
        has("nm_agent_kerberos_login_failing 1")
    });
    has("nm_agent_kerberos_login_age_seconds NaN").unwrap();
    node.process.wait_log("registering failed", DEADLINE);
    let log = node.process.log();
    let own_lines = log
        .lines()
        .filter(|line| line.contains(&told) && !line.contains("registering failed"));
    assert_eq!(own_lines.count(), 1, "{log}");
    cluster.realm.start_kdc();
    node.process.wait_log("logged in to Kerberos", DEADLINE);
    wait::until("a login", DEADLINE, || {
        has("nm_agent_kerberos_login_failing 0")
    });
    assert!(has("nm_agent_kerberos_login_age_seconds NaN").is_err());
    assert!(node.process.exit().is_none());
}
