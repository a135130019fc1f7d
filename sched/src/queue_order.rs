//! Order of the queues: which of the containers that wait for room starts first, and which is shed
//! first. [`place`] is the only code that decides it. Another order is another rank there; queue,
//! index, states and recovery compare places and know nothing of what is in them.
//!
//! A rank is a time: the one at which the container would have ended at the latest. It would have
//! started at the latest
//!
//! - as long after it came as the order lets it wait: a multiple of what its run is expected to
//!   take, or
//! - when it would have started in the order of arrival, if that is later,
//!
//! and the earliest rank starts first. The second line makes the first a bound. The order of
//! arrival meets every rank by what it is, so there is an order that does. On a node of one place
//! the one that takes the earliest rank first meets them too, but for one run that was under way
//! when the container came (earliest deadline first, which preempts nothing: Jackson 1955). So no
//! container waits longer than its bound or than in the order of arrival, whichever is longer, and
//! one run more, as far as lengths are what was expected. A rank stays what it is while time
//! passes, so nothing is sorted again for it.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Order of the opportunistic containers that wait and have not started
/// (`yarn.nodemanager.agent.queue.order`). Guaranteed containers and frozen ones keep the order of
/// arrival under every order, and frozen ones go first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum QueueOrder {
    /// First in, first out, as in Hadoop (`ContainerScheduler`: a linked map).
    #[default]
    Fifo,
    /// The shortest expected run first.
    Shortest,
    /// The attempt with the least left first: the containers of it that wait on this node × their
    /// expected run.
    LeastLeft,
}

impl QueueOrder {
    /// Every order.
    pub const ALL: [Self; 3] = [Self::Fifo, Self::Shortest, Self::LeastLeft];

    /// Returns the word for configurations, pages and logs.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Fifo => "fifo",
            Self::Shortest => "shortest",
            Self::LeastLeft => "least-left",
        }
    }

    /// Returns whether places depend on expected runs.
    pub(crate) const fn uses_lengths(self) -> bool {
        match self {
            Self::Fifo => false,
            Self::Shortest | Self::LeastLeft => true,
        }
    }
}

impl fmt::Display for QueueOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Default of `yarn.nodemanager.agent.queue.bound-factor`: expected runs that a container may wait
/// for others that came later.
pub const QUEUE_BOUND_FACTOR_DEFAULT: u32 = 10;

/// Waiting containers of an attempt from which on `least-left` takes it for a large one. Up to here
/// its containers change their places as one of them leaves; beyond it they keep them.
pub(crate) const ATTEMPT_WAITING_MAX: usize = 8;

/// Longest expected run, in milliseconds: 34 years. Sums over all containers stay far below what
/// their types hold.
pub(crate) const EXPECTED_MAX_MS: u64 = 1 << 40;

/// Place of a waiting container among those of its type that wait like it: frozen, or not started.
/// The smallest starts first, the largest is shed first. No two containers have the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct QueuePlace {
    /// Smaller ranks start first. 0: ranked by its arrival alone; else a time in milliseconds.
    rank: u64,
    /// Number of the event that made the container wait. Among equal ranks, the earlier one starts
    /// first.
    arrival: u64,
    /// Expected run in milliseconds, as of when the rank was made; 0 with the rank 0.
    #[serde(default, skip_serializing_if = "is_zero")]
    expected_ms: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
pub(crate) const fn is_zero(value: &u64) -> bool {
    *value == 0
}

impl QueuePlace {
    /// The smallest place.
    pub(crate) const FIRST: Self = Self::fifo(0);

    /// A place behind all others.
    pub(crate) const LAST: Self = Self {
        rank: u64::MAX,
        arrival: u64::MAX,
        expected_ms: u64::MAX,
    };

    /// Returns the place in a queue whose order is that of the arrivals.
    #[must_use]
    pub const fn fifo(arrival: u64) -> Self {
        Self {
            rank: 0,
            arrival,
            expected_ms: 0,
        }
    }

    /// Returns the number of the event that made the container wait: the earlier, the smaller. An
    /// agent that takes the containers over gives them back in this order.
    #[must_use]
    pub const fn arrival(self) -> u64 {
        self.arrival
    }

    /// Returns the expected run in milliseconds that the place was made with; 0: none.
    pub(crate) const fn expected_ms(self) -> u64 {
        self.expected_ms
    }

