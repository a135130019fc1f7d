//! Launches of real processes: bash, sleep and their like, in temporary folders.
//!
//! A test binary of its own, since a launcher reaps children of the whole process. Needs no
//! privileges.

#![expect(
    clippy::unwrap_used,
    reason = "functions that tests share are tests too: a panic is a failed test"
)]

#[path = "../container/fixture.rs"]
mod container;
mod environment;
mod exits;
mod hostile;
mod killing;
mod outliving;
mod queue;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

use container_runtime::launch::{LaunchConfig, LaunchEvent, LaunchPlan, Launcher};
use procfs::process::{Process, Stat};
use records::ContainerId;
use tempfile::TempDir;
use tokio::sync::mpsc;
use tokio::time::timeout;

/// Deadline of any step: only a launch that hangs reaches it.
const DEADLINE: Duration = Duration::from_secs(30);

/// Two launch threads, and a whitelist without the test's own variables.
fn config() -> LaunchConfig {
    LaunchConfig {
        env_whitelist: ["JAVA_HOME", "PATH", "LANG"].map(str::to_owned).to_vec(),
        launch_threads_max: 2,
        ..container::config()
    }
}

/// A launcher and its events.
struct Node {
    root: TempDir,
    launcher: Launcher,
    events: mpsc::Receiver<LaunchEvent>,
}

impl Node {
    fn start() -> Self {
        Self::with(config())
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

    /// Returns a plan with folders and an id that no other test has: left-over processes are
    /// recognised by their container's id.
    fn plan(&self, command: &str) -> LaunchPlan {
        static NEXT: AtomicI64 = AtomicI64::new(1);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        *container::plan(self.root.path(), number, command)
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
            | LaunchEvent::ProcessesGone(_)
            | LaunchEvent::ProcessesStay(_)
            | LaunchEvent::LeftoversGone(_)) => {
                panic!("{other:?}")
            }
        }
    }

    async fn exited(&mut self) -> (i32, String) {
        match self.event().await {
            LaunchEvent::Exited {
                status,
                cause,
                diagnostics,
                ..
            } => (status.0, cause + &diagnostics),
            other @ (LaunchEvent::Launched { .. }
            | LaunchEvent::LaunchFailed { .. }
            | LaunchEvent::ProcessesGone(_)
            | LaunchEvent::ProcessesStay(_)
            | LaunchEvent::LeftoversGone(_)) => {
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

/// Waits until a condition holds; checks it every millisecond.
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

/// Waits for the pid that a container writes into a file.
async fn written_pid(path: PathBuf) -> i32 {
    eventually(&format!("a pid in {}", path.display()), || {
        fs::read_to_string(&path).ok()?.trim().parse().ok()
    })
    .await
}

/// Reads a process; `None` once it is reaped.
fn process(pid: i32) -> Option<Stat> {
    Process::new(pid).ok()?.stat().ok()
}

fn is_alive(pid: i32) -> bool {
    process(pid).is_some_and(|process| process.state != 'Z')
}

fn output(log_dir: &Path) -> String {
    fs::read_to_string(log_dir.join("stdout")).unwrap()
}
