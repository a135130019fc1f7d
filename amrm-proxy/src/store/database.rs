//! Records in one file, written by one thread.
//!
//! Writers leave values in a map, from which the thread takes everything at once and commits it as one transaction, so a
//! burst of changes costs one write to the disk and a slow disk delays no call. The map has at most one value a key: its
//! size is bounded by what the pipelines keep in memory anyway.

use std::collections::BTreeMap;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use redb::{ReadableDatabase as _, ReadableTable as _, TableDefinition};
use thiserror::Error;

use super::{RecordKey, Store};

/// Memory of the database, in bytes: the records of a node fit, and they are read only at the start.
const CACHE_BYTES: usize = 1 << 20;

const TABLE: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("amrm-proxy");

/// Why the store cannot be used.
#[derive(Debug, Error)]
#[error("{what} the AMRMProxy's state in {}", path.display())]
pub struct StoreError {
    /// What was being done.
    what: &'static str,
    /// The file.
    path: PathBuf,
    /// Why.
    #[source]
    source: Box<redb::Error>,
}

#[derive(Debug, Default)]
struct Pending {
    values: BTreeMap<RecordKey, Option<Vec<u8>>>,
    /// The thread is at a transaction.
    writing: bool,
    closed: bool,
}

#[derive(Debug, Default)]
struct Shared {
    pending: Mutex<Pending>,
    /// Told of new values, of the end of a transaction, and of the close.
    changed: Condvar,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Pending> {
        // Values go in and out whole; a panic elsewhere leaves nothing half done.
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A file of records and the thread that writes it. Dropping it writes what is left.
#[derive(Debug)]
pub struct Database {
    shared: Arc<Shared>,
    writer: Option<JoinHandle<()>>,
}

impl Database {
    /// Opens the file, which is made if it is not there, and reads what it has. Records of unknown keys are left out.
    ///
    /// # Errors
    /// When the file cannot be opened, is of another format, or is in use.
    pub fn open(path: &Path) -> Result<(Self, BTreeMap<RecordKey, Vec<u8>>), StoreError> {
        let failed = |what: &'static str, source: redb::Error| StoreError {
            what,
            path: path.to_path_buf(),
            source: Box::new(source),
        };
        let file = private_file(path).map_err(|error| failed("opening", error.into()))?;
        let database = redb::Builder::new()
            .set_cache_size(CACHE_BYTES)
            .create_file(file)
            .map_err(|error| failed("opening", error.into()))?;
        let found = read_all(&database).map_err(|error| failed("reading", error))?;
        let shared = Arc::new(Shared::default());
        let of_thread = Arc::clone(&shared);
        let writer = thread::Builder::new()
            .name("amrm-proxy-store".to_owned())
            .spawn(move || write_until_closed(&of_thread, &database))
            .map_err(|error| failed("starting the thread that writes", error.into()))?;
        let database = Self {
            shared,
            writer: Some(writer),
        };
        Ok((database, found))
    }

    /// Waits until everything put so far is on the disk.
    pub fn flush(&self) {
        let mut pending = self.shared.lock();
        while pending.writing || !pending.values.is_empty() {
            pending = self
                .shared
                .changed
                .wait(pending)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Store for Database {
    fn put(&self, key: RecordKey, value: Option<Vec<u8>>) {
        self.shared.lock().values.insert(key, value);
        self.shared.changed.notify_all();
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        self.shared.lock().closed = true;
        self.shared.changed.notify_all();
        if let Some(writer) = self.writer.take()
            && writer.join().is_err()
        {
            tracing::error!("the thread that writes the AMRMProxy's state panicked");
        }
    }
}

/// The file, for this user's eyes only: the records are secret. Its folder is made likewise.
fn private_file(path: &Path) -> io::Result<File> {
    if let Some(folder) = path.parent() {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder)?;
    }
    OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(path)
}

fn read_all(database: &redb::Database) -> Result<BTreeMap<RecordKey, Vec<u8>>, redb::Error> {
    let mut found = BTreeMap::new();
    let transaction = database.begin_read()?;
    let table = match transaction.open_table(TABLE) {
        Ok(table) => table,
        Err(redb::TableError::TableDoesNotExist(_)) => return Ok(found),
        Err(error) => return Err(error.into()),
    };
    for entry in table.iter()? {
        let (key, value) = entry?;
        match RecordKey::from_text(key.value()) {
            Some(key) => {
                found.insert(key, value.value().to_vec());
            }
            None => tracing::warn!(key = key.value(), "an unknown record of the AMRMProxy"),
        }
    }
    Ok(found)
}

fn write_until_closed(shared: &Shared, database: &redb::Database) {
    loop {
        let values = {
            let mut pending = shared.lock();
            while pending.values.is_empty() {
                if pending.closed {
                    return;
                }
                pending = shared
                    .changed
                    .wait(pending)
                    .unwrap_or_else(PoisonError::into_inner);
            }
            pending.writing = true;
            std::mem::take(&mut pending.values)
        };
        if let Err(error) = write(database, &values) {
            // The records are lost for a restart; the running pipelines have what they need in memory.
            tracing::error!(%error, records = values.len(), "the AMRMProxy's state cannot be written");
        }
        shared.lock().writing = false;
        shared.changed.notify_all();
    }
}

fn write(
    database: &redb::Database,
    values: &BTreeMap<RecordKey, Option<Vec<u8>>>,
) -> Result<(), redb::Error> {
    let transaction = database.begin_write()?;
    {
        let mut table = transaction.open_table(TABLE)?;
        for (key, value) in values {
            let key = key.to_text();
            match value {
                Some(value) => {
                    table.insert(key.as_str(), value.as_slice())?;
                }
                None => {
                    table.remove(key.as_str())?;
                }
            }
        }
    }
    transaction.commit()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use test_support::ids::attempt;

    use super::super::Part;
    use super::*;

    #[test]
    fn what_was_put_last_is_found_after_a_restart() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state.redb");
        let asks = RecordKey::Attempt(attempt(1), Part::Asks);
        {
            let (store, found) = Database::open(&path).unwrap();
            assert_eq!(found, BTreeMap::new());
            for value in 0..100_u8 {
                store.put(asks, Some(vec![value]));
            }
            store.put(RecordKey::Keys, Some(vec![7]));
            store.put(RecordKey::Attempt(attempt(2), Part::Limits), Some(vec![8]));
            store.flush();
            store.forget(attempt(2));
        }
        let (_store, found) = Database::open(&path).unwrap();
        let expected = BTreeMap::from([(RecordKey::Keys, vec![7]), (asks, vec![99])]);
        assert_eq!(found, expected);
    }

    #[test]
    fn a_file_that_is_no_store_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state.redb");
        std::fs::write(&path, b"something else entirely").unwrap();
        let error = Database::open(&path).unwrap_err();
        assert!(error.to_string().contains("state.redb"), "{error}");
    }

    #[test]
    fn nobody_else_may_read_it() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("new").join("state.redb");
        let _store = Database::open(&path).unwrap();
        for path in [path.as_path(), path.parent().unwrap()] {
            let mode = std::fs::metadata(path).unwrap().permissions().mode();
            assert_eq!(mode & 0o077, 0, "{}", path.display());
        }
    }

    #[test]
    fn a_store_in_use_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state.redb");
        let _first = Database::open(&path).unwrap();
        assert!(Database::open(&path).is_err());
    }
}
