//! The node's health in registrations, heartbeats and pages, with health scripts.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use tests::{http, wait};

use crate::contract::cluster_with;

/// Deadline for what takes an instant on an idle machine.
const DEADLINE: Duration = Duration::from_secs(60);

#[test]
fn a_faulty_machine_registers_as_such_and_is_well_when_its_script_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let (script, faulty) = (folder.path().join("script"), folder.path().join("faulty"));
    let text = "#!/bin/sh\n[ ! -e \"$1\" ] || echo ERROR no fan\n";
    fs::write(&script, text).unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
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
