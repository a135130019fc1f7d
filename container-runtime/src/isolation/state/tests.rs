//! The state machine against a model of the kernel's files.

mod adoption;
mod kernel;
mod property;

use std::time::{Duration, Instant};

use cgroup::{Bound, Limits};
use records::{ContainerId, ExecutionType, Resource};
use sched::ContainerSpec;

use super::super::limits::tests::rules as rules_of_node;
use super::super::limits::{MIB, MemorySums, Rules};
use super::State;
use super::action::{Action, Event, Group, Job, Lane};
use crate::isolation::IsolationEvent;
use crate::launch::testing::container_id;
use kernel::Kernel;

const GUARANTEED: ExecutionType = ExecutionType::Guaranteed;
const OPPORTUNISTIC: ExecutionType = ExecutionType::Opportunistic;

/// Bound of a pause and of a boost in these tests.
const PATIENCE: Duration = Duration::from_millis(900);

fn rules() -> Rules {
    let mut rules = rules_of_node();
    rules.config.strict_cpu = true;
    rules.config.freeze_timeout_ms = 900;
    rules
}

fn spec(id: ContainerId, class: ExecutionType, memory_mb: u64) -> ContainerSpec {
    ContainerSpec {
        id,
        resource: Resource::new(memory_mb, 2),
        execution_type: class,
        version: 0,
    }
}

/// The state machine with its executors: fast jobs run at once, slow ones when a test says so.
struct World {
    state: State,
    kernel: Kernel,
    now: Instant,
    answers: Vec<IsolationEvent>,
    /// Jobs of the slow lanes, oldest first.
    limits: Vec<Job>,
    reclaim: Vec<Job>,
    reports: usize,
}

impl World {
    fn new() -> Self {
        let now = Instant::now();
        let mut world = Self {
            state: State::new(rules(), now),
            kernel: Kernel::default(),
            now,
            answers: Vec::new(),
            limits: Vec::new(),
            reclaim: Vec::new(),
            reports: 0,
        };
        world.perform();
        world
    }

    fn handle(&mut self, event: Event) {
        self.state.handle(event, self.now);
        self.perform();
        self.state.tick(self.now);
        self.perform();
    }

    fn perform(&mut self) {
        while let Some(action) = self.state.next_action() {
            match action {
                Action::Do(Lane::Fast, job) => self.run(job),
                Action::Do(Lane::Limits, job) => self.limits.push(job),
                Action::Do(Lane::Reclaim, job) => self.reclaim.push(job),
                Action::Answer(effect) => self.answers.push(effect),
                Action::Report(_) => self.reports += 1,
            }
        }
    }

    /// Runs a job. A refused one is reported; only a move of a container that ends need not be.
    fn run(&mut self, job: Job) {
        let (refusals, reports) = (self.kernel.refusals, self.reports);
        if let Some(done) = job.run(&mut self.kernel) {
            self.state.handle(Event::Done(done), self.now);
            self.perform();
        }
        let is_refused = self.kernel.refusals < refusals;
        let is_reported = self.reports > reports;
        assert!(!is_refused || is_reported || matches!(job, Job::Move { .. }));
    }

    /// Runs the oldest job of a slow lane; whether there was one.
    fn run_slow(&mut self, lane: Lane) -> bool {
        let jobs = match lane {
            Lane::Limits => &mut self.limits,
            Lane::Reclaim => &mut self.reclaim,
            Lane::Fast => return false,
        };
        if jobs.is_empty() {
            return false;
        }
        let job = jobs.remove(0);
        self.run(job);
        true
    }

    fn run_all(&mut self) {
        while self.run_slow(Lane::Limits) || self.run_slow(Lane::Reclaim) {}
    }

    /// Lets time pass, with a tick at each deadline.
    fn advance(&mut self, time: Duration) {
        let end = self.now + time;
        for _tick in 0..100_000 {
            match self.state.next_deadline().filter(|at| *at <= end) {
                Some(at) => {
                    self.now = at.max(self.now);
                    self.state.tick(self.now);
                    self.perform();
                }
                None => {
                    self.now = end;
                    return;
                }
            }
        }
        panic!("deadlines without end");
    }

    /// Announces a container and makes its cgroup as a launch thread does.
    fn launch(&mut self, spec: ContainerSpec) {
        self.handle(Event::Announced(spec));
        let limits = self.kernel.launch(&rules(), &spec);
        self.handle(Event::Created(spec, limits));
        self.handle(Event::Started(spec.id));
    }

    fn is_boosted(&self) -> bool {
        self.kernel.opportunistic.cpu_idle == Some(false)
    }

    fn high(&self) -> Option<Bound> {
        self.kernel.opportunistic.memory_high
    }
}

fn group(class: ExecutionType, id: ContainerId) -> Group {
    Group { class, id }
}

