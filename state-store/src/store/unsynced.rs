//! The database's file, whose commits do not wait for the disk.
//!
//! What a commit has written survives the end of the process in whatever way it ends: the kernel
//! holds it. Only a failure of the machine can lose it, and after that no container runs which the
//! records could describe. Hadoop's `NMLeveldbStateStoreService` does not wait for the disk either.
//!
//! After such a failure the file may hold pages of several commits. The database then checks the
//! checksum of each page, because the file says that it was not closed: this statement is on the
//! disk before the first commit, and is withdrawn after the last one is. So a file whose pages do
//! not fit together is found to be damaged, never read as if they did.

use std::fs::File;
use std::io;
use std::ops::{Bound, Deref};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use redb::backends::FileBackend;
use redb::{BackendError, Builder, Database, DatabaseError, StorageBackend};

/// Open database. Opening and closing wait for the disk, and commits do not.
#[derive(Debug)]
pub(super) struct Unsynced {
    database: Database,
    waits_for_disk: Arc<AtomicBool>,
}

impl Unsynced {
    /// Opens the database of a file, or makes it in an empty one.
    pub(super) fn open(builder: &Builder, file: File) -> Result<Self, DatabaseError> {
        let waits_for_disk = Arc::new(AtomicBool::new(true));
        let database = builder.create_with_backend(Backend {
            file: FileBackend::new(file)?,
            waits_for_disk: Arc::clone(&waits_for_disk),
        })?;
        waits_for_disk.store(false, Ordering::Release);
        Ok(Self {
            database,
            waits_for_disk,
        })
    }
}

impl Deref for Unsynced {
    type Target = Database;

    fn deref(&self) -> &Database {
        &self.database
    }
}

impl Drop for Unsynced {
    fn drop(&mut self) {
        // The database is closed after this.
        self.waits_for_disk.store(true, Ordering::Release);
    }
}

/// File as the database sees it.
#[derive(Debug)]
struct Backend {
    file: FileBackend,
    waits_for_disk: Arc<AtomicBool>,
}

impl StorageBackend for Backend {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.file.read(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        if self.waits_for_disk.load(Ordering::Acquire) {
            self.file.sync_data()?;
        }
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.file.write(offset, data)
    }

    fn close(&self) -> io::Result<()> {
        self.file.close()
    }

    fn try_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.file.try_lock_range(start, end)
    }

    fn try_lock_shared_range(
        &self,
        start: Bound<u64>,
        end: Bound<u64>,
    ) -> Result<bool, BackendError> {
        self.file.try_lock_shared_range(start, end)
    }

    fn lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.file.lock_range(start, end)
    }

    fn lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.file.lock_shared_range(start, end)
    }

    fn unlock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.file.unlock_range(start, end)
    }

    fn query_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.file.query_lock_range(start, end)
    }
}
