//! A story that goes on: its steps so far, and what a later look has beyond them.

use std::collections::VecDeque;

use node_view::operator::{ApplicationExplanation, Explanation};
use time::UtcOffset;

use super::explanation::line;

/// Steps of one look, by which the next look's are known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Story {
    /// Time, container of an application's story, and text; oldest first.
    steps: VecDeque<(i64, Option<String>, String)>,
    /// Whether nothing more will come.
    is_over: bool,
}

impl Story {
    /// Returns the story of a container. It is over once the container has ended.
    #[must_use]
    pub fn of_container(explanation: &Explanation) -> Self {
        let steps = explanation.steps.iter();
        Self {
            steps: steps
                .map(|step| (step.at_ms, None, step.text.clone()))
                .collect(),
            is_over: explanation.exit_status.is_some() || explanation.state == "forgotten",
        }
    }

    /// Returns the story of an application's containers. It is over once the node has forgotten the
    /// application.
    #[must_use]
    pub fn of_application(explanation: &ApplicationExplanation) -> Self {
        let steps = explanation.steps.iter();
        let step = |step: &node_view::operator::ToldOf| {
            let container = Some(step.container.clone());
            (step.told.at_ms, container, step.told.text.clone())
        };
        Self {
            steps: steps.map(step).collect(),
            is_over: explanation.state.is_none(),
        }
    }

    /// Returns whether nothing more will come.
    #[must_use]
    pub const fn is_over(&self) -> bool {
        self.is_over
    }

    /// Returns the lines for steps that `last` does not have. Times of steps do not fall, but a
    /// step may come with the time of one that was seen.
    #[must_use]
    pub fn since(&self, last: &Self, offset: UtcOffset) -> String {
        let seen_until = last.steps.back().map_or(i64::MIN, |(at, _, _)| *at);
        let mut text = String::new();
        for step in &self.steps {
            let (at_ms, container, words) = step;
            let was_seen = *at_ms < seen_until || last.steps.contains(step);
            if !was_seen {
                text.push_str(&line(*at_ms, container.as_deref(), words, offset));
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn story(steps: &[(i64, &str)], is_over: bool) -> Story {
        let steps = steps.iter();
        Story {
            steps: steps
                .map(|(at, text)| (*at, None, (*text).to_owned()))
                .collect(),
            is_over,
        }
    }

    #[test]
    fn only_what_is_new_is_printed_also_where_the_middle_is_lost() {
        let before = story(&[(1, "a"), (2, "b"), (5, "c")], false);
        let after = story(&[(1, "a"), (5, "c"), (5, "d"), (7, "e")], true);
        let text = after.since(&before, UtcOffset::UTC);
        let words: Vec<_> = text.lines().map(|line| &line[line.len() - 1..]).collect();
        assert_eq!(words, ["d", "e"]);
        assert_eq!(after.since(&after, UtcOffset::UTC), "");
        assert!(after.is_over() && !before.is_over());
        let all = before.since(&Story::default(), UtcOffset::UTC);
        assert_eq!(all.lines().count(), 3);
    }
}
