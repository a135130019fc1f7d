//! The command itself: what it answers on its ports, what it says of bad configuration, how it ends.

use std::net::TcpListener;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use tempfile::TempDir;
use tests::conf::{self, Properties};
use tests::process::Process;
use tests::{http, wait};

use crate::PROGRAM;

const DEADLINE: Duration = Duration::from_secs(60);

const WEB: &str = "yarn.resourcemanager.webapp.address";

/// A process with a folder of its own and, unless changed, free ports.
struct MiniRm {
    process: Process,
    _folder: TempDir,
}

impl MiniRm {
    fn start(change: impl FnOnce(&mut Properties)) -> Self {
        let folder = TempDir::new().expect("a folder can be made");
        let conf_dir: PathBuf = folder.path().join("conf");
        let mut yarn_site = Properties::default();
        for service in ["", "scheduler.", "resource-tracker.", "webapp."] {
            let name = format!("yarn.resourcemanager.{service}address");
            yarn_site.set(name, "127.0.0.1:0");
        }
        change(&mut yarn_site);
        conf::write(
            &conf_dir,
            &conf::core_site(folder.path(), "nobody"),
            &yarn_site,
        );
        let mut command = Command::new(PROGRAM);
        command.arg("rm").arg("--conf").arg(&conf_dir);
        Self {
            process: Process::start("mini-rm", &mut command, folder.path()),
            _folder: folder,
        }
    }

    /// Its exit status and what it said.
    fn end(mut self) -> (Option<i32>, String) {
        let status = self.process.wait_exit(DEADLINE);
        (status.code(), self.process.log())
    }

    /// Where its REST is, as its log says.
    fn web(&mut self) -> String {
        wait::until("the addresses", DEADLINE, || {
            let log = self.process.log();
            let (_, rest) = log.split_once("web: ").ok_or_else(|| log.clone())?;
            let address = rest.split_once(|c: char| c != '.' && c != ':' && !c.is_ascii_digit());
            address
                .map(|(address, _)| format!("http://{address}/ws/v1/cluster"))
                .ok_or(log)
        })
    }
}

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
