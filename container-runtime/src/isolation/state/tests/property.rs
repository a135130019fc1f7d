//! Events of all kinds in any order, with refused and late writes, checked after each of them.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;
use crate::isolation::state::action::Scope;
use crate::isolation::state::container::{Change, other};

/// Containers that a run plays with.
const CONTAINERS: usize = 4;

#[derive(Clone, Copy, Debug)]
enum Step {
    Announce(usize, ExecutionType, u64),
    Create(usize),
    Started(usize),
    Change(usize, ExecutionType, u64),
    Pause(usize),
    Resume(usize),
    Stop(usize),
    OrderEnd(usize),
    Terminate(usize),
    Kill(usize),
    Finish(usize),
    Remove(usize),
    Fork(usize, usize),
    Use(usize, u64),
    Free(usize, u64),
    NodeResource(u64),
    RunLimits,
    RunReclaim,
    Refuse(usize),
    Advance(u64),
    Restart,
    Settle,
}

fn step() -> impl Strategy<Value = Step> {
    let id = || 0..CONTAINERS;
    let class = || prop_oneof![Just(GUARANTEED), Just(OPPORTUNISTIC)];
    let size = || 16_u64..3000;
    prop_oneof![
        4 => (id(), class(), size()).prop_map(|(id, class, mb)| Step::Announce(id, class, mb)),
        4 => id().prop_map(Step::Create),
        2 => id().prop_map(Step::Started),
        4 => (id(), class(), size()).prop_map(|(id, class, mb)| Step::Change(id, class, mb)),
        3 => id().prop_map(Step::Pause),
        3 => id().prop_map(Step::Resume),
        3 => id().prop_map(Step::Stop),
        1 => id().prop_map(Step::OrderEnd),
        1 => id().prop_map(Step::Terminate),
        1 => id().prop_map(Step::Kill),
        2 => id().prop_map(Step::Finish),
        2 => id().prop_map(Step::Remove),
        1 => (id(), 1_usize..6000).prop_map(|(id, more)| Step::Fork(id, more)),
        2 => (id(), size()).prop_map(|(id, mb)| Step::Use(id, mb)),
        2 => (id(), size()).prop_map(|(id, mb)| Step::Free(id, mb)),
        1 => (0_u64..10_000).prop_map(Step::NodeResource),
        8 => Just(Step::RunLimits),
        4 => Just(Step::RunReclaim),
        2 => (1_usize..3).prop_map(Step::Refuse),
        4 => (0_u64..2_000).prop_map(Step::Advance),
        1 => Just(Step::Restart),
        1 => Just(Step::Settle),
    ]
}

/// Progress of a container for its launcher and its watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Life {
    None,
    Announced,
    Created,
    Ending,
    Finished,
}

/// Container as the scheduler, the launcher and the watch see it.
#[derive(Clone, Copy, Debug)]
struct Played {
    life: Life,
    announced: ContainerSpec,
    spec: ContainerSpec,
    /// Time of a pause or resume that was not answered.
    asked: Option<Instant>,
    frozen: bool,
}

impl Played {
    fn new() -> Self {
        let spec = spec(container_id(), GUARANTEED, 1);
        Self {
            life: Life::None,
            announced: spec,
            spec,
            asked: None,
            frozen: false,
        }
    }
}

struct Run {
    world: World,
    total: Resource,
    played: Vec<Played>,
    /// Time of the last event that may boost.
    boost_ordered: Option<Instant>,
}

