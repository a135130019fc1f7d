//! One container's cgroup: its limits and its usage. `freezer` and `processes` have the other
//! methods.

use std::path::PathBuf;

use crate::account::Account;
use crate::error::CgroupError;
use crate::files::{Files, HierarchyDirs};
use crate::layout::Controller;
use crate::limits::{Limits, apply};
use crate::pressure::{Resource, pressure};
use crate::text::{Pressure, value};
use crate::usage::{MemoryEvents, Sampler};

/// A cgroup for processes, made by [`crate::Parent::create`]. Dropping the value leaves the cgroup
/// in place.
#[derive(Clone, Debug)]
pub struct Cgroup {
    pub(crate) dirs: HierarchyDirs,
    pub(crate) name: String,
}

impl Cgroup {
    pub(crate) fn new(dirs: HierarchyDirs, name: String) -> Self {
        Self { dirs, name }
    }

    pub(crate) fn files(&self) -> Files<'_> {
        Files::below(&self.dirs, &self.name)
    }

    /// Returns the cgroup's name below its parent.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the cgroup's directories, for messages; the unified hierarchy's first.
    #[must_use]
    pub fn paths(&self) -> Vec<PathBuf> {
        self.files().all().map(|folder| folder.path("")).collect()
    }

    /// Writes limits.
    ///
    /// # Errors
    /// The first write that the kernel refuses; later ones are not tried.
    pub fn apply(&self, limits: &Limits) -> Result<(), CgroupError> {
        apply(self.files(), limits)
    }

    /// Reads the counters of memory events.
    ///
    /// # Errors
    /// A file cannot be read or parsed.
    pub fn memory_events(&self) -> Result<MemoryEvents, CgroupError> {
        MemoryEvents::read(self.files())
    }

    /// Reads what the cgroup has used and holds.
    ///
    /// # Errors
    /// A file cannot be read or parsed.
    pub fn account(&self) -> Result<Account, CgroupError> {
        Account::read(self.files())
    }

    /// Opens the files that [`Sampler::read`] reads.
    ///
    /// # Errors
    /// A file cannot be opened.
    pub fn sampler(&self) -> Result<Sampler, CgroupError> {
        Sampler::open(self.files())
    }

    /// Returns how long tasks waited for a resource (PSI, unified hierarchy only); `None` if the
    /// kernel does not report it.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn pressure(&self, resource: Resource) -> Result<Option<Pressure>, CgroupError> {
        pressure(self.files(), resource)
    }

    /// Returns how often a fork was refused because of `pids_max`; `None` if no hierarchy counts
    /// it.
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

    /// Reclaims up to `bytes` of memory. Returns `false` if the kernel cannot (v1, or before Linux
    /// 5.19). May take as long as writing that much to swap.
    ///
    /// # Errors
    /// The kernel refuses for another reason than finding less to reclaim.
    pub fn reclaim(&self, bytes: u64) -> Result<bool, CgroupError> {
        let Some(folder) = self.files().controller(Controller::Memory) else {
            return Ok(false);
        };
        match folder.write_if_there("memory.reclaim", &bytes.to_string()) {
            Ok(there) => Ok(there),
            // Less was reclaimed than asked for.
            Err(error) if error.errno() == Some(libc::EAGAIN) => Ok(true),
            Err(error) => Err(error),
        }
    }
}
