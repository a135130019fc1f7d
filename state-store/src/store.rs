//! The file, the thread that writes it, and the handles through which subjects write.

use std::collections::BTreeMap;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;

use redb::{
    Database, ReadableDatabase as _, ReadableTable as _, TableDefinition, TableHandle as _,
};
use thiserror::Error;
use threads::ThreadOwner;

use crate::pending::{Batch, NotStored, Pending, Space, Urgency};

use unsynced::Unsynced;

mod unsynced;

/// Cache of the database, in bytes: a node's records fit, and they are read only at the start.
const CACHE_BYTES: usize = 1 << 20;

/// Version of the key spaces together, in the record [`VERSION_KEY`]. A higher one means that an
/// older agent cannot make sense of them.
const VERSION: u8 = 1;
/// Key space of the store's own records.
const OWN_SPACE: Space = "store";
const VERSION_KEY: &str = "version";

/// Reason for which the store cannot be used.
#[derive(Debug, Error)]
pub enum StoreError {
    /// A file operation failed, or another process uses the file.
    #[error("{operation} the node's state in {}", path.display())]
    File {
        /// Operation that failed.
        operation: &'static str,
        /// Path of the file.
        path: PathBuf,
        /// Cause.
        #[source]
        source: Box<redb::Error>,
    },
    /// A newer agent wrote the file.
    #[error(
        "the node's state in {} has version {found}, and this agent reads versions up to \
         {VERSION}: start the agent that wrote it, or empty the folder once its containers have \
         ended",
        path.display()
    )]
    Newer {
        /// Path of the file.
        path: PathBuf,
        /// Version of the file.
        found: u8,
    },
}

impl StoreError {
    /// Returns whether the content of the file is what makes it unusable, so that nothing is lost
    /// by leaving it out.
    #[must_use]
    pub fn is_damage(&self) -> bool {
        let Self::File { source, .. } = self else {
            return false;
        };
        if let redb::Error::Io(error) = source.as_ref() {
            // Also what is no database at all, or was cut off.
            let kind = error.kind();
            return matches!(
                kind,
                io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof
            );
        }
        matches!(
            source.as_ref(),
            redb::Error::Corrupted(_)
                | redb::Error::UpgradeRequired(_)
                | redb::Error::RepairAborted
                | redb::Error::TableTypeMismatch { .. }
                | redb::Error::TableIsMultimap(_)
        )
    }
}

/// Records of one key space, by key.
pub type Contents = BTreeMap<String, Vec<u8>>;

/// The open file. When the store and all its handles are dropped, the remaining changes are
/// committed and the file is closed.
#[derive(Debug)]
pub struct StateStore {
    writer: Arc<Writer>,
    found: BTreeMap<String, Contents>,
}

/// The thread that writes, and the changes that wait for it.
#[derive(Debug)]
struct Writer {
    owner: ThreadOwner,
    pending: Arc<Pending>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.owner.end();
        self.pending.close();
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the thread that writes the node's state panicked");
        }
    }
}

