//! `nm-agent simulate`.

mod capture;
mod configured;
mod recorded;
mod replay;
mod trace;

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, IsTerminal as _, Write as _};
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use anyhow::Context as _;
use clap::Args;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use program::signals::{Interruption, Signals};
use simulate::builtin::{BUILTIN, find};
use simulate::page::page;
use simulate::runner::{self, Results};
use simulate::scenario::Scenario;
use simulate::summary::summaries;
use simulate::table::{headline, jobs_csv, runs_csv, table};
use simulate::workload::JobKind;
use tokio::sync::watch;

use super::{ConfDir, EXIT_BAD_CONFIGURATION, print_error};

/// Longest scenario, in bytes.
const SCENARIO_BYTES_MAX: u64 = 1 << 20;

/// Template of the bar: time so far, bar, runs, time left.
const TEMPLATE: &str = "[{elapsed}] [{bar:30}] {pos} of {len} runs, {eta} left";

#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// File of the scenario, or the name of one that comes with the program
    #[arg(value_name = "SCENARIO", required_unless_present_any = ["list", "replay", "capture"])]
    scenario: Option<String>,
    /// Print the scenarios that come with the program, and end
    #[arg(long)]
    list: bool,
    /// Print what would be simulated, and end
    #[arg(long)]
    check: bool,
    /// Folder for the results; it is created if it is missing
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Simulate the settings of this Hadoop configuration as well
    #[arg(long, value_name = "DIR")]
    conf: Option<PathBuf>,
    /// Take the jobs from this trace in place of the scenario's; `-`: from standard input
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Format of the trace: csv, sls, rumen, synth, dynoyarn, tr, swim or alibaba [default: by
    /// the end of the file's name]
    #[arg(long, value_name = "FORMAT")]
    format: Option<String>,
    /// Write the jobs of the first seed as a trace in CSV, and end; `-`: to standard output
    #[arg(long, value_name = "FILE")]
    write_trace: Option<PathBuf>,
    /// Play the records of a node's scheduler in this directory again
    /// (`yarn.nodemanager.agent.event-record.dir`), as they are and with other settings, and end
    #[arg(long, value_name = "DIR", conflicts_with = "scenario")]
    replay: Option<PathBuf>,
    #[command(flatten)]
    other: replay::Other,
    /// Write the jobs that the records in this directory tell, or those in folders of it, one for
    /// each node, as a trace without names (`--write-trace`), and end
    #[arg(long, value_name = "DIR", conflicts_with_all = ["scenario", "replay"],
          requires = "write_trace")]
    capture: Option<PathBuf>,
    /// Take the times of submission from this answer of the ResourceManager to
    /// `/ws/v1/cluster/apps`; `-`: from standard input
    #[arg(long, value_name = "FILE", requires = "capture")]
    applications: Option<PathBuf>,
    /// Number of seeds, in place of the scenario's
    #[arg(long, value_name = "N")]
    seeds: Option<NonZeroU64>,
    /// Threads that simulate [default: one for each processor]
    #[arg(long, value_name = "N")]
    threads: Option<NonZeroU64>,
}

/// Reason for which nothing is simulated.
enum Failure {
    /// Scenario or configuration that cannot be used.
    Unusable(String),
    /// Anything else.
    Other(anyhow::Error),
}

impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Self {
        Self::Other(error)
    }
}

