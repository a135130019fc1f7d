//! What a connection is doing and since when: written by its task, read by the server's eviction.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::Instant;

/// Low bits of [`Activity::state`] that hold the phase.
const PHASE_BITS: u32 = 2;

/// Phases of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// No request has begun to arrive.
    Idle,
    /// A part of a request's head has arrived.
    Receiving,
    /// A request is being answered.
    Answering,
    /// No further request has begun to arrive after one that its sender was entitled to. Not used
    /// where nobody proves anything.
    Kept,
}

/// Phase of one connection, and the time of its last progress.
#[derive(Debug)]
pub struct Activity {
    /// Start of the server, from which times are counted.
    epoch: Instant,
    /// Milliseconds since `epoch`, then the phase in [`PHASE_BITS`] bits.
    state: AtomicU64,
}

impl Activity {
    /// Returns the activity of a connection that was accepted now.
    #[must_use]
    pub fn new(epoch: Instant) -> Self {
        let activity = Self {
            epoch,
            state: AtomicU64::new(0),
        };
        activity.enter(Phase::Idle);
        activity
    }

    /// Begins a phase now; in the same phase, records progress.
    pub fn enter(&self, phase: Phase) {
        let bits = match phase {
            Phase::Idle => 0,
            Phase::Receiving => 1,
            Phase::Answering => 2,
            Phase::Kept => 3,
        };
        let millis = u64::try_from(self.epoch.elapsed().as_millis()).unwrap_or(u64::MAX);
        // One value, which no other memory depends on.
        self.state
            .store((millis << PHASE_BITS) | bits, Ordering::Relaxed);
    }

    pub(crate) fn phase(&self) -> Phase {
        phase_of(self.state.load(Ordering::Relaxed))
    }

    /// Returns the phase and the time since its last progress.
    #[must_use]
    pub fn phase_and_time(&self) -> (Phase, Duration) {
        let state = self.state.load(Ordering::Relaxed);
        let progress = Duration::from_millis(state >> PHASE_BITS);
        (
            phase_of(state),
            self.epoch.elapsed().saturating_sub(progress),
        )
    }

    /// Returns the order of eviction: connections without a request come first, then those whose
    /// peer has taken nothing for longest. Bytes of a head are no progress: a peer that sends one
    /// each second stays as old as its first.
    pub(crate) fn eviction_rank(&self) -> (bool, u64) {
        let state = self.state.load(Ordering::Relaxed);
        (self.phase() == Phase::Answering, state >> PHASE_BITS)
    }
}

fn phase_of(state: u64) -> Phase {
    match state & ((1 << PHASE_BITS) - 1) {
        0 => Phase::Idle,
        1 => Phase::Receiving,
        2 => Phase::Answering,
        _ => Phase::Kept,
    }
}
