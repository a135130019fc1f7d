//! What a cgroup uses and has suffered: numbers read once, and files kept open to be read every second.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

use crate::error::CgroupError;
use crate::layout::Controller;
use crate::place::{Files, Kind};
use crate::text::{number, value};

/// What a cgroup uses. `None`: no hierarchy tells.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Processor time since it was made, in microseconds.
    pub cpu_usage_us: Option<u64>,
    /// Memory now, page cache included, in bytes.
    pub memory_bytes: Option<u64>,
}

/// What has happened to a cgroup's memory since it was made. `None`: no hierarchy tells.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryEvents {
    /// Processes that the OOM killer ended in it or below.
    pub oom_kills: Option<u64>,
    /// Times that an allocation was about to fail for its own limit, or for one below it (v2). Of the machine's shortage
    /// and of page cache that makes room for itself, nothing is counted.
    pub limit_ooms: Option<u64>,
    /// Times that it was slowed down for being over `memory.high` (v2).
    pub high_hits: Option<u64>,
    /// The most memory that it ever used, in bytes (v2: Linux 5.19).
    pub peak_bytes: Option<u64>,
    /// The limit in force, in bytes; `None` also without one.
    pub limit_bytes: Option<u64>,
}

impl MemoryEvents {
    pub(crate) fn read(files: Files<'_>) -> Result<Self, CgroupError> {
        let Some(folder) = files.controller(Controller::Memory) else {
            return Ok(Self::default());
        };
        match folder.kind {
            Kind::V2 => {
                let events = folder.read("memory.events")?;
                Ok(Self {
                    oom_kills: value(&events, "oom_kill"),
                    limit_ooms: value(&events, "oom"),
                    high_hits: value(&events, "high"),
                    peak_bytes: folder.number_if_there("memory.peak")?,
                    limit_bytes: bound(folder.number("memory.max")?),
                })
            }
            Kind::V1 => {
                let control = folder.read_if_there("memory.oom_control")?;
                Ok(Self {
                    oom_kills: control.and_then(|text| value(&text, "oom_kill")),
                    limit_ooms: None,
                    high_hits: None,
                    peak_bytes: folder.number_if_there("memory.max_usage_in_bytes")?,
                    limit_bytes: bound(folder.number("memory.limit_in_bytes")?),
                })
            }
        }
    }
}

/// v2 says `max`, v1 the largest multiple of a page: nothing near either is a limit.
fn bound(bytes: u64) -> Option<u64> {
    (bytes < 1 << 62).then_some(bytes)
}

/// Files of one cgroup that are kept open, so that a sample costs two reads. Reading goes on as long as the cgroup
/// is there; then it fails.
#[derive(Debug)]
pub struct Sampler {
    cpu: Option<(File, CpuFile)>,
    memory: Option<File>,
}

/// How processor time is told.
#[derive(Clone, Copy, Debug)]
enum CpuFile {
    /// `cpu.stat`: a line `usage_usec N`, the first one.
    Stat,
    /// `cpuacct.usage`: nanoseconds.
    Nanoseconds,
}

/// More than any of these files has before what is looked for.
const SAMPLE_BYTES: usize = 128;

impl Sampler {
    pub(crate) fn open(files: Files<'_>) -> Result<Self, CgroupError> {
        let cpu = if let Some(folder) = files.unified() {
            Some((folder.open("cpu.stat")?, CpuFile::Stat))
        } else if let Some(folder) = files.controller(Controller::Cpuacct) {
            Some((folder.open("cpuacct.usage")?, CpuFile::Nanoseconds))
        } else {
            None
        };
        let memory = files.controller(Controller::Memory).map(|folder| {
            folder.open(match folder.kind {
                Kind::V2 => "memory.current",
                Kind::V1 => "memory.usage_in_bytes",
            })
        });
        Ok(Self {
            cpu,
            memory: memory.transpose()?,
        })
    }

    /// Reads both files.
    ///
    /// # Errors
    /// The cgroup is gone (`ENODEV`), or the kernel says something else than it documents.
    pub fn read(&self) -> io::Result<Usage> {
        let mut buffer = [0; SAMPLE_BYTES];
        let cpu_usage_us = match &self.cpu {
            None => None,
            Some((file, CpuFile::Stat)) => {
                let text = beginning(file, &mut buffer)?;
                let whole_lines = text.rsplit_once('\n').map_or("", |(lines, _)| lines);
                Some(value(whole_lines, "usage_usec").ok_or(io::ErrorKind::InvalidData)?)
            }
            Some((file, CpuFile::Nanoseconds)) => {
                let text = beginning(file, &mut buffer)?;
                Some(number(text).ok_or(io::ErrorKind::InvalidData)? / 1_000)
            }
        };
        let memory_bytes = match &self.memory {
            None => None,
            Some(file) => {
                let text = beginning(file, &mut buffer)?;
                Some(number(text).ok_or(io::ErrorKind::InvalidData)?)
            }
        };
        Ok(Usage {
            cpu_usage_us,
            memory_bytes,
        })
    }
}

fn beginning<'a>(file: &File, buffer: &'a mut [u8; SAMPLE_BYTES]) -> io::Result<&'a str> {
    let length = file.read_at(buffer, 0)?;
    std::str::from_utf8(&buffer[..length]).map_err(io::Error::other)
}
