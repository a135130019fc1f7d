//! Limit on the containers that an attempt places in one heartbeat, lowered by refusals.
//!
//! Additive increase and decrease in proportion, as congestion control does (Chiu and Jain,
//! Computer Networks 1989; the proportion after DCTCP, SIGCOMM 2010). After refusals a heartbeat
//! places at most as many containers as nodes took of the last ones; each heartbeat without
//! refusals adds [`INCREASE`]. Without the limit, hundreds of attempts that know the same few nodes
//! place all that they want again and again, and nearly all of it comes back.

use records::MonoMillis;

use crate::allocator::ALLOCATIONS_PER_CALL_MAX;

/// Containers by which a heartbeat without refusals raises the limit. A burst of 60 jobs of 100
/// containers on 1,000 nodes, with lists of 10, had 0.07, 0.09 and 0.11 refusals per container with
/// 4, 8 and 10 here, and took 126, 115 and 112 s; without the limit 5.1 and 121 s.
const INCREASE: u32 = 10;

/// Milliseconds from the placement of a container in which its end counts as a refusal. A node
/// refuses at the start, or sheds from its queue within a few heartbeats. An end that comes later
/// is mostly an eviction by a guaranteed container, which says nothing about how much was placed at
/// once.
const REFUSAL_AGE_MAX_MS: u64 = 10_000;

/// Limit of one attempt.
#[derive(Clone, Copy, Debug)]
pub(super) struct RefusalLimit {
    limit: u32,
    /// Containers of the last heartbeat that placed any.
    placed: u32,
    /// Refusals since the last heartbeat that placed any or tried to.
    refused: u32,
}

impl RefusalLimit {
    /// Creates the limit of an attempt without refusals: the most that any call allocates.
    pub(super) const fn new() -> Self {
        Self {
            limit: ALLOCATIONS_PER_CALL_MAX,
            placed: 0,
            refused: 0,
        }
    }

    /// Starts a heartbeat, and returns the most containers that it may place: at least 1.
    pub(super) fn next_heartbeat(&mut self) -> u32 {
        self.limit = match std::mem::take(&mut self.refused) {
            0 => self
                .limit
                .saturating_add(INCREASE)
                .min(ALLOCATIONS_PER_CALL_MAX),
            refused => self.limit.min(self.placed).saturating_sub(refused).max(1),
        };
        self.limit
    }

    /// Sets the number of containers that the present heartbeat has placed.
    pub(super) fn set_placed(&mut self, count: u32) {
        if count > 0 {
            self.placed = count;
        }
    }

    /// Counts a refusal of a container that was placed at `placed`.
    pub(super) fn count_refusal(&mut self, placed: MonoMillis, now: MonoMillis) {
        if now.since(placed) <= REFUSAL_AGE_MAX_MS {
            self.refused = self.refused.saturating_add(1);
        }
    }
}
