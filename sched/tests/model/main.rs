//! Random event sequences of a node against a toy model.
//!
//! Events are drawn, a simulated shell answers actions in random order, and after each event the
//! real scheduler must have made exactly the toy's decisions. The important properties are also
//! checked directly, so that a mistake made in both would still be found.

#![expect(
    clippy::unwrap_used,
    clippy::wildcard_enum_match_arm,
    reason = "helpers of a test: they fail with it, and name only the cases they mean"
)]

mod ops;
mod shell;
mod toy;

use proptest::prelude::*;
use records::{ContainerId, EpochMillis, ExecutionType, MonoMillis, Now, Resource};
use sched::{
    Action, ContainerQueuingLimit, ContainerRetryContext, ContainerScheduler,
    ContainerSchedulerConfig, ContainerSpec, Digest, Event, KillReason, Note, QueueOrder, RetryOn,
    RunProfile, RuntimeSettings,
};
use test_support::ids::{self, container_of};

use ops::{Draw, Op, config, op};
use shell::{Luck, Shell};
use toy::{Decision, Phase, Sum, Toy, ToyContainer};

/// Number of a container that does not exist.
const UNKNOWN: i64 = -1;

fn id(number: i64) -> ContainerId {
    let application = i32::try_from(number % 3).unwrap();
    container_of(application, number)
}

/// Returns the container that an answer is about; for other events an id that does not exist.
pub(crate) fn id_of(event: &Event) -> ContainerId {
    event.answering().unwrap_or_else(|| id(UNKNOWN))
}

/// Returns the exit status that belongs to a reason to kill.
pub(crate) fn status_of(reason: KillReason) -> i32 {
    match reason {
        KillReason::ApplicationMaster => -105,
        KillReason::ResourceManager => -106,
        KillReason::ExceededVmem => -103,
        KillReason::ExceededPmem => -104,
        KillReason::ApplicationFinished
        | KillReason::ApplicationNotRunning
        | KillReason::Shutdown => -107,
    }
}

/// Node, toy, shell and the log of all events and actions.
struct World {
    config: ContainerSchedulerConfig,
    scheduler: ContainerScheduler,
    toy: Toy,
    shell: Shell,
    now: Now,
    luck: Luck,
    /// Every accepted container, by its number.
    accepted: Vec<ContainerId>,
    log: Vec<(Event, Now, Vec<Action>)>,
    forces: bool,
    /// Whether guaranteed containers may exceed the node: it shrank, or a running one grew.
    excused: bool,
}

impl World {
    fn new(config: ContainerSchedulerConfig, node: Resource) -> Self {
        Self {
            config,
            scheduler: ContainerScheduler::new(config, node),
            toy: Toy::new(config, node),
            shell: Shell::default(),
            now: Now {
                mono: MonoMillis(0),
                wall: EpochMillis(0),
            },
            luck: Luck::Good,
            accepted: Vec::new(),
            log: Vec::new(),
            forces: config.forces_guaranteed(),
            excused: false,
        }
    }

    fn happen(&mut self, op: Op) {
        self.luck = Luck::Good;
        match op {
            Op::Start(draw) => {
                let number = i64::try_from(self.accepted.len()).unwrap();
                self.feed(Event::Start(spec_of(number, draw)));
            }
            Op::RetryPolicy { which, retries } => {
                let id = self.pick(which);
                let policy = policy_of(retries);
                self.feed(Event::RetryPolicy { id, policy });
            }
            Op::RunProfile {
                which,
                user,
                command,
                hint_ms,
            } => self.learn(self.pick(which), (user, command), hint_ms),
            Op::Restart { which } => self.feed(Event::Restart(self.pick(which))),
            Op::StartAgain { which } => {
                if let Some(container) = self.toy.get(self.pick(which)) {
                    self.feed(Event::Start(container.spec));
                }
            }
            Op::Answer { which, luck } => {
                self.luck = luck;
                if let Some(event) = self.shell.take_answer(which) {
                    self.feed(event);
                }
            }
            Op::Exit { which, status } => {
                if let Some(id) = self.shell.alive(which) {
                    self.shell.exit(id, status);
                }
            }
            Op::Kill { which, reason } => {
                let id = self.pick(which);
                self.feed(Event::Kill { id, reason });
            }
            Op::KillApplication {
                application,
                reason,
            } => {
                let id = ids::application(application);
                self.feed(Event::KillApplication { id, reason });
            }
            Op::Update { which, size, newer } => self.update(self.pick(which), size, newer),
            Op::NodeResource { memory_mb, vcores } => {
                self.excused = true;
                self.feed(Event::NodeResource(Resource::new(memory_mb, vcores)));
            }
            Op::QueuingLimit(max_queue_length, max_queue_wait_time_ms) => {
                self.limit_twice(ContainerQueuingLimit {
                    max_queue_length,
                    max_queue_wait_time_ms,
                });
            }
            Op::Order(order, factor) => self.set_order(order, factor),
            Op::EstimateWaits => self.feed(Event::EstimateWaits),
            Op::Forget { which } => self.feed(Event::Forget(self.pick(which))),
            Op::Annotate { which } => self.annotate(self.pick(which)),
            Op::Advance { ms } => self.advance(ms),
            Op::FrozenMemory { which, held_mb } => {
                let id = self.pick(which);
                self.feed(Event::FrozenMemory { id, held_mb });
            }
            Op::Stray { which, kind } => self.stray(self.pick(which), kind),
        }
    }

