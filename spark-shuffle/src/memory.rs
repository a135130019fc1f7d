//! Budget of the memory that peers can make this service hold: requests that are being received,
//! and the blocks of open streams.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Bytes that all connections of a service may hold together.
#[derive(Debug)]
pub(crate) struct Memory {
    taken: AtomicUsize,
    bytes_max: usize,
}

/// Bytes that are given back when this is dropped.
#[derive(Debug)]
pub(crate) struct Charge {
    memory: Arc<Memory>,
    bytes: usize,
}

impl Memory {
    pub(crate) const fn new(bytes_max: usize) -> Self {
        Self {
            taken: AtomicUsize::new(0),
            bytes_max,
        }
    }

    /// Returns a charge of nothing.
    pub(crate) fn charge(self: &Arc<Self>) -> Charge {
        Charge {
            memory: Arc::clone(self),
            bytes: 0,
        }
    }

    fn take(&self, more: usize) -> bool {
        let step = |taken: usize| {
            let sum = taken.checked_add(more)?;
            (sum <= self.bytes_max).then_some(sum)
        };
        // One value, which no other memory depends on.
        let taken = self
            .taken
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, step);
        taken.is_ok()
    }
}

impl Charge {
    /// Changes the charge to this many bytes. Returns whether they could be had; giving back always
    /// succeeds.
    #[must_use]
    pub(crate) fn set(&mut self, bytes: usize) -> bool {
        if bytes > self.bytes {
            if !self.memory.take(bytes - self.bytes) {
                return false;
            }
        } else {
            let less = self.bytes - bytes;
            self.memory.taken.fetch_sub(less, Ordering::Relaxed);
        }
        self.bytes = bytes;
        true
    }

    /// Adds bytes, as [`Charge::set`] does.
    #[must_use]
    pub(crate) fn add(&mut self, more: usize) -> bool {
        self.set(self.bytes.saturating_add(more))
    }

    pub(crate) fn subtract(&mut self, less: usize) {
        let _less_is_had = self.set(self.bytes.saturating_sub(less));
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        let _nothing_is_had = self.set(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_than_all_is_taken_and_all_comes_back() {
        let memory = Arc::new(Memory::new(10));
        let (mut one, mut other) = (memory.charge(), memory.charge());
        assert!(one.set(6) && other.add(4));
        assert!(!other.add(1) && !one.add(usize::MAX));
        one.subtract(5);
        assert!(other.add(5));
        drop(one);
        drop(other);
        assert_eq!(memory.taken.load(Ordering::Relaxed), 0);
    }
}
