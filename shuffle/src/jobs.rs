//! Jobs whose map outputs may be fetched, and by whom: the table that connections look up.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::hash::HashKey;
use crate::outputs::OutputFolder;

/// Secret of a job: whoever has it may fetch the job's map outputs.
#[derive(Clone)]
pub struct JobSecret(pub Vec<u8>);

impl fmt::Debug for JobSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JobSecret(…)")
    }
}

/// A registered job.
pub(crate) struct Job {
    /// Number of the registration, never used twice: the key of its indexes in the cache.
    pub(crate) serial: u64,
    pub(crate) user: Arc<str>,
    pub(crate) key: HashKey,
    pub(crate) folders: Arc<[OutputFolder]>,
}

/// Jobs by id. Shared: the node writes, connections read.
#[derive(Default)]
pub struct Jobs {
    table: RwLock<Table>,
}

#[derive(Default)]
struct Table {
    by_id: HashMap<Box<str>, Arc<Job>>,
    last_serial: u64,
}

impl Jobs {
    /// Lets whoever has the secret fetch from these folders, on connections that count for this
    /// user. Repeated for each container of a job; the last secret counts, since a new attempt of
    /// an application has a new one.
    pub fn register(
        &self,
        job_id: &str,
        user: Arc<str>,
        secret: &JobSecret,
        folders: Vec<OutputFolder>,
    ) {
        let mut table = self.write();
        let serial = match table.by_id.get(job_id) {
            Some(job) => job.serial,
            None => table.last_serial + 1,
        };
        table.last_serial = table.last_serial.max(serial);
        let job = Job {
            serial,
            user,
            key: HashKey::new(&secret.0),
            folders: folders.into(),
        };
        table.by_id.insert(job_id.into(), Arc::new(job));
    }

    /// Ends the fetching from a job. Answers under way go on. Without effect for an unknown job.
    pub fn remove(&self, job_id: &str) {
        self.write().by_id.remove(job_id);
    }

    /// Returns the number of jobs.
    #[must_use]
    pub fn len(&self) -> usize {
        self.read().by_id.len()
    }

    /// Returns whether no job is registered.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(crate) fn get(&self, job_id: &str) -> Option<Arc<Job>> {
        self.read().by_id.get(job_id).map(Arc::clone)
    }

    // No code that may panic runs under the lock, so the table is whole even if it is poisoned.
    fn read(&self) -> RwLockReadGuard<'_, Table> {
        self.table.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Table> {
        self.table.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Jobs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Jobs").field("len", &self.len()).finish()
    }
}
