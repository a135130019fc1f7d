//! The command itself: answers on its ports, messages about bad configuration, exit.

use std::fs;
use std::net::TcpListener;
use std::process::Command;

use tests::http;
use tests::process::Process;

use crate::AGENT;
use crate::mini_rm::process::{DEADLINE, MiniRm};

const WEB: &str = "yarn.resourcemanager.webapp.address";

#[test]
fn a_port_that_is_taken_is_named_with_its_property() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let rm = MiniRm::start(|site| {
        site.set(WEB, &address);
    });
    let (status, log) = rm.end();
    assert_eq!(status, Some(1), "{log}");
    assert!(log.contains(&address) && log.contains(WEB), "{log}");
}

#[test]
fn a_value_that_cannot_be_used_is_named_with_its_property() {
    let comparator = "yarn.resourcemanager.nm-container-queuing.load-comparator";
    let rm = MiniRm::start(|site| {
        site.set(comparator, "LUCK");
    });
    let (status, log) = rm.end();
    assert_eq!(status, Some(2), "{log}");
    assert!(log.contains("LUCK") && log.contains(comparator), "{log}");
}

#[test]
fn it_answers_rest_refuses_what_is_not_there_and_ends_on_sigterm() {
    let mut rm = MiniRm::start(|_| {});
    let web = rm.web();
    for (path, key) in [
        ("info", "clusterInfo"),
        ("metrics", "clusterMetrics"),
        ("nodes", "nodes"),
        ("apps", "apps"),
        ("scheduler", "scheduler"),
    ] {
        let answer = http::get_json(&format!("{web}/{path}")).unwrap();
        assert!(answer[key].is_object(), "{path}: {answer}");
    }
    let root = web.strip_suffix("/ws/v1/cluster").unwrap();
    for path in ["", "cluster"] {
        let page = http::get(&format!("{root}/{path}")).unwrap();
        assert_eq!(page.status, 200, "{}", page.body);
        assert!(page.body.contains("not a cluster manager"), "{}", page.body);
    }
    for path in ["nodes/n:1", "apps/application_1_0001", "apps/..%2f", "none"] {
        let answer = http::get(&format!("{web}/{path}")).unwrap();
        assert_eq!(answer.status, 404, "{path}: {}", answer.body);
    }
    let killed = serde_json::json!({"state": "KILLED"});
    let answer = http::put(&format!("{web}/apps/application_1_0001/state"), &killed).unwrap();
    assert_eq!(answer.status, 404, "{}", answer.body);
    let wanted = serde_json::json!({"state": "RUNNING"});
    let answer = http::put(&format!("{web}/apps/application_1_0001/state"), &wanted).unwrap();
    assert_eq!(answer.status, 400, "{}", answer.body);
    rm.process.terminate();
    let (status, log) = rm.end();
    assert_eq!(status, Some(0), "{log}");
}

#[test]
fn a_host_that_does_not_exist_is_named_with_its_property() {
    for service in ["", "scheduler.", "resource-tracker.", "webapp."] {
        let property = format!("yarn.resourcemanager.{service}address");
        let rm = MiniRm::start(|site| {
            site.set(&property, "no-such-host.invalid:0");
        });
        let (status, log) = rm.end();
        assert_eq!(status, Some(1), "{log}");
        assert!(
            log.contains("no-such-host.invalid") && log.contains(&property),
            "{log}"
        );
    }
}

/// Runs the command with a configuration folder, expects the exit status of bad configuration, and
/// returns its log.
#[track_caller]
fn refuses_folder(conf: &std::path::Path) -> String {
    let logs = tempfile::tempdir().unwrap();
    let mut command = Command::new(AGENT);
    command.arg("rm").arg("--conf").arg(conf);
    let mut process = Process::start("mini-rm", &mut command, logs.path());
    let status = process.wait_exit(DEADLINE);
    let log = process.log();
    assert_eq!(status.code(), Some(2), "{log}");
    log
}

#[test]
fn a_folder_of_configuration_that_is_not_there_is_named() {
    let log = refuses_folder("/no/such/folder".as_ref());
    assert!(log.contains("/no/such/folder"), "{log}");
}

#[test]
fn a_file_of_configuration_that_does_not_parse_is_named() {
    let conf = tempfile::tempdir().unwrap();
    for text in ["<configuration><property>", "\u{fffd}\u{0}", "{}"] {
        fs::write(conf.path().join("yarn-site.xml"), text).unwrap();
        let log = refuses_folder(conf.path());
        assert!(log.contains("yarn-site.xml"), "{log}");
    }
}
