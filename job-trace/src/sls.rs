//! Traces of Hadoop's load simulator (SLS): objects one after another, of the cluster or of a job.
//!
//! The length of a task is `container.duration.ms`, else `duration.ms`, else its end minus its
//! start, as in Hadoop's reader. Tasks of a lower `container.priority` number are a later stage:
//! SLS gives maps 20 and reduces 10, and asks for all maps before the reduces.

use std::collections::{BTreeMap, VecDeque};
use std::io::BufRead;

use records::ExecutionType;
use serde::Deserialize;

use crate::input::{Place, RECORD_BYTES_MAX};
use crate::job::{RawJob, Tasks, length_between};
use crate::json::{Objects, Whole, bounded};
use crate::{MEMORY_MB, Source, TraceError};

/// Priority of a task that has none.
const PRIORITY: i64 = 20;

/// Most copies of one job (`job.count`) that are read.
const COPIES_MAX: i64 = 100_000;

#[derive(Deserialize)]
struct Object {
    #[serde(rename = "num.nodes")]
    nodes: Option<Whole>,
    #[serde(rename = "job.id")]
    id: Option<String>,
    #[serde(rename = "job.start.ms")]
    start_ms: Option<Whole>,
    #[serde(rename = "job.end.ms")]
    end_ms: Option<Whole>,
    #[serde(rename = "job.count")]
    copies: Option<Whole>,
    #[serde(rename = "job.tasks", default, deserialize_with = "bounded")]
    tasks: Vec<Task>,
}

#[derive(Deserialize)]
struct Described {
    count: Option<Whole>,
    #[serde(rename = "container.duration.ms")]
    duration_ms: Option<Whole>,
    #[serde(rename = "duration.ms")]
    old_duration_ms: Option<Whole>,
    #[serde(rename = "container.start.ms")]
    start_ms: Option<Whole>,
    #[serde(rename = "container.end.ms")]
    end_ms: Option<Whole>,
    #[serde(rename = "container.priority")]
    priority: Option<Whole>,
    #[serde(rename = "container.execution.type")]
    execution_type: Option<Type>,
    #[serde(rename = "container.memory-mb")]
    memory_mb: Option<Whole>,
    #[serde(rename = "container.vcores")]
    vcores: Option<Whole>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
enum Type {
    Guaranteed,
    Opportunistic,
}

/// Task with its priority.
#[derive(Deserialize)]
#[serde(try_from = "Described")]
struct Task(i64, Tasks);

impl TryFrom<Described> for Task {
    type Error = String;

    fn try_from(task: Described) -> Result<Self, String> {
        let stated = task.duration_ms.or(task.old_duration_ms);
        let length_ms = match (stated, task.start_ms, task.end_ms) {
            (Some(Whole(length)), _, _) => length_between(0, length)?,
            (None, Some(start), Some(end)) => length_between(start.0, end.0)?,
            (None, _, _) => return Err("a task without a duration".to_owned()),
        };
        let number = |value: Option<Whole>, otherwise: u64| {
            let value = value.and_then(|value| u64::try_from(value.0).ok());
            value.unwrap_or(otherwise)
        };
        let tasks = Tasks {
            count: number(task.count, 1).max(1),
            memory_mb: number(task.memory_mb, MEMORY_MB),
            vcores: u32::try_from(number(task.vcores, 1)).unwrap_or(u32::MAX),
            execution_type: task.execution_type.map(|named| match named {
                Type::Guaranteed => ExecutionType::Guaranteed,
                Type::Opportunistic => ExecutionType::Opportunistic,
            }),
            ..Tasks::of(length_ms)
        };
        Ok(Self(
            task.priority.map_or(PRIORITY, |priority| priority.0),
            tasks,
        ))
    }
}

pub(crate) struct Reader<R: BufRead> {
    objects: Objects<R, Object>,
    /// Jobs without an id get one from their number.
    read: u64,
    /// Copies of the last job.
    copies: VecDeque<String>,
    last: Option<(Place, RawJob)>,
}

impl<R: BufRead> Reader<R> {
    pub(crate) fn new(input: R) -> Self {
        Self {
            objects: Objects::new(input, RECORD_BYTES_MAX),
            read: 0,
            copies: VecDeque::new(),
            last: None,
        }
    }

    fn job(&mut self, place: Place, object: Object) -> Result<RawJob, TraceError> {
        self.read += 1;
        let id = object.id.unwrap_or_else(|| format!("job_{}", self.read));
        let submit_ms = object.start_ms.map_or(0, |start| start.0);
        let refused =
            |reason: String| TraceError::new(place, format!("job {}: {reason}", id.escape_debug()));
        if let Some(Whole(end)) = object.end_ms {
            length_between(submit_ms, end).map_err(refused)?;
        }
        let copies = object.copies.map_or(1, |copies| copies.0).max(1);
        if copies > COPIES_MAX {
            return Err(refused(format!(
                "{copies} copies; at most {COPIES_MAX} are read"
            )));
        }
        self.copies = (2..=copies).map(|copy| format!("{id}_{copy}")).collect();
        let mut by_priority: BTreeMap<i64, Vec<Tasks>> = BTreeMap::new();
        for Task(priority, tasks) in object.tasks {
            by_priority.entry(priority).or_default().push(tasks);
        }
        let stages = by_priority.into_values().rev().collect();
        Ok(RawJob::in_sequence(id, submit_ms, stages))
    }
}

impl<R: BufRead> Source for Reader<R> {
    fn next_job(&mut self) -> Result<Option<(Place, RawJob)>, TraceError> {
        if let Some(id) = self.copies.pop_front()
            && let Some((place, last)) = &self.last
        {
            let stages = last.stages.clone();
            let submit_ms = last.submit_ms;
            return Ok(Some((
                *place,
                RawJob {
                    id,
                    submit_ms,
                    stages,
                },
            )));
        }
        while let Some((place, object)) = self.objects.next_object()? {
            if object.nodes.is_some() && object.id.is_none() && object.tasks.is_empty() {
                continue;
            }
            let job = self.job(place, object)?;
            self.last = (!self.copies.is_empty()).then(|| (place, job.clone()));
            return Ok(Some((place, job)));
        }
        Ok(None)
    }
}
