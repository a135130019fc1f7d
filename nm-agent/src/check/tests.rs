use std::collections::BTreeMap;
use std::fs;

use tempfile::TempDir;
use test_support::{Keytool, STORE_PASSWORD};

use super::*;

mod connecting;

/// A machine on which everything works but what is named.
#[derive(Default)]
struct Pretend {
    broken_folders: Vec<&'static str>,
    unknown_hosts: Vec<&'static str>,
    cgroups_broken: bool,
    may_not_change_users: bool,
    closed_folder: Option<&'static str>,
    unknown_group: Option<&'static str>,
    /// `host:port` of peers that take no connection, and of ports that are taken.
    refused: Vec<&'static str>,
    file_system_broken: bool,
    /// Whether it takes a connection to know it, and what is known.
    identity: Vec<(bool, IdentityFinding)>,
}

impl Machine for Pretend {
    fn writable(&self, folder: &Path) -> Result<(), ProbeError> {
        let broken = self
            .broken_folders
            .iter()
            .any(|broken| Path::new(broken) == folder);
        let path = folder.to_path_buf();
        let errno = Errno::EROFS;
        if broken {
            Err(ProbeError::Folder { path, errno })
        } else {
            Ok(())
        }
    }

    fn cgroups(&self, config: &CgroupConfig) -> Availability {
        match (config.asked_for, self.cgroups_broken) {
            (false, _) => Availability::NotAskedFor,
            (true, false) => Availability::Used {
                version: cgroup::Version::V2,
                missing: Vec::new(),
            },
            (true, true) => Availability::Unusable {
                reason: "no cgroup hierarchy is mounted".to_owned(),
            },
        }
    }

    fn user_obstacles(&self) -> Vec<Obstacle> {
        let lacking = Obstacle::Capabilities(vec!["CAP_SETUID"]);
        self.may_not_change_users
            .then_some(lacking)
            .into_iter()
            .collect()
    }

    fn closed_to_users(&self, folder: &Path) -> Option<PathBuf> {
        let closed = Path::new(self.closed_folder?);
        folder.starts_with(closed).then(|| closed.to_owned())
    }

    fn open_files(&self) -> Option<u64> {
        Some(4096)
    }

    fn has_group(&self, name: &str) -> bool {
        self.unknown_group != Some(name)
    }

    fn resolvable(&self, address: &HostPort) -> Result<(), ProbeError> {
        let host = address.host.clone();
        let unknown = self.unknown_hosts.contains(&host.as_str());
        if unknown {
            Err(ProbeError::Silence { host })
        } else {
            Ok(())
        }
    }

    fn connects(&self, address: &HostPort) -> Result<(), ProbeError> {
        if !self.refused.contains(&address.to_string().as_str()) {
            return Ok(());
        }
        Err(ProbeError::Connect {
            address: address.clone(),
            source: io::ErrorKind::ConnectionRefused.into(),
        })
    }

    fn may_listen(&self, address: &HostPort) -> Result<(), ProbeError> {
        if !self.refused.contains(&address.to_string().as_str()) {
            return Ok(());
        }
        Err(ProbeError::Listen {
            address: address.clone(),
            source: io::ErrorKind::AddrInUse.into(),
            holder: Some(Holder {
                pid: 17,
                name: "java".to_owned(),
            }),
        })
    }

    fn file_system(&self, config: &Config) -> Result<(), ProbeError> {
        if !self.file_system_broken {
            return Ok(());
        }
        Err(ProbeError::FileSystem {
            uri: config.file_systems.default_fs.to_string(),
            source: FsError::UnsupportedScheme {
                uri: "x:/".to_owned(),
                scheme: "x".to_owned(),
            },
        })
    }

    fn identity(&self, _: &Config, connects: bool) -> Vec<IdentityFinding> {
        self.identity
            .iter()
            .filter(|(needs_connection, _)| connects || !needs_connection)
            .map(|(_, finding)| finding.clone())
            .collect()
    }
}

fn checked(pairs: &[(&str, &str)], machine: &dyn Machine) -> (Outcome, String) {
    let report = examined(pairs, machine, false);
    let outcome = report.outcome(false);
    let mut out = Vec::new();
    report.write_text(outcome, true, &mut out).unwrap();
    (outcome, String::from_utf8(out).unwrap())
}

fn loaded(pairs: &[(&str, &str)]) -> Loaded {
    let properties = pairs
        .iter()
        .map(|(n, v)| format!("<property><name>{n}</name><value>{v}</value></property>"));
    let body: String = properties.collect();
    let folder = TempDir::new().unwrap();
    let site = format!("<configuration>{body}</configuration>");
    fs::write(folder.path().join("yarn-site.xml"), site).unwrap();
    Loaded::read(&[folder.path().to_path_buf()], &BTreeMap::new())
}

