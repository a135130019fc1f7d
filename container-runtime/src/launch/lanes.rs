//! The queues of launches: one for guaranteed containers and one for opportunistic ones, each with
//! threads of its own.
//!
//! A launch thread sleeps until its child has executed its program. An opportunistic child gets
//! only idle CPU time, which may take long on a busy node. Guaranteed containers do not wait for
//! it.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use records::ExecutionType;

/// Launches that may wait for a launch thread. Each known container is launched at most once at a
/// time, so the queues are never full while the scheduler keeps its own bound.
pub const LAUNCH_QUEUE_MAX: usize = sched::CONTAINERS_MAX;

/// Queues of launches, one for each lane. Dropping it closes the lanes, whose threads end once they
/// are empty.
pub(super) struct Lanes<J> {
    guaranteed: Arc<Lane<J>>,
    opportunistic: Arc<Lane<J>>,
}

/// A queue and the number of its threads. A thread that takes a job starts another when it was the
/// last idle one, so that a job waits only while the lane has all its threads.
///
/// A lock and a condition rather than a channel: the channels at hand spin and yield before they
/// sleep, which costs as much CPU time as a small launch's files.
pub(super) struct Lane<J> {
    /// With the number of the thread behind it at most 15 bytes, which is all that the kernel
    /// keeps.
    pub(super) thread_name: &'static str,
    threads_max: usize,
    state: Mutex<State<J>>,
    /// Notified for a job that an idle thread is to take, and when the lane closes.
    queued: Condvar,
}

struct State<J> {
    jobs: VecDeque<J>,
    is_closed: bool,
    started: usize,
    /// Threads that wait for a job. One that was just started does not count yet.
    idle: usize,
}

impl<J> Lane<J> {
    fn new(thread_name: &'static str, threads_max: usize) -> Arc<Self> {
        Arc::new(Self {
            thread_name,
            threads_max,
            state: Mutex::new(State {
                jobs: VecDeque::new(),
                is_closed: false,
                started: 0,
                idle: 0,
            }),
            queued: Condvar::new(),
        })
    }

    fn state(&self) -> MutexGuard<'_, State<J>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues a job; `false` when the queue is full.
    fn push(&self, job: J) -> bool {
        let mut state = self.state();
        if state.jobs.len() >= LAUNCH_QUEUE_MAX {
            return false;
        }
        state.jobs.push_back(job);
        // More jobs than idle threads: whoever is idle has been notified already.
        let wakes = state.jobs.len() <= state.idle;
        drop(state);
        if wakes {
            self.queued.notify_one();
        }
        true
    }

    fn close(&self) {
        self.state().is_closed = true;
        self.queued.notify_all();
    }

    /// Waits for the next job; `None` once there will be none.
    pub(super) fn next(&self) -> Option<J> {
        let mut state = self.state();
        loop {
            if let Some(job) = state.jobs.pop_front() {
                return Some(job);
            }
            if state.is_closed {
                return None;
            }
            state.idle += 1;
            let woken = self.queued.wait(state);
            state = woken.unwrap_or_else(PoisonError::into_inner);
            state.idle -= 1;
        }
    }

    /// Returns the number of the thread to start if none is idle; `None`: there is one, or the lane
    /// has all its threads.
    pub(super) fn missing_thread(&self) -> Option<usize> {
        let mut state = self.state();
        if state.idle > 0 || state.started == self.threads_max {
            return None;
        }
        state.started += 1;
        Some(state.started)
    }

    /// Takes back what [`Lane::missing_thread`] counted: the thread could not be started.
    pub(super) fn not_started(&self) {
        self.state().started -= 1;
    }
}

impl<J> Lanes<J> {
    /// Makes lanes with at most so many threads for guaranteed containers, and half as many for the
    /// others.
    pub(super) fn new(threads_max: usize) -> Self {
        let threads_max = threads_max.max(1);
        Self {
            guaranteed: Lane::new("launch", threads_max),
            opportunistic: Lane::new("launch-opp", threads_max.div_ceil(2)),
        }
    }

    /// Returns both lanes, for their threads.
    pub(super) fn all(&self) -> [&Arc<Lane<J>>; 2] {
        [&self.guaranteed, &self.opportunistic]
    }

    /// Queues a launch of a container of this type. Returns whether there was room for it.
    pub(super) fn push(&self, execution_type: ExecutionType, job: J) -> bool {
        match execution_type {
            ExecutionType::Guaranteed => self.guaranteed.push(job),
            ExecutionType::Opportunistic => self.opportunistic.push(job),
        }
    }

    /// Returns the number of launches that wait.
    pub(super) fn len(&self) -> usize {
        self.all().map(|lane| lane.state().jobs.len()).iter().sum()
    }
}

impl<J> Drop for Lanes<J> {
    fn drop(&mut self) {
        for lane in self.all() {
            lane.close();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn a_thread_is_missing_when_none_is_idle_up_to_the_limit() {
        let lane = Lane::new("launch", 2);
        assert_eq!(lane.missing_thread(), Some(1));
        assert_eq!(lane.missing_thread(), Some(2));
        assert_eq!(lane.missing_thread(), None);
        lane.not_started();
        lane.state().idle += 1;
        assert_eq!(lane.missing_thread(), None);
        lane.state().idle -= 1;
        assert_eq!(lane.missing_thread(), Some(2));
        assert!(lane.push("job"));
        assert_eq!(lane.next(), Some("job"));
    }

    #[test]
    fn closed_lanes_are_emptied_before_their_threads_end() {
        let lanes = Lanes::new(1);
        let lane = Arc::clone(&lanes.guaranteed);
        assert!(lanes.push(ExecutionType::Guaranteed, 1));
        assert!(lanes.push(ExecutionType::Guaranteed, 2));
        drop(lanes);
        assert_eq!([(); 3].map(|()| lane.next()), [Some(1), Some(2), None]);
    }

    #[test]
    fn every_job_is_taken_whoever_is_idle() {
        let lanes = Lanes::new(3);
        let threads = [(); 3].map(|()| {
            let lane = Arc::clone(&lanes.guaranteed);
            thread::spawn(move || std::iter::from_fn(|| lane.next()).sum::<u64>())
        });
        for job in 1..=1_000 {
            assert!(lanes.push(ExecutionType::Guaranteed, job));
        }
        drop(lanes);
        let sums = threads.map(|thread| thread.join().unwrap());
        assert_eq!(sums.iter().sum::<u64>(), 500_500);
    }
}