#[test]
fn starts_within_an_interval_cost_the_class_one_write() {
    let mut world = World::new();
    world.run_all();
    world.launch(spec(container_id(), GUARANTEED, 1000));
    world.advance(Duration::from_millis(10));
    world.run_all();
    let before = world.kernel.writes;
    for _ in 0..5 {
        world.launch(spec(container_id(), GUARANTEED, 100));
    }
    world.advance(Duration::from_millis(10));
    world.run_all();
    // The protection of both parents, and the bound of the other class.
    assert_eq!(world.kernel.writes, before + 3);
    assert_eq!(world.high(), Some(Bound::At((8192 - 1500) * MIB)));
}

#[test]
fn a_pause_is_answered_though_a_slow_write_hangs() {
    let mut world = World::new();
    let id = container_id();
    world.launch(spec(id, OPPORTUNISTIC, 100));
    world.advance(Duration::from_millis(10));
    assert!(!world.limits.is_empty(), "a write hangs");
    world.handle(Event::Pause(id));
    assert!(world.is_boosted());
    world.kernel.stop(id);
    world.advance(Duration::from_millis(1));
    assert!(matches!(world.answers[..], [IsolationEvent::Paused { .. }]));
    assert!(!world.is_boosted());
}

#[test]
fn a_container_that_does_not_freeze_is_thawed_at_its_deadline() {
    let mut world = World::new();
    let id = container_id();
    world.launch(spec(id, OPPORTUNISTIC, 100));
    world.handle(Event::Pause(id));
    world.advance(PATIENCE);
    assert!(matches!(
        world.answers[..],
        [IsolationEvent::PauseFailed(_)]
    ));
    assert!(!world.kernel.groups[&group(OPPORTUNISTIC, id)].frozen);
    assert!(!world.is_boosted());
}

#[test]
fn all_containers_to_freeze_are_told_before_any_is_read() {
    let mut world = World::new();
    let ids: Vec<_> = (0..3).map(|_| container_id()).collect();
    for id in &ids {
        world.launch(spec(*id, OPPORTUNISTIC, 100));
    }
    for id in &ids {
        world.state.handle(Event::Pause(*id), world.now);
    }
    let mut order = Vec::new();
    world.state.tick(world.now);
    while let Some(action) = world.state.next_action() {
        if let Action::Do(Lane::Fast, job) = action {
            order.push(matches!(job, Job::CheckFrozen { .. }));
        }
    }
    assert!(order.is_sorted(), "{order:?}");
}

#[test]
fn a_repeated_order_to_end_prolongs_no_boost() {
    let mut world = World::new();
    let id = container_id();
    world.launch(spec(id, OPPORTUNISTIC, 100));
    world.handle(Event::Terminating(id));
    assert!(world.is_boosted());
    world.advance(Duration::from_secs(1));
    assert!(!world.is_boosted());
    world.handle(Event::Terminating(id));
    assert!(!world.is_boosted());
    world.handle(Event::Killing(id));
    assert!(world.is_boosted());
    world.handle(Event::Emptied(id));
    assert!(!world.is_boosted());
}

#[test]
fn the_end_of_a_guaranteed_container_boosts_nobody() {
    let mut world = World::new();
    let id = container_id();
    world.launch(spec(id, GUARANTEED, 100));
    world.handle(Event::Terminating(id));
    world.handle(Event::Killing(id));
    assert!(!world.is_boosted());
}

#[test]
fn a_start_is_boosted_when_it_is_late_or_to_end() {
    let mut world = World::new();
    for (is_ordered, patience_ms) in [(false, 20), (true, 0)] {
        let spec = spec(container_id(), OPPORTUNISTIC, 100);
        world.handle(Event::Announced(spec));
        if is_ordered {
            world.handle(Event::EndOrdered(spec.id));
        }
        let limits = world.kernel.launch(&rules(), &spec);
        world.handle(Event::Created(spec, limits));
        assert_eq!(world.is_boosted(), is_ordered);
        world.advance(Duration::from_millis(patience_ms));
        assert!(world.is_boosted());
        world.handle(Event::Started(spec.id));
        assert!(!world.is_boosted());
    }
}

