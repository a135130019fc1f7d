//! Workloads of DynoYARN: an application on each line, with lists of containers that run one after
//! another. `runtimes` gives a container for each of its lengths; without it, `numInstances`
//! containers take `averageRuntime`.

use std::io::BufRead;

use serde::Deserialize;

use crate::input::{Place, RECORD_BYTES_MAX};
use crate::job::{RawJob, Tasks, length_between};
use crate::json::{Objects, Whole, bounded};
use crate::{MEMORY_MB, Source, TraceError};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Application {
    app_id: String,
    submit_time: Whole,
    #[serde(default, deserialize_with = "bounded")]
    resource_request_specs: Vec<Spec>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Spec {
    #[serde(default, deserialize_with = "bounded")]
    runtimes: Vec<Whole>,
    num_instances: Option<Whole>,
    average_runtime: Option<Whole>,
    resource: Option<Size>,
}

#[derive(Clone, Copy, Deserialize)]
struct Size {
    #[serde(rename = "memoryMB")]
    memory_mb: Option<Whole>,
    vcores: Option<Whole>,
}

impl Spec {
    fn tasks(&self) -> Result<Vec<Tasks>, String> {
        let positive = |value: Option<Whole>| value.and_then(|value| u64::try_from(value.0).ok());
        let size = |of: fn(Size) -> Option<Whole>| positive(self.resource.and_then(of));
        let memory_mb = size(|size| size.memory_mb).unwrap_or(MEMORY_MB);
        let vcores = size(|size| size.vcores).unwrap_or(1);
        let of = |Whole(length), count| {
            Ok(Tasks {
                count,
                memory_mb,
                vcores: u32::try_from(vcores).unwrap_or(u32::MAX),
                ..Tasks::of(length_between(0, length)?)
            })
        };
        if !self.runtimes.is_empty() {
            return self.runtimes.iter().map(|length| of(*length, 1)).collect();
        }
        let count = positive(self.num_instances).unwrap_or(0);
        match self.average_runtime {
            _ if count == 0 => Ok(Vec::new()),
            Some(length) => Ok(vec![of(length, count)?]),
            None => Err("containers without runtimes or averageRuntime".to_owned()),
        }
    }
}

pub(crate) struct Reader<R: BufRead> {
    applications: Objects<R, Application>,
}

impl<R: BufRead> Reader<R> {
    pub(crate) fn new(input: R) -> Self {
        let applications = Objects::new(input, RECORD_BYTES_MAX);
        Self { applications }
    }
}

impl<R: BufRead> Source for Reader<R> {
    fn next_job(&mut self) -> Result<Option<(Place, RawJob)>, TraceError> {
        let Some((place, application)) = self.applications.next_object()? else {
            return Ok(None);
        };
        let specs = application.resource_request_specs.iter();
        let stages: Result<_, String> = specs.map(Spec::tasks).collect();
        let id = application.app_id;
        let stages = stages.map_err(|reason| {
            TraceError::new(
                place,
                format!("application {}: {reason}", id.escape_debug()),
            )
        })?;
        let submit_ms = application.submit_time.0;
        Ok(Some((place, RawJob::in_sequence(id, submit_ms, stages))))
    }
}
