//! Ends of containers, and of what an earlier run left.

use std::collections::BTreeSet;
use std::os::unix::process::ExitStatusExt as _;

use super::*;

#[tokio::test]
async fn a_process_that_left_its_session_ends_with_its_container() {
    let test = "a_process_that_left_its_session_ends_with_its_container";
    let Some(mut node) = Node::start(test) else {
        return;
    };
    // Out of the session, orphaned, without environment, ignoring SIGTERM: only its cgroup tells
    // whose process it is.
    let daemon =
        "(env -i setsid bash -c 'trap \"\" TERM; echo $$ > pid; while :; do sleep 1; done' &)";
    let command = format!("{daemon}; until [ -s pid ]; do sleep 0.01; done");
    let spec = node.launch(ExecutionType::Guaranteed, &command).await;
    let (status, _) = node.exited().await;
    assert_eq!(status, ContainerExitStatus::SUCCESS);
    let pid = text_of(&node.work_file(spec.id, "pid")).await;
    assert!(!is_alive(&pid));
}

/// A process of the agent's own user may leave its cgroup.
#[tokio::test]
async fn a_process_that_left_its_cgroup_ends_with_its_container() {
    let test = "a_process_that_left_its_cgroup_ends_with_its_container";
    let Some(mut node) = Node::start(test) else {
        return;
    };
    let outside = node.paths.iter().map(|path| path.parent().unwrap());
    let leave: String = outside
        .map(|path| format!("echo $$ > {}/cgroup.procs; ", path.display()))
        .collect();
    let daemon = node.folder.path().join("daemon");
    let text = format!("{leave} trap '' TERM; echo $$ > daemon.pid; sleep 1000");
    fs::write(&daemon, text).unwrap();
    let script = node.folder.path().join("leaving");
    let text = format!(
        "setsid bash {} & until [ -s daemon.pid ]; do sleep 0.01; done
         trap '' TERM; {leave} echo $$ > left; while :; do sleep 0.1; done",
        daemon.display()
    );
    fs::write(&script, text).unwrap();
    let command = format!("exec bash {}", script.display());
    for class in [ExecutionType::Guaranteed, ExecutionType::Opportunistic] {
        let spec = node.launch(class, &command).await;
        text_of(&node.work_file(spec.id, "left")).await;
        let daemon = text_of(&node.work_file(spec.id, "daemon.pid")).await;
        for class in ["guaranteed", "opportunistic"] {
            assert!(!node.is_in(class, spec.id, &daemon));
        }
        node.launcher.terminate(spec.id);
        node.launcher.force_kill(spec.id);
        assert_eq!(node.exited().await.0, ContainerExitStatus::FORCE_KILLED);
        assert!(!is_alive(&daemon));
    }
}

#[tokio::test]
async fn a_frozen_container_is_terminated_and_runs_its_handler() {
    let test = "a_frozen_container_is_terminated_and_runs_its_handler";
    let Some(mut node) = Node::start(test) else {
        return;
    };
    let command = "trap 'echo bye > bye; exit 3' TERM; echo > ready; while :; do :; done";
    let spec = node.launch(ExecutionType::Opportunistic, command).await;
    text_of(&node.work_file(spec.id, "ready")).await;
    node.isolation.pause(spec.id);
    assert!(matches!(node.effect().await, IsolationEvent::Paused { .. }));
    node.launcher.terminate(spec.id);
    assert_eq!(node.exited().await.0, ContainerExitStatus(3));
    assert_eq!(text_of(&node.work_file(spec.id, "bye")).await, "bye");
    // Too late to be frozen, and answered all the same.
    node.isolation.pause(spec.id);
    let mut effect = node.effect().await;
    if matches!(effect, IsolationEvent::FrozenMemory { .. }) {
        effect = node.effect().await;
    }
    assert!(
        matches!(effect, IsolationEvent::PauseFailed(_)),
        "{effect:?}"
    );
}

