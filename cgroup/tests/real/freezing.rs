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
fn moved_processes_stop_or_go_on_as_the_cgroup_that_takes_them() {
    let test = "moved_processes_stop_or_go_on_as_the_cgroup_that_takes_them";
    for what in [Use::All, Use::Legacy] {
        let Some(place) = Place::new(test, what, &[Controller::Freezer]) else {
            return;
        };
        let (one, other) = (place.group("one"), place.group("other"));
        let mut script = Script::start(BUSY, Some(&one));
        assert_eq!(script.line(), "go");
        one.freeze(PATIENCE).unwrap();
        other.set_frozen(true).unwrap();
        assert_eq!(other.take_over(&one, 10).unwrap(), 1);
        assert_eq!(one.processes().unwrap(), Vec::<i32>::new());
        assert_eq!(other.processes().unwrap(), [script.child.pid]);
        until("all are frozen again", || other.is_frozen().unwrap());
        // Nothing is left to be moved, and who comes back comes into a cgroup that does not stand still any more.
        assert_eq!(other.take_over(&one, 10).unwrap(), 0);
        one.set_frozen(false).unwrap();
        assert_eq!(one.take_over(&other, 10).unwrap(), 1);
        assert!(!one.is_frozen().unwrap());
        until("it dies of a signal, so it goes on", || {
            one.signal(libc::SIGTERM, None).unwrap();
            one.processes().unwrap().is_empty()
        });
        assert_eq!(script.end(), 128 + libc::SIGTERM);
        other.set_frozen(false).unwrap();
    }
}

#[test]
fn a_few_are_moved_at_a_time() {
    let test = "a_few_are_moved_at_a_time";
    let Some(place) = Place::new(test, Use::All, &[Controller::Pids]) else {
        return;
    };
    let (from, to) = (place.group("from"), place.group("to"));
    let mut script = Script::start("sleep 1000 & sleep 1000 & echo go; wait", Some(&from));
    assert_eq!(script.line(), "go");
    until("all are there", || from.processes().unwrap().len() == 3);
    assert_eq!(to.take_over(&from, 2).unwrap(), 2);
    assert_eq!(from.processes().unwrap().len(), 1);
    assert_eq!(to.take_over(&from, 2).unwrap(), 1);
    assert_eq!(to.take_over(&from, 2).unwrap(), 0);
    to.destroy(PATIENCE).unwrap();
    assert_eq!(script.end(), 137);
}