impl Run {
    fn new() -> Self {
        Self {
            world: World::new(),
            total: rules().total,
            played: (0..CONTAINERS).map(|_| Played::new()).collect(),
            boost_ordered: None,
        }
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::RunLimits => drop(self.world.run_slow(Lane::Limits)),
            Step::RunReclaim => drop(self.world.run_slow(Lane::Reclaim)),
            Step::Refuse(jobs) => self.world.kernel.refuse_next(jobs),
            Step::Advance(ms) => self.world.advance(Duration::from_millis(ms)),
            Step::NodeResource(mb) => {
                self.total = Resource::new(mb, self.total.vcores);
                self.world.handle(Event::NodeResource(self.total));
            }
            Step::Restart => *self = Self::new(),
            Step::Settle => self.settle(),
            Step::Announce(index, class, mb) => self.announce(index, class, mb),
            Step::Change(index, class, mb) => self.change(index, class, mb),
            Step::Fork(index, more) => self.fork(index, more),
            Step::Use(index, mb) => {
                if let Some(group) = self.groups(index).current {
                    self.world.kernel.charge(group, mb * MIB);
                }
            }
            Step::Free(index, mb) => {
                if let Some(group) = self.groups(index).former {
                    let held = self.world.kernel.groups[&group].charge;
                    self.world.kernel.charge(group, held.min(mb * MIB));
                }
            }
            Step::Create(index)
            | Step::Started(index)
            | Step::Pause(index)
            | Step::Resume(index)
            | Step::Stop(index)
            | Step::OrderEnd(index)
            | Step::Terminate(index)
            | Step::Kill(index)
            | Step::Finish(index)
            | Step::Remove(index) => self.live(step, index),
        }
        self.take_answers();
        self.check();
    }

    fn groups(&self, index: usize) -> super::super::Groups {
        self.world.state.groups(self.played[index].spec.id)
    }

    fn announce(&mut self, index: usize, class: ExecutionType, mb: u64) {
        let played = &mut self.played[index];
        if played.life == Life::None {
            played.life = Life::Announced;
            played.spec = spec(played.spec.id, class, mb);
            played.announced = played.spec;
            self.world.handle(Event::Announced(played.spec));
        }
    }

    fn change(&mut self, index: usize, class: ExecutionType, mb: u64) {
        let played = &mut self.played[index];
        if matches!(played.life, Life::Announced | Life::Created) {
            played.spec = spec(played.spec.id, class, mb);
            self.world.handle(Event::Changed(played.spec));
        }
    }

    fn fork(&mut self, index: usize, more: usize) {
        let groups = self.groups(index);
        if let Some(group) = groups.former.or(groups.current)
            && let Some(files) = self.world.kernel.groups.get_mut(&group)
            && files.processes > 0
        {
            files.processes += more;
        }
    }

    /// A step in the life of one container, if its life has come so far.
    fn live(&mut self, step: Step, index: usize) {
        let played = &mut self.played[index];
        let (id, life) = (played.spec.id, played.life);
        let now = self.world.now;
        let lives = matches!(life, Life::Created | Life::Ending);
        match (step, lives) {
            (Step::Create(_), _) if life == Life::Announced => {
                played.life = Life::Created;
                let limits = self.world.kernel.launch(&rules(), &played.announced);
                self.boost_ordered = Some(now);
                self.world.handle(Event::Created(played.announced, limits));
            }
            (Step::Started(_), true) => self.world.handle(Event::Started(id)),
            (Step::Pause(_), true) if played.asked.is_none() && !played.frozen => {
                played.asked = Some(now);
                played.frozen = life == Life::Created;
                self.boost_ordered = Some(now);
                self.world.handle(Event::Pause(id));
            }
            (Step::Resume(_), true) if played.asked.is_none() => {
                played.asked = Some(now);
                played.frozen = false;
                self.world.handle(Event::Resume(id));
            }
            (Step::Stop(_), _) if played.frozen => self.world.kernel.stop(id),
            (Step::OrderEnd(_), _) if life != Life::None => {
                self.boost_ordered = Some(now);
                self.world.handle(Event::EndOrdered(id));
            }
            (Step::Terminate(_), true) => {
                played.life = Life::Ending;
                played.frozen = false;
                self.boost_ordered = Some(now);
                self.world.handle(Event::Terminating(id));
            }
            (Step::Kill(_), true) => {
                played.life = Life::Ending;
                self.boost_ordered = Some(now);
                self.world.handle(Event::Killing(id));
            }
            (Step::Finish(_), _) if lives || life == Life::Announced => {
                played.life = Life::Finished;
                let groups = self.world.state.groups(id);
                self.world.handle(Event::Emptied(id));
                self.world.handle(Event::Finishing(id));
                for group in groups.all() {
                    self.world.kernel.groups.remove(&group);
                }
            }
            (Step::Remove(_), _) if life == Life::Finished => {
                self.world.handle(Event::Removed(id));
                self.take_answers();
                assert!(self.played[index].asked.is_none(), "never answered");
                self.played[index] = Played::new();
            }
            _ => {}
        }
    }

    fn take_answers(&mut self) {
        for effect in self.world.answers.drain(..) {
            let (id, failed) = if let IsolationEvent::PauseFailed(id) = effect {
                (id, true)
            } else if let IsolationEvent::Paused { id, .. } | IsolationEvent::Resumed(id) = effect {
                (id, false)
            } else {
                continue;
            };
            let mut played = self.played.iter_mut();
            if let Some(played) = played.find(|played| played.spec.id == id) {
                assert!(played.asked.take().is_some(), "answered twice");
                played.frozen &= !failed;
            }
        }
    }

    /// Checks what holds at any time.
    fn check(&self) {
        let Self { world, .. } = self;
        let (state, kernel) = (&world.state, &world.kernel);
        let counted = state.containers.values().map(|container| container.counted);
        let none = MemorySums::default();
        let sums = counted.fold(none, |sums, counted| sums.with(none, counted));
        assert_eq!(state.sums, sums);
        if kernel.is_certain(Scope::Opportunistic) {
            assert_eq!(world.is_boosted(), state.boost.is_on());
        }
        let late = Duration::from_millis(20);
        let since = self.boost_ordered.map(|at| world.now.duration_since(at));
        assert!(
            !state.boost.is_on()
                || since.is_some_and(|since| since <= PATIENCE.max(Duration::from_secs(1)) + late)
        );
        for played in &self.played {
            let waits = played.asked.map(|at| world.now.duration_since(at));
            assert!(
                waits.is_none_or(|waits| waits <= PATIENCE + late),
                "{played:?}"
            );
            let id = played.spec.id;
            let container = state.containers.get(&id);
            if played.life != Life::Created || kernel.refused.contains(&id) {
                continue;
            }
            // A former cgroup may be frozen while it is moved.
            let moves = container
                .is_some_and(|container| matches!(container.change, Change::Moving { .. }));
            let groups = state.groups(id);
            for group in groups
                .all()
                .filter(|group| !moves || groups.current == Some(*group))
            {
                assert_eq!(kernel.groups[&group].frozen, played.frozen, "{group:?}");
            }
        }
    }

    /// Lets all writes succeed, and checks that the kernel's files are as the state wants them.
    fn settle(&mut self) {
        self.world.kernel.refuse_next(0);
        self.world.run_all();
        for played in self.played.clone() {
            if played.life == Life::Created {
                self.world.handle(Event::Changed(played.spec));
                self.world.run_all();
            }
        }
        self.world.handle(Event::NodeResource(self.total));
        for _ in 0..3 {
            self.world.advance(Duration::from_secs(6));
            self.world.run_all();
        }
        self.take_answers();
        let mut sums = MemorySums::default();
        let mut groups = BTreeSet::new();
        for (id, container) in &self.world.state.containers {
            groups.extend(container.groups().all());
            let mut played = self.played.iter();
            let played = played.find(|played| played.spec.id == *id).unwrap();
            let share = if played.life == Life::Created {
                self.check_container(played)
            } else {
                container.counted
            };
            sums = sums.with(MemorySums::default(), share);
        }
        let kernel = &self.world.kernel;
        let there: BTreeSet<_> = kernel.groups.keys().copied().collect();
        assert_eq!(there, groups, "cgroups left behind");
        let rules = &self.world.state.rules;
        assert_eq!(kernel.root, rules.root(sums));
        assert_eq!(kernel.guaranteed, rules.guaranteed(sums));
        let opportunistic = Rules::opportunistic_cpu(false).written_over(rules.opportunistic(sums));
        assert_eq!(kernel.opportunistic, opportunistic);
    }

    /// Checks the files of a running container; returns its part of the sums.
    fn check_container(&self, played: &Played) -> MemorySums {
        let World { state, kernel, .. } = &self.world;
        let (id, class) = (played.spec.id, played.spec.execution_type);
        let files = &kernel.groups[&group(class, id)];
        assert_eq!(state.groups(id).current, Some(group(class, id)));
        let wanted = state.rules.container(&played.spec);
        assert_eq!(without_swap(files.limits), without_swap(wanted));
        assert!(played.frozen || files.limits.swap_max == wanted.swap_max);
        let former = kernel.groups.get(&group(other(class), id));
        let held = former.map_or(0, |former| former.charge);
        if let Some(former) = former {
            assert_eq!(former.processes, 0);
            let low = if class == GUARANTEED { held } else { 0 };
            assert_eq!(former.limits.memory_low, Some(low));
        }
        state.rules.share(&played.spec, class, held)
    }
}

proptest! {
    #[test]
    fn the_files_follow_the_containers_whatever_happens(
        steps in proptest::collection::vec(step(), 0..120)
    ) {
        let mut run = Run::new();
        for step in steps {
            run.step(step);
        }
        run.step(Step::Settle);
    }
}
