//! `nm-agent simulate --replay`: records of a node's scheduler, played again.

use std::fs::{self, File};
use std::io::BufReader;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::{Args, ValueEnum};
use event_record::{
    Begin, CONTAINERS_MAX, Fates, Lives, Model, OtherSettings, Reader, Replay, Step, differences,
    table,
};
use records::MonoMillis;

use super::{Failure, print};

/// Most files of a directory that are read.
const FILES_MAX: usize = 10_000;

/// What other settings than the recorded ones do to guaranteed containers' victims.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Victims {
    Freeze,
    Kill,
}

/// Settings of a replay in place of the recorded ones.
#[derive(Debug, Args)]
#[command(next_help_heading = "Other settings than the recorded ones")]
pub(super) struct Other {
    /// Opportunistic containers that may wait on the node
    #[arg(long, value_name = "N", requires = "replay")]
    queue_length: Option<usize>,
    /// What happens to opportunistic containers that make room
    #[arg(long, value_name = "HOW", requires = "replay")]
    victims: Option<Victims>,
    /// Milliseconds that a container may stay frozen
    #[arg(long, value_name = "MS", requires = "replay")]
    pause_max_ms: Option<u64>,
    /// Queue length that the ResourceManager allows
    #[arg(long, value_name = "N", requires = "replay")]
    limit_length: Option<usize>,
}

impl Other {
    fn settings(&self) -> OtherSettings {
        OtherSettings {
            queue_length_max: self.queue_length,
            freeze_victims: self.victims.map(|victims| victims == Victims::Freeze),
            pause_max_ms: self.pause_max_ms,
            limit_length: self.limit_length,
        }
    }
}

/// Files that go on where the one before ends.
type Run = Vec<PathBuf>;

/// Plays the records of a directory, first as they are, then with other settings, if there are
/// any.
pub(super) fn replay(dir: &Path, other: &Other) -> Result<(), Failure> {
    let runs = runs_in(dir)?;
    let settings = other.settings();
    let is_other = settings != OtherSettings::default();
    let mut recorded = Fates::default();
    let (mut unchanged, mut changed) = (Fates::default(), Fates::default());
    let (mut steps, mut assumed) = (0, 0);
    for run in &runs {
        let mut lives = Lives::default();
        steps += as_recorded(run, &mut lives, &mut recorded)?;
        if is_other {
            play(run, &lives, OtherSettings::default(), &mut unchanged)?;
            assumed += play(run, &lives, settings, &mut changed)?;
        }
    }
    print(&format!(
        "{steps} events in {} runs give the recorded actions.\n\n",
        runs.len()
    ))?;
    if !is_other {
        return print(&table(&[("recorded".to_owned(), &recorded)]));
    }
    let plays = [
        ("recorded".to_owned(), &recorded),
        ("modelled, as recorded".to_owned(), &unchanged),
        ("modelled, other".to_owned(), &changed),
    ];
    let (count, listed) = differences(&unchanged, &changed);
    print(&format!(
        "{}\n{count} containers fare otherwise in the model:\n{listed}\nStarts, kills and limits \
         come when they came. The record does not tell how long {assumed} of the containers that \
         the other settings start would have run; they run as long as others. What \
         ApplicationMasters would have asked for instead is not known.\n",
        table(&plays)
    ))
}

/// Returns the runs of a directory, in their order.
fn runs_in(dir: &Path) -> Result<Vec<Run>, Failure> {
    let listed = fs::read_dir(dir).with_context(|| format!("reading {}", dir.display()))?;
    let mut files: Vec<PathBuf> = Vec::new();
    for entry in listed {
        let path = entry
            .with_context(|| format!("reading {}", dir.display()))?
            .path();
        if path.extension().is_some_and(|end| end == "jsonl") {
            files.push(path);
        }
        if files.len() > FILES_MAX {
            let dir = dir.display();
            let problem = format!("nm-agent: {dir}: more than {FILES_MAX} files");
            return Err(Failure::Unusable(problem));
        }
    }
    files.sort();
    let mut runs: Vec<Run> = Vec::new();
    for file in files {
        let (_, begin) = open(&file)?;
        match runs.last_mut() {
            Some(run) if begin.follows => run.push(file),
            _ => runs.push(vec![file]),
        }
    }
    if runs.is_empty() {
        let dir = dir.display();
        let problem = format!("nm-agent: {dir}: no records (*.jsonl) are in it");
        return Err(Failure::Unusable(problem));
    }
    Ok(runs)
}

fn unusable(file: &Path, reason: impl std::fmt::Display) -> Failure {
    Failure::Unusable(format!("nm-agent: {}: {reason}", file.display()))
}

fn open(file: &Path) -> Result<(Reader<BufReader<File>>, Begin), Failure> {
    let opened = File::open(file).map_err(|error| unusable(file, error))?;
    Reader::new(BufReader::new(opened)).map_err(|error| unusable(file, error))
}

/// Reads a file's steps one by one.
fn each_step(
    file: &Path,
    mut reader: Reader<BufReader<File>>,
    mut take: impl FnMut(u64, &Step) -> Result<(), Failure>,
) -> Result<(), Failure> {
    while let Some(step) = reader.next_step().map_err(|error| unusable(file, error))? {
        take(reader.line(), &step)?;
    }
    Ok(())
}

/// Plays a run as it was recorded, and gathers what its containers did. Returns the number of
/// events.
fn as_recorded(run: &Run, lives: &mut Lives, fates: &mut Fates) -> Result<u64, Failure> {
    let mut replay: Option<Replay> = None;
    let mut last = MonoMillis(0);
    for file in run {
        let (reader, begin) = open(file)?;
        let parted = |line: u64, parted: &event_record::Parted| {
            unusable(file, format!("the replay parts at line {line}: {parted}"))
        };
        let mut player = match replay.take() {
            Some(mut player) => {
                player.follow(&begin).map_err(|words| parted(1, &words))?;
                player
            }
            None => {
                lives.begin(&begin).map_err(|error| unusable(file, error))?;
                Replay::new(&begin).map_err(|error| unusable(file, error))?
            }
        };
        each_step(file, reader, |line, step| {
            player.step(step).map_err(|words| parted(line, &words))?;
            last = step.at.mono;
            step.actions.iter().for_each(|action| fates.observe(action));
            if !lives.step(step) || fates.of.len() > CONTAINERS_MAX {
                let reason = format!("more than {CONTAINERS_MAX} containers");
                return Err(unusable(file, reason));
            }
            Ok(())
        })?;
        replay = Some(player);
    }
    lives.end(last);
    Ok(replay.map_or(0, |replay| replay.steps()))
}

/// Plays a run with other settings. Returns of how many containers the run time is assumed.
fn play(
    run: &Run,
    lives: &Lives,
    settings: OtherSettings,
    fates: &mut Fates,
) -> Result<usize, Failure> {
    let mut model: Option<Model<'_>> = None;
    for file in run {
        let (reader, begin) = open(file)?;
        let mut played = match model.take() {
            Some(model) => model,
            None => {
                let new = Model::new(&begin, lives, settings);
                new.map_err(|error| unusable(file, error))?
            }
        };
        each_step(file, reader, |_, step| {
            played.step(step);
            Ok(())
        })?;
        model = Some(played);
    }
    let Some(model) = model else {
        return Ok(0);
    };
    let (of_run, assumed) = model.end();
    fates.of.extend(of_run.of);
    Ok(assumed)
}
