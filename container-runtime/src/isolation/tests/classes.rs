//! What holds for a class as a whole, and for containers that change it.

use super::*;
use crate::isolation::changing::Changer;
use crate::isolation::freezing::Freezer;

const FREEZE: &[&str] = &["cgroup.freeze", "freezer.self_freezing"];
const LOW: &[&str] = &["memory.low", "memory.soft_limit_in_bytes"];
const PROCS: &[&str] = &["cgroup.procs"];
const MIB: u128 = 1 << 20;

/// Counts for ever, in a file, one byte each time.
const COUNTING: &str = "while :; do echo >> count; done";

/// Whether a file has grown.
fn length(path: &Path) -> u64 {
    fs::metadata(path).map_or(0, |metadata| metadata.len())
}

impl Node {
    /// Whether opportunistic containers get processor time like others; `None`: the kernel does not know of idle ones.
    fn is_hurried(&self) -> bool {
        let weight = self.says_below("opportunistic", &["cpu.idle"]).unwrap();
        weight == "0"
    }

    fn changes_class(&self, spec: &mut ContainerSpec, class: ExecutionType) {
        spec.execution_type = class;
        self.isolation.shared.table.changed(*spec);
    }

    fn knows_idle(&self, test: &str) -> bool {
        let knows = self.says_below("opportunistic", &["cpu.idle"]).is_some();
        if !knows {
            drop(writeln!(
                std::io::stderr().lock(),
                "\nSKIPPED BY KERNEL: {test}: there is no cpu.idle"
            ));
        }
        knows
    }
}

#[tokio::test]
async fn what_is_promoted_while_it_is_frozen_goes_on_in_either_class_once_it_is_thawed() {
    let test = "what_is_promoted_while_it_is_frozen_goes_on_in_either_class_once_it_is_thawed";
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
    // It hears of its end, too.
    node.launcher.terminate(spec.id);
    assert_eq!(node.exited().await.0, ContainerExitStatus::TERMINATED);
}

#[tokio::test]
async fn all_who_are_to_stop_are_told_before_any_is_waited_for() {
    let test = "all_who_are_to_stop_are_told_before_any_is_waited_for";
    let Some(mut node) = Node::start(test) else {
        return;
    };
    let mut ids = Vec::new();
    for _ in 0..3 {
        let spec = node.launch(ExecutionType::Opportunistic, COUNTING).await;
        text_of(&node.work_file(spec.id, "count")).await;
        ids.push(spec.id);
    }
    let (effects, _answers) = mpsc::unbounded_channel();
    let (reclaim, _frozen) = crossbeam_channel::bounded(8);
    let mut freezer = Freezer {
        shared: Arc::clone(&node.isolation.shared),
        effects,
        reclaim,
        stopping: BTreeMap::new(),
    };
    for id in &ids {
        freezer.obey(&FreezeOrder::Pause(*id));
    }
    for id in &ids {
        let told = node.says("opportunistic", *id, FREEZE);
        assert_eq!(told.as_deref(), Some("1"));
    }
    let knows_idle = node.knows_idle(test);
    assert!(!knows_idle || node.is_hurried());
    eventually("all stand still", || {
        freezer.look();
        freezer.stopping.is_empty().then_some(())
    })
    .await;
    assert!(!knows_idle || !node.is_hurried());
    for id in ids {
        node.launcher.force_kill(id);
        node.exited().await;
    }
}

#[tokio::test]
async fn who_is_asked_to_end_is_hurried_and_not_for_ever() {
    let test = "who_is_asked_to_end_is_hurried_and_not_for_ever";
    let Some(mut node) = Node::start(test) else {
        return;
    };
    if !node.knows_idle(test) {
        return;
    }
    let deaf = "trap '' TERM; echo > ready; while :; do sleep 1; done";
    let spec = node.launch(ExecutionType::Opportunistic, deaf).await;
    text_of(&node.work_file(spec.id, "ready")).await;
    assert!(!node.is_hurried());
    let confined = node.isolation.confined(spec.id);
    confined.signal(libc::SIGTERM).unwrap();
    assert!(node.is_hurried());
    eventually("it has had its time", || (!node.is_hurried()).then_some(())).await;
    assert!(confined.is_populated().unwrap());
    // Telling it again gives it nothing.
    confined.signal(libc::SIGTERM).unwrap();
    assert!(!node.is_hurried());
    node.launcher.force_kill(spec.id);
    node.exited().await;
    assert!(!node.is_hurried());
}

#[tokio::test]
async fn the_end_of_a_guaranteed_container_gives_others_nothing() {
    let test = "the_end_of_a_guaranteed_container_gives_others_nothing";
    let Some(mut node) = Node::start(test) else {
        return;
    };
    if !node.knows_idle(test) {
        return;
    }
    let spec = node.launch(ExecutionType::Guaranteed, "sleep 1000").await;
    let confined = node.isolation.confined(spec.id);
    confined.signal(libc::SIGCONT).unwrap();
    assert!(!node.is_hurried());
    confined.kill().unwrap();
    assert!(!node.is_hurried());
    node.exited().await;
}

