//! Configurations that the agent cannot run with: it ends at once and names the property and the
//! file.

use std::net::TcpListener;
use std::time::Duration;

use test_support::scripted::ScriptedRm;
use test_support::skip;
use tests::conf::Properties;
use tests::node::NodeKind;
use tests::node_process::NodeProcess;
use tests::ports::Port;
use tests::scripted_cluster::ScriptedCluster;

use crate::AGENT;

/// Deadline for an agent that does not even start, on a machine that is busy building.
const DEADLINE: Duration = Duration::from_secs(60);

/// Exit status for bad configuration, from `nm-agent --help`.
const BAD_CONFIGURATION: i32 = 2;

/// Exit status for any other failure.
const FAILURE: i32 = 1;

/// Starts the agent with a changed configuration, expects this exit status, and returns its log.
#[track_caller]
fn ends_with(status: i32, change: impl FnOnce(&mut Properties)) -> String {
    let rm = ScriptedRm::start();
    let kind = NodeKind::Agent(AGENT.into());
    let mut node = NodeProcess::start(&kind, &rm, change);
    let exit = node.process.wait_exit(DEADLINE);
    let log = node.process.log();
    assert_eq!(exit.code(), Some(status), "{log}");
    log
}

#[test]
fn a_value_of_an_unknown_word_is_told_with_its_file() {
    let policy = "yarn.nodemanager.opportunistic-containers-queue-policy";
    let log = ends_with(BAD_CONFIGURATION, |site| {
        site.set(policy, "BY_MAGIC");
    });
    for part in [policy, "BY_MAGIC", "yarn-site.xml"] {
        assert!(log.contains(part), "{log}");
    }
}

#[test]
fn every_problem_is_told_at_once() {
    let problems = [
        ("yarn.nodemanager.resource.memory-mb", "plenty"),
        ("yarn.nodemanager.address", "localhost:port"),
        ("yarn.nodemanager.sleep-delay-before-sigkill.ms", "soon"),
    ];
    let log = ends_with(BAD_CONFIGURATION, |site| {
        for (name, value) in problems {
            site.set(name, value);
        }
    });
    for (name, _) in problems {
        assert!(log.contains(name), "{name} in {log}");
    }
}

/// Checks a configuration of these properties; returns exit status and report.
fn check(properties: &[(&str, &str)]) -> (i32, String) {
    let mut site = Properties::default();
    for (name, value) in properties {
        site.set(*name, value);
    }
    check_file(site.to_xml().as_bytes())
}

/// Checks a configuration whose `yarn-site.xml` has these bytes.
fn check_file(site: &[u8]) -> (i32, String) {
    let conf = tempfile::tempdir().unwrap();
    std::fs::write(conf.path().join("yarn-site.xml"), site).unwrap();
    let mut check = std::process::Command::new(AGENT);
    let check = check.arg("check").arg("--conf").arg(conf.path());
    let output = check.env("HADOOP_LOG_DIR", conf.path()).output().unwrap();
    let report = [output.stdout, output.stderr].concat();
    let report = String::from_utf8(report).unwrap();
    (output.status.code().unwrap(), report)
}

/// Values that a property is not meant for and with which Hadoop starts.
const ODD: [(&str, &str); 6] = [
    ("yarn.acl.enable", "0"),
    ("yarn.nodemanager.resource-monitor.interval-ms", "-1"),
    ("yarn.nodemanager.container-monitor.interval-ms", "0"),
    ("yarn.http.policy", "http_only"),
    (
        "yarn.nodemanager.disk-health-checker.max-disk-utilization-per-disk-percentage",
        "120",
    ),
    ("yarn.nodemanager.admin-env", "A=1,nonsense"),
];

#[test]
fn a_folder_that_is_missing_or_has_no_file_of_hadoops_is_bad_configuration() {
    let empty = tempfile::tempdir().unwrap();
    let missing = empty.path().join("nowhere");
    let cases = [
        (empty.path(), "none of Hadoop's files"),
        (&*missing, "is not a folder"),
    ];
    for (conf, why) in cases {
        let commands = [&["run"][..], &["check"], &["rm"], &["shell", "--", "true"]];
        for arguments in commands {
            let mut command = std::process::Command::new(AGENT);
            let (name, rest) = arguments.split_at(1);
            command.args(name).arg("--conf").arg(conf).args(rest);
            let output = command.env_remove("NM_AGENT_LOG").output().unwrap();
            let text =
                String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
            assert_eq!(
                output.status.code(),
                Some(BAD_CONFIGURATION),
                "{arguments:?}: {text}"
            );
            let told = format!("{}: ", conf.display());
            assert!(
                text.contains(&told) && text.contains(why),
                "{arguments:?}: {text}"
            );
        }
    }
}

