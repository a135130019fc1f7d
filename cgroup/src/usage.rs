//! Usage of a cgroup and its memory events: counters read once, and files kept open to be read
//! every second.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

use crate::error::CgroupError;
use crate::files::{Files, Kind};
use crate::layout::Controller;
use crate::text::{number, value};

/// A sample of a cgroup's usage. `None`: no hierarchy reports it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// CPU time since the cgroup was created, in microseconds.
    pub cpu_usage_us: Option<u64>,
    /// Memory charged now, page cache included, in bytes.
    pub memory_bytes: Option<u64>,
}

/// Counters of a cgroup's memory since its creation. `None`: no hierarchy reports it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryEvents {
    /// Processes killed by the OOM killer in the cgroup or below.
    pub oom_kills: Option<u64>,
    /// Allocations about to fail because of the cgroup's own limit or one below it (v2). Counts
    /// neither shortage of the machine nor page cache that is reclaimed in time.
    pub limit_ooms: Option<u64>,
    /// Times that the cgroup was throttled for exceeding `memory.high` (v2).
    pub high_hits: Option<u64>,
    /// Highest usage so far, in bytes (v2: Linux 5.19).
    pub peak_bytes: Option<u64>,
    /// Limit in force, in bytes; `None` also if unlimited.
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

/// Returns the limit that a file's number stands for. Unlimited is `max` on v2 and the largest
/// multiple of a page on v1: no real limit comes near either.
fn bound(bytes: u64) -> Option<u64> {
    (bytes < 1 << 62).then_some(bytes)
}

/// Files of one cgroup that are kept open, so that a sample costs two reads. Reads fail once the
/// cgroup is removed.
#[derive(Debug)]
pub struct Sampler {
    cpu: Option<(File, CpuFile)>,
    memory: Option<File>,
}

/// Format of the file with the CPU time.
#[derive(Clone, Copy, Debug)]
enum CpuFile {
    /// `cpu.stat`: a line `usage_usec N`, the first one.
    Stat,
    /// `cpuacct.usage`: nanoseconds.
    Nanoseconds,
}

/// Size of the read buffer. More than each file has up to the number wanted.
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

    /// Reads a sample.
    ///
    /// # Errors
    /// The cgroup is removed (`ENODEV`), or a file does not have the documented format.
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
