//! Pressure stall information of a cgroup (PSI): read once, or from a file kept open to be read
//! every second. Only the unified hierarchy reports it; no controller is needed.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

use crate::error::CgroupError;
use crate::files::Files;
use crate::text::Pressure;

/// A resource that tasks wait for ([`crate::Cgroup::pressure`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resource {
    /// CPU time.
    Cpu,
    /// Memory that has to be reclaimed first.
    Memory,
    /// Block devices.
    Io,
}

impl Resource {
    const fn file(self) -> &'static str {
        match self {
            Self::Cpu => "cpu.pressure",
            Self::Memory => "memory.pressure",
            Self::Io => "io.pressure",
        }
    }
}

/// Size of the read buffer. More than the two lines can have.
const SAMPLE_BYTES: usize = 256;

/// A pressure file of one cgroup that is kept open, so that a sample costs one read. Reads fail
/// once the cgroup is removed.
#[derive(Debug)]
pub struct PressureFile(File);

impl PressureFile {
    /// Opens the file; `None` if no unified hierarchy is used or its kernel has no PSI.
    pub(crate) fn open(files: Files<'_>, resource: Resource) -> Result<Option<Self>, CgroupError> {
        let Some(folder) = files.unified() else {
            return Ok(None);
        };
        match folder.open(resource.file()) {
            Ok(file) => Ok(Some(Self(file))),
            Err(error) if error.errno() == Some(libc::ENOENT) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Reads how long tasks waited until now; `None` if PSI is disabled, at boot or for this
    /// cgroup. The kernel counts the time since the last read, whoever made it, in whole jiffies
    /// of up to 10 ms: of reads that come sooner than that, one after the other, none adds
    /// anything to the total (`collect_percpu_times` in `kernel/sched/psi.c`).
    ///
    /// # Errors
    /// The cgroup is removed (`ENODEV`), or the file does not have the documented format.
    pub fn read(&self) -> io::Result<Option<Pressure>> {
        let mut buffer = [0; SAMPLE_BYTES];
        let length = match self.0.read_at(&mut buffer, 0) {
            Ok(length) => length,
            Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => return Ok(None),
            Err(error) => return Err(error),
        };
        let text = std::str::from_utf8(&buffer[..length]).map_err(io::Error::other)?;
        let pressure = Pressure::parse(text).ok_or(io::ErrorKind::InvalidData)?;
        Ok(Some(pressure))
    }
}

/// Reads a cgroup's pressure once.
pub(crate) fn pressure(
    files: Files<'_>,
    resource: Resource,
) -> Result<Option<Pressure>, CgroupError> {
    let (Some(folder), Some(file)) = (files.unified(), PressureFile::open(files, resource)?) else {
        return Ok(None);
    };
    file.read().map_err(|source| CgroupError::Io {
        operation: "read",
        path: folder.path(resource.file()),
        source,
    })
}
