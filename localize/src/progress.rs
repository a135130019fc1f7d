//! Progress of one download, shared between the thread that performs it and the books.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Counter of a download's steps, and the request to abort it.
///
/// Relaxed order suffices: neither value guards other memory.
#[derive(Debug, Default)]
pub(super) struct Progress {
    steps: AtomicU64,
    given_up: AtomicBool,
}

impl Progress {
    /// Counts a step: bytes that arrived from the source or that were unpacked, or an entry.
    pub(super) fn count_step(&self) {
        self.steps.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the number of steps so far.
    pub(super) fn steps(&self) -> u64 {
        self.steps.load(Ordering::Relaxed)
    }

    /// Makes the download abort at its next step.
    pub(super) fn give_up(&self) {
        self.given_up.store(true, Ordering::Relaxed);
    }

    /// Returns whether the download must abort.
    pub(super) fn is_given_up(&self) -> bool {
        self.given_up.load(Ordering::Relaxed)
    }
}
