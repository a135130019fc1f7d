//! Aggregated logs: the agent writes them, `yarn logs` reads them.

use std::fs;
use std::path::{Path, PathBuf};

use tests::cluster::{Cluster, JOB_DEADLINE, SLOT_MB, STATE_DEADLINE};
use tests::conf::Options;
use tests::distributed_shell::{self, ContainerType, Job};
use tests::native_shell::NativeShell;
use tests::node::{Node, NodeKind};
use tests::rm::RmKind;
use tests::wait;
use tests::yarn_logs::{contents, wait_aggregated, yarn_logs};

use crate::AGENT;
use crate::interop::{mini_rm, start_cluster};

/// Text of a container: more than a chunk and than a block of the file.
const COMMAND: &str = "(echo $CONTAINER_ID; seq 1 60000; echo oops >&2)";

/// Options of a cluster whose nodes aggregate logs.
fn options() -> Options {
    Options::default()
        .with("yarn.log-aggregation-enable", true)
        .with(
            "yarn.nodemanager.remote-app-log-dir",
            "${hadoop.tmp.dir}/remote-logs",
        )
}

/// Returns such options with the stock setting of HDP.
fn indexed() -> Options {
    let controller = "org.apache.hadoop.yarn.logaggregation.filecontroller.ifile.LogAggregationIndexedFileController";
    options()
        .with("yarn.log-aggregation.file-formats", "IndexedFormat,TFile")
        .with(
            "yarn.log-aggregation.file-controller.IndexedFormat.class",
            controller,
        )
}

/// Returns the folder of an application's aggregated logs.
fn remote_folder(cluster: &Cluster, application_id: &str) -> PathBuf {
    remote_folder_of(cluster, "tfile", application_id)
}

/// Returns the folder of an application's aggregated logs in a format.
fn remote_folder_of(cluster: &Cluster, format: &str, application_id: &str) -> PathBuf {
    let (_, number) = application_id.rsplit_once('_').unwrap();
    let root = cluster.lab.folder().join("tmp/remote-logs");
    root.join(cluster.lab.user())
        .join(format!("bucket-logs-{format}"))
        .join(number)
        .join(application_id)
}

fn remote_names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<_> = names.filter(|name| !name.starts_with('.')).collect();
    names.sort();
    names
}

fn expected(container_id: &str) -> String {
    let numbers = (1..=60_000).map(|number| format!("{number}\n"));
    format!("{container_id}\n{}", numbers.collect::<String>())
}

#[test]
fn yarn_logs_prints_what_containers_wrote_also_while_they_run() {
    tests::require!(java, hadoop);
    let options = options()
        .with(
            "yarn.nodemanager.log-aggregation.roll-monitoring-interval-seconds",
            1,
        )
        .with("yarn.nodemanager.log-aggregation.debug-enabled", true);
    let cluster = start_cluster(&RmKind::Hadoop, 4, options);
    logs_of_a_finished_application(&cluster);
    logs_of_a_running_application(&cluster, "tfile");
}

/// The stock setting of HDP. Each upload has a file of its own with its own index.
#[test]
fn yarn_logs_reads_the_indexed_format_also_while_containers_run() {
    tests::require!(java, hadoop);
    let options = indexed()
        .with("yarn.nodemanager.log-aggregation.compression-type", "gz")
        .with(
            "yarn.nodemanager.log-aggregation.roll-monitoring-interval-seconds",
            1,
        )
        .with("yarn.nodemanager.log-aggregation.debug-enabled", true);
    let cluster = start_cluster(&RmKind::Hadoop, 4, options);
    logs_of_a_running_application(&cluster, "indexedformat");
}

/// One reader takes one format for an application, so a cluster of both kinds of nodes needs it
/// from each of them.
#[test]
fn yarn_logs_reads_one_application_of_a_java_node_and_of_ours_in_the_indexed_format() {
    tests::require!(java, hadoop);
    let cluster = start_cluster(&RmKind::Hadoop, 2, indexed());
    let java = Node::start_registered(&cluster.lab, &NodeKind::Java, "java", &cluster.rm);
    let gate = cluster.gate("both");
    let command = format!("(echo $CONTAINER_ID; {})", gate.wait_command());
    // With the ApplicationMaster they fill both nodes.
    let mut shell = cluster.submit("mixed", &command, 3, ContainerType::Guaranteed);
    let id = shell.application_id();
    wait::until("all containers at the gate", STATE_DEADLINE, || {
        let begun = [&cluster.node, &java].map(|node| {
            let outputs = node.logs(&id).files("stdout");
            outputs
                .values()
                .filter(|text| text.starts_with("container_"))
                .count()
        });
        wait::check(
            begun.iter().sum::<usize>() == 3 && begun[1] > 0,
            format!("{begun:?}"),
        )
    });
    gate.open();
    shell.assert_succeeds(JOB_DEADLINE);
    wait_aggregated(&cluster.rm, &id);
    let mut files = [&cluster.node, &java].map(|node| node.id().replace(':', "_"));
    files.sort();
    let folder = remote_folder_of(&cluster, "indexedformat", &id);
    assert_eq!(remote_names(&folder), files);
    let printed = yarn_logs(&cluster.lab, &["-applicationId", &id]);
    let mut outputs = contents(&printed, "stdout");
    outputs.retain(|output| !output.is_empty());
    outputs.sort_unstable();
    let headings = printed
        .lines()
        .filter(|line| line.starts_with("Container: "));
    let mut told: Vec<_> = headings
        .filter_map(|line| line.split_whitespace().nth(1))
        .collect();
    told.sort_unstable();
    told.dedup();
    assert_eq!(told.len(), 4, "{printed}");
    let of_shell: Vec<_> = told[1..].iter().map(|id| format!("{id}\n")).collect();
    assert_eq!(outputs, of_shell, "{printed}");
    // Each file was read: the reader names it with its containers.
    for file in files {
        assert!(
            printed.contains(&format!(" on {file}")),
            "{file}: {printed}"
        );
    }
}