#[tokio::test]
async fn a_container_asked_to_end_is_boosted_for_a_limited_time() {
    let test = "a_container_asked_to_end_is_boosted_for_a_limited_time";
    let Some(mut node) = Node::start(test) else {
        return;
    };
    if !node.knows_idle(test) {
        return;
    }
    let stubborn = "trap '' TERM; echo > ready; while :; do sleep 1; done";
    let spec = node.launch(ExecutionType::Opportunistic, stubborn).await;
    text_of(&node.work_file(spec.id, "ready")).await;
    eventually("the start is over", || (!node.is_boosted()).then_some(())).await;
    node.launcher.terminate(spec.id);
    eventually("its class is boosted", || node.is_boosted().then_some(())).await;
    eventually("the boost ends", || (!node.is_boosted()).then_some(())).await;
    let pids = node.says("opportunistic", spec.id, PROCS);
    assert!(pids.is_some_and(|pids| !pids.is_empty()));
    // Ordered again, it gets nothing more.
    node.launcher.terminate(spec.id);
    tokio::time::sleep(Duration::from_millis(20)).await;
    assert!(!node.is_boosted());
    node.launcher.force_kill(spec.id);
    node.exited().await;
    eventually("nothing is boosted", || (!node.is_boosted()).then_some(())).await;
}

#[tokio::test]
async fn containers_of_an_earlier_run_are_ended_at_the_next_start() {
    let test = "containers_of_an_earlier_run_are_ended_at_the_next_start";
    let config = config();
    let Some(node) = Node::with(test, &config) else {
        return;
    };
    // As long as the place is in use, no other agent may clear it.
    let (effects, _) = mpsc::channel(64);
    let start = || Isolation::start(&config, offer(), &BTreeSet::new(), effects.clone()).unwrap();
    let (second, availability) = start();
    assert!(second.is_none() && availability.lacks(), "{availability}");
    let text = availability.to_string();
    assert!(text.contains("used by another agent"), "{text}");
    let mut left = std::process::Command::new("sleep")
        .arg("1000")
        .spawn()
        .unwrap();
    for path in &node.paths {
        let group = path.join("guaranteed/left");
        fs::create_dir(&group).unwrap();
        fs::write(group.join("cgroup.procs"), left.id().to_string()).unwrap();
    }
    let paths = node.abandon();
    eventually("the place is free", || start().0.map(drop)).await;
    let status = left.wait().unwrap();
    assert_eq!(status.signal(), Some(libc::SIGKILL));
    assert!(
        !paths
            .iter()
            .any(|path| path.join("guaranteed/left").exists())
    );
    remove_places(&paths).await;
}

#[tokio::test]
async fn limits_of_an_earlier_run_do_not_hold_at_the_next_start() {
    let test = "limits_of_an_earlier_run_do_not_hold_at_the_next_start";
    const QUOTA: &[&str] = &["cpu.max", "cpu.cfs_quota_us"];
    let mut config = config();
    config.cpu_limit_percent = 50;
    let Some(node) = Node::with(test, &config) else {
        return;
    };
    let unlimited = |text: &str| text.starts_with("max") || text == "-1";
    let quota = |node: &Node, cgroup: &str| node.says_below(cgroup, QUOTA).unwrap();
    assert!(!unlimited(&quota(&node, "")));
    for path in &node.paths {
        for (file, limit) in [("cpu.max", "50000 100000"), ("cpu.cfs_quota_us", "50000")] {
            let file = path.join("guaranteed").join(file);
            if file.exists() {
                fs::write(file, limit).unwrap();
            }
        }
    }
    assert!(!unlimited(&quota(&node, "guaranteed")));
    config.cpu_limit_percent = 100;
    let paths = node.abandon();
    let (effects, _) = mpsc::channel(64);
    eventually("the place is free", || {
        let (isolation, _) =
            Isolation::start(&config, offer(), &BTreeSet::new(), effects.clone()).unwrap();
        isolation.map(drop)
    })
    .await;
    let says = |file: &str| {
        let mut files = paths.iter().map(|path| path.join(file));
        files.find_map(|file| fs::read_to_string(file).ok())
    };
    for cgroup in ["", "guaranteed/"] {
        let quota = QUOTA
            .iter()
            .find_map(|file| says(&format!("{cgroup}{file}")));
        assert!(unlimited(quota.unwrap().trim()), "{cgroup}");
    }
    remove_places(&paths).await;
}
