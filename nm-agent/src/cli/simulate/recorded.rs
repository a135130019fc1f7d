//! Records of a node's scheduler in a directory, read step by step.

use std::fs::{self, File};
use std::io::BufReader;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use event_record::{Begin, CONTAINERS_MAX, Lives, Reader, Replay, Step};
use records::MonoMillis;

use super::Failure;

/// Most files of a directory that are read.
const FILES_MAX: usize = 10_000;

/// Files that go on where the one before ends.
pub(super) type Run = Vec<PathBuf>;

/// Returns the runs of a directory, in their order.
pub(super) fn runs_in(dir: &Path) -> Result<Vec<Run>, Failure> {
    let mut runs: Vec<Run> = Vec::new();
    for file in files_in(dir)? {
        let (_, begin) = open(&file)?;
        match runs.last_mut() {
            Some(run) if begin.follows => run.push(file),
            _ => runs.push(vec![file]),
        }
    }
    if runs.is_empty() {
        return Err(unusable(dir, "no records (*.jsonl) are in it"));
    }
    Ok(runs)
}

/// Returns whether a directory itself has records.
pub(super) fn has_records(dir: &Path) -> Result<bool, Failure> {
    Ok(!files_in(dir)?.is_empty())
}

/// Returns the records of a directory, in their order.
fn files_in(dir: &Path) -> Result<Vec<PathBuf>, Failure> {
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
            return Err(unusable(dir, format!("more than {FILES_MAX} files")));
        }
    }
    files.sort();
    Ok(files)
}

pub(super) fn unusable(file: &Path, reason: impl std::fmt::Display) -> Failure {
    Failure::Unusable(format!("nm-agent: {}: {reason}", file.display()))
}

pub(super) fn open(file: &Path) -> Result<(Reader<BufReader<File>>, Begin), Failure> {
    let opened = File::open(file).map_err(|error| unusable(file, error))?;
    Reader::new(BufReader::new(opened)).map_err(|error| unusable(file, error))
}

/// Reads a file's steps one by one.
pub(super) fn each_step(
    file: &Path,
    mut reader: Reader<BufReader<File>>,
    mut take: impl FnMut(u64, &Step) -> Result<(), Failure>,
) -> Result<(), Failure> {
    while let Some(step) = reader.next_step().map_err(|error| unusable(file, error))? {
        take(reader.line(), &step)?;
    }
    Ok(())
}

/// Plays a run as it was recorded, and gathers what its containers did. `take` gets each step, and
/// returns false if it has more containers than it takes. Returns the number of events.
pub(super) fn as_recorded(
    run: &Run,
    lives: &mut Lives,
    mut take: impl FnMut(&Step) -> bool,
) -> Result<u64, Failure> {
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
            if !lives.step(step) || !take(step) {
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
