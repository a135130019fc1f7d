//! A process starts inside its cgroup, with a clean environment.

use std::os::fd::AsFd as _;

use cgroup::{Controller, SpawnError, Step};

use super::fixture::{Script, TIMEOUT, TestRoot, Use, run};

fn enters_before_its_first_instruction(test: &str, what: Use) {
    let wanted = [
        Controller::Cpu,
        Controller::Memory,
        Controller::Pids,
        Controller::Freezer,
    ];
    let Some(test_root) = TestRoot::new(test, what, &wanted) else {
        return;
    };
    let group = test_root.group("c1");
    let mut script = Script::start(
        "cat /proc/self/cgroup; echo end; read < /dev/null",
        Some(&group),
    );
    let mut own = String::new();
    loop {
        let line = script.line();
        if line == "end" || line.is_empty() {
            break;
        }
        own = own + &line + "\n";
    }
    assert_eq!(script.wait(), 1);
    let layout = cgroup::Layout::of_this_process();
    let places = group.paths().len();
    let inside = own.lines().filter(|line| line.ends_with("/class/c1"));
    assert_eq!(inside.count(), places, "{own} {layout:?}");
}

#[test]
fn a_process_is_in_all_hierarchies_before_its_first_instruction() {
    enters_before_its_first_instruction(
        "a_process_is_in_all_hierarchies_before_its_first_instruction",
        Use::All,
    );
}

#[test]
fn a_process_is_in_the_legacy_hierarchies_before_its_first_instruction() {
    enters_before_its_first_instruction(
        "a_process_is_in_the_legacy_hierarchies_before_its_first_instruction",
        Use::Legacy,
    );
}

#[test]
fn a_process_starts_clean() {
    // Rust ignores SIGPIPE; a child must not inherit that, nor descriptors, nor a signal mask.
    let open = std::fs::File::open("/").unwrap();
    let inherited = nix::unistd::dup(open.as_fd()).unwrap();
    let mut script = Script::start(
        "grep -E '^Sig(Ign|Blk)' /proc/self/status | tr -d '\\n\\t'; echo; \
         ls /proc/$$/fd | tr '\\n' ' '; echo; ps -o sid= -p $$ | tr -d ' '; echo $$; pwd; env",
        None,
    );
    assert_eq!(
        script.line(),
        "SigBlk:0000000000000000SigIgn:0000000000000000"
    );
    let descriptors = script.line();
    assert!(descriptors.starts_with("0 1 2 "), "{descriptors}");
    assert!(
        !descriptors
            .split(' ')
            .any(|fd| fd == std::os::fd::AsRawFd::as_raw_fd(&inherited).to_string()),
        "{descriptors}"
    );
    let session = script.line();
    assert_eq!(session, script.line());
    assert_eq!(session, script.child.pid.to_string());
    assert_eq!(script.line(), "/");
    let mut environment: Vec<String> =
        std::iter::from_fn(|| Some(script.line()).filter(|l| !l.is_empty())).collect();
    environment.retain(|line| {
        !line.starts_with("_=") && !line.starts_with("SHLVL=") && !line.starts_with("PWD=")
    });
    environment.sort();
    let own_pid = format!("OWN_PID={}", script.child.pid);
    assert_eq!(environment, ["LC_ALL=C", &own_pid, "PATH=/usr/bin:/bin"]);
    assert_eq!(script.wait(), 0);
}

#[test]
fn a_program_that_is_not_there_is_an_error_and_no_process() {
    let (_read, write) = nix::unistd::pipe().unwrap();
    let directory = std::fs::File::open("/").unwrap();
    let command = cgroup::Command {
        program: c"/no/such/program",
        arguments: &[c"x"],
        environment: &[],
        pid_entry: None,
        directory: directory.as_fd(),
        stdio: [None, Some(write.as_fd()), None],
        open_files: None,
    };
    let error = cgroup::spawn(&command, None).unwrap_err();
    let SpawnError::Child { step, source } = error else {
        panic!("{error:?}");
    };
    assert_eq!(step, Step::Execute);
    assert_eq!(source.raw_os_error(), Some(libc::ENOENT));
}

#[test]
fn a_cgroup_that_is_gone_is_an_error_and_no_process() {
    let test = "a_cgroup_that_is_gone_is_an_error_and_no_process";
    let Some(test_root) = TestRoot::new(test, Use::All, &[Controller::Pids]) else {
        return;
    };
    let group = test_root.group("c1");
    group.remove().unwrap();
    let (_read, write) = nix::unistd::pipe().unwrap();
    let error = run(&[c"bash"], Some(&group), &write).unwrap_err();
    assert!(matches!(error, SpawnError::Cgroup(_)), "{error:?}");
    // Destroying a missing cgroup succeeds.
    group.destroy(TIMEOUT).unwrap();
}

#[test]
fn many_threads_spawn_at_once() {
    let test = "many_threads_spawn_at_once";
    let Some(test_root) = TestRoot::new(test, Use::All, &[Controller::Pids]) else {
        return;
    };
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let test_root = &test_root;
            scope.spawn(move || {
                for round in 0..10 {
                    let group = test_root.group(&format!("c{thread}-{round}"));
                    let mut script = Script::start("echo $((1 + 1))", Some(&group));
                    assert_eq!(script.line(), "2");
                    assert_eq!(script.wait(), 0);
                    group.destroy(TIMEOUT).unwrap();
                }
            });
        }
    });
}
