//! Exit statuses and diagnostics of containers that end by themselves.

use container_runtime::launch::LaunchEvent;
use procfs::process::Stat;
use tokio::time::timeout;

use crate::{DEADLINE, Node, eventually, process};

#[tokio::test]
async fn success_is_reported_without_diagnostics() {
    let mut node = Node::start();
    let plan = node.plan("true");
    assert_eq!(node.run(plan).await, (0, String::new()));
}

#[tokio::test]
async fn an_exit_code_comes_with_hadoops_block() {
    let mut node = Node::start();
    let plan = node.plan("echo boom 2><LOG_DIR>/stderr >&2; exit 7");
    let (status, diagnostics) = node.run(plan).await;
    assert_eq!(status, 7);
    assert!(
        diagnostics.ends_with("Last 4096 bytes of stderr :\nboom\n\n\n"),
        "{diagnostics}"
    );
}

#[tokio::test]
async fn a_command_that_is_not_found_is_127_and_says_so() {
    let mut node = Node::start();
    let plan = node.plan("no-such-command-anywhere");
    let (status, diagnostics) = node.run(plan).await;
    assert_eq!(status, 127);
    assert!(
        diagnostics.contains("prelaunch.err :\n") && diagnostics.contains("command not found"),
        "{diagnostics}"
    );
}

#[tokio::test]
async fn a_signal_is_128_and_its_number() {
    let mut node = Node::start();
    for (signal, expected) in [
        ("TERM", 143),
        ("KILL", 137),
        ("USR1", 138),
        ("RTMIN+3", 165),
    ] {
        let plan = node.plan(&format!("kill -{signal} \\$\\$; sleep 1000"));
        let (status, _) = node.run(plan).await;
        assert_eq!(status, expected, "{signal}");
    }
}

#[tokio::test]
async fn a_fifo_named_stderr_does_not_hang_the_agent() {
    let mut node = Node::start();
    let plan = node.plan("mkfifo <LOG_DIR>/stderr; exit 5");
    let (status, diagnostics) = node.run(plan).await;
    assert_eq!(status, 5);
    assert!(!diagnostics.contains("of stderr"), "{diagnostics}");
}

#[test]
fn room_is_free_when_the_processes_are_gone_however_long_a_disk_takes_to_tell_why() {
    let one_thread_for_disks = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(1)
        .build();
    one_thread_for_disks.unwrap().block_on(async {
        let mut node = Node::start();
        let (release, released) = crossbeam_channel::bounded::<()>(0);
        let disk = tokio::task::spawn_blocking(move || released.recv());
        let id = node.launch(node.plan("exit 3"));
        let mut event = async || timeout(DEADLINE, node.events.recv()).await.unwrap();
        assert!(matches!(event().await, Some(LaunchEvent::Launched { .. })));
        assert_eq!(event().await, Some(LaunchEvent::ProcessesGone(id)));
        drop(release);
        assert!(disk.await.unwrap().is_err());
        assert!(matches!(event().await, Some(LaunchEvent::Exited { .. })));
    });
}

#[tokio::test]
async fn children_of_others_keep_their_exit_status() {
    let mut node = Node::start();
    let mut other = std::process::Command::new("/bin/sh")
        .args(["-c", "exit 42"])
        .spawn()
        .unwrap();
    let plan = node.plan("true");
    assert_eq!(node.run(plan).await.0, 0);
    assert_eq!(other.wait().unwrap().code(), Some(42));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hundreds_of_launches_at_once_all_end_and_leave_no_zombie() {
    const COUNT: usize = 300;
    let mut node = Node::start();
    for n in 0..COUNT {
        node.launch(node.plan(&format!("exit {}", n % 3)));
    }
    let mut pids = Vec::new();
    let mut statuses = [0; 3];
    while statuses.iter().sum::<usize>() < COUNT {
        match node.event().await {
            LaunchEvent::Launched { pid, timings, .. } => {
                assert!(timings.spawn_us > 0);
                pids.push(pid);
            }
            LaunchEvent::Exited { status, .. } => {
                statuses[usize::try_from(status.0).unwrap()] += 1;
            }
            other @ (LaunchEvent::LaunchFailed { .. }
            | LaunchEvent::ProcessesGone(_)
            | LaunchEvent::ProcessesStay(_)
            | LaunchEvent::LeftoversGone(_)) => {
                panic!("{other:?}")
            }
        }
    }
    assert_eq!(statuses, [COUNT / 3; 3]);
    let own_pid = i32::try_from(std::process::id()).unwrap();
    // Read more than once: another test's process may have got one of the pids.
    eventually("no zombie is left", || {
        let mut processes = pids.iter().filter_map(|pid| process(*pid));
        let is_left = |process: Stat| process.ppid == own_pid && process.state == 'Z';
        (!processes.any(is_left)).then_some(())
    })
    .await;
}
