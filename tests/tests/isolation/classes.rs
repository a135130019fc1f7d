//! Kernel files of a class while containers start, end, change their type and are frozen.

use std::path::PathBuf;

use records::{ContainerId, ExecutionType, Resource};
use tests::wait;
use wire::proto::hadoop_yarn::ContainerSubStateProto::{CssPaused, CssRunning};

use crate::stories::{DEADLINE, Ear, Isolated, isolated, pausing};

const MIB: u64 = 1 << 20;
/// Size of a node of these tests.
const NODE: u64 = 1024 * MIB;
const LOW: &[&str] = &["memory.low", "memory.soft_limit_in_bytes"];
const MAX: &[&str] = &["memory.max", "memory.limit_in_bytes"];
/// Files that only the unified hierarchy has.
const HIGH: &[&str] = &["memory.high"];
const SWAP: &[&str] = &["memory.swap.max"];

/// Returns the cgroup of all containers in the hierarchy with the memory controller, found by a
/// process of one of them.
pub(crate) struct Place(PathBuf);

impl Place {
    pub(crate) fn of(pid: &str) -> Self {
        let own = Isolated::memory_cgroup(pid);
        let mounts = ["/sys/fs/cgroup", "/sys/fs/cgroup/memory"].map(PathBuf::from);
        let mut folders = mounts.iter().map(|mount| mount.join(own.trim_matches('/')));
        let own = folders.find(|folder| folder.join("cgroup.procs").exists() && has_memory(folder));
        let own = own.unwrap_or_else(|| panic!("where is the memory of {pid} counted?"));
        Self(own.ancestors().nth(2).unwrap().to_path_buf())
    }

    /// Returns the cgroup of a class.
    pub(crate) fn class(&self, class: &str) -> PathBuf {
        self.0.join(class)
    }

    /// Reads a number in one of a cgroup's files, whichever exists. `max` is the largest.
    fn number(&self, cgroup: &str, files: &[&str]) -> Option<u64> {
        let mut paths = files.iter().map(|file| self.0.join(cgroup).join(file));
        let text = paths.find_map(|path| std::fs::read_to_string(path).ok())?;
        Some(match text.trim() {
            "max" => u64::MAX,
            number => number.parse().unwrap(),
        })
    }

    fn of_container(&self, class: &str, id: ContainerId, files: &[&str]) -> Option<u64> {
        self.number(&format!("{class}/{id}"), files)
    }

    fn is_unified(&self) -> bool {
        self.0.join("cgroup.controllers").exists()
    }

    #[track_caller]
    fn wait(&self, what: &str, holds: impl Fn(&Self) -> bool) {
        wait::until(what, DEADLINE, || {
            let classes = ["", "guaranteed", "opportunistic"];
            let told = classes.map(|class| (self.number(class, HIGH), self.number(class, LOW)));
            wait::check(holds(self), format!("high and low are {told:?}"))
        });
    }
}

fn has_memory(folder: &std::path::Path) -> bool {
    MAX.iter().any(|file| folder.join(file).exists())
}

/// Returns a command that writes its process id to the file `pid` of its log folder, and continues
/// with another.
pub(crate) fn known(command: &str) -> String {
    format!("echo \\$\\$ > <LOG_DIR>/pid; {command}")
}

/// 90 % of it is protected, in whole pages.
fn protected(bytes: u64) -> u64 {
    bytes * 9 / 10 / 4096 * 4096
}

#[test]
fn what_is_promised_is_taken_from_opportunistic_containers_and_given_back() {
    let test = "what_is_promised_is_taken_from_opportunistic_containers_and_given_back";
    let Some(node) = isolated(test, |_| {}) else {
        return;
    };
    let am = &node.cluster.am;
    let end = node.cluster.gate("end");
    let opportunistic = am.start(&am.allocate().opportunistic(), &known(&end.then("exit 4")));
    let place = Place::of(&node.line(opportunistic, "pid"));
    let unified = place.is_unified();
    let stands = |place: &Place, promised: u64| {
        let high = place.number("opportunistic", HIGH);
        let low = |class| place.number(class, LOW);
        (!unified || high == Some(NODE - promised))
            && low("guaranteed") == Some(protected(promised))
            && low("") == Some(protected(promised))
            && low("opportunistic") == Some(0)
    };
    place.wait("nothing to be promised", |place| stands(place, 0));
    let gate = node.cluster.gate("go");
    let guaranteed = am.start(&am.allocate().memory_mb(256), &gate.then("exit 3"));
    place.wait("256 MiB to be promised", |place| stands(place, 256 * MIB));
    gate.open();
    assert_eq!(node.cluster.rm.wait_completed(guaranteed).exit_status, 3);
    place.wait("all to be given back", |place| stands(place, 0));
    end.open();
    assert_eq!(node.cluster.rm.wait_completed(opportunistic).exit_status, 4);
}

