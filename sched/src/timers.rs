//! Timers of the scheduler and the table of their deadlines.
//!
//! Nothing sleeps: the caller asks for the earliest deadline and returns with the time. Cancelling
//! removes an entry, so no timer can leak or fire for a container that is gone.

use std::collections::{BTreeMap, BTreeSet};

use records::{ContainerId, MonoMillis};
use serde::{Deserialize, Serialize};

/// Purpose of a deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) enum Timer {
    /// SIGTERM was sent and the container has not ended: send SIGKILL.
    ForceKill(ContainerId),
    /// The container has been frozen for the longest time allowed: kill it.
    PauseEnd(ContainerId),
    /// The interval after a failure is over: launch the container again.
    Retry(ContainerId),
}

/// Deadlines in ascending order. A container has at most one [`Timer`] at a time, so there are
/// never more timers than containers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Timers {
    by_deadline: BTreeSet<(MonoMillis, Timer)>,
    deadlines: BTreeMap<Timer, MonoMillis>,
}

impl Timers {
    /// Sets the timer and replaces its earlier deadline.
    pub(crate) fn set(&mut self, timer: Timer, deadline: MonoMillis) {
        self.cancel(timer);
        self.by_deadline.insert((deadline, timer));
        self.deadlines.insert(timer, deadline);
    }

    /// Sets the timer, unless it has a deadline already.
    pub(crate) fn set_first(&mut self, timer: Timer, deadline: MonoMillis) {
        if !self.deadlines.contains_key(&timer) {
            self.set(timer, deadline);
        }
    }

    /// Removes the timer, if it is set.
    pub(crate) fn cancel(&mut self, timer: Timer) {
        if let Some(deadline) = self.deadlines.remove(&timer) {
            self.by_deadline.remove(&(deadline, timer));
        }
    }

    /// Returns the earliest deadline.
    pub(crate) fn next(&self) -> Option<MonoMillis> {
        self.by_deadline.first().map(|&(deadline, _)| deadline)
    }

    /// Removes and returns the earliest timer that is due at `now`.
    pub(crate) fn pop_due(&mut self, now: MonoMillis) -> Option<Timer> {
        let &(deadline, timer) = self.by_deadline.first()?;
        if deadline > now {
            return None;
        }
        self.by_deadline.pop_first();
        self.deadlines.remove(&timer);
        Some(timer)
    }

    /// Returns every timer that is set, in the order of the containers.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Timer> + '_ {
        self.deadlines.keys().copied()
    }
}

impl Timers {
    /// Returns the timers with their deadlines, as values that can be stored.
    pub(crate) fn stored(&self) -> Vec<(Timer, MonoMillis)> {
        let deadlines = self.deadlines.iter();
        deadlines.map(|(timer, at)| (*timer, *at)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use test_support::ids::container;

    fn timer(id: i64) -> Timer {
        Timer::ForceKill(container(id))
    }

    #[test]
    fn timers_come_in_the_order_of_their_deadlines_and_not_before() {
        let mut timers = Timers::default();
        timers.set(timer(1), MonoMillis(30));
        timers.set(timer(2), MonoMillis(10));
        timers.set(timer(3), MonoMillis(20));
        assert_eq!(timers.next(), Some(MonoMillis(10)));
        assert_eq!(timers.pop_due(MonoMillis(9)), None);
        assert_eq!(timers.pop_due(MonoMillis(20)), Some(timer(2)));
        assert_eq!(timers.pop_due(MonoMillis(20)), Some(timer(3)));
        assert_eq!(timers.pop_due(MonoMillis(20)), None);
        assert_eq!(timers.next(), Some(MonoMillis(30)));
        assert!(timers.iter().eq([timer(1)]));
    }

    #[test]
    fn a_cancelled_timer_does_not_come() {
        let mut timers = Timers::default();
        timers.set(timer(1), MonoMillis(10));
        timers.cancel(timer(1));
        timers.cancel(timer(2));
        assert_eq!(timers.next(), None);
        assert_eq!(timers.pop_due(MonoMillis(u64::MAX)), None);
    }

    #[test]
    fn a_timer_set_again_comes_once_at_the_new_time() {
        let mut timers = Timers::default();
        timers.set(timer(1), MonoMillis(10));
        timers.set(timer(1), MonoMillis(20));
        assert_eq!(timers.pop_due(MonoMillis(19)), None);
        assert_eq!(timers.pop_due(MonoMillis(20)), Some(timer(1)));
        assert_eq!(timers.next(), None);
    }
}
