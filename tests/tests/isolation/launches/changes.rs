//! New sizes, promotion and demotion of running containers.

use super::*;

#[tokio::test]
async fn promotion_and_demotion_move_a_running_container_with_its_limits() {
    let test = "promotion_and_demotion_move_a_running_container_with_its_limits";
    let Some(mut node) = Node::start(test) else {
        return;
    };
    let command = "echo > ready; while :; do sleep 0.01; done";
    let mut spec = node.launch(ExecutionType::Opportunistic, command).await;
    text_of(&node.work_file(spec.id, "ready")).await;
    for (class, name, memory_mb) in [
        (ExecutionType::Guaranteed, "guaranteed", 96),
        (ExecutionType::Opportunistic, "opportunistic", 80),
        (ExecutionType::Guaranteed, "guaranteed", 72),
    ] {
        spec.execution_type = class;
        spec.resource = Resource::new(memory_mb, 2);
        node.isolation.apply(spec);
        let procs = &["cgroup.procs"];
        eventually("it is moved", || {
            let pids = node.says(name, spec.id, procs)?;
            let bytes = (memory_mb << 20).to_string();
            (!pids.is_empty() && node.says(name, spec.id, MAX)? == bytes).then_some(())
        })
        .await;
    }
    node.launcher.force_kill(spec.id);
    assert_eq!(node.exited().await.0, ContainerExitStatus::FORCE_KILLED);
    for name in ["guaranteed", "opportunistic"] {
        assert_eq!(node.says(name, spec.id, MAX), None, "{name}");
    }
}

#[tokio::test]
async fn a_resize_changes_the_limits_of_a_running_container() {
    let test = "a_resize_changes_the_limits_of_a_running_container";
    let Some(mut node) = Node::start(test) else {
        return;
    };
    let mut spec = node.launch(ExecutionType::Guaranteed, "sleep 1000").await;
    spec.resource = Resource::new(128, 2);
    node.isolation.apply(spec);
    eventually("its limits are raised", || {
        let max = node.says("guaranteed", spec.id, MAX)?;
        let weight = node.says("guaranteed", spec.id, &["cpu.weight", "cpu.shares"])?;
        (max == "134217728" && (weight == "200" || weight == "2048")).then_some(())
    })
    .await;
    node.launcher.force_kill(spec.id);
    node.exited().await;
}

#[tokio::test]
async fn a_container_promoted_while_frozen_goes_on_in_either_class_once_thawed() {
    let test = "a_container_promoted_while_frozen_goes_on_in_either_class_once_thawed";
    let Some(mut node) = Node::start(test) else {
        return;
    };
    let mut spec = node.launch(ExecutionType::Opportunistic, COUNTING).await;
    let count = node.work_file(spec.id, "count");
    text_of(&count).await;
    node.isolation.pause(spec.id);
    assert!(matches!(node.effect().await, IsolationEvent::Paused { .. }));
    assert!(matches!(
        node.effect().await,
        IsolationEvent::FrozenMemory { .. }
    ));
    spec.execution_type = ExecutionType::Guaranteed;
    node.isolation.apply(spec);
    eventually("it is promoted", || {
        let pids = node.says("guaranteed", spec.id, PROCS)?;
        (!pids.is_empty()).then_some(())
    })
    .await;
    assert_eq!(
        node.says("guaranteed", spec.id, FREEZE).as_deref(),
        Some("1")
    );
    node.isolation.resume(spec.id);
    assert!(matches!(node.effect().await, IsolationEvent::Resumed(_)));
    spec.execution_type = ExecutionType::Opportunistic;
    node.isolation.apply(spec);
    eventually("it is demoted", || {
        let pids = node.says("opportunistic", spec.id, PROCS)?;
        let left = node.says("guaranteed", spec.id, PROCS)?;
        (!pids.is_empty() && left.is_empty()).then_some(())
    })
    .await;
    for class in ["guaranteed", "opportunistic"] {
        assert_eq!(node.says(class, spec.id, FREEZE).as_deref(), Some("0"));
    }
    let before = length(&count);
    eventually("it goes on", || (length(&count) > before).then_some(())).await;
    // SIGTERM reaches it.
    node.launcher.terminate(spec.id);
    assert_eq!(node.exited().await.0, ContainerExitStatus::TERMINATED);
}

#[tokio::test]
async fn protection_follows_the_guaranteed_containers() {
    let test = "protection_follows_the_guaranteed_containers";
    let Some(mut node) = Node::start(test) else {
        return;
    };
    let protected = |node: &Node| {
        let low = |cgroup: &str| node.says_below(cgroup, LOW)?.parse::<u64>().ok();
        Some((low("")?, low("guaranteed")?))
    };
    let pages = |mib: u64| (mib << 20) / 10 * 9 / 4096 * 4096;
    let mut spec = node.launch(ExecutionType::Guaranteed, "sleep 1000").await;
    for mib in [64, 128] {
        spec.resource = Resource::new(mib, 1);
        node.isolation.apply(spec);
        eventually("it is protected", || {
            (protected(&node)? == (pages(mib), pages(mib))).then_some(())
        })
        .await;
    }
    node.launcher.force_kill(spec.id);
    node.exited().await;
    eventually("nothing is", || (protected(&node)? == (0, 0)).then_some(())).await;
}

#[tokio::test]
async fn processes_that_were_not_moved_are_moved_later() {
    let test = "processes_that_were_not_moved_are_moved_later";
    let Some(mut node) = Node::start(test) else {
        return;
    };
    let command = "echo $$ > pid; while sleep 0.01; do :; done";
    let mut spec = node.launch(ExecutionType::Opportunistic, command).await;
    let pid = text_of(&node.work_file(spec.id, "pid")).await;
    spec.execution_type = ExecutionType::Guaranteed;
    node.isolation.apply(spec);
    let is_promoted = || {
        (node.is_in("guaranteed", spec.id, &pid) && !node.is_in("opportunistic", spec.id, &pid))
            .then_some(())
    };
    eventually("it is promoted", is_promoted).await;
    // After the last job of moving, its charge is measured and protected.
    eventually("the move is over", || {
        let low = node.says("opportunistic", spec.id, LOW)?.parse::<u64>();
        low.is_ok_and(|low| (1..64 << 20).contains(&low))
            .then_some(())
    })
    .await;
    // As if the move had been refused.
    for path in &node.paths {
        let former = path.join("opportunistic").join(spec.id.to_string());
        fs::write(former.join("cgroup.procs"), &pid).unwrap();
    }
    assert!(node.is_in("opportunistic", spec.id, &pid));
    eventually("it is promoted again", is_promoted).await;
    node.launcher.force_kill(spec.id);
    node.exited().await;
}
