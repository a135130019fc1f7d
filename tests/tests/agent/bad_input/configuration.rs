//! Configurations that the agent cannot run with: it ends at once and names the property and the
//! file.

use std::net::TcpListener;
use std::time::Duration;

use test_support::scripted::ScriptedRm;
use tests::conf::Properties;
use tests::node::NodeKind;
use tests::node_process::NodeProcess;

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

/// Settings that ask for a protection that the agent lacks.
const UNPROTECTED: [(&str, &str); 3] = [
    ("hadoop.security.authentication", "kerberos"),
    ("hadoop.security.authorization", "true"),
    ("hadoop.http.authentication.type", "kerberos"),
];

const ACCEPT_UNSAFE: &str = "yarn.nodemanager.agent.accept-unsafe";

#[test]
fn protections_that_the_agent_lacks_are_refused_by_run_and_check() {
    let log = ends_with(BAD_CONFIGURATION, |site| {
        for (name, value) in UNPROTECTED {
            site.set(name, value);
        }
    });
    let conf = tempfile::tempdir().unwrap();
    let mut site = Properties::default();
    for (name, value) in UNPROTECTED {
        site.set(name, value);
    }
    std::fs::write(conf.path().join("yarn-site.xml"), site.to_xml()).unwrap();
    let mut check = std::process::Command::new(AGENT);
    let checked = check.arg("check").arg("--conf").arg(conf.path());
    let checked = checked.output().unwrap();
    assert_eq!(checked.status.code(), Some(BAD_CONFIGURATION));
    let report = [checked.stdout, checked.stderr].concat();
    for told in [log, String::from_utf8(report).unwrap()] {
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
    }
}

#[test]
fn a_host_that_does_not_exist_is_named() {
    let log = ends_with(FAILURE, |site| {
        site.set("yarn.nodemanager.address", "no-such-host.invalid:0");
    });
    assert!(log.contains("no-such-host.invalid"), "{log}");
}
