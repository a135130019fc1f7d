//! Claims about registrations, heartbeats, resyncs and the end of applications.

use std::time::Instant;

use prost::Message as _;
use wire::proto::hadoop_yarn::NodeStatusProto;

use super::*;

#[test]
fn each_registration_is_published() {
    let mut node = Node::new();
    let _wait = node.core.resync(true, node.now);
    node.core.registered(78, None, node.now);
    let published = node.core.take_effects().into_iter().filter_map(|effect| {
        if let Effect::SetRmIdentifier(identifier) = effect {
            Some(identifier)
        } else {
            None
        }
    });
    assert_eq!(published.collect::<Vec<_>>(), [RM_IDENTIFIER, 78]);
}

#[test]
fn a_completion_is_reported_until_it_was_surely_delivered() {
    let mut node = Node::new();
    node.run(1);
    node.exit(1, 3);
    let reported = [(1, COMPLETE, 3)];
    assert_eq!(node.beat(), reported);
    // The heartbeat after one that was not answered: the RM may have taken it for its repetition.
    let orders = HeartbeatOrders::default();
    node.core
        .heartbeat_answered(&Delivery::PerhapsNothing, orders, node.now);
    assert_eq!(node.beat(), reported);
    node.answered(HeartbeatOrders::default());
    assert_eq!(node.beat(), []);
}

#[test]
fn a_container_acknowledged_too_early_stays_in_heartbeats_until_it_is_done() {
    let mut node = Node::new();
    node.run(1);
    node.acknowledge(1);
    assert_eq!(node.beat(), [(1, RUNNING, -1000)]);
    node.exit(1, 0);
    assert_eq!(node.beat(), [(1, COMPLETE, 0)]);
    node.answered(HeartbeatOrders::default());
    assert_eq!(node.beat(), []);
    assert!(node.knows_nothing_of_containers());
}

#[test]
fn an_acknowledged_container_is_forgotten_and_remembered_as_recently_stopped() {
    let mut node = Node::new();
    node.run(1);
    node.exit(1, 0);
    node.acknowledge(1);
    assert!(node.knows_nothing_of_containers());
    let id = container_id(1);
    assert!(node.core.stop_container(asker(), id, node.now).is_ok());
    let error = node
        .core
        .container_status(asker(), id, node.now)
        .unwrap_err();
    assert_eq!(
        error.message,
        format!("Container {id} was recently stopped on node manager.")
    );
}

#[test]
fn the_end_of_an_application_waits_for_a_launch_under_way() {
    let mut node = Node::new();
    node.start(1);
    node.work();
    node.finish_application();
    assert_eq!(node.work(), [Work::Terminate(container_id(1))]);
    assert_eq!(node.beat(), [(1, RUNNING, -107)]);
    node.handle(LaunchEvent::LaunchFailed {
        id: container_id(1),
        status: ContainerExitStatus::TERMINATED,
        diagnostics: "Container terminated before launch.".to_owned(),
        is_of_node: false,
    });
    let done = [Work::CleanUp(container_id(1)), Work::FinishApplication(APP)];
    assert_eq!(node.work(), done);
    assert_eq!(node.beat(), [(1, COMPLETE, -107)]);
    assert!(node.knows_nothing_of_containers());
}

#[test]
fn a_container_of_an_ended_application_is_accepted_killed_and_never_launched() {
    let mut node = Node::new();
    node.run(1);
    node.exit(1, 0);
    node.finish_application();
    node.work();
    assert!(matches!(node.start(2), StartOutcome::Started));
    let asked = node.work();
    assert_eq!(
        asked,
        [Work::CleanUp(container_id(2)), Work::FinishApplication(APP)]
    );
    let statuses = node.core.heartbeat_report(node.now).containers;
    assert_eq!(statuses.len(), 1, "the first one's end was reported before");
    assert_eq!(statuses[0].exit_status(), -107);
    assert!(
        statuses[0]
            .diagnostics()
            .contains("Application no longer running.")
    );
    assert!(node.knows_nothing_of_containers());
}

#[test]
fn logs_go_when_they_are_old_enough_and_the_application_with_them() {
    let mut node = Node::new();
    node.run(1);
    node.exit(1, 0);
    node.finish_application();
    node.work();
    let due = node.core.next_deadline().unwrap();
    node.now.mono = due;
    node.core.tick(node.now);
    assert_eq!(node.work(), [Work::DeleteLogs(APP)]);
    assert_eq!(node.core.next_deadline(), None);
    assert_eq!(node.core.applications.iter().count(), 0);
}

#[test]
fn a_resync_keeps_completions_pending_that_no_registration_carries() {
    let mut node = Node::new();
    node.run(1);
    node.run(2);
    node.exit(1, 0);
    node.finish_application();
    node.exit(2, 143);
    assert!(node.knows_nothing_of_containers());
    assert_eq!(node.core.resync(true, node.now), Wait::Over);
    assert!(node.core.registration_report().containers.is_empty());
    node.core.registered(RM_IDENTIFIER, None, node.now);
    assert_eq!(node.beat(), [(2, COMPLETE, -107)]);
}

