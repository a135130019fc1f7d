//! What the history learns, and opportunistic asks that follow it.

use super::*;
use crate::role_history::publish::fill;

fn saves(talk: &Talk) -> Vec<&Snapshot> {
    let saves = talk.actions.own.iter().filter_map(|action| {
        if let Effect::Save(snapshot) = action {
            Some(&**snapshot)
        } else {
            None
        }
    });
    saves.collect()
}

/// Returns the news of a load that found no file.
fn none_found(skipped: usize) -> HistoryNews {
    HistoryNews::Loaded {
        history: None,
        skipped,
    }
}

#[test]
fn opportunistic_asks_prefer_the_nodes_of_the_history_and_keep_their_lines() {
    let mut talk = Talk::new(false, "").loaded(&["n7", "n3"]);
    let request = talk.send(vec![opportunistic("*", 1)]);
    let mut expected = HostPreferences::new(30_000);
    let hosts = ["n7", "n3"].map(Into::into).to_vec();
    expected.set(Priority(PRIORITY), 0, hosts);
    assert_eq!(request.notes.get(), Some(&expected));
    let sent = AllocateRequestProto::decode(request.message.encode()).unwrap();
    assert_eq!(sent.ask, [opportunistic("*", 1)]);
}

/// Returns whether an opportunistic container is asked for on the node of one that waited for ten
/// minutes, as far as this node knows, and then failed.
fn is_asked_for_after_a_failure(change: impl FnOnce(&mut ContainerStatusProto)) -> bool {
    let mut talk = Talk::new(false, "");
    talk.news(none_found(0));
    talk.send(vec![opportunistic("*", 1)]);
    talk.give(&[(2, "n1")]);
    talk.pass(600_000);
    talk.send(Vec::new());
    let mut ended = completed(&[(2, 1)]);
    change(&mut ended.completed_container_statuses[0]);
    talk.answer(&ended);
    let request = talk.send(vec![opportunistic("*", 1)]);
    let mut expected = HostPreferences::new(30_000);
    expected.set(Priority(PRIORITY), 0, vec!["n1".into()]);
    request.notes.get() == Some(&expected)
}

#[test]
fn a_failure_is_a_failed_start_unless_the_container_is_known_to_have_run() {
    let opportunistic = |status: &mut ContainerStatusProto| {
        status.set_execution_type(ExecutionTypeProto::Opportunistic);
    };
    let ran = |ran_ms: u64| {
        move |status: &mut ContainerStatusProto| {
            opportunistic(status);
            status.container_attributes = vec![wire::run_time::attribute(ran_ms)];
        }
    };
    assert!(is_asked_for_after_a_failure(|_| ()), "a guaranteed one");
    assert!(!is_asked_for_after_a_failure(opportunistic));
    assert!(!is_asked_for_after_a_failure(ran(100)));
    assert!(is_asked_for_after_a_failure(ran(500_000)));
}

#[test]
fn a_history_that_comes_late_changes_the_asks() {
    let mut talk = Talk::new(true, "");
    talk.news(HistoryNews::Late);
    assert_eq!(talk.ask(vec![line("*", 1)]), ["* 1"]);
    talk.give(&[]);
    talk.load(&["n7"]);
    assert_eq!(
        talk.ask(Vec::new()),
        ["/default-rack 1 strict", "n7 1", "* 1 strict"]
    );
}

#[test]
fn containers_and_their_ends_are_saved() {
    let mut talk = Talk::new(false, "");
    talk.news(none_found(1));
    talk.pass(1_000);
    talk.ask(vec![line("*", 2)]);
    talk.give(&[(2, "n1"), (3, "n2")]);
    let first = saves(&talk)[0].clone();
    let entries: Vec<_> = first.history.iter().collect();
    assert_eq!(entries.len(), 2);
    assert!(entries.iter().all(|(_, entry)| entry.active));
    // No second save before the first has ended and its interval is over.
    talk.pass(5_000);
    talk.ask(vec![line("*", 0)]);
    talk.answer(&completed(&[(2, 0)]));
    assert_eq!(saves(&talk).len(), 1);
    talk.news(HistoryNews::Saved(first));
    talk.ask(Vec::new());
    talk.give(&[]);
    let second = saves(&talk)[1];
    let active = second.history.iter().filter(|(_, entry)| entry.active);
    assert_eq!(active.map(|(host, _)| host).collect::<Vec<_>>(), ["n2"]);
    let names = second.history.role_map.clone().unwrap();
    assert_eq!(names, BTreeMap::from([("priority-1".to_owned(), 1)]));
    assert!(talk.events().contains(&HistoryEvent::FileSkipped));
    assert!(talk.events().contains(&HistoryEvent::Saved));
}

