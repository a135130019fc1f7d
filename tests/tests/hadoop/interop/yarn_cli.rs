//! Hadoop's command line tool on a node with a running job. What it prints is what it prints of a
//! Java NodeManager: the same test passes with one (`NM_AGENT_TEST_NODE=java`).

use serde_json::Value;
use tests::cluster::{Cluster, JOB_DEADLINE, PRINT_BEGIN, STATE_DEADLINE};
use tests::conf::Options;
use tests::distributed_shell::ContainerType;
use tests::rm::RmKind;
use tests::yarn_cli::Printed;
use tests::{wait, yarn_cli};

use crate::interop::start_cluster;

/// Ids of a job with one container beside its master's.
struct Job {
    application: String,
    attempt: String,
    master: String,
    container: String,
}

impl Job {
    /// Returns the ids once both containers run.
    #[track_caller]
    fn running(cluster: &Cluster, application: String) -> Self {
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let newest = cluster.rm.attempts(&application).unwrap().remove(0);
        let (attempt, master) = (text(&newest["appAttemptId"]), text(&newest["containerId"]));
        let container = wait::until("a second container", STATE_DEADLINE, || {
            let containers = cluster.rm.containers(&application, &attempt)?;
            let ids = containers.iter().map(|each| text(&each["containerId"]));
            let mut others = ids.filter(|id| *id != master);
            others.next().ok_or_else(|| "only the master".to_owned())
        });
        Self {
            application,
            attempt,
            master,
            container,
        }
    }
}

/// Runs commands, which must succeed.
#[track_caller]
fn run<const N: usize>(cluster: &Cluster, commands: [&str; N]) -> [String; N] {
    let printed = yarn_cli::run(&cluster.lab, &commands);
    let texts = printed.into_iter().map(|Printed { status, text }| {
        assert_eq!(status, 0, "{text}");
        text
    });
    texts.collect::<Vec<_>>().try_into().unwrap()
}

/// Returns the values behind `name` and a colon, a line each.
fn values<'a>(text: &'a str, name: &str) -> Vec<&'a str> {
    let lines = text.lines().map(str::trim);
    let named = lines.filter_map(|line| line.strip_prefix(name)?.trim_start().strip_prefix(':'));
    named.map(str::trim).collect()
}

#[test]
fn yarn_commands_show_the_node_and_its_containers() {
    tests::require!(java, hadoop);
    let cluster = start_cluster(&RmKind::Hadoop, 4, Options::default());
    let gate = cluster.gate("gate");
    let command = format!("({PRINT_BEGIN}; echo 'a <b> & c'; {})", gate.wait_command());
    let mut shell = cluster.submit("commands", &command, 1, ContainerType::Guaranteed);
    let id = shell.application_id();
    cluster.wait_begun(&id, 1);
    let job = Job::running(&cluster, id);
    shows_the_node(&cluster);
    shows_and_sets_levels(&cluster);
    shows_the_job(&cluster, &job);
    shows_logs_and_signals(&cluster, &job);
    // The signal ends the container although its gate is closed, so that the job fails.
    let outcome = shell.outcome(JOB_DEADLINE);
    let ends = cluster.node.logs(&job.application).exit_statuses();
    let killed = (job.container, 137);
    assert!(!outcome.succeeded && ends.contains(&killed), "{ends:?}");
}

fn web_address(cluster: &Cluster) -> String {
    let node = cluster.node.at_rm(&cluster.rm).unwrap();
    node["nodeHTTPAddress"].as_str().unwrap().to_owned()
}

