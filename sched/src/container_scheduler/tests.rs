//! Unit tests of the scheduler, by subject. Properties of arbitrary sequences of events are tested
//! in `tests/model`.

mod answers;
mod draining;
mod kills;
mod pausing;
mod queueing;
mod recovery;
mod retrying;
mod room;
mod settings;
mod updates;
mod waits;

use records::{
    ApplicationId, ContainerExitStatus, EpochMillis, ExecutionType, MonoMillis, Now, Resource,
};

use super::ContainerScheduler;
use crate::action::{Action, Completion, Note, Refusal};
use crate::config::ContainerSchedulerConfig;
use crate::container_spec::ContainerSpec;
use crate::container_state::ContainerState;
use crate::event::Event;
use crate::view::ContainerView;
use test_support::ids::container as id;

/// Configuration with a queue of ten and 250 ms from SIGTERM to SIGKILL.
const CONFIG: ContainerSchedulerConfig = ContainerSchedulerConfig {
    queue_policy: crate::OpportunisticContainersQueuePolicy::ByQueueLen,
    queue_length_max: 10,
    queue_order: crate::QueueOrder::Fifo,
    queue_bound_factor: crate::QUEUE_BOUND_FACTOR_DEFAULT,
    load_comparator: crate::LoadComparator::QueueLength,
    victims_order: crate::VictimsOrder::Newest,
    use_pause_for_preemption: false,
    pause_max_ms: 300_000,
    memory_ceiling_mb: 0,
    vmem_check: None,
    sigkill_delay_ms: 250,
    retry_minimum_interval_ms: 1_000,
    diagnostics_max_chars: 10_000,
    utc_offset_s: 0,
};

/// Test fixture: a scheduler, its clock and its last actions.
struct Node {
    scheduler: ContainerScheduler,
    now: Now,
}

fn spec(number: i64, execution_type: ExecutionType, memory_mb: u64, vcores: u32) -> ContainerSpec {
    ContainerSpec {
        id: id(number),
        resource: Resource::new(memory_mb, vcores),
        execution_type,
        version: 0,
    }
}

/// Returns a guaranteed container with one core.
fn guaranteed(number: i64, memory_mb: u64) -> ContainerSpec {
    spec(number, ExecutionType::Guaranteed, memory_mb, 1)
}

/// Returns an opportunistic container with one core.
fn opportunistic(number: i64, memory_mb: u64) -> ContainerSpec {
    spec(number, ExecutionType::Opportunistic, memory_mb, 1)
}

/// Returns the answer that a container is frozen and holds no memory.
fn paused(number: i64) -> Event {
    let held_mb = Some(0);
    Event::Paused {
        id: id(number),
        held_mb,
    }
}

impl Node {
    /// Creates a node with this memory and 100 cores.
    fn new(memory_mb: u64) -> Self {
        Self::with(CONFIG, memory_mb)
    }

    fn with(config: ContainerSchedulerConfig, memory_mb: u64) -> Self {
        let scheduler = ContainerScheduler::new(config, Resource::new(memory_mb, 100));
        Self {
            scheduler,
            now: Now {
                mono: MonoMillis(0),
                wall: EpochMillis(0),
            },
        }
    }

    fn try_feed(&mut self, event: Event) -> Result<Vec<Action>, Refusal> {
        let mut actions = Vec::new();
        let result = self.scheduler.handle(event, self.now, &mut actions);
        self.scheduler.assert_invariants();
        result.map(|()| actions)
    }

    fn feed(&mut self, event: Event) -> Vec<Action> {
        self.try_feed(event).unwrap()
    }

    /// Starts a container and reports it as localized.
    fn arrive(&mut self, spec: ContainerSpec) -> Vec<Action> {
        assert_eq!(self.feed(Event::Start(spec)), [Action::Localize(spec.id)]);
        self.feed(Event::Localized(spec.id))
    }

    /// Starts and launches a container that needs no wait.
    fn run(&mut self, spec: ContainerSpec) {
        let actions = self.arrive(spec);
        assert!(actions.contains(&Action::Launch(spec.id)), "{actions:?}");
        self.feed(Event::Launched(spec.id));
    }

    fn exit(&mut self, number: i64, status: i32) -> Vec<Action> {
        let status = ContainerExitStatus(status);
        self.feed(Event::Exited {
            id: id(number),
            status,
            diagnostics: String::new(),
        })
    }

    /// Cleans up a container that has ended, and returns its completion.
    fn completion(&mut self, number: i64) -> Completion {
        let actions = self.feed(Event::CleanedUp(id(number)));
        let completion = actions.into_iter().find_map(|action| {
            if let Action::Completed(completion) = action {
                Some(completion)
            } else {
                None
            }
        });
        completion.unwrap()
    }

    fn advance(&mut self, ms: u64) {
        self.now.mono = self.now.mono + ms;
        self.now.wall.0 += i64::try_from(ms).unwrap();
    }

    fn view(&self, number: i64) -> ContainerView {
        self.scheduler.container(&id(number)).unwrap()
    }

    fn state(&self, number: i64) -> ContainerState {
        self.view(number).state
    }

    fn waiting(&self) -> Vec<i64> {
        self.scheduler.queue().map(|queued| queued.id.id).collect()
    }
}

/// Returns the containers that are launched, in order.
fn launched(actions: &[Action]) -> Vec<i64> {
    let launched = |action: &Action| {
        if let Action::Launch(id) = action {
            Some(id.id)
        } else {
            None
        }
    };
    actions.iter().filter_map(launched).collect()
}

/// Returns the victims, in order.
fn evicted(actions: &[Action]) -> Vec<i64> {
    let evicted = |action: &Action| {
        if let Action::Note(Note::Evicted { id, .. }) = action {
            Some(id.id)
        } else {
            None
        }
    };
    actions.iter().filter_map(evicted).collect()
}
