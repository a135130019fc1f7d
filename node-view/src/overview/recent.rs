//! The last decisions, newest first.

use std::collections::VecDeque;

use records::EpochMillis;

use super::decision::Decision;

/// Decisions kept. As many as a reader scrolls through; the log has all of them. An application
/// with a thousand containers ends with a thousand decisions, and each event of the live page
/// carries what is here.
pub const DECISIONS_MAX: usize = 60;

/// A decision and when it was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecentDecision {
    /// Rises by one with each decision since the agent started, from 1.
    pub sequence: u64,
    /// Time of the decision.
    pub at: EpochMillis,
    /// The decision with its container.
    pub decision: Decision,
}

/// A ring of decisions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecentDecisions {
    /// Oldest first. At most [`DECISIONS_MAX`].
    ring: VecDeque<RecentDecision>,
    made: u64,
}

impl RecentDecisions {
    /// Adds one; the oldest goes when there are too many.
    pub fn push(&mut self, at: EpochMillis, decision: Decision) {
        if self.ring.len() == DECISIONS_MAX {
            self.ring.pop_front();
        }
        self.made += 1;
        self.ring.push_back(RecentDecision {
            sequence: self.made,
            at,
            decision,
        });
    }

    /// Returns the decisions, newest first.
    pub fn newest_first(&self) -> impl Iterator<Item = &RecentDecision> {
        self.ring.iter().rev()
    }
}

#[cfg(test)]
mod tests {
    use sched::Note;
    use test_support::ids::container as container_id;

    use super::*;

    #[test]
    fn the_newest_decisions_stay_and_are_numbered_on() {
        let mut recent = RecentDecisions::default();
        let all = i64::try_from(DECISIONS_MAX).unwrap() + 5;
        for n in 1..=all {
            recent.push(
                EpochMillis(n),
                Decision::Note(Note::Promoted(container_id(n))),
            );
        }
        let kept: Vec<_> = recent.newest_first().collect();
        assert_eq!(kept.len(), DECISIONS_MAX);
        assert_eq!(kept[0].at, EpochMillis(all));
        assert_eq!(kept[0].sequence, u64::try_from(all).unwrap());
        assert_eq!(kept[DECISIONS_MAX - 1].at, EpochMillis(6));
    }
}
