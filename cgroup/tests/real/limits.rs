//! Limits reach the kernel and take effect.

use cgroup::{Bound, Controller, CpuQuota, Limits, Weight};

use super::fixture::{Script, TestRoot, Use, read_control_file, wait_until};

const MIB: u64 = 1 << 20;

#[test]
fn every_limit_is_what_the_kernel_says_afterwards() {
    let test = "every_limit_is_what_the_kernel_says_afterwards";
    let wanted = [Controller::Cpu, Controller::Memory, Controller::Pids];
    let Some(test_root) = TestRoot::new(test, Use::All, &wanted) else {
        return;
    };
    let group = test_root.group("c1");
    let limits = Limits {
        cpu_weight: Some(Weight::new(200)),
        cpu_quota: Some(CpuQuota::of_cpus(0.5)),
        memory_max: Some(Bound::At(64 * MIB)),
        memory_low: Some(32 * MIB),
        swap_max: Some(Bound::At(0)),
        swappiness: Some(0),
        oom_group: Some(true),
        pids_max: Some(Bound::At(7)),
        io_weight: Some(Weight::DEFAULT),
        ..Limits::default()
    };
    group.apply(&limits).unwrap();
    let paths = group.paths();
    for (v2, v1, expected) in [
        ("cpu.weight", "cpu.shares", ["200", "2048"]),
        ("cpu.max", "cpu.cfs_quota_us", ["500000 1000000", "500000"]),
        ("memory.max", "memory.limit_in_bytes", ["67108864"; 2]),
        ("memory.low", "memory.soft_limit_in_bytes", ["33554432"; 2]),
        ("pids.max", "pids.max", ["7"; 2]),
    ] {
        let found = read_control_file(&paths, v2).map(|text| (text, expected[0]));
        let found = found.or_else(|| read_control_file(&paths, v1).map(|text| (text, expected[1])));
        let (text, expected) = found.unwrap();
        assert_eq!(text, expected, "{v2} {v1}");
    }
    // Up and down again: both orders of two limits that depend on each other.
    for mib in [256, 16, 128] {
        let limits = Limits {
            memory_max: Some(Bound::At(mib * MIB)),
            swap_max: Some(Bound::At(mib * MIB)),
            ..Limits::default()
        };
        group.apply(&limits).unwrap();
        let events = group.memory_events().unwrap();
        assert_eq!(events.limit_bytes, Some(mib * MIB));
    }
    let unlimited = Limits {
        memory_max: Some(Bound::Unlimited),
        cpu_quota: Some(CpuQuota::Unlimited),
        pids_max: Some(Bound::Unlimited),
        ..Limits::default()
    };
    group.apply(&unlimited).unwrap();
    assert_eq!(group.memory_events().unwrap().limit_bytes, None);
}

#[test]
fn idle_is_set_and_taken_back() {
    let test = "idle_is_set_and_taken_back";
    let Some(test_root) = TestRoot::new(test, Use::All, &[Controller::Cpu]) else {
        return;
    };
    let idle = |idle| Limits {
        cpu_idle: Some(idle),
        cpu_weight: Some(Weight::new(300)),
        ..Limits::default()
    };
    let paths: Vec<_> = test_root.group("c1").paths();
    let group = test_root.group("c1");
    group.apply(&idle(true)).unwrap();
    // Kernels without cpu.idle get the least weight.
    let idle_or_shares =
        read_control_file(&paths, "cpu.idle").or_else(|| read_control_file(&paths, "cpu.shares"));
    assert!(
        matches!(idle_or_shares.as_deref(), Some("1" | "2")),
        "{idle_or_shares:?}"
    );
    group.apply(&idle(false)).unwrap();
    let weight =
        read_control_file(&paths, "cpu.weight").or_else(|| read_control_file(&paths, "cpu.shares"));
    assert!(
        matches!(weight.as_deref(), Some("300" | "3072")),
        "{weight:?}"
    );
}

