//! How long containers took on this node, by application and size, to say how long others will take.
//!
//! A few run times are remembered for each application and size class, for each application, and for the node as a
//! whole; the first of these that says enough is asked. Run times themselves are kept, not a mean of them: how long a
//! container that has run for a minute goes on depends on how many of its kind took longer than that.

use std::collections::{BTreeMap, VecDeque};

use records::{ApplicationId, Resource};

/// Run times remembered of each class, the most recent ones: enough to show a spread, few enough to follow a change.
const SAMPLES_MAX: usize = 32;

/// Run times that a class must have to be asked.
const SAMPLES_MIN: usize = 3;

/// Classes remembered, those used last. At 600 bytes each they take 600 KiB at most.
const CLASSES_MAX: usize = 1_024;

/// What a container is assumed to take when none has ever ended here. Only the order of magnitude matters: it makes a
/// node with a queue look worse than one without, and the first containers that end replace it.
const ASSUMED_MS: [u64; 1] = [60_000];

/// Sizes that count as alike: each step doubles.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct SizeClass {
    memory: u32,
    vcores: u32,
}

impl SizeClass {
    fn of(size: Resource) -> Self {
        // The number of bits: one class for 0, 1, 2 to 3, 4 to 7 and so on.
        Self {
            memory: u64::BITS - size.memory_mb.leading_zeros(),
            vcores: u32::BITS - size.vcores.leading_zeros(),
        }
    }
}

/// An application's containers of one size class; `None`: of all.
type Class = (ApplicationId, Option<SizeClass>);

/// The most recent run times of one class.
#[derive(Clone, Debug, Default)]
struct Recent {
    /// The oldest first.
    arrived: VecDeque<u64>,
    /// The same, the shortest first.
    sorted: Vec<u64>,
    /// When it was used last, counted in uses.
    used: u64,
}

impl Recent {
    fn push(&mut self, ran_ms: u64) {
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

/// See the module.
#[derive(Clone, Debug, Default)]
pub(crate) struct RunTimes {
    classes: BTreeMap<Class, Recent>,
    /// Classes by when they were used last.
    by_use: BTreeMap<u64, Class>,
    all: Recent,
    uses: u64,
}

impl RunTimes {
    /// Remembers how long a container took.
    pub(crate) fn record(&mut self, application: ApplicationId, size: Resource, ran_ms: u64) {
        self.of(application, None).push(ran_ms);
        self.of(application, Some(SizeClass::of(size))).push(ran_ms);
        self.all.push(ran_ms);
    }

    /// A class, from now on the one used last, in place of the one used longest ago if there are too many.
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

    /// Whether no container has ended yet.
    pub(crate) fn is_empty(&self) -> bool {
        self.all.sorted.is_empty()
    }

    /// Run times to expect of a container, the shortest first, at least one.
    pub(crate) fn expected(&self, application: ApplicationId, size: Resource) -> &[u64] {
        let says_enough = |size| {
            let recent = self.classes.get(&(application, size))?;
            (recent.sorted.len() >= SAMPLES_MIN).then_some(recent.sorted.as_slice())
        };
        says_enough(Some(SizeClass::of(size)))
            .or_else(|| says_enough(None))
            .unwrap_or(if self.all.sorted.is_empty() {
                &ASSUMED_MS
            } else {
                &self.all.sorted
            })
    }
}

/// A whole in the unit of the fractions that [`remaining_ms`] takes.
pub(crate) const WHOLE: usize = 1 << 24;

/// Milliseconds for which a container goes on that has run for `ran_ms`: what is left of the one at `fraction`, below
/// [`WHOLE`], of those in `known` that took longer. `known` is sorted and not empty.
///
/// One that has outrun them all is expected to be late for as long again as it is late already: soon done if it is a
/// little late, not for long if it is a runaway.
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
    use super::*;

    const SMALL: Resource = Resource::new(1_024, 1);
    const LARGE: Resource = Resource::new(8_192, 1);

    fn application(id: i32) -> ApplicationId {
        ApplicationId::new(1, id)
    }

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
        assert_eq!(run_times.expected(application(1), SMALL), ASSUMED_MS);
    }

    #[test]
    fn the_narrowest_class_that_says_enough_is_asked() {
        let run_times = recorded(&[
            (1, SMALL, 30),
            (1, SMALL, 10),
            (1, SMALL, 20),
            (1, LARGE, 900),
            (2, SMALL, 5),
        ]);
        assert_eq!(run_times.expected(application(1), SMALL), [10, 20, 30]);
        let of_application = [10, 20, 30, 900];
        assert_eq!(run_times.expected(application(1), LARGE), of_application);
        let of_node = [5, 10, 20, 30, 900];
        assert_eq!(run_times.expected(application(2), SMALL), of_node);
        assert_eq!(run_times.expected(application(3), LARGE), of_node);
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
        assert_eq!(run_times.expected(application(1), SMALL), expected);
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
        assert_eq!(run_times.expected(last, SMALL), [1, 2, 3]);
        assert_eq!(run_times.expected(application(0), SMALL), [7; 32]);
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
