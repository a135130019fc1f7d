//! No process survives a kill, and no cgroup of an earlier run remains.

use cgroup::{Controller, Delegation, Layout, Root, RootConfig, Unusable};

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use test_support::hostile::{self, Role};

use super::fixture::{Script, TIMEOUT, TestRoot, Use, wait_until};

/// Leaves its session and forks without end. Dies only if killing is faster.
const FORKING: &str = "echo go; f() { setsid bash -c 'while :; do (:) & done' & }; f; f; wait";

#[test]
fn what_forks_without_end_and_leaves_its_session_is_killed() {
    for what in [Use::All, Use::Legacy] {
        let test = "what_forks_without_end_and_leaves_its_session_is_killed";
        let wanted = [Controller::Freezer, Controller::Pids];
        let Some(test_root) = TestRoot::new(test, what, &wanted) else {
            return;
        };
        let group = test_root.group("c1");
        let limits = cgroup::Limits {
            pids_max: Some(cgroup::Bound::At(64)),
            ..cgroup::Limits::default()
        };
        group.apply(&limits).unwrap();
        let mut script = Script::start(FORKING, Some(&group));
        assert_eq!(script.line(), "go");
        wait_until("it has forked", || group.processes().unwrap().len() > 2);
        group.destroy(TIMEOUT).unwrap();
        assert_eq!(script.wait(), 137);
    }
}

#[test]
fn a_signal_reaches_all_but_one() {
    let test = "a_signal_reaches_all_but_one";
    let Some(test_root) = TestRoot::new(test, Use::All, &[Controller::Pids]) else {
        return;
    };
    let group = test_root.group("c1");
    let mut script = Script::start(
        "sleep 1000 & setsid sleep 1000 & echo go; wait; echo done",
        Some(&group),
    );
    assert_eq!(script.line(), "go");
    wait_until("all are there", || group.processes().unwrap().len() == 3);
    let signalled = group.signal(libc::SIGKILL, Some(script.child.pid)).unwrap();
    assert_eq!(signalled, 2);
    assert_eq!(script.line(), "done");
    assert_eq!(script.wait(), 0);
    group.wait_empty(TIMEOUT).unwrap();
    assert!(!group.is_populated().unwrap());
}

#[test]
fn cgroups_made_inside_are_emptied_and_removed_too() {
    let test = "cgroups_made_inside_are_emptied_and_removed_too";
    for what in [Use::All, Use::Legacy] {
        let Some(test_root) = TestRoot::new(test, what, &[Controller::Pids]) else {
            return;
        };
        let group = test_root.group("c1");
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
        group.destroy(TIMEOUT).unwrap();
        assert_eq!(script.wait(), 137);
        assert!(!group.paths()[0].exists());
    }
}

#[test]
fn however_many_cgroups_are_made_inside_and_however_deep_none_stays() {
    let test = "however_many_cgroups_are_made_inside_and_however_deep_none_stays";
    for what in [Use::All, Use::Legacy] {
        let Some(test_root) = TestRoot::new(test, what, &[Controller::Pids]) else {
            return;
        };
        let group = test_root.group("c1");
        let top = &group.paths()[0];
        for wide in 0..1_200 {
            std::fs::create_dir(top.join(format!("w{wide}"))).unwrap();
        }
        let deepest = top.join("w7").join("d/".repeat(40));
        std::fs::create_dir_all(&deepest).unwrap();
        let enter = format!("echo $$ > {}/cgroup.procs", deepest.display());
        let mut script = Script::start(&format!("{enter}; echo go; sleep 1000"), Some(&group));
        assert_eq!(script.line(), "go");
        assert!(group.processes().unwrap().contains(&script.child.pid));
        group.destroy(TIMEOUT).unwrap();
        assert_eq!(script.wait(), 137);
        assert!(!top.exists());
    }
}

/// Starts a process in the cgroup whose first thread ends while another runs.
fn half_dead(group: &cgroup::Cgroup) -> (Script, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let ready = folder.path().join("ready");
    let line = hostile::bash_line(&Role::HalfDead {
        ready: ready.clone(),
    });
    let script = Script::start(&line, Some(group));
    wait_until("its first thread has ended", || ready.exists());
    (script, folder)
}

