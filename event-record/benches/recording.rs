//! Cost of recording to the scheduler's owner, for whole container lives.
//!
//! Unit: time per life, from `Start` to `Forget`, of a node whose eight places are busy and whose
//! queue holds 100. Rounds without and with a record alternate, and each has as many lives. What
//! the writer's thread does for a life, the lines without the disk, stands beside it.

use std::hint::black_box;
use std::time::{Duration, Instant};

use event_record::{Entry, RecordedScheduler};
use records::{
    ContainerExitStatus, ContainerId, EpochMillis, ExecutionType, MonoMillis, Now, Resource,
};
use sched::{Action, ContainerScheduler, ContainerSchedulerConfig, ContainerSpec, Event};
use test_support::ids::container;

const NODE: Resource = Resource::new(8 * 1024, 8);
const QUEUED: usize = 100;
const LIVES: i64 = 5_000;
const ROUNDS: usize = 41;

/// A node whose other parts answer at once.
struct Node {
    scheduler: RecordedScheduler,
    running: Vec<ContainerId>,
    waiting: usize,
    now_ms: u64,
    /// Time that the scheduler's owner takes.
    owner: Duration,
    /// Time that the lines take.
    lines: Duration,
    bytes: usize,
}

impl Node {
    fn feed(&mut self, event: Event) {
        let now = Now {
            mono: MonoMillis(self.now_ms),
            wall: EpochMillis(0),
        };
        let mut actions = Vec::new();
        let start = Instant::now();
        let handled = self.scheduler.handle(black_box(event), now, &mut actions);
        let entries = self.scheduler.take_entries();
        self.owner += start.elapsed();
        handled.expect("every event of the bench is legal");
        self.write(entries);
        for action in actions {
            self.answer(action);
        }
    }

    fn write(&mut self, entries: Vec<Entry>) {
        let start = Instant::now();
        for entry in entries {
            if let Entry::Step(step) = entry {
                self.bytes += black_box(step.line()).len();
            }
        }
        self.lines += start.elapsed();
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

/// Lives as many containers as a round has.
fn lives(is_recorded: bool) -> Node {
    let config = ContainerSchedulerConfig {
        queue_length_max: 2 * QUEUED,
        ..ContainerSchedulerConfig::default()
    };
    let scheduler = ContainerScheduler::new(config, NODE);
    let mut node = Node {
        scheduler: RecordedScheduler::new(scheduler, is_recorded),
        running: Vec::new(),
        waiting: 0,
        now_ms: 0,
        owner: Duration::ZERO,
        lines: Duration::ZERO,
        bytes: 0,
    };
    for id in 1..=LIVES {
        node.now_ms += 5;
        node.feed(Event::Start(ContainerSpec {
            id: container(id),
            resource: Resource::new(1_024, 1),
            execution_type: ExecutionType::Opportunistic,
            version: 0,
        }));
        while node.waiting > QUEUED {
            let id = node.running.remove(0);
            node.feed(Event::Exited {
                id,
                status: ContainerExitStatus::SUCCESS,
                diagnostics: String::new(),
            });
        }
    }
    node
}

fn median_us(mut durations: Vec<Duration>) -> f64 {
    durations.sort_unstable();
    let median = durations[durations.len() / 2];
    median.as_secs_f64() * 1e6 / f64::from(u32::try_from(LIVES).expect("a few"))
}

fn main() {
    let (mut without, mut with, mut lines) = (Vec::new(), Vec::new(), Vec::new());
    let mut ratios = Vec::new();
    let mut bytes = 0;
    for _ in 0..ROUNDS {
        let (plain, recorded) = (lives(false), lives(true));
        ratios.push(recorded.owner.as_secs_f64() / plain.owner.as_secs_f64());
        without.push(plain.owner);
        with.push(recorded.owner);
        lines.push(recorded.lines);
        bytes = recorded.bytes;
    }
    ratios.sort_by(f64::total_cmp);
    println!(
        "{ROUNDS} pairs of rounds of {LIVES} lives; medians per life:\n\
         not recorded {:.2} us, recorded {:.2} us, ratio {:.3} (quartiles {:.3} to {:.3})\n\
         lines: {:.2} us of the writer's thread, {} bytes",
        median_us(without),
        median_us(with),
        ratios[ROUNDS / 2],
        ratios[ROUNDS / 4],
        ratios[ROUNDS * 3 / 4],
        median_us(lines),
        bytes / usize::try_from(LIVES).expect("a few"),
    );
}
