//! Launches in this machine's own cgroups: limits, freezing, promotion, and an end that no process
//! escapes. Launcher and isolation run in the test's own process, without an agent around them.

mod changes;
mod ends;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use container_runtime::config::CgroupConfig;
use container_runtime::isolation::{Isolation, IsolationEvent, Offer};
use container_runtime::launch::{LaunchConfig, LaunchEvent, LaunchPlan, Launcher, Planned};
use records::{ApplicationId, ContainerExitStatus, ContainerId, ExecutionType, NodeId, Resource};
use sched::ContainerSpec;
use tempfile::TempDir;
use test_support::folders::make_container_dirs;
use tests::cgroups::Hierarchy;
use tests::{guest, proc};
use tokio::sync::mpsc;
use tokio::time::timeout;

/// For anything that takes milliseconds on an idle machine.
const DEADLINE: Duration = Duration::from_secs(60);

const MAX: &[&str] = &["memory.max", "memory.limit_in_bytes"];
const LOW: &[&str] = &["memory.low", "memory.soft_limit_in_bytes"];
const FREEZE: &[&str] = &["cgroup.freeze", "freezer.self_freezing"];
const PROCS: &[&str] = &["cgroup.procs"];
const IDLE: &[&str] = &["cpu.idle"];

/// Counts for ever, in a file, one byte each time.
const COUNTING: &str = "while :; do echo >> count; done";

