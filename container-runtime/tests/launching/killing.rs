//! Signals to containers, and the processes that they leave behind.

use container_runtime::launch::ContainerSignal;

use crate::{Node, eventually, is_alive, output, process, written_pid};

#[tokio::test]
async fn terminate_ends_a_container_with_143() {
    let mut node = Node::start();
    let id = node.launch(node.plan("sleep 1000"));
    node.launched().await;
    node.launcher.terminate(id);
    let (status, diagnostics) = node.exited().await;
    assert_eq!(status, 143);
    assert!(
        diagnostics.starts_with("Container killed on request. Exit code is 143"),
        "{diagnostics}"
    );
}

#[tokio::test]
async fn an_ignored_sigterm_is_followed_by_the_ordered_sigkill() {
    let mut node = Node::start();
    let plan = node.plan("trap '' TERM; echo \\$\\$ >pid; sleep 1000; sleep 1000");
    let ready = plan.dirs.work_dir.path().join("pid");
    let id = node.launch(plan);
    let pid = node.launched().await;
    assert_eq!(written_pid(ready).await, pid);
    node.launcher.terminate(id);
    assert!(is_alive(pid));
    node.launcher.force_kill(id);
    assert_eq!(node.exited().await.0, 137);
    assert!(!is_alive(pid));
}

#[tokio::test]
async fn children_that_changed_their_session_are_killed_too() {
    let mut node = Node::start();
    let plan = node.plan("setsid sleep 1000 & echo \\$! >child; wait");
    let child = plan.dirs.work_dir.path().join("child");
    let id = node.launch(plan);
    node.launched().await;
    let child = written_pid(child).await;
    eventually("a session of its own", || {
        process(child).filter(|process| process.session == child)
    })
    .await;
    node.launcher.force_kill(id);
    assert_eq!(node.exited().await.0, 137);
    assert!(!is_alive(child));
}

#[tokio::test]
async fn a_child_that_changed_session_and_environment_is_killed_with_its_parent() {
    let mut node = Node::start();
    let plan = node.plan("env -i setsid bash -c 'trap \\\"\\\" TERM; echo \\$\\$ >child; while :; do sleep 1; done' & wait");
    let child = plan.dirs.work_dir.path().join("child");
    let id = node.launch(plan);
    node.launched().await;
    let child = written_pid(child).await;
    node.launcher.terminate(id);
    assert_eq!(node.exited().await.0, 143);
    assert!(!is_alive(child));
}

#[tokio::test]
async fn what_was_started_on_sigterm_and_hides_is_killed_with_its_parent() {
    let mut node = Node::start();
    let plan = node.plan(
        "trap 'env -i setsid sleep 1000 & echo \\$! >child' TERM; echo x >ready; while :; do sleep 0.01; done",
    );
    let (ready, child) = (
        plan.dirs.work_dir.path().join("ready"),
        plan.dirs.work_dir.path().join("child"),
    );
    let id = node.launch(plan);
    node.launched().await;
    eventually("the trap", || ready.exists().then_some(())).await;
    node.launcher.terminate(id);
    let child = written_pid(child).await;
    node.launcher.force_kill(id);
    assert_eq!(node.exited().await.0, 137);
    assert!(!is_alive(child));
}

#[tokio::test]
async fn daemons_do_not_outlive_a_container_that_ends_by_itself() {
    let mut node = Node::start();
    // Two forks and a new session: its parent is gone at once.
    let plan = node.plan("(setsid bash -c 'echo \\$\\$ >daemon; sleep 1000' &) ; until [ -s daemon ]; do :; done; exit 3");
    let daemon = plan.dirs.work_dir.path().join("daemon");
    let (status, _) = node.run(plan).await;
    assert_eq!(status, 3);
    let daemon = written_pid(daemon).await;
    assert!(!is_alive(daemon));
}

#[tokio::test]
async fn left_overs_that_ignore_sigterm_are_killed_after_the_delay() {
    let mut node = Node::start();
    let plan = node.plan("(trap '' TERM; echo x >ready; sleep 1000 & echo \\$! >child; wait; sleep 1000) & until [ -s child ]; do :; done");
    let child = plan.dirs.work_dir.path().join("child");
    assert_eq!(node.run(plan).await.0, 0);
    assert!(!is_alive(written_pid(child).await));
}

#[tokio::test]
async fn a_thread_dump_reaches_a_trap_of_the_group() {
    let mut node = Node::start();
    let plan = node.plan("trap 'echo dumped ><LOG_DIR>/stdout; exit 9' QUIT; echo \\$\\$ >pid; while :; do sleep 0.01; done");
    let ready = plan.dirs.work_dir.path().join("pid");
    let log_dir = plan.dirs.log_dir.path().to_owned();
    let id = node.launch(plan);
    let pid = node.launched().await;
    written_pid(ready).await;
    let text = node
        .launcher
        .signal(id, "alice", ContainerSignal::OutputThreadDump);
    let expected = format!(
        "Sent signal OUTPUT_THREAD_DUMP (SIGQUIT) to pid {pid} as user alice for container {id}, result=success"
    );
    assert_eq!(text, Some(expected));
    assert_eq!(node.exited().await.0, 9);
    assert_eq!(output(&log_dir), "dumped\n");
    let signal = ContainerSignal::GracefulShutdown;
    assert_eq!(node.launcher.signal(id, "alice", signal), None);
}

#[tokio::test]
async fn a_signal_is_not_lost_while_the_process_is_awaited() {
    let mut node = Node::start();
    let plan = node.plan("exec sleep 1000");
    let id = node.launch(plan);
    let signal = ContainerSignal::ForcefulShutdown;
    // Sent at once, or as soon as the launch thread knows the process.
    let _line = node.launcher.signal(id, "alice", signal);
    node.launched().await;
    assert_eq!(node.exited().await.0, 137);
}