#[test]
fn a_process_whose_first_thread_has_ended_is_killed() {
    let test = "a_process_whose_first_thread_has_ended_is_killed";
    let wanted = [Controller::Freezer, Controller::Pids];
    for what in [Use::All, Use::Legacy] {
        let Some(test_root) = TestRoot::new(test, what, &wanted) else {
            return;
        };
        let group = test_root.group("c1");
        let (mut script, _folder) = half_dead(&group);
        assert!(group.is_populated().unwrap());
        assert_eq!(group.running().unwrap(), [script.child.pid]);
        group.kill().unwrap();
        group.wait_empty(TIMEOUT).unwrap();
        assert_eq!(script.wait(), 137);
        assert!(group.running().unwrap().is_empty());
    }
}

/// In the unified hierarchy its pid stays listed where its first thread was.
#[test]
fn a_process_whose_first_thread_has_ended_is_killed_where_it_was_moved() {
    let test = "a_process_whose_first_thread_has_ended_is_killed_where_it_was_moved";
    for what in [Use::All, Use::Legacy] {
        let Some(test_root) = TestRoot::new(test, what, &[Controller::Pids]) else {
            return;
        };
        let (former, group) = (test_root.group("c1"), test_root.group("c2"));
        let (mut script, _folder) = half_dead(&former);
        assert_eq!(group.move_from(&former, 64).unwrap(), 1);
        assert_eq!(
            group.move_from(&former, 64).unwrap(),
            0,
            "it has been moved"
        );
        assert!(!former.is_populated().unwrap());
        assert_eq!(group.running().unwrap(), [script.child.pid]);
        group.kill().unwrap();
        group.wait_empty(TIMEOUT).unwrap();
        assert_eq!(script.wait(), 137);
    }
}

/// The limit on descriptors is systemd's default, and the kernel cannot kill a whole cgroup by
/// itself (v1).
#[test]
fn thousands_of_processes_are_signalled_and_killed_with_a_thousand_descriptors() {
    const PROCESSES: usize = 2_100;
    let test = "thousands_of_processes_are_signalled_and_killed_with_a_thousand_descriptors";
    let wanted = [Controller::Freezer, Controller::Pids];
    let Some(test_root) = TestRoot::new(test, Use::Legacy, &wanted) else {
        return;
    };
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    setrlimit(Resource::RLIMIT_NOFILE, hard.min(1_000), hard).unwrap();
    let group = test_root.group("c1");
    let children = PROCESSES - 1;
    let bomb =
        format!("trap '' TERM; for n in {{1..{children}}}; do sleep 1000 & done; echo go; wait");
    let mut script = Script::start(&bomb, Some(&group));
    assert_eq!(script.line(), "go");
    assert_eq!(group.processes().unwrap().len(), PROCESSES);
    assert_eq!(group.signal(libc::SIGTERM, None).unwrap(), PROCESSES);
    assert_eq!(
        group.processes().unwrap().len(),
        PROCESSES,
        "they ignore SIGTERM"
    );
    group.kill().unwrap();
    group.wait_empty(TIMEOUT).unwrap();
    assert_eq!(script.wait(), 137);
}

#[test]
fn what_an_earlier_run_left_is_found_and_ended() {
    let test = "what_an_earlier_run_left_is_found_and_ended";
    let Some(test_root) = TestRoot::new(test, Use::All, &[Controller::Pids]) else {
        return;
    };
    let mut script = Script::start("echo go; sleep 1000", Some(&test_root.group("left")));
    assert_eq!(script.line(), "go");
    test_root.group("empty");
    let names: Vec<String> = test_root
        .parent
        .children()
        .unwrap()
        .iter()
        .map(|group| group.name().to_owned())
        .collect();
    assert_eq!(names, ["empty", "left"]);
    for group in test_root.parent.children().unwrap() {
        group.destroy(TIMEOUT).unwrap();
    }
    assert_eq!(script.wait(), 137);
    assert!(test_root.parent.children().unwrap().is_empty());
}

#[test]
fn a_root_in_use_is_refused_to_others() {
    let test = "a_root_in_use_is_refused_to_others";
    let Some(test_root) = TestRoot::new(test, Use::All, &[Controller::Pids]) else {
        return;
    };
    let path = test_root.root().paths()[0].clone();
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
