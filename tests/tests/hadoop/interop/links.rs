//! Links in the ResourceManager's pages lead to the node's pages.

use serde_json::Value;
use tests::cluster::{JOB_DEADLINE, PRINT_BEGIN, STATE_DEADLINE};
use tests::conf::Options;
use tests::distributed_shell::ContainerType;
use tests::rm::RmKind;
use tests::{http, wait};

use crate::interop::start_cluster;

with_each_rm!(links_of_the_rm_lead_to_the_node_and_to_the_logs_of_containers,);

/// Gets a page that must exist.
#[track_caller]
fn page(url: &str) -> String {
    let answer = http::get(url).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(
        answer.status, 200,
        "{url} answered {}: {}",
        answer.status, answer.body
    );
    answer.body
}

#[track_caller]
fn text(value: &Value) -> String {
    value
        .as_str()
        .unwrap_or_else(|| panic!("not a text: {value}"))
        .to_owned()
}

/// Adds the scheme that some of the RM's links leave out.
fn absolute(link: &str) -> String {
    if link.starts_with("//") {
        format!("http:{link}")
    } else {
        link.to_owned()
    }
}

fn links_of_the_rm_lead_to_the_node_and_to_the_logs_of_containers(rm: &RmKind) {
    let cluster = start_cluster(rm, 4, Options::default());
    let gate = cluster.gate("gate");
    let command = format!("({PRINT_BEGIN}; echo 'a <b> & c'; {})", gate.wait_command());
    let mut shell = cluster.submit("guaranteed", &command, 1, ContainerType::Guaranteed);
    let id = shell.application_id();
    cluster.wait_begun(&id, 1);

    let node = cluster.node.at_rm(&cluster.rm).unwrap();
    let address = text(&node["nodeHTTPAddress"]);
    assert!(!page(&format!("http://{address}/")).is_empty());
    let info = http::get_json(&format!("http://{address}/ws/v1/node/info")).unwrap();
    assert_eq!(info["nodeInfo"]["id"], cluster.node.id().as_str());

    let attempt = cluster.rm.attempts(&id).unwrap().remove(0);
    let master_logs = absolute(&text(&attempt["logsLink"]));
    assert!(
        page(&master_logs).contains("AppMaster.stderr"),
        "{master_logs}"
    );

    let containers = wait::until("two containers at the RM", STATE_DEADLINE, || {
        let containers = cluster
            .rm
            .containers(&id, &text(&attempt["appAttemptId"]))?;
        if containers.len() == 2 {
            Ok(containers)
        } else {
            Err(format!("{containers:?}"))
        }
    });
    let master = text(&attempt["containerId"]);
    let container = containers
        .iter()
        .find(|container| container["containerId"] != master.as_str())
        .unwrap();
    let logs = absolute(&text(&container["logUrl"]));
    assert!(page(&logs).contains("stdout"), "{logs}");
    let stdout = page(&format!("{logs}/stdout/?start=0"));
    assert!(stdout.contains("a &lt;b&gt; &amp; c"), "{stdout}");

    gate.open();
    shell.assert_succeeds(JOB_DEADLINE);
    // The logs stay readable while the node knows the application.
    assert!(page(&format!("{logs}/stdout/?start=0")).contains("a &lt;b&gt; &amp; c"));
}