fn examined(pairs: &[(&str, &str)], machine: &dyn Machine, connects: bool) -> Report {
    examine(&loaded(pairs), machine, connects)
}

const RM: (&str, &str) = ("yarn.resourcemanager.hostname", "rm.example");

#[test]
fn each_value_is_printed_with_its_unit_and_where_it_came_from() {
    let delay = ("yarn.nodemanager.sleep-delay-before-sigkill.ms", "500");
    let (outcome, text) = checked(&[RM, delay], &Pretend::default());
    assert_eq!(outcome.exit_code(), 0, "{text}");
    let line = text.lines().find(|line| line.contains("sigkill")).unwrap();
    assert!(
        line.contains(".ms = 500 ms  (") && line.ends_with("yarn-site.xml:1)"),
        "{line}"
    );
    assert!(
        text.contains("  yarn.nodemanager.vmem-pmem-ratio = 2.1\n"),
        "{text}"
    );
    assert!(
        text.contains("resource-tracker.address = rm.example:8031\n"),
        "{text}"
    );
    assert!(text.starts_with("The configuration can be used.\n") && !text.contains("Problems"));
}

#[test]
fn the_stores_of_tls_are_opened_and_named() {
    let folder = TempDir::new().unwrap();
    let test = "the_stores_of_tls_are_opened_and_named";
    let Some(keytool) = Keytool::find(test, folder.path()) else {
        return;
    };
    keytool.add_key("keys", "host", "EC");
    let keys = keytool.path("keys").display().to_string();
    let file = keytool.path("ssl-server.xml");
    let write = |password: &str| {
        let properties =
            [("location", keys.as_str()), ("password", password)].map(|(name, value)| {
                let name = format!("ssl.server.keystore.{name}");
                format!("<property><name>{name}</name><value>{value}</value></property>")
            });
        let site = format!("<configuration>{}</configuration>", properties.concat());
        fs::write(&file, site).unwrap();
    };
    let file = file.display().to_string();
    let pairs = [
        RM,
        ("yarn.nodemanager.aux-services", "mapreduce_shuffle"),
        ("mapreduce.shuffle.ssl.enabled", "true"),
        ("hadoop.ssl.server.conf", &file),
    ];
    write(STORE_PASSWORD);
    let (outcome, text) = checked(&pairs, &Pretend::default());
    assert_eq!(outcome.exit_code(), 0, "{text}");
    let note = format!("mapreduce_shuffle serves over TLS, with the keys in {keys}");
    assert!(text.contains(&note), "{text}");
    write("mistyped");
    let (outcome, text) = checked(&pairs, &Pretend::default());
    assert_eq!(outcome.exit_code(), 2);
    let problem = format!("{file}:1: ssl.server.keystore.password = <redacted>: ");
    assert!(text.contains(&problem), "{text}");
    assert!(!text.contains("mistyped"), "{text}");
}

#[test]
fn each_auxiliary_service_is_named_with_who_serves_it_and_its_port() {
    let class = "org.apache.spark.network.yarn.YarnShuffleService";
    let pairs = [
        RM,
        ("yarn.nodemanager.aux-services", "spark2_shuffle"),
        ("yarn.nodemanager.aux-services.spark2_shuffle.class", class),
        ("spark.authenticate", "true"),
    ];
    let (_, text) = checked(&pairs, &Pretend::default());
    let served = format!("spark2_shuffle ({class}) is served by the agent, on port 7337");
    let with_proofs =
        "(spark.shuffle.service.port), to clients with their application's secret, in";
    assert!(
        text.contains(&served) && text.contains(with_proofs),
        "{text}"
    );
}

#[test]
fn every_problem_is_printed_and_the_exit_code_says_so() {
    let bad = [
        ("yarn.nodemanager.resource.memory-mb", "much"),
        ("yarn.nodemanager.address", ":1"),
    ];
    let (outcome, text) = checked(&bad, &Pretend::default());
    assert_eq!(outcome.exit_code(), 2);
    assert!(text.contains("Problems (2):"), "{text}");
}

#[test]
fn secrets_are_hidden_wherever_they_would_be_printed() {
    let pairs = [
        ("fs.s3a.secret.key", "hunter2"),
        ("my.url", "http://x/${fs.s3a.secret.key}"),
        ("yarn.nodemanager.some-password", "hunter2"),
    ];
    let (_, text) = checked(&pairs, &Pretend::default());
    assert!(text.contains("fs.s3a.secret.key = <redacted>"), "{text}");
    assert!(!text.contains("hunter2"), "{text}");
}

