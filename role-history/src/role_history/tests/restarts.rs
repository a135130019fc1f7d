//! Saving, loading, and an ApplicationMaster that comes back.

use std::collections::BTreeMap;

use super::*;

const DAY: i64 = 24 * 3_600_000;

fn saved(role_map: Option<&[(&str, i32)]>, entries: &[(&str, i32, bool, i64)]) -> SavedHistory {
    let names = |map: &[(&str, i32)]| -> BTreeMap<String, i32> {
        map.iter()
            .map(|&(name, id)| (name.to_owned(), id))
            .collect()
    };
    let mut saved = SavedHistory::new(EpochMillis(BEGIN), 2, role_map.map(names));
    for &(host, role, active, last_used) in entries {
        let last_used = EpochMillis(last_used);
        let entry = SavedEntry {
            role,
            active,
            last_used,
        };
        saved.push(host, entry);
    }
    saved
}

#[test]
fn what_was_active_counts_as_used_until_the_save() {
    let mut service = Service::new();
    let saved = saved(
        None,
        &[("n1", 1, false, BEGIN - 1), ("n2", 1, true, BEGIN - DAY)],
    );
    let report = service.history.thaw(&saved);
    assert_eq!(report.loaded, 2);
    assert_eq!(service.ready(), ["n2", "n1"]);
    let entry = service.entry("n2");
    assert_eq!((entry.live(), entry.last_used()), (0, EpochMillis(BEGIN)));
    assert_eq!(service.history.thawed_data_time(), Some(EpochMillis(BEGIN)));
    assert!(!service.history.is_dirty());
}

#[test]
fn a_bootstrapped_history_has_no_time() {
    assert_eq!(Service::new().history.thawed_data_time(), None);
}

#[test]
fn entries_of_unknown_roles_are_discarded_and_create_no_node() {
    let mut service = Service::new();
    let saved = saved(
        None,
        &[("n1", 2, true, 0), ("n2", 1, true, 0), ("n3", -5, true, 0)],
    );
    let report = service.history.thaw(&saved);
    assert_eq!((report.loaded, report.discarded_unknown_role), (1, 2));
    assert_eq!(service.history.nodes().len(), 1);
}

#[test]
fn a_different_number_of_roles_is_reported_and_accepted() {
    let mut service = Service::new();
    let mut other = saved(None, &[("n1", 1, true, 0)]);
    other.roles = 7;
    let report = service.history.thaw(&other);
    assert_eq!(report.other_role_count, Some(7));
    assert_eq!(report.loaded, 1);
}

#[test]
fn renumbered_roles_are_found_by_their_names() {
    let mut service = Service::new();
    // The writer's store was 4 and its query 1.
    let saved = saved(
        Some(&[("store", 4), ("query", 1), ("gone", 9)]),
        &[
            ("n1", 4, true, 0),
            ("n2", 1, true, 0),
            ("n3", 9, true, 0),
            ("n4", 5, true, 0),
        ],
    );
    let report = service.history.thaw(&saved);
    assert_eq!((report.loaded, report.discarded_unknown_role), (2, 2));
    assert_eq!(service.ready(), ["n1"]);
}

#[test]
fn entries_age_relative_to_the_save_and_not_to_the_present() {
    let mut service = Service::new();
    service.pass(1_000_000_000);
    let saved = saved(
        None,
        &[
            ("at", 1, false, BEGIN - 7 * DAY),
            ("older", 1, false, BEGIN - 7 * DAY - 1),
        ],
    );
    let report = service.history.thaw(&saved);
    assert_eq!((report.loaded, report.purged_for_age), (1, 1));
    assert_eq!(service.ready(), ["at"]);
    assert_eq!(service.history.nodes().len(), 1);
}

#[test]
fn without_an_age_limit_everything_is_kept() {
    let config = RoleHistoryConfig {
        age_limit_ms: None,
        ..RoleHistoryConfig::default()
    };
    let mut service = Service::with(config, role(STORE, "store"));
    let saved = saved(None, &[("n1", 1, false, 1)]);
    assert_eq!(service.history.thaw(&saved).loaded, 1);
}

#[test]
fn strict_roles_do_not_age() {
    let mut service = Service::with_policy(PlacementPolicy::STRICT);
    let saved = saved(None, &[("n1", 1, false, 1), ("n2", 4, false, 1)]);
    let report = service.history.thaw(&saved);
    assert_eq!((report.loaded, report.purged_for_age), (1, 1));
}