impl StateStore {
    /// Opens the file and reads all records. Makes the file, and its folder, if they do not exist;
    /// only this user can read them, because records may be secret.
    ///
    /// # Errors
    /// [`StoreError`] when the file cannot be opened, has another format, or is in use.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        let failed = |operation: &'static str, source: redb::Error| StoreError::File {
            operation,
            path: path.to_path_buf(),
            source: Box::new(source),
        };
        let database = open_database(path).map_err(|error| failed("opening", error))?;
        let mut found = read_all(&database).map_err(|error| failed("reading", error))?;
        let own = found.remove(OWN_SPACE).unwrap_or_default();
        let version = own.get(VERSION_KEY).and_then(|record| record.first());
        if let Some(found) = version.copied().filter(|version| *version > VERSION) {
            let path = path.to_path_buf();
            return Err(StoreError::Newer { path, found });
        }
        let pending = Arc::new(Pending::default());
        let (of_thread, path) = (Arc::clone(&pending), path.to_path_buf());
        let owner = ThreadOwner::default();
        let thread = owner
            .start("state-store", move || {
                write_until_closed(&of_thread, database, &path)
            })
            .map_err(|error| failed("starting the thread that writes", error.into()))?;
        let thread = Some(thread);
        let store = Self {
            writer: Arc::new(Writer {
                owner,
                pending,
                thread,
            }),
            found,
        };
        if version.is_none() {
            store.key_space(OWN_SPACE).put(VERSION_KEY, vec![VERSION]);
        }
        Ok(store)
    }

    /// Opens the file like [`open`](Self::open). One whose content is damaged is renamed to
    /// `<name>.damaged-<milliseconds of now>` and replaced by an empty store; the damage is
    /// returned with it.
    ///
    /// # Errors
    /// [`StoreError`] for any other reason, or when the file cannot be renamed.
    pub fn open_or_set_aside(
        path: &Path,
        now_ms: i64,
    ) -> Result<(Self, Option<StoreError>), StoreError> {
        let damage = match Self::open(path) {
            Ok(store) => return Ok((store, None)),
            Err(error) if error.is_damage() => error,
            Err(error) => return Err(error),
        };
        let mut aside = path.to_path_buf().into_os_string();
        aside.push(format!(".damaged-{now_ms}"));
        std::fs::rename(path, aside).map_err(|error| StoreError::File {
            operation: "setting aside",
            path: path.to_path_buf(),
            source: Box::new(error.into()),
        })?;
        Ok((Self::open(path)?, Some(damage)))
    }

    /// Takes the records that a key space had when the store was opened. Empty the second time.
    pub fn take_found(&mut self, space: &str) -> Contents {
        self.found.remove(space).unwrap_or_default()
    }

    /// Returns a handle to a key space. Handles of the same name share their records.
    #[must_use]
    pub fn key_space(&self, name: Space) -> KeySpace {
        KeySpace {
            writer: Arc::clone(&self.writer),
            name,
        }
    }

    /// Returns a handle that waits for changes without keeping the store from its end.
    #[must_use]
    pub fn commits(&self) -> Commits {
        Commits(Arc::clone(&self.writer.pending))
    }
}

/// Waits for commits of a store. Outlives the store, whose last commit is its end.
#[derive(Clone, Debug)]
pub struct Commits(Arc<Pending>);

impl Commits {
    /// Calls `settled` once all changes so far are committed, or lost because their transaction
    /// failed: on the thread that writes, where it must not block, or at once if there are none.
    pub fn when_settled(
        &self,
        urgency: Urgency,
        settled: impl FnOnce(Result<(), NotStored>) + Send + 'static,
    ) {
        self.0.when_settled(urgency, Box::new(settled));
    }
}

/// Handle to the records of one subject.
#[derive(Clone, Debug)]
pub struct KeySpace {
    writer: Arc<Writer>,
    name: Space,
}

impl KeySpace {
    /// Stores a record, in place of an earlier one of the same key.
    pub fn put(&self, key: &str, value: Vec<u8>) {
        let key = key.to_owned();
        self.writer.pending.put(self.name, key, Some(value));
    }

    /// Removes a record.
    pub fn remove(&self, key: &str) {
        self.writer.pending.put(self.name, key.to_owned(), None);
    }

    /// Removes all records whose key begins with `prefix`.
    pub fn clear(&self, prefix: &str) {
        self.writer.pending.clear(self.name, prefix);
    }

    /// Begins a group of records that share the key prefix `prefix` and end together.
    #[must_use]
    pub fn records(&self, prefix: String) -> Records {
        Records {
            id: self.writer.pending.open_group(),
            writer: Arc::clone(&self.writer),
            space: self.name,
            prefix,
        }
    }
}

