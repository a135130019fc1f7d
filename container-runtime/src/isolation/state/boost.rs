//! CPU boost of the opportunistic class: while one of its containers has to start, stop or end, the
//! class gets as much CPU time as the guaranteed one. A task starts, freezes and dies by running,
//! and with idle CPU time only it may wait for that indefinitely, and a guaranteed container with
//! it (priority inversion).

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use records::ContainerId;

/// Longest boost for one order: many times what dying takes. A container that is not dead by then
/// waits for something else than CPU time, a device mostly, and guaranteed containers must not pay
/// for that.
pub(super) const BOOST_MAX: Duration = Duration::from_secs(1);

/// Time a start may take before the class is boosted. Until it executes its program, a new process
/// shares the agent's memory, the thread that makes it sleeps, and nothing can kill it. Shorter
/// than any wait for resources, longer than a start on a machine that is busy but not full.
const START_PATIENCE: Duration = Duration::from_millis(20);

/// Reason for a boost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Cause {
    Start,
    Stop,
}

/// Containers that the class is boosted for. Bounded by the containers that exist.
#[derive(Debug, Default)]
pub(super) struct Boost {
    /// Starts that are not late yet, with the time at which they are.
    starting: BTreeMap<ContainerId, Instant>,
    /// End of each boost.
    until: BTreeMap<(ContainerId, Cause), Instant>,
}

impl Boost {
    /// Whether the class is boosted.
    pub(super) fn is_on(&self) -> bool {
        !self.until.is_empty()
    }

    /// A process is about to be made; `at_once`: it is to end already.
    pub(super) fn begin_start(&mut self, id: ContainerId, now: Instant, at_once: bool) {
        let late_at = if at_once { now } else { now + START_PATIENCE };
        self.starting.insert(id, late_at);
    }

    /// Boosts a start without waiting until it is late. No effect unless `id` is starting.
    pub(super) fn expedite_start(&mut self, id: ContainerId, now: Instant) {
        if let Some(late_at) = self.starting.get_mut(&id) {
            *late_at = now;
        }
    }

    /// The process executes its program, or there is none.
    pub(super) fn end_start(&mut self, id: ContainerId) {
        self.starting.remove(&id);
        self.until.remove(&(id, Cause::Start));
    }

    /// A container was told to freeze or to end: boosts the class until `until` at most. A later
    /// order may prolong the boost, none shortens it.
    pub(super) fn begin_stop(&mut self, id: ContainerId, until: Instant) {
        let known = self.until.entry((id, Cause::Stop)).or_insert(until);
        *known = until.max(*known);
    }

    /// The container has stopped or ended.
    pub(super) fn end_stop(&mut self, id: ContainerId) {
        self.until.remove(&(id, Cause::Stop));
    }

    /// Begins boosts for late starts and ends those that have lasted long enough.
    pub(super) fn expire(&mut self, now: Instant) {
        let late = self.starting.extract_if(.., |_, late_at| *late_at <= now);
        for (id, _) in late {
            self.until.insert((id, Cause::Start), now + BOOST_MAX);
        }
        self.until.retain(|_, until| *until > now);
    }

    /// Time of the next call of [`Boost::expire`].
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        let starting = self.starting.values();
        starting.chain(self.until.values()).min().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::launch::testing::container_id;

    #[test]
    fn the_boost_lasts_while_any_container_needs_it() {
        let mut boost = Boost::default();
        let (one, other) = (container_id(), container_id());
        let later = Instant::now() + BOOST_MAX;
        assert!(!boost.is_on());
        boost.begin_stop(one, later);
        boost.begin_stop(other, later);
        boost.begin_stop(one, later);
        boost.end_stop(one);
        assert!(boost.is_on());
        boost.end_stop(other);
        assert!(!boost.is_on());
    }

    #[test]
    fn a_container_that_does_not_stop_is_boosted_for_a_limited_time() {
        let mut boost = Boost::default();
        let (one, other) = (container_id(), container_id());
        let begin = Instant::now();
        let later = begin + BOOST_MAX / 2;
        boost.begin_stop(one, begin + BOOST_MAX);
        boost.begin_stop(other, later + BOOST_MAX);
        boost.expire(begin);
        assert_eq!(boost.next_deadline(), Some(begin + BOOST_MAX));
        boost.expire(begin + BOOST_MAX);
        assert_eq!(boost.next_deadline(), Some(later + BOOST_MAX));
        assert!(boost.is_on());
        // A stronger order gives it as long again.
        boost.begin_stop(other, later + BOOST_MAX * 3 / 2);
        boost.expire(later + BOOST_MAX);
        assert!(boost.is_on());
        boost.expire(later + BOOST_MAX * 2);
        assert!(!boost.is_on());
        assert_eq!(boost.next_deadline(), None);
    }

    #[test]
    fn only_a_late_start_is_boosted_and_only_until_its_program_runs() {
        let mut boost = Boost::default();
        let (id, now) = (container_id(), Instant::now());
        boost.begin_start(id, now, false);
        boost.expire(now);
        assert!(!boost.is_on());
        boost.expire(now + START_PATIENCE);
        assert!(boost.is_on());
        boost.end_start(id);
        assert!(!boost.is_on());
        boost.begin_start(id, now, false);
        boost.expedite_start(id, now);
        boost.expire(now);
        assert!(boost.is_on());
        boost.expire(now + BOOST_MAX);
        assert!(!boost.is_on());
    }
}
