//! Our own traces: CSV with a head line and a line for tasks of one kind.
//!
//! ```text
//! job,arrival_ms,stage,after,count,length_ms,memory_mb,vcores,type,waited_ms
//! job_1,0,1,,80,6000,1024,1,,
//! job_1,0,2,1,4,12500,4096,2,guaranteed,
//! job_2,1500,1,,1,700,1024,1,opportunistic,35
//! ```
//!
//! Lines of a job stand together, and within it the lines of a stage. `after` has the stages that
//! must have ended, joined by `+`. What is empty takes a default: stage 1, one task, 1,024 MB, one
//! vcore; an empty `type` leaves the execution type to whoever uses the trace. `waited_ms` is what
//! a capture measured. Nothing is quoted: an id has no comma and no line end.

use std::fmt::Write as _;
use std::io::{self, BufRead, Write};

use records::ExecutionType;

use crate::groups::{Groups, Row};
use crate::input::Place;
use crate::job::{RawJob, RawStage, Stage, Tasks, TraceJob};
use crate::{MEMORY_MB, Source, TraceError};

/// First line.
pub const HEAD: &str = "job,arrival_ms,stage,after,count,length_ms,memory_mb,vcores,type,waited_ms";

/// Most stages that one stage waits for.
const AFTER_MAX: usize = 100;

struct Line {
    job: String,
    arrival_ms: u64,
    stage: u64,
    after: Vec<u64>,
    tasks: Tasks,
}

/// Returns a field's number, or the default of an empty field.
fn number(name: &str, text: &str, default: Option<u64>) -> Result<u64, String> {
    let text = text.trim();
    match default {
        Some(default) if text.is_empty() => Ok(default),
        _ => text.parse().map_err(|_| {
            let shown: String = text.chars().take(40).collect();
            format!("{name}: {shown:?} is not a whole number")
        }),
    }
}

fn execution_type(text: &str) -> Result<Option<ExecutionType>, String> {
    match text.trim() {
        "" => Ok(None),
        "guaranteed" => Ok(Some(ExecutionType::Guaranteed)),
        "opportunistic" => Ok(Some(ExecutionType::Opportunistic)),
        _ => Err("type: neither guaranteed nor opportunistic".to_owned()),
    }
}

impl Row for Line {
    fn read(line: &str) -> Result<Option<Self>, String> {
        let fields: Vec<&str> = line.split(',').take(11).collect();
        let [
            job,
            arrival,
            stage,
            after,
            count,
            length,
            memory,
            vcores,
            kind,
            waited,
        ] = fields[..]
        else {
            return Err(format!("{} fields in place of 10", fields.len()));
        };
        let after: Result<Vec<u64>, String> = after
            .split('+')
            .filter(|name| !name.trim().is_empty())
            .take(AFTER_MAX + 1)
            .map(|name| number("after", name, None))
            .collect();
        let after = after?;
        if after.len() > AFTER_MAX {
            return Err(format!("after: more than {AFTER_MAX} stages"));
        }
        let vcores = number("vcores", vcores, Some(1))?;
        let waited_ms = match waited.trim() {
            "" => None,
            waited => Some(number("waited_ms", waited, None)?),
        };
        Ok(Some(Self {
            job: job.trim().to_owned(),
            arrival_ms: number("arrival_ms", arrival, None)?,
            stage: number("stage", stage, Some(1))?,
            after,
            tasks: Tasks {
                count: number("count", count, Some(1))?,
                length_ms: number("length_ms", length, None)?,
                memory_mb: number("memory_mb", memory, Some(MEMORY_MB))?,
                vcores: u32::try_from(vcores).map_err(|_| "vcores: too many".to_owned())?,
                execution_type: execution_type(kind)?,
                waited_ms,
            },
        }))
    }

    fn job(&self) -> &str {
        &self.job
    }

