//! Roots in ordinary directories in place of a cgroup mount: what is found, created, written and
//! refused. Tests that need a kernel's answer are in `tests/real`.

use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::*;
use crate::root_config::Delegation;
use crate::scale::{Bound, CpuQuota, Weight};

const MOUNT: &str = "30 25 0:27 / /cg rw - cgroup2 cgroup2 rw\n";
const WANTED: &[Controller] = &[
    Controller::Cpu,
    Controller::Memory,
    Controller::Pids,
    Controller::Io,
];

/// Creates a directory with the files of a cgroup, the named controllers available and enabled.
fn cgroup(path: &Path, controllers: &str) {
    fs::create_dir_all(path).unwrap();
    for (file, text) in [
        ("cgroup.controllers", controllers),
        ("cgroup.subtree_control", controllers),
        ("cgroup.procs", ""),
        ("cgroup.freeze", "0\n"),
        ("cgroup.events", "populated 0\nfrozen 0\n"),
    ] {
        fs::write(path.join(file), text).unwrap();
    }
}

fn control_files(path: &Path) {
    for file in [
        "cpu.weight",
        "cpu.idle",
        "cpu.max",
        "memory.max",
        "memory.high",
        "memory.low",
        "memory.swap.max",
        "memory.oom.group",
        "pids.max",
        "io.weight",
    ] {
        fs::write(path.join(file), "").unwrap();
    }
}

struct Host {
    root: TempDir,
    own: &'static str,
}

impl Host {
    fn new(own: &'static str) -> Self {
        let root = tempfile::tempdir().unwrap();
        cgroup(&root.path().join("cg"), "cpu io memory pids\n");
        Self { root, own }
    }

    fn path(&self, below: &str) -> PathBuf {
        self.root.path().join("cg").join(below)
    }

    fn layout(&self) -> Layout {
        Layout::parse(MOUNT, &format!("0::{}\n", self.own)).below(self.root.path())
    }

    fn config<'a>(&self, hierarchy: &'a str, delegation: Delegation<'a>) -> RootConfig<'a> {
        RootConfig {
            hierarchy: Some(hierarchy),
            wanted: WANTED,
            delegation,
            own_leaf: "agent",
            delegated_root: "all",
        }
    }

    fn open(&self, hierarchy: &str, delegation: Delegation<'_>) -> Result<Root, Unusable> {
        Root::open(&self.layout(), &self.config(hierarchy, delegation))
    }
}

#[test]
fn without_delegation_the_configured_path_below_the_mount_is_used() {
    let host = Host::new("/user.slice");
    cgroup(&host.path("hadoop-yarn"), "cpu memory pids\n");
    let root = host.open("/hadoop-yarn/", Delegation::AsMarked).unwrap();
    assert_eq!(root.paths(), [host.path("hadoop-yarn")]);
    assert_eq!(root.version(), Version::V2);
    assert!(root.controls(Controller::Memory) && root.controls(Controller::Freezer));
    let missing: Vec<_> = root
        .missing()
        .iter()
        .map(|missing| &missing.controllers)
        .collect();
    assert_eq!(missing, [&vec![Controller::Io]]);
}

#[test]
fn a_delegated_cgroup_is_used_and_the_process_leaves_it_for_a_leaf() {
    let host = Host::new("/system.slice/nm.service");
    let own = host.path("system.slice/nm.service");
    cgroup(&own, "cpu memory pids\n");
    cgroup(&own.join("all"), "cpu memory pids\n");
    let root = host.open("hadoop-yarn", Delegation::Given).unwrap();
    assert_eq!(root.paths(), [own.join("all")]);
    assert!(own.join("agent").is_dir());
    assert!(!host.path("hadoop-yarn").exists());
}

