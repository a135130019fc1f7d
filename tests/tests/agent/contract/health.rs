//! The node's health in registrations, heartbeats and pages, with health scripts.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use test_support::mounts::{set_writable, with_own_mounts};
use test_support::{LaunchContext, write_program};
use tests::cgroups::Hierarchy;
use tests::{http, wait};

use crate::contract::cluster_with;

/// Deadline for what takes an instant on an idle machine.
const DEADLINE: Duration = Duration::from_secs(60);

#[test]
fn a_faulty_machine_registers_as_such_and_is_well_when_its_script_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let (script, faulty) = (folder.path().join("script"), folder.path().join("faulty"));
    let text = "#!/bin/sh\n[ ! -e \"$1\" ] || echo ERROR no fan\n";
    write_program(&script, text);
    fs::write(&faulty, "").unwrap();
    let checker = "yarn.nodemanager.health-checker";
    let cluster = cluster_with(|site| {
        site.set(format!("{checker}.scripts"), "fans,absent")
            .set(format!("{checker}.fans.path"), script.display())
            .set(format!("{checker}.fans.opts"), faulty.display())
            .set(format!("{checker}.absent.path"), "/no/such/script")
            .set(format!("{checker}.run-before-startup"), true)
            .set(format!("{checker}.interval-ms"), 20);
    });
    let registered = cluster.rm.wait_registrations(1);
    let health = registered.node_status.unwrap().node_health_status.unwrap();
    assert!(!health.is_node_healthy(), "{health:?}");
    assert_eq!(health.health_report(), "ERROR no fan\n");
    let port = registered.http_port.unwrap();
    let page = http::get(&format!("http://127.0.0.1:{port}/health")).unwrap();
    assert_eq!(
        (page.status, page.body.as_str()),
        (503, "unhealthy: ERROR no fan\n\n")
    );
    // It is the ResourceManager that sends no containers; one that comes all the same runs.
    cluster.assert_serves();
    fs::remove_file(&faulty).unwrap();
    cluster.rm.wait("a healthy node", |tracker| {
        let last = tracker.heartbeats.back()?.node_health_status.as_ref()?;
        (last.is_node_healthy() && last.health_report().is_empty()).then_some(())
    });
    wait::until("a healthy page", DEADLINE, || {
        let page = http::get(&format!("http://127.0.0.1:{port}/health"))?;
        wait::check(page.status == 200, page.body)
    });
}

/// Returns where the machine's hierarchies of cgroups are mounted.
fn cgroup_mounts() -> Vec<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mounts").expect("/proc is mounted");
    let fields = mounts.lines().map(|line| line.split(' '));
    let of_cgroups = fields.filter_map(|mut fields| {
        let path = fields.nth(1)?;
        let is_wanted = matches!(fields.next()?, "cgroup" | "cgroup2");
        is_wanted.then(|| Path::new(path).to_owned())
    });
    of_cgroups.collect()
}

/// The node needs a cgroup for each process, and can make none while their file systems take no
/// changes. Nobody else on the machine notices.
#[test]
fn a_node_on_which_every_launch_fails_says_so_until_one_succeeds() {
    let test = "a_node_on_which_every_launch_fails_says_so_until_one_succeeds";
    let Some(hierarchy) = Hierarchy::for_test(test) else {
        return;
    };
    with_own_mounts(test, || {
        let cluster = cluster_with(|site| hierarchy.configure(site));
        cluster.assert_serves();
        let mounts = cgroup_mounts();
        mounts.iter().for_each(|mount| set_writable(mount, false));
        for _ in 0..12 {
            let context = LaunchContext::command("true");
            let id = cluster.am.try_start(&cluster.am.allocate(), context);
            let completed = cluster.rm.wait_completed(id.unwrap());
            assert_ne!(completed.exit_status, 0, "{completed:?}");
        }
        cluster.rm.wait("a report of failed launches", |tracker| {
            let last = tracker.heartbeats.back()?.node_health_status.as_ref()?;
            let report = last.health_report();
            let parts = ["the last 10 or more launches failed: ", "Read-only"];
            let is_told = parts.iter().all(|part| report.contains(part));
            (!last.is_node_healthy() && is_told).then_some(())
        });
        mounts.iter().for_each(|mount| set_writable(mount, true));
        cluster.assert_serves();
        cluster.rm.wait("a healthy node", |tracker| {
            let last = tracker.heartbeats.back()?.node_health_status.as_ref()?;
            (last.is_node_healthy() && last.health_report().is_empty()).then_some(())
        });
    });
}
