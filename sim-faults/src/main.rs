//! Runs scenarios from seeds and reports the first violation of each.

#![expect(
    clippy::disallowed_methods,
    reason = "the program around the runs measures their real time"
)]

use std::io::{IsTerminal as _, Write as _};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use clap::Parser;
use sim::plot::svg;
use sim_faults::churn::churn;
use sim_faults::hunt::catch;
use sim_faults::planted::Planted;
use sim_faults::{Outcome, Scenario, Size, run};

/// Time between two lines of progress.
const PROGRESS: Duration = Duration::from_secs(1);

/// Simulates clusters with faults, one run for each seed, and checks what must hold.
///
/// Exits with 0 if no property was violated, with 1 otherwise. A violation is printed with the last
/// facts about its container or node, and with the command that repeats it.
#[derive(Parser)]
#[command(name = "sim-faults")]
struct Arguments {
    /// Number of seeds to run.
    #[arg(long, default_value_t = 100)]
    seeds: u64,
    /// First seed.
    #[arg(long, default_value_t = 1)]
    from: u64,
    /// Nodes of each cluster.
    #[arg(long, default_value_t = 100)]
    nodes: usize,
    /// Virtual minutes of each run.
    #[arg(long, default_value_t = 10)]
    minutes: u64,
    /// Runs at the same time; by default one for each processor.
    #[arg(long)]
    threads: Option<NonZeroUsize>,
    /// Plant faults on purpose, one at a time, and print after how many seeds the checker of each
    /// catches it, if at all.
    #[arg(long)]
    planted: bool,
    /// Run one seed with applications and faults to the end, and draw what the nodes hold meanwhile
    /// into this file, as SVG. Fails if something grows. Sensible are few nodes and 1,440 minutes.
    #[arg(long, value_name = "FILE")]
    churn: Option<PathBuf>,
    /// Go on after a violation.
    #[arg(long)]
    keep_going: bool,
}

/// Sums over all runs.
#[derive(Default)]
struct Totals {
    next: AtomicU64,
    runs: AtomicU64,
    violations: AtomicU64,
    events: AtomicU64,
    containers: AtomicU64,
    virtual_ms: AtomicU64,
    stop: AtomicBool,
}

impl Totals {
    fn add(&self, outcome: &Outcome) {
        self.runs.fetch_add(1, Ordering::Relaxed);
        self.events.fetch_add(outcome.events, Ordering::Relaxed);
        let containers = outcome.containers;
        self.containers.fetch_add(containers, Ordering::Relaxed);
        let virtual_ms = outcome.virtual_ms;
        self.virtual_ms.fetch_add(virtual_ms, Ordering::Relaxed);
    }
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if arguments.planted {
        return show_planted(&arguments);
    }
    if let Some(file) = &arguments.churn {
        return show_churn(&arguments, file);
    }
    let threads = arguments.threads.map(NonZeroUsize::get);
    let available = || thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let threads = threads.unwrap_or_else(available);
    let totals = Totals::default();
    let began = Instant::now();
    thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|_| scope.spawn(|| work(&arguments, &totals)))
            .collect();
        if std::io::stderr().is_terminal() {
            while workers.iter().any(|worker| !worker.is_finished()) {
                thread::sleep(PROGRESS);
                show_progress(&arguments, &totals, began);
            }
            eprintln!();
        }
    });
    let [runs, violations, events, containers, virtual_ms] = [
        &totals.runs,
        &totals.violations,
        &totals.events,
        &totals.containers,
        &totals.virtual_ms,
    ]
    .map(|total| total.load(Ordering::Relaxed));
    let seconds = began.elapsed().as_secs_f64();
    let (hours, nodes) = (virtual_ms / 3_600_000, arguments.nodes);
    println!(
        "{runs} seeds of {nodes} nodes, {hours} virtual hours, {containers} containers, {events} events \
         in {seconds:.1} s ({:.2} seeds/s): {violations} violations",
        per_second(runs, seconds)
    );
    if violations == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// Prints after how many seeds its checker catches each planted fault. Fails if one is not caught.
