//! Checks that estimated waits are unbiased: simulates a node with a queue and compares the
//! estimate of each queued container with its actual wait.

#![expect(clippy::unwrap_used, reason = "helpers of a test: they fail with it")]

use std::collections::BTreeMap;

use records::{ContainerExitStatus, ContainerId, ExecutionType, Now, Resource};
use sched::{
    Action, ContainerScheduler, ContainerSchedulerConfig, ContainerSpec, Draw, Event, Note,
    SplitMix64,
};
use test_support::ids::container_of;

/// Cores of the node. Memory is unlimited in effect.
const CORES: u32 = 10;

/// Distribution of an application's run times.
#[derive(Clone, Copy)]
enum Work {
    /// Uniform: a mean, and an equal spread above and below.
    Even { mean_ms: u64, spread_ms: u64 },
    /// Exponential: memoryless, the remaining time is distributed like the whole.
    Exponential { mean_ms: f64 },
    /// Mostly short, one in ten long.
    Mixed { short_ms: u64, long_ms: u64 },
}

impl Work {
    fn draw(self, random: &mut SplitMix64) -> u64 {
        match self {
            Self::Even { mean_ms, spread_ms } => {
                let bound = usize::try_from(2 * spread_ms + 1).unwrap();
                mean_ms - spread_ms + u64::try_from(random.below(bound)).unwrap()
            }
            Self::Exponential { mean_ms } => exponential(mean_ms, random),
            Self::Mixed { short_ms, long_ms } => {
                if random.below(10) == 0 {
                    long_ms
                } else {
                    short_ms
                }
            }
        }
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "times of a simulation, far below what the type holds"
)]
fn exponential(mean_ms: f64, random: &mut SplitMix64) -> u64 {
    const STEPS: u32 = 1 << 24;
    let step = u32::try_from(random.below(usize::try_from(STEPS).unwrap())).unwrap();
    let uniform = (f64::from(step) + 0.5) / f64::from(STEPS);
    (-uniform.ln() * mean_ms) as u64
}

/// A node, the ends of its running containers, and the estimates made.
struct Simulation {
    scheduler: ContainerScheduler,
    now: Now,
    random: SplitMix64,
    works: Vec<Work>,
    ends: BTreeMap<(u64, ContainerId), ()>,
    last: i64,
    /// Reported estimates and actual waits in milliseconds, of containers that had to wait.
    samples: Vec<(f64, f64)>,
}

impl Simulation {
    fn new(works: Vec<Work>, seed: u64) -> Self {
        let config = ContainerSchedulerConfig {
            queue_length_max: 1_000,
            ..ContainerSchedulerConfig::default()
        };
        Self {
            scheduler: ContainerScheduler::new(config, Resource::new(1 << 30, CORES)),
            now: Now::default(),
            random: SplitMix64::new(seed),
            works,
            ends: BTreeMap::new(),
            last: 0,
            samples: Vec::new(),
        }
    }

    fn feed(&mut self, event: Event) {
        let mut actions = Vec::new();
        self.scheduler
            .handle(event, self.now, &mut actions)
            .unwrap();
        for action in actions {
            match action {
                Action::Localize(id) => self.feed(Event::Localized(id)),
                Action::CleanUp(id) => self.feed(Event::CleanedUp(id)),
                Action::Launch(id) => {
                    let work = usize::try_from(id.application_id().id).unwrap();
                    let run_ms = self.works[work].draw(&mut self.random);
                    self.ends.insert((self.now.mono.0 + run_ms, id), ());
                    self.feed(Event::Launched(id));
                }
                Action::Completed(completion) => self.feed(Event::Forget(completion.id)),
                Action::Note(Note::Started {
                    queue_wait_ms,
                    reported_wait_ms: Some(estimated_ms),
                    ..
                }) => {
                    let ms = |ms: u64| f64::from(u32::try_from(ms).unwrap());
                    self.samples.push((ms(estimated_ms), ms(queue_wait_ms)));
                }
                Action::Note(_) => {}
                Action::Pause(_)
                | Action::Resume(_)
                | Action::Terminate(_)
                | Action::ForceKill(_)
                | Action::ApplyLimits(_)
                | Action::RollBack(_) => panic!("nobody is evicted here"),
            }
        }
    }

