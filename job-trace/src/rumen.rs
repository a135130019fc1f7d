//! Traces of Rumen: a job's history with all its tasks. As Hadoop's load simulator does, the last
//! attempt of a task counts, and reduces come after maps.

use std::io::BufRead;

use serde::Deserialize;

use crate::input::{Place, RECORD_BYTES_MAX};
use crate::job::{RawJob, Tasks, length_between};
use crate::json::{Last, Objects, Whole, bounded};
use crate::{Source, TraceError};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Job {
    #[serde(rename = "jobID")]
    id: String,
    submit_time: Whole,
    finish_time: Option<Whole>,
    #[serde(default, deserialize_with = "bounded")]
    map_tasks: Vec<Length>,
    #[serde(default, deserialize_with = "bounded")]
    reduce_tasks: Vec<Length>,
}

#[derive(Deserialize)]
struct Task {
    attempts: Last<Attempt>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Attempt {
    start_time: Whole,
    finish_time: Whole,
}

/// Length of a task's last attempt in milliseconds.
#[derive(Deserialize)]
#[serde(try_from = "Task")]
struct Length(u64);

impl TryFrom<Task> for Length {
    type Error = String;

    fn try_from(task: Task) -> Result<Self, String> {
        let last = task.attempts.0.ok_or("a task without an attempt")?;
        length_between(last.start_time.0, last.finish_time.0).map(Self)
    }
}

pub(crate) struct Reader<R: BufRead> {
    jobs: Objects<R, Job>,
}

impl<R: BufRead> Reader<R> {
    pub(crate) fn new(input: R) -> Self {
        let jobs = Objects::new(input, RECORD_BYTES_MAX);
        Self { jobs }
    }
}

impl<R: BufRead> Source for Reader<R> {
    fn next_job(&mut self) -> Result<Option<(Place, RawJob)>, TraceError> {
        let Some((place, job)) = self.jobs.next_object()? else {
            return Ok(None);
        };
        let submit_ms = job.submit_time.0;
        if let Some(Whole(end)) = job.finish_time
            && end < submit_ms
        {
            let id = job.id.escape_debug();
            let reason = format!("job {id} ends at {end}, before its submission at {submit_ms}");
            return Err(TraceError::new(place, reason));
        }
        let tasks = |lengths: Vec<Length>| {
            let lengths = lengths.into_iter();
            lengths.map(|length| Tasks::of(length.0)).collect()
        };
        let stages = vec![tasks(job.map_tasks), tasks(job.reduce_tasks)];
        Ok(Some((
            place,
            RawJob::in_sequence(job.id, submit_ms, stages),
        )))
    }
}
