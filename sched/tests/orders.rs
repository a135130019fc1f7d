//! Orders of the queue on whole schedulers: who passes whom, and who waits how long at most.

#![expect(clippy::unwrap_used, reason = "helpers of a test, which they fail")]

use std::collections::BTreeMap;

use proptest::prelude::*;
use records::{ContainerExitStatus, ContainerId, ExecutionType, MonoMillis, Now, Resource};
use sched::{
    Action, ContainerScheduler, ContainerSchedulerConfig, ContainerSpec, Digest, Event, Note,
    PassReason, QUEUE_BOUND_FACTOR_DEFAULT, QueueOrder, RunProfile,
};
use test_support::ids::container_of;

/// Container of a workload: when it comes, how long it runs, whose it is, and its cores.
#[derive(Clone, Copy, Debug)]
struct Task {
    comes_ms: u64,
    runs_ms: u64,
    application: i32,
    vcores: u32,
    /// Hint of its application about its run.
    hint_ms: Option<u64>,
}

impl Task {
    const fn new(comes_ms: u64, runs_ms: u64, application: i32) -> Self {
        Self {
            comes_ms,
            runs_ms,
            application,
            vcores: 1,
            hint_ms: Some(runs_ms),
        }
    }
}

/// Course of a workload on a node.
#[derive(Debug, Default)]
struct Played {
    /// Waits of the tasks in milliseconds, in their order.
    waits_ms: Vec<u64>,
    passes: Vec<(usize, usize, PassReason)>,
}

/// Node that runs a workload in its own time.
struct Node {
    scheduler: ContainerScheduler,
    now_ms: u64,
    tasks: Vec<Task>,
    ends: BTreeMap<(u64, usize), ContainerId>,
    played: Played,
}

fn id_of(task: usize, application: i32) -> ContainerId {
    container_of(application, i64::try_from(task).unwrap())
}

fn task_of(id: ContainerId) -> usize {
    usize::try_from(id.id).unwrap()
}

impl Node {
    fn new(order: QueueOrder, places: u32, tasks: &[Task]) -> Self {
        let config = ContainerSchedulerConfig {
            queue_length_max: 10_000,
            queue_order: order,
            ..ContainerSchedulerConfig::default()
        };
        let size = Resource::new(u64::from(places) * 100, places);
        Self {
            scheduler: ContainerScheduler::new(config, size),
            now_ms: 0,
            tasks: tasks.to_vec(),
            ends: BTreeMap::new(),
            played: Played {
                waits_ms: vec![0; tasks.len()],
                passes: Vec::new(),
            },
        }
    }

    fn feed(&mut self, event: Event) {
        let now = Now {
            mono: MonoMillis(self.now_ms),
            ..Now::default()
        };
        let mut actions = Vec::new();
        self.scheduler.handle(event, now, &mut actions).unwrap();
        for action in actions {
            match action {
                Action::Localize(id) => self.feed(Event::Localized(id)),
                Action::Launch(id) => {
                    let task = task_of(id);
                    self.played.waits_ms[task] = self.now_ms - self.tasks[task].comes_ms;
                    let ends_ms = self.now_ms + self.tasks[task].runs_ms;
                    self.ends.insert((ends_ms, task), id);
                    self.feed(Event::Launched(id));
                }
                Action::CleanUp(id) => {
                    self.feed(Event::CleanedUp(id));
                    self.feed(Event::Forget(id));
                }
                Action::Note(Note::Passed { id, passed, reason }) => {
                    let pass = (task_of(id), task_of(passed), reason);
                    self.played.passes.push(pass);
                }
                Action::RollBack(_)
                | Action::Pause(_)
                | Action::Resume(_)
                | Action::Terminate(_)
                | Action::ForceKill(_)
                | Action::ApplyLimits(_)
                | Action::Completed(_)
                | Action::Note(_) => {}
            }
        }
    }