#[test]
fn memory_used_before_a_promotion_counts_in_the_former_class_until_it_is_freed() {
    let mut world = World::new();
    let id = container_id();
    world.launch(spec(id, OPPORTUNISTIC, 64));
    world.kernel.charge(group(OPPORTUNISTIC, id), 30 * MIB);
    world.handle(Event::Changed(spec(id, GUARANTEED, 64)));
    world.run_all();
    world.advance(Duration::from_millis(10));
    world.run_all();
    let promoted = MemorySums {
        promised: u128::from(64 * MIB),
        protected: u128::from(
            rules()
                .container(&spec(id, GUARANTEED, 64))
                .memory_low
                .unwrap(),
        ),
        left_behind: u128::from(30 * MIB),
    };
    assert_eq!(world.state.sums, promoted);
    assert_eq!(world.high(), Some(Bound::At((8192 - 64 + 30) * MIB)));
    let low = |world: &World, class| world.kernel.groups[&group(class, id)].limits.memory_low;
    assert_eq!(low(&world, OPPORTUNISTIC), Some(30 * MIB));
    world.kernel.charge(group(OPPORTUNISTIC, id), MIB);
    world.advance(Duration::from_secs(6));
    world.run_all();
    assert_eq!(world.state.sums.left_behind, u128::from(MIB));
    assert_eq!(low(&world, OPPORTUNISTIC), Some(MIB));
    // Demoted: what it holds among the guaranteed ones is protected no more, and not given away.
    world.kernel.charge(group(GUARANTEED, id), 20 * MIB);
    world.handle(Event::Changed(spec(id, OPPORTUNISTIC, 64)));
    world.run_all();
    assert_eq!(low(&world, GUARANTEED), Some(0));
    let demoted = MemorySums {
        promised: u128::from(20 * MIB),
        ..MemorySums::default()
    };
    assert_eq!(world.state.sums, demoted);
    world.handle(Event::Finishing(id));
    world.handle(Event::Removed(id));
    assert_eq!(world.state.sums, MemorySums::default());
}

#[test]
fn processes_that_were_not_moved_are_moved_at_the_next_check() {
    let mut world = World::new();
    let id = container_id();
    world.launch(spec(id, OPPORTUNISTIC, 64));
    world.handle(Event::Changed(spec(id, GUARANTEED, 64)));
    while !matches!(world.limits[..], [Job::Move { .. }, ..]) {
        assert!(world.run_slow(Lane::Limits), "it is never moved");
    }
    world.kernel.refuse_next(1);
    world.run_all();
    assert_eq!(world.kernel.groups[&group(OPPORTUNISTIC, id)].processes, 1);
    assert!(world.reports > 0);
    world.advance(Duration::from_secs(6));
    world.run_all();
    assert_eq!(world.kernel.groups[&group(OPPORTUNISTIC, id)].processes, 0);
    assert_eq!(world.kernel.groups[&group(GUARANTEED, id)].processes, 1);
}

#[test]
fn swap_allowed_too_late_for_a_thawed_container_is_taken_back() {
    let mut world = World::new();
    let id = container_id();
    world.launch(spec(id, OPPORTUNISTIC, 64));
    world.handle(Event::Pause(id));
    world.kernel.stop(id);
    world.advance(Duration::from_millis(1));
    world.handle(Event::Resume(id));
    // Only now.
    world.run_all();
    let file = &world.kernel.groups[&group(OPPORTUNISTIC, id)].limits;
    assert_eq!(file.swap_max, Some(Bound::At(0)));
    let frozen_memory =
        |effect: &IsolationEvent| matches!(effect, IsolationEvent::FrozenMemory { .. });
    assert!(!world.answers.iter().any(frozen_memory));
}

#[test]
fn memory_of_a_frozen_container_is_reclaimed_in_steps() {
    let mut world = World::new();
    let id = container_id();
    world.launch(spec(id, OPPORTUNISTIC, 400));
    world.kernel.charge(group(OPPORTUNISTIC, id), 200 * MIB);
    world.kernel.unreclaimable = 5 * MIB;
    world.handle(Event::Pause(id));
    world.kernel.stop(id);
    world.advance(Duration::from_millis(1));
    world.run_all();
    let held = world.answers.iter().find_map(|effect| {
        if let IsolationEvent::FrozenMemory { held_mb, .. } = effect {
            Some(*held_mb)
        } else {
            None
        }
    });
    assert_eq!(held, Some(5));
}

#[test]
fn a_cgroup_made_for_a_container_that_ends_meanwhile_is_removed() {
    let mut world = World::new();
    let id = container_id();
    world.launch(spec(id, OPPORTUNISTIC, 64));
    world.handle(Event::Changed(spec(id, GUARANTEED, 64)));
    world.handle(Event::Killing(id));
    world.run_all();
    assert!(!world.kernel.groups.contains_key(&group(GUARANTEED, id)));
    assert!(world.kernel.groups.contains_key(&group(OPPORTUNISTIC, id)));
}

#[test]
fn a_new_cgroup_is_corrected_if_size_or_capacity_has_changed_since_its_announcement() {
    let mut world = World::new();
    let announced = spec(container_id(), OPPORTUNISTIC, 64);
    world.handle(Event::Announced(announced));
    let changed = spec(announced.id, OPPORTUNISTIC, 128);
    world.handle(Event::Changed(changed));
    world.handle(Event::NodeResource(Resource::new(8192, 16)));
    let limits = world.kernel.launch(&rules(), &announced);
    world.handle(Event::Created(announced, limits));
    world.run_all();
    let file = world.kernel.groups[&group(OPPORTUNISTIC, announced.id)].limits;
    let mut rules = rules();
    rules.total = Resource::new(8192, 16);
    assert_eq!(file, rules.container(&changed));
}

/// Removes the swap limit, which a frozen container need not have.
fn without_swap(limits: Limits) -> Limits {
    Limits {
        swap_max: None,
        ..limits
    }
}