    fn annotate(&mut self, id: ContainerId) {
        let diagnostics = "signalled".to_owned();
        self.feed(Event::Annotate { id, diagnostics });
    }

    fn advance(&mut self, ms: u64) {
        self.now.mono = self.now.mono + ms;
        self.now.wall.0 += i64::try_from(ms).unwrap();
        self.feed(Event::Tick);
    }

    fn learn(&mut self, id: ContainerId, (user, command): (u32, u32), hint_ms: Option<u64>) {
        let profile = RunProfile {
            user: Digest([user, 0, 0, 0]),
            command: Digest([0, command, 0, 0]),
            hint_ms,
        };
        self.feed(Event::RunProfile { id, profile });
    }

    /// Applies a limit twice: after the first time the remaining containers are within it.
    fn limit_twice(&mut self, limit: ContainerQueuingLimit) {
        self.feed(Event::QueuingLimit(limit));
        self.feed(Event::QueuingLimit(limit));
        let (_, _, again) = self.log.last().unwrap();
        let shed = |action: &Action| matches!(action, Action::Note(Note::Shed { .. }));
        assert!(!again.iter().any(shed), "{again:?}");
    }

    /// Changes the order, as `reload` does: what waits is sorted by it at once, and what has not
    /// started neither ends nor starts for it, unless it fits.
    fn set_order(&mut self, order: QueueOrder, factor: u32) {
        self.feed(Event::Settings(RuntimeSettings {
            queue_order: order,
            queue_bound_factor: factor,
            ..self.config.runtime_settings()
        }));
    }

    /// Picks one of the known containers, or sometimes an unknown id.
    fn pick(&self, which: usize) -> ContainerId {
        let known = &self.toy.containers;
        known
            .get(which % (known.len() + 1))
            .map_or(id(UNKNOWN), |container| container.spec.id)
    }

    /// Applies a new size, or a change of type alone.
    fn update(&mut self, id: ContainerId, draw: Option<Draw>, newer: i32) {
        let Some(ToyContainer { spec: old, .. }) = self.toy.get(id) else {
            return;
        };
        let toggled = match old.execution_type {
            ExecutionType::Guaranteed => ExecutionType::Opportunistic,
            ExecutionType::Opportunistic => ExecutionType::Guaranteed,
        };
        let same_size = ContainerSpec {
            execution_type: toggled,
            ..*old
        };
        let spec = draw.map_or(same_size, |draw| spec_of(id.id, draw));
        self.feed(Event::Update(ContainerSpec {
            version: old.version + newer,
            ..spec
        }));
    }

    /// Sends an answer without an open action, if the scheduler can detect it.
    fn stray(&mut self, id: ContainerId, kind: usize) {
        let Some(&ToyContainer { phase, .. }) = self.toy.get(id) else {
            return;
        };
        let event = match (kind, phase) {
            (0, Phase::Running { .. }) => Event::Localized(id),
            (1, Phase::Localizing | Phase::Waiting { .. }) => Event::Launched(id),
            (2, Phase::Localizing) => Event::Paused { id, held_mb: None },
            (3, Phase::Running { .. }) => Event::Resumed(id),
            (4, Phase::Running { .. } | Phase::Launching { .. }) => Event::CleanedUp(id),
            (5, Phase::Running { .. } | Phase::Waiting { .. }) => Event::PauseFailed(id),
            (6, Phase::Localizing | Phase::Relaunching { .. } | Phase::Done) => Event::Exited {
                id,
                status: records::ContainerExitStatus::SUCCESS,
                diagnostics: String::new(),
            },
            (7, Phase::Ended | Phase::Done) => Event::Localized(id),
            (8, Phase::Killing { .. } | Phase::Gone { .. } | Phase::Ended | Phase::Done) => {
                Event::Paused { id, held_mb: None }
            }
            (9, Phase::Localizing | Phase::Gone { .. } | Phase::Ended) => Event::ProcessesGone(id),
            _ => return,
        };
        self.feed(event);
    }

