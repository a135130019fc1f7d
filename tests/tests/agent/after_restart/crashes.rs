//! An agent that crashes again and again: what was in progress each time is given up, and nothing
//! else is. The crash is an abort, as of an allocation that fails.

use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::Command;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use records::ContainerId;
use test_support::scripted::ScriptedAm;
use tests::hostile_hdfs::{HostileHdfs, Lie, Moment};
use tests::scripted_cluster::ScriptedCluster;
use tests::{http, proc, wait};
use wire::proto::hadoop_yarn::LocalResourceVisibilityProto as Visibility;

use super::{DEADLINE, start, wait_stored};
use crate::AGENT;
use crate::bad_input::hdfs_peers::context;

/// Ends the agent by a signal and starts it again.
fn end(cluster: &mut ScriptedCluster, signal: Signal) {
    let registrations = cluster.rm.with(|tracker| tracker.registrations.len());
    let agent = proc::agent_below(cluster.node.process.id());
    kill(Pid::from_raw(agent.cast_signed()), signal).unwrap();
    let exit = cluster.node.process.wait_exit(DEADLINE);
    let status = exit
        .code()
        .or_else(|| exit.signal().map(|number| 128 + number));
    assert_eq!(status, Some(128 + signal as i32), "{exit}");
    cluster.node.start_agent_again(Path::new(AGENT));
    cluster.rm.wait_registrations(registrations + 1);
    wait_stored(cluster);
}

/// Aborts the agent and starts it again.
pub(crate) fn crash(cluster: &mut ScriptedCluster) {
    end(cluster, Signal::SIGABRT);
}

/// Returns a gauge of the agent.
pub(crate) fn gauge(cluster: &ScriptedCluster, name: &str) -> Result<f64, String> {
    let registrations = cluster.rm.with(|tracker| tracker.registrations.len());
    let port = cluster.rm.wait_registrations(registrations).http_port();
    let text = http::get(&format!("http://localhost:{port}/metrics"))?.body;
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    let value = line.and_then(|value| value.trim().parse().ok());
    value.ok_or_else(|| format!("no {name} in {text}"))
}

/// Waits until so many works of earlier agents wait for others.
pub(crate) fn wait_held(cluster: &ScriptedCluster, works: f64) {
    wait::until("works that are held", DEADLINE, || {
        let held = gauge(cluster, "nm_agent_recovery_held_works ")?;
        wait::check(held == works, format!("{held} are held"))
    });
    wait_stored(cluster);
}

/// Starts a container whose file comes from a NameNode that answers nothing.
fn start_waiting(cluster: &ScriptedCluster, hdfs: &HostileHdfs, application: i32) -> ContainerId {
    let am = ScriptedAm::connect(&cluster.rm, application);
    let context = context(hdfs, Visibility::Private);
    am.try_start(&am.allocate(), context).unwrap()
}

fn status(cluster: &ScriptedCluster) -> String {
    let mut command = Command::new(AGENT);
    let conf = cluster.node.conf_dir();
    let output = command.arg("status").arg("--conf").arg(conf).output();
    let output = output.unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn a_localization_at_two_crashes_in_a_row_fails_its_container_and_no_other() {
    let mut cluster = start(|site| {
        site.set("ipc.client.rpc-timeout.ms", 600_000);
    });
    let gate = cluster.gate("honest");
    let honest = cluster.am.run(&gate.then("exit 7"));
    let hdfs = HostileHdfs::start(Moment::NameNode, Lie::Silence);
    let fatal = start_waiting(&cluster, &hdfs, 2);
    wait_stored(&cluster);
    // Orders from outside are no crashes.
    for _ in 0..3 {
        end(&mut cluster, Signal::SIGKILL);
        assert_eq!(gauge(&cluster, "nm_agent_recovery_failed_works "), Ok(0.0));
    }
    crash(&mut cluster);
    wait_held(&cluster, 0.0);
    crash(&mut cluster);
    let failed = cluster.rm.wait_completed(fatal);
    assert!(failed.diagnostics.contains("two crashes"), "{failed:?}");
    assert_eq!(gauge(&cluster, "nm_agent_recovery_failed_works "), Ok(1.0));
    let told = status(&cluster);
    let line = format!("recovery          start of {fatal} failed");
    assert!(told.contains(&line), "{told}");
    gate.open();
    assert_eq!(cluster.rm.wait_completed(honest).exit_status, 7);
}

#[test]
fn of_several_localizations_the_one_that_was_tried_alone_fails() {
    let mut cluster = start(|site| {
        site.set("ipc.client.rpc-timeout.ms", 600_000);
    });
    let hdfs = HostileHdfs::start(Moment::NameNode, Lie::Silence);
    let ids = [2, 3, 4].map(|application| start_waiting(&cluster, &hdfs, application));
    wait_stored(&cluster);
    crash(&mut cluster);
    wait_held(&cluster, 0.0);
    crash(&mut cluster);
    // The first is tried, and the others wait until it has gone well, which it does not.
    wait_held(&cluster, 2.0);
    let told = status(&cluster);
    assert!(
        told.contains("recovery          after a crash, 2 works"),
        "{told}"
    );
    crash(&mut cluster);
    let failed = cluster.rm.wait_completed(ids[0]);
    assert!(failed.diagnostics.contains("two crashes"), "{failed:?}");
    assert_eq!(gauge(&cluster, "nm_agent_recovery_failed_works "), Ok(1.0));
    let others = |id: &ContainerId| cluster.rm.with(|tracker| tracker.status(*id).is_some());
    assert!(ids[1..].iter().all(others), "the others go on");
}
