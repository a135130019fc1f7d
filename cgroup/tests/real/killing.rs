//! Nothing survives, whatever it does, and nothing of an earlier run stays.

use cgroup::{Controller, Delegation, Layout, Root, RootConfig, Unusable};

use super::fixture::{PATIENCE, Place, Script, Use, until};

/// Leaves its session and forks for ever; dies only if somebody is faster.
const FORKING: &str = "echo go; f() { setsid bash -c 'while :; do (:) & done' & }; f; f; wait";

#[test]
fn what_forks_without_end_and_leaves_its_session_is_killed() {
    for what in [Use::All, Use::Legacy] {
        let test = "what_forks_without_end_and_leaves_its_session_is_killed";
        let wanted = [Controller::Freezer, Controller::Pids];
        let Some(place) = Place::new(test, what, &wanted) else {
            return;
        };
        let group = place.group("c1");
        let limits = cgroup::Limits {
            pids_max: Some(cgroup::Bound::At(64)),
            ..cgroup::Limits::default()
        };
        group.apply(&limits).unwrap();
        let mut script = Script::start(FORKING, Some(&group));
        assert_eq!(script.line(), "go");
        until("it has forked", || group.processes().unwrap().len() > 2);
        group.destroy(PATIENCE).unwrap();
        assert_eq!(script.end(), 137);
    }
}

#[test]
fn a_signal_reaches_all_but_one() {
    let test = "a_signal_reaches_all_but_one";
    let Some(place) = Place::new(test, Use::All, &[Controller::Pids]) else {
        return;
    };
    let group = place.group("c1");
    let mut script = Script::start(
        "sleep 1000 & setsid sleep 1000 & echo go; wait; echo done",
        Some(&group),
    );
    assert_eq!(script.line(), "go");
    until("all are there", || group.processes().unwrap().len() == 3);
    let signalled = group.signal(libc::SIGKILL, Some(script.child.pid)).unwrap();
    assert_eq!(signalled, 2);
    assert_eq!(script.line(), "done");
    assert_eq!(script.end(), 0);
    group.wait_empty(PATIENCE).unwrap();
    assert!(!group.is_populated().unwrap());
}

#[test]
fn cgroups_made_inside_are_emptied_and_removed_too() {
    let test = "cgroups_made_inside_are_emptied_and_removed_too";
    for what in [Use::All, Use::Legacy] {
        let Some(place) = Place::new(test, what, &[Controller::Pids]) else {
            return;
        };
        let group = place.group("c1");
        let inner = group.paths()[0].join("a/b");
        std::fs::create_dir_all(&inner).unwrap();
        let mut script = Script::start(
            &format!(
                "echo $$ > {}/cgroup.procs; echo go; sleep 1000",
                inner.display()
            ),
            Some(&group),
        );
        assert_eq!(script.line(), "go");
        assert!(group.processes().unwrap().contains(&script.child.pid));
        group.destroy(PATIENCE).unwrap();
        assert_eq!(script.end(), 137);
        assert!(!group.paths()[0].exists());
    }
}

#[test]
fn what_an_earlier_run_left_is_found_and_ended() {
    let test = "what_an_earlier_run_left_is_found_and_ended";
    let Some(place) = Place::new(test, Use::All, &[Controller::Pids]) else {
        return;
    };
    let mut script = Script::start("echo go; sleep 1000", Some(&place.group("left")));
    assert_eq!(script.line(), "go");
    place.group("empty");
    let names: Vec<String> = place
        .parent
        .children()
        .unwrap()
        .iter()
        .map(|group| group.name().to_owned())
        .collect();
    assert_eq!(names, ["empty", "left"]);
    for group in place.parent.children().unwrap() {
        group.destroy(PATIENCE).unwrap();
    }
    assert_eq!(script.end(), 137);
    assert!(place.parent.children().unwrap().is_empty());
}

#[test]
fn a_place_in_use_is_refused_to_others() {
    let test = "a_place_in_use_is_refused_to_others";
    let Some(place) = Place::new(test, Use::All, &[Controller::Pids]) else {
        return;
    };
    let path = place.root().paths()[0].clone();
    let name = path.file_name().unwrap().to_str().unwrap();
    let config = RootConfig {
        hierarchy: Some(name),
        wanted: &[Controller::Pids],
        delegation: Delegation::None,
        own_leaf: "agent",
        delegated_root: "all",
    };
    let error = Root::open(&Layout::of_this_process(), &config).unwrap_err();
    assert!(matches!(error, Unusable::InUse { .. }), "{error:?}");
}
