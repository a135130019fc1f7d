//! Launches in this machine's own cgroups. Where they cannot be used, each test says so in a line `SKIPPED BY KERNEL`.

mod classes;

use std::collections::BTreeSet;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use cgroup::Version;
use records::{ContainerExitStatus, ContainerId, ExecutionType, Resource};
use sched::ContainerSpec;
use tempfile::TempDir;
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::*;
use crate::launch::{LaunchEvent, Launcher, testing};

/// Nothing here takes so long, unless it hangs.
const DEADLINE: Duration = Duration::from_secs(30);

fn config() -> CgroupConfig {
    static NEXT: AtomicU32 = AtomicU32::new(1);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    CgroupConfig {
        asked_for: true,
        hierarchy: format!("nm-agent-test-{}-agent-{number}", std::process::id()),
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

/// A launcher whose containers are isolated.
struct Node {
    folder: TempDir,
    isolation: Isolation,
    launcher: Launcher,
    events: mpsc::Receiver<LaunchEvent>,
    effects: mpsc::UnboundedReceiver<IsolationEvent>,
    paths: Vec<PathBuf>,
}

impl Node {
    fn start(test: &str) -> Option<Self> {
        Self::with(test, &config())
    }

    /// `None`, and a line that says so, where something is missing.
    fn with(test: &str, config: &CgroupConfig) -> Option<Self> {
        let (effects_in, effects) = mpsc::unbounded_channel();
        let started = Isolation::start(config, offer(), &effects_in);
        let (isolation, standing) = started.unwrap();
        let isolation = isolation.filter(|_| !standing.lacks());
        let Some(isolation) = isolation else {
            drop(writeln!(
                std::io::stderr().lock(),
                "\nSKIPPED BY KERNEL: {test}: {standing}"
            ));
            return None;
        };
        let (events_in, events) = mpsc::channel(16);
        let mut launch_config = testing::config();
        launch_config.isolation = Some(isolation.clone());
        let runtime = tokio::runtime::Handle::current();
        Some(Self {
            folder: tempfile::tempdir().unwrap(),
            paths: isolation.shared.places.root.paths(),
            launcher: Launcher::start(launch_config, events_in, runtime).unwrap(),
            isolation,
            events,
            effects,
        })
    }

    /// Launches a command in a container of 64 MiB and one virtual core.
    async fn launch(&mut self, class: ExecutionType, command: &str) -> ContainerSpec {
        let spec = self.order(class, command);
        let event = self.event().await;
        assert!(matches!(event, LaunchEvent::Launched { .. }), "{event:?}");
        spec
    }

    /// The same without waiting for an answer.
    fn order(&self, class: ExecutionType, command: &str) -> ContainerSpec {
        let spec = ContainerSpec {
            id: testing::container_id(),
            resource: Resource::new(64, 1),
            execution_type: class,
            version: 0,
        };
        let plan = testing::plan_in_folders(self.folder.path(), spec.id, command);
        self.isolation.announce(spec);
        let launched = self
            .launcher
            .launch_with(spec.id, class, Box::new(move || Ok(plan)));
        launched.unwrap();
        spec
    }

    /// What the class of opportunistic containers weighs, as the kernel says it.
    fn weight_of_opportunistic(&self) -> String {
        let below = |path: &PathBuf| path.join("opportunistic");
        let folders: Vec<_> = self.paths.iter().map(below).collect();
        let files = ["cpu.idle", "cpu.weight", "cpu.shares"].into_iter();
        files
            .flat_map(|file| folders.iter().map(move |folder| folder.join(file)))
            .filter_map(|path| fs::read_to_string(path).ok())
            .collect()
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

    async fn exited(&mut self) -> (ContainerExitStatus, String) {
        let event = self.event().await;
        let LaunchEvent::Exited {
            status,
            diagnostics,
            ..
        } = event
        else {
            panic!("{event:?}");
        };
        (status, diagnostics)
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

    /// What a control file of a container says, in whatever hierarchy it is.
    fn says(&self, class: &str, id: ContainerId, files: &[&str]) -> Option<String> {
        self.says_below(&format!("{class}/{id}"), files)
    }

    /// What a control file of a cgroup says, in whatever hierarchy it is.
    fn says_below(&self, cgroup: &str, files: &[&str]) -> Option<String> {
        let below = |path: &PathBuf| path.join(cgroup);
        let folders = self.paths.iter().map(below);
        let mut all = folders.flat_map(|folder| files.iter().map(move |file| folder.join(file)));
        all.find_map(|path| fs::read_to_string(path).ok())
            .map(|text| text.trim().to_owned())
    }
}

impl Node {
    /// As if the agent had been killed: nothing is tidied up.
    fn forget(mut self) -> Vec<PathBuf> {
        std::mem::take(&mut self.paths)
    }
}

impl Drop for Node {
    /// Nothing stays behind, also when a test fails.
    fn drop(&mut self) {
        for class in [ExecutionType::Guaranteed, ExecutionType::Opportunistic] {
            end_leftovers(self.isolation.shared.parent(class));
        }
        for path in &self.paths {
            for class in ["guaranteed", "opportunistic"] {
                drop(fs::remove_dir(path.join(class)));
            }
            drop(fs::remove_dir(path));
        }
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

const MAX: &[&str] = &["memory.max", "memory.limit_in_bytes"];

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

#[tokio::test]
async fn a_birth_that_is_late_hurries_its_class_and_only_as_long_as_it_lasts() {
    let test = "a_birth_that_is_late_hurries_its_class_and_only_as_long_as_it_lasts";
    let Some(mut node) = Node::start(test) else {
        return;
    };
    let runtime = tokio::runtime::Handle::current();
    let guaranteed = node.launch(ExecutionType::Guaranteed, "sleep 1000").await;
    let spec = node
        .launch(ExecutionType::Opportunistic, "sleep 1000")
        .await;
    let calm = node.weight_of_opportunistic();
    let late = std::future::pending();
    let birth = node.isolation.birth(spec.id, &runtime, late);
    eventually("it is hurried when it is late", || {
        (node.weight_of_opportunistic() != calm).then_some(())
    })
    .await;
    drop(birth);
    assert_eq!(node.weight_of_opportunistic(), calm);
    // One that is to end does not wait until it is late, whatever the clock says.
    let birth = node
        .isolation
        .birth(spec.id, &runtime, std::future::ready(()));
    eventually("it is hurried when it is to end", || {
        (node.weight_of_opportunistic() != calm).then_some(())
    })
    .await;
    // And one that waits for something else than processor time is given up.
    tokio::time::pause();
    eventually("it is not hurried for ever", || {
        (node.weight_of_opportunistic() == calm).then_some(())
    })
    .await;
    tokio::time::resume();
    drop(birth);
    assert_eq!(node.weight_of_opportunistic(), calm);
    let none = node
        .isolation
        .birth(guaranteed.id, &runtime, std::future::pending());
    assert!(none.is_none());
    for id in [guaranteed.id, spec.id] {
        node.launcher.force_kill(id);
        node.exited().await;
    }
}

/// Guaranteed containers burn all processor time, and an opportunistic one what is left, so that nobody else of its class gets
/// any.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn launches_without_processor_time_hold_no_guaranteed_one_up_and_can_be_killed() {
    const STARVED: usize = 24;
    let test = "launches_without_processor_time_hold_no_guaranteed_one_up_and_can_be_killed";
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
            LaunchEvent::Launched { .. } | LaunchEvent::ProcessesGone(_) => {}
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
    // Its memory is pressed back, or it is found that it cannot be.
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

#[tokio::test]
async fn a_frozen_container_is_terminated_and_can_say_goodbye() {
    let test = "a_frozen_container_is_terminated_and_can_say_goodbye";
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
async fn what_left_its_session_ends_with_its_container() {
    let test = "what_left_its_session_ends_with_its_container";
    let Some(mut node) = Node::start(test) else {
        return;
    };
    // Out of the session, orphaned, deaf to SIGTERM, its environment gone: only the cgroup knows whose it is.
    let daemon =
        "(env -i setsid bash -c 'trap \"\" TERM; echo $$ > pid; while :; do sleep 1; done' &)";
    let command = format!("{daemon}; until [ -s pid ]; do sleep 0.01; done");
    let spec = node.launch(ExecutionType::Guaranteed, &command).await;
    let (status, _) = node.exited().await;
    assert_eq!(status, ContainerExitStatus::SUCCESS);
    let pid = text_of(&node.work_file(spec.id, "pid")).await;
    let state = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    assert!(state.is_empty() || state.contains(") Z "), "{state}");
}

/// Both run as the agent's own user, which is what lets them.
#[tokio::test]
async fn what_leaves_its_cgroup_ends_with_its_container_all_the_same() {
    let test = "what_leaves_its_cgroup_ends_with_its_container_all_the_same";
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
        let daemon: i32 = text_of(&node.work_file(spec.id, "daemon.pid"))
            .await
            .parse()
            .unwrap();
        assert!(!node.isolation.confined(spec.id).holds(daemon).unwrap());
        node.launcher.terminate(spec.id);
        node.launcher.force_kill(spec.id);
        assert_eq!(node.exited().await.0, ContainerExitStatus::FORCE_KILLED);
        let state = fs::read_to_string(format!("/proc/{daemon}/stat")).unwrap_or_default();
        assert!(state.is_empty() || state.contains(") Z "), "{state}");
    }
}

#[tokio::test]
async fn promotion_and_demotion_move_a_running_container_with_its_limits() {
    let test = "promotion_and_demotion_move_a_running_container_with_its_limits";
    let Some(mut node) = Node::start(test) else {
        return;
    };
    let command = "echo > ready; while sleep 0.01; do :; done";
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
async fn what_an_earlier_run_left_is_ended_at_the_next_start() {
    let test = "what_an_earlier_run_left_is_ended_at_the_next_start";
    let config = config();
    let Some(mut node) = Node::with(test, &config) else {
        return;
    };
    let spec = node.launch(ExecutionType::Guaranteed, "sleep 1000").await;
    // As long as the place is in use, nobody else may clear it.
    let (effects, _) = mpsc::unbounded_channel();
    let start = || Isolation::start(&config, offer(), &effects).unwrap();
    let (second, standing) = start();
    assert!(second.is_none() && standing.lacks(), "{standing}");
    assert!(
        standing.to_string().contains("used by another agent"),
        "{standing}"
    );
    end_leftovers(&node.isolation.shared.places.guaranteed);
    assert_eq!(node.exited().await.0, ContainerExitStatus::FORCE_KILLED);
    assert_eq!(node.says("guaranteed", spec.id, MAX), None);
}

#[test]
fn without_anybody_asking_there_are_no_cgroups_and_nothing_is_missed() {
    let mut config = config();
    config.asked_for = false;
    let layout = cgroup::Layout::of_this_process().without_unified();
    let reason = open(&config, &layout).unwrap_err();
    assert!(matches!(reason, Unusable::NotDelegated), "{reason:?}");
    let standing = Standing::without(&config, reason);
    assert_eq!(standing, Standing::NotAskedFor);
    assert!(!standing.lacks() && !standing.is_used());
}

#[test]
fn what_is_missing_is_told_with_its_reason() {
    let config = config();
    let standing = Standing::without(&config, Unusable::NotMounted);
    assert!(standing.lacks());
    assert!(
        standing
            .to_string()
            .ends_with("no cgroup hierarchy is mounted"),
        "{standing}"
    );
    let partly = Standing::Used {
        version: Version::V1,
        missing: vec!["memory: no right to use it".to_owned()],
    };
    assert!(partly.lacks() && partly.is_used());
}
