//! Orphans of containers when the agent adopts them, as `main` has it. One test, since adoption is
//! for a whole process.

#[path = "container/fixture.rs"]
mod container;

use std::fs::File;
use std::path::Path;
use std::time::{Duration, Instant};

use container_runtime::launch::{LaunchEvent, Launcher, adopt_orphans};
use procfs::process::Process;
use test_support::hostile::{self, Role};
use tokio::sync::mpsc;

use crate::container::{config, plan};

const DEADLINE: Duration = Duration::from_secs(30);

/// State letter and parent of a process.
fn state(pid: i32) -> Option<(char, i32)> {
    let stat = Process::new(pid).and_then(|process| process.stat()).ok()?;
    Some((stat.state, stat.ppid))
}

async fn eventually<T>(what: &str, mut condition: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + DEADLINE;
    loop {
        if let Some(value) = condition() {
            return value;
        }
        assert!(Instant::now() < deadline, "not in time: {what}");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

async fn written_pid(path: &Path) -> i32 {
    eventually("a pid in a file", || {
        std::fs::read_to_string(path).ok()?.trim().parse().ok()
    })
    .await
}

async fn exit_of(events: &mut mpsc::Receiver<LaunchEvent>) -> (i64, i32) {
    loop {
        let event = tokio::time::timeout(DEADLINE, events.recv());
        match event
            .await
            .expect("an event in time")
            .expect("a launcher that lives")
        {
            LaunchEvent::Launched { .. }
            | LaunchEvent::ProcessesGone(_)
            | LaunchEvent::ProcessesStay(_)
            | LaunchEvent::LeftoversGone(_) => {}
            LaunchEvent::Exited { id, status, .. } => return (id.id, status.0),
            other @ LaunchEvent::LaunchFailed { .. } => panic!("{other:?}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn orphans_are_adopted_reaped_and_end_with_their_container() {
    adopt_orphans().unwrap();
    let own_pid = i32::try_from(std::process::id()).unwrap();
    let root = tempfile::tempdir().unwrap();
    let (sender, mut events) = mpsc::channel(16);
    let runtime = tokio::runtime::Handle::current();
    let launcher = Launcher::start(config(), sender, runtime).unwrap();
    let mut bystander = std::process::Command::new("/bin/sh")
        .args(["-c", "exit 42"])
        .spawn()
        .unwrap();

    // A daemon in a session of its own, which has lost its parent, and one that ends while its
    // container goes on.
    let daemons = "(setsid bash -c 'echo \\$\\$ >daemon; exec sleep 1000' &); \
         (setsid bash -c 'echo \\$\\$ >brief' &); until [ -s daemon -a -s brief ]; do :; done; ";
    let living = plan(root.path(), 1, &format!("{daemons} sleep 1000"));
    let work_dir = living.dirs.work_dir.path().to_owned();
    let living_id = living.container_id;
    launcher.launch(living).unwrap();
    let daemon = written_pid(&work_dir.join("daemon")).await;
    let brief = written_pid(&work_dir.join("brief")).await;
    eventually("the daemon is adopted", || {
        state(daemon).filter(|(_, parent)| *parent == own_pid)
    })
    .await;
    eventually("a dead orphan is reaped", || {
        state(brief).is_none().then_some(())
    })
    .await;

    // Another container that ends by itself takes its own daemons along and leaves those of others
    // alone.
    let ending = plan(root.path(), 2, &format!("{daemons} exit 3"));
    let other_daemon = ending.dirs.work_dir.path().join("daemon");
    launcher.launch(ending).unwrap();
    assert_eq!(exit_of(&mut events).await, (2, 3));
    let other_daemon = written_pid(&other_daemon).await;
    assert!(state(other_daemon).is_none_or(|(state, _)| state == 'Z'));
    assert!(state(daemon).is_some_and(|(state, _)| state != 'Z'));

    launcher.force_kill(living_id);
    assert_eq!(exit_of(&mut events).await, (1, 137));
    eventually("no daemon is left, not even as a zombie", || {
        (state(daemon).is_none() && state(other_daemon).is_none()).then_some(())
    })
    .await;
    assert_eq!(bystander.wait().unwrap().code(), Some(42));

    // Processes that fork and end every half millisecond leave no process that a look would find.
    let ready = root.path().join("chain");
    let line = hostile::bash_line(&Role::ForkChain {
        ready: ready.clone(),
    });
    let script = root.path().join("script");
    std::fs::write(
        &script,
        format!("({line}) &\nuntil [ -s {} ]; do :; done\n", ready.display()),
    )
    .unwrap();
    for number in 10..30 {
        drop(std::fs::remove_file(&ready));
        launcher
            .launch(plan(
                root.path(),
                number,
                &format!("bash {}", script.display()),
            ))
            .unwrap();
        assert_eq!(exit_of(&mut events).await, (number, 0));
        let lock = File::create(hostile::lock_of_chain(&ready)).unwrap();
        assert!(
            lock.try_lock().is_ok(),
            "a chain outlives container {number}"
        );
    }
}
