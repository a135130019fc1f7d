//! What is learnt of how long containers run, and its record.

use super::*;
use crate::order::StoreOrder;
use crate::recovery::LearntRunsRecord;
use launch_context::EXPECTED_RUN_VARIABLE;
use sched::{ContainerScheduler, ContainerSchedulerConfig, LearntRuns, QueueOrder};

/// A registered node that orders its queue by lengths and keeps records.
fn node() -> Node {
    let mut node = Node::new();
    let config = ContainerSchedulerConfig {
        queue_length_max: 10,
        queue_order: QueueOrder::Shortest,
        ..ContainerSchedulerConfig::default()
    };
    let scheduler = ContainerScheduler::new(config, Resource::new(8192, 8));
    node.core.scheduler = RecordedScheduler::new(scheduler, false);
    node.core.recorder = Recorder::new(true, 0);
    node
}

/// Runs a container with a command and a hint for some milliseconds.
fn run(node: &mut Node, n: i64, hint: &str, ran_ms: u64) {
    let mut request = request(n);
    request.context = Ok(LaunchContext {
        commands: vec![format!("sort part-{n}")],
        environment: [(EXPECTED_RUN_VARIABLE.to_owned(), hint.to_owned())].into(),
        ..LaunchContext::default()
    });
    let outcome = node.core.start(asker(), request, node.now);
    assert!(matches!(outcome, StartOutcome::Started), "{outcome:?}");
    node.launched(n);
    node.now.mono = node.now.mono + ran_ms;
    node.exit(n, 0);
}

fn stored(node: &mut Node) -> Option<LearntRunsRecord> {
    let _report = node.core.heartbeat_report(node.now);
    let stored = |effect| {
        if let Effect::Store(StoreOrder::LearntRuns(record)) = effect {
            Some(*record)
        } else {
            None
        }
    };
    node.core.take_effects().into_iter().find_map(stored)
}

fn runs(learnt: &LearntRuns) -> Vec<&[u64]> {
    let commands = learnt.commands.iter();
    commands.map(|command| command.ran_ms.as_slice()).collect()
}

#[test]
fn what_commands_ran_is_stored_once_a_minute_and_survives_the_agent() {
    let mut before = node();
    run(&mut before, 1, "1000", 900);
    run(&mut before, 2, "-1", 1_100);
    assert_eq!(stored(&mut before), None);
    before.now.mono = before.now.mono + 60_000;
    let record = stored(&mut before).unwrap();
    assert_eq!(stored(&mut before), None);
    let learnt = before.core.scheduler.learnt_runs();
    assert_eq!(runs(&learnt), [&[900, 1_100][..]]);
    // The second hint was none.
    assert_eq!(learnt.hinters[0].1.count, 1);

    let mut after = node();
    let state = RestoredState {
        learnt_runs: Some(record.clone()),
        ..RestoredState::default()
    };
    after.core.restore(state, after.now);
    assert_eq!(after.core.scheduler.learnt_runs(), learnt);

    let mut of_none = node();
    let mut broken = record;
    broken.commands[0].user.pop();
    let state = RestoredState {
        learnt_runs: Some(broken),
        ..RestoredState::default()
    };
    of_none.core.restore(state, of_none.now);
    assert!(of_none.core.scheduler.learnt_runs().is_empty());
}

#[test]
fn in_the_order_of_arrival_nothing_is_learnt_of_commands() {
    let mut node = Node::new();
    node.core.recorder = Recorder::new(true, 0);
    run(&mut node, 1, "1000", 900);
    node.now.mono = node.now.mono + 60_000;
    assert_eq!(stored(&mut node), None);
}
