//! Containers of a secure cluster as the accounts of those who submit them.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use tempfile::TempDir;
use tests::accounts::{Accounts, readable_by, uid};
use tests::cluster::{JOB_DEADLINE, PRINT_BEGIN};
use tests::conf::Options;
use tests::distributed_shell::ContainerType;
use tests::yarn_logs::{contents, wait_aggregated, yarn_logs};
use tests::{hadoop, proc, require};

use super::jobs::{SecureCluster, with_logs};

/// Hadoop's jars where every user reads them.
fn jars() -> TempDir {
    let folder = tempfile::Builder::new().prefix("nm-agent-jars-").tempdir();
    let folder = folder.unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(folder.path(), mode).unwrap();
    for entry in fs::read_dir(hadoop::jars()).unwrap() {
        let path = entry.unwrap().path();
        let copy = folder.path().join(path.file_name().unwrap());
        if fs::hard_link(&path, &copy).is_err() {
            fs::copy(&path, &copy).unwrap();
        }
    }
    folder
}

fn as_submitters(options: Options, jars: &Path) -> Options {
    let class = "org.apache.hadoop.yarn.server.nodemanager.LinuxContainerExecutor";
    let class_path = format!("$HADOOP_CONF_DIR,{}/*", jars.display());
    with_logs(options)
        .with("yarn.nodemanager.container-executor.class", class)
        .with("yarn.nodemanager.agent.accept-unsafe", "")
        .with("yarn.application.classpath", class_path)
}

#[test]
fn containers_are_processes_of_their_user_and_no_other_user_reads_what_they_write() {
    require!(java, hadoop, kerberos, accounts);
    let _accounts = Accounts::make(&["alice", "bob"]);
    let jars = jars();
    let secure = SecureCluster::start("authentication", |options| {
        as_submitters(options, jars.path())
    });
    let cluster = &secure.cluster;
    let gate = cluster.gate("gate");
    let command = format!(
        "({PRINT_BEGIN}; id -un; echo secret > secret.txt; {})",
        gate.wait_command()
    );
    let mut shell = cluster.submit("secure-users", &command, 2, ContainerType::Guaranteed);
    let id = shell.application_id();
    cluster.wait_begun(&id, 2);
    let running = proc::containers(cluster.lab.folder());
    assert!(running.len() >= 3, "a master and two: {running:?}");
    for process in &running {
        let owner = fs::metadata(format!("/proc/{}", process.pid))
            .unwrap()
            .uid();
        assert_eq!(owner, uid("alice"), "{process:?}");
    }
    let site = &cluster.node.site;
    let (local, logs) = (site.local_dir(), site.log_dir());
    let folders = [local.as_path(), &logs];
    // What the search of bob would find if it were open.
    let alices = readable_by("alice", &folders);
    for name in [
        "secret.txt",
        "container_tokens",
        "launch_container.sh",
        "stdout",
    ] {
        let is_found = alices.iter().any(|path| path.ends_with(name));
        assert!(is_found, "{name} in {alices:?}");
    }
    assert_eq!(readable_by("bob", &folders), [""; 0]);
    gate.open();
    shell.assert_succeeds(JOB_DEADLINE);
    wait_aggregated(&cluster.rm, &id);
    let printed = yarn_logs(&cluster.lab, &["-applicationId", &id]);
    let outputs = contents(&printed, "stdout");
    assert_eq!(outputs.len(), 2, "{printed}");
    assert!(
        outputs.iter().all(|output| output.contains("alice")),
        "{printed}"
    );
    secure.assert_logs_are_alices();
    assert_eq!(readable_by("bob", &folders), [""; 0]);
}