#[tokio::test]
async fn what_is_protected_follows_the_guaranteed_containers() {
    let test = "what_is_protected_follows_the_guaranteed_containers";
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
async fn the_classes_wait_for_no_container() {
    let test = "the_classes_wait_for_no_container";
    let Some(mut node) = Node::start(test) else {
        return;
    };
    let spec = node.launch(ExecutionType::Guaranteed, "sleep 1000").await;
    let shared = &node.isolation.shared;
    // What takes long is done with a container's lock held.
    let done = shared.with_groups(spec.id, |_, _| shared.apply_classes());
    assert_eq!(done, Some(()));
    node.launcher.force_kill(spec.id);
    node.exited().await;
}

#[tokio::test]
async fn what_was_used_before_a_promotion_counts_where_it_is_until_it_is_freed() {
    let test = "what_was_used_before_a_promotion_counts_where_it_is_until_it_is_freed";
    let Some(mut node) = Node::start(test) else {
        return;
    };
    let command = "head -c 30000000 /dev/zero > blob; echo > ready; until [ -e go ]; do sleep 0.01; done; \
        rm blob; echo > gone; sleep 1000";
    let mut spec = node.launch(ExecutionType::Opportunistic, command).await;
    text_of(&node.work_file(spec.id, "ready")).await;
    let shared = Arc::clone(&node.isolation.shared);
    let mut changer = Changer::new(Arc::clone(&shared));
    assert_eq!(shared.table.sums(), table::Sums::default());
    node.changes_class(&mut spec, ExecutionType::Guaranteed);
    changer.change(spec.id);
    let sums = shared.table.sums();
    assert_eq!(sums.promised, 64 * MIB);
    assert!(sums.left_behind >= 25 * MIB, "{sums:?}");
    let low = node.says("opportunistic", spec.id, LOW).unwrap();
    assert!(low.parse::<u128>().unwrap() >= 25 * MIB, "{low}");
    // Back: what it holds there now is nobody's, but is not to be had either.
    node.changes_class(&mut spec, ExecutionType::Opportunistic);
    changer.change(spec.id);
    let low = node.says("guaranteed", spec.id, LOW);
    assert_eq!(low.as_deref(), Some("0"));
    let sums = shared.table.sums();
    assert!(
        sums.promised < 25 * MIB && sums.left_behind == 0,
        "{sums:?}"
    );
    node.changes_class(&mut spec, ExecutionType::Guaranteed);
    changer.change(spec.id);
    fs::write(node.work_file(spec.id, "go"), "").unwrap();
    text_of(&node.work_file(spec.id, "gone")).await;
    eventually("what it has freed is not counted any more", || {
        changer.look_at_former();
        (shared.table.sums().left_behind < 10 * MIB).then_some(())
    })
    .await;
    node.launcher.force_kill(spec.id);
    node.exited().await;
    assert_eq!(shared.table.sums(), table::Sums::default());
}

#[tokio::test]
async fn who_was_not_moved_is_moved_later() {
    let test = "who_was_not_moved_is_moved_later";
    let Some(mut node) = Node::start(test) else {
        return;
    };
    let command = "echo $$ > pid; while sleep 0.01; do :; done";
    let mut spec = node.launch(ExecutionType::Opportunistic, command).await;
    let pid = text_of(&node.work_file(spec.id, "pid")).await;
    let mut changer = Changer::new(Arc::clone(&node.isolation.shared));
    node.changes_class(&mut spec, ExecutionType::Guaranteed);
    changer.change(spec.id);
    let is_in = |class: &str| {
        let pids = node.says(class, spec.id, PROCS).unwrap_or_default();
        pids.lines().any(|line| line == pid)
    };
    assert!(is_in("guaranteed"));
    // As if that had been refused.
    for path in &node.paths {
        let former = path.join("opportunistic").join(spec.id.to_string());
        fs::write(former.join("cgroup.procs"), &pid).unwrap();
    }
    assert!(is_in("opportunistic"));
    changer.look_at_former();
    assert!(is_in("guaranteed") && !is_in("opportunistic"));
    node.launcher.force_kill(spec.id);
    node.exited().await;
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
    let paths = node.forget();
    let (effects, _) = mpsc::unbounded_channel();
    eventually("the place is free", || {
        let (isolation, _) = Isolation::start(&config, offer(), &effects).unwrap();
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
    for cgroup in ["guaranteed", "opportunistic", ""] {
        for path in &paths {
            eventually("it is removed", || fs::remove_dir(path.join(cgroup)).ok()).await;
        }
    }
}
