//! Observed run times of containers on this node, by application and size, to predict those of
//! others.
//!
//! A few run times are kept for each application and size class, for each application, and for the
//! node as a whole; the first of these with enough samples is used. The run times themselves are
//! kept, not their mean: the remaining time of a container that has run for a minute depends on how
//! many of its class took longer than that.

use std::collections::{BTreeMap, VecDeque};

use records::{ApplicationId, Resource};
use serde::{Deserialize, Serialize};

/// Most run times kept for each class, the most recent ones: enough to show a spread, few enough to
/// follow a change.
const SAMPLES_MAX: usize = 32;

/// Fewest run times with which a class is used.
pub(crate) const SAMPLES_MIN: usize = 3;

/// Most classes kept, the most recently used ones. At 600 bytes each they take 600 KiB at most.
const CLASSES_MAX: usize = 1_024;

/// Assumed run time before any container has ended here. Only the order of magnitude matters: a
/// node with a queue looks worse than one without. The first containers that end replace it.
const ASSUMED_MS: [u64; 1] = [60_000];

/// Class of similar sizes: each step doubles.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
struct SizeClass {
    memory: u32,
    vcores: u32,
}

impl SizeClass {
    fn of(size: Resource) -> Self {
        // Number of bits: one class for 0, 1, 2 to 3, 4 to 7 and so on.
        Self {
            memory: u64::BITS - size.memory_mb.leading_zeros(),
            vcores: u32::BITS - size.vcores.leading_zeros(),
        }
    }
}

/// Containers of an application in one size class; `None`: in all.
type Class = (ApplicationId, Option<SizeClass>);

/// Most recent run times of one class.
#[derive(Clone, Debug, Default)]
pub(crate) struct Recent {
    /// Run times in milliseconds, oldest first.
    arrived: VecDeque<u64>,
    /// The same run times, shortest first.
    sorted: Vec<u64>,
    /// Value of [`RunTimes::uses`] at the last use.
    used: u64,
}

impl Recent {
    /// Returns these run times, oldest first; `None`: they are too many.
    pub(crate) fn of(ran_ms: impl ExactSizeIterator<Item = u64>) -> Option<Self> {
        if ran_ms.len() > SAMPLES_MAX {
            return None;
        }
        let mut recent = Self::default();
        ran_ms.for_each(|ran_ms| recent.push(ran_ms));
        Some(recent)
    }

    /// Returns the run times, shortest first.
    pub(crate) fn sorted(&self) -> &[u64] {
        &self.sorted
    }

    /// Returns the run times, oldest first.
    pub(crate) fn arrived(&self) -> impl Iterator<Item = u64> + '_ {
        self.arrived.iter().copied()
    }

    /// Adds a run time, in place of the oldest one if there are too many.
    pub(crate) fn push(&mut self, ran_ms: u64) {
        if self.arrived.len() == SAMPLES_MAX
            && let Some(oldest) = self.arrived.pop_front()
        {
            let at = self.sorted.partition_point(|ms| *ms < oldest);
            self.sorted.remove(at);
        }
        self.arrived.push_back(ran_ms);
        let at = self.sorted.partition_point(|ms| *ms < ran_ms);
        self.sorted.insert(at, ran_ms);
    }
}

/// Most uses of classes that are read back: more than a node counts in its life.
pub(crate) const USES_MAX: u64 = 1 << 53;

/// Run times as values that can be stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StoredRunTimes {
    classes: Vec<StoredClass>,
    /// Run times of the node, oldest first.
    all: VecDeque<u64>,
    uses: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct StoredClass {
    class: Class,
    used: u64,
    /// Run times in milliseconds, oldest first.
    ran_ms: VecDeque<u64>,
}

/// Recent run times by class, bounded by [`CLASSES_MAX`] and [`SAMPLES_MAX`].
#[derive(Clone, Debug, Default)]
pub(crate) struct RunTimes {
    classes: BTreeMap<Class, Recent>,
    /// Classes by the time of their last use.
    by_use: BTreeMap<u64, Class>,
    all: Recent,
    uses: u64,
}

impl RunTimes {
    /// Records the run time of a container. Returns whether a class of its application is used from
    /// now on, so that more is known of the others.
    pub(crate) fn record(
        &mut self,
        application: ApplicationId,
        size: Resource,
        ran_ms: u64,
    ) -> bool {
        let mut is_new = false;
        for size in [None, Some(SizeClass::of(size))] {
            let recent = self.of(application, size);
            recent.push(ran_ms);
            is_new |= recent.arrived.len() == SAMPLES_MIN;
        }
        self.all.push(ran_ms);
        is_new
    }

