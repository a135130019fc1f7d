//! Traces of the simulators of Sparrow, Hawk and Eagle: a job on each line, separated by blanks:
//! time of submission, number of tasks, their mean length, then each length. All times are in
//! seconds, with a fraction.

use std::io::BufRead;

use crate::input::{Lines, Place};
use crate::job::{RawJob, TASKS_MAX, Tasks};
use crate::{Source, TraceError};

/// Longest time in seconds that is read, above any that a job may have.
const SECONDS_MAX: f64 = 1e12;

/// Reads a time in seconds. A length that rounds to 0 ms and is not 0 is 1 ms.
pub(crate) fn milliseconds(text: &str) -> Option<u64> {
    let seconds: f64 = text.parse().ok()?;
    if !(0.0..=SECONDS_MAX).contains(&seconds) {
        return None;
    }
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "in range"
    )]
    let rounded = (seconds * 1_000.0).round() as u64;
    Some(if seconds > 0.0 { rounded.max(1) } else { 0 })
}

pub(crate) struct Reader<R> {
    lines: Lines<R>,
    read: u64,
}

impl<R: BufRead> Reader<R> {
    pub(crate) fn new(input: R) -> Self {
        let lines = Lines::new(input);
        Self { lines, read: 0 }
    }
}

fn job(line: &str, number: u64) -> Result<RawJob, String> {
    let mut fields = line.split_ascii_whitespace();
    let mut next = |name: &str| {
        let field = fields
            .next()
            .ok_or_else(|| format!("cut off before {name}"))?;
        let shown: String = field.chars().take(40).collect();
        milliseconds(field).ok_or_else(|| format!("{name}: {shown:?} is no time in seconds"))
    };
    let submit_ms = next("the submission")?;
    // A count is written as a number like the others.
    let count = next("the number of tasks")? / 1_000;
    let mean_ms = next("the mean length")?;
    if count > TASKS_MAX {
        return Err(format!("{count} tasks; at most {TASKS_MAX} are read"));
    }
    let lengths: Result<Vec<Tasks>, String> = fields
        .map(|field| {
            let shown: String = field.chars().take(40).collect();
            let length = milliseconds(field);
            let length = length.ok_or_else(|| format!("{shown:?} is no time in seconds"))?;
            Ok(Tasks::of(length))
        })
        .collect();
    let mut tasks = lengths?;
    if tasks.is_empty() && count > 0 {
        tasks.push(Tasks {
            count,
            ..Tasks::of(mean_ms)
        });
    } else if tasks.len() as u64 != count {
        return Err(format!("{} lengths for {count} tasks", tasks.len()));
    }
    let submit_ms = i64::try_from(submit_ms).unwrap_or(i64::MAX);
    Ok(RawJob::in_sequence(
        format!("job_{number}"),
        submit_ms,
        vec![tasks],
    ))
}

impl<R: BufRead> Source for Reader<R> {
    fn next_job(&mut self) -> Result<Option<(Place, RawJob)>, TraceError> {
        let Some((place, line)) = self.lines.next_line()? else {
            return Ok(None);
        };
        self.read += 1;
        let job = job(line, self.read).map_err(|reason| TraceError::new(place, reason))?;
        Ok(Some((place, job)))
    }
}
