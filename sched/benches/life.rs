//! Cost of whole container lives to the scheduler, on a node that is busy with containers of many
//! sizes and applications.
//!
//! Unit: time per life, from `Start` to `Forget`, with all decisions that the life causes for
//! others. One container in five is guaranteed and may evict. Sizes are 256 MiB to 8 GiB and 1 to 8
//! virtual cores, of 50 applications. The node runs some sixty containers, and its queue holds 100,
//! 1,000 or nearly 10,000. An agent that starts 1,000 containers a second has a millisecond for
//! each, most of it for processes, so a life must stay below 50 µs.

use std::hint::black_box;
use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use records::{
    ContainerExitStatus, ContainerId, EpochMillis, ExecutionType, MonoMillis, Now, Resource,
};
use sched::{
    Action, ContainerScheduler, ContainerSchedulerConfig, ContainerSpec, Draw as _, Event,
    QUEUE_LENGTH_MAX, SplitMix64,
};
use test_support::ids::container_of;

/// Number of applications that containers belong to.
const APPLICATIONS: usize = 50;

/// Resources of the node: some sixty containers of the mean size.
const NODE: Resource = Resource::new(160 * 1024, 256);

/// Milliseconds between two arrivals.
const ARRIVAL_MS: u64 = 5;

/// Lengths of the queue. The longest leaves capacity for arrivals.
const QUEUED: [usize; 3] = [100, 1_000, QUEUE_LENGTH_MAX - 100];

/// A node whose other parts answer at once.
struct Node {
    scheduler: ContainerScheduler,
    random: SplitMix64,
    running: Vec<ContainerId>,
    /// Number of localized containers that were not launched.
    waiting: usize,
    last_number: i64,
    now_ms: u64,
    spent: Duration,
}

impl Node {
    /// Creates a full node whose queue holds `queued` containers.
    fn busy(queued: usize) -> Self {
        let config = ContainerSchedulerConfig {
            queue_length_max: QUEUE_LENGTH_MAX,
            ..ContainerSchedulerConfig::default()
        };
        let mut node = Self {
            scheduler: ContainerScheduler::new(config, NODE),
            random: SplitMix64::new(1),
            running: Vec::new(),
            waiting: 0,
            last_number: 0,
            now_ms: 0,
            spent: Duration::ZERO,
        };
        while node.waiting < queued {
            node.arrive();
        }
        node.spent = Duration::ZERO;
        node
    }

    /// Starts a container of any size, type and application.
    fn arrive(&mut self) {
        self.now_ms += ARRIVAL_MS;
        self.last_number += 1;
        let application = i32::try_from(self.random.below(APPLICATIONS)).unwrap_or(0);
        let memory_mb = 256 << self.random.below(6);
        let vcores = 1 + u32::try_from(self.random.below(8)).unwrap_or(0);
        let execution_type = if self.random.below(5) == 0 {
            ExecutionType::Guaranteed
        } else {
            ExecutionType::Opportunistic
        };
        self.feed(Event::Start(ContainerSpec {
            id: container_of(application, self.last_number),
            resource: Resource::new(memory_mb, vcores),
            execution_type,
            version: 0,
        }));
    }

    /// Ends one of the running containers.
    fn end_any(&mut self) {
        let at = self.random.below(self.running.len());
        let id = self.running[at];
        self.exited(id, ContainerExitStatus::SUCCESS);
    }

    fn exited(&mut self, id: ContainerId, status: ContainerExitStatus) {
        self.running.retain(|running| *running != id);
        self.feed(Event::Exited {
            id,
            status,
            diagnostics: String::new(),
        });
    }

    /// Feeds an event and answers its actions.
    #[expect(clippy::disallowed_methods, reason = "a benchmark measures time")]
    fn feed(&mut self, event: Event) {
        let now = Now {
            mono: MonoMillis(self.now_ms),
            wall: EpochMillis(0),
        };
        let mut actions = Vec::new();
        let start = Instant::now();
        let handled = self.scheduler.handle(black_box(event), now, &mut actions);
        self.spent += start.elapsed();
        handled.expect("every event of the bench is legal");
        for action in actions {
            self.answer(action);
        }
    }

    fn answer(&mut self, action: Action) {
        match action {
            Action::Localize(id) => {
                self.waiting += 1;
                self.feed(Event::Localized(id));
            }
            Action::Launch(id) => {
                self.waiting -= 1;
                self.running.push(id);
                self.feed(Event::Launched(id));
            }
            // The second of the two finds nothing.
            Action::Terminate(id) | Action::ForceKill(id) if self.running.contains(&id) => {
                self.exited(id, ContainerExitStatus::TERMINATED);
            }
            Action::CleanUp(id) => self.feed(Event::CleanedUp(id)),
            Action::Completed(completion) => self.feed(Event::Forget(completion.id)),
            Action::Terminate(_)
            | Action::ForceKill(_)
            | Action::Pause(_)
            | Action::Resume(_)
            | Action::ApplyLimits(_)
            | Action::RollBack(_)
            | Action::Note(_) => {}
        }
    }
}

/// Measures lives in a steady state: as many end as arrive.
fn lives(queued: usize, iterations: u64) -> Duration {
    let mut node = Node::busy(queued);
    for _ in 0..iterations {
        node.arrive();
        while node.waiting > queued {
            node.end_any();
        }
    }
    node.spent
}

fn whole_lives(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("life, mixed sizes and applications");
    for queued in QUEUED {
        group.bench_function(BenchmarkId::new("queued", queued), |bencher| {
            bencher.iter_custom(|iterations| lives(queued, iterations));
        });
    }
    group.finish();
}

criterion_group!(benches, whole_lives);
criterion_main!(benches);
