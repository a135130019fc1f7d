//! How many containers ran and waited, second by second, for the last minutes.
//!
//! Nothing changes between two events, so nothing is sampled between them: a step stands until the
//! next one. An idle agent needs no timer for its history.

use std::collections::VecDeque;

use records::MonoMillis;

use crate::snapshot::Counts;

/// Length of the history in seconds. The last minutes are what a reader looks for who watches a
/// node; for longer there is `/metrics`. It also bounds the history: at most one entry for each
/// second, and one before the first.
pub const HISTORY_S: u64 = 600;

/// Counts from a second on, until the next step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Seconds since the agent started.
    pub second: u64,
    /// The largest of that second, or what it ended with when nothing has changed since.
    pub counts: Counts,
}

/// Counts of a second in which something changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Second {
    second: u64,
    /// A queue that is full for a moment only is worth seeing.
    peak: Counts,
    last: Counts,
}

/// Counts over the last [`HISTORY_S`] seconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct History {
    /// In the order of time, never empty. The first one is the last that began before the window,
    /// if any did.
    seconds: VecDeque<Second>,
}

impl Default for History {
    /// Nothing runs and nothing waits, from second 0 on.
    fn default() -> Self {
        let nothing = Second {
            second: 0,
            peak: Counts::default(),
            last: Counts::default(),
        };
        Self {
            seconds: VecDeque::from([nothing]),
        }
    }
}

impl History {
    /// Takes the counts as they are now.
    pub fn record(&mut self, now: MonoMillis, counts: Counts) {
        let second = now.0 / 1000;
        match self.seconds.back_mut() {
            // The clock does not go back; should it, what comes late belongs to the last second.
            Some(newest) if second <= newest.second => {
                newest.peak = newest.peak.max(counts);
                newest.last = counts;
            }
            Some(newest) if newest.last == counts => {}
            Some(_) | None => self.seconds.push_back(Second {
                second,
                peak: counts,
                last: counts,
            }),
        }
        let begin = second.saturating_sub(HISTORY_S);
        while self.seconds.get(1).is_some_and(|next| next.second <= begin) {
            self.seconds.pop_front();
        }
    }

    /// The steps from `HISTORY_S` before `now`, or from the agent's start, up to `now`, in the
    /// order of time. The first stands at the begin; at most two for each second.
    #[must_use]
    pub fn steps(&self, now: MonoMillis) -> Vec<Step> {
        let now_s = now.0 / 1000;
        let begin = now_s.saturating_sub(HISTORY_S);
        let mut steps: Vec<Step> = Vec::with_capacity(self.seconds.len() + 1);
        let mut add = |second: u64, counts: Counts| {
            let second = second.max(begin);
            match steps.last_mut() {
                Some(last) if last.second == second => last.counts = counts,
                Some(last) if last.counts == counts => {}
                Some(_) | None => steps.push(Step { second, counts }),
            }
        };
        let mut entries = self.seconds.iter().peekable();
        while let Some(entry) = entries.next() {
            add(entry.second, entry.peak);
            let after = entry.second + 1;
            let free = entries.peek().is_none_or(|next| next.second > after);
            if entry.last != entry.peak && free && after <= now_s {
                add(after, entry.last);
            }
        }
        steps
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn waiting(waiting: u32) -> Counts {
        Counts {
            waiting,
            ..Counts::default()
        }
    }

    fn steps(history: &History, now_s: u64) -> Vec<(u64, u32)> {
        let steps = history.steps(MonoMillis(now_s * 1000));
        steps
            .iter()
            .map(|step| (step.second, step.counts.waiting))
            .collect()
    }

    #[test]
    fn nothing_recorded_is_a_flat_line_from_the_start() {
        assert_eq!(steps(&History::default(), 5), [(0, 0)]);
        assert_eq!(steps(&History::default(), HISTORY_S + 5), [(5, 0)]);
    }

    #[test]
    fn a_step_stands_until_the_next_one() {
        let mut history = History::default();
        history.record(MonoMillis(2_100), waiting(3));
        history.record(MonoMillis(7_900), waiting(1));
        history.record(MonoMillis(9_000), waiting(1));
        assert_eq!(steps(&history, 20), [(0, 0), (2, 3), (7, 1)]);
    }

    #[test]
    fn a_short_peak_shows_for_its_second_and_no_longer() {
        let mut history = History::default();
        history.record(MonoMillis(2_100), waiting(9));
        history.record(MonoMillis(2_200), waiting(1));
        assert_eq!(steps(&history, 2), [(0, 0), (2, 9)]);
        assert_eq!(steps(&history, 20), [(0, 0), (2, 9), (3, 1)]);
        history.record(MonoMillis(3_500), waiting(2));
        assert_eq!(steps(&history, 20), [(0, 0), (2, 9), (3, 2)]);
    }

    #[test]
    fn what_began_before_the_window_is_where_it_begins() {
        let mut history = History::default();
        history.record(MonoMillis(1_000), waiting(4));
        history.record(MonoMillis(500_000), waiting(5));
        let late = HISTORY_S + 100;
        assert_eq!(steps(&history, late), [(100, 4), (500, 5)]);
        history.record(MonoMillis((late + 500) * 1000), waiting(6));
        assert_eq!(history.seconds.len(), 2, "{history:?}");
        assert_eq!(steps(&history, late + 500), [(600, 5), (late + 500, 6)]);
    }

    proptest! {
        #[test]
        fn any_record_is_bounded_and_ends_with_the_last_counts(
            changes in prop::collection::vec((0_u64..5_000, 0_u32..4), 0..3_000)
        ) {
            let mut history = History::default();
            let (mut now, mut last) = (0, 0);
            for (pause, count) in changes {
                now += pause;
                last = count;
                history.record(MonoMillis(now), waiting(count));
            }
            let bound = usize::try_from(HISTORY_S).unwrap() + 2;
            prop_assert!(history.seconds.len() <= bound);
            let steps = history.steps(MonoMillis(now + 2_000));
            prop_assert!(steps.len() <= 2 * bound);
            prop_assert!(steps.is_sorted_by(|a, b| a.second < b.second));
            prop_assert_eq!(steps.last().map(|step| step.counts.waiting), Some(last));
            prop_assert_eq!(steps[0].second, ((now + 2_000) / 1000).saturating_sub(HISTORY_S));
        }
    }
}