    /// Starts a container of a random application just after a heartbeat's estimate.
    fn arrive(&mut self) {
        self.last += 1;
        let application = i32::try_from(self.random.below(self.works.len())).unwrap();
        let vcores = 1 + u32::try_from(self.random.below(2)).unwrap();
        self.feed(Event::EstimateWaits);
        self.feed(Event::Start(ContainerSpec {
            id: container_of(application, self.last),
            resource: Resource::new(1, vcores),
            execution_type: ExecutionType::Opportunistic,
            version: 0,
        }));
    }

    /// Runs until `arrivals` containers have come, `gap_ms` apart on average, with at most
    /// `queue_max` waiting.
    fn run(&mut self, arrivals: usize, gap_ms: f64, queue_max: usize) {
        let mut next_arrival = 0;
        for _ in 0..arrivals {
            while let Some((&(end, id), ())) = self.ends.first_key_value() {
                let waiting = self.scheduler.queue_length(ExecutionType::Opportunistic);
                if end > next_arrival && waiting < queue_max {
                    break;
                }
                self.ends.pop_first();
                self.now.mono.0 = self.now.mono.0.max(end);
                self.feed(Event::Exited {
                    id,
                    status: ContainerExitStatus::SUCCESS,
                    diagnostics: String::new(),
                });
            }
            self.now.mono.0 = self.now.mono.0.max(next_arrival);
            self.arrive();
            next_arrival = self.now.mono.0 + exponential(gap_ms, &mut self.random);
        }
    }

    /// Returns the mean estimate and the mean wait, without the first containers, which have no
    /// history.
    fn means(&self) -> (f64, f64) {
        let counted = &self.samples[200..];
        let count = f64::from(u32::try_from(counted.len()).unwrap());
        let sum = counted.iter().fold((0.0, 0.0), |sum, (estimated, actual)| {
            (sum.0 + estimated, sum.1 + actual)
        });
        (sum.0 / count, sum.1 / count)
    }
}

/// Asserts that the mean estimate differs from the mean wait by at most `percent` of it.
fn assert_unbiased(works: &[Work], gap_ms: f64, queue_max: usize, percent: f64) {
    for seed in 1..=2 {
        let mut simulation = Simulation::new(works.to_vec(), seed);
        simulation.run(2_500, gap_ms, queue_max);
        let (estimated, actual) = simulation.means();
        println!("seed {seed}: estimated {estimated:.0} ms, waited {actual:.0} ms");
        assert!(actual > 100.0, "nobody had to wait");
        let error = (estimated - actual).abs() / actual * 100.0;
        assert!(error < percent, "wrong by {error:.1} %, seed {seed}");
    }
}

#[test]
fn even_run_times_are_estimated_without_bias() {
    let even = Work::Even {
        mean_ms: 10_000,
        spread_ms: 5_000,
    };
    assert_unbiased(&[even], 1_400.0, 30, 5.0);
}

#[test]
fn run_times_without_memory_are_estimated_without_bias() {
    let exponential = Work::Exponential { mean_ms: 10_000.0 };
    assert_unbiased(&[exponential], 1_400.0, 30, 8.0);
}

#[test]
fn a_short_queue_is_estimated_without_bias() {
    let exponential = Work::Exponential { mean_ms: 10_000.0 };
    assert_unbiased(&[exponential], 1_400.0, 2, 8.0);
}

#[test]
fn applications_of_different_kinds_are_estimated_without_bias() {
    let works = [
        Work::Even {
            mean_ms: 2_000,
            spread_ms: 1_000,
        },
        Work::Exponential { mean_ms: 10_000.0 },
        Work::Mixed {
            short_ms: 1_000,
            long_ms: 30_000,
        },
    ];
    assert_unbiased(&works, 750.0, 40, 8.0);
}