    /// Returns a class and marks it as used. Inserts it if it is new, in place of the least
    /// recently used class if there are too many.
    fn of(&mut self, application: ApplicationId, size: Option<SizeClass>) -> &mut Recent {
        let class = (application, size);
        if !self.classes.contains_key(&class)
            && self.classes.len() >= CLASSES_MAX
            && let Some((_, oldest)) = self.by_use.pop_first()
        {
            self.classes.remove(&oldest);
        }
        self.uses += 1;
        let recent = self.classes.entry(class).or_default();
        self.by_use.remove(&recent.used);
        recent.used = self.uses;
        self.by_use.insert(self.uses, class);
        recent
    }

    /// Returns the run times as values that can be stored.
    pub(crate) fn stored(&self) -> StoredRunTimes {
        let classes = self.classes.iter().map(|(class, recent)| StoredClass {
            class: *class,
            used: recent.used,
            ran_ms: recent.arrived.clone(),
        });
        StoredRunTimes {
            classes: classes.collect(),
            all: self.all.arrived.clone(),
            uses: self.uses,
        }
    }

    /// Returns the run times that were stored; `None`: those are not what [`Self::stored`] returns.
    pub(crate) fn from_stored(stored: &StoredRunTimes) -> Option<Self> {
        let mut run_times = Self {
            all: Recent::of(stored.all.iter().copied())?,
            uses: stored.uses,
            ..Self::default()
        };
        if stored.classes.len() > CLASSES_MAX || stored.uses > USES_MAX {
            return None;
        }
        for StoredClass {
            class,
            used,
            ran_ms,
        } in &stored.classes
        {
            let mut recent = Recent::of(ran_ms.iter().copied())?;
            recent.used = *used;
            let is_new = run_times.by_use.insert(*used, *class).is_none()
                && run_times.classes.insert(*class, recent).is_none();
            if !is_new || *used > stored.uses {
                return None;
            }
        }
        Some(run_times)
    }

    /// Returns whether no container has ended yet.
    pub(crate) fn is_empty(&self) -> bool {
        self.all.sorted.is_empty()
    }

    /// Returns the run times to expect of a container, shortest first, at least one: of its
    /// application, else `of_command`, else of the node.
    pub(crate) fn expected<'a>(
        &'a self,
        application: ApplicationId,
        size: Resource,
        of_command: Option<&'a [u64]>,
    ) -> &'a [u64] {
        let sufficient = |size| {
            let recent = self.classes.get(&(application, size))?;
            (recent.sorted.len() >= SAMPLES_MIN).then_some(recent.sorted.as_slice())
        };
        sufficient(Some(SizeClass::of(size)))
            .or_else(|| sufficient(None))
            .or(of_command)
            .unwrap_or_else(|| self.expected_of_any())
    }

    /// Returns the run times to expect of a container of which nothing is known, shortest first, at
    /// least one.
    fn expected_of_any(&self) -> &[u64] {
        if self.all.sorted.is_empty() {
            &ASSUMED_MS
        } else {
            &self.all.sorted
        }
    }

    /// Returns the mean of the run times to expect of a container of which nothing is known, in
    /// milliseconds.
    pub(crate) fn expected_of_any_ms(&self) -> u64 {
        mean_ms(self.expected_of_any())
    }
}

/// Returns the mean of the run times, which are not empty.
pub(crate) fn mean_ms(ran_ms: &[u64]) -> u64 {
    let sum: u128 = ran_ms.iter().copied().map(u128::from).sum();
    let count = u128::try_from(ran_ms.len()).unwrap_or(1).max(1);
    u64::try_from(sum / count).unwrap_or(u64::MAX)
}

/// Unit of the fractions that [`remaining_ms`] takes.
pub(crate) const WHOLE: usize = 1 << 24;

/// Returns the expected remaining milliseconds of a container that has run for `ran_ms`: those of
/// the sample at `fraction`, below [`WHOLE`], among the samples in `known` that took longer.
/// `known` is sorted and not empty.
///
/// A container that has outrun all samples is expected to take as much longer as it is late
/// already: little if it is slightly late, and a long time if it is far beyond the others.
pub(crate) fn remaining_ms(known: &[u64], ran_ms: u64, fraction: usize) -> u64 {
    let longer = &known[known.partition_point(|ms| *ms <= ran_ms)..];
    match longer.get(fraction.min(WHOLE - 1) * longer.len() / WHOLE) {
        Some(whole_ms) => whole_ms - ran_ms,
        None => {
            let longest = known.last().copied().unwrap_or(0);
            ran_ms.saturating_sub(longest).max(1)
        }
    }
}