#[test]
fn promotion_demotion_and_a_new_size_change_the_limits_of_the_running_container() {
    let test = "promotion_demotion_and_a_new_size_change_the_limits_of_the_running_container";
    let Some(node) = isolated(test, |_| {}) else {
        return;
    };
    let am = &node.cluster.am;
    let (free, end) = (node.cluster.gate("free"), node.cluster.gate("end"));
    // Written pages stay in memory until the file is deleted.
    let rest = free.then(&format!("rm <LOG_DIR>/blob; {}", end.then("exit 5")));
    let command = format!(
        "head -c 30000000 /dev/zero > <LOG_DIR>/blob; {}",
        known(&rest)
    );
    let mut allocation = am.allocate().opportunistic();
    let id = am.start(&allocation, &command);
    let place = Place::of(&node.line(id, "pid"));
    let mut change = |execution_type, memory_mb| {
        allocation.execution_type = execution_type;
        allocation.resource = Resource::new(memory_mb, allocation.resource.vcores);
        allocation.version += 1;
        am.update(&allocation).unwrap();
    };
    change(ExecutionType::Guaranteed, 128);
    let left = |place: &Place| place.number("opportunistic", LOW).unwrap();
    place.wait("what it has used to be protected where it is", |place| {
        let low = place.of_container("opportunistic", id, LOW);
        low == Some(left(place)) && left(place) > 25 * MIB
    });
    if place.is_unified() {
        let high = NODE - 128 * MIB + left(&place);
        place.wait("others not to be pressed for it", |place| {
            place.number("opportunistic", HIGH) == Some(high)
        });
    }
    change(ExecutionType::Guaranteed, 256);
    place.wait("the new size", |place| {
        place.of_container("guaranteed", id, MAX) == Some(256 * MIB)
            && place.number("guaranteed", LOW) == Some(protected(256 * MIB))
    });
    free.open();
    place.wait("what it has freed not to be counted any more", |place| {
        left(place) < 10 * MIB
    });
    change(ExecutionType::Opportunistic, 256);
    place.wait("the demotion", |place| {
        place.of_container("opportunistic", id, MAX) == Some(256 * MIB)
            && place.of_container("guaranteed", id, LOW) == Some(0)
            && place.number("guaranteed", LOW) == Some(0)
            && left(place) == 0
    });
    end.open();
    assert_eq!(node.cluster.rm.wait_completed(id).exit_status, 5);
    for class in ["guaranteed", "opportunistic"] {
        assert_eq!(place.of_container(class, id, MAX), None, "{class}");
    }
}

#[test]
fn a_frozen_container_that_is_promoted_and_demoted_goes_on() {
    let test = "a_frozen_container_that_is_promoted_and_demoted_goes_on";
    let Some(node) = isolated(test, pausing) else {
        return;
    };
    let (am, rm) = (&node.cluster.am, &node.cluster.rm);
    let ear = Ear::new();
    let mut allocation = am.allocate().opportunistic().memory_mb(768);
    let id = am.start(&allocation, &known(&ear.command()));
    let mut line = ear.accept();
    assert_eq!(line.hear(), 1);
    rm.wait_sub_state(id, CssRunning);
    let place = Place::of(&node.line(id, "pid"));
    let swap = |class: &str| place.of_container(class, id, SWAP);
    assert_eq!(swap("opportunistic").unwrap_or(0), 0);
    let gate = node.cluster.gate("go");
    let guaranteed = am.start(&am.allocate().memory_mb(768), &gate.then("exit 0"));
    rm.wait_sub_state(guaranteed, CssRunning);
    rm.wait_sub_state(id, CssPaused);
    if place.is_unified() {
        place.wait("its memory to go to swap if it can", |_| {
            swap("opportunistic") == Some(768 * MIB)
        });
    }
    // The guarantee has to wait for the memory.
    allocation.execution_type = ExecutionType::Guaranteed;
    allocation.version = 1;
    am.update(&allocation).unwrap();
    place.wait("the promotion", |place| {
        place.of_container("guaranteed", id, MAX) == Some(768 * MIB)
    });
    line.say("next");
    gate.open();
    assert_eq!(rm.wait_completed(guaranteed).exit_status, 0);
    assert_eq!(line.hear(), 2);
    assert_eq!(swap("guaranteed").unwrap_or(0), 0);
    allocation.execution_type = ExecutionType::Opportunistic;
    allocation.version = 2;
    am.update(&allocation).unwrap();
    place.wait("the demotion", |place| {
        let procs = place.0.join(format!("guaranteed/{id}/cgroup.procs"));
        std::fs::read_to_string(procs).is_ok_and(|pids| pids.is_empty())
    });
    line.say("next");
    assert_eq!(line.hear(), 3);
    line.say("end");
    assert_eq!(rm.wait_completed(id).exit_status, 0);
}
