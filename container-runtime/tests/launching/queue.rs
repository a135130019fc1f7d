//! Launches that wait, are refused, or are ended before they run.

use std::fs;
use std::time::{Duration, Instant};

use container_runtime::launch::{LAUNCH_QUEUE_MAX, LaunchEvent, LaunchRefused, MakePlan, Planned};
use records::{ContainerExitStatus, ContainerId, ExecutionType, Resource};
use sched::ContainerSpec;
use tokio::sync::oneshot;

use crate::{Node, config};

fn spec(id: ContainerId, execution_type: ExecutionType) -> ContainerSpec {
    ContainerSpec {
        id,
        resource: Resource::new(64, 1),
        execution_type,
        version: 0,
    }
}

#[tokio::test]
async fn a_container_is_refused_while_it_runs() {
    let mut node = Node::start();
    let plan = node.plan("sleep 1000");
    let again = plan.clone();
    let id = node.launch(plan);
    let refused = node.launcher.launch(Box::new(again));
    assert_eq!(refused, Err(LaunchRefused::Duplicate(id)));
    let pid = node.launched().await;
    let running = node.launcher.processes();
    assert_eq!((running[0].container_id, running[0].pid), (id, pid));
    node.launcher.force_kill(id);
    node.exited().await;
    assert!(node.launcher.processes().is_empty());
}

/// Every container that is ordered to end at some moment of its launch does end.
#[tokio::test]
async fn an_order_at_any_moment_of_a_launch_is_obeyed() {
    let mut node = Node::start();
    let (mut ordered, mut ended) = (0, 0);
    for round in 0..60_u32 {
        let id = node.launch(node.plan("sleep 1000"));
        let start = Instant::now();
        while start.elapsed() < Duration::from_micros(u64::from(round) * 50) {
            std::hint::spin_loop();
        }
        if round % 2 == 0 {
            node.launcher.terminate(id);
        } else {
            node.launcher.force_kill(id);
        }
        ordered += 1;
    }
    while ended < ordered {
        match node.event().await {
            LaunchEvent::Launched { .. }
            | LaunchEvent::ProcessesGone(_)
            | LaunchEvent::ProcessesStay(_)
            | LaunchEvent::LeftoversGone(_) => {}
            LaunchEvent::LaunchFailed { status, .. } => {
                assert_eq!(status, ContainerExitStatus::TERMINATED);
                ended += 1;
            }
            LaunchEvent::Exited { status, .. } => {
                assert!(status.is_signalled(), "{status}");
                ended += 1;
            }
        }
    }
    assert!(node.launcher.processes().is_empty());
}

#[tokio::test]
async fn a_launch_that_was_terminated_while_queued_never_starts() {
    let mut config = config();
    config.launch_threads_max = 1;
    let mut node = Node::with(config);
    // The channel of events holds 16: the only launch thread soon blocks, with this launch queued.
    for _ in 0..20 {
        let plan = node.plan("true");
        fs::remove_dir(plan.dirs.work_dir.path()).unwrap();
        node.launch(plan);
    }
    let plan = node.plan("true");
    let script = plan.dirs.work_dir.path().join("launch_container.sh");
    let id = node.launch(plan);
    node.launcher.terminate(id);
    let last = loop {
        match node.event().await {
            LaunchEvent::LaunchFailed {
                id: failed,
                status,
                diagnostics,
                ..
            } if failed == id => break (status.0, diagnostics),
            LaunchEvent::LaunchFailed { .. } => {}
            other @ (LaunchEvent::Launched { .. }
            | LaunchEvent::Exited { .. }
            | LaunchEvent::ProcessesGone(_)
            | LaunchEvent::ProcessesStay(_)
            | LaunchEvent::LeftoversGone(_)) => {
                panic!("{other:?}")
            }
        }
    };
    assert_eq!(
        last,
        (143, "Container terminated before launch.".to_owned())
    );
    assert!(!script.exists());
}

/// No opportunistic launch is completed until the test releases them.
#[tokio::test]
async fn a_guaranteed_launch_is_not_behind_opportunistic_ones_that_cannot_get_done() {
    let mut node = Node::start();
    let (release, released) = crossbeam_channel::bounded::<()>(0);
    for _ in 0..20 {
        let (plan, released) = (node.plan("true"), released.clone());
        let spec = spec(plan.container_id, ExecutionType::Opportunistic);
        let make_plan = move || {
            // Returns when the test drops the sender.
            let _ended = released.recv();
            Ok(Planned::Ready(Box::new(plan)))
        };
        let launched = node.launcher.launch_with(spec, Box::new(make_plan));
        launched.unwrap();
    }
    let plan = node.plan("exit 5");
    assert_eq!(node.run(plan).await.0, 5);
    drop(release);
    for _ in 0..20 {
        while !matches!(node.event().await, LaunchEvent::Exited { .. }) {}
    }
}

#[tokio::test]
async fn more_launches_than_the_queue_holds_are_refused() {
    let mut config = config();
    config.launch_threads_max = 1;
    let node = Node::with(config);
    // No event is read, so after 16 failures and one more launch the queue only fills.
    let plan = node.plan("true");
    fs::remove_dir(plan.dirs.work_dir.path()).unwrap();
    let mut refused = None;
    for number in (1_000_000..).take(LAUNCH_QUEUE_MAX + 100) {
        let mut plan = plan.clone();
        plan.container_id.id += number;
        if let Err(reason) = node.launcher.launch(Box::new(plan)) {
            refused = Some(reason);
        }
    }
    assert_eq!(refused, Some(LaunchRefused::Busy));
}

/// More launches than there are threads wait for what the test gives them.
#[tokio::test]
async fn a_launch_that_waits_for_what_it_lacks_takes_no_thread_and_ends_when_ordered() {
    let mut config = config();
    config.launch_threads_max = 1;
    let mut node = Node::with(config);
    let mut waiting = Vec::new();
    for _ in 0..4 {
        let plan = node.plan("exit 3");
        let id = plan.container_id;
        let (give, given) = oneshot::channel::<()>();
        let make_plan: MakePlan = Box::new(move || {
            Ok(Planned::Later(Box::pin(async move {
                let _given = given.await;
                let make_plan: MakePlan = Box::new(move || Ok(Planned::Ready(Box::new(plan))));
                make_plan
            })))
        });
        let guaranteed = spec(id, ExecutionType::Guaranteed);
        let launched = node.launcher.launch_with(guaranteed, make_plan);
        launched.unwrap();
        waiting.push((id, give));
    }
    let plan = node.plan("exit 5");
    assert_eq!(node.run(plan).await.0, 5);
    let (ended, _never_given) = waiting.pop().unwrap();
    node.launcher.terminate(ended);
    let LaunchEvent::LaunchFailed { id, status, .. } = node.event().await else {
        panic!("the launch that was ordered to end goes on");
    };
    assert_eq!((id, status), (ended, ContainerExitStatus::TERMINATED));
    for (id, give) in waiting {
        give.send(()).unwrap();
        loop {
            if let LaunchEvent::Exited {
                id: ended, status, ..
            } = node.event().await
            {
                assert_eq!((ended, status.0), (id, 3));
                break;
            }
        }
    }
    assert!(node.launcher.processes().is_empty());
}