#[test]
fn an_entry_without_host_is_discarded() {
    let mut service = Service::new();
    let report = service.history.thaw(&saved(None, &[("", 1, true, 0)]));
    assert_eq!((report.loaded, report.discarded_no_host), (0, 1));
}

#[test]
fn replayed_containers_live_and_their_nodes_are_not_asked_for() {
    let mut service = Service::new();
    service.history.thaw(&saved(
        None,
        &[("n1", 1, true, 0), ("n2", 1, true, 0), ("n3", 1, true, 0)],
    ));
    let live = LiveContainer {
        container: id(1),
        host: "n2".to_owned(),
        role: STORE,
    };
    let now = service.now();
    let twice = [live.clone(), live];
    service
        .history
        .replay_live(twice, now, &mut service.actions);
    assert_eq!(service.ready(), ["n1", "n3"]);
    assert_eq!(service.status().actual, 1);
    assert_eq!(service.entry("n2").live(), 1);
    assert_eq!(
        service.entry("n2").last_used(),
        EpochMillis(BEGIN),
        "unchanged until the end"
    );
    service.flex(STORE, 2);
    assert_eq!(service.done(), ["request 1: n1"]);
}

#[test]
fn a_replayed_container_of_an_unknown_role_is_released() {
    let mut service = Service::new();
    let live = LiveContainer {
        container: id(1),
        host: "n2".to_owned(),
        role: RoleId::new(99).unwrap(),
    };
    let now = service.now();
    service
        .history
        .replay_live([live], now, &mut service.actions);
    assert_eq!(service.done(), ["release 1"]);
}

#[test]
fn a_stopped_service_comes_back_to_all_of_its_nodes() {
    let mut service = Service::new();
    service.run(&["n1", "n2", "n3"]);
    let snapshot = service.history.snapshot(service.now());
    let mut next = Service::new();
    next.history.thaw(&snapshot.history);
    next.flex(STORE, 3);
    assert_eq!(
        next.done(),
        ["request 1: n1", "request 2: n2", "request 3: n3"]
    );
}

#[test]
fn snapshots_are_ordered_by_host_and_role_and_leave_out_blank_entries() {
    let mut service = Service::new();
    service.run(&["n2", "n1"]);
    service.flex(QUERY, 2);
    let query = service.allocate_for(QUERY, &["n1", "n3"]);
    service.start(&query[..1]);
    let history = service.history.snapshot(service.now()).history;
    let entries: Vec<_> = history.iter().map(|(host, e)| (host, e.role)).collect();
    // n3's container has not started, so nothing of it would survive.
    assert_eq!(entries, [("n1", 1), ("n1", 4), ("n2", 1)]);
    assert_eq!(history.roles, 2);
    assert_eq!(history.role_map.unwrap()["query"], 4);
}

#[test]
fn a_save_is_later_than_the_one_before_whatever_the_clock_does() {
    let mut service = Service::new();
    let first = service.history.snapshot(service.now());
    service.history.set_saved(&first);
    let back = Now {
        mono: MonoMillis(5),
        wall: EpochMillis(BEGIN - DAY),
    };
    let second = service.history.snapshot(back);
    assert_eq!(second.history.saved.0, first.history.saved.0 + 1);
    let mut thawed = Service::new();
    thawed.history.thaw(&saved(None, &[]));
    assert_eq!(thawed.history.snapshot(back).history.saved.0, BEGIN + 1);
}

#[test]
fn a_history_that_is_loaded_late_joins_what_has_happened_since() {
    let mut service = Service::new();
    let containers = service.run(&["n1", "n2"]);
    service.pass(1_000);
    service.complete(containers[1], 0);
    service.done();
    let report = service.history.thaw(&saved(
        None,
        &[("n1", 1, true, 0), ("n2", 1, true, 0), ("n3", 1, true, 0)],
    ));
    assert_eq!(report.loaded, 3);
    assert_eq!(service.entry("n1").live(), 1);
    assert!(!service.entry("n1").is_listed());
    // The present use of n2 is the more recent one.
    assert_eq!(service.entry("n2").last_used(), EpochMillis(BEGIN + 1_000));
    assert_eq!(service.history.nodes().entries(), 3);
    assert!(service.history.is_dirty());
}