/// Returns a number that no other container or hierarchy of this run has.
fn number() -> i64 {
    static NEXT: AtomicI64 = AtomicI64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

fn config() -> CgroupConfig {
    CgroupConfig {
        asked_for: true,
        hierarchy: format!("nm-agent-test-{}-launch-{}", std::process::id(), number()),
        delegated: None,
        mount_path: None,
        cpu: true,
        strict_cpu: false,
        cpu_limit_percent: 100,
        count_logical_processors: true,
        memory: true,
        memory_soft_limit_percent: 90.0,
        swappiness: 0,
        io: false,
        pids_max: Some(64),
        delete_timeout_ms: 5000,
        freeze_timeout_ms: 10_000,
    }
}

fn offer() -> Offer {
    Offer {
        total: Resource::new(1024, 4),
        processors: 2,
        memory_ceiling_mb: None,
    }
}

fn launch_config(isolation: &Isolation) -> LaunchConfig {
    let node_id = NodeId {
        host: "node1.example.com".to_owned(),
        port: 8041,
    };
    LaunchConfig {
        env_whitelist: vec!["PATH".to_owned()],
        debug_info: false,
        launch_threads_max: 2,
        isolation: Some(isolation.clone()),
        ..LaunchConfig::new(node_id, 8042)
    }
}

/// A launcher whose containers are isolated.
struct Node {
    folder: TempDir,
    isolation: Isolation,
    launcher: Launcher,
    events: mpsc::Receiver<LaunchEvent>,
    effects: mpsc::Receiver<IsolationEvent>,
    paths: Vec<PathBuf>,
}

impl Node {
    fn start(test: &str) -> Option<Self> {
        Self::with(test, &config())
    }

    /// Returns `None`, and prints why, where something is missing. The guest has a delegated
    /// cgroup, which is the agent's.
    fn with(test: &str, config: &CgroupConfig) -> Option<Self> {
        if guest::is_here() {
            return None;
        }
        // Tells missing rights from what the kernel lacks.
        drop(Hierarchy::for_test(test)?);
        let (effects_in, effects) = mpsc::channel(64);
        let started = Isolation::start(config, offer(), &BTreeSet::new(), effects_in);
        let (isolation, availability) = started.unwrap();
        let Some(isolation) = isolation.filter(|_| !availability.lacks()) else {
            test_support::skip::skip_by_kernel(test, &availability);
            return None;
        };
        let (events_in, events) = mpsc::channel(16);
        let runtime = tokio::runtime::Handle::current();
        Some(Self {
            folder: tempfile::tempdir().unwrap(),
            paths: isolation.paths(),
            launcher: Launcher::start(launch_config(&isolation), events_in, runtime).unwrap(),
            isolation,
            events,
            effects,
        })
    }

    fn plan(&self, spec: ContainerSpec, command: &str) -> LaunchPlan {
        let dirs = make_container_dirs(&self.folder.path().join(spec.id.to_string()));
        LaunchPlan {
            commands: vec![command.to_owned()],
            ..LaunchPlan::new(spec.id, "alice".to_owned(), dirs)
        }
    }

    /// Launches a command in a container of 64 MiB and one virtual core.
    async fn launch(&mut self, class: ExecutionType, command: &str) -> ContainerSpec {
        let spec = self.order(class, command);
        let event = self.event().await;
        assert!(matches!(event, LaunchEvent::Launched { .. }), "{event:?}");
        spec
    }

    /// Queues the same launch without waiting for an answer.
    fn order(&self, class: ExecutionType, command: &str) -> ContainerSpec {
        let application = ApplicationId::new(i64::from(std::process::id()), 9);
        let spec = ContainerSpec {
            id: application.attempt(1).container(number()),
            resource: Resource::new(64, 1),
            execution_type: class,
            version: 0,
        };
        let plan = self.plan(spec, command);
        let make_plan = Box::new(move || Ok(Planned::Ready(Box::new(plan))));
        self.launcher.launch_with(spec, make_plan).unwrap();
        spec
    }

    async fn event(&mut self) -> LaunchEvent {
        loop {
            let event = timeout(DEADLINE, self.events.recv());
            let event = event.await.expect("an event in time").unwrap();
            // `Exited` always follows.
            if !matches!(event, LaunchEvent::ProcessesGone(_)) {
                return event;
            }
        }
    }

    async fn exited(&mut self) -> (ContainerExitStatus, String) {
        let event = self.event().await;
        let LaunchEvent::Exited {
            status,
            cause,
            diagnostics,
            ..
        } = event
        else {
            panic!("{event:?}");
        };
        (status, cause + &diagnostics)
    }

    async fn effect(&mut self) -> IsolationEvent {
        let effect = timeout(DEADLINE, self.effects.recv());
        effect.await.expect("an effect in time").unwrap()
    }

    fn work_file(&self, id: ContainerId, name: &str) -> PathBuf {
        self.folder
            .path()
            .join(id.to_string())
            .join("work")
            .join(name)
    }

    /// Reads a control file of a container, in whatever hierarchy it is.
    fn says(&self, class: &str, id: ContainerId, files: &[&str]) -> Option<String> {
        self.says_below(&format!("{class}/{id}"), files)
    }

    /// Reads a control file of a cgroup, in whatever hierarchy it is.
    fn says_below(&self, cgroup: &str, files: &[&str]) -> Option<String> {
        let below = |path: &PathBuf| path.join(cgroup);
        let folders = self.paths.iter().map(below);
        let mut all = folders.flat_map(|folder| files.iter().map(move |file| folder.join(file)));
        all.find_map(|path| fs::read_to_string(path).ok())
            .map(|text| text.trim().to_owned())
    }

    /// Whether the opportunistic class gets CPU time like the other one.
    fn is_boosted(&self) -> bool {
        self.says_below("opportunistic", IDLE).as_deref() == Some("0")
    }

    fn knows_idle(&self, test: &str) -> bool {
        let knows = self.says_below("opportunistic", IDLE).is_some();
        if !knows {
            test_support::skip::skip_by_kernel(test, &"there is no cpu.idle");
        }
        knows
    }

    fn is_in(&self, class: &str, id: ContainerId, pid: &str) -> bool {
        let pids = self.says(class, id, PROCS).unwrap_or_default();
        pids.lines().any(|line| line == pid)
    }

    /// As if the agent had been killed: nothing is tidied up.
    fn abandon(mut self) -> Vec<PathBuf> {
        std::mem::take(&mut self.paths)
    }
}

impl Drop for Node {
    /// Kills and removes all containers, also when a test fails.
    fn drop(&mut self) {
        for path in &self.paths {
            for class in ["guaranteed", "opportunistic"] {
                let class = path.join(class);
                let groups = fs::read_dir(&class).into_iter().flatten().flatten();
                for group in groups.filter(|entry| entry.path().is_dir()) {
                    kill_and_remove(&group.path());
                }
                drop(fs::remove_dir(class));
            }
            drop(fs::remove_dir(path));
        }
    }
}

fn kill_and_remove(group: &Path) {
    let deadline = Instant::now() + Duration::from_secs(5);
    while fs::remove_dir(group).is_err() && group.exists() && Instant::now() < deadline {
        let pids = fs::read_to_string(group.join("cgroup.procs")).unwrap_or_default();
        for pid in pids.lines().filter_map(|line| line.parse().ok()) {
            let pid = nix::unistd::Pid::from_raw(pid);
            let _gone = nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGKILL);
        }
        thread::sleep(Duration::from_millis(5));
    }
}

