//! Order of the queues: which of the containers that wait for room starts first, and which is shed
//! first. [`place`] is the only code that decides it. Another order is another rank there; queue,
//! index, states and recovery compare places and know nothing of what is in them.

use serde::{Deserialize, Serialize};

use crate::container_spec::ContainerSpec;

/// Place of a waiting container among those of its type that wait like it: frozen, or not started.
/// The smallest starts first, the largest is shed first. No two containers have the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct QueuePlace {
    /// Smaller ranks start first.
    rank: u64,
    /// Number of the event that made the container wait. Among equal ranks, the earlier one starts
    /// first.
    arrival: u64,
}

impl QueuePlace {
    /// Returns the place in a queue whose order is that of the arrivals.
    #[must_use]
    pub const fn fifo(arrival: u64) -> Self {
        Self { rank: 0, arrival }
    }

    /// Returns the number of the event that made the container wait: the earlier, the smaller. An
    /// agent that takes the containers over gives them back in this order.
    #[must_use]
    pub const fn arrival(self) -> u64 {
        self.arrival
    }
}

/// Returns the place of a container that begins to wait with the event of this number: first in,
/// first out, as in Hadoop (`ContainerScheduler`: two linked maps).
pub(crate) const fn place(_spec: &ContainerSpec, arrival: u64) -> QueuePlace {
    QueuePlace::fifo(arrival)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_go_before_arrivals() {
        let place = |rank, arrival| QueuePlace { rank, arrival };
        assert!(place(0, 2) < place(1, 1));
        assert!(place(1, 1) < place(1, 2));
    }
}