#[cfg(test)]
mod tests {
    use test_support::ids::application;

    use super::*;

    const SMALL: Resource = Resource::new(1_024, 1);
    const LARGE: Resource = Resource::new(8_192, 1);

    fn recorded(times: &[(i32, Resource, u64)]) -> RunTimes {
        let mut run_times = RunTimes::default();
        for (id, size, ran_ms) in times {
            run_times.record(application(*id), *size, *ran_ms);
        }
        run_times
    }

    #[test]
    fn nothing_known_is_a_fixed_assumption() {
        let run_times = RunTimes::default();
        assert_eq!(run_times.expected(application(1), SMALL, None), ASSUMED_MS);
    }

    #[test]
    fn the_narrowest_class_with_enough_samples_is_used() {
        let run_times = recorded(&[
            (1, SMALL, 30),
            (1, SMALL, 10),
            (1, SMALL, 20),
            (1, LARGE, 900),
            (2, SMALL, 5),
        ]);
        assert_eq!(
            run_times.expected(application(1), SMALL, None),
            [10, 20, 30]
        );
        let of_application = [10, 20, 30, 900];
        assert_eq!(
            run_times.expected(application(1), LARGE, None),
            of_application
        );
        let of_node = [5, 10, 20, 30, 900];
        assert_eq!(run_times.expected(application(2), SMALL, None), of_node);
        assert_eq!(run_times.expected(application(3), LARGE, None), of_node);
        let of_command = [1, 2, 3];
        let expected = |id| run_times.expected(application(id), SMALL, Some(&of_command));
        assert_eq!(
            (expected(1), expected(2)),
            (&[10, 20, 30][..], &of_command[..])
        );
    }

    #[test]
    fn sizes_between_two_powers_of_two_are_alike() {
        let like = |a, b| SizeClass::of(a) == SizeClass::of(b);
        assert!(like(SMALL, Resource::new(2_047, 1)));
        assert!(!like(SMALL, Resource::new(2_048, 1)));
        assert!(!like(SMALL, Resource::new(1_024, 2)));
        assert!(like(Resource::new(1_024, 4), Resource::new(1_024, 7)));
        let largest = SizeClass::of(Resource::new(u64::MAX, u32::MAX));
        assert_eq!((largest.memory, largest.vcores), (64, 32));
    }

    #[test]
    fn old_run_times_give_way_to_new_ones() {
        let mut run_times = RunTimes::default();
        for ran_ms in 0..1_000 {
            run_times.record(application(1), SMALL, ran_ms % 500);
        }
        let expected: Vec<u64> = (468..500).collect();
        assert_eq!(run_times.expected(application(1), SMALL, None), expected);
    }

    #[test]
    fn classes_are_bounded_and_the_one_used_longest_ago_goes() {
        let mut run_times = RunTimes::default();
        let applications = i32::try_from(CLASSES_MAX).unwrap();
        for id in 0..applications {
            for ran_ms in [1, 2, 3] {
                run_times.record(application(id), SMALL, ran_ms);
                run_times.record(application(0), SMALL, 7);
            }
        }
        assert_eq!(run_times.classes.len(), CLASSES_MAX);
        assert_eq!(run_times.by_use.len(), CLASSES_MAX);
        let last = application(applications - 1);
        assert_eq!(run_times.expected(last, SMALL, None), [1, 2, 3]);
        assert_eq!(run_times.expected(application(0), SMALL, None), [7; 32]);
        assert!(
            !run_times
                .classes
                .contains_key(&(application(1), Some(SizeClass::of(SMALL))))
        );
    }

    #[test]
    fn only_longer_run_times_are_taken_for_one_that_runs() {
        let at = |fraction| remaining_ms(&[10, 20, 30], 10, fraction);
        assert_eq!((at(0), at(WHOLE / 2 - 1)), (10, 10));
        assert_eq!((at(WHOLE / 2), at(WHOLE)), (20, 20));
    }

    #[test]
    fn one_that_is_late_is_expected_to_be_late_as_long_again() {
        assert_eq!(remaining_ms(&[10, 20], 20, 0), 1);
        assert_eq!(remaining_ms(&[10, 20], 27, WHOLE - 1), 7);
    }
}