#[test]
fn a_cgroup_that_eats_memory_is_killed_and_its_peak_is_known() {
    let test = "a_cgroup_that_eats_memory_is_killed_and_its_peak_is_known";
    let Some(test_root) = TestRoot::new(test, Use::All, &[Controller::Memory]) else {
        return;
    };
    let (group, beside) = (test_root.group("hungry"), test_root.group("beside"));
    let limits = Limits {
        memory_max: Some(Bound::At(24 * MIB)),
        swap_max: Some(Bound::At(0)),
        swappiness: Some(0),
        oom_group: Some(true),
        ..Limits::default()
    };
    group.apply(&limits).unwrap();
    beside.apply(&limits).unwrap();
    let mut other = Script::start("echo go; sleep 1000", Some(&beside));
    assert_eq!(other.line(), "go");
    let mut script = Script::start("exec tail /dev/zero", Some(&group));
    assert_eq!(script.wait(), 137);
    let events = group.memory_events().unwrap();
    assert_eq!(events.limit_bytes, Some(24 * MIB));
    assert!(events.oom_kills >= Some(1), "{events:?}");
    let peak = events.peak_bytes.unwrap();
    assert!(peak > 20 * MIB && peak <= 24 * MIB, "{peak}");
    drop(other);
    assert_eq!(beside.memory_events().unwrap().oom_kills, Some(0));
}

#[test]
fn a_fork_bomb_stays_within_its_tasks() {
    let test = "a_fork_bomb_stays_within_its_tasks";
    let Some(test_root) = TestRoot::new(test, Use::All, &[Controller::Pids]) else {
        return;
    };
    let group = test_root.group("c1");
    let limits = Limits {
        pids_max: Some(Bound::At(8)),
        ..Limits::default()
    };
    group.apply(&limits).unwrap();
    let bomb = "echo go; for i in $(seq 1000); do sleep 1000 & done; wait";
    let mut script = Script::start(bomb, Some(&group));
    assert_eq!(script.line(), "go");
    wait_until("forks are refused", || {
        assert!(group.processes().unwrap().len() <= 8);
        group.refused_forks().unwrap() >= Some(1)
    });
}

#[test]
fn cpu_time_is_shared_by_weight() {
    let test = "cpu_time_is_shared_by_weight";
    let wanted = [Controller::Cpu, Controller::Cpuacct];
    let Some(test_root) = TestRoot::new(test, Use::All, &wanted) else {
        return;
    };
    // Both on one CPU, whatever else runs on the machine: only their ratio counts.
    let busy = "taskset -cp 0 $$ > /dev/null; echo go; while :; do :; done";
    let mut running = Vec::new();
    for (name, weight) in [("heavy", 900), ("light", 100)] {
        let group = test_root.group(name);
        let limits = Limits {
            cpu_weight: Some(Weight::new(weight)),
            ..Limits::default()
        };
        group.apply(&limits).unwrap();
        let mut script = Script::start(busy, Some(&group));
        assert_eq!(script.line(), "go");
        running.push((group.sampler().unwrap(), script));
    }
    let used = |index: usize| {
        let (sampler, _) = &running[index];
        sampler.read().unwrap().cpu_usage_us.unwrap()
    };
    let (heavy_before, light_before) = (used(0), used(1));
    wait_until("the two have had a second", || {
        used(0) + used(1) - heavy_before - light_before > 1_000_000
    });
    let (heavy, light) = (used(0) - heavy_before, used(1) - light_before);
    assert!(heavy > 4 * light, "{heavy} {light}");
}

