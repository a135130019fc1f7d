//! Changes that wait for the writer thread, and the groups of records that may still change.
//!
//! Callers and the thread share them under a lock, which is held for a few map operations and never
//! during a write to the disk. A channel would not do: it would have to be unbounded, while the map
//! keeps one value per key, so that its size is bounded by the state that the subjects keep anyway.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Name of a key space, and of its table in the file.
pub(crate) type Space = &'static str;

/// Changes for one transaction. Removals by prefix are applied before the values.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Batch {
    pub(crate) cleared: BTreeSet<(Space, String)>,
    /// New value of each key; `None` removes the record.
    pub(crate) values: BTreeMap<(Space, String), Option<Vec<u8>>>,
}

impl Batch {
    fn is_empty(&self) -> bool {
        self.cleared.is_empty() && self.values.is_empty()
    }

    /// Removes all records of this prefix, also those in the batch.
    fn clear(&mut self, space: Space, prefix: &str) {
        self.values
            .retain(|(of, key), _| *of != space || !key.starts_with(prefix));
        self.cleared.insert((space, prefix.to_owned()));
    }
}

/// Called once with the outcome of the changes that it waits for.
type Settled = Box<dyn FnOnce(Result<(), NotStored>) + Send>;

/// Error of changes whose transaction has failed: a restart will not find them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the node's state cannot be written")]
pub struct NotStored;

/// Caller that waits for the changes before.
struct Waiter {
    settled: Settled,
    /// A transaction that holds changes before it has failed.
    has_failed: bool,
}

impl std::fmt::Debug for Waiter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { has_failed, .. } = self;
        f.debug_struct("Waiter")
            .field("has_failed", has_failed)
            .finish_non_exhaustive()
    }
}

impl Waiter {
    fn settle(self) {
        let Self {
            settled,
            has_failed,
        } = self;
        settled(if has_failed { Err(NotStored) } else { Ok(()) });
    }
}

/// State behind the lock.
#[derive(Debug, Default)]
struct Changes {
    batch: Batch,
    /// Waiters for the batch.
    waiters: Vec<Waiter>,
    /// Waiters for the transaction being written.
    written_for: Vec<Waiter>,
    /// Groups of records that have not ended.
    groups: BTreeSet<u64>,
    groups_opened: u64,
    is_writing: bool,
    is_closed: bool,
}

/// Changes that wait, shared by the callers and the writer thread.
#[derive(Debug, Default)]
pub(crate) struct Pending {
    changes: Mutex<Changes>,
    /// Notified of new changes, of the end of a transaction, and of the close.
    changed: Condvar,
}

impl Pending {
    fn lock(&self) -> MutexGuard<'_, Changes> {
        // Each change is complete when the lock is released, so a panic elsewhere breaks nothing.
        self.changes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, changes: MutexGuard<'a, Changes>) -> MutexGuard<'a, Changes> {
        self.changed
            .wait(changes)
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets or removes a record.
    pub(crate) fn put(&self, space: Space, key: String, value: Option<Vec<u8>>) {
        self.lock().batch.values.insert((space, key), value);
        self.changed.notify_all();
    }

    /// Removes all records of this prefix.
    pub(crate) fn clear(&self, space: Space, prefix: &str) {
        self.lock().batch.clear(space, prefix);
        self.changed.notify_all();
    }

    /// Opens a group of records and returns its number.
    pub(crate) fn open_group(&self) -> u64 {
        let mut changes = self.lock();
        changes.groups_opened += 1;
        let group = changes.groups_opened;
        changes.groups.insert(group);
        group
    }

    /// Sets or removes a record, unless this group has ended.
    pub(crate) fn put_in_group(
        &self,
        group: u64,
        space: Space,
        key: String,
        value: Option<Vec<u8>>,
    ) {
        let mut changes = self.lock();
        if changes.groups.contains(&group) {
            changes.batch.values.insert((space, key), value);
            self.changed.notify_all();
        }
    }

    /// Ends a group and removes all records of its prefix. Does nothing if the group has ended
    /// before: the prefix may belong to another group by now.
    pub(crate) fn end_group(&self, group: u64, space: Space, prefix: &str) {
        let mut changes = self.lock();
        if changes.groups.remove(&group) {
            changes.batch.clear(space, prefix);
            self.changed.notify_all();
        }
    }

    /// Ends a group whose records stay.
    pub(crate) fn close_group(&self, group: u64) {
        self.lock().groups.remove(&group);
    }

    /// Waits until all changes so far are committed, or their transaction has failed.
    pub(crate) fn flush(&self) {
        let mut changes = self.lock();
        while changes.is_writing || !changes.batch.is_empty() {
            changes = self.wait(changes);
        }
    }

    /// Calls `settled` once all changes so far are committed or lost: on the writer thread, or at
    /// once if there are none.
    pub(crate) fn when_settled(&self, settled: Settled) {
        let waiter = Waiter {
            settled,
            has_failed: false,
        };
        let mut changes = self.lock();
        if !changes.batch.is_empty() {
            changes.waiters.push(waiter);
        } else if changes.is_writing {
            changes.written_for.push(waiter);
        } else {
            drop(changes);
            waiter.settle();
        }
    }

    /// Makes [`take`](Self::take) return `None` once all changes are taken.
    pub(crate) fn close(&self) {
        self.lock().is_closed = true;
        self.changed.notify_all();
    }

    /// Waits for changes and takes them; `None` after the close. [`written`](Self::written)
    /// follows.
    pub(crate) fn take(&self) -> Option<Batch> {
        let mut changes = self.lock();
        while changes.batch.is_empty() {
            if changes.is_closed {
                return None;
            }
            changes = self.wait(changes);
        }
        changes.is_writing = true;
        changes.written_for = std::mem::take(&mut changes.waiters);
        Some(std::mem::take(&mut changes.batch))
    }

    /// Ends the transaction that [`take`](Self::take) began, and tells who waited for it.
    pub(crate) fn written(&self, result: Result<(), NotStored>) {
        let mut changes = self.lock();
        changes.is_writing = false;
        let mut settled = std::mem::take(&mut changes.written_for);
        if result.is_err() {
            // Those that wait for later changes may have made some of the lost ones too.
            let Changes { waiters, .. } = &mut *changes;
            for waiter in settled.iter_mut().chain(waiters) {
                waiter.has_failed = true;
            }
        }
        drop(changes);
        self.changed.notify_all();
        for waiter in settled {
            waiter.settle();
        }
    }
}