async fn eventually<T>(what: &str, mut condition: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + DEADLINE;
    loop {
        if let Some(value) = condition() {
            return value;
        }
        assert!(Instant::now() < deadline, "not in time: {what}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

async fn text_of(path: &Path) -> String {
    eventually(&path.display().to_string(), || {
        let text = fs::read_to_string(path).ok()?;
        text.ends_with('\n').then(|| text.trim().to_owned())
    })
    .await
}

/// Removes the cgroups of an abandoned node.
async fn remove_places(paths: &[PathBuf]) {
    for cgroup in ["guaranteed", "opportunistic", ""] {
        for path in paths {
            eventually("it is removed", || fs::remove_dir(path.join(cgroup)).ok()).await;
        }
    }
}

/// Length of a file, in bytes; zero if there is none.
fn length(path: &Path) -> u64 {
    fs::metadata(path).map_or(0, |metadata| metadata.len())
}

fn is_alive(pid: &str) -> bool {
    let pid = pid.trim().parse().expect("a process id");
    proc::stat(pid).is_some_and(|stat| stat.state != 'Z')
}

#[tokio::test]
async fn a_container_runs_in_the_cgroup_of_its_class_and_leaves_none_behind() {
    let test = "a_container_runs_in_the_cgroup_of_its_class_and_leaves_none_behind";
    let Some(mut node) = Node::start(test) else {
        return;
    };
    for (class, name) in [
        (ExecutionType::Guaranteed, "guaranteed"),
        (ExecutionType::Opportunistic, "opportunistic"),
    ] {
        let spec = node
            .launch(
                class,
                "cat /proc/self/cgroup > cgroups; echo > done; sleep 1000",
            )
            .await;
        text_of(&node.work_file(spec.id, "done")).await;
        let own = text_of(&node.work_file(spec.id, "cgroups")).await;
        let expected = format!("/{name}/{}", spec.id);
        let inside = own.lines().filter(|line| line.ends_with(&expected));
        assert_eq!(inside.count(), node.paths.len(), "{own}");
        let max = node.says(name, spec.id, MAX);
        assert_eq!(max.as_deref(), Some("67108864"));
        assert_eq!(
            node.says(name, spec.id, &["pids.max"]).as_deref(),
            Some("64")
        );
        node.launcher.terminate(spec.id);
        assert_eq!(node.exited().await.0, ContainerExitStatus::TERMINATED);
        assert_eq!(node.says(name, spec.id, MAX), None);
    }
}

#[tokio::test]
async fn a_container_that_eats_memory_is_reported_with_limit_and_peak() {
    let test = "a_container_that_eats_memory_is_reported_with_limit_and_peak";
    let Some(mut node) = Node::start(test) else {
        return;
    };
    let opportunistic = ExecutionType::Opportunistic;
    let beside = node.launch(opportunistic, "sleep 1000").await;
    let eater = node.launch(opportunistic, "tail /dev/zero").await;
    let (status, diagnostics) = node.exited().await;
    assert_eq!(status, ContainerExitStatus::KILLED_EXCEEDED_PMEM);
    let start = format!(
        "containerID={}] is running 0B beyond the 'PHYSICAL' memory limit. ",
        eater.id
    );
    assert!(diagnostics.contains(&start), "{diagnostics}");
    let usage = "Current usage: 64 MB of 64 MB physical memory used. Killing container.\n";
    assert!(diagnostics.contains(usage), "{diagnostics}");
    assert!(
        diagnostics.contains("limit of 67108864 bytes"),
        "{diagnostics}"
    );
    node.launcher.force_kill(beside.id);
    assert_eq!(node.exited().await.0, ContainerExitStatus::FORCE_KILLED);
}

/// Guaranteed containers burn all CPU time, and an opportunistic one what is left, so that nothing
/// else of its class gets any.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn launches_without_cpu_time_delay_no_guaranteed_one_and_can_be_killed() {
    const STARVED: usize = 24;
    let test = "launches_without_cpu_time_delay_no_guaranteed_one_and_can_be_killed";
    let Some(mut node) = Node::start(test) else {
        return;
    };
    let processors = thread::available_parallelism().unwrap().get();
    let burn = "while :; do :; done & ".repeat(processors) + "wait";
    let burning = [
        node.launch(ExecutionType::Guaranteed, &burn).await,
        node.launch(ExecutionType::Guaranteed, &burn).await,
        node.launch(ExecutionType::Opportunistic, &burn).await,
    ];
    let starved: Vec<_> = (0..STARVED)
        .map(|_| node.order(ExecutionType::Opportunistic, "sleep 1000").id)
        .collect();
    let guaranteed = node.order(ExecutionType::Guaranteed, "sleep 1000").id;
    let mut launched = BTreeSet::new();
    while !launched.contains(&guaranteed) {
        if let LaunchEvent::Launched { id, .. } = node.event().await {
            launched.insert(id);
        }
    }
    assert!(
        launched.len() <= STARVED,
        "it was launched after all the others"
    );
    // Those that are being born, those that wait and those that run: all are gone soon.
    for id in &starved {
        node.launcher.force_kill(*id);
    }
    let mut gone = 0;
    while gone < STARVED {
        match node.event().await {
            LaunchEvent::Launched { .. }
            | LaunchEvent::ProcessesGone(_)
            | LaunchEvent::ProcessesStay(_)
            | LaunchEvent::LeftoversGone(_) => {}
            LaunchEvent::LaunchFailed { .. } | LaunchEvent::Exited { .. } => gone += 1,
        }
    }
    for id in burning.map(|spec| spec.id).into_iter().chain([guaranteed]) {
        node.launcher.force_kill(id);
        node.exited().await;
    }
}

#[tokio::test]
async fn a_failure_after_which_memory_was_never_short_keeps_its_status() {
    let test = "a_failure_after_which_memory_was_never_short_keeps_its_status";
    let Some(mut node) = Node::start(test) else {
        return;
    };
    node.launch(ExecutionType::Guaranteed, "exit 7").await;
    let (status, _) = node.exited().await;
    assert_eq!(status, ContainerExitStatus(7));
}

#[tokio::test]
async fn a_frozen_container_makes_no_progress_and_goes_on() {
    let test = "a_frozen_container_makes_no_progress_and_goes_on";
    let Some(mut node) = Node::start(test) else {
        return;
    };
    let counting = "while :; do echo >> count; done";
    let spec = node.launch(ExecutionType::Opportunistic, counting).await;
    let count = node.work_file(spec.id, "count");
    text_of(&count).await;
    node.isolation.pause(spec.id);
    let effect = node.effect().await;
    let IsolationEvent::Paused { id, held_mb } = effect else {
        panic!("{effect:?}");
    };
    assert_eq!(id, spec.id);
    assert!(held_mb > Some(0), "{held_mb:?}");
    // Its memory is reclaimed, or cannot be.
    let effect = node.effect().await;
    assert!(
        matches!(effect, IsolationEvent::FrozenMemory { .. }),
        "{effect:?}"
    );
    let length = || fs::metadata(&count).unwrap().len();
    let before = length();
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(length(), before);
    node.isolation.resume(spec.id);
    let effect = node.effect().await;
    assert!(matches!(effect, IsolationEvent::Resumed(_)), "{effect:?}");
    eventually("it counts again", || (length() > before).then_some(())).await;
    node.launcher.force_kill(spec.id);
    node.exited().await;
}
