//! Logs that are no logs: links and pipes, and names that lead elsewhere.

use std::fs;
use std::time::Duration;

use test_support::current_user;
use tests::scripted_cluster::ScriptedCluster;
use tests::{files, http, wait};

use crate::AGENT;

/// Deadline for what takes an instant on an idle machine.
const DEADLINE: Duration = Duration::from_secs(60);

const SECRET: &str = "the text of nobody's log";

/// Names in requests that must lead to nothing. The first are what the container made.
const NAMES: [&str; 12] = [
    "link",
    "folder",
    "folder/file",
    "folder%2Ffile",
    "pipe",
    "../../../secret",
    "..%2F..%2F..%2Fsecret",
    "%2e%2e/%2e%2e/%2e%2e/secret",
    "%2e%2e%2f%2e%2e%2f%2e%2e%2fsecret",
    "..%5c..%5csecret",
    "<secret>",
    "%00link",
];

#[test]
fn nothing_outside_a_log_folder_is_served_or_aggregated() {
    let remote = tempfile::tempdir().unwrap();
    let cluster = ScriptedCluster::start_with(AGENT, |site| {
        site.set("yarn.log-aggregation-enable", true).set(
            "yarn.nodemanager.remote-app-log-dir",
            format!("file://{}", remote.path().display()),
        );
    });
    let folder = cluster.node.folder();
    let (secret, outside) = (folder.join("secret"), folder.join("outside"));
    fs::write(&secret, SECRET).unwrap();
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("file"), SECRET).unwrap();
    let id = cluster.am.run(&format!(
        "ln -s {} <LOG_DIR>/link; ln -s {} <LOG_DIR>/folder; mkfifo <LOG_DIR>/pipe; \
         echo honest > <LOG_DIR>/honest",
        secret.display(),
        outside.display()
    ));
    assert_eq!(cluster.rm.wait_completed(id).exit_status, 0);
    let port = cluster.rm.wait_registrations(1).http_port();
    let places = [
        format!("/node/containerlogs/{id}/{}", current_user()),
        format!("/ws/v1/node/containerlogs/{id}"),
        format!("/ws/v1/node/containers/{id}/logs"),
    ];
    let absolute = secret.display().to_string().replace('/', "%2F");
    for place in &places {
        let url = |name: &str| format!("http://127.0.0.1:{port}{place}/{name}");
        let honest = http::get(&url("honest")).unwrap();
        assert!(honest.status == 200 && honest.body.contains("honest"));
        for name in NAMES {
            let url = url(&name.replace("<secret>", &absolute));
            // A request that makes no sense may also end the connection.
            if let Ok(answer) = http::get(&url) {
                assert!(!answer.body.contains(SECRET), "{url}: {}", answer.body);
                assert_ne!(answer.status, 500, "{url}: {}", answer.body);
            }
        }
    }
    let application = id.application_id();
    cluster
        .rm
        .order(|orders| orders.applications_to_cleanup.push(application.into()));
    let aggregated = wait::until("the aggregated logs", DEADLINE, || {
        files::the_aggregated(remote.path())
    });
    let text = String::from_utf8_lossy(&aggregated);
    assert!(text.contains("honest") && !text.contains(SECRET));
}
