//! The node and its ResourceManager: connecting, losing it, registering again, keys.

use std::time::Duration;

use records::ContainerId;
use test_support::LaunchContext;
use test_support::scripted::{ScriptedAm, ScriptedRm};
use tests::node_process::{NodeProcess, node_kind};
use tests::ports::Port;
use wire::exception::HadoopException;
use wire::proto::hadoop_yarn::ContainerSubStateProto::CssRunning;
use wire::proto::hadoop_yarn::NodeActionProto;

use crate::AGENT;
use crate::contract::cluster;

/// Deadline for a step that a node takes by itself, on a machine that is busy building.
const DEADLINE: Duration = Duration::from_secs(60);

#[test]
fn a_node_waits_visibly_for_a_resource_manager_that_is_not_there_yet() {
    let port = Port::reserve().release();
    let mut node = NodeProcess::start_toward(&node_kind(AGENT), port, |_| {});
    node.process
        .wait_log(&format!("127.0.0.1:{port}"), DEADLINE);
    let rm = ScriptedRm::start_at(port);
    let am = ScriptedAm::connect(&rm, 1);
    let id = am.run("true");
    assert_eq!(rm.wait_completed(id).exit_status, 0);
}

#[test]
fn a_node_refused_for_its_version_ends_with_the_resource_managers_words() {
    let words = "Disallowed NodeManager Version 3.4.2, is less than the minimum version 9.9.9";
    let rm = ScriptedRm::start();
    rm.with(|tracker| tracker.refusal = Some(words.to_owned()));
    let mut node = NodeProcess::start(&node_kind(AGENT), &rm, |_| {});
    let exit = node.process.wait_exit(DEADLINE);
    assert!(!exit.success(), "{exit}");
    assert!(node.process.log().contains(words), "{}", node.process.log());
}

#[test]
fn a_node_sent_home_ends_its_containers_and_exits_in_order() {
    let mut cluster = cluster();
    let id = cluster.am.run("exec sleep 600");
    cluster.rm.wait_sub_state(id, CssRunning);
    cluster
        .rm
        .order_action(NodeActionProto::Shutdown, "decommissioned");
    let exit = cluster.node.process.wait_exit(DEADLINE);
    assert_eq!(exit.code(), Some(0));
    assert_eq!(cluster.node.container_processes().len(), 0);
    assert!(cluster.node.process.log().contains("decommissioned"));
    // The ResourceManager has dropped the node: there is nothing to unregister.
    assert_eq!(cluster.rm.with(|tracker| tracker.unregistrations), 0);
}

#[test]
fn a_resync_keeps_what_runs_and_tells_again_what_nobody_acknowledged() {
    let cluster = cluster();
    let gate = cluster.gate("gate");
    let runs = cluster.am.run(&gate.then("true"));
    let [acknowledged, completed] = [cluster.am.run("exit 3"), cluster.am.run("exit 5")];
    for id in [acknowledged, completed] {
        cluster.rm.wait_completed(id);
    }
    cluster.rm.wait_sub_state(runs, CssRunning);
    cluster.rm.acknowledge(acknowledged);
    cluster.rm.wait_heartbeats(2);
    cluster
        .rm
        .order_action(NodeActionProto::Resync, "please register again");
    let again = cluster.rm.wait_registrations(2);
    let mut told: Vec<(ContainerId, i32)> = again
        .container_statuses
        .iter()
        .map(|status| {
            let id = ContainerId::try_from(status.container_id.as_ref().unwrap()).unwrap();
            (id, status.container_exit_status())
        })
        .collect();
    told.sort_unstable();
    assert_eq!(told, [(runs, -1000), (completed, 5)]);
    assert_eq!(again.running_applications.len(), 1);
    gate.open();
    assert_eq!(cluster.rm.wait_completed(runs).exit_status, 0);
    cluster.assert_serves();
}

#[test]
fn a_restarted_resource_manager_gets_its_node_back_and_old_tokens_end() {
    let mut cluster = cluster();
    let gate = cluster.gate("gate");
    let runs = cluster.am.run(&gate.then("true"));
    let old = cluster.am.allocate();
    cluster.rm.restart();
    cluster.rm.wait_registrations(2);
    cluster.rm.wait_heartbeats(1);
    let refusal = cluster
        .am
        .try_start(&old, LaunchContext::command("true"))
        .unwrap_err();
    assert!(refusal.is(HadoopException::InvalidContainer), "{refusal}");
    cluster.am.renew_secrets(&cluster.rm);
    gate.open();
    assert_eq!(cluster.rm.wait_completed(runs).exit_status, 0);
    cluster.assert_serves();
}