#[test]
fn values_that_hadoop_starts_with_do_not_stop_the_agent() {
    let mut cluster = ScriptedCluster::start_with(AGENT, |site| {
        for (name, value) in ODD {
            site.set(name, value);
        }
    });
    cluster.assert_serves();
    let told = "yarn.acl.enable = 0: read as false, as Hadoop does";
    cluster.node.process.wait_log(told, DEADLINE);
    let (status, report) = check(&ODD);
    assert_eq!(status, 0, "{report}");
    assert!(report.contains(told), "{report}");
}

#[test]
fn a_flag_that_may_be_meant_to_protect_stops_the_agent() {
    let log = ends_with(BAD_CONFIGURATION, |site| {
        site.set("yarn.acl.enable", "yes");
    });
    assert!(log.contains("yarn.acl.enable = yes"), "{log}");
}

#[test]
fn run_and_check_agree_on_a_group_that_does_not_exist() {
    let test = "run_and_check_agree_on_a_group_that_does_not_exist";
    if let Some(obstacle) = users::obstacles().first() {
        skip::skip(test, obstacle);
        return;
    }
    let settings = [
        (
            "yarn.nodemanager.container-executor.class",
            "org.apache.hadoop.yarn.server.nodemanager.LinuxContainerExecutor",
        ),
        (
            "yarn.nodemanager.linux-container-executor.group",
            "no-such-group",
        ),
    ];
    // With recovery, a service manager sees the status of a process above the agent.
    let run = |recovers: bool| {
        ends_with(BAD_CONFIGURATION, |site| {
            let port = Port::reserve().release();
            site.set("yarn.nodemanager.recovery.enabled", recovers)
                .set("yarn.nodemanager.address", format!("127.0.0.1:{port}"));
            for (name, value) in settings {
                site.set(name, value);
            }
        })
    };
    let (status, report) = check(&settings);
    assert_eq!(status, BAD_CONFIGURATION);
    for told in [run(false), run(true), report] {
        assert!(
            told.contains("the system has no group no-such-group"),
            "{told}"
        );
    }
}

#[test]
fn a_group_of_operators_that_does_not_exist_is_bad_configuration() {
    let log = ends_with(BAD_CONFIGURATION, |site| {
        site.set("yarn.nodemanager.agent.admin.group", "no-such-group");
    });
    assert!(log.contains("no-such-group"), "{log}");
}

#[test]
fn a_node_that_any_tenant_controls_says_so() {
    let told = "any tenant whose containers run here controls this node";
    let (status, report) = check(&[]);
    assert_eq!(status, 0, "{report}");
    assert!(report.contains(told), "{report}");
    let mut cluster = ScriptedCluster::start(AGENT);
    cluster.node.process.wait_log(told, DEADLINE);
}

#[test]
fn a_resource_manager_that_the_name_server_does_not_know_yet_is_no_problem() {
    let (status, report) = check(&[("yarn.resourcemanager.hostname", "no-such-host.invalid")]);
    assert_eq!(status, 0, "{report}");
    assert_eq!(
        report.matches("no-such-host.invalid: ").count(),
        1,
        "{report}"
    );
}

#[test]
fn a_file_is_read_in_the_encoding_that_it_declares() {
    let site = |encoding: &str| {
        format!(
            "<?xml version='1.0' encoding='{encoding}'?><configuration><property>\
             <name>yarn.nodemanager.user-home-dir</name><value>/home/\u{e9}</value></property>\
             </configuration>"
        )
    };
    let latin: Vec<u8> = site("ISO-8859-1").chars().map(|c| c as u8).collect();
    let units: Vec<u8> = site("UTF-16")
        .encode_utf16()
        .flat_map(u16::to_be_bytes)
        .collect();
    for bytes in [latin, [vec![0xfe, 0xff], units].concat()] {
        let (status, report) = check_file(&bytes);
        assert_eq!(status, 0, "{report}");
        assert!(report.contains("user-home-dir = /home/\u{e9}"), "{report}");
    }
    let (status, report) = check_file(site("EUC-JP").as_bytes());
    assert_eq!(status, BAD_CONFIGURATION);
    assert!(report.contains("EUC-JP"), "{report}");
}