    fn feed(&mut self, event: Event) {
        let before = self.toy.clone();
        let mut actions = Vec::new();
        let taken = self.scheduler.handle(event.clone(), self.now, &mut actions);
        let expected = self.toy.handle(&event, self.now.mono.0);
        let decided: Vec<Decision> = actions.iter().filter_map(Decision::of).collect();
        match (&taken, &expected) {
            (Ok(()), Ok(expected)) => assert_eq!(&decided, expected, "after {event:?}"),
            (Err(_), Err(_)) => assert_eq!(decided, [], "refused {event:?} yet acted"),
            _ => panic!("{event:?}: the scheduler says {taken:?}, the toy {expected:?}"),
        }
        if let (Event::Start(spec), Ok(())) = (&event, &taken) {
            self.accepted.push(spec.id);
        }
        if let (Event::Update(_), Ok(())) = (&event, &taken) {
            self.excused = true;
        }
        self.check(&before, &actions);
        for action in &actions {
            self.shell.perform(action, self.luck);
        }
        self.log.push((event, self.now, actions));
    }

    fn check(&mut self, before: &Toy, actions: &[Action]) {
        self.scheduler.assert_invariants();
        self.check_frozen_memory();
        self.check_pauses_end();
        self.check_no_overcommit();
        self.check_order_of_starts(before, actions);
        self.check_victims(actions);
        self.check_views();
    }

    /// Checks that guaranteed containers exceed the node only if they were forced on it, it changed
    /// under them, or a single one that is larger has it to itself.
    fn check_no_overcommit(&mut self) {
        if self.toy.sum(ToyContainer::holds_room).fits(self.toy.node) {
            self.excused = false;
        }
        let large =
            |c: &ToyContainer| c.holds_room() && !Sum::of(c.spec.resource).fits(self.toy.node);
        assert!(
            self.forces
                || self.toy.sum(large) == self.toy.sum(ToyContainer::holds_room)
                || self.excused
                || self.toy.sum(ToyContainer::holds_room).fits(self.toy.node),
            "the node is overcommitted"
        );
    }

    /// Checks that frozen memory keeps no guaranteed container waiting, and that running and frozen
    /// containers stay below the ceiling as long as a frozen one can be killed for it.
    fn check_frozen_memory(&self) {
        let running = self.toy.sum(ToyContainer::holds_room);
        if let Some(head) = self.toy.queue(ExecutionType::Guaranteed).first() {
            let asked = Sum::of(head.spec.resource);
            assert!(
                !running.plus(asked).fits(self.toy.node),
                "{} waits beside room that at most frozen ones hold",
                head.spec.id
            );
        }
        let frozen: Vec<_> = self
            .toy
            .queue(ExecutionType::Opportunistic)
            .into_iter()
            .filter_map(|container| container.frozen_mb())
            .collect();
        assert!(
            self.toy.frozen_excess() <= 0 || frozen.iter().all(|mb| *mb == 0),
            "{frozen:?} stay frozen in memory that is needed"
        );
    }

    /// Checks that the pause of every frozen opportunistic container has an end.
    fn check_pauses_end(&self) {
        let frozen = self.toy.queue(ExecutionType::Opportunistic);
        for container in frozen.iter().filter(|c| c.frozen_mb().is_some()) {
            let view = self.scheduler.container(&container.spec.id).unwrap();
            let latest = view.since + self.toy.pause_max_ms();
            let deadline = self.scheduler.next_deadline();
            assert!(
                deadline.is_some_and(|deadline| deadline <= latest),
                "{} may stay frozen",
                container.spec.id
            );
        }
    }

