//! The last decisions, newest first.

use std::collections::VecDeque;

use records::EpochMillis;

use super::decision::{Decision, decision_words};

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
    /// Decisions of the same kind right before, which this one stands for.
    pub folded: u32,
}

impl RecentDecision {
    /// Returns the decision in words, and how many it stands for.
    #[must_use]
    pub fn words(&self) -> String {
        let words = decision_words(&self.decision);
        match self.folded {
            0 => words,
            1 => format!("{words} (changed twice in a row)"),
            more => format!(
                "{words} (changed {} times in a row)",
                more.saturating_add(1)
            ),
        }
    }
}

/// A ring of decisions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecentDecisions {
    /// Oldest first. At most [`DECISIONS_MAX`].
    ring: VecDeque<RecentDecision>,
    made: u64,
}

impl RecentDecisions {
    /// Adds one; the oldest goes when there are too many. A limit of the queue right after another
    /// takes its place: a ResourceManager may change it with every heartbeat, and lines about
    /// containers would be pushed out.
    pub fn push(&mut self, at: EpochMillis, decision: Decision) {
        let folded = match (&decision, self.ring.back()) {
            (Decision::QueuingLimit(_), Some(last))
                if matches!(last.decision, Decision::QueuingLimit(_)) =>
            {
                last.folded.saturating_add(1)
            }
            (_, _) => 0,
        };
        if folded > 0 {
            self.ring.pop_back();
        } else if self.ring.len() == DECISIONS_MAX {
            self.ring.pop_front();
        }
        self.made += 1;
        self.ring.push_back(RecentDecision {
            sequence: self.made,
            at,
            decision,
            folded,
        });
    }

    /// Returns the decisions, newest first.
    pub fn newest_first(&self) -> impl Iterator<Item = &RecentDecision> {
        self.ring.iter().rev()
    }
}

#[cfg(test)]
mod tests {
    use sched::{ContainerQueuingLimit, Note};
    use test_support::ids::container as container_id;

    use super::*;

    #[test]
    fn limits_of_the_queue_in_a_row_are_one_line_that_says_how_many() {
        let limit = |length| {
            Decision::QueuingLimit(ContainerQueuingLimit {
                max_queue_length: Some(length),
                max_queue_wait_time_ms: None,
            })
        };
        let mut recent = RecentDecisions::default();
        recent.push(EpochMillis(1), Decision::Registered);
        for n in 1..=100 {
            recent.push(EpochMillis(1), limit(n));
        }
        recent.push(EpochMillis(2), Decision::RmSilent);
        recent.push(EpochMillis(3), limit(7));
        let words: Vec<_> = recent.newest_first().map(RecentDecision::words).collect();
        assert_eq!(words.len(), 4);
        assert_eq!(
            words[0],
            "The ResourceManager limits the queue to 7 waiting"
        );
        let many =
            "The ResourceManager limits the queue to 100 waiting (changed 100 times in a row)";
        assert_eq!(words[2], many);
        let sequences: Vec<_> = recent.newest_first().map(|each| each.sequence).collect();
        assert_eq!(sequences, [103, 102, 101, 1]);
    }

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
