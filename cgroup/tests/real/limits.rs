//! Limits reach the kernel and hold.

use cgroup::{Bound, Controller, CpuQuota, Limits, Weight};

use crate::fixture::{Place, Script, Use, says, until};

const MIB: u64 = 1 << 20;

#[test]
fn every_limit_is_what_the_kernel_says_afterwards() {
    let test = "every_limit_is_what_the_kernel_says_afterwards";
    let wanted = [Controller::Cpu, Controller::Memory, Controller::Pids];
    let Some(place) = Place::new(test, Use::All, &wanted) else {
        return;
    };
    let group = place.group("c1");
    let limits = Limits {
        cpu_weight: Some(Weight::new(200)),
        cpu_quota: Some(CpuQuota::of_processors(0.5)),
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
        let found = says(&paths, v2).map(|text| (text, expected[0]));
        let found = found.or_else(|| says(&paths, v1).map(|text| (text, expected[1])));
        let (text, expected) = found.unwrap();
        assert_eq!(text, expected, "{v2} {v1}");
    }
    // Up and down again: each order of two bounds that depend on each other.
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
    let Some(place) = Place::new(test, Use::All, &[Controller::Cpu]) else {
        return;
    };
    let idle = |idle| Limits {
        cpu_idle: Some(idle),
        cpu_weight: Some(Weight::new(300)),
        ..Limits::default()
    };
    let paths: Vec<_> = place.group("c1").paths();
    let group = place.group("c1");
    group.apply(&idle(true)).unwrap();
    // Where the kernel cannot, it has the least weight.
    let told = says(&paths, "cpu.idle").or_else(|| says(&paths, "cpu.shares"));
    assert!(matches!(told.as_deref(), Some("1" | "2")), "{told:?}");
    group.apply(&idle(false)).unwrap();
    let weight = says(&paths, "cpu.weight").or_else(|| says(&paths, "cpu.shares"));
    assert!(
        matches!(weight.as_deref(), Some("300" | "3072")),
        "{weight:?}"
    );
}

#[test]
fn a_cgroup_that_eats_memory_is_killed_and_its_peak_is_known() {
    let test = "a_cgroup_that_eats_memory_is_killed_and_its_peak_is_known";
    let Some(place) = Place::new(test, Use::All, &[Controller::Memory]) else {
        return;
    };
    let (group, beside) = (place.group("hungry"), place.group("beside"));
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
    assert_eq!(script.end(), 137);
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
    let Some(place) = Place::new(test, Use::All, &[Controller::Pids]) else {
        return;
    };
    let group = place.group("c1");
    let limits = Limits {
        pids_max: Some(Bound::At(8)),
        ..Limits::default()
    };
    group.apply(&limits).unwrap();
    let bomb = "echo go; for i in $(seq 1000); do sleep 1000 & done; wait";
    let mut script = Script::start(bomb, Some(&group));
    assert_eq!(script.line(), "go");
    until("forks are refused", || {
        assert!(group.processes().unwrap().len() <= 8);
        group.refused_forks().unwrap() >= Some(1)
    });
}

#[test]
fn processor_time_is_shared_by_weight() {
    let test = "processor_time_is_shared_by_weight";
    let wanted = [Controller::Cpu, Controller::Cpuacct];
    let Some(place) = Place::new(test, Use::All, &wanted) else {
        return;
    };
    // Both on one processor, whatever else the machine is at: what counts is how they share.
    let busy = "taskset -cp 0 $$ > /dev/null; echo go; while :; do :; done";
    let mut running = Vec::new();
    for (name, weight) in [("heavy", 900), ("light", 100)] {
        let group = place.group(name);
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
    until("the two have had a second", || {
        used(0) + used(1) - heavy_before - light_before > 1_000_000
    });
    let (heavy, light) = (used(0) - heavy_before, used(1) - light_before);
    assert!(heavy > 4 * light, "{heavy} {light}");
}