    fn begin(&self) -> RawJob {
        RawJob {
            id: self.job.clone(),
            submit_ms: i64::try_from(self.arrival_ms).unwrap_or(i64::MAX),
            stages: Vec::new(),
        }
    }

    fn add(self, job: &mut RawJob) -> Result<(), String> {
        if i64::try_from(self.arrival_ms) != Ok(job.submit_ms) {
            let (id, first) = (job.id.escape_debug(), job.submit_ms);
            let this = self.arrival_ms;
            return Err(format!(
                "job {id} arrives at {this} ms here and at {first} before"
            ));
        }
        match job.stages.last_mut() {
            Some(last) if last.name == self.stage => {
                if last.after != self.after {
                    return Err(format!("stage {} waits for others than before", self.stage));
                }
                last.tasks.push(self.tasks);
            }
            Some(_) | None => job.stages.push(RawStage {
                name: self.stage,
                after: self.after,
                tasks: vec![self.tasks],
            }),
        }
        Ok(())
    }
}

pub(crate) struct Reader<R> {
    rows: Groups<R, Line>,
    has_head: bool,
}

impl<R: BufRead> Reader<R> {
    pub(crate) fn new(input: R) -> Self {
        Self {
            rows: Groups::new(input),
            has_head: false,
        }
    }
}

impl<R: BufRead> Source for Reader<R> {
    fn next_job(&mut self) -> Result<Option<(Place, RawJob)>, TraceError> {
        if !self.has_head {
            let head = self.rows.lines.next_line()?;
            let is_ours = head.is_some_and(|(_, line)| line.trim() == HEAD);
            if !is_ours {
                let place = Place { line: 1, byte: 0 };
                return Err(TraceError::new(
                    place,
                    format!("the first line is not {HEAD}"),
                ));
            }
            self.has_head = true;
        }
        self.rows.next_job()
    }
}

/// Writer of our traces.
#[derive(Debug)]
pub struct Writer<W> {
    out: W,
}

impl<W: Write> Writer<W> {
    /// Begins a trace.
    ///
    /// # Errors
    /// The head cannot be written.
    pub fn new(mut out: W) -> io::Result<Self> {
        writeln!(out, "{HEAD}")?;
        Ok(Self { out })
    }

    /// Writes a job. In its id, what a field cannot have becomes `_`.
    ///
    /// # Errors
    /// The job cannot be written.
    pub fn write(&mut self, job: &TraceJob) -> io::Result<()> {
        let is_kept = |c: char| c != ',' && !c.is_control() && !c.is_whitespace();
        let id: String = job
            .id
            .chars()
            .map(|c| if is_kept(c) { c } else { '_' })
            .collect();
        for (number, stage) in job.stages.iter().enumerate() {
            self.write_stage(&id, job.submit_ms, number, stage)?;
        }
        Ok(())
    }

    fn write_stage(
        &mut self,
        id: &str,
        submit_ms: u64,
        number: usize,
        stage: &Stage,
    ) -> io::Result<()> {
        let names: Vec<String> = stage.after.iter().map(|n| (n + 1).to_string()).collect();
        let (name, after) = (number + 1, names.join("+"));
        for tasks in &stage.tasks {
            let kind = match tasks.execution_type {
                None => "",
                Some(ExecutionType::Guaranteed) => "guaranteed",
                Some(ExecutionType::Opportunistic) => "opportunistic",
            };
            let mut waited = String::new();
            if let Some(ms) = tasks.waited_ms {
                // Writing to a string cannot fail.
                let _ = write!(waited, "{ms}");
            }
            let Tasks {
                count,
                length_ms,
                memory_mb,
                vcores,
                ..
            } = tasks;
            writeln!(
                self.out,
                "{id},{submit_ms},{name},{after},{count},{length_ms},{memory_mb},{vcores},\
                 {kind},{waited}"
            )?;
        }
        Ok(())
    }

    /// Writes what is still in memory.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn finish(mut self) -> io::Result<W> {
        self.out.flush()?;
        Ok(self.out)
    }
}
