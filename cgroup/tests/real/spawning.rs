//! A process starts inside its cgroup, with a clean environment.

use std::ffi::CStr;
use std::fs::File;
use std::os::fd::AsFd as _;
use std::os::unix::fs::FileExt as _;

use cgroup::{Controller, NOTE_BYTES, Note, SpawnError, Step};

use super::fixture::{Script, TIMEOUT, TestRoot, Use, plain, run};

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

/// Starts a program that ends at once, with a note in the middle of a file.
fn spawn_with_note(program: &CStr, file: &File) -> Result<cgroup::Child, SpawnError> {
    file.write_all_at(&[0; 2 * NOTE_BYTES], 0).unwrap();
    let directory = File::open("/").unwrap();
    let arguments = [program];
    let command = cgroup::Command {
        note: Some(Note {
            file: file.as_fd(),
            offset: 16,
        }),
        ..plain(program, &arguments, &directory)
    };
    cgroup::spawn(&command, None)
}

#[test]
fn a_child_notes_its_pid_and_the_time_before_its_program_runs() {
    let boot_ns = || {
        let now = nix::time::clock_gettime(nix::time::ClockId::CLOCK_BOOTTIME).unwrap();
        u64::try_from(now.tv_sec() * 1_000_000_000 + now.tv_nsec()).unwrap()
    };
    let file = tempfile::tempfile().unwrap();
    let words = || {
        let mut bytes = [0; 2 * NOTE_BYTES];
        file.read_exact_at(&mut bytes, 0).unwrap();
        let (words, _) = bytes.as_chunks::<8>();
        words
            .iter()
            .map(|word| u64::from_ne_bytes(*word))
            .collect::<Vec<_>>()
    };
    let before = boot_ns();
    let child = spawn_with_note(c"/bin/true", &file).unwrap();
    let note = words();
    assert_eq!(note[..3], [0, 0, u64::try_from(child.pid).unwrap()]);
    assert!((before..=boot_ns()).contains(&note[3]), "{note:?}");
    // A program that cannot be executed has a child and so a note as well.
    spawn_with_note(c"/no/such/program", &file).unwrap_err();
    assert_ne!(words()[2], 0);
    // A file that cannot be written refuses the start.
    let file = File::open("/proc/self/exe").unwrap();
    let refused = cgroup::Command {
        note: Some(Note {
            file: file.as_fd(),
            offset: 0,
        }),
        ..plain(c"/bin/true", &[c"true"], &file)
    };
    let error = cgroup::spawn(&refused, None).unwrap_err();
    assert!(
        matches!(
            error,
            SpawnError::Child {
                step: Step::Note,
                ..
            }
        ),
        "{error:?}"
    );
}

#[test]
fn a_program_that_is_not_there_is_an_error_and_no_process() {
    let (_read, write) = nix::unistd::pipe().unwrap();
    let directory = std::fs::File::open("/").unwrap();
    let command = cgroup::Command {
        stdio: [None, Some(write.as_fd()), None],
        ..plain(c"/no/such/program", &[c"x"], &directory)
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

#[test]
fn a_child_that_was_stopped_before_its_program_is_continued() {
    let stop = || {
        #[expect(
            unsafe_code,
            reason = "a child stops itself as its user's processes could"
        )]
        // SAFETY: both take and return integers.
        match unsafe { libc::kill(libc::getpid(), libc::SIGSTOP) } {
            0 => Ok(()),
            _ => Err(libc::EIO),
        }
    };
    let spawning = std::thread::spawn(move || {
        let directory = std::fs::File::open("/").unwrap();
        #[expect(unsafe_code, reason = "a function for a child that shares memory")]
        // SAFETY: the function makes two system calls of its process.
        let before_exec = unsafe { cgroup::BeforeExec::new(&stop) };
        let command = cgroup::Command {
            before_exec: Some(before_exec),
            ..plain(c"/bin/true", &[c"true"], &directory)
        };
        cgroup::spawn(&command, None)
    });
    // Until the child is stopped, SIGCONT has no effect: it is sent until the thread returns.
    while !spawning.is_finished() {
        cgroup::continue_late_children(std::time::Duration::ZERO);
        std::thread::yield_now();
    }
    let child = spawning.join().unwrap().unwrap();
    assert!(child.pid > 0);
    assert_eq!(cgroup::continue_late_children(std::time::Duration::ZERO), 0);
}

#[test]
fn a_last_step_that_fails_is_an_error_and_no_process() {
    let directory = std::fs::File::open("/").unwrap();
    let refuse = || Err(libc::EPERM);
    #[expect(unsafe_code, reason = "a function for a child that shares memory")]
    // SAFETY: the function does nothing.
    let before_exec = unsafe { cgroup::BeforeExec::new(&refuse) };
    let command = cgroup::Command {
        before_exec: Some(before_exec),
        ..plain(c"/bin/true", &[c"true"], &directory)
    };
    let error = cgroup::spawn(&command, None).unwrap_err();
    let SpawnError::Child { step, source } = error else {
        panic!("{error:?}");
    };
    assert_eq!(step, Step::BeforeExec);
    assert_eq!(source.raw_os_error(), Some(libc::EPERM));
}
