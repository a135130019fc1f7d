//! Traces of `nm-agent simulate`: which file in which format, read as far as it is needed.

use std::borrow::Borrow;
use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter};
use std::path::Path;

use anyhow::Context as _;
use job_trace::csv::Writer;
use job_trace::{Format, TraceJob, jobs};
use sim::Streams;
use simulate::scenario::Scenario;
use simulate::trace::{Loaded, Survey, traced};
use simulate::workload::JobKind;

use super::{Arguments, Failure, print};

/// Takes the trace that the command line names in place of the scenario's workload. A file that the
/// scenario names is looked for in the scenario's folder.
pub(super) fn choose(scenario: &mut Scenario, arguments: &Arguments) {
    let workload = &mut scenario.workload;
    if let Some(file) = &arguments.trace {
        workload.jobs = JobKind::Trace;
        // Count and load are those of the jobs that the trace replaces.
        (workload.count, workload.load) = (0, 0.0);
        workload.trace = file.to_string_lossy().into_owned();
        workload.format.clear();
    } else if let Some(of_scenario) = &arguments.scenario {
        let folder = Path::new(of_scenario).parent().unwrap_or(Path::new(""));
        workload.trace = folder.join(&workload.trace).to_string_lossy().into_owned();
    }
    if let Some(format) = &arguments.format {
        workload.format.clone_from(format);
    }
}

fn format_of(scenario: &Scenario) -> Result<Format, Failure> {
    let (file, format) = (&scenario.workload.trace, &scenario.workload.format);
    if !format.is_empty() {
        return format
            .parse()
            .map_err(|error| Failure::Unusable(format!("nm-agent: --format: {error}")));
    }
    Format::of_name(file).ok_or_else(|| {
        let known = Format::ALL.map(Format::as_str).join(", ");
        Failure::Unusable(format!(
            "nm-agent: {file}: its name does not say its format; --format is one of {known}"
        ))
    })
}

fn open(file: &str) -> Result<Box<dyn BufRead>, Failure> {
    if file == "-" {
        return Ok(Box::new(BufReader::new(io::stdin())));
    }
    let opened = File::open(file);
    let opened = opened.map_err(|error| Failure::Unusable(format!("nm-agent: {file}: {error}")))?;
    Ok(Box::new(BufReader::new(opened)))
}

/// Reads the trace of the scenario, if it has one.
pub(super) fn load(scenario: &mut Scenario) -> Result<(), Failure> {
    if scenario.workload.jobs != JobKind::Trace {
        return Ok(());
    }
    let file = scenario.workload.trace.clone();
    let input = open(&file)?;
    let loaded = Loaded::read(scenario, jobs(format_of(scenario)?, input));
    let loaded = loaded.map_err(|error| Failure::Unusable(format!("nm-agent: {file}: {error}")))?;
    scenario.workload.loaded = Some(loaded);
    Ok(())
}

/// Returns what the whole trace of the scenario comes to; empty if it has none.
pub(super) fn surveyed(scenario: &Scenario) -> Result<String, Failure> {
    if scenario.workload.jobs != JobKind::Trace {
        return Ok(String::new());
    }
    let file = &scenario.workload.trace;
    let input = open(file)?;
    let survey = Survey::read(scenario, jobs(format_of(scenario)?, input));
    let found = survey.map_err(|error| Failure::Unusable(format!("nm-agent: {file}: {error}")))?;
    let (first, last) = found.arrivals_ms.unwrap_or((0, 0));
    Ok(format!(
        "\nThe whole trace has {} jobs, {} of them of one task, and {} tasks, at most {} in a job. \
         They arrive in {} s and offer a load of {:.3} to this cluster.\n",
        found.jobs,
        found.single,
        found.tasks,
        found.largest,
        (last - first) / 1_000,
        found.load(scenario.cluster.capacity()),
    ))
}

/// Writes the jobs of the scenario's first seed as a trace; `-`: to standard output.
pub(super) fn write(scenario: &Scenario, file: &Path) -> Result<(), Failure> {
    let all = scenario.workload.jobs(
        Streams::new(scenario.run.first_seed),
        scenario.cluster.capacity(),
    );
    let jobs = all.iter().enumerate();
    write_jobs(jobs.map(|(number, job)| traced(number, job)), file)?;
    if file == Path::new("-") {
        return Ok(());
    }
    print(&format!(
        "{} jobs written to {}\n",
        all.len(),
        file.display()
    ))
}

/// Writes jobs as CSV to a file; `-`: to standard output.
pub(super) fn write_jobs(
    jobs: impl Iterator<Item = impl Borrow<TraceJob>>,
    file: &Path,
) -> Result<(), Failure> {
    let out: Box<dyn io::Write> = if file == Path::new("-") {
        Box::new(BufWriter::new(io::stdout()))
    } else {
        let created = File::create(file);
        let created = created.with_context(|| format!("creating {}", file.display()))?;
        Box::new(BufWriter::new(created))
    };
    let write_all = || -> io::Result<()> {
        let mut writer = Writer::new(out)?;
        for job in jobs {
            writer.write(job.borrow())?;
        }
        writer.finish()?;
        Ok(())
    };
    let written = write_all();
    Ok(written.with_context(|| format!("writing {}", file.display()))?)
}