/// A container writes a file that its application names as rolled, and one that only ends with it.
fn logs_of_a_running_application(cluster: &Cluster, format: &str) {
    let gate = cluster.gate("rolled");
    let command = format!(
        "(echo open; echo early > $LOG_DIRS/part.1; {}; echo late > $LOG_DIRS/part.2)",
        gate.wait_command()
    );
    let job = Job {
        command: &command,
        containers: 1,
        memory_mb: SLOT_MB,
        container_type: ContainerType::Guaranteed,
    };
    let pattern = ["-rolling_log_pattern", "part"];
    let mut shell = distributed_shell::start_with(&cluster.lab, "rolling", &job, &pattern);
    let id = shell.application_id();
    let folder = remote_folder_of(cluster, format, &id);
    wait::until("a first upload", STATE_DEADLINE, || {
        let names = remote_names(&folder);
        wait::check(names.len() == 1, format!("{names:?}"))
    });
    let printed = yarn_logs(&cluster.lab, &["-applicationId", &id]);
    // What is not rolled comes from the node, with no line break of its own behind it. The node has
    // deleted the other file.
    assert_eq!(contents(&printed, "stdout"), ["open"], "{printed}");
    assert!(cluster.node.logs(&id).files("part.1").is_empty());
    gate.open();
    shell.assert_succeeds(JOB_DEADLINE);
    wait_aggregated(&cluster.rm, &id);
    let printed = yarn_logs(&cluster.lab, &["-applicationId", &id]);
    for (name, content) in [
        ("part.1", "early\n"),
        ("part.2", "late\n"),
        ("stdout", "open\n"),
    ] {
        assert_eq!(contents(&printed, name), [content], "{name}: {printed}");
    }
}

fn logs_of_a_finished_application(cluster: &Cluster) {
    let mut shell = cluster.submit("logs", COMMAND, 2, ContainerType::Guaranteed);
    let id = shell.application_id();
    shell.assert_succeeds(JOB_DEADLINE);
    wait_aggregated(&cluster.rm, &id);

    let node = cluster.node.id().replace(':', "_");
    assert_eq!(remote_names(&remote_folder(cluster, &id)), [node]);

    let all = yarn_logs(&cluster.lab, &["-applicationId", &id]);
    let mut outputs = contents(&all, "stdout");
    outputs.sort_unstable();
    let ids: Vec<_> = outputs
        .iter()
        .map(|it| it.lines().next().unwrap())
        .collect();
    assert_eq!(ids.len(), 2, "{ids:?}");
    for (id, output) in ids.iter().zip(&outputs) {
        assert!(**output == expected(id), "the output of {id} differs");
    }
    assert_eq!(contents(&all, "stderr"), ["oops\n", "oops\n"]);
    assert!(all.contains("LogType:AppMaster.stderr"));

    let one = yarn_logs(
        &cluster.lab,
        &["-containerId", ids[1], "-log_files", "stdout"],
    );
    assert_eq!(contents(&one, "stdout"), [expected(ids[1])]);
    assert!(
        contents(&one, "stderr").is_empty(),
        "only the file asked for"
    );

    let master = yarn_logs(&cluster.lab, &["-applicationId", &id, "-am", "ALL"]);
    assert!(master.contains("LogType:AppMaster.stderr"), "{master}");
    assert!(contents(&master, "stdout").is_empty());

    wait::until("the end of the local logs", STATE_DEADLINE, || {
        let left = cluster.node.logs(&id).files("stdout");
        wait::check(left.is_empty(), format!("{:?}", left.keys()))
    });
    // The application is forgotten with them, so that links lead to the log server.
    let page = format!("/node/containerlogs/{}/{}", ids[0], cluster.lab.user());
    let answer = cluster.node.get(&page).unwrap();
    assert!(
        answer.body.contains("redirect url to the log server"),
        "{}",
        answer.body
    );
}

#[test]
fn a_policy_chooses_the_containers_whose_logs_are_uploaded() {
    tests::require!(java, hadoop);
    let failed = "org.apache.hadoop.yarn.server.nodemanager.containermanager.logaggregation.FailedContainerLogAggregationPolicy";
    let options = options()
        .with("yarn.nodemanager.log-aggregation.policy.class", failed)
        .with("yarn.nodemanager.log-aggregation.compression-type", "gz");
    let cluster = start_cluster(&mini_rm(), 4, options);
    let run = |name: &str, command: &str| {
        let arguments = ["-n", "2", "--", "sh", "-c", command];
        let mut shell = NativeShell::start(&cluster.lab, Path::new(AGENT), name, &arguments);
        let id = shell.application_id();
        let _ended = shell.outcome(JOB_DEADLINE);
        id
    };
    let succeeding = run("succeeding", "echo fine");
    let failing = run("failing", "echo $CONTAINER_ID; exit 7");
    let folder = remote_folder(&cluster, &failing);
    let node = cluster.node.id().replace(':', "_");
    wait::until("the aggregated logs", STATE_DEADLINE, || {
        let names = remote_names(&folder);
        wait::check(names == [node.as_str()], format!("{names:?}"))
    });
    let printed = yarn_logs(&cluster.lab, &["-applicationId", &failing]);
    let outputs = contents(&printed, "stdout");
    // The master has failed as well.
    let of_tasks = outputs.iter().filter(|it| it.starts_with("container_"));
    assert_eq!(of_tasks.count(), 2, "{printed}");
    assert!(remote_names(&remote_folder(&cluster, &succeeding)).is_empty());
}
