//! `batch_task` of Alibaba's cluster trace of 2018: CSV without a head, a line for each task of a
//! job, whose instances are the tasks here: name, instances, job, type, status, start and end in
//! seconds, CPU (100 is a core) and memory (100 is a machine).
//!
//! - A name such as `R4_2_3` is stage 4, which waits for 2 and 3; other names wait for nothing.
//! - Tasks whose status is not `Terminated` have no length and are passed over.
//! - Times are whole seconds: a task that ends in the second of its start takes half of one.
//! - A job arrives when its first task starts.
//! - Memory: a machine is taken to have 100 GiB.
//!
//! Lines of a job must stand together, as they do in the published file.

use std::io::BufRead;

use crate::groups::{Groups, Row};
use crate::input::Place;
use crate::job::{RawJob, RawStage, STAGES_MAX, Tasks, length_between};
use crate::{MEMORY_MB, Source, TraceError};

/// Memory of a hundredth of a machine in MB.
const MEMORY_UNIT_MB: f64 = 1_024.0;

/// Length of a task that ends in the second of its start, in milliseconds.
const WITHIN_A_SECOND_MS: u64 = 500;

/// Most stages that one stage waits for.
const AFTER_MAX: usize = 100;

/// First name of stages whose tasks have none.
const UNNAMED: u64 = 1 << 40;

struct Task {
    job: String,
    /// Number of its stage; `None`: it waits for nothing, and nothing for it.
    stage: Option<u64>,
    after: Vec<u64>,
    start_ms: i64,
    tasks: Tasks,
}

/// Returns the number and what it waits for: `R4_2_3` is 4 after 2 and 3.
fn stage_of(name: &str) -> Option<(u64, Vec<u64>)> {
    let digits = name.trim_start_matches(|c: char| c.is_ascii_alphabetic());
    let letters = name.len() - digits.len();
    if !(1..=3).contains(&letters) {
        return None;
    }
    let mut numbers = digits.split('_').take(AFTER_MAX + 1);
    let number = numbers.next()?.parse().ok().filter(|n| *n < UNNAMED)?;
    // Some names end in words that say how the task came about.
    let after = numbers.map_while(|number| number.parse().ok()).collect();
    Some((number, after))
}

fn seconds(name: &str, text: &str) -> Result<i64, String> {
    let value: Option<i64> = text.trim().parse().ok();
    let value = value.and_then(|seconds| seconds.checked_mul(1_000));
    value.ok_or_else(|| {
        let shown: String = text.chars().take(40).collect();
        format!("{name}: {shown:?} is no time in seconds")
    })
}

/// Returns a share that may be missing, times a unit, rounded up.
fn scaled(name: &str, text: &str, unit: f64) -> Result<Option<u64>, String> {
    let text = text.trim();
    if text.is_empty() {
        return Ok(None);
    }
    let value: Option<f64> = text.parse().ok();
    let value = value.filter(|value| (0.0..=1e6).contains(value));
    let value = value.ok_or_else(|| {
        let shown: String = text.chars().take(40).collect();
        format!("{name}: {shown:?} is no share")
    })?;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "in range"
    )]
    let scaled = (value * unit).ceil() as u64;
    Ok(Some(scaled.max(1)))
}

impl Row for Task {
    fn read(line: &str) -> Result<Option<Self>, String> {
        let fields: Vec<&str> = line.split(',').take(10).collect();
        let [name, count, job, _type, status, start, end, cpu, memory] = fields[..] else {
            return Err(format!("{} fields in place of 9", fields.len()));
        };
        if status.trim() != "Terminated" {
            return Ok(None);
        }
        let start_ms = seconds("start", start)?;
        let length = length_between(start_ms, seconds("end", end)?)?;
        let count = count.trim().parse();
        let count = count.map_err(|_| "the number of instances is no whole number".to_owned())?;
        let vcores = scaled("CPU", cpu, 0.01)?.unwrap_or(1);
        let (stage, after) = match stage_of(name.trim()) {
            Some((stage, after)) => (Some(stage), after),
            None => (None, Vec::new()),
        };
        Ok(Some(Self {
            job: job.trim().to_owned(),
            stage,
            after,
            start_ms,
            tasks: Tasks {
                count,
                memory_mb: scaled("memory", memory, MEMORY_UNIT_MB)?.unwrap_or(MEMORY_MB),
                vcores: u32::try_from(vcores).unwrap_or(u32::MAX),
                ..Tasks::of(if length == 0 {
                    WITHIN_A_SECOND_MS
                } else {
                    length
                })
            },
        }))
    }

    fn job(&self) -> &str {
        &self.job
    }

    fn begin(&self) -> RawJob {
        RawJob {
            id: self.job.clone(),
            submit_ms: self.start_ms,
            stages: Vec::new(),
        }
    }

    fn add(self, job: &mut RawJob) -> Result<(), String> {
        if job.stages.len() >= STAGES_MAX {
            return Err(format!("a job of more than {STAGES_MAX} tasks"));
        }
        job.submit_ms = job.submit_ms.min(self.start_ms);
        let unnamed = UNNAMED + job.stages.len() as u64;
        job.stages.push(RawStage {
            name: self.stage.unwrap_or(unnamed),
            after: self.after,
            tasks: vec![self.tasks],
        });
        Ok(())
    }
}

pub(crate) struct Reader<R> {
    rows: Groups<R, Task>,
}

impl<R: BufRead> Reader<R> {
    pub(crate) fn new(input: R) -> Self {
        let rows = Groups::new(input);
        Self { rows }
    }
}

impl<R: BufRead> Source for Reader<R> {
    fn next_job(&mut self) -> Result<Option<(Place, RawJob)>, TraceError> {
        self.rows.next_job()
    }
}