#[test]
fn a_cgroup_delegated_beside_the_process_is_used_and_the_process_stays_in_its_own() {
    let host = Host::new("/nm.slice/nm.service");
    let own = host.path("nm.slice/nm.service");
    cgroup(&own, "cpu memory pids\n");
    fs::write(own.join("cgroup.procs"), "1\n").unwrap();
    let beside = host.path("nm.slice/containers.service");
    cgroup(&beside, "cpu memory pids\n");
    cgroup(&beside.join("all"), "cpu memory pids\n");
    let delegation = Delegation::Beside("/nm.slice/containers.service");
    let root = host.open("hadoop-yarn", delegation).unwrap();
    assert_eq!(root.paths(), [beside.join("all")]);
    assert!(!own.join("agent").exists() && !beside.join("agent").exists());
    drop(root);

    let gone = Delegation::Beside("nm.slice/gone.service");
    let config = RootConfig {
        hierarchy: None,
        ..host.config("", gone)
    };
    let error = Root::open(&host.layout(), &config).unwrap_err();
    assert!(matches!(error, Unusable::Broken(_)), "{error:?}");
    let outside = Delegation::Beside("../nm.slice");
    let error = host.open("hadoop-yarn", outside).unwrap_err();
    assert!(matches!(error, Unusable::Broken(_)), "{error:?}");
}

#[test]
fn a_process_that_is_in_the_leaf_already_uses_what_is_above() {
    let host = Host::new("/system.slice/nm.service/agent");
    let own = host.path("system.slice/nm.service");
    cgroup(&own, "cpu memory pids\n");
    cgroup(&own.join("agent"), "");
    cgroup(&own.join("all"), "cpu memory pids\n");
    let root = host.open("hadoop-yarn", Delegation::Given).unwrap();
    assert_eq!(root.paths(), [own.join("all")]);
}

#[test]
fn a_cgroup_whose_processes_cannot_be_moved_is_busy() {
    let host = Host::new("/a");
    cgroup(&host.path("a"), "memory\n");
    cgroup(&host.path("a/agent"), "");
    // An ordinary file keeps a pid that was moved away.
    fs::write(host.path("a/cgroup.procs"), "1\n").unwrap();
    let error = host.open("hadoop-yarn", Delegation::Given).unwrap_err();
    assert!(matches!(error, Unusable::Busy(_)), "{error:?}");
    assert_eq!(
        fs::read_to_string(host.path("a/agent/cgroup.procs")).unwrap(),
        "1"
    );
}

#[test]
fn controllers_are_asked_for_one_by_one_where_they_are_not_given_on() {
    let host = Host::new("/");
    cgroup(&host.path("y"), "pids\n");
    fs::write(host.path("cgroup.subtree_control"), "cpu io memory\n").unwrap();
    let root = host.open("y", Delegation::None).unwrap();
    let asked = fs::read_to_string(host.path("cgroup.subtree_control")).unwrap();
    assert_eq!(asked, "+pids");
    assert!(root.controls(Controller::Pids));
    assert!(!root.controls(Controller::Memory));
}

#[test]
fn no_hierarchy_is_a_reason_of_its_own() {
    let config = RootConfig {
        hierarchy: Some("y"),
        wanted: WANTED,
        delegation: Delegation::None,
        own_leaf: "agent",
        delegated_root: "all",
    };
    let error = Root::open(&Layout::default(), &config).unwrap_err();
    assert!(matches!(error, Unusable::NotMounted), "{error:?}");
    let only_delegated = RootConfig {
        hierarchy: None,
        ..config
    };
    let error = Root::open(&Layout::default(), &only_delegated).unwrap_err();
    assert!(matches!(error, Unusable::NotDelegated), "{error:?}");
    // A mount point that does not exist: the kernel's error is kept.
    let layout = Layout::parse(MOUNT, "0::/\n").below(Path::new("/no/such/folder"));
    let error = Root::open(&layout, &config).unwrap_err();
    assert!(matches!(error, Unusable::Broken(_)), "{error:?}");
}

#[test]
fn a_path_that_leads_elsewhere_is_refused() {
    let host = Host::new("/");
    for hierarchy in ["../x", "a/../../b", "a\0b", "./../x"] {
        let error = host.open(hierarchy, Delegation::None).unwrap_err();
        assert!(matches!(error, Unusable::Broken(_)), "{hierarchy}");
    }
}

