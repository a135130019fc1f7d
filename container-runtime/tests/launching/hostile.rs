//! Ends of containers whose processes, or their tracers, make that hard.

use std::fs::File;
use std::io::Write as _;
use std::process::{Child, Command};

use container_runtime::launch::end_leftovers;
use keeper::ProcessIdentity;
use test_support::hostile::{self, Role};

use crate::*;

/// Starts a process of a role beside the containers.
fn play(role: &Role) -> Child {
    let (program, (name, value)) = hostile::command(role);
    Command::new(program).env(name, value).spawn().unwrap()
}

/// Returns whether a thread of the process runs.
fn runs(pid: i32) -> bool {
    let threads = Process::new(pid).and_then(|process| process.tasks());
    let states = threads.into_iter().flatten().flatten();
    let mut states = states.filter_map(|thread| Some(thread.stat().ok()?.state));
    states.any(|state| state != 'Z')
}

#[tokio::test]
async fn a_process_whose_first_thread_has_ended_ends_with_its_container() {
    let mut node = Node::start();
    let ready = node.root.path().join("half-dead");
    let half_dead = hostile::bash_line(&Role::HalfDead {
        ready: ready.clone(),
    });
    let script = node.root.path().join("script");
    // Left behind by a leader that ends, in its session.
    let text = format!(
        "({half_dead}) & until [ -s {} ]; do sleep 0.01; done\n",
        ready.display()
    );
    fs::write(&script, text).unwrap();
    let plan = node.plan(&format!("bash {}", script.display()));
    let id = node.launch(plan);
    node.launched().await;
    let pid = written_pid(ready).await;
    assert_eq!(process(pid).unwrap().state, 'Z');
    let (status, diagnostics) = node.exited().await;
    assert_eq!((status, diagnostics.as_str()), (0, ""), "{id}");
    assert!(!runs(pid));
}

#[tokio::test]
async fn a_container_whose_first_thread_has_ended_runs_until_it_is_killed() {
    let mut node = Node::start();
    let ready = node.root.path().join("half-dead");
    let line = hostile::bash_line(&Role::HalfDead {
        ready: ready.clone(),
    });
    let script = node.root.path().join("script");
    fs::write(&script, line).unwrap();
    let plan = node.plan(&format!("exec bash {}", script.display()));
    let id = node.launch(plan);
    let pid = node.launched().await;
    assert_eq!(written_pid(ready).await, pid);
    node.launcher.terminate(id);
    node.launcher.force_kill(id);
    assert_eq!(node.exited().await.0, 137);
    assert!(!runs(pid));
}

#[tokio::test]
async fn a_tracer_that_holds_a_process_at_its_end_is_ended() {
    let mut node = Node::start();
    let id = node.launch(node.plan("exec sleep 1000"));
    let pid = node.launched().await;
    let ready = node.root.path().join("tracer");
    let mut tracer = play(&Role::Tracer {
        of: pid,
        ready: ready.clone(),
    });
    written_pid(ready).await;
    node.launcher.force_kill(id);
    let (status, diagnostics) = node.exited().await;
    assert_eq!(status, 137, "{diagnostics}");
    assert!(!diagnostics.contains("survive"), "{diagnostics}");
    assert!(!runs(pid));
    assert_eq!(
        std::os::unix::process::ExitStatusExt::signal(&tracer.wait().unwrap()),
        Some(9)
    );
}

#[tokio::test]
async fn a_tracer_of_what_was_left_behind_is_ended() {
    let mut node = Node::start();
    let plan = node.plan("sleep 1000 & echo \\$! >child; until [ -e go ]; do sleep 0.01; done");
    let work_dir = plan.dirs.work_dir.path().to_owned();
    node.launch(plan);
    node.launched().await;
    let child = written_pid(work_dir.join("child")).await;
    let ready = node.root.path().join("tracer");
    let mut tracer = play(&Role::Tracer {
        of: child,
        ready: ready.clone(),
    });
    written_pid(ready).await;
    File::create(work_dir.join("go")).unwrap();
    assert_eq!(node.exited().await.0, 0);
    assert!(!runs(child));
    tracer.wait().unwrap();
}

/// The status belongs to the tracer until that has looked at it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clean_exits_under_strace_are_clean() {
    const EXITS: usize = 200;
    let test = "clean_exits_under_strace_are_clean";
    if Command::new("strace").arg("-V").output().is_err() {
        let why = "strace (Debian: strace) is not installed";
        return test_support::skip::skip(test, &why);
    }
    let mut node = Node::start();
    let folder = node.root.path().to_owned();
    for number in 0..EXITS {
        let go = folder.join(format!("go-{number}"));
        let plan = node.plan(&format!(
            "until [ -e {} ]; do sleep 0.002; done",
            go.display()
        ));
        node.launch(plan);
        let pid = node.launched().await;
        let mut strace = Command::new("strace");
        strace.args(["-q", "-f", "-o", "/dev/null", "-p", &pid.to_string()]);
        let mut strace = strace.spawn().unwrap();
        eventually("strace attached", || {
            let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
            (!status.contains("TracerPid:\t0\n")).then_some(())
        })
        .await;
        File::create(go).unwrap();
        assert_eq!(node.exited().await, (0, String::new()), "exit {number}");
        strace.wait().unwrap();
    }
}

/// A tracer that does not look keeps the status for a while and not for ever.
#[tokio::test]
async fn a_tracer_that_does_not_look_at_a_zombie_is_ended() {
    let mut node = Node::start();
    // It has no children, whose ends would stop it for the tracer.
    let gate = node.root.path().join("gate");
    nix::unistd::mkfifo(&gate, nix::sys::stat::Mode::S_IRWXU).unwrap();
    node.launch(node.plan(&format!("read _ <{}; exit 3", gate.display())));
    let pid = node.launched().await;
    let opened = tokio::task::spawn_blocking(move || File::options().write(true).open(gate));
    let mut gate = timeout(DEADLINE, opened).await.unwrap().unwrap().unwrap();
    let ready = node.root.path().join("tracer");
    let mut tracer = play(&Role::Holder {
        of: pid,
        ready: ready.clone(),
    });
    written_pid(ready).await;
    gate.write_all(b"\n").unwrap();
    assert_eq!(node.exited().await.0, 3);
    tracer.wait().unwrap();
    eventually("it is reaped", || process(pid).is_none().then_some(())).await;
}

#[tokio::test]
async fn what_an_earlier_agent_left_is_ended_with_its_tracer() {
    let folder = tempfile::tempdir().unwrap();
    // Its own session and group, like a container's first process.
    let mut leftover = Command::new("setsid");
    let mut leftover = leftover.args(["sleep", "1000"]).spawn().unwrap();
    let pid = i32::try_from(leftover.id()).unwrap();
    let is_leader = || process(pid).filter(|stat| stat.session == pid);
    eventually("a session of its own", is_leader).await;
    let ready = folder.path().join("tracer");
    let mut tracer = play(&Role::Tracer {
        of: pid,
        ready: ready.clone(),
    });
    written_pid(ready).await;
    let process = ProcessIdentity::of(pid).unwrap();
    timeout(DEADLINE, end_leftovers(&[process]))
        .await
        .expect("its end in time");
    leftover.wait().unwrap();
    tracer.wait().unwrap();
}