pub(super) fn run(arguments: &Arguments, environment: &BTreeMap<String, String>) -> ExitCode {
    match simulate(arguments, environment) {
        Ok(None) => ExitCode::SUCCESS,
        Ok(Some(interruption)) => ExitCode::from(interruption.exit_status()),
        Err(Failure::Unusable(problems)) => {
            print_error(format_args!("{problems}"));
            ExitCode::from(EXIT_BAD_CONFIGURATION)
        }
        Err(Failure::Other(error)) => {
            print_error(format_args!("nm-agent: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

fn simulate(
    arguments: &Arguments,
    environment: &BTreeMap<String, String>,
) -> Result<Option<Interruption>, Failure> {
    if arguments.list {
        return print(&listed()).map(|()| None);
    }
    if let Some(dir) = &arguments.replay {
        return replay::replay(dir, &arguments.other).map(|()| None);
    }
    if let (Some(dir), Some(out)) = (&arguments.capture, &arguments.write_trace) {
        return capture::capture(dir, arguments.applications.as_deref(), out).map(|()| None);
    }
    let name = arguments.scenario.as_deref().unwrap_or_default();
    let source = source_of(name)?;
    let read = Scenario::read(&source);
    let mut scenario = read.map_err(|error| Failure::Unusable(format!("{name}: {error}")))?;
    if let Some(conf) = &arguments.conf {
        let conf = ConfDir {
            conf: Some(conf.clone()),
        };
        let arm = configured::arm(&conf.read(environment)).map_err(Failure::Unusable)?;
        scenario.arms.insert(0, arm);
    }
    if let Some(seeds) = arguments.seeds {
        scenario.run.seeds = seeds.get();
    }
    trace::choose(&mut scenario, arguments);
    if arguments.check {
        let shown = described(&scenario) + &trace::surveyed(&scenario)?;
        return print(&shown).map(|()| None);
    }
    trace::load(&mut scenario)?;
    if let Some(file) = &arguments.write_trace {
        return trace::write(&scenario, file).map(|()| None);
    }
    let stop = Arc::new(AtomicBool::new(false));
    let interruption = stop_on_signal(Arc::clone(&stop)).context("listening for signals")?;
    if let Some(out) = &arguments.out {
        let created = fs::create_dir_all(out);
        created.with_context(|| format!("creating {}", out.display()))?;
    }
    let results = run_all(&scenario, arguments.threads, &stop);
    let interruption = *interruption.borrow();
    let arms = summaries(&scenario, &results.runs);
    let mut shown = table(&scenario, &arms);
    if !results.is_complete() {
        shown.push_str("\nPartial: interrupted before every run had ended.\n");
    }
    if let Some(out) = &arguments.out {
        write(out, "table.txt", &shown)?;
        write(out, "runs.csv", &runs_csv(&scenario, &results))?;
        write(out, "jobs.csv", &jobs_csv(&scenario, &results))?;
        write(
            out,
            "index.html",
            &page(&scenario, &source, &results, &arms),
        )?;
    }
    print(&shown)?;
    Ok(interruption)
}

fn listed() -> String {
    let line = |name: &str, purpose: &str| format!("{name:12} {purpose}\n");
    BUILTIN
        .iter()
        .map(|builtin| line(builtin.name, builtin.purpose()))
        .collect()
}

/// Returns what a scenario would simulate, and how much of it.
fn described(scenario: &Scenario) -> String {
    let mut text = format!("{}\n\n", headline(scenario));
    for arm in &scenario.arms {
        text.push_str(&format!("{} ({})\n", arm.label(), arm.policy.nature()));
    }
    let runs = scenario.arms.len() as u64 * scenario.run.seeds;
    if scenario.workload.jobs == JobKind::Trace {
        text.push_str(&format!("\n{runs} runs of the jobs of a trace\n"));
    } else {
        let containers = scenario.workload.containers_about();
        text.push_str(&format!(
            "\n{runs} runs of about {containers} containers each\n"
        ));
    }
    text
}

fn source_of(name: &str) -> Result<String, Failure> {
    if let Some(builtin) = find(name) {
        return Ok(builtin.text.to_owned());
    }
    let unusable = |reason: String| Failure::Unusable(format!("nm-agent: {name}: {reason}"));
    let length = match fs::metadata(name) {
        Ok(metadata) => metadata.len(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let known = listed();
            return Err(unusable(format!(
                "no such file, and not a scenario of the program. Those are:\n{known}"
            )));
        }
        Err(error) => return Err(unusable(error.to_string())),
    };
    if length > SCENARIO_BYTES_MAX {
        let most = SCENARIO_BYTES_MAX;
        return Err(unusable(format!(
            "{length} bytes; a scenario has at most {most}"
        )));
    }
    fs::read_to_string(name).map_err(|error| unusable(error.to_string()))
}

/// Runs the scenario until its end, or until `stop` is set and the runs under way have ended.
fn run_all(scenario: &Scenario, threads: Option<NonZeroU64>, stop: &AtomicBool) -> Results {
    let processors = || thread::available_parallelism().map_or(1, usize::from);
    let threads = threads.map_or_else(processors, |threads| {
        usize::try_from(threads.get()).unwrap_or(usize::MAX)
    });
    let bar = io::stderr().is_terminal().then(bar);
    let results = runner::run(scenario, threads, stop, &mut |progress| {
        if let Some(bar) = &bar {
            bar.set_length(progress.all as u64);
            bar.set_position(progress.done as u64);
        }
    });
    if let Some(bar) = bar {
        bar.finish_and_clear();
    }
    results
}

fn bar() -> ProgressBar {
    let bar = ProgressBar::with_draw_target(Some(0), ProgressDrawTarget::stderr());
    let style = ProgressStyle::with_template(TEMPLATE);
    bar.set_style(style.expect("the template is a constant"));
    bar
}

/// Sets `stop` at the first signal, and publishes which it was. A second one ends the process.
fn stop_on_signal(stop: Arc<AtomicBool>) -> io::Result<watch::Receiver<Option<Interruption>>> {
    let (sender, receiver) = watch::channel(None);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let mut signals = {
        let _entered = runtime.enter();
        Signals::listen()?
    };
    thread::Builder::new()
        .name("simulate-signals".to_owned())
        .spawn(move || {
            runtime.block_on(async {
                let first = signals.next().await;
                stop.store(true, Ordering::Relaxed);
                let _nobody_asks = sender.send(Some(first));
                let second = signals.next().await;
                std::process::exit(i32::from(second.exit_status()));
            });
        })?;
    Ok(receiver)
}

fn write(folder: &Path, name: &str, text: &str) -> Result<(), Failure> {
    let file = folder.join(name);
    let written = fs::write(&file, text);
    Ok(written.with_context(|| format!("writing {}", file.display()))?)
}

fn print(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    let printed = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    Ok(printed.context("writing to standard output")?)
}
