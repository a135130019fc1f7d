//! How many threads a pool has, and how many it needs. Pure: the time comes in.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// Idle threads that are needed whatever happens: the next job finds a thread that waits.
const SPARE: usize = 1;

/// Threads that always stay: one for a job and the spare one. A pool whose jobs come one at a time
/// starts none after its second.
const KEPT: usize = 1 + SPARE;

/// Threads of a pool by what they do, counted under the pool's lock.
#[derive(Debug)]
pub(super) struct Crew {
    threads_max: usize,
    /// Numbers of the threads that have not ended.
    threads: BTreeSet<usize>,
    /// Threads that were started and have not looked for a job yet.
    starting: usize,
    /// Threads that wait, and that nobody has woken.
    idle: usize,
    /// Threads that were woken and have not looked for a job yet.
    woken: usize,
    /// Length of a period: what was idle through all of it is not needed.
    period: Duration,
    /// Fewest idle threads in the present period.
    fewest_idle: usize,
    period_end: Option<Instant>,
}

impl Crew {
    pub(super) fn new(threads_max: usize, period: Duration) -> Self {
        Self {
            threads_max: threads_max.max(1),
            threads: BTreeSet::new(),
            starting: 0,
            idle: 0,
            woken: 0,
            period,
            fewest_idle: 0,
            period_end: None,
        }
    }

    /// Returns the limit on the threads.
    pub(super) fn threads_max(&self) -> usize {
        self.threads_max
    }

    /// Returns the number of the thread to start, which counts from now on; `None`: one is idle for
    /// the next job, or the pool has all its threads.
    pub(super) fn missing(&mut self) -> Option<usize> {
        if self.idle + self.starting > 0 || self.threads.len() >= self.threads_max {
            return None;
        }
        let number = (1..=self.threads_max).find(|number| self.threads.insert(*number))?;
        self.starting += 1;
        Some(number)
    }

    /// Takes back what [`Self::missing`] counted: the thread could not be started.
    pub(super) fn not_started(&mut self, number: usize) {
        self.threads.remove(&number);
        self.starting -= 1;
    }

    /// Counts a thread that begins to look for jobs.
    pub(super) fn started(&mut self) {
        self.starting -= 1;
    }

    /// Counts a thread that has nothing to do.
    pub(super) fn idles(&mut self) {
        self.idle += 1;
    }

    /// Returns how many of the idle threads to wake for this many jobs; they are not idle any more.
    pub(super) fn wake(&mut self, jobs: usize) -> usize {
        let woken = jobs.min(self.idle);
        self.idle -= woken;
        self.woken += woken;
        self.fewest_idle = self.fewest_idle.min(self.idle);
        woken
    }

    /// Returns whether a waiting thread is among those that were woken, and counts it off. Which of
    /// them it was does not matter.
    pub(super) fn is_woken(&mut self) -> bool {
        let is_woken = self.woken > 0;
        if is_woken {
            self.woken -= 1;
        }
        is_woken
    }

    /// Counts a thread that looks for a job although nobody has woken it.
    pub(super) fn looks(&mut self) {
        self.idle -= 1;
        self.fewest_idle = self.fewest_idle.min(self.idle);
    }

    /// Returns whether the idle thread of this number is to end, which then counts no more and
    /// leaves its number to others: so many were idle through a whole period.
    pub(super) fn ends(&mut self, number: usize, now: Instant) -> bool {
        if self.period_end.is_some_and(|end| now < end) {
            return false;
        }
        let ends = self.fewest_idle > SPARE && self.threads.len() > KEPT;
        if ends {
            self.threads.remove(&number);
            self.idle -= 1;
            self.fewest_idle -= 1;
        } else {
            self.fewest_idle = self.idle;
            self.period_end = now.checked_add(self.period);
        }
        ends
    }

    /// Returns when an idle thread is to ask [`Self::ends`]; `None`: none will be too many.
    pub(super) fn period_end(&self) -> Option<Instant> {
        let may_end = self.idle > SPARE && self.threads.len() > KEPT;
        self.period_end.filter(|_| may_end)
    }

    /// Counts a thread that has ended otherwise.
    pub(super) fn ended(&mut self, number: usize) {
        self.threads.remove(&number);
    }