#[test]
fn limits_are_written_in_the_words_of_the_unified_hierarchy() {
    let host = Host::new("/");
    for path in ["y", "y/class"] {
        cgroup(&host.path(path), "cpu io memory pids\n");
    }
    let path = host.path("y/class/c1");
    cgroup(&path, "");
    control_files(&path);
    let root = host.open("y", Delegation::None).unwrap();
    let group = root.parent("class").unwrap().create("c1").unwrap();
    group
        .apply(&Limits {
            cpu_weight: Some(Weight::new(200)),
            cpu_idle: Some(false),
            cpu_quota: Some(CpuQuota::of_cpus(2.0)),
            memory_max: Some(Bound::At(1 << 30)),
            memory_high: Some(Bound::Unlimited),
            memory_low: Some(4096),
            swap_max: Some(Bound::At(0)),
            swappiness: Some(60),
            oom_group: Some(true),
            pids_max: Some(Bound::At(10)),
            io_weight: Some(Weight::new(50)),
        })
        .unwrap();
    for (file, text) in [
        ("cpu.weight", "200"),
        ("cpu.idle", "0"),
        ("cpu.max", "1000000 500000"),
        ("memory.max", "1073741824"),
        ("memory.high", "max"),
        ("memory.low", "4096"),
        ("memory.swap.max", "0"),
        ("memory.oom.group", "1"),
        ("pids.max", "10"),
        ("io.weight", "50"),
    ] {
        assert_eq!(fs::read_to_string(path.join(file)).unwrap(), text, "{file}");
    }
    // The kernel refuses a weight for an idle cgroup, so none is written.
    fs::write(path.join("cpu.weight"), "").unwrap();
    let idle = Limits {
        cpu_idle: Some(true),
        cpu_weight: Some(Weight::MAX),
        ..Limits::default()
    };
    group.apply(&idle).unwrap();
    assert_eq!(fs::read_to_string(path.join("cpu.weight")).unwrap(), "");
    fs::remove_file(path.join("cpu.idle")).unwrap();
    group.apply(&idle).unwrap();
    assert_eq!(fs::read_to_string(path.join("cpu.weight")).unwrap(), "1");
}

#[test]
fn memory_events_are_read_and_what_is_not_there_is_none() {
    let host = Host::new("/");
    for path in ["y", "y/class", "y/class/c1"] {
        cgroup(&host.path(path), "memory\n");
    }
    let path = host.path("y/class/c1");
    let events = "low 0\nhigh 2\nmax 31\noom 1\noom_kill 3\noom_group_kill 1\n";
    fs::write(path.join("memory.events"), events).unwrap();
    fs::write(path.join("memory.max"), "max\n").unwrap();
    let group = host.open("y", Delegation::None).unwrap();
    let group = group.parent("class").unwrap().create("c1").unwrap();
    let read = group.memory_events().unwrap();
    let expected = MemoryEvents {
        oom_kills: Some(3),
        limit_ooms: Some(1),
        high_hits: Some(2),
        peak_bytes: None,
        limit_bytes: None,
    };
    assert_eq!(read, expected);
    fs::write(path.join("memory.max"), "much\n").unwrap();
    let error = group.memory_events().unwrap_err();
    assert!(error.to_string().contains("\"much\\n\""), "{error}");
}

#[test]
fn what_never_freezes_is_given_up_and_runs_again() {
    let host = Host::new("/");
    for path in ["y", "y/class", "y/class/c1"] {
        cgroup(&host.path(path), "memory\n");
    }
    let group = host.open("y", Delegation::None).unwrap();
    let group = group.parent("class").unwrap().create("c1").unwrap();
    let timeout = std::time::Duration::from_millis(5);
    let error = group.freeze(timeout).unwrap_err();
    assert!(matches!(error, CgroupError::Timeout { .. }), "{error:?}");
    let state = fs::read_to_string(host.path("y/class/c1/cgroup.freeze")).unwrap();
    assert_eq!(state, "0");
}