fn shows_the_node(cluster: &Cluster) {
    let (node, web) = (cluster.node.id(), web_address(cluster));
    let [list, status] = run(
        cluster,
        ["node -list -all", &format!("node -status {node}")],
    );
    let lines: Vec<_> = list.lines().filter(|line| line.contains(&node)).collect();
    let columns: Vec<_> = lines[0].split_whitespace().collect();
    assert_eq!(lines.len(), 1, "{list}");
    assert_eq!(
        columns,
        [node.as_str(), "RUNNING", web.as_str(), "2"],
        "{list}"
    );
    for (name, value) in [
        ("Node-Id", node.as_str()),
        ("Node-State", "RUNNING"),
        ("Node-Http-Address", web.as_str()),
        ("Containers", "2"),
        ("Memory-Used", "512MB"),
        ("Health-Report", ""),
    ] {
        assert_eq!(values(&status, name), [value], "{name} in {status}");
    }
    // The node measures itself; the first heartbeats may have nothing yet.
    assert_eq!(values(&status, "Resource Utilization by Node").len(), 1);
}

fn shows_and_sets_levels(cluster: &Cluster) {
    let web = web_address(cluster);
    let logger = "org.apache.hadoop.yarn.server.nodemanager.containermanager.localizer";
    let printed = run(
        cluster,
        [
            &format!("daemonlog -setlevel {web} {logger} WARN"),
            &format!("daemonlog -getlevel {web} {logger}"),
            &format!("daemonlog -setlevel {web} {logger} INFO"),
        ],
    );
    for (printed, level) in printed.iter().zip(["WARN", "WARN", "INFO"]) {
        assert_eq!(values(printed, "Submitted Class Name"), [logger]);
        assert_eq!(values(printed, "Effective Level"), [level], "{printed}");
    }
}

fn shows_the_job(cluster: &Cluster, job: &Job) {
    let web = web_address(cluster);
    let [app, containers, one] = run(
        cluster,
        [
            &format!("application -status {}", job.application),
            &format!("container -list {}", job.attempt),
            &format!("container -status {}", job.container),
        ],
    );
    assert_eq!(values(&app, "State"), ["RUNNING"], "{app}");
    assert_eq!(values(&app, "Log Aggregation Status"), ["DISABLED"]);
    for id in [&job.master, &job.container] {
        let line = containers.lines().find(|line| line.contains(id.as_str()));
        let line = line.unwrap_or_else(|| panic!("{id} in {containers}"));
        let link = format!(
            "http://{web}/node/containerlogs/{id}/{}",
            cluster.lab.user()
        );
        assert!(line.contains("RUNNING") && line.contains(&link), "{line}");
    }
    let link = format!(
        "http://{web}/node/containerlogs/{}/{}",
        job.container,
        cluster.lab.user()
    );
    let host = cluster.node.id();
    for (name, value) in [
        ("Container-Id", job.container.as_str()),
        ("State", "RUNNING"),
        ("Execution-Type", "GUARANTEED"),
        ("Host", host.as_str()),
        ("LOG-URL", link.as_str()),
    ] {
        assert_eq!(values(&one, name), [value], "{name} in {one}");
    }
}

fn shows_logs_and_signals(cluster: &Cluster, job: &Job) {
    let Job {
        application,
        container,
        ..
    } = job;
    let [all, part, files, _signalled] = run(
        cluster,
        [
            &format!("logs -applicationId {application} -containerId {container}"),
            &format!("logs -containerId {container} -log_files stdout -size 5"),
            &format!(
                "logs -applicationId {application} -containerId {container} -show_container_log_info"
            ),
            &format!("container -signal {container} FORCEFUL_SHUTDOWN"),
        ],
    );
    for text in [
        "LogType:stdout\n",
        "a <b> & c\n",
        "LogType:stderr\n",
        "LogType:prelaunch.out\n",
    ] {
        assert!(all.contains(text), "{text} in {all}");
    }
    assert!(
        all.contains("This log file belongs to a running container"),
        "{all}"
    );
    let (_, content) = part.split_once("LogContents:\n").unwrap();
    let (content, _) = content.split_once("End of LogType:stdout").unwrap();
    assert_eq!(content.len(), 5, "{part}");
    let line = files.lines().find(|line| line.trim().starts_with("stdout"));
    assert!(line.is_some_and(|line| line.ends_with("LOCAL")), "{files}");
}
