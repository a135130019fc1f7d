//! Room that a node has for the containers of a call, by what was seen of it.
//!
//! How much of a queue a call may fill depends on what its caller still wants. A queue is served in
//! its order: where one attempt fills all queues with some of its thousands of containers,
//! everybody waits behind them. So an attempt that wants more than [`FEW`] containers leaves most
//! of the queue to others, and keeps what fills the places that become free until its next call.
//! Who wants little may use the queue up to its limit, and the last containers of a large job may,
//! too ("shortest remaining first", with containers for work: nobody knows how long they will run).

use records::{MonoMillis, Resource};

use super::{SIGHT_AGE_MAX_MS, Sight};

/// Most containers for which an attempt may fill a queue to its limit. Simulations of jobs of 1 to
/// 20,000 tasks on 100 and 1,000 nodes hardly differ between 10 and 100.
const FEW: u64 = 30;

/// Terms of the placement of one call's containers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LookTerms {
    /// Size of each container.
    pub size: Resource,
    /// Containers that may wait on a node, as the ResourceManager published; `None`: no limit.
    pub max_queue_length: Option<usize>,
    /// Containers that the caller wants at present, of any size.
    pub wanted: u64,
    /// Containers that end between two calls of the caller, for each thousand that run; 0 if that
    /// is not known.
    pub ends_per_thousand: u64,
}

impl LookTerms {
    /// Returns the most containers that may wait on a node.
    pub(super) fn limit(&self) -> u32 {
        let limit = self.max_queue_length.unwrap_or(usize::MAX);
        u32::try_from(limit).unwrap_or(u32::MAX)
    }

    /// Returns how long a queue the call may make where so many containers run.
    fn queue_length(&self, running: u32) -> u64 {
        let limit = u64::from(self.limit());
        let share = (limit * FEW).div_ceil(self.wanted.max(FEW));
        // Ends come in groups: with twice their mean number hardly a place stays free.
        let ends = self.ends_per_thousand.saturating_mul(2);
        let ends = ends.saturating_mul(running.into()).div_ceil(1_000);
        share.max(ends).min(limit)
    }
}

/// Returns the number of containers of this size that fit.
pub(crate) fn fitting(size: Resource, free: Resource) -> u32 {
    let by_memory = free.memory_mb / size.memory_mb.max(1);
    let by_vcores = free.vcores / size.vcores.max(1);
    by_vcores.min(u32::try_from(by_memory).unwrap_or(u32::MAX))
}

/// Load of a node with what is placed on it.
pub(super) struct Room {
    running: u32,
    queued: u32,
    /// Containers that would start at once.
    fitting: u32,
    /// Containers that the node may get.
    left: u32,
}

impl Room {
    /// Returns the room that a sight leaves; `None` if it is too old.
    pub(super) fn of(sight: &Sight, terms: &LookTerms, now: MonoMillis) -> Option<Self> {
        let age_left_ms = SIGHT_AGE_MAX_MS.checked_sub(now.since(sight.seen_at))?;
        // Where others wait, the free resources are theirs.
        let fitting = match sight.queued {
            0 => fitting(terms.size, sight.free),
            _ => 0,
        };
        let queue_length = terms.queue_length(sight.running.saturating_add(fitting));
        let left = u64::from(fitting) + queue_length.saturating_sub(sight.queued.into());
        let left = (left * age_left_ms).div_ceil(SIGHT_AGE_MAX_MS);
        (age_left_ms > 0).then(|| Self {
            running: sight.running,
            queued: sight.queued,
            fitting,
            left: u32::try_from(left).unwrap_or(u32::MAX),
        })
    }

    pub(super) fn add(&mut self, count: u32) {
        let starts = count.min(self.fitting);
        self.fitting -= starts;
        self.running = self.running.saturating_add(starts);
        self.queued = self.queued.saturating_add(count - starts);
        self.left = self.left.saturating_sub(count);
    }

    /// Returns whether the node may get one more container.
    pub(super) const fn is_open(&self) -> bool {
        self.left > 0
    }

    /// Returns the order of nodes, the better one first: the wait of one more container in
    /// thousandths of the mean run time, then the containers that run.
    pub(super) fn standing(&self) -> Standing {
        let wait = match self.fitting {
            0 => (u64::from(self.queued) + 1) * 1_000 / u64::from(self.running.max(1)),
            _ => 0,
        };
        Standing {
            waits: self.fitting == 0,
            wait,
            running: self.running,
        }
    }
}

/// Place of a node in the order of the nodes seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Standing {
    /// Whether one more container would wait there.
    pub(super) waits: bool,
    wait: u64,
    running: u32,
}
