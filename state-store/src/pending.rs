//! Changes that wait for the writer thread, and the groups of records that may still change.
//!
//! Callers and the thread share them under a lock, which is held for a few map operations and never
//! during a write to the disk. A channel would not do: it would have to be unbounded, while the map
//! keeps one value per key, so that its size is bounded by the state that the subjects keep anyway.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Time for which changes that nobody waits for are gathered, so that they share a transaction.
const GATHER: Duration = Duration::from_millis(2);
/// Time from a failed transaction to the next attempt to write its changes, if nothing new comes.
const RETRY: Duration = Duration::from_secs(1);
/// Maximum of changes, old and new, that are kept while the disk takes none.
const KEPT_MAX: usize = 65_536;

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

    fn len(&self) -> usize {
        self.cleared.len() + self.values.len()
    }

    /// Puts changes before those of this batch, which win.
    fn precede(&mut self, earlier: Self) {
        for ((space, key), value) in earlier.values {
            let is_cleared = self
                .cleared
                .iter()
                .any(|(of, prefix)| *of == space && key.starts_with(prefix.as_str()));
            if !is_cleared {
                self.values.entry((space, key)).or_insert(value);
            }
        }
        self.cleared.extend(earlier.cleared);
    }
}

/// Called once with the outcome of the changes that it waits for.
type Settled = Box<dyn FnOnce(Result<(), NotStored>) + Send>;

/// Error of changes whose transaction has failed: a restart may not find them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the node's state cannot be written")]
pub struct NotStored;

/// How soon changes are written for one who waits for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Urgency {
    /// At once.
    Now,
    /// With what else is gathered within a few milliseconds.
    Gathered,
}

/// Caller that waits for the changes before.
struct Waiter {
    settled: Settled,
    /// Changes before it are lost.
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
    /// Time at which the batch is written, if nobody waits for it; `None`: it is empty.
    due_at: Option<Instant>,
    /// The batch holds only what a failed transaction did.
    has_failed: bool,
    /// Whether one of `waiters` has the urgency [`Urgency::Now`].
    is_urgent: bool,
}

impl Changes {
    /// Returns the time left until the batch is to be written; `None`: it is empty.
    fn pause(&self) -> Option<Duration> {
        let due_at = self.due_at?;
        let is_wanted = self.is_closed || self.is_urgent;
        Some(if is_wanted && !self.has_failed {
            Duration::ZERO
        } else {
            due_at.saturating_duration_since(Instant::now())
        })
    }
}

/// Changes that wait, shared by the callers and the writer thread.
#[derive(Debug, Default)]
pub(crate) struct Pending {
    changes: Mutex<Changes>,
    /// Notifies the writer thread of changes, of one who waits for them, and of the close.
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

    fn wait_at_most<'a>(
        &self,
        changes: MutexGuard<'a, Changes>,
        pause: Duration,
    ) -> MutexGuard<'a, Changes> {
        let waited = self.changed.wait_timeout(changes, pause);
        waited.unwrap_or_else(PoisonError::into_inner).0
    }

    /// Sets or removes a record.
    pub(crate) fn put(&self, space: Space, key: String, value: Option<Vec<u8>>) {
        let mut changes = self.lock();
        changes.batch.values.insert((space, key), value);
        self.has_changed(&mut changes);
    }

    /// Makes the batch due soon. Wakes the writer only if it would wait longer than that.
    fn has_changed(&self, changes: &mut Changes) {
        if changes.due_at.is_none() || changes.has_failed {
            changes.due_at = Some(Instant::now() + GATHER);
            changes.has_failed = false;
            self.changed.notify_one();
        }
    }

    /// Removes all records of this prefix.
    pub(crate) fn clear(&self, space: Space, prefix: &str) {
        let mut changes = self.lock();
        changes.batch.clear(space, prefix);
        self.has_changed(&mut changes);
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
            self.has_changed(&mut changes);
        }
    }

    /// Ends a group and removes all records of its prefix. Does nothing if the group has ended
    /// before: the prefix may belong to another group by now.
    pub(crate) fn end_group(&self, group: u64, space: Space, prefix: &str) {
        let mut changes = self.lock();
        if changes.groups.remove(&group) {
            changes.batch.clear(space, prefix);
            self.has_changed(&mut changes);
        }
    }

    /// Ends a group whose records stay.
    pub(crate) fn close_group(&self, group: u64) {
        self.lock().groups.remove(&group);
    }

    /// Calls `settled` once all changes so far are committed or lost: on the writer thread, or at
    /// once if there are none.
    pub(crate) fn when_settled(&self, urgency: Urgency, settled: Settled) {
        let waiter = Waiter {
            settled,
            has_failed: false,
        };
        let mut changes = self.lock();
        if !changes.batch.is_empty() {
            changes.waiters.push(waiter);
            if urgency == Urgency::Now {
                changes.is_urgent = true;
                // Also what failed before is tried again at once.
                changes.has_failed = false;
                self.changed.notify_one();
            }
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
        self.changed.notify_one();
    }

    /// Waits for changes and takes them; `None` after the close. [`written`](Self::written)
    /// follows.
    pub(crate) fn take(&self) -> Option<Batch> {
        let mut changes = self.lock();
        loop {
            let pause = changes.pause();
            if changes.is_closed && (pause.is_none() || changes.has_failed) {
                return None;
            }
            changes = match pause {
                None => self.wait(changes),
                Some(Duration::ZERO) => break,
                Some(pause) => self.wait_at_most(changes, pause),
            };
        }
        changes.due_at = None;
        changes.has_failed = false;
        changes.is_urgent = false;
        changes.is_writing = true;
        changes.written_for = std::mem::take(&mut changes.waiters);
        Some(std::mem::take(&mut changes.batch))
    }

    /// Ends the transaction that [`take`](Self::take) began, and tells who waited for it. The
    /// changes of one that failed are written with the next.
    pub(crate) fn written(&self, result: Result<(), (NotStored, Batch)>) {
        let mut changes = self.lock();
        changes.is_writing = false;
        let mut settled = std::mem::take(&mut changes.written_for);
        if let Err((NotStored, lost)) = result {
            for waiter in &mut settled {
                waiter.has_failed = true;
            }
            if changes.batch.is_empty() {
                changes.has_failed = true;
                changes.due_at = Some(Instant::now() + RETRY);
            }
            if changes.batch.len() + lost.len() <= KEPT_MAX {
                changes.batch.precede(lost);
            } else {
                // Those that wait for later changes may have made some of the lost ones too.
                for waiter in &mut changes.waiters {
                    waiter.has_failed = true;
                }
            }
        }
        drop(changes);
        for waiter in settled {
            waiter.settle();
        }
    }
}
