//! Aggregated logs on HDFS, read by `yarn logs` and through links.

use serde_json::Value;
use tests::map_reduce::job_id;
use tests::{http, yarn_logs};

use super::cluster::{Cluster, LOG_GROUP};
use super::examples::Ended;

/// Gets a page that must exist, following redirects.
#[track_caller]
fn page(url: &str) -> String {
    let answer = http::get(url).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(answer.status, 200, "{url}: {}", answer.body);
    answer.body
}

pub(super) fn logs_are_read_from_hdfs_and_through_the_links_of_the_history_server(
    cluster: &Cluster,
    ended: &Ended,
) {
    for id in [&ended.pi, &ended.wordcount] {
        yarn_logs::wait_aggregated(&cluster.rm, id);
    }
    logs_have_the_group_of_the_root(cluster, &ended.wordcount);
    logs_of_every_container_are_printed(cluster, &ended.wordcount);
    links_lead_to_logs(cluster, &ended.pi);
}

fn logs_have_the_group_of_the_root(cluster: &Cluster, id: &str) {
    let (_, number) = id.rsplit_once('_').unwrap();
    let user = cluster.lab.user();
    let folder = format!("/tmp/logs/{user}/bucket-logs-tfile/{number}/{id}");
    for (path, permission) in [("/tmp/logs", "1777"), (&folder, "770")] {
        let status = cluster.hdfs.rest_status(path);
        assert_eq!(status["group"], LOG_GROUP, "{path}: {status}");
        assert_eq!(status["owner"], user, "{path}: {status}");
        assert_eq!(status["permission"], permission, "{path}: {status}");
    }
}

/// Each container of the job has its logs: one master, three maps and two reducers.
#[track_caller]
fn logs_of_every_container_are_printed(cluster: &Cluster, id: &str) {
    let all = yarn_logs::yarn_logs(&cluster.lab, &["-applicationId", id]);
    let attempts = cluster.history.attempts(&job_id(id));
    assert_eq!(attempts.len(), 5, "{attempts:?}");
    for attempt in &attempts {
        let container = attempt["assignedContainerId"].as_str().unwrap();
        assert!(
            all.contains(&format!("Container: {container} on ")),
            "{container}"
        );
    }
    let logs = yarn_logs::contents(&all, "syslog");
    assert_eq!(logs.len(), 1 + attempts.len());
    for attempt in &attempts {
        // A task writes its own id at its end.
        let done = format!("Task '{}' done.", attempt["id"].as_str().unwrap());
        let found = logs.iter().filter(|log| log.contains(&done)).count();
        assert_eq!(found, 1, "{done}");
    }
    assert_eq!(yarn_logs::contents(&all, "syslog.shuffle").len(), 2);
}

/// The links of the history server's pages, of the ResourceManager and of the node, which has
/// forgotten the application.
#[track_caller]
fn links_lead_to_logs(cluster: &Cluster, id: &str) {
    let job = job_id(id);
    let attempts = cluster.history.of_job(&job, "/jobattempts").unwrap();
    let master = &attempts["jobAttempts"]["jobAttempt"][0];
    // A map that gave way to a guaranteed one may have ended before its first line.
    let attempts = cluster.history.attempts(&job);
    let task = attempts
        .iter()
        .find(|it| it["state"] == "SUCCEEDED")
        .unwrap();
    let task_page = task["id"].as_str().map(|id| {
        let (task, _) = id.rsplit_once('_').unwrap();
        let task = task.replacen("attempt", "task", 1);
        format!("{}/jobhistory/task/{task}", cluster.history.url())
    });
    let of_task = link_to_logs(&page(&task_page.unwrap()), task["id"].as_str().unwrap());
    let of_task = format!("{}{of_task}", cluster.history.url());
    let application = cluster.rm.application(id).unwrap();
    for (link, file) in [
        (link(&master["logsLink"]), "syslog"),
        (of_task, "syslog"),
        (link(&application["amContainerLogs"]), "syslog"),
    ] {
        let overview = page(&link);
        assert!(
            overview.contains(&format!("Log Type: {file}")),
            "{link}: {overview}"
        );
        let whole = page(&format!("{}/{file}/?start=0", link.trim_end_matches('/')));
        assert!(whole.contains(" INFO "), "{link}: {whole}");
    }
}

#[track_caller]
fn link(value: &Value) -> String {
    value
        .as_str()
        .unwrap_or_else(|| panic!("no link: {value}"))
        .to_owned()
}

/// Returns the link to the logs of an attempt in a page.
#[track_caller]
fn link_to_logs(page: &str, attempt: &str) -> String {
    let links = page.split(['"', '\'', '\\', '<', '>']);
    let mut links = links.filter(|link| link.contains("/jobhistory/logs/"));
    let link = links.find(|link| link.contains(attempt));
    link.unwrap_or_else(|| panic!("no link to the logs of {attempt}: {page}"))
        .to_owned()
}