#[test]
fn a_quota_throttles_a_busy_cgroup() {
    let test = "a_quota_throttles_a_busy_cgroup";
    let wanted = [Controller::Cpu, Controller::Cpuacct];
    let Some(test_root) = TestRoot::new(test, Use::All, &wanted) else {
        return;
    };
    let group = test_root.group("c1");
    let limits = Limits {
        cpu_quota: Some(CpuQuota::At {
            quota_us: 10_000,
            period_us: 100_000,
        }),
        ..Limits::default()
    };
    group.apply(&limits).unwrap();
    let _script = Script::start("while :; do :; done", Some(&group));
    // `cpu.stat` exists in every cgroup of the unified hierarchy, but counts throttling only with
    // the controller.
    let throttled = || {
        let stats = group
            .paths()
            .into_iter()
            .filter_map(|path| read_control_file(&[path], "cpu.stat"));
        stats
            .flat_map(|text| text.lines().map(str::to_owned).collect::<Vec<_>>())
            .filter_map(|line| line.strip_prefix("nr_throttled ")?.parse::<u64>().ok())
            .max()
    };
    wait_until("it is throttled", || throttled() >= Some(3));
}

#[test]
fn devices_are_shared_by_weight_where_the_kernel_can() {
    let test = "devices_are_shared_by_weight_where_the_kernel_can";
    let Some(test_root) = TestRoot::new(test, Use::All, &[Controller::Io]) else {
        return;
    };
    let group = test_root.group("c1");
    let limits = Limits {
        io_weight: Some(Weight::new(50)),
        ..Limits::default()
    };
    group.apply(&limits).unwrap();
    let paths = group.paths();
    if let Some(weight) = read_control_file(&paths, "io.weight") {
        assert_eq!(weight, "default 50");
    }
    if let Some(weight) = read_control_file(&paths, "blkio.weight") {
        assert_eq!(weight, "252");
    }
}

/// Returns a root for tests of v2's memory files; `None` if the memory controller is on v1.
fn with_unified_memory(test: &str) -> Option<TestRoot> {
    let test_root = TestRoot::new(test, Use::All, &[Controller::Memory])?;
    let probe = test_root.group("probe");
    if probe.memory_events().unwrap().high_hits.is_some() {
        return Some(test_root);
    }
    test_support::skip::print_skipped_by_kernel(
        test,
        &"the memory controller is not in the unified hierarchy",
    );
    None
}

#[test]
fn beyond_memory_high_a_cgroup_is_throttled_and_not_killed() {
    let test = "beyond_memory_high_a_cgroup_is_throttled_and_not_killed";
    let Some(test_root) = with_unified_memory(test) else {
        return;
    };
    let group = test_root.group("c1");
    let limits = Limits {
        memory_high: Some(Bound::At(16 * MIB)),
        swap_max: Some(Bound::At(0)),
        ..Limits::default()
    };
    group.apply(&limits).unwrap();
    let _script = Script::start("exec tail /dev/zero", Some(&group));
    wait_until("it is throttled", || {
        group.memory_events().unwrap().high_hits >= Some(1)
    });
    assert!(group.is_populated().unwrap());
    assert_eq!(group.memory_events().unwrap().oom_kills, Some(0));
}

#[test]
fn memory_of_a_frozen_cgroup_is_reclaimed() {
    let test = "memory_of_a_frozen_cgroup_is_reclaimed";
    let Some(test_root) = with_unified_memory(test) else {
        return;
    };
    let group = test_root.group("c1");
    let folder = tempfile::tempdir_in("/var/tmp").unwrap();
    let file = folder.path().join("file").display().to_string();
    let fill = format!(
        "head -c {} /dev/zero > {file}; sync {file}; echo go; sleep 1000; :",
        16 * MIB
    );
    let mut script = Script::start(&fill, Some(&group));
    assert_eq!(script.line(), "go");
    group.freeze(super::fixture::TIMEOUT).unwrap();
    let used = || {
        let usage = group.sampler().unwrap().read().unwrap();
        usage.memory_bytes.unwrap()
    };
    let before = used();
    assert!(before > 16 * MIB, "{before}");
    // Pages that are not written back yet cannot be reclaimed.
    wait_until("its page cache goes", || {
        assert!(group.reclaim(8 * MIB).unwrap());
        used() < before - 8 * MIB
    });
}
