//! The drain of the node by an operator.

use localize::DisksReport;
use node_view::operator::DrainMode;
use node_view::usage::Uses;
use records::ExecutionType;

use super::*;
use crate::recovery::DrainRecord;
use crate::{DrainOrder, Effect, HealthEvent, RestoredState, StoreOrder};

fn order(mode: DrainMode, within_ms: u64) -> DrainOrder {
    DrainOrder {
        mode,
        within_ms,
        reason: "new kernel".to_owned(),
        by: "alice".to_owned(),
    }
}

fn at(ms: u64) -> Now {
    Now {
        mono: MonoMillis(ms),
        wall: EpochMillis(i64::try_from(ms).unwrap()),
    }
}

/// Returns a registered core with a guaranteed and an opportunistic container.
fn core() -> Core {
    let mut core = unregistered_core();
    core.registered(RM_IDENTIFIER, None, at(0));
    let found = DisksReport {
        is_healthy: true,
        report: String::new(),
        local: localize::DirNumbers::default(),
        log: localize::DirNumbers::default(),
        readable_log_dirs: Vec::new(),
    };
    core.handle(WorkerEvent::Health(HealthEvent::Disks(found)), at(0), 0);
    for (n, kind) in [
        (1, ExecutionType::Guaranteed),
        (2, ExecutionType::Opportunistic),
    ] {
        core.start(asker(), request_for(container_id(n), kind), at(0));
    }
    core
}

#[test]
fn a_graceful_drain_is_told_in_the_health_report_of_a_healthy_node() {
    let mut core = core();
    core.drain(order(DrainMode::Graceful, 0), at(10));
    let report = core.heartbeat_report(at(20));
    assert!(report.health.healthy);
    assert_eq!(
        report.health.report,
        "Drained by alice (graceful): new kernel"
    );
    assert_eq!(report.opportunistic.estimated_queue_wait_ms, None);
    let state = core.drain_state().unwrap();
    assert_eq!((state.guaranteed_left, state.opportunistic_left), (1, 1));
    assert!(core.cancel_drain("bob", at(30)));
    assert!(!core.cancel_drain("bob", at(30)));
    let report = core.heartbeat_report(at(40));
    assert_eq!(report.health.report, "");
    assert_eq!(
        core.operator_status(1, &Uses::default(), at(40)).drain,
        None
    );
}

#[test]
fn a_drain_with_time_ends_containers_when_it_is_over_and_not_before() {
    let mut core = core();
    core.drain(order(DrainMode::Fast, 60_000), at(10));
    assert_eq!(core.next_deadline(), Some(MonoMillis(60_010)));
    core.tick(at(60_009));
    assert!(core.heartbeat_report(at(60_009)).health.healthy);
    assert!(!core.drain_state().unwrap().is_ending);
    core.tick(at(60_010));
    // Its containers end, and the ResourceManager should place nothing here.
    assert!(!core.heartbeat_report(at(60_011)).health.healthy);
    assert!(core.drain_state().unwrap().is_ending);
    let statuses = core.drain_state().unwrap();
    assert_eq!(statuses.ends_at_ms, Some(60_010));
}

#[test]
fn a_later_order_replaces_an_earlier_one_and_its_time() {
    let mut core = core();
    core.drain(order(DrainMode::Fast, 60_000), at(0));
    core.drain(order(DrainMode::Graceful, 60_000), at(10));
    core.tick(at(100_000));
    assert!(core.heartbeat_report(at(100_000)).health.healthy);
    assert_eq!(core.drain_state().unwrap().ends_at_ms, None);
}

/// Returns the drain that the core has stored last.
fn stored(core: &mut Core) -> Option<DrainRecord> {
    let stored = |effect| {
        if let Effect::Store(StoreOrder::Drain(record)) = effect {
            Some(record)
        } else {
            None
        }
    };
    let last = core.take_effects().into_iter().filter_map(stored).last();
    last.expect("the drain is stored").map(|record| *record)
}

#[test]
fn the_next_agent_is_drained_too_and_the_containers_time_goes_on() {
    let mut before = core();
    before.recorder = Recorder::new(true, 0);
    before.drain(order(DrainMode::Quick, 1_000), at(5));
    let drain = stored(&mut before);
    let before = before.drain_state();

    let mut next = unregistered_core();
    next.recorder = Recorder::new(true, 0);
    let state = RestoredState {
        drain: drain.clone(),
        ..RestoredState::default()
    };
    next.restore(state, at(505));
    assert_eq!(stored(&mut next), drain);
    let restored = next.drain_state().unwrap();
    assert_eq!(
        (restored.since_ms, restored.ends_at_ms, restored.is_ending),
        (5, Some(1_005), false)
    );
    assert_eq!(before.map(|state| state.reason), Some(restored.reason));
    assert_eq!(next.next_deadline(), Some(MonoMillis(1_005)));
    assert!(next.cancel_drain("bob", at(600)));
    assert_eq!(stored(&mut next), None);
}

#[test]
fn a_time_that_is_over_when_the_next_agent_starts_is_over() {
    let mut before = core();
    before.recorder = Recorder::new(true, 0);
    before.drain(order(DrainMode::Fast, 1_000), at(5));
    let drain = stored(&mut before);
    let mut next = unregistered_core();
    let state = RestoredState {
        drain,
        ..RestoredState::default()
    };
    next.restore(state, at(2_000));
    assert!(next.drain_state().unwrap().is_ending);
    let of_later = DrainRecord {
        mode: "sideways".to_owned(),
        ..DrainRecord::default()
    };
    next.cancel_drain("bob", at(2_001));
    next.restore_drain(of_later, at(2_002));
    assert_eq!(next.drain_state(), None);
}