#[test]
fn one_bad_disk_of_two_is_a_warning_and_two_are_a_problem() {
    let dirs = [RM, ("yarn.nodemanager.local-dirs", "/a,/b")];
    let mut machine = Pretend {
        broken_folders: vec!["/b"],
        ..Pretend::default()
    };
    let (outcome, text) = checked(&dirs, &machine);
    assert_eq!(outcome, Outcome::Sound);
    assert!(
        text.contains("Warnings (2):\n  yarn.nodemanager.local-dirs: /b: "),
        "{text}"
    );
    machine.broken_folders.push("/a");
    let (outcome, text) = checked(&dirs, &machine);
    assert_eq!(outcome, Outcome::Wrong);
    assert!(text.contains("Problems (2):"), "{text}");
}

#[test]
fn a_resource_manager_without_an_address_is_waited_for_and_told_once() {
    let machine = Pretend {
        unknown_hosts: vec!["rm.example"],
        ..Pretend::default()
    };
    let proxy = ("yarn.nodemanager.amrmproxy.enabled", "true");
    let (outcome, text) = checked(&[RM, proxy], &machine);
    assert_eq!(outcome, Outcome::Sound);
    assert_eq!(text.matches("rm.example: no answer").count(), 1, "{text}");
    assert!(text.contains("the agent would wait for it"), "{text}");
    let (outcome, text) = checked(&[], &machine);
    assert_eq!(outcome, Outcome::Sound);
    assert!(text.contains("sought on this machine"), "{text}");
}

#[test]
fn values_cannot_steer_the_terminal() {
    // The second form is one that `char::is_control` knows: a control sequence in a single
    // character.
    let (_, text) = checked(&[("a.b", "x\n\u{9b}31my")], &Pretend::default());
    assert!(text.contains("a.b = x 31my"), "{text}");
}

#[test]
fn a_folder_is_writable_if_the_nearest_one_that_exists_is() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    assert!(ThisMachine.writable(&folder.path().join("a/b/c")).is_ok());
    for path in [file.clone(), file.join("x")] {
        let error = ThisMachine.writable(&path).unwrap_err();
        assert!(
            matches!(
                error,
                ProbeError::Folder {
                    errno: Errno::ENOTDIR,
                    ..
                }
            ),
            "{error}"
        );
    }
}

#[test]
fn it_is_told_whether_containers_will_have_cgroups() {
    let asked = [RM, ("yarn.nodemanager.resource.memory.enabled", "true")];
    let (_, text) = checked(&asked, &Pretend::default());
    assert!(
        text.contains("\n  containers run in cgroups (v2)\n  open files: 1024 connections of "),
        "{text}"
    );
    let machine = Pretend {
        cgroups_broken: true,
        ..Pretend::default()
    };
    let (outcome, text) = checked(&asked, &machine);
    // The agent goes on without.
    assert_eq!(outcome, Outcome::Sound);
    assert!(text.contains("cgroups cannot be used"), "{text}");
    let (_, text) = checked(&[RM], &machine);
    assert!(!text.contains("cgroups cannot be used"), "{text}");
}

#[test]
fn an_address_in_numbers_needs_no_name_server() {
    assert!(
        ThisMachine
            .resolvable(&HostPort::new("192.0.2.1", 1))
            .is_ok()
    );
    assert!(
        ThisMachine
            .resolvable(&HostPort::new("2001:db8::1", 1))
            .is_ok()
    );
}

const LINUX_EXECUTOR: (&str, &str) = (
    "yarn.nodemanager.container-executor.class",
    "org.apache.hadoop.yarn.server.nodemanager.LinuxContainerExecutor",
);

#[test]
fn the_user_of_containers_is_explained() {
    let (_, text) = checked(&[RM], &Pretend::default());
    let warnings = text.split("Warnings (").nth(1).unwrap();
    for part in [
        "any tenant whose containers run here controls this node",
        "forge tokens for the containers of others",
        "LinuxContainerExecutor keeps tenants apart",
    ] {
        assert!(warnings.contains(part), "{text}");
    }
    let (outcome, text) = checked(&[RM, LINUX_EXECUTOR], &Pretend::default());
    assert_eq!(outcome, Outcome::Sound, "{text}");
    assert!(!text.contains("controls this node"), "{text}");
    assert!(
        text.contains("containers run as nobody, whoever submits them"),
        "{text}"
    );
    let limit = "yarn.nodemanager.linux-container-executor.nonsecure-mode.limit-users";
    let (_, text) = checked(&[RM, LINUX_EXECUTOR, (limit, "false")], &Pretend::default());
    assert!(
        text.contains("as the users who submit them; user ids from 1000"),
        "{text}"
    );
}