    fn comes(&mut self, task: usize) {
        let Task {
            application,
            vcores,
            hint_ms,
            ..
        } = self.tasks[task];
        let id = id_of(task, application);
        let spec = ContainerSpec {
            id,
            resource: Resource::new(u64::from(vcores) * 100, vcores),
            execution_type: ExecutionType::Opportunistic,
            version: 0,
        };
        let now = Now {
            mono: MonoMillis(self.now_ms),
            ..Now::default()
        };
        let mut localize = Vec::new();
        let started = self
            .scheduler
            .handle(Event::Start(spec), now, &mut localize);
        started.unwrap();
        let profile = RunProfile {
            user: Digest([1; 4]),
            command: Digest([u32::try_from(application).unwrap(), 0, 0, 0]),
            hint_ms,
        };
        self.feed(Event::RunProfile { id, profile });
        self.feed(Event::Localized(id));
    }

    /// Runs all tasks, which are sorted by their arrivals. What ends at a moment ends before what
    /// comes then.
    fn play(mut self) -> Played {
        let mut next = 0;
        loop {
            let comes_ms = self.tasks.get(next).map(|task| task.comes_ms);
            let ends = self.ends.keys().next().copied();
            match (ends, comes_ms) {
                (Some((ends_ms, task)), comes_ms) if comes_ms.is_none_or(|at| ends_ms <= at) => {
                    self.now_ms = ends_ms;
                    let id = self.ends.remove(&(ends_ms, task)).unwrap();
                    self.feed(Event::Exited {
                        id,
                        status: ContainerExitStatus::SUCCESS,
                        diagnostics: String::new(),
                    });
                }
                (_, Some(comes_ms)) => {
                    self.now_ms = comes_ms;
                    self.comes(next);
                    next += 1;
                }
                (_, None) => break,
            }
        }
        self.scheduler.assert_invariants();
        assert_eq!(self.scheduler.len(), 0);
        self.played
    }
}

fn played(order: QueueOrder, places: u32, tasks: &[Task]) -> Played {
    Node::new(order, places, tasks).play()
}

/// Arrivals faster than one place can serve for a while, of runs that differ by a factor of 1,000.
fn tasks() -> impl Strategy<Value = Vec<Task>> {
    let runs_ms = prop_oneof![3 => 1_u64..100, 2 => 100_u64..1_000, 1 => 1_000_u64..100_000];
    let task = (0_u64..2_000, runs_ms, 1_i32..6);
    prop::collection::vec(task, 1..120).prop_map(|tasks| {
        let mut at_ms = 0;
        let task = |(gap_ms, runs_ms, application)| {
            at_ms += gap_ms;
            Task::new(at_ms, runs_ms, application)
        };
        tasks.into_iter().map(task).collect()
    })
}

proptest! {
    #[test]
    fn nobody_waits_longer_than_the_bound_or_the_order_of_arrival_and_one_run(tasks in tasks()) {
        let fifo = played(QueueOrder::Fifo, 1, &tasks).waits_ms;
        let one_run_ms = tasks.iter().map(|task| task.runs_ms).max().unwrap();
        for order in [QueueOrder::Shortest, QueueOrder::LeastLeft] {
            let waits_ms = played(order, 1, &tasks).waits_ms;
            for (number, (task, wait_ms)) in tasks.iter().zip(&waits_ms).enumerate() {
                let bound_ms = task.runs_ms * u64::from(QUEUE_BOUND_FACTOR_DEFAULT);
                let most_ms = bound_ms.max(fifo[number]) + one_run_ms;
                prop_assert!(
                    *wait_ms <= most_ms,
                    "{order}: {number} of {task:?} waits {wait_ms}, in the order of arrival {}",
                    fifo[number]
                );
            }
        }
    }
}

/// Ten places' worth of long runs in the queue of two places, and a short one after them.
fn long_and_one_short(hint_ms: Option<u64>) -> Vec<Task> {
    let mut tasks: Vec<Task> = (0..10).map(|_| Task::new(0, 60_000, 1)).collect();
    tasks.push(Task {
        hint_ms,
        ..Task::new(1_000, 500, 2)
    });
    tasks
}

