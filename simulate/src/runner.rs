//! All runs of a scenario: every arm with every seed, on some threads.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;

use sim::Streams;

use crate::agents::Agents;
use crate::arm::placer;
use crate::bound;
use crate::job::Job;
use crate::measure::{Outcome, Window, measured};
use crate::scenario::{Arm, Level, Policy, Scenario};
use crate::summary::RunFigures;
use crate::world::{Decisions, World};

/// Runs that have ended, of all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Runs that have ended.
    pub done: usize,
    /// Runs of the scenario.
    pub all: usize,
}

/// Figures of every run that has ended.
#[derive(Clone, Debug, PartialEq)]
pub struct Results {
    /// Figures of each run, first by arm, then by seed; `None`: not run.
    pub runs: Vec<Vec<Option<RunFigures>>>,
}

impl Results {
    /// Returns whether every run has ended.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.runs.iter().flatten().all(Option::is_some)
    }
}

/// Runs a scenario on so many threads. `observe` is called after each run; when `stop` is set, no
/// further run begins, and the results have what has ended.
///
/// The results are the same for any number of threads.
pub fn run(
    scenario: &Scenario,
    threads: usize,
    stop: &AtomicBool,
    observe: &mut dyn FnMut(Progress),
) -> Results {
    let seeds: Vec<u64> = scenario.seeds().collect();
    let arms = &scenario.arms;
    // Seeds outermost: what an interrupted scenario has is whole comparisons.
    let tasks: Vec<(usize, usize)> = (0..seeds.len())
        .flat_map(|seed| (0..arms.len()).map(move |arm| (arm, seed)))
        .collect();
    let next = AtomicUsize::new(0);
    let mut runs = vec![vec![None; seeds.len()]; arms.len()];
    thread::scope(|scope| {
        let (sender, figures) = mpsc::channel();
        for _ in 0..threads.clamp(1, tasks.len().max(1)) {
            let (sender, tasks, seeds, next) = (sender.clone(), &tasks, &seeds, &next);
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed)
                    && let Some((arm, seed)) = tasks.get(next.fetch_add(1, Ordering::Relaxed))
                {
                    let of_run = run_one(scenario, &arms[*arm], seeds[*seed]);
                    if sender.send((*arm, *seed, of_run)).is_err() {
                        return;
                    }
                }
            });
        }
        drop(sender);
        for (done, (arm, seed, of_run)) in (1..).zip(figures) {
            runs[arm][seed] = Some(of_run);
            let all = tasks.len();
            observe(Progress { done, all });
        }
    });
    Results { runs }
}

/// Runs one arm with one seed.
fn run_one(scenario: &Scenario, arm: &Arm, seed: u64) -> RunFigures {
    let streams = Streams::new(seed);
    let jobs = scenario.workload.jobs(streams, scenario.cluster.capacity());
    let outcome = outcome(scenario, arm, &jobs, streams);
    let run = scenario.run;
    let range = measured(jobs.len(), run.warm_up_percent, run.tail_percent);
    RunFigures::new(seed, scenario, &outcome, range)
}

/// Runs one arm on these jobs.
pub(crate) fn outcome(scenario: &Scenario, arm: &Arm, jobs: &[Job], streams: Streams) -> Outcome {
    let run = scenario.run;
    let range = measured(jobs.len(), run.warm_up_percent, run.tail_percent);
    let arrival = |number: usize| jobs.get(number).map_or(0, |job| job.arrives_ms);
    let window = Window {
        from_ms: arrival(range.start),
        to_ms: arrival(range.end.saturating_sub(1)),
    };
    match placer(scenario, arm, jobs, streams) {
        Some(placer) => match run.level {
            Level::Decisions => {
                let level = Decisions::new(scenario, arm, placer, jobs);
                World::new(scenario, arm, level, jobs, window, streams).run()
            }
            Level::Agents => {
                let level = Agents::new(scenario, arm, streams);
                World::new(scenario, arm, level, jobs, window, streams).run()
            }
        },
        None => bound::run(jobs, order_of(arm.policy), &scenario.cluster, window),
    }
}

const fn order_of(policy: Policy) -> bound::Order {
    match policy {
        Policy::OmniscientShortest => bound::Order::ShortestRemaining,
        Policy::OmniscientFifo
        | Policy::Spread
        | Policy::ListOrder
        | Policy::Central
        | Policy::HadoopCentral
        | Policy::HadoopDistributed
        | Policy::Random
        | Policy::Looks
        | Policy::Look
        | Policy::Reservations
        | Policy::SparrowEarly
        | Policy::SparrowLate
        | Policy::GuaranteedFifo
        | Policy::GuaranteedFair
        | Policy::GuaranteedShortest => bound::Order::Fifo,
    }
}
