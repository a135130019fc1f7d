//! Traces of jobs: what ran on a cluster, or could, read job by job from eight formats.
//!
//! ```text
//! bytes ─▶ format (csv, sls, rumen, …) ─▶ RawJob + Place ─▶ checks ─▶ TraceJob
//! ```
//!
//! A reader holds one job at a time, so memory does not grow with the length of a trace. What one
//! job may take is bounded: [`TASKS_MAX`] tasks, [`STAGES_MAX`] stages, and for each format a
//! length of its line or object. Everything that cannot be a job is refused with its place: line
//! and byte, counted from 1 and from 0.
//!
//! | module | format | unit of time |
//! |---|---|---|
//! | [`csv`] | ours, written by [`csv::Writer`] | ms |
//! | `sls` | JSON of Hadoop's load simulator | ms |
//! | `rumen` | JSON of Rumen, from MapReduce's history | ms |
//! | `synth` | JSON that describes distributions, from which jobs are drawn | s |
//! | `dynoyarn` | JSON of DynoYARN | ms |
//! | `tr` | text of the simulators of Sparrow, Hawk and Eagle | s |
//! | `swim` | text of SWIM: bytes, from which a model makes durations | s |
//! | `alibaba` | `batch_task` of Alibaba's cluster trace of 2018 | s |
//!
//! In: a `BufRead`. Out: jobs. May not know files, simulations, or policies.

mod alibaba;
mod check;
pub mod csv;
mod dynoyarn;
mod groups;
mod input;
mod job;
mod json;
mod rumen;
pub mod samples;
mod sls;
mod swim;
mod synth;
mod tr;

use std::fmt;
use std::io::BufRead;
use std::str::FromStr;

use thiserror::Error;

pub use check::{IDS_REMEMBERED, Jobs};
pub use input::{LINE_BYTES_MAX, Place, RECORD_BYTES_MAX};
pub use job::{LENGTH_MAX_MS, STAGES_MAX, Stage, TASKS_MAX, Tasks, TraceJob};

use crate::job::RawJob;

/// Memory of a container whose trace does not say it, in MB: the default of Hadoop's load
/// simulator.
pub const MEMORY_MB: u64 = 1_024;

/// Error for bytes that are not a trace.
#[derive(Debug, Error)]
#[error("{place}: {reason}")]
pub struct TraceError {
    /// Place of the fault: for text the line, for JSON the byte at which reading stopped, or the
    /// begin of the job that cannot be.
    pub place: Place,
    /// Description of the fault.
    pub reason: String,
}

impl TraceError {
    fn new(place: Place, reason: impl Into<String>) -> Self {
        let reason = reason.into();
        Self { place, reason }
    }
}

/// Format of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Ours.
    Csv,
    /// Hadoop's load simulator.
    Sls,
    /// Rumen.
    Rumen,
    /// Distributions of Hadoop's load simulator.
    Synth,
    /// DynoYARN.
    DynoYarn,
    /// Sparrow, Hawk and Eagle.
    Tr,
    /// SWIM.
    Swim,
    /// `batch_task` of Alibaba's cluster trace of 2018.
    Alibaba,
}

impl Format {
    /// Every format.
    pub const ALL: [Self; 8] = [
        Self::Csv,
        Self::Sls,
        Self::Rumen,
        Self::Synth,
        Self::DynoYarn,
        Self::Tr,
        Self::Swim,
        Self::Alibaba,
    ];

    /// Returns the name of the format on command lines and in scenarios.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Csv => "csv",
            Self::Sls => "sls",
            Self::Rumen => "rumen",
            Self::Synth => "synth",
            Self::DynoYarn => "dynoyarn",
            Self::Tr => "tr",
            Self::Swim => "swim",
            Self::Alibaba => "alibaba",
        }
    }

    /// Returns the format that the end of a file's name stands for, where it stands for one.
    #[must_use]
    pub fn of_name(name: &str) -> Option<Self> {
        match name.rsplit_once('.')?.1 {
            "csv" => Some(Self::Csv),
            "tr" => Some(Self::Tr),
            "tsv" => Some(Self::Swim),
            _ => None,
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Error for a name that is no format.
#[derive(Debug, Error)]
#[error("no format of traces is called {0:?}; those are {known}", known = known())]
pub struct UnknownFormat(String);

fn known() -> String {
    Format::ALL.map(Format::as_str).join(", ")
}

impl FromStr for Format {
    type Err = UnknownFormat;

    fn from_str(text: &str) -> Result<Self, UnknownFormat> {
        let named = Self::ALL.into_iter().find(|one| one.as_str() == text);
        named.ok_or_else(|| UnknownFormat(text.chars().take(50).collect()))
    }
}

/// Reader of one format: the next job with the place where it begins.
pub(crate) trait Source {
    fn next_job(&mut self) -> Result<Option<(Place, RawJob)>, TraceError>;
}

/// Reads a trace. Ends with the first error.
pub fn jobs<'a>(format: Format, input: impl BufRead + 'a) -> Jobs<'a> {
    Jobs::new(match format {
        Format::Csv => Box::new(csv::Reader::new(input)),
        Format::Sls => Box::new(sls::Reader::new(input)),
        Format::Rumen => Box::new(rumen::Reader::new(input)),
        Format::Synth => Box::new(synth::Reader::new(input)),
        Format::DynoYarn => Box::new(dynoyarn::Reader::new(input)),
        Format::Tr => Box::new(tr::Reader::new(input)),
        Format::Swim => Box::new(swim::Reader::new(input)),
        Format::Alibaba => Box::new(alibaba::Reader::new(input)),
    })
}
