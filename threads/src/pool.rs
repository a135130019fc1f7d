//! Threads that perform jobs, as many as have something to do.
//!
//! A thread that takes a job starts another when it was the last that looked for jobs, so that a
//! job waits for a thread only while the pool has all its threads. Those that a burst has started
//! end when they were idle for a while.
//!
//! A lock and a condition rather than a channel: a channel cannot hold a job back until it is due,
//! and those at hand spin and yield before they sleep, which costs as much CPU time as a small job.

mod crew;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use std::{fmt, io, thread};

use self::crew::Crew;

/// Time after which threads that were idle through all of it end: as long as tokio's for blocking
/// work.
const IDLE_PERIOD: Duration = Duration::from_secs(10);

/// Work of a pool, kept under its lock.
pub trait Work: Send + 'static {
    /// Work that a thread performs without the lock.
    type Job: Send;

    /// Takes the next job that is due.
    ///
    /// # Errors
    /// None is due; with the time at which one will be, `None` if that takes a change.
    fn next(&mut self, now: Instant) -> Result<Self::Job, Option<Instant>>;
}

/// Names and limits of a pool.
#[derive(Clone, Copy, Debug)]
pub struct PoolConfig {
    /// Name of the threads, before a dash and a number. With them at most 15 bytes, which is all
    /// that the kernel keeps.
    pub thread_name: &'static str,
    /// Limit on the threads; 1 if it is 0.
    pub threads_max: usize,
}

/// Handle of a pool. Cheap to clone. Its threads live until it is [closed](Self::close).
pub struct Pool<W: Work>(Arc<Shared<W>>);

type Perform<W> = Box<dyn Fn(&Pool<W>, <W as Work>::Job) + Send + Sync>;

struct Shared<W: Work> {
    thread_name: &'static str,
    state: Mutex<State<W>>,
    /// Notified for jobs, for the end of a keeper of the time, and for the close.
    queued: Condvar,
    /// Notified after a change, and at the end of a thread, while somebody waits.
    changed: Condvar,
    perform: Perform<W>,
}

struct State<W> {
    work: W,
    crew: Crew,
    /// Time that one of the idle threads waits for, because a job will be due.
    kept_time: Option<Instant>,
    /// Whoever kept the time has left; a thread that finds nothing due keeps it again.
    is_unkept: bool,
    /// Threads that perform a job, by number, with the time at which they took it.
    busy: BTreeMap<usize, Instant>,
    /// Callers that wait for a change or for the end of the threads.
    waiting: usize,
    is_closed: bool,
}

impl<W: Work> Clone for Pool<W> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<W: Work> fmt::Debug for Pool<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Pool").field(&self.0.thread_name).finish()
    }
}

impl<W: Work> Pool<W> {
    /// Starts a pool with one thread. `perform` performs a job; what it returns to the work it
    /// [changes](Self::change).
    ///
    /// # Errors
    /// The system cannot start another thread.
    pub fn start(
        config: PoolConfig,
        work: W,
        perform: impl Fn(&Self, W::Job) + Send + Sync + 'static,
    ) -> io::Result<Self> {
        Self::start_with(config, IDLE_PERIOD, work, perform)
    }

    fn start_with(
        config: PoolConfig,
        idle_period: Duration,
        work: W,
        perform: impl Fn(&Self, W::Job) + Send + Sync + 'static,
    ) -> io::Result<Self> {
        let state = State {
            work,
            crew: Crew::new(config.threads_max, idle_period),
            kept_time: None,
            is_unkept: false,
            busy: BTreeMap::new(),
            waiting: 0,
            is_closed: false,
        };
        let pool = Self(Arc::new(Shared {
            thread_name: config.thread_name,
            state: Mutex::new(state),
            queued: Condvar::new(),
            changed: Condvar::new(),
            perform: Box::new(perform),
        }));
        let first = pool.state().crew.missing();
        first.map_or(Ok(()), |number| pool.start_thread(number))?;
        Ok(pool)
    }

    /// Changes the work. `change` returns for how many threads it has made jobs, or times at which
    /// jobs are due, and a result to return.
    pub fn change<T>(&self, change: impl FnOnce(&mut W) -> (usize, T)) -> T {
        let mut state = self.state();
        let (jobs, result) = change(&mut state.work);
        let woken = state.crew.wake(jobs);
        let is_awaited = state.waiting > 0;
        // A thread that woke up under the lock would sleep again at once.
        drop(state);
        (0..woken).for_each(|_| self.0.queued.notify_one());
        if is_awaited {
            self.0.changed.notify_all();
        }
        result
    }

    /// Returns something about the work.
    pub fn look<T>(&self, look: impl FnOnce(&W) -> T) -> T {
        look(&self.state().work)
    }

