//! Launches of real processes: bash, sleep and their like, in temporary directories.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use records::{ContainerExitStatus, ContainerId, ExecutionType};
use tempfile::TempDir;
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::process_tree::Process;
use super::{
    ContainerSignal, LAUNCH_QUEUE_MAX, LaunchConfig, LaunchEvent, LaunchPlan, LaunchRefused,
    Launcher, Link, testing,
};

/// Nothing here takes so long, unless it hangs.
const DEADLINE: Duration = Duration::from_secs(30);

struct Node {
    root: TempDir,
    launcher: Launcher,
    events: mpsc::Receiver<LaunchEvent>,
}

impl Node {
    fn start() -> Self {
        Self::with(testing::config())
    }

    fn with(config: LaunchConfig) -> Self {
        let (sender, events) = mpsc::channel(16);
        let runtime = tokio::runtime::Handle::current();
        Self {
            root: tempfile::tempdir().unwrap(),
            launcher: Launcher::start(config, sender, runtime).unwrap(),
            events,
        }
    }

    /// A plan in directories of its own.
    fn plan(&self, command: &str) -> LaunchPlan {
        testing::plan_in_folders(self.root.path(), testing::container_id(), command)
    }

    fn launch(&self, plan: LaunchPlan) -> ContainerId {
        let id = plan.container_id;
        self.launcher.launch(Box::new(plan)).unwrap();
        id
    }

    async fn event(&mut self) -> LaunchEvent {
        loop {
            let event = timeout(DEADLINE, self.events.recv());
            let event = event.await.expect("an event in time").unwrap();
            // `Exited` always follows; one test looks at the order.
            if !matches!(event, LaunchEvent::ProcessesGone(_)) {
                return event;
            }
        }
    }

    async fn launched(&mut self) -> i32 {
        match self.event().await {
            LaunchEvent::Launched { pid, .. } => pid,
            other @ (LaunchEvent::LaunchFailed { .. }
            | LaunchEvent::Exited { .. }
            | LaunchEvent::ProcessesGone(_)) => {
                panic!("{other:?}")
            }
        }
    }

    async fn exited(&mut self) -> (i32, String) {
        match self.event().await {
            LaunchEvent::Exited {
                status,
                diagnostics,
                ..
            } => (status.0, diagnostics),
            other @ (LaunchEvent::Launched { .. }
            | LaunchEvent::LaunchFailed { .. }
            | LaunchEvent::ProcessesGone(_)) => {
                panic!("{other:?}")
            }
        }
    }

    /// Launches and waits for the end.
    async fn run(&mut self, plan: LaunchPlan) -> (i32, String) {
        self.launch(plan);
        self.launched().await;
        self.exited().await
    }
}

/// Waits until a condition holds, looking every millisecond.
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

/// The pid that a container wrote into a file, once it is there.
async fn written_pid(path: PathBuf) -> i32 {
    eventually(&format!("a pid in {}", path.display()), || {
        fs::read_to_string(&path).ok()?.trim().parse().ok()
    })
    .await
}

fn is_alive(pid: i32) -> bool {
    Process::read(pid).is_some_and(|process| !process.is_zombie)
}

fn output(log_dir: &Path) -> String {
    fs::read_to_string(log_dir.join("stdout")).unwrap()
}

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
        diagnostics.ends_with("Last 4096 bytes of stderr :\nboom\n"),
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
async fn terminate_ends_a_container_with_143() {
    let mut node = Node::start();
    let id = node.launch(node.plan("sleep 1000"));
    node.launched().await;
    node.launcher.terminate(id);
    let (status, diagnostics) = node.exited().await;
    assert_eq!(status, 143);
    assert!(
        diagnostics.starts_with("Container killed on request. Exit code is 143\n"),
        "{diagnostics}"
    );
}