    /// Returns the number of threads that have not ended.
    pub(super) fn threads(&self) -> usize {
        self.threads.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PERIOD: Duration = Duration::from_secs(10);

    /// Returns a crew of so many idle threads, at the beginning of a period.
    fn idle_crew(threads: usize, now: Instant) -> Crew {
        let mut crew = Crew::new(threads, PERIOD);
        for number in 1..=threads {
            assert_eq!(crew.missing(), Some(number));
            crew.started();
        }
        (0..threads).for_each(|_| crew.idles());
        assert!(!crew.ends(1, now));
        crew
    }

    /// Returns how many threads end at this time.
    fn ending(crew: &mut Crew, now: Instant) -> usize {
        let ended = std::iter::from_fn(|| {
            let last = crew.threads.last().copied()?;
            crew.ends(last, now).then_some(())
        });
        ended.count()
    }

    #[test]
    fn a_thread_is_missing_when_none_is_idle_up_to_the_limit() {
        let mut crew = Crew::new(2, PERIOD);
        assert_eq!(crew.missing(), Some(1));
        // The one that starts will look.
        assert_eq!(crew.missing(), None);
        crew.started();
        assert_eq!(crew.missing(), Some(2));
        crew.not_started(2);
        assert_eq!(crew.missing(), Some(2));
        crew.started();
        // Both work.
        assert_eq!(crew.missing(), None);
        crew.ended(1);
        assert_eq!(crew.missing(), Some(1));
        crew.started();
        crew.idles();
        crew.ended(2);
        assert_eq!(crew.missing(), None);
        assert_eq!(crew.threads(), 1);
    }

    #[test]
    fn threads_that_were_woken_are_not_woken_again() {
        let mut crew = idle_crew(3, Instant::now());
        assert_eq!(crew.wake(2), 2);
        assert_eq!(crew.wake(2), 1);
        assert_eq!(crew.wake(1), 0);
        assert_eq!([(); 4].map(|()| crew.is_woken()), [true, true, true, false]);
    }

    #[test]
    fn threads_that_were_idle_for_a_period_end_except_for_two() {
        let begin = Instant::now();
        let mut crew = idle_crew(5, begin);
        assert_eq!(crew.period_end(), Some(begin + PERIOD));
        assert_eq!(ending(&mut crew, begin + PERIOD / 2), 0);
        assert_eq!(ending(&mut crew, begin + PERIOD), 3);
        assert_eq!(crew.threads(), 2);
        assert_eq!(crew.period_end(), None);
        assert_eq!(ending(&mut crew, begin + PERIOD * 9), 0);
    }

    #[test]
    fn as_many_stay_as_worked_at_once_in_the_period_and_a_spare_one() {
        let begin = Instant::now();
        let mut crew = idle_crew(5, begin);
        // Two jobs at once, and whoever performed them is idle again.
        assert_eq!(crew.wake(2), 2);
        for _ in 0..2 {
            assert!(crew.is_woken());
            crew.idles();
        }
        assert_eq!(ending(&mut crew, begin + PERIOD), 2);
        assert_eq!(crew.threads(), 3);
        // Nothing in the next.
        assert_eq!(ending(&mut crew, begin + PERIOD * 2), 1);
        assert_eq!(crew.threads(), 2);
    }

    #[test]
    fn jobs_that_come_one_at_a_time_keep_two_threads() {
        let begin = Instant::now();
        let mut crew = idle_crew(5, begin);
        for period in 1..=3 {
            for _ in 0..5 {
                assert_eq!(crew.wake(1), 1);
                assert!(crew.is_woken());
                assert_eq!(crew.missing(), None);
                crew.idles();
            }
            ending(&mut crew, begin + PERIOD * period);
            assert_eq!(crew.threads(), 2);
        }
    }

    #[test]
    fn a_new_burst_starts_what_has_ended_again() {
        let begin = Instant::now();
        let mut crew = idle_crew(4, begin);
        assert_eq!(ending(&mut crew, begin + PERIOD), 2);
        assert_eq!(crew.wake(4), 2);
        assert!(crew.is_woken());
        assert_eq!(crew.missing(), Some(3));
        crew.started();
        assert_eq!(crew.missing(), Some(4));
        assert_eq!(crew.threads(), 4);
    }
}
