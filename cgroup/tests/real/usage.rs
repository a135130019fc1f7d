//! Usage and pressure are reported.

use cgroup::{Controller, Resource};

use super::fixture::{Script, TIMEOUT, TestRoot, Use, wait_until};

fn assert_usage_is_seen(test: &str, what: Use) {
    let wanted = [Controller::Cpuacct, Controller::Memory];
    let Some(test_root) = TestRoot::new(test, what, &wanted) else {
        return;
    };
    let group = test_root.group("c1");
    let sampler = group.sampler().unwrap();
    let before = sampler.read().unwrap();
    let mut script = Script::start(
        "x=$(head -c 9000000 /dev/zero | tr '\\0' x); echo go; sleep 1000; :",
        Some(&group),
    );
    assert_eq!(script.line(), "go");
    wait_until("its memory is seen", || {
        sampler.read().unwrap().memory_bytes > before.memory_bytes.map(|bytes| bytes + 8_000_000)
    });
    assert!(sampler.read().unwrap().cpu_usage_us > before.cpu_usage_us);
    let class = test_root.parent.sampler().unwrap().read().unwrap();
    assert!(class.memory_bytes >= Some(8_000_000), "{class:?}");
    drop(script);
    group.destroy(TIMEOUT).unwrap();
    assert!(
        sampler.read().is_err(),
        "a cgroup that is gone has no usage"
    );
}

#[test]
fn cpu_time_and_memory_are_seen() {
    assert_usage_is_seen("cpu_time_and_memory_are_seen", Use::All);
}

#[test]
fn cpu_time_and_memory_are_seen_in_legacy_hierarchies() {
    assert_usage_is_seen(
        "cpu_time_and_memory_are_seen_in_legacy_hierarchies",
        Use::Legacy,
    );
}

#[test]
fn waiting_for_a_cpu_is_seen() {
    let test = "waiting_for_a_cpu_is_seen";
    let Some(test_root) = TestRoot::new(test, Use::All, &[Controller::Pids]) else {
        return;
    };
    let group = test_root.group("c1");
    if group.pressure(Resource::Cpu).unwrap().is_none() {
        test_support::skip::skip_by_kernel(test, &"no pressure is reported");
        return;
    }
    let class = test_root
        .parent
        .pressure_file(Resource::Cpu)
        .unwrap()
        .unwrap();
    let before = class.read().unwrap().unwrap();
    let busy = "taskset -cp 0 $$ > /dev/null; (while :; do :; done) & while :; do :; done";
    let _script = Script::start(busy, Some(&group));
    wait_until("one waits for the other", || {
        let pressure = group.pressure(Resource::Cpu).unwrap().unwrap();
        pressure.some.total_us > 10_000
    });
    // The same file is read again, and reports everything below.
    wait_until("the class waits too", || {
        let now = class.read().unwrap().unwrap();
        now.some.total_us > before.some.total_us + 10_000
    });
}

#[test]
fn legacy_hierarchies_report_no_pressure() {
    let test = "legacy_hierarchies_report_no_pressure";
    let Some(test_root) = TestRoot::new(test, Use::Legacy, &[Controller::Pids]) else {
        return;
    };
    let group = test_root.group("c1");
    for resource in [Resource::Cpu, Resource::Memory, Resource::Io] {
        assert_eq!(group.pressure(resource).unwrap(), None);
        assert!(test_root.parent.pressure_file(resource).unwrap().is_none());
    }
}