fn show_planted(arguments: &Arguments) -> ExitCode {
    let size = Size {
        nodes: arguments.nodes,
        seconds: arguments.minutes * 60,
    };
    let mut status = ExitCode::SUCCESS;
    println!("{:<24} {:<14} {:>5}", "planted fault", "caught by", "seeds");
    for planted in Planted::ALL {
        let name = format!("{planted:?}");
        let checker = planted.expected();
        match catch(planted, size, arguments.seeds) {
            Some(seeds) => println!("{name:<24} {checker:<14} {seeds:>5}"),
            None => {
                println!("{name:<24} {:<14} {:>5}", "nobody", arguments.seeds);
                status = ExitCode::FAILURE;
            }
        }
    }
    status
}

/// Draws what nodes hold in a long run. Fails if something grows, or is violated.
fn show_churn(arguments: &Arguments, file: &Path) -> ExitCode {
    let size = Size {
        nodes: arguments.nodes,
        seconds: arguments.minutes * 60,
    };
    let churn = churn(arguments.from, size);
    let (seed, outcome) = (arguments.from, &churn.outcome);
    if let Some(violation) = &outcome.violation {
        println!("seed {seed}: {violation}");
        return ExitCode::FAILURE;
    }
    println!(
        "seed {seed}: {} nodes, {} virtual minutes, {} containers",
        size.nodes, arguments.minutes, outcome.containers
    );
    for series in &churn.series {
        let (name, (second, last)) = (series.name, series.quarters());
        println!("{name:<38} second quarter {second:>9.1}, last quarter {last:>9.1}");
    }
    let title = format!(
        "Churn with faults: {} nodes, {} containers, seed {seed}",
        size.nodes, outcome.containers
    );
    let picture = svg(&title, "minutes", 1.0, &churn.series);
    if let Err(error) = std::fs::write(file, picture) {
        println!("cannot write {}: {error}", file.display());
        return ExitCode::FAILURE;
    }
    let growing = churn.growing();
    growing
        .iter()
        .for_each(|series| println!("grows: {}", series.name));
    if growing.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// Runs seeds until there are none left.
fn work(arguments: &Arguments, totals: &Totals) {
    let size = Size {
        nodes: arguments.nodes,
        seconds: arguments.minutes * 60,
    };
    while !totals.stop.load(Ordering::Relaxed) {
        let number = totals.next.fetch_add(1, Ordering::Relaxed);
        if number >= arguments.seeds {
            return;
        }
        let seed = arguments.from + number;
        let repeat = Repeat { seed, size };
        let outcome = run(&Scenario::of(seed, size));
        totals.add(&outcome);
        std::mem::forget(repeat);
        if let Some(violation) = outcome.violation {
            totals.violations.fetch_add(1, Ordering::Relaxed);
            println!(
                "seed {seed}: {violation}repeat it with: {}",
                command(seed, size)
            );
            if !arguments.keep_going {
                totals.stop.store(true, Ordering::Relaxed);
            }
        }
    }
}

/// Prints the command that repeats a run whose code under test has panicked.
struct Repeat {
    seed: u64,
    size: Size,
}

impl Drop for Repeat {
    fn drop(&mut self) {
        let Self { seed, size } = *self;
        println!(
            "seed {seed}: a panic; repeat it with: {}",
            command(seed, size)
        );
    }
}

fn command(seed: u64, size: Size) -> String {
    let Size { nodes, seconds } = size;
    let minutes = seconds / 60;
    format!(
        "cargo run --release -p sim-faults -- --seeds 1 --from {seed} --nodes {nodes} --minutes {minutes}"
    )
}

fn show_progress(arguments: &Arguments, totals: &Totals, began: Instant) {
    let runs = totals.runs.load(Ordering::Relaxed);
    let rate = per_second(runs, began.elapsed().as_secs_f64());
    let violations = totals.violations.load(Ordering::Relaxed);
    let seeds = arguments.seeds;
    eprint!("\r{runs} of {seeds} seeds, {rate:.2} a second, {violations} violations ");
    // Progress is not worth an error.
    let _shown = std::io::stderr().flush();
}

#[expect(clippy::cast_precision_loss, reason = "a figure for people")]
fn per_second(count: u64, seconds: f64) -> f64 {
    count as f64 / seconds.max(0.001)
}
