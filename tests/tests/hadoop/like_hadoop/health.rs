//! Health of a node whose directories or health scripts report a fault.

use std::fs;
use std::path::{Path, PathBuf};

use test_support::{LaunchContext, replace_file, write_program};
use tests::conf::Properties;
use tests::require;
use wire::proto::hadoop_yarn::NodeHealthStatusProto;

use super::twins::{Twin, Twins};

const CHECKER: &str = "yarn.nodemanager.disk-health-checker";

/// Two local directories in the folder of each node.
const LOCAL_DIRS: &str = "${hadoop.tmp.dir}/one,${hadoop.tmp.dir}/two";

fn second_dir(twin: &Twin) -> PathBuf {
    twin.node.folder().join("tmp/two")
}

/// Waits for a heartbeat with this health and returns its report.
fn wait_health(twin: &Twin, is_wanted: impl Fn(&NodeHealthStatusProto) -> bool) -> String {
    let health = twin.rm.wait("a heartbeat with the health", |tracker| {
        let last = tracker.heartbeats.back()?;
        let health = last.node_health_status.as_ref()?;
        is_wanted(health).then(|| health.clone())
    });
    assert!(health.last_health_report_time() > 0, "{health:?}");
    format!("{}: {}", health.is_node_healthy(), health.health_report())
}

fn wait_fault(twin: &Twin) -> String {
    wait_health(twin, |health| !health.is_node_healthy())
}

fn wait_healthy(twin: &Twin) -> String {
    wait_health(twin, NodeHealthStatusProto::is_node_healthy)
}

/// Returns what the node's REST resources say of its health.
fn rest(twin: &Twin) -> String {
    let (status, info) = twin.rest("/info");
    let info = &info["nodeInfo"];
    format!("{status} {} {}", info["nodeHealthy"], info["healthReport"])
}

/// Puts a file in the place of a directory, which is kept beside it.
fn take_away(dir: &Path) {
    fs::rename(dir, dir.with_extension("aside")).unwrap();
    fs::write(dir, "").unwrap();
}

fn give_back(dir: &Path) {
    fs::remove_file(dir).unwrap();
    fs::rename(dir.with_extension("aside"), dir).unwrap();
}

fn often(site: &mut Properties) {
    site.set(format!("{CHECKER}.interval-ms"), 50)
        .set("yarn.nodemanager.health-checker.interval-ms", 50);
}

/// Writes a script that prints what the file `say` beside it holds.
fn script(folder: &Path) -> PathBuf {
    let path = folder.join("script");
    let say = folder.join("say");
    fs::write(&say, "").unwrap();
    write_program(&path, &format!("#!/bin/bash\ncat {}\n", say.display()));
    path
}

/// Replaces the text that the script prints, at once.
fn say(folder: &Path, text: &str) {
    replace_file(&folder.join("say"), text);
}

#[test]
fn a_node_whose_directories_fail_says_what_hadoops_does_and_recovers() {
    require!(java, hadoop);
    let folder = tempfile::tempdir().unwrap();
    let path = script(folder.path());
    let mut twins = Twins::start(|site| {
        often(site);
        site.set(
            "yarn.nodemanager.health-checker.script.path",
            path.display(),
        )
        .set("yarn.nodemanager.local-dirs", LOCAL_DIRS)
        .set(format!("{CHECKER}.min-healthy-disks"), "1.0");
    });
    twins.compare("healthy", |twin| wait_healthy(twin) + &rest(twin));
    twins.each(|twin| take_away(&second_dir(twin)));
    twins.compare("one of two local directories", |twin| {
        wait_fault(twin) + &rest(twin)
    });
    twins.compare("a container without resources", |twin| {
        twin.end_of(10, LaunchContext::command("true"))
    });
    twins.compare("a resource", |twin| {
        let file = twin.file("resource", "x");
        twin.end_of(11, LaunchContext::command("true").file("r", &file))
    });
    say(folder.path(), "checked\nERROR no fan\n");
    twins.compare("script and directory", |twin| {
        wait_health(twin, |health| health.health_report().contains(';'))
    });
    twins.each(|twin| give_back(&second_dir(twin)));
    twins.compare("the script alone", |twin| {
        wait_health(twin, |health| health.health_report().starts_with("checked"))
    });
    say(folder.path(), "");
    twins.compare("recovered", wait_healthy);
    twins.compare("a container after that", |twin| {
        twin.end_of(12, LaunchContext::command("true"))
    });
    twins.each(|twin| take_away(&twin.node.log_dir()));
    twins.compare("no log directory", |twin| wait_fault(twin) + &rest(twin));
    twins.each(|twin| give_back(&twin.node.log_dir()));
    twins.compare("recovered again", wait_healthy);
}

#[test]
fn a_node_with_full_disks_starts_unhealthy_with_hadoops_text() {
    require!(java, hadoop);
    let mut twins = Twins::start(|site| {
        often(site);
        site.set(
            format!("{CHECKER}.max-disk-utilization-per-disk-percentage"),
            0,
        );
    });
    twins.compare("no room by percent", |twin| wait_fault(twin) + &rest(twin));
    // Containers are left out: without any good directory Hadoop fails while it chooses one, with
    // -1 and "No space available", before it finds the node unhealthy. The agent ends them with
    // -101 and the report, which blames the node rather than the application.
    twins.compare("a registration", |twin| {
        let registered = twin.rm.wait_registrations(1);
        let health = registered
            .node_status
            .unwrap_or_default()
            .node_health_status;
        format!("{:?}", health.map(|health| health.is_node_healthy()))
    });
}

#[test]
fn a_node_with_little_free_space_has_hadoops_text() {
    require!(java, hadoop);
    let mut twins = Twins::start(|site| {
        often(site);
        site.set(format!("{CHECKER}.min-free-space-per-disk-mb"), 1_u64 << 40);
    });
    twins.compare("no room by free space", wait_fault);
}
