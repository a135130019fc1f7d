//! Frozen processes stop, and continue where they stopped.

use std::time::Duration;

use cgroup::{Cgroup, Controller};

use super::fixture::{Script, TIMEOUT, TestRoot, Use, wait_until};

const BUSY: &str = "echo go; while :; do :; done";

fn cpu_us(group: &Cgroup) -> u64 {
    let usage = group.sampler().unwrap().read().unwrap();
    usage.cpu_usage_us.unwrap()
}

fn assert_frozen_processes_stop(test: &str, what: Use) {
    let wanted = [Controller::Freezer, Controller::Cpuacct];
    let Some(test_root) = TestRoot::new(test, what, &wanted) else {
        return;
    };
    let group = test_root.group("c1");
    let mut script = Script::start(BUSY, Some(&group));
    assert_eq!(script.line(), "go");
    group.freeze(TIMEOUT).unwrap();
    assert!(group.is_frozen().unwrap());
    let mut frozen = cpu_us(&group);
    // CPU time used right before the freeze may be accounted a little late.
    wait_until("its CPU time does not change", || {
        std::thread::sleep(Duration::from_millis(20));
        let before = std::mem::replace(&mut frozen, cpu_us(&group));
        before == frozen
    });
    // Any length will do: no CPU time at all may be used meanwhile.
    std::thread::sleep(Duration::from_millis(100));
    assert_eq!(cpu_us(&group), frozen);
    group.thaw(TIMEOUT).unwrap();
    assert!(!group.is_frozen().unwrap());
    wait_until("it runs again", || cpu_us(&group) > frozen);
    group.destroy(TIMEOUT).unwrap();
    assert_eq!(script.wait(), 137);
}

#[test]
fn frozen_processes_use_no_cpu_time_and_continue() {
    assert_frozen_processes_stop("frozen_processes_use_no_cpu_time_and_continue", Use::All);
}

#[test]
fn frozen_processes_stop_in_legacy_hierarchies() {
    assert_frozen_processes_stop("frozen_processes_stop_in_legacy_hierarchies", Use::Legacy);
}

#[test]
fn an_empty_cgroup_can_be_frozen() {
    for what in [Use::All, Use::Legacy] {
        let test = "an_empty_cgroup_can_be_frozen";
        let Some(test_root) = TestRoot::new(test, what, &[Controller::Freezer]) else {
            return;
        };
        let group = test_root.group("c1");
        group.freeze(TIMEOUT).unwrap();
        group.thaw(TIMEOUT).unwrap();
    }
}

#[test]
fn frozen_processes_can_be_killed() {
    for what in [Use::All, Use::Legacy] {
        let test = "frozen_processes_can_be_killed";
        let Some(test_root) = TestRoot::new(test, what, &[Controller::Freezer]) else {
            return;
        };
        let group = test_root.group("c1");
        let mut script = Script::start(BUSY, Some(&group));
        assert_eq!(script.line(), "go");
        group.freeze(TIMEOUT).unwrap();
        group.kill().unwrap();
        group.wait_empty(TIMEOUT).unwrap();
        assert_eq!(script.wait(), 137);
        group.remove().unwrap();
    }
}

#[test]
fn moved_processes_freeze_or_run_as_their_new_cgroup() {
    let test = "moved_processes_freeze_or_run_as_their_new_cgroup";
    for what in [Use::All, Use::Legacy] {
        let Some(test_root) = TestRoot::new(test, what, &[Controller::Freezer]) else {
            return;
        };
        let (one, other) = (test_root.group("one"), test_root.group("other"));
        let mut script = Script::start(BUSY, Some(&one));
        assert_eq!(script.line(), "go");
        one.freeze(TIMEOUT).unwrap();
        other.set_frozen(true).unwrap();
        assert_eq!(other.move_from(&one, 10).unwrap(), 1);
        assert_eq!(one.processes().unwrap(), Vec::<i32>::new());
        assert_eq!(other.processes().unwrap(), [script.child.pid]);
        wait_until("all are frozen again", || other.is_frozen().unwrap());
        // None is left to be moved. Processes that move back come into a cgroup that is no longer
        // frozen.
        assert_eq!(other.move_from(&one, 10).unwrap(), 0);
        one.set_frozen(false).unwrap();
        assert_eq!(one.move_from(&other, 10).unwrap(), 1);
        assert!(!one.is_frozen().unwrap());
        wait_until("a signal kills it, so it runs", || {
            one.signal(libc::SIGTERM, None).unwrap();
            one.processes().unwrap().is_empty()
        });
        assert_eq!(script.wait(), 128 + libc::SIGTERM);
        other.set_frozen(false).unwrap();
    }
}

#[test]
fn a_few_are_moved_at_a_time() {
    let test = "a_few_are_moved_at_a_time";
    let Some(test_root) = TestRoot::new(test, Use::All, &[Controller::Pids]) else {
        return;
    };
    let (from, to) = (test_root.group("from"), test_root.group("to"));
    let mut script = Script::start("sleep 1000 & sleep 1000 & echo go; wait", Some(&from));
    assert_eq!(script.line(), "go");
    wait_until("all are there", || from.processes().unwrap().len() == 3);
    assert_eq!(to.move_from(&from, 2).unwrap(), 2);
    assert_eq!(from.processes().unwrap().len(), 1);
    assert_eq!(to.move_from(&from, 2).unwrap(), 1);
    assert_eq!(to.move_from(&from, 2).unwrap(), 0);
    to.destroy(TIMEOUT).unwrap();
    assert_eq!(script.wait(), 137);
}
