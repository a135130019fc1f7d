//! What is frozen stands still, and goes on where it stopped.

use std::time::Duration;

use cgroup::{Cgroup, Controller};

use super::fixture::{PATIENCE, Place, Script, Use, until};

const BUSY: &str = "echo go; while :; do :; done";

fn cpu_us(group: &Cgroup) -> u64 {
    let usage = group.sampler().unwrap().read().unwrap();
    usage.cpu_usage_us.unwrap()
}

fn stands_still(test: &str, what: Use) {
    let wanted = [Controller::Freezer, Controller::Cpuacct];
    let Some(place) = Place::new(test, what, &wanted) else {
        return;
    };
    let group = place.group("c1");
    let mut script = Script::start(BUSY, Some(&group));
    assert_eq!(script.line(), "go");
    group.freeze(PATIENCE).unwrap();
    assert!(group.is_frozen().unwrap());
    let mut frozen = cpu_us(&group);
    // What it used right before it stopped may be counted a little late.
    until("its processor time stands still", || {
        std::thread::sleep(Duration::from_millis(20));
        let before = std::mem::replace(&mut frozen, cpu_us(&group));
        before == frozen
    });
    // Any length will do: nothing at all may be used meanwhile.
    std::thread::sleep(Duration::from_millis(100));
    assert_eq!(cpu_us(&group), frozen);
    group.thaw(PATIENCE).unwrap();
    assert!(!group.is_frozen().unwrap());
    until("it runs again", || cpu_us(&group) > frozen);
    group.destroy(PATIENCE).unwrap();
    assert_eq!(script.end(), 137);
}

#[test]
fn frozen_processes_use_no_processor_time_and_go_on() {
    stands_still("frozen_processes_use_no_processor_time_and_go_on", Use::All);
}

#[test]
fn frozen_processes_stand_still_in_legacy_hierarchies() {
    stands_still(
        "frozen_processes_stand_still_in_legacy_hierarchies",
        Use::Legacy,
    );
}

#[test]
fn an_empty_cgroup_can_be_frozen() {
    for what in [Use::All, Use::Legacy] {
        let test = "an_empty_cgroup_can_be_frozen";
        let Some(place) = Place::new(test, what, &[Controller::Freezer]) else {
            return;
        };
        let group = place.group("c1");
        group.freeze(PATIENCE).unwrap();
        group.thaw(PATIENCE).unwrap();
    }
}

#[test]
fn frozen_processes_can_be_killed() {
    for what in [Use::All, Use::Legacy] {
        let test = "frozen_processes_can_be_killed";
        let Some(place) = Place::new(test, what, &[Controller::Freezer]) else {
            return;
        };
        let group = place.group("c1");
        let mut script = Script::start(BUSY, Some(&group));
        assert_eq!(script.line(), "go");
        group.freeze(PATIENCE).unwrap();
        group.kill().unwrap();
        group.wait_empty(PATIENCE).unwrap();
        assert_eq!(script.end(), 137);
        group.remove().unwrap();
    }
}

#[test]
fn frozen_processes_stay_frozen_when_they_are_moved() {
    for what in [Use::All, Use::Legacy] {
        let test = "frozen_processes_stay_frozen_when_they_are_moved";
        let Some(place) = Place::new(test, what, &[Controller::Freezer]) else {
            return;
        };
        let (from, to) = (place.group("from"), place.group("to"));
        let mut script = Script::start(BUSY, Some(&from));
        assert_eq!(script.line(), "go");
        from.freeze(PATIENCE).unwrap();
        to.take_over(&from).unwrap();
        assert_eq!(from.processes().unwrap(), Vec::<i32>::new());
        assert_eq!(to.processes().unwrap(), [script.child.pid]);
        until("all are frozen again", || to.is_frozen().unwrap());
        to.thaw(PATIENCE).unwrap();
        to.destroy(PATIENCE).unwrap();
        assert_eq!(script.end(), 137);
    }
}