    /// Returns whether the place was made with an expected run.
    pub(crate) const fn is_ranked(self) -> bool {
        self.rank > 0
    }
}

/// Facts of a waiting container that an order uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Prospect {
    /// Time at which it began to wait, in milliseconds.
    pub(crate) arrived_ms: u64,
    /// Time at which it would start in the order of arrival, in milliseconds.
    pub(crate) fifo_start_ms: u64,
    /// Milliseconds that it is expected to run.
    pub(crate) expected_ms: u64,
    /// Containers of its attempt that wait here and have not started, itself among them.
    pub(crate) attempt_waiting: usize,
}

/// Returns the place of an opportunistic container under an order; `arrival` is the number of the
/// event with which it began to wait. Under `least-left` the bound of a container is that of
/// `shortest`, or a part of it while few of its attempt wait.
pub(crate) fn place(
    order: QueueOrder,
    bound_factor: u32,
    arrival: u64,
    prospect: Prospect,
) -> QueuePlace {
    let expected_ms = prospect.expected_ms.clamp(1, EXPECTED_MAX_MS);
    let bound_ms = expected_ms.saturating_mul(u64::from(bound_factor));
    let may_wait_ms = match order {
        QueueOrder::Fifo => return QueuePlace::fifo(arrival),
        QueueOrder::Shortest => bound_ms,
        QueueOrder::LeastLeft => {
            let waiting = prospect.attempt_waiting.clamp(1, ATTEMPT_WAITING_MAX);
            let part = |of: usize| u64::try_from(of).unwrap_or(1);
            bound_ms.saturating_mul(part(waiting)) / part(ATTEMPT_WAITING_MAX)
        }
    };
    let start_ms = prospect.arrived_ms.saturating_add(may_wait_ms);
    let start_ms = start_ms.max(prospect.fifo_start_ms);
    QueuePlace {
        rank: start_ms.saturating_add(expected_ms),
        arrival,
        expected_ms,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place_of(order: QueueOrder, came_ms: u64, expected_ms: u64, waiting: usize) -> QueuePlace {
        let prospect = Prospect {
            arrived_ms: came_ms,
            fifo_start_ms: came_ms,
            expected_ms,
            attempt_waiting: waiting,
        };
        place(order, 10, came_ms, prospect)
    }

    #[test]
    fn ranks_go_before_arrivals() {
        let place = |rank, arrival| QueuePlace {
            rank,
            arrival,
            expected_ms: 0,
        };
        assert!(place(0, 2) < place(1, 1));
        assert!(place(1, 1) < place(1, 2));
    }

    #[test]
    fn a_short_one_passes_a_long_one_within_its_bound_and_not_after_it() {
        let long = place_of(QueueOrder::Shortest, 1_000, 26_000, 1);
        assert!(place_of(QueueOrder::Shortest, 9_000, 6_000, 1) < long);
        assert!(place_of(QueueOrder::Shortest, 220_000, 6_000, 1) < long);
        assert!(place_of(QueueOrder::Shortest, 222_000, 6_000, 1) > long);
        assert!(place_of(QueueOrder::Fifo, 9_000, 6_000, 1) > place_of(QueueOrder::Fifo, 1, 1, 1));
    }

    #[test]
    fn of_equal_lengths_the_one_of_the_smaller_attempt_goes_first() {
        let large = place_of(QueueOrder::LeastLeft, 1_000, 6_000, 5);
        assert!(place_of(QueueOrder::LeastLeft, 9_000, 6_000, 1) < large);
        assert!(place_of(QueueOrder::Shortest, 9_000, 6_000, 1) > large);
        let largest = |waiting| place_of(QueueOrder::LeastLeft, 1_000, 6_000, waiting);
        assert_eq!(largest(ATTEMPT_WAITING_MAX), largest(10_000));
    }

    #[test]
    fn any_length_has_a_place() {
        for (order, expected_ms) in [
            (QueueOrder::Shortest, 0),
            (QueueOrder::Shortest, u64::MAX),
            (QueueOrder::LeastLeft, u64::MAX),
        ] {
            let prospect = Prospect {
                arrived_ms: u64::MAX,
                fifo_start_ms: 0,
                expected_ms,
                attempt_waiting: 0,
            };
            let place = place(order, u32::MAX, 1, prospect);
            assert!(place.is_ranked() && place < QueuePlace::LAST, "{place:?}");
        }
    }
}
