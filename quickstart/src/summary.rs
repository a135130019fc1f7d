//! The table at the end. Pure.

use std::time::Duration;

use records::percentile::of_sorted;

use super::tally::Tally;

/// Values of the final table.
#[derive(Clone, Copy, Debug)]
pub(super) struct Summary<'a> {
    /// Counts of the whole story.
    pub(super) tally: &'a Tally,
    /// Opportunistic containers that there were to be.
    pub(super) tasks: u32,
    /// From the start of the process to the first line that an opportunistic container wrote.
    pub(super) first_run: Option<Duration>,
    /// From the start of the process to the end of the story.
    pub(super) took: Duration,
}

impl Summary<'_> {
    /// The lines, left column padded.
    pub(super) fn lines(&self) -> Vec<String> {
        let losses = self.tally.losses();
        let again = self.tally.placed_again(self.tasks).len();
        let rows = [
            (
                "opportunistic containers",
                format!("{} of {} ended well", self.tally.succeeded(), self.tasks),
            ),
            ("evicted for a guaranteed one", losses.evicted.to_string()),
            ("shed from a queue over its limit", losses.shed.to_string()),
            ("placed again", again.to_string()),
            ("time in a queue", self.waits()),
            (
                "from start to end",
                format!("{:.1} s", self.took.as_secs_f64()),
            ),
        ];
        let mut lines: Vec<String> = rows
            .into_iter()
            .map(|(what, value)| format!("  {what:<34}{value}"))
            .collect();
        lines.push(match self.first_run {
            Some(after) => format!(
                "  first opportunistic container ran after {:.2} s",
                after.as_secs_f64()
            ),
            None => "  no opportunistic container ran".to_owned(),
        });
        lines
    }

    fn waits(&self) -> String {
        let waits = self.tally.queue_waits_ms();
        match (of_sorted(&waits, 50), of_sorted(&waits, 99)) {
            (Some(p50), Some(p99)) => {
                let seconds = |millis| Duration::from_millis(millis).as_secs_f64();
                format!("p50 {:.1} s, p99 {:.1} s", seconds(p50), seconds(p99))
            }
            _ => "none".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{completed, happened, id, shed, started};
    use super::*;

    #[test]
    fn the_table_says_what_was_counted() {
        let mut tally = Tally::default();
        for what in [
            started(id(1, 2), 0),
            started(id(1, 3), 2_000),
            completed(id(1, 2), 0),
            shed(id(1, 4), 1),
        ] {
            tally.take(&happened(1, 0, what));
        }
        let summary = Summary {
            tally: &tally,
            tasks: 2,
            first_run: Some(Duration::from_millis(431)),
            took: Duration::from_millis(9_870),
        };
        let text = summary.lines().join("\n");
        for expected in [
            "1 of 2 ended well",
            "limit  1",
            "p50 0.0 s, p99 2.0 s",
            "9.9 s",
            "first opportunistic container ran after 0.43 s",
        ] {
            assert!(text.contains(expected), "{expected}: {text}");
        }
    }
}
