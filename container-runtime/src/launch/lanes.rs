//! The queues of launches: one for guaranteed containers and one for opportunistic ones, each with
//! threads of its own.
//!
//! A launch thread sleeps until its child has executed its program. An opportunistic child gets
//! only idle CPU time, which may take long on a busy node. Guaranteed containers do not wait for
//! it.

use std::sync::{Mutex, MutexGuard, PoisonError};

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

/// Receiving end of a lane, shared by its threads. A thread that takes a job starts another when it
/// was the last idle one, so that a job waits only while the lane has all its threads.
pub(super) struct Lane<J> {
    /// With the number of the thread behind it at most 15 bytes, which is all that the kernel
    /// keeps.
    pub(super) thread_name: &'static str,
    jobs: Receiver<J>,
    threads_max: usize,
    threads: Mutex<Threads>,
}

/// Numbers of a lane's threads.
#[derive(Default)]
struct Threads {
    started: usize,
    /// Threads that wait for a job. One that was just started does not count yet.
    idle: usize,
}

impl<J> Lane<J> {
    fn new(thread_name: &'static str, threads_max: usize) -> (Sender<J>, Self) {
        // A bounded channel of this size would touch megabytes that an idle agent never needs;
        // `push` bounds it.
        let (sender, jobs) = unbounded();
        let lane = Self {
            thread_name,
            jobs,
            threads_max,
            threads: Mutex::default(),
        };
        (sender, lane)
    }

    fn threads(&self) -> MutexGuard<'_, Threads> {
        self.threads.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the next job; `None` once there will be none.
    pub(super) fn next(&self) -> Option<J> {
        self.threads().idle += 1;
        let job = self.jobs.recv().ok();
        self.threads().idle -= 1;
        job
    }

    /// Returns the number of the thread to start if none is idle; `None`: there is one, or the lane
    /// has all its threads.
    pub(super) fn missing_thread(&self) -> Option<usize> {
        let mut threads = self.threads();
        if threads.idle > 0 || threads.started == self.threads_max {
            return None;
        }
        threads.started += 1;
        Some(threads.started)
    }

    /// Takes back what [`Lane::missing_thread`] counted: the thread could not be started.
    pub(super) fn not_started(&self) {
        self.threads().started -= 1;
    }
}

impl<J> Lanes<J> {
    /// Makes lanes with at most so many threads for guaranteed containers, and half as many for the
    /// others.
    pub(super) fn new(threads_max: usize) -> (Self, [Lane<J>; 2]) {
        let threads_max = threads_max.max(1);
        let (guaranteed, first) = Lane::new("launch", threads_max);
        let (opportunistic, second) = Lane::new("launch-opp", threads_max.div_ceil(2));
        let lanes = Self {
            guaranteed,
            opportunistic,
        };
        (lanes, [first, second])
    }

    /// Queues a launch of a container of this type. Returns whether there was room for it.
    pub(super) fn push(&self, execution_type: ExecutionType, job: J) -> bool {
        let queue = match execution_type {
            ExecutionType::Guaranteed => &self.guaranteed,
            ExecutionType::Opportunistic => &self.opportunistic,
        };
        queue.len() < LAUNCH_QUEUE_MAX && queue.send(job).is_ok()
    }

    /// Returns the number of launches that wait.
    pub(super) fn len(&self) -> usize {
        self.guaranteed.len() + self.opportunistic.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_missing_when_none_is_idle_up_to_the_limit() {
        let (lanes, [lane, _]) = Lanes::new(2);
        assert_eq!(lane.missing_thread(), Some(1));
        assert_eq!(lane.missing_thread(), Some(2));
        assert_eq!(lane.missing_thread(), None);
        lane.not_started();
        lane.threads().idle += 1;
        assert_eq!(lane.missing_thread(), None);
        lane.threads().idle -= 1;
        assert_eq!(lane.missing_thread(), Some(2));
        assert!(lanes.push(ExecutionType::Guaranteed, "job"));
        assert_eq!(lane.next(), Some("job"));
    }
}