#[test]
fn a_hint_lets_a_short_one_start_next_and_says_why() {
    let tasks = long_and_one_short(Some(500));
    let fifo = played(QueueOrder::Fifo, 2, &tasks);
    assert_eq!((fifo.waits_ms[10], fifo.passes.len()), (299_000, 0));
    let shortest = played(QueueOrder::Shortest, 2, &tasks);
    assert_eq!(shortest.waits_ms[10], 59_000);
    let reason = PassReason::Order {
        order: QueueOrder::Shortest,
        expected_ms: 500,
        passed_expected_ms: 60_000,
    };
    assert_eq!(shortest.passes, [(10, 2, reason)]);
    // Without a hint or an earlier run nobody knows.
    let unknown = played(QueueOrder::Shortest, 2, &long_and_one_short(None));
    assert_eq!(unknown.waits_ms[10], 299_000);
}

#[test]
fn short_ones_overtake_long_ones_once_three_of_each_are_learnt() {
    let without_hint = |comes_ms, runs_ms, application| Task {
        hint_ms: None,
        ..Task::new(comes_ms, runs_ms, application)
    };
    let mut tasks: Vec<Task> = (0..3).map(|_| without_hint(0, 60_000, 1)).collect();
    tasks.extend((0..3).map(|_| without_hint(0, 500, 2)));
    // All are known when the next come, in one queue.
    tasks.extend((0..8).map(|_| without_hint(400_000, 60_000, 1)));
    tasks.push(without_hint(400_000, 500, 2));
    let fifo = played(QueueOrder::Fifo, 1, &tasks).waits_ms;
    let shortest = played(QueueOrder::Shortest, 1, &tasks).waits_ms;
    assert_eq!((fifo[14], shortest[14]), (480_000, 60_000));
}

#[test]
fn a_liar_passes_until_his_first_run_has_ended_and_not_after_it() {
    let lies = |comes_ms| Task {
        hint_ms: Some(1),
        ..Task::new(comes_ms, 60_000, 2)
    };
    let mut tasks = vec![lies(0), Task::new(0, 50_000, 1), lies(1_000)];
    tasks.push(Task::new(61_000, 50_000, 1));
    tasks.push(lies(62_000));
    let waits_ms = played(QueueOrder::Shortest, 1, &tasks).waits_ms;
    // The second lie is believed, since none had been found out. The third is not: a run of that
    // user's commands takes a minute.
    assert!(waits_ms[1] > waits_ms[2], "{waits_ms:?}");
    assert!(waits_ms[3] < waits_ms[4] + 1_000, "{waits_ms:?}");
}

#[test]
fn the_attempt_with_the_least_left_goes_first() {
    let mut tasks = vec![Task::new(0, 1_000, 9)];
    tasks.extend((0..7).map(|_| Task::new(1, 1_000, 1)));
    tasks.push(Task::new(2, 1_000, 2));
    let shortest = played(QueueOrder::Shortest, 1, &tasks).waits_ms;
    assert_eq!(shortest[8], 7_998);
    let least_left = played(QueueOrder::LeastLeft, 1, &tasks).waits_ms;
    assert_eq!(least_left[8], 998, "{least_left:?}");
}

#[test]
fn a_small_one_passes_a_large_one_that_does_not_fit_if_it_ends_in_time() {
    let large = Task {
        vcores: 4,
        ..Task::new(10_100, 8_000, 3)
    };
    // Three runs of ten seconds teach the node.
    let mut tasks: Vec<Task> = (0..3).map(|_| Task::new(0, 10_000, 1)).collect();
    tasks.push(Task::new(10_000, 10_000, 1));
    tasks.push(large);
    tasks.extend((0..3).map(|_| Task::new(0, 300, 2)));
    tasks.push(Task::new(10_200, 300, 2));
    tasks.push(Task::new(10_200, 10_000, 1));
    tasks.sort_by_key(|task| task.comes_ms);
    let at = |comes_ms, application| {
        let is = |task: &Task| task.comes_ms == comes_ms && task.application == application;
        tasks.iter().position(is).unwrap()
    };
    let (large, small, long) = (at(10_100, 3), at(10_200, 2), at(10_200, 1));
    let played = played(QueueOrder::Shortest, 4, &tasks);
    assert_eq!(played.waits_ms[large], 9_900, "{played:?}");
    assert_eq!(played.waits_ms[small], 0, "{played:?}");
    assert!(played.waits_ms[long] >= 9_800, "{played:?}");
    let fifo = self::played(QueueOrder::Fifo, 4, &tasks);
    assert!(fifo.waits_ms[small] >= 9_800, "{fifo:?}");
}