/// Settings that ask for a protection that the agent lacks.
const UNPROTECTED: [(&str, &str); 4] = [
    ("yarn.nodemanager.runtime.linux.sandbox-mode", "enforcing"),
    (
        "hadoop.security.saslproperties.resolver.class",
        "org.apache.hadoop.security.IngressPortBasedResolver",
    ),
    ("yarn.intermediate-data-encryption.enable", "true"),
    ("hadoop.http.authentication.type", "org.example.Handler"),
];

const ACCEPT_UNSAFE: &str = "yarn.nodemanager.agent.accept-unsafe";

#[test]
fn protections_that_the_agent_lacks_are_refused_by_run_and_check() {
    let log = ends_with(BAD_CONFIGURATION, |site| {
        for (name, value) in UNPROTECTED {
            site.set(name, value);
        }
    });
    let (status, report) = check(&UNPROTECTED);
    assert_eq!(status, BAD_CONFIGURATION);
    for told in [log, report] {
        for (name, _) in UNPROTECTED {
            let accepting = format!("add {name} to {ACCEPT_UNSAFE}");
            assert!(told.contains(&accepting), "{name} in {told}");
        }
    }
}

#[test]
fn an_agent_runs_without_protections_that_are_accepted_by_name() {
    let rm = ScriptedRm::start();
    let kind = NodeKind::Agent(AGENT.into());
    let mut node = NodeProcess::start(&kind, &rm, |site| {
        for (name, value) in UNPROTECTED {
            site.set(name, value);
        }
        let names = UNPROTECTED.map(|(name, _)| name).join(",");
        site.set(ACCEPT_UNSAFE, names);
    });
    rm.wait_registered();
    node.process.wait_log("without authentication", DEADLINE);
}

#[test]
fn a_node_without_a_usable_local_directory_registers_as_unhealthy() {
    let rm = ScriptedRm::start();
    let kind = NodeKind::Agent(AGENT.into());
    let _node = NodeProcess::start(&kind, &rm, |site| {
        site.set("yarn.nodemanager.local-dirs", "/dev/null/local");
    });
    let registered = rm.wait_registrations(1);
    let status = registered.node_status.unwrap();
    let health = status.node_health_status.unwrap();
    assert!(!health.is_node_healthy());
    let report = "1/1 local-dirs have errors:  [ /dev/null/local : Cannot create directory: \
                  /dev/null/local ] ";
    assert_eq!(health.health_report(), report);
}

#[test]
fn an_agent_without_a_usable_local_directory_and_without_checks_says_so() {
    let log = ends_with(FAILURE, |site| {
        site.set("yarn.nodemanager.local-dirs", "/dev/null/local")
            .set("yarn.nodemanager.disk-health-checker.enable", false);
    });
    assert!(log.contains("local-dirs"), "{log}");
    assert!(log.contains("/dev/null/local"), "{log}");
}

#[test]
fn one_bad_local_directory_among_good_ones_is_told_and_left_out() {
    let rm = ScriptedRm::start();
    let kind = NodeKind::Agent(AGENT.into());
    let good = tempfile::tempdir().unwrap();
    let mut node = NodeProcess::start(&kind, &rm, |site| {
        let both = format!("/dev/null/local,{}", good.path().display());
        site.set("yarn.nodemanager.local-dirs", both);
    });
    rm.wait_registered();
    node.process.wait_log("/dev/null/local", DEADLINE);
}

#[test]
fn a_port_that_is_taken_is_named_with_its_property() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    for property in [
        "yarn.nodemanager.address",
        "yarn.nodemanager.webapp.address",
    ] {
        let log = ends_with(FAILURE, |site| {
            site.set(property, &address);
        });
        assert!(log.contains(property), "{log}");
        assert!(log.contains("in use"), "{log}");
        assert!(log.contains("is taken by agent"), "{log}");
    }
}

#[test]
fn a_host_that_does_not_exist_is_named() {
    let log = ends_with(FAILURE, |site| {
        site.set("yarn.nodemanager.address", "no-such-host.invalid:0");
    });
    assert!(log.contains("no-such-host.invalid"), "{log}");
}
