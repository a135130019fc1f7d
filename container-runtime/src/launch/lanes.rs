//! The queues of launches: one for guaranteed containers and one for opportunistic ones, each with
//! threads of its own.
//!
//! A launch thread sleeps until its child has executed its program. An opportunistic child gets
//! only idle CPU time, which may take long on a busy node. Guaranteed containers do not wait for
//! it.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::Instant;

use records::ExecutionType;
use threads::{Pool, PoolConfig, Work};

/// Launches that may wait for a launch thread. Each known container is launched at most once at a
/// time, so the queues are never full while the scheduler keeps its own bound.
pub const LAUNCH_QUEUE_MAX: usize = sched::CONTAINERS_MAX;

/// Waiting launches below which a queue keeps its memory.
const CAPACITY_KEPT: usize = 64;

/// Queues of launches, one for each lane. Dropping it closes the lanes, whose threads end once they
/// are empty.
pub(super) struct Lanes<J: Send + 'static> {
    guaranteed: LaneEnd<J>,
    opportunistic: LaneEnd<J>,
}

/// Launches that wait for a thread.
struct Lane<J>(VecDeque<J>);

/// Handle of a lane, for launches that return to it. Cheap to clone.
pub(super) struct LaneEnd<J: Send + 'static>(Pool<Lane<J>>);

impl<J: Send + 'static> Clone for LaneEnd<J> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<J: Send + 'static> LaneEnd<J> {
    /// Queues a launch. Returns whether there was room for it.
    pub(super) fn push(&self, job: J) -> bool {
        self.0.change(|Lane(jobs)| {
            let has_room = jobs.len() < LAUNCH_QUEUE_MAX;
            if has_room {
                jobs.push_back(job);
            }
            (usize::from(has_room), has_room)
        })
    }
}

impl<J: Send + 'static> Work for Lane<J> {
    type Job = J;

    fn next(&mut self, _now: Instant) -> Result<J, Option<Instant>> {
        let job = self.0.pop_front().ok_or(None);
        if self.0.is_empty() {
            self.0.shrink_to(CAPACITY_KEPT);
        }
        job
    }
}

impl<J: Send + 'static> Lanes<J> {
    /// Starts lanes with at most so many threads for guaranteed containers, and half as many for
    /// the others, which call `launch` with each job and the lane that it was in.
    ///
    /// # Errors
    /// A thread cannot be started.
    pub(super) fn start(
        threads_max: usize,
        launch: impl Fn(&LaneEnd<J>, J) + Send + Sync + 'static,
    ) -> io::Result<Self> {
        let launch = Arc::new(launch);
        let start = |thread_name, threads_max| {
            let launch = Arc::clone(&launch);
            let config = PoolConfig {
                thread_name,
                threads_max,
            };
            Pool::start(config, Lane(VecDeque::new()), move |pool, job| {
                launch(&LaneEnd(pool.clone()), job);
            })
            .map(LaneEnd)
        };
        let guaranteed = start("launch", threads_max)?;
        let opportunistic =
            start("launch-opp", threads_max.div_ceil(2)).inspect_err(|_| guaranteed.0.close())?;
        Ok(Self {
            guaranteed,
            opportunistic,
        })
    }

    fn all(&self) -> [&Pool<Lane<J>>; 2] {
        [&self.guaranteed.0, &self.opportunistic.0]
    }

    /// Queues a launch of a container of this type. Returns whether there was room for it.
    pub(super) fn push(&self, execution_type: ExecutionType, job: J) -> bool {
        let lane = match execution_type {
            ExecutionType::Guaranteed => &self.guaranteed,
            ExecutionType::Opportunistic => &self.opportunistic,
        };
        lane.push(job)
    }

    /// Returns since when the launch has been under way that takes longest so far.
    pub(super) fn busy_since(&self) -> Option<Instant> {
        self.all().into_iter().filter_map(Pool::busy_since).min()
    }

    /// Returns since when launches that do not end have kept all others of guaranteed containers
    /// waiting.
    pub(super) fn exhausted_since(&self) -> Option<Instant> {
        self.guaranteed.0.exhausted_since()
    }

    /// Returns the number of launches that wait.
    pub(super) fn len(&self) -> usize {
        let lengths = self.all().map(|lane| lane.look(|Lane(jobs)| jobs.len()));
        lengths.iter().sum()
    }
}

impl<J: Send + 'static> Drop for Lanes<J> {
    fn drop(&mut self) {
        for lane in self.all() {
            lane.close();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    /// Deadline far above a job's duration, so that a test that waits for one hangs visibly.
    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn closed_lanes_are_emptied() {
        let (done, results) = mpsc::channel();
        let (release, held) = mpsc::channel::<()>();
        let held = std::sync::Mutex::new(held);
        let launch = move |_: &LaneEnd<_>, job| {
            let _released = held.lock().unwrap().recv();
            done.send(job).unwrap();
        };
        let lanes = Lanes::start(1, launch).unwrap();
        for job in 1..=3 {
            assert!(lanes.push(ExecutionType::Guaranteed, job));
        }
        drop(lanes);
        drop(release);
        let launched = [(); 3].map(|()| results.recv_timeout(LONG).unwrap());
        assert_eq!(launched, [1, 2, 3]);
    }

    #[test]
    fn a_launch_that_hangs_holds_up_no_launch_of_the_other_lane() {
        let (done, results) = mpsc::channel();
        let (release, held) = mpsc::channel::<()>();
        let held = std::sync::Mutex::new(held);
        let launch = move |_: &LaneEnd<_>, job| {
            if job == ExecutionType::Opportunistic {
                let _released = held.lock().unwrap().recv();
            }
            done.send(job).unwrap();
        };
        let lanes = Lanes::start(1, launch).unwrap();
        for job in [ExecutionType::Opportunistic, ExecutionType::Guaranteed] {
            assert!(lanes.push(job, job));
        }
        assert_eq!(results.recv_timeout(LONG), Ok(ExecutionType::Guaranteed));
        drop(release);
        assert_eq!(results.recv_timeout(LONG), Ok(ExecutionType::Opportunistic));
    }

    #[test]
    fn memory_of_a_burst_is_given_back() {
        let mut lane = Lane((0..10_000).collect());
        while lane.next(Instant::now()).is_ok() {}
        assert!(lane.0.capacity() <= CAPACITY_KEPT);
    }
}