/// Group of records with one lifetime. After [`end`](Self::end) its writes are ignored,
/// so that a late write cannot follow the removal, nor mix with the records of a later group that
/// has the same prefix.
#[derive(Debug)]
pub struct Records {
    writer: Arc<Writer>,
    /// Number of the group at the writer.
    id: u64,
    space: Space,
    prefix: String,
}

impl Records {
    /// Stores the record `prefix` + `name`, or removes it (`None`).
    pub fn put(&self, name: &str, value: Option<Vec<u8>>) {
        let key = format!("{}{name}", self.prefix);
        let pending = &self.writer.pending;
        pending.put_in_group(self.id, self.space, key, value);
    }

    /// Calls `settled` as [`Commits::when_settled`] does.
    pub fn when_settled(
        &self,
        urgency: Urgency,
        settled: impl FnOnce(Result<(), NotStored>) + Send + 'static,
    ) {
        let pending = &self.writer.pending;
        pending.when_settled(urgency, Box::new(settled));
    }

    /// Removes all records of the prefix and ends the group.
    pub fn end(&self) {
        let pending = &self.writer.pending;
        pending.end_group(self.id, self.space, &self.prefix);
    }
}

impl Drop for Records {
    fn drop(&mut self) {
        self.writer.pending.close_group(self.id);
    }
}

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

const fn table(name: &str) -> TableDefinition<'_, &'static str, &'static [u8]> {
    TableDefinition::new(name)
}

fn read_all(database: &Database) -> Result<BTreeMap<String, Contents>, redb::Error> {
    let transaction = database.begin_read()?;
    let mut found = BTreeMap::new();
    for handle in transaction.list_tables()? {
        let mut contents = Contents::new();
        for entry in transaction.open_table(table(handle.name()))?.iter()? {
            let (key, value) = entry?;
            contents.insert(key.value().to_owned(), value.value().to_vec());
        }
        found.insert(handle.name().to_owned(), contents);
    }
    Ok(found)
}

fn open_database(path: &Path) -> Result<Unsynced, redb::Error> {
    let file = private_file(path)?;
    let mut builder = redb::Builder::new();
    Ok(Unsynced::open(builder.set_cache_size(CACHE_BYTES), file)?)
}

/// Writes a transaction at a time. redb does nothing more with a file once an operation on it has
/// failed, so after a failure the file is opened anew.
fn write_until_closed(pending: &Pending, database: Unsynced, path: &Path) {
    let mut open = Some(database);
    while let Some(batch) = pending.take() {
        let database = open.take().map_or_else(|| open_database(path), Ok);
        let result = database.and_then(|database| {
            commit(&database, &batch)?;
            open = Some(database);
            Ok(())
        });
        pending.written(result.map_err(|error| {
            // A restart now would not find the changes; the running parts have theirs in memory.
            let records = batch.values.len();
            tracing::error!(%error, records, "the node's state cannot be written; it is tried again");
            (NotStored, batch)
        }));
    }
}

fn commit(database: &Database, batch: &Batch) -> Result<(), redb::Error> {
    let transaction = database.begin_write()?;
    for (space, prefix) in &batch.cleared {
        let end = format!("{prefix}{}", char::MAX);
        let mut table = transaction.open_table(table(space))?;
        table.retain_in(prefix.as_str()..end.as_str(), |_, _| false)?;
    }
    let mut values = batch.values.iter().peekable();
    // The keys are in order, so each table is opened once.
    while let Some(((space, _), _)) = values.peek() {
        let space = *space;
        let mut table = transaction.open_table(table(space))?;
        while let Some(((_, key), value)) = values.next_if(|((of, _), _)| *of == space) {
            match value {
                Some(value) => table.insert(key.as_str(), value.as_slice())?,
                None => table.remove(key.as_str())?,
            };
        }
    }
    transaction.commit()?;
    Ok(())
}

#[cfg(test)]
mod tests;
