//! Whether opportunistic containers get processor time like guaranteed ones for a moment, because some of them have to do
//! something that others wait for: stop, or end. Pure: who is hurried and until when; what is written follows from it.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use records::ContainerId;

/// How long a container is hurried for one order to end at most: many times what dying takes. Who is not dead by then waits
/// for something else than processor time, a device mostly, and guaranteed containers must not pay for that.
pub(super) const HURRY_MAX: Duration = Duration::from_secs(1);

/// Who is hurried. Bounded by the containers that there are.
#[derive(Debug, Default)]
pub(super) struct Hurry {
    /// Those who say themselves when it is over.
    others: usize,
    /// Containers that were told to stop or to end.
    until: BTreeMap<ContainerId, Instant>,
}

impl Hurry {
    /// Whether anybody is.
    pub(super) fn is_on(&self) -> bool {
        self.others > 0 || !self.until.is_empty()
    }

    /// Somebody is until [`Hurry::end`].
    pub(super) fn begin(&mut self) {
        self.others += 1;
    }

    /// One who began is ready.
    pub(super) fn end(&mut self) {
        self.others = self.others.saturating_sub(1);
    }

    /// A container is, not longer than `until`; whether it is the first, so that somebody has to look when it is over.
    pub(super) fn begin_for(&mut self, id: ContainerId, until: Instant) -> bool {
        let first = self.until.is_empty();
        let known = self.until.entry(id).or_insert(until);
        *known = until.max(*known);
        first
    }

    /// A container has done it.
    pub(super) fn end_for(&mut self, id: ContainerId) {
        self.until.remove(&id);
    }

    /// Forgets who has had its time. When the next one has.
    pub(super) fn expire(&mut self, now: Instant) -> Option<Instant> {
        self.until.retain(|_, until| *until > now);
        self.until.values().min().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::launch::testing::container_id;

    #[test]
    fn it_is_on_for_as_long_as_anybody_needs_it() {
        let mut hurry = Hurry::default();
        let (one, other) = (container_id(), container_id());
        let now = Instant::now();
        assert!(!hurry.is_on());
        assert!(hurry.begin_for(one, now));
        assert!(!hurry.begin_for(other, now));
        hurry.begin();
        // Told twice, done once.
        hurry.begin_for(one, now);
        hurry.end_for(one);
        assert!(hurry.is_on());
        hurry.end_for(other);
        assert!(hurry.is_on());
        hurry.end();
        assert!(!hurry.is_on());
        // Whoever is ready twice takes it from nobody.
        hurry.end();
        hurry.begin();
        assert!(hurry.is_on());
    }

    #[test]
    fn who_does_not_get_ready_has_had_its_time() {
        let mut hurry = Hurry::default();
        let (one, other) = (container_id(), container_id());
        let begin = Instant::now();
        let later = begin + HURRY_MAX / 2;
        hurry.begin_for(one, begin + HURRY_MAX);
        hurry.begin_for(other, later + HURRY_MAX);
        assert_eq!(hurry.expire(begin), Some(begin + HURRY_MAX));
        assert_eq!(hurry.expire(begin + HURRY_MAX), Some(later + HURRY_MAX));
        assert!(hurry.is_on());
        // A stronger order gives it as long again.
        hurry.begin_for(other, later + HURRY_MAX * 3 / 2);
        assert!(hurry.expire(later + HURRY_MAX).is_some());
        assert_eq!(hurry.expire(later + HURRY_MAX * 2), None);
        assert!(!hurry.is_on());
    }
}
