use std::collections::{BTreeSet, VecDeque};
use std::sync::mpsc::{self, Receiver, Sender};

use super::*;

/// Deadline far above what is awaited, so that a test that waits for it fails visibly.
const LONG: Duration = Duration::from_secs(60);

/// Jobs that are due now, and jobs by the time at which they are.
#[derive(Default)]
struct Jobs {
    now: VecDeque<u64>,
    later: BTreeSet<(Instant, u64)>,
}

impl Work for Jobs {
    type Job = u64;

    fn next(&mut self, now: Instant) -> Result<u64, Option<Instant>> {
        if let Some(job) = self.now.pop_front() {
            return Ok(job);
        }
        let first = self.later.first().copied();
        let (due, job) = first.ok_or(None)?;
        if due > now {
            return Err(Some(due));
        }
        self.later.remove(&(due, job));
        Ok(job)
    }
}

/// A pool whose jobs report their begin, and end when they are released.
struct Field {
    pool: Pool<Jobs>,
    begun: Receiver<u64>,
    release: Sender<()>,
}

impl Field {
    fn start(threads_max: usize, idle_period: Duration) -> Self {
        let (begin, begun) = mpsc::channel();
        let (release, released) = mpsc::channel::<()>();
        let released = Mutex::new(released);
        let config = PoolConfig {
            thread_name: "test",
            threads_max,
        };
        let perform = move |_: &Pool<Jobs>, job| {
            begin.send(job).unwrap();
            // After the end of the sender, every job is released.
            let _ended = released.lock().unwrap().recv();
        };
        let pool = Pool::start_with(config, idle_period, Jobs::default(), perform).unwrap();
        Self {
            pool,
            begun,
            release,
        }
    }

    fn push(&self, job: u64) {
        self.pool.change(|jobs| (1, jobs.now.push_back(job)));
    }

    fn push_later(&self, due: Instant, job: u64) {
        self.pool.change(|jobs| (1, jobs.later.insert((due, job))));
    }

    fn begun(&self) -> u64 {
        self.begun.recv_timeout(LONG).unwrap()
    }

    fn release(&self, jobs: usize) {
        (0..jobs).for_each(|_| self.release.send(()).unwrap());
    }

    /// Waits until the pool has this many threads.
    fn wait_threads(&self, count: usize) {
        let is_other = |state: &mut State<Jobs>| state.crew.threads() != count;
        assert!(!self.pool.wait(LONG, is_other));
    }

    /// Closes the pool and waits for its threads.
    fn end(self) {
        self.pool.close();
        drop(self.release);
        assert!(!self.pool.wait_ended(LONG));
    }
}

#[test]
fn jobs_at_once_have_a_thread_each_up_to_the_limit() {
    let field = Field::start(3, LONG);
    (1..=4).for_each(|job| field.push(job));
    let begun: BTreeSet<u64> = [(); 3].map(|()| field.begun()).into();
    assert_eq!(begun, [1, 2, 3].into());
    assert!(field.begun.try_recv().is_err());
    field.release(1);
    assert_eq!(field.begun(), 4);
    field.end();
}

#[test]
fn threads_of_a_burst_end_when_they_are_idle_and_come_back_with_the_next() {
    let field = Field::start(8, Duration::from_millis(1));
    for _ in 0..2 {
        (1..=8).for_each(|job| field.push(job));
        for _ in 1..=8 {
            field.begun();
        }
        field.wait_threads(8);
        field.release(8);
        field.wait_threads(2);
    }
    field.end();
}

#[test]
fn a_job_that_becomes_due_is_performed_while_others_hang() {
    let field = Field::start(4, LONG);
    let soon = || Instant::now() + Duration::from_millis(2);
    // Whoever kept the time takes a job that hangs.
    for job in 1..=4 {
        field.push_later(soon(), job);
        assert_eq!(field.begun(), job);
    }
    field.end();
}

#[test]
fn all_that_becomes_due_at_once_begins_at_once() {
    let field = Field::start(3, LONG);
    // Two threads wait.
    field.push(0);
    assert_eq!(field.begun(), 0);
    field.release(1);
    let due = Instant::now() + Duration::from_millis(2);
    (1..=3).for_each(|job| field.push_later(due, job));
    let begun: BTreeSet<u64> = [(); 3].map(|()| field.begun()).into();
    assert_eq!(begun, [1, 2, 3].into());
    field.end();
}

#[test]
fn a_time_is_kept_although_its_keeper_is_needed_no_more() {
    let field = Field::start(6, Duration::from_millis(1));
    (1..=6).for_each(|job| field.push(job));
    for _ in 1..=6 {
        field.begun();
    }
    let due = Instant::now() + Duration::from_millis(50);
    field.push_later(due, 7);
    field.release(6);
    field.wait_threads(2);
    assert_eq!(field.begun(), 7);
    field.end();
}

#[test]
fn a_close_performs_what_is_due_and_leaves_the_rest() {
    let field = Field::start(1, LONG);
    (1..=3).for_each(|job| field.push(job));
    let day = Duration::from_secs(86_400);
    field.push_later(Instant::now() + day, 4);
    assert_eq!(field.begun(), 1);
    let Field {
        pool,
        begun,
        release,
    } = field;
    pool.close();
    drop(release);
    assert!(!pool.wait_ended(LONG));
    assert_eq!(begun.try_iter().collect::<Vec<_>>(), [2, 3]);
    assert_eq!(pool.look(|jobs| jobs.later.len()), 1);
}

#[test]
fn whoever_waits_for_a_change_sees_it() {
    let field = Field::start(1, LONG);
    let pool = field.pool.clone();
    let waiting = thread::spawn(move || pool.wait_while(LONG, |jobs| jobs.later.is_empty()));
    while field.pool.state().waiting == 0 {
        thread::yield_now();
    }
    let day = Duration::from_secs(86_400);
    field.push_later(Instant::now() + day, 1);
    assert!(!waiting.join().unwrap());
    assert!(field.pool.wait_while(Duration::ZERO, |_| true));
    field.end();
}

#[test]
fn a_job_that_does_not_end_shows_and_a_pool_without_a_free_thread_too() {
    let field = Field::start(2, LONG);
    let pool = &field.pool;
    assert_eq!((pool.busy_since(), pool.exhausted_since()), (None, None));
    let before = Instant::now();
    let push = |job| {
        pool.change(|jobs| {
            jobs.now.push_back(job);
            (1, ())
        });
        assert_eq!(field.begun.recv_timeout(LONG), Ok(job));
    };
    push(1);
    let first = pool.busy_since().unwrap();
    assert!(first >= before);
    assert_eq!(
        pool.exhausted_since(),
        None,
        "the pool may have another thread"
    );
    push(2);
    assert_eq!(pool.busy_since(), Some(first));
    assert!(pool.exhausted_since().unwrap() >= first);
    for _ in 0..2 {
        field.release.send(()).unwrap();
    }
    pool.close();
    assert!(!pool.wait_ended(LONG), "the threads end");
    assert_eq!((pool.busy_since(), pool.exhausted_since()), (None, None));
}