#[test]
fn what_keeps_containers_from_running_as_users_is_named() {
    let machine = Pretend {
        may_not_change_users: true,
        closed_folder: Some("/tmp/closed"),
        ..Pretend::default()
    };
    let local_dirs = ("yarn.nodemanager.local-dirs", "/tmp/closed/local");
    let (outcome, text) = checked(&[RM, LINUX_EXECUTOR, local_dirs], &machine);
    assert_eq!(outcome, Outcome::Wrong);
    assert!(text.contains("this process lacks CAP_SETUID"), "{text}");
    assert!(text.contains("cannot pass through /tmp/closed;"), "{text}");
    let user = "yarn.nodemanager.linux-container-executor.nonsecure-mode.local-user";
    let (outcome, text) = checked(&[RM, LINUX_EXECUTOR, (user, "root")], &Pretend::default());
    assert_eq!(outcome, Outcome::Wrong);
    assert!(
        text.contains("local-user: Running as root is not allowed"),
        "{text}"
    );
}

#[test]
fn a_group_of_operators_that_does_not_exist_is_a_problem_where_the_socket_is_asked_for() {
    let machine = Pretend {
        unknown_group: Some("operators"),
        ..Pretend::default()
    };
    let group = ("yarn.nodemanager.agent.admin.group", "operators");
    let socket = ("yarn.nodemanager.agent.admin.socket", "/run/x.sock");
    let (outcome, text) = checked(&[RM, group, socket], &machine);
    assert_eq!(outcome, Outcome::Wrong);
    let expected = "admin.group: the system has no group operators";
    assert_eq!(text.matches(expected).count(), 1, "{text}");
    let (outcome, text) = checked(&[RM, group], &machine);
    assert_eq!(outcome, Outcome::Sound);
    assert!(text.contains(expected), "{text}");
}

#[test]
fn a_rolling_interval_of_keys_is_no_secret() {
    let interval = (
        "yarn.resourcemanager.nm-tokens.master-key-rolling-interval-secs",
        "3600",
    );
    let (_, text) = checked(&[RM, interval], &Pretend::default());
    assert!(
        text.contains("master-key-rolling-interval-secs = 3600"),
        "{text}"
    );
}

#[test]
fn the_verdict_and_what_can_be_acted_on_come_before_the_values() {
    let bad = ("yarn.nodemanager.resource.memory-mb", "much");
    let later = (
        "yarn.nodemanager.runtime.linux.runc.layer-mounts-to-keep",
        "7",
    );
    let report = examined(&[RM, bad, later], &Pretend::default(), false);
    let outcome = report.outcome(false);
    let mut out = Vec::new();
    report.write_text(outcome, false, &mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    let at = |part: &str| {
        text.find(part)
            .unwrap_or_else(|| panic!("{part} in {text}"))
    };
    assert_eq!(at("The configuration cannot be used."), 0);
    assert!(at("Problems (1):") < at("Asked for and not there"));
    assert!(at("Asked for and not there") < at("Set by files (3):"));
    assert!(!text.contains("vmem-pmem-ratio"), "{text}");
    assert!(
        text.ends_with("properties have defaults; --all shows them.\n"),
        "{text}"
    );
}

#[test]
fn a_strict_check_allows_no_warning_and_no_missing_feature() {
    for pair in [
        ("yarn.nodemanager.banana", "1"),
        (
            "yarn.nodemanager.runtime.linux.runc.layer-mounts-to-keep",
            "7",
        ),
    ] {
        let report = examined(&[RM, pair], &Pretend::default(), false);
        assert_eq!(report.outcome(false), Outcome::Sound, "{pair:?}");
        assert_eq!(report.outcome(true), Outcome::Wrong, "{pair:?}");
    }
}

#[test]
fn programs_read_the_report_as_json() {
    let secret = ("fs.s3a.secret.key", "hunter2");
    let report = examined(&[RM, secret], &Pretend::default(), false);
    let mut out = Vec::new();
    report.write_json(&mut out).unwrap();
    let value: serde_json::Value = serde_json::from_slice(&out).unwrap();
    assert_eq!(value["usable"], true);
    assert_eq!(value["problems"], serde_json::json!([]));
    let set = value["set"].as_array().unwrap();
    let of = |name: &str| set.iter().find(|it| it["name"] == name).unwrap();
    assert_eq!(of(RM.0)["value"], RM.1);
    assert!(
        of(RM.0)["source"]
            .as_str()
            .unwrap()
            .ends_with("yarn-site.xml:1")
    );
    assert_eq!(of(secret.0)["value"], "<redacted>");
    assert!(value["defaults"].as_array().unwrap().len() > 100);
}
