//! Makes docs/policies.md: runs the study of `simulate::policies`, keeps its figures in
//! `simulate/policies.csv`, and writes the page's made part and its plots from them.
//!
//! ```text
//! cargo run --release -p simulate --example policies               # all of it
//! cargo run --release -p simulate --example policies -- --check    # its cells and their cost
//! cargo run --release -p simulate --example policies -- --seeds 3 --without "list of 10" 1000-0.8
//! cargo run --release -p simulate --example policies -- --render   # the page from what is kept
//! ```
//!
//! Words choose the cells whose names have one of them. What is not run stays as it is kept. After
//! each cell its figures are written, so an interrupted run loses one cell.

#![expect(
    clippy::disallowed_methods,
    reason = "a program: it reads and writes files, and measures its cost"
)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::Instant;

use simulate::policies::plan::{Cell, cells, minutes, seconds_about};
use simulate::policies::render::{made, plots, replaced};
use simulate::policies::stored::{Row, csv, merged, read, rows_of};
use simulate::runner::run;
use simulate::scenario::Scenario;
use simulate::summary::summaries;

/// Wishes of the command line.
#[derive(Default)]
struct Wishes {
    check: bool,
    render: bool,
    seeds: Option<u64>,
    threads: Option<usize>,
    /// Arms whose labels have one of these are left out.
    without: Vec<String>,
    /// Words in the names of the cells that run.
    words: Vec<String>,
}

fn main() -> ExitCode {
    let done = wishes().and_then(|wishes| study(&wishes));
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("policies: {problem}");
            ExitCode::FAILURE
        }
    }
}

fn wishes() -> Result<Wishes, String> {
    let mut wishes = Wishes::default();
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or(format!("{word}: no value"));
        let number = |text: String| {
            let number = text.parse::<u64>();
            number.map_err(|error| format!("{text}: {error}"))
        };
        match word.as_str() {
            "--check" => wishes.check = true,
            "--render" => wishes.render = true,
            "--seeds" => wishes.seeds = Some(number(value()?)?),
            "--threads" => wishes.threads = usize::try_from(number(value()?)?).ok(),
            "--without" => wishes.without.push(value()?),
            option if option.starts_with('-') => return Err(format!("{option}: unknown")),
            word => wishes.words.push(word.to_owned()),
        }
    }
    Ok(wishes)
}

/// Returns a cell's scenario as it is wished; `None`: it does not run.
fn wished(cell: &Cell, wishes: &Wishes) -> Result<Option<Scenario>, String> {
    let is_in = |text: &str, words: &[String]| words.iter().any(|word| text.contains(&**word));
    if !wishes.words.is_empty() && !is_in(&cell.name(), &wishes.words) {
        return Ok(None);
    }
    let mut scenario = cell.scenario().map_err(|error| error.to_string())?;
    scenario
        .arms
        .retain(|arm| !is_in(&arm.label(), &wishes.without));
    if let Some(seeds) = wishes.seeds {
        scenario.run.seeds = seeds;
    }
    Ok(Some(scenario))
}

fn study(wishes: &Wishes) -> Result<(), String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let kept = root.join("policies.csv");
    let mut rows = if kept.exists() {
        read(&read_file(&kept)?).map_err(|error| format!("{}: {error}", kept.display()))?
    } else {
        Vec::new()
    };
    let mut left_s = 0.0;
    let mut chosen = Vec::new();
    for cell in cells() {
        if let Some(scenario) = wished(&cell, wishes)? {
            let arms = scenario.arms.iter();
            let seconds: f64 = arms.map(|arm| seconds_about(&scenario, arm)).sum();
            left_s += seconds;
            chosen.push((cell, scenario, seconds));
        }
    }
    if wishes.check {
        for (cell, scenario, seconds) in &chosen {
            let (arms, seeds) = (scenario.arms.len(), scenario.run.seeds);
            let containers = scenario.workload.containers_about();
            let name = cell.name();
            println!(
                "{name:20} {arms} arms, {seeds} seeds, about {containers} containers a run, {seconds:.0} s"
            );
        }
        println!("about {} minutes of one core", minutes(left_s));
        return Ok(());
    }
    if !wishes.render {
        for (cell, scenario, seconds) in chosen {
            rows = merged(rows, run_cell(&cell, &scenario, wishes, left_s));
            left_s -= seconds;
            write_file(&kept, &csv(&rows))?;
        }
    }
    write_page(root, &rows)
}

fn run_cell(cell: &Cell, scenario: &Scenario, wishes: &Wishes, left_s: f64) -> Vec<Row> {
    let name = cell.name();
    let left = minutes(left_s);
    eprintln!("{name}: about {left} minutes of one core left");
    let processors = || thread::available_parallelism().map_or(1, usize::from);
    let threads = wishes.threads.unwrap_or_else(processors);
    let begin = Instant::now();
    let results = run(scenario, threads, &AtomicBool::new(false), &mut |_| ());
    let took = begin.elapsed().as_secs();
    eprintln!("{name}: {took} s");
    rows_of(cell, scenario, &summaries(scenario, &results.runs))
}

/// Writes the page's made part and its plots.
fn write_page(root: &Path, rows: &[Row]) -> Result<(), String> {
    let docs: PathBuf = root.join("../docs");
    let page = docs.join("policies.md");
    let old = read_file(&page)?;
    let new = replaced(&old, &made(rows));
    let new = new.ok_or(format!("{}: no place for what is made", page.display()))?;
    write_file(&page, &new)?;
    for (name, plot) in plots(rows) {
        let file = docs.join(name);
        let folder = file.parent().unwrap_or(&docs);
        fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        write_file(&file, &plot)?;
    }
    Ok(())
}

fn read_file(file: &Path) -> Result<String, String> {
    fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))
}

fn write_file(file: &Path, text: &str) -> Result<(), String> {
    fs::write(file, text).map_err(|error| format!("{}: {error}", file.display()))
}