#[test]
fn orders_in_a_lost_answer_are_carried_out() {
    let cluster = cluster();
    let id = cluster.am.run("exec sleep 600");
    cluster.rm.wait_sub_state(id, CssRunning);
    // The order is in the very answer that is lost.
    cluster.rm.with(|tracker| {
        tracker.orders().containers_to_cleanup.push(id.into());
        tracker.next_answer = test_support::scripted::Answer::Lost;
    });
    let completed = cluster.rm.wait_completed(id);
    assert_eq!(completed.exit_status, -106, "{completed:?}");
    assert!(cluster.rm.with(|tracker| tracker.repeated) >= 1);
    assert_eq!(cluster.rm.with(|tracker| tracker.registrations.len()), 1);
}

#[test]
fn a_container_that_ends_while_the_resource_manager_is_away_is_reported_when_it_is_back() {
    let cluster = cluster();
    let gate = cluster.gate("gate");
    let id = cluster.am.run(&gate.then("exit 4"));
    cluster.rm.wait_sub_state(id, CssRunning);
    cluster.rm.close();
    gate.open();
    tests::wait::until("the end of the container", DEADLINE, || {
        let status = cluster.am.status(id).unwrap();
        tests::wait::check(status.exit_status() == 4, status.exit_status())
    });
    cluster.rm.open();
    assert_eq!(cluster.rm.wait_completed(id).exit_status, 4);
    cluster.assert_serves();
}

#[test]
fn a_connected_application_master_lives_through_two_key_rolls() {
    let mut cluster = cluster();
    let gate = cluster.gate("gate");
    let id = cluster.am.run(&gate.then("true"));
    let old = cluster.am.allocate();
    cluster.rm.roll_keys();
    // The old keys stay valid for a while.
    let in_between = cluster.am.run("true");
    assert_eq!(cluster.rm.wait_completed(in_between).exit_status, 0);
    cluster.rm.roll_keys();
    cluster.am.reconnect(&cluster.rm).unwrap();
    assert!(cluster.am.status(id).is_ok());
    let refusal = cluster
        .am
        .try_start(&old, LaunchContext::command("true"))
        .unwrap_err();
    assert!(refusal.is(HadoopException::InvalidToken), "{refusal}");
    gate.open();
    assert_eq!(cluster.rm.wait_completed(id).exit_status, 0);
    // Tokens that the ResourceManager issues now are valid.
    let next = ScriptedAm::connect(&cluster.rm, 2);
    let id = next.run("true");
    assert_eq!(cluster.rm.wait_completed(id).exit_status, 0);
}

#[test]
fn an_acknowledged_container_is_forgotten_and_stopping_it_again_is_no_error() {
    let cluster = cluster();
    let id = cluster.am.run("true");
    cluster.rm.wait_completed(id);
    assert!(cluster.am.status(id).is_ok());
    cluster.rm.acknowledge(id);
    cluster.rm.wait_heartbeats(2);
    let refusal = cluster.am.status(id).unwrap_err();
    let message = &refusal.exception().message;
    assert!(message.contains("was recently stopped"), "{message}");
    cluster.am.stop(id).unwrap();
}

#[test]
fn an_application_that_ends_takes_its_containers_and_folders_along() {
    let cluster = cluster();
    let id = cluster.am.run("exec sleep 600");
    cluster.rm.wait_sub_state(id, CssRunning);
    let application = id.application_id();
    cluster
        .rm
        .order(|orders| orders.applications_to_cleanup.push(application.into()));
    assert_eq!(cluster.rm.wait_completed(id).exit_status, -107);
    let folder = cluster
        .node
        .local_dir()
        .join("usercache")
        .join(test_support::current_user())
        .join("appcache")
        .join(application.to_string());
    tests::wait::until("the end of the folder", DEADLINE, || {
        tests::wait::check(!folder.exists(), folder.display().to_string())
    });
}