#[tokio::test]
async fn an_ignored_sigterm_is_followed_by_the_ordered_sigkill() {
    let mut node = Node::start();
    let plan = node.plan("trap '' TERM; echo \\$\\$ >pid; sleep 1000; sleep 1000");
    let ready = plan.dirs.work_dir.join("pid");
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
    let child = plan.dirs.work_dir.join("child");
    let id = node.launch(plan);
    node.launched().await;
    let child = written_pid(child).await;
    eventually("a session of its own", || {
        Process::read(child).filter(|process| process.session == child)
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
    let child = plan.dirs.work_dir.join("child");
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
        plan.dirs.work_dir.join("ready"),
        plan.dirs.work_dir.join("child"),
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
    let daemon = plan.dirs.work_dir.join("daemon");
    let (status, _) = node.run(plan).await;
    assert_eq!(status, 3);
    let daemon = written_pid(daemon).await;
    assert!(!is_alive(daemon));
}

#[tokio::test]
async fn left_overs_that_ignore_sigterm_are_killed_after_the_delay() {
    let mut node = Node::start();
    let plan = node.plan("(trap '' TERM; echo x >ready; sleep 1000 & echo \\$! >child; wait; sleep 1000) & until [ -s child ]; do :; done");
    let child = plan.dirs.work_dir.join("child");
    assert_eq!(node.run(plan).await.0, 0);
    assert!(!is_alive(written_pid(child).await));
}

#[tokio::test]
async fn the_agents_environment_stays_with_the_agent() {
    let mut config = testing::config();
    config.agent_environment = BTreeMap::from([
        ("AGENT_SECRET".to_owned(), "hunter2".to_owned()),
        ("JAVA_HOME".to_owned(), "/jdk".to_owned()),
    ]);
    let mut node = Node::with(config);
    let mut plan =
        node.plan("env -0 >environment; tr '\\\\0' '\\\\n' </proc/self/environ >/dev/null");
    plan.environment = BTreeMap::from([
        ("MINE".to_owned(), "$JAVA_HOME/x".to_owned()),
        ("dotted.name".to_owned(), "kept".to_owned()),
    ]);
    let environment = plan.dirs.work_dir.join("environment");
    let id = plan.container_id;
    assert_eq!(node.run(plan).await.0, 0);
    let environment = fs::read(environment).unwrap();
    let variables: Vec<_> = environment
        .split(|b| *b == 0)
        .map(|v| String::from_utf8_lossy(v).into_owned())
        .collect();
    let has = |variable: &str| variables.iter().any(|v| v == variable);
    assert!(has("JAVA_HOME=/jdk") && has("MINE=/jdk/x"), "{variables:?}");
    assert!(has("dotted.name=kept") && has(&format!("CONTAINER_ID={id}")));
    // The test itself has a PATH and CARGO's variables.
    for name in ["AGENT_SECRET=", "CARGO", "RUST"] {
        let leaked = variables.iter().find(|v| v.starts_with(name));
        assert_eq!(leaked, None);
    }
}

#[tokio::test]
async fn a_path_that_mentions_itself_keeps_the_script_working() {
    let mut node = Node::start();
    let mut plan = node.plan("echo $PATH ><LOG_DIR>/stdout");
    plan.environment
        .insert("PATH".to_owned(), "$PATH:/extra".to_owned());
    plan.links = vec![Link {
        link: "dir/link".to_owned(),
        target: PathBuf::from("/etc/hostname"),
    }];
    let log_dir = plan.dirs.log_dir.clone();
    let (status, diagnostics) = node.run(plan).await;
    assert_eq!(status, 0, "{diagnostics}");
    let path = output(&log_dir);
    assert!(
        path.contains("/bin:") && path.ends_with(":/extra\n"),
        "{path}"
    );
}

#[tokio::test]
async fn links_are_made_for_resources() {
    let mut node = Node::start();
    let resource = node.root.path().join("resource");
    fs::create_dir(&resource).unwrap();
    fs::write(resource.join("a.jar"), "a").unwrap();
    fs::write(resource.join("b c.jar"), "b").unwrap();
    let mut plan = node.plan("cat 'all here/res/a.jar' 'b c.jar' ><LOG_DIR>/stdout");
    for link in ["all here/res", "libs/*"] {
        plan.links.push(Link {
            link: link.to_owned(),
            target: resource.clone(),
        });
    }
    let log_dir = plan.dirs.log_dir.clone();
    let (status, diagnostics) = node.run(plan).await;
    assert_eq!(status, 0, "{diagnostics}");
    assert_eq!(output(&log_dir), "ab");
}

#[tokio::test]
async fn a_link_that_cannot_be_made_fails_before_the_command() {
    let mut node = Node::start();
    let mut plan = node.plan("touch started");
    plan.links = vec![Link {
        link: "tmp/../../x".to_owned(),
        target: PathBuf::from("/t"),
    }];
    let started = plan.dirs.work_dir.join("started");
    node.launch(plan);
    let event = node.event().await;
    let LaunchEvent::LaunchFailed {
        status,
        diagnostics,
        ..
    } = event
    else {
        panic!("{event:?}");
    };
    assert_eq!(status, ContainerExitStatus::LAUNCH_FAILED);
    assert!(diagnostics.contains("tmp/../../x"), "{diagnostics}");
    assert!(!started.exists());
}

#[tokio::test]
async fn a_missing_directory_fails_the_launch_with_its_path() {
    let mut node = Node::start();
    let plan = node.plan("true");
    fs::remove_dir(&plan.dirs.work_dir).unwrap();
    let path = plan.dirs.work_dir.display().to_string();
    let id = node.launch(plan);
    let event = node.event().await;
    assert!(
        matches!(&event, LaunchEvent::LaunchFailed { id: failed, diagnostics, .. } if *failed == id && diagnostics.contains(&path)),
        "{event:?}"
    );
    assert!(node.launcher.processes().is_empty());
}

#[tokio::test]
async fn a_fifo_named_stderr_does_not_hang_the_agent() {
    let mut node = Node::start();
    let plan = node.plan("mkfifo <LOG_DIR>/stderr; exit 5");
    let (status, diagnostics) = node.run(plan).await;
    assert_eq!(status, 5);
    assert!(!diagnostics.contains("of stderr"), "{diagnostics}");
}

#[tokio::test]
async fn descriptors_are_not_inherited() {
    let root = tempfile::tempdir().unwrap();
    // Without close-on-exec, as C libraries open files.
    let file = fs::File::create(root.path().join("open")).unwrap();
    nix::fcntl::fcntl(
        &file,
        nix::fcntl::FcntlArg::F_SETFD(nix::fcntl::FdFlag::empty()),
    )
    .unwrap();
    let mut node = Node::start();
    let plan = node.plan("ls -l /proc/\\$\\$/fd ><LOG_DIR>/stdout");
    let log_dir = plan.dirs.log_dir.clone();
    assert_eq!(node.run(plan).await.0, 0);
    drop(file);
    let listing = output(&log_dir);
    let descriptors: Vec<_> = listing
        .lines()
        .filter_map(|line| line.split_once(" -> ")?.0.rsplit(' ').next())
        .filter_map(|number| number.parse::<u32>().ok())
        .filter(|number| *number != 255)
        .collect();
    assert_eq!(descriptors, [0, 1, 2], "{listing}");
    assert!(listing.contains("0 -> /dev/null"), "{listing}");
}

#[tokio::test]
async fn signals_start_unblocked_and_with_default_dispositions() {
    // The test harness ignores SIGPIPE, as every Rust program does.
    let mut node = Node::start();
    let plan = node.plan("exec cat /proc/self/status ><LOG_DIR>/stdout");
    let log_dir = plan.dirs.log_dir.clone();
    assert_eq!(node.run(plan).await.0, 0);
    let status = output(&log_dir);
    let set_of = |name: &str| {
        let set = status.lines().find_map(|line| line.strip_prefix(name));
        u64::from_str_radix(set.unwrap().trim(), 16).unwrap()
    };
    // Signals 32 and 33 belong to glibc, whose posix_spawn has them ignored until the child has threads.
    assert_eq!(set_of("SigBlk:"), 0);
    assert_eq!(set_of("SigIgn:") & !(0b11 << 31), 0);
}

#[tokio::test]
async fn a_thread_dump_reaches_a_trap_of_the_group() {
    let mut node = Node::start();
    let plan = node.plan("trap 'echo dumped ><LOG_DIR>/stdout; exit 9' QUIT; echo \\$\\$ >pid; while :; do sleep 0.01; done");
    let ready = plan.dirs.work_dir.join("pid");
    let log_dir = plan.dirs.log_dir.clone();
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
async fn pid_and_exit_code_are_kept_for_a_later_agent() {
    let mut node = Node::start();
    let plan = node.plan("exit 4");
    let (id, private) = (plan.container_id, plan.dirs.nm_private_dir.clone());
    let mut again = plan.clone();
    node.launch(plan);
    let pid = node.launched().await;
    assert_eq!(node.exited().await.0, 4);
    let read = |name: &str| fs::read_to_string(private.join(format!("{id}{name}"))).ok();
    assert_eq!(read(".pid"), Some(pid.to_string()));
    assert_eq!(read(".pid.exitcode"), Some("4".to_owned()));

    again.commands = vec!["sleep 1000".to_owned()];
    node.launch(again);
    let pid = node.launched().await;
    assert_eq!(read(".pid"), Some(pid.to_string()));
    assert_eq!(read(".pid.exitcode"), None);
    node.launcher.force_kill(id);
    assert_eq!(node.exited().await.0, 137);
}

#[tokio::test]
async fn a_container_can_be_launched_again_in_its_directories() {
    let mut node = Node::start();
    let mut plan = node.plan("readlink res ><LOG_DIR>/stdout; ls res >>res-list; exit 1");
    plan.links = vec![Link {
        link: "res".to_owned(),
        target: node.root.path().to_owned(),
    }];
    for _ in 0..2 {
        assert_eq!(node.run(plan.clone()).await.0, 1);
    }
    let target = node.root.path().to_str().unwrap();
    assert_eq!(output(&plan.dirs.log_dir), format!("{target}\n"));
    assert!(!node.root.path().join("res").exists());
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

/// Sees to it that every container launched and ordered to end at some moment of its launch does end.
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
            LaunchEvent::Launched { .. } | LaunchEvent::ProcessesGone(_) => {}
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
    let mut config = testing::config();
    config.launch_threads = 1;
    let mut node = Node::with(config);
    // The channel of events holds 16: the only launch thread soon waits for room, with this launch in its queue.
    for _ in 0..20 {
        let plan = node.plan("true");
        fs::remove_dir(&plan.dirs.work_dir).unwrap();
        node.launch(plan);
    }
    let plan = node.plan("true");
    let script = plan.dirs.work_dir.join("launch_container.sh");
    let id = node.launch(plan);
    node.launcher.terminate(id);
    let last = loop {
        match node.event().await {
            LaunchEvent::LaunchFailed {
                id: failed,
                status,
                diagnostics,
            } if failed == id => break (status.0, diagnostics),
            LaunchEvent::LaunchFailed { .. } => {}
            other @ (LaunchEvent::Launched { .. }
            | LaunchEvent::Exited { .. }
            | LaunchEvent::ProcessesGone(_)) => {
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

/// None of the opportunistic launches gets done until the test says so.
#[tokio::test]
async fn a_guaranteed_launch_is_not_behind_opportunistic_ones_that_cannot_get_done() {
    let mut node = Node::start();
    let (release, released) = crossbeam_channel::bounded::<()>(0);
    for _ in 0..20 {
        let (plan, released) = (node.plan("true"), released.clone());
        let id = plan.container_id;
        let make_plan = move || {
            // Ends when the test drops its end.
            let _ended = released.recv();
            Ok(plan)
        };
        let opportunistic = ExecutionType::Opportunistic;
        let launched = node
            .launcher
            .launch_with(id, opportunistic, Box::new(make_plan));
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
    let mut config = testing::config();
    config.launch_threads = 1;
    let node = Node::with(config);
    // Nobody reads events, so after 16 failures and one in hand the queue only fills.
    let plan = testing::plan(Path::new("/nowhere"));
    let mut refused = None;
    for _ in 0..LAUNCH_QUEUE_MAX + 100 {
        let mut plan = plan.clone();
        plan.container_id = testing::container_id();
        if let Err(reason) = node.launcher.launch(Box::new(plan)) {
            refused = Some(reason);
        }
    }
    assert_eq!(refused, Some(LaunchRefused::Busy));
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
            other @ (LaunchEvent::LaunchFailed { .. } | LaunchEvent::ProcessesGone(_)) => {
                panic!("{other:?}")
            }
        }
    }
    assert_eq!(statuses, [COUNT / 3; 3]);
    let own_pid = i32::try_from(std::process::id()).unwrap();
    // Looked at more than once: meanwhile another test's process may have one of the numbers.
    eventually("no zombie is left", || {
        let mut processes = pids.iter().filter_map(|pid| Process::read(*pid));
        let is_left = |process: Process| process.parent == own_pid && process.is_zombie;
        (!processes.any(is_left)).then_some(())
    })
    .await;
}

#[tokio::test]
async fn debug_information_is_in_the_log_directory() {
    let mut config = testing::config();
    config.debug_info = true;
    let mut node = Node::with(config);
    let mut plan = node.plan("sleep 0.01");
    plan.links = vec![Link {
        link: "lib/resource".to_owned(),
        target: PathBuf::from("/etc/hostname"),
    }];
    let (work_dir, log_dir) = (plan.dirs.work_dir.clone(), plan.dirs.log_dir.clone());
    assert_eq!(node.run(plan).await.0, 0);
    let copy = fs::read(log_dir.join("launch_container.sh")).unwrap();
    assert_eq!(
        copy,
        fs::read(work_dir.join("launch_container.sh")).unwrap()
    );
    let info = fs::read_to_string(log_dir.join("directory.info")).unwrap();
    assert!(info.contains(" ./lib/resource"), "{info}");
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
