//! One container's cgroup: what it is limited to and what it uses. `freezer` and `ending` have the rest of it.

use std::path::PathBuf;

use crate::error::CgroupError;
use crate::layout::Controller;
use crate::limits::{Limits, apply};
use crate::place::{Files, Places};
use crate::pressure::{Resource, pressure};
use crate::text::{Pressure, value};
use crate::usage::{MemoryEvents, Sampler};

/// A cgroup for processes, made by [`crate::Parent::create`]. It stays when this value is dropped.
#[derive(Clone, Debug)]
pub struct Cgroup {
    pub(crate) places: Places,
    pub(crate) name: String,
}

impl Cgroup {
    pub(crate) fn new(places: Places, name: String) -> Self {
        Self { places, name }
    }

    pub(crate) fn files(&self) -> Files<'_> {
        Files::below(&self.places, &self.name)
    }

    /// Its name below its parent.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its directories, for messages; the unified hierarchy's first.
    #[must_use]
    pub fn paths(&self) -> Vec<PathBuf> {
        self.files().all().map(|folder| folder.path("")).collect()
    }

    /// Changes its limits.
    ///
    /// # Errors
    /// The first that the kernel refuses; those after it are not tried.
    pub fn apply(&self, limits: &Limits) -> Result<(), CgroupError> {
        apply(self.files(), limits)
    }

    /// What has happened to its memory.
    ///
    /// # Errors
    /// A file that cannot be read.
    pub fn memory_events(&self) -> Result<MemoryEvents, CgroupError> {
        MemoryEvents::read(self.files())
    }

    /// Opens what [`Sampler::read`] reads.
    ///
    /// # Errors
    /// A file that cannot be opened.
    pub fn sampler(&self) -> Result<Sampler, CgroupError> {
        Sampler::open(self.files())
    }

    /// How long its tasks waited for a resource; `None` where the kernel does not say (PSI, unified hierarchy only).
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn pressure(&self, resource: Resource) -> Result<Option<Pressure>, CgroupError> {
        pressure(self.files(), resource)
    }

    /// Times that a fork was refused for `pids_max`; `None`: no hierarchy tells.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn refused_forks(&self) -> Result<Option<u64>, CgroupError> {
        match self.files().controller(Controller::Pids) {
            None => Ok(None),
            Some(folder) => Ok(folder
                .read_if_there("pids.events")?
                .and_then(|text| value(&text, "max"))),
        }
    }

    /// Presses memory back, at most so many bytes; `false` where the kernel cannot (v1, or before Linux 5.19). May take
    /// as long as writing that much to swap.
    ///
    /// # Errors
    /// The kernel refuses otherwise than by finding less than that.
    pub fn reclaim(&self, bytes: u64) -> Result<bool, CgroupError> {
        let Some(folder) = self.files().controller(Controller::Memory) else {
            return Ok(false);
        };
        match folder.write_if_there("memory.reclaim", &bytes.to_string()) {
            Ok(there) => Ok(there),
            // It found less than was asked for.
            Err(error) if error.errno() == Some(libc::EAGAIN) => Ok(true),
            Err(error) => Err(error),
        }
    }
}
