//! Traces of SWIM: a job on each line, separated by tabs: id, submission and gap in seconds, bytes
//! of map input, shuffle and reduce output. There are no durations, so a model makes them:
//!
//! - A map task reads [`TASK_BYTES`], the block of that time. A job has at least one.
//! - A job that shuffles has a reduce task for each [`REDUCE_BYTES`] of its shuffle.
//! - A task takes [`START_MS`] to start, and then reads and writes [`BYTES_PER_SECOND`], its share
//!   of everything that its stage reads and writes.
//! - Reduces begin after the maps.
//!
//! The model orders jobs by what they move. Its seconds are not those of the cluster that was
//! traced.

use std::io::BufRead;

use crate::input::{Lines, Place};
use crate::job::{RawJob, TASKS_MAX, Tasks};
use crate::tr::milliseconds;
use crate::{Source, TraceError};

/// Input of a map task in bytes.
const TASK_BYTES: u64 = 64 << 20;

/// Shuffled bytes of a reduce task.
const REDUCE_BYTES: u64 = 1 << 30;

/// Time of a task that moves nothing, in milliseconds.
const START_MS: u64 = 2_000;

/// Bytes that a task reads and writes in a second: a share of a disk of 2009.
const BYTES_PER_SECOND: u64 = 20_000_000;

/// Most bytes of a job: an exabyte.
const BYTES_MAX: u64 = 1 << 60;

pub(crate) struct Reader<R> {
    lines: Lines<R>,
}

impl<R: BufRead> Reader<R> {
    pub(crate) fn new(input: R) -> Self {
        let lines = Lines::new(input);
        Self { lines }
    }
}

/// Returns `count` tasks that share these bytes.
fn sharing(count: u64, bytes: u64) -> Tasks {
    let seconds_1000 = u128::from(bytes) * 1_000 / u128::from(count * BYTES_PER_SECOND);
    let moving_ms = u64::try_from(seconds_1000).unwrap_or(u64::MAX);
    Tasks {
        count,
        ..Tasks::of(START_MS.saturating_add(moving_ms))
    }
}

fn job(line: &str) -> Result<RawJob, String> {
    let fields: Vec<&str> = line.split('\t').map(str::trim).take(7).collect();
    let [id, submit, _gap, input, shuffle, output, ..] = fields[..] else {
        return Err(format!("{} fields in place of 6", fields.len()));
    };
    let shown = |text: &str| text.chars().take(40).collect::<String>();
    let submit_ms = milliseconds(submit)
        .ok_or_else(|| format!("submission: {:?} is no time in seconds", shown(submit)))?;
    let bytes = |name: &str, text: &str| {
        let value = text.parse().ok().filter(|bytes: &u64| *bytes <= BYTES_MAX);
        value.ok_or_else(|| format!("{name}: {:?} is no number of bytes", shown(text)))
    };
    let input = bytes("map input", input)?;
    let shuffle = bytes("shuffle", shuffle)?;
    let output = bytes("reduce output", output)?;
    let maps = input.div_ceil(TASK_BYTES).clamp(1, TASKS_MAX / 2);
    // Without a shuffle the maps write the output.
    let written = if shuffle > 0 { shuffle } else { output };
    let mut stages = vec![vec![sharing(maps, input + written)]];
    if shuffle > 0 {
        let reduces = shuffle.div_ceil(REDUCE_BYTES).min(TASKS_MAX / 2);
        stages.push(vec![sharing(reduces, shuffle + output)]);
    }
    let submit_ms = i64::try_from(submit_ms).unwrap_or(i64::MAX);
    Ok(RawJob::in_sequence(id.to_owned(), submit_ms, stages))
}

impl<R: BufRead> Source for Reader<R> {
    fn next_job(&mut self) -> Result<Option<(Place, RawJob)>, TraceError> {
        let Some((place, line)) = self.lines.next_line()? else {
            return Ok(None);
        };
        let job = job(line).map_err(|reason| TraceError::new(place, reason))?;
        Ok(Some((place, job)))
    }
}