#[test]
fn nothing_is_saved_before_the_files_are_loaded_or_without_them() {
    let mut talk = Talk::new(false, "");
    talk.pass(60_000);
    talk.ask(vec![line("*", 1)]);
    talk.give(&[(2, "n1")]);
    talk.news(HistoryNews::Unavailable);
    talk.pass(60_000);
    talk.ask(Vec::new());
    talk.give(&[]);
    assert!(saves(&talk).is_empty());
}

#[test]
fn a_failed_save_is_repeated_after_a_pause_that_doubles() {
    let mut talk = Talk::new(false, "");
    talk.news(none_found(0));
    talk.pass(1_000);
    talk.ask(vec![line("*", 1)]);
    talk.give(&[(2, "n1")]);
    for (tries, pause_ms) in (1..).zip([2_000, 4_000, 8_000, 16_000, 32_000, 64_000, 64_000]) {
        assert_eq!(saves(&talk).len(), tries);
        talk.news(HistoryNews::SaveFailed);
        for wait_ms in [pause_ms - 1, 1] {
            assert_eq!(saves(&talk).len(), tries);
            talk.pass(wait_ms);
            talk.ask(Vec::new());
            talk.give(&[]);
        }
    }
    assert_eq!(saves(&talk).len(), 8);
    assert!(talk.events().contains(&HistoryEvent::SaveFailed));
    let last = saves(&talk)[7].clone();
    talk.news(HistoryNews::Saved(last));
    talk.pass(1_000);
    talk.ask(Vec::new());
    talk.answer(&completed(&[(2, 0)]));
    assert_eq!(saves(&talk).len(), 9);
}

#[test]
fn containers_of_an_earlier_attempt_run_where_they_run() {
    let mut talk = Talk::new(true, "").loaded(&["n7", "n3"]);
    let message = RegisterApplicationMasterResponseProto {
        containers_from_previous_attempts: allocated(&[(2, "n7")]).allocated_containers,
        ..RegisterApplicationMasterResponseProto::default()
    };
    let mut outcome: Outcome = Ok(Response {
        message: raw(&message),
        ..Response::default()
    });
    talk.interceptor.on_response(
        AmMethod::Register,
        &mut outcome,
        &context(0),
        &mut talk.actions.actions(),
    );
    assert_eq!(
        talk.ask(vec![line("*", 1)]),
        ["* 1 strict", "/default-rack 1 strict", "n3 1"]
    );
}

#[test]
fn nodes_that_fail_too_often_are_left_out() {
    let mut talk = Talk::new(true, "1=failures:0").loaded(&["n7", "n3"]);
    talk.ask(vec![line("*", 1)]);
    talk.give(&[(2, "n7")]);
    talk.pass(120_000);
    talk.ask(vec![line("*", 0)]);
    talk.answer(&completed(&[(2, 1)]));
    let history = &mut talk.interceptor;
    fill(&mut history.view, &history.service);
    let roles = history.view.roles.iter();
    assert_eq!(roles.map(|role| role.nodes_excluded).sum::<usize>(), 1);
    let asked = talk.ask(vec![line("*", 1)]);
    assert!(asked.contains(&"n3 1".to_owned()), "{asked:?}");
}

#[test]
fn the_view_shows_roles_asks_and_placements() {
    let mut talk = Talk::new(true, "").loaded(&["n7", "n3"]);
    talk.ask(vec![line("*", 2)]);
    talk.give(&[(2, "n7")]);
    let mut views = talk.actions.own.iter().filter_map(|action| {
        if let Effect::Publish(view) = action {
            Some(view)
        } else {
            None
        }
    });
    let view = views.next_back().unwrap();
    assert_eq!((view.service.as_str(), view.nodes), ("store", 2));
    let role = &view.roles[0];
    assert_eq!(role.name, "priority-1");
    assert_eq!((role.requested, role.actual, role.placed), (1, 1, 1));
    assert_eq!((role.placed_on_history, role.nodes_total), (1, 2));
    assert_eq!(view.asks.len(), 1);
    assert_eq!(view.asks[0].host.as_deref(), Some("n3"));
    assert_eq!(view.asks[0].escalates_at, Some(MonoMillis(30_000)));
    assert_eq!(&*view.placements[0].host, "n7");
    let why = view.placements[0].why().to_string();
    assert!(why.starts_with("ran here"), "{why}");
}

#[test]
fn roles_are_bounded() {
    let mut talk = Talk::new(true, "");
    let asks = (0..2_000).map(|priority| ResourceRequestProto {
        priority: Some(PriorityProto {
            priority: Some(priority),
        }),
        ..line("*", 1)
    });
    let asked = talk.ask(asks.collect());
    assert_eq!(asked.len(), 2_000);
    assert_eq!(talk.interceptor.service.roles.len(), service::ROLES_MAX);
}