    /// Waits until `holds` is false, at most this long; returns whether it still held then.
    pub fn wait_while(&self, patience: Duration, mut holds: impl FnMut(&mut W) -> bool) -> bool {
        self.wait(patience, |state| holds(&mut state.work))
    }

    /// Returns since when the job has been performed that takes longest so far; `None`: no thread
    /// performs one.
    #[must_use]
    pub fn busy_since(&self) -> Option<Instant> {
        self.state().busy.values().min().copied()
    }

    /// Returns since when every thread that the pool may have has performed the same job; `None`:
    /// a thread is free, or could be started.
    #[must_use]
    pub fn exhausted_since(&self) -> Option<Instant> {
        let state = self.state();
        let all_are_busy = state.busy.len() >= state.crew.threads_max();
        state.busy.values().max().copied().filter(|_| all_are_busy)
    }

    /// Ends the threads once no job is due. Jobs that are due later are left.
    pub fn close(&self) {
        self.state().is_closed = true;
        self.0.queued.notify_all();
    }

    /// Waits for the end of the threads of a closed pool, at most this long; returns whether some
    /// are left.
    pub fn wait_ended(&self, patience: Duration) -> bool {
        self.wait(patience, |state| state.crew.threads() > 0)
    }

    fn wait(&self, patience: Duration, holds: impl FnMut(&mut State<W>) -> bool) -> bool {
        let mut state = self.state();
        state.waiting += 1;
        let waited = self.0.changed.wait_timeout_while(state, patience, holds);
        let (mut state, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
        state.waiting -= 1;
        timeout.timed_out()
    }

    // No code panics while it holds the lock; even then the counts would be consistent.
    fn state(&self) -> MutexGuard<'_, State<W>> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn start_thread(&self, number: usize) -> io::Result<()> {
        let thread = thread::Builder::new().name(format!("{}-{number}", self.0.thread_name));
        let pool = self.clone();
        let started = thread.spawn(move || {
            // Also when a job panics.
            let mut end = End {
                pool: &pool,
                counts: true,
                number,
            };
            end.counts = pool.serve(number);
        });
        if started.is_err() {
            self.state().crew.not_started(number);
        }
        started.map(drop)
    }

    /// Performs jobs until the pool is closed, or needs this thread no more. Returns whether the
    /// thread still counts.
    fn serve(&self, number: usize) -> bool {
        let mut state = self.state();
        state.crew.started();
        loop {
            let now = Instant::now();
            match state.work.next(now) {
                Ok(job) => {
                    state.busy.insert(number, now);
                    let missing = state.crew.missing();
                    let is_handed_over = state.is_unkept && state.crew.wake(1) > 0;
                    drop(state);
                    if is_handed_over {
                        self.0.queued.notify_one();
                    }
                    if let Some(number) = missing {
                        // Without it the others perform all jobs too, later.
                        let _too_many = self.start_thread(number);
                    }
                    (self.0.perform)(self, job);
                    state = self.state();
                    state.busy.remove(&number);
                }
                Err(_) if state.is_closed => return true,
                Err(due) => match self.idle(state, number, due) {
                    Some(awake) => state = awake,
                    None => return false,
                },
            }
        }
    }

    /// Waits for a job; `None` when the thread must end.
    fn idle<'a>(
        &'a self,
        mut state: MutexGuard<'a, State<W>>,
        number: usize,
        due: Option<Instant>,
    ) -> Option<MutexGuard<'a, State<W>>> {
        state.crew.idles();
        state.is_unkept = false;
        // One idle thread keeps the time, the others sleep.
        let kept = due.filter(|due| state.kept_time.is_none_or(|kept| *due < kept));
        if kept.is_some() {
            state.kept_time = kept;
        }
        let ends = loop {
            let now = Instant::now();
            if state.crew.ends(number, now) {
                break true;
            }
            if state.is_closed || kept.is_some_and(|at| at <= now) {
                state.crew.looks();
                break false;
            }
            let until = kept.into_iter().chain(state.crew.period_end()).min();
            let patience = until.map_or(Duration::MAX, |at| at.saturating_duration_since(now));
            let waited = self.0.queued.wait_timeout(state, patience);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
            if state.crew.is_woken() {
                break false;
            }
        };
        if kept.is_some() && state.kept_time == kept {
            state.kept_time = None;
            state.is_unkept = true;
            if ends && state.crew.wake(1) > 0 {
                self.0.queued.notify_one();
            }
        }
        (!ends).then_some(state)
    }
}

/// Counts the end of a thread when it is dropped.
struct End<'a, W: Work> {
    pool: &'a Pool<W>,
    /// Whether the number is this thread's still, and not free for another.
    counts: bool,
    number: usize,
}

impl<W: Work> Drop for End<'_, W> {
    fn drop(&mut self) {
        if self.counts {
            let mut state = self.pool.state();
            state.busy.remove(&self.number);
            state.crew.ended(self.number);
        }
        self.pool.0.changed.notify_all();
    }
}