    /// Checks that containers that waited before are started in the order of arrival, where that is
    /// the order in force. Opportunistic ones may pass a frozen one.
    fn check_order_of_starts(&self, before: &Toy, actions: &[Action]) {
        if !before.is_fifo() || !self.toy.is_fifo() {
            return;
        }
        for kind in [ExecutionType::Guaranteed, ExecutionType::Opportunistic] {
            let started: Vec<ContainerId> = actions
                .iter()
                .filter_map(|action| match action {
                    Action::Launch(id) | Action::Resume(id) => Some(*id),
                    _ => None,
                })
                .collect();
            let still: Vec<ContainerId> = self
                .toy
                .queue(kind)
                .iter()
                .map(|container| container.spec.id)
                .collect();
            let queue = before.queue(kind);
            let Some(first_left) = queue.iter().position(|container| {
                let may_be_passed =
                    kind == ExecutionType::Opportunistic && container.frozen_mb().is_some();
                still.contains(&container.spec.id) && !may_be_passed
            }) else {
                continue;
            };
            for overtaker in queue[first_left..]
                .iter()
                .map(|container| container.spec.id)
            {
                let promoted = before.get(overtaker).map(|c| c.spec.execution_type)
                    != self.toy.get(overtaker).map(|c| c.spec.execution_type);
                let left = queue[first_left].spec.id;
                assert!(
                    !started.contains(&overtaker) || promoted,
                    "{overtaker} overtook {left}"
                );
            }
        }
    }

    /// Checks that victims are opportunistic and evicted for a guaranteed container that waits or
    /// grew.
    fn check_victims(&self, actions: &[Action]) {
        for action in actions {
            if let Action::Note(Note::Evicted {
                id, for_container, ..
            }) = action
            {
                let claimant = self.toy.get(*for_container).unwrap();
                assert_eq!(claimant.spec.execution_type, ExecutionType::Guaranteed);
                assert!(claimant.place().is_some() || claimant.holds_room());
                let victim = self.toy.get(*id).unwrap();
                assert_eq!(victim.spec.execution_type, ExecutionType::Opportunistic);
            }
        }
    }

    /// Checks the public views against a recount.
    fn check_views(&self) {
        let mut status = self.scheduler.opportunistic_status();
        status.estimated_queue_wait_ms = None;
        assert_eq!(status, self.toy.status());
        let allocated = Sum::of(self.scheduler.allocated());
        assert_eq!(allocated, self.toy.sum(ToyContainer::holds_room));
        assert_eq!(self.scheduler.len(), self.toy.containers.len());
        for container in &self.toy.containers {
            let view = self.scheduler.container(&container.spec.id).unwrap();
            assert_eq!(
                (view.spec, view.exit_status),
                (container.spec, container.status)
            );
        }
        let queue: Vec<_> = self.scheduler.queue().map(|queued| queued.id).collect();
        let expected: Vec<_> = [ExecutionType::Guaranteed, ExecutionType::Opportunistic]
            .into_iter()
            .flat_map(|kind| self.toy.queue(kind))
            .map(|container| container.spec.id)
            .collect();
        assert_eq!(queue, expected);
    }

    /// Ends everything, and checks that every accepted container has completed.
    fn drain(&mut self) {
        self.luck = Luck::Good;
        for application in 0..3 {
            let reason = KillReason::Shutdown;
            self.happen(Op::KillApplication {
                application,
                reason,
            });
        }
        loop {
            while let Some(event) = self.shell.take_answer(0) {
                self.feed(event);
            }
            let Some(deadline) = self.scheduler.next_deadline() else {
                break;
            };
            let ms = deadline.since(self.now.mono);
            self.happen(Op::Advance { ms });
        }
        for id in &self.accepted {
            assert!(self.shell.completion(*id).is_some(), "{id} never completed");
        }
        assert_eq!(self.scheduler.allocated(), Resource::default());
        assert_eq!(self.scheduler.queue().count(), 0);
    }

    /// Checks that the same events give the same actions.
    fn replay(&self, config: ContainerSchedulerConfig, node: Resource) {
        let mut scheduler = ContainerScheduler::new(config, node);
        for (event, now, expected) in &self.log {
            let mut actions = Vec::new();
            let _refused = scheduler.handle(event.clone(), *now, &mut actions);
            assert_eq!(&actions, expected, "on replay of {event:?}");
        }
    }
}

fn policy_of(retries: u32) -> ContainerRetryContext {
    ContainerRetryContext {
        on: RetryOn::AllErrors,
        max_retries: Some(retries),
        ..ContainerRetryContext::default()
    }
}

fn spec_of(number: i64, draw: Draw) -> ContainerSpec {
    ContainerSpec {
        id: id(number),
        resource: Resource::new(draw.memory_mb, draw.vcores),
        execution_type: draw.execution_type,
        version: 0,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, max_shrink_iters: 20_000, ..ProptestConfig::default() })]

    #[test]
    fn the_scheduler_decides_as_the_toy_and_every_container_ends_once(
        config in config(),
        ops in prop::collection::vec(op(), 0..400),
    ) {
        let node = Resource::new(100, 8);
        let mut world = World::new(config, node);
        for op in ops {
            world.happen(op);
        }
        world.drain();
        world.replay(config, node);
    }
}