#[test]
fn a_registration_carries_the_completions_in_memory() {
    let mut node = Node::new();
    node.run(1);
    node.run(2);
    node.exit(1, 5);
    assert_eq!(node.core.resync(true, node.now), Wait::Over);
    let report = node.core.registration_report();
    let reported: Vec<_> = report
        .containers
        .iter()
        .map(|container| {
            (
                container.container_state(),
                container.container_exit_status(),
            )
        })
        .collect();
    assert_eq!(reported, [(COMPLETE, 5), (RUNNING, -1000)]);
    assert_eq!(report.running_applications, [APP]);
    assert_eq!(node.beat(), [(2, RUNNING, -1000)]);
}

#[test]
fn nothing_starts_between_a_resync_and_the_registration() {
    let mut node = Node::new();
    assert_eq!(node.core.resync(true, node.now), Wait::Over);
    let requests = vec![request(1), request(2)];
    let outcomes = node.core.start_all(asker(), requests, node.now);
    let [StartOutcome::CallFailed(error)] = outcomes.as_slice() else {
        panic!("clients repeat a call only if all of it failed: {outcomes:?}");
    };
    assert!(error.is(HadoopException::NmNotYetReady), "{error}");
    node.core.registered(RM_IDENTIFIER + 1, None, node.now);
    let error = node.refusal(request(1));
    assert!(error.is(HadoopException::InvalidContainer), "{error}");
}

#[test]
fn a_resync_that_keeps_no_containers_waits_for_their_end() {
    let mut node = Node::new();
    node.run(1);
    assert_eq!(node.core.resync(false, node.now), Wait::ForEnds);
    assert!(!node.work().contains(&Work::AllEnded));
    node.exit(1, 143);
    assert!(node.work().contains(&Work::AllEnded));
    let report = node.core.registration_report();
    assert_eq!(report.containers[0].container_exit_status(), -106);
}

#[test]
fn a_stop_ends_all_and_refuses_starts() {
    let mut node = Node::new();
    node.run(1);
    assert_eq!(node.core.stop(node.now), Wait::ForEnds);
    assert!(!node.work().contains(&Work::AllEnded));
    let error = node.refusal(request(2));
    assert!(error.message.contains("in the process of shutting down"));
    node.exit(1, 143);
    assert!(node.work().contains(&Work::AllEnded));
    assert_eq!(node.beat(), [(1, COMPLETE, -107)]);
    assert_eq!(node.core.stop(node.now), Wait::Over, "a second stop");
}

#[test]
fn every_container_is_in_every_heartbeat_until_its_completion_was_reported() {
    let mut node = Node::new();
    for n in 1..=12 {
        let id = container_id(n);
        let kind = if n % 2 == 0 {
            ExecutionType::Opportunistic
        } else {
            ExecutionType::Guaranteed
        };
        let outcome = node.core.start(asker(), request_for(id, kind), node.now);
        assert!(matches!(outcome, StartOutcome::Started), "{outcome:?}");
    }
    let ids = |node: &mut Node| node.beat().iter().map(|(id, ..)| *id).collect::<Vec<_>>();
    let all: Vec<i64> = (1..=12).collect();
    assert_eq!(ids(&mut node), all);
    node.launched(1);
    node.exit(1, 0);
    node.answered(HeartbeatOrders {
        kill_containers: all.iter().map(|n| container_id(*n)).collect(),
        acknowledged: all.iter().map(|n| container_id(*n)).collect(),
        ..HeartbeatOrders::default()
    });
    // The first was reported; the others are still pending.
    assert_eq!(ids(&mut node), all[1..]);
}

/// Prints what a heartbeat with many known containers costs. Run with `--ignored --nocapture`, and
/// optimized, for figures.
#[test]
#[ignore = "prints figures and claims nothing"]
#[expect(
    clippy::disallowed_methods,
    reason = "a measurement, which claims nothing"
)]
fn cost_of_a_heartbeat() {
    // As many as the launch contexts of the fixture have room for.
    for known in [100_u16, 1_000, 8_000] {
        let mut node = Node::new();
        (1..=8).for_each(|n| node.run(n));
        (9..=known.into()).for_each(|n| drop(node.start(n)));
        node.work();
        let mut times = [Duration::ZERO; 2];
        let mut bytes = 0;
        for round in 0..20 {
            let now = Now {
                mono: MonoMillis(1_000 * round),
                ..node.now
            };
            let began = Instant::now();
            let containers_statuses = node.core.heartbeat_report(now).containers;
            times[0] += began.elapsed();
            assert_eq!(containers_statuses.len(), usize::from(known));
            let began = Instant::now();
            let status = NodeStatusProto {
                containers_statuses,
                ..NodeStatusProto::default()
            };
            bytes = status.encode_to_vec().len();
            times[1] += began.elapsed();
        }
        let [report, encode] = times.map(|time| time / 20);
        println!("{known} containers: report {report:?}, encoding {encode:?}, {bytes} bytes");
    }
}
