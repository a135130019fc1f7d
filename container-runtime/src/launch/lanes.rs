//! The queues of launches: one for guaranteed containers and one for opportunistic ones, each with
//! threads of its own.
//!
//! A launch thread sleeps until its child has executed its program. An opportunistic child gets
//! only idle CPU time, which may take long on a busy node. Guaranteed containers do not wait for
//! it.

use crossbeam_channel::{Receiver, Sender, unbounded};
use records::ExecutionType;

/// Launches that may wait for a launch thread. Each known container is launched at most once at a
/// time, so the queues are never full while the scheduler keeps its own bound.
pub const LAUNCH_QUEUE_MAX: usize = sched::CONTAINERS_MAX;

/// Queues of launches, one for each lane.
pub(super) struct Lanes<J> {
    guaranteed: Sender<J>,
    opportunistic: Sender<J>,
}

/// Receiving end of a lane: number and names of its threads, and the channel of their jobs.
pub(super) struct LaneEnd<J> {
    pub(super) threads: usize,
    /// With the number of the thread behind it at most 15 bytes, which is all that the kernel
    /// keeps.
    pub(super) thread_name: &'static str,
    pub(super) jobs: Receiver<J>,
}

impl<J> Lanes<J> {
    /// Lanes with so many threads for guaranteed containers, and half as many for the others.
    pub(super) fn new(threads: usize) -> (Self, [LaneEnd<J>; 2]) {
        // Bounded channels of this size would touch megabytes that an idle agent never needs;
        // `push` bounds them.
        let (guaranteed, first) = unbounded();
        let (opportunistic, second) = unbounded();
        let threads = threads.max(1);
        let ends = [
            LaneEnd {
                threads,
                thread_name: "launch",
                jobs: first,
            },
            LaneEnd {
                threads: threads.div_ceil(2),
                thread_name: "launch-opp",
                jobs: second,
            },
        ];
        let lanes = Self {
            guaranteed,
            opportunistic,
        };
        (lanes, ends)
    }

    /// Queues a launch of a container of this type; whether there was room for it.
    pub(super) fn push(&self, execution_type: ExecutionType, job: J) -> bool {
        let queue = match execution_type {
            ExecutionType::Guaranteed => &self.guaranteed,
            ExecutionType::Opportunistic => &self.opportunistic,
        };
        queue.len() < LAUNCH_QUEUE_MAX && queue.send(job).is_ok()
    }

    /// Launches that wait.
    pub(super) fn len(&self) -> usize {
        self.guaranteed.len() + self.opportunistic.len()
    }
}
