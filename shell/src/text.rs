//! Progress and result of a job as text for people. Pure.

use std::fmt::Write as _;

use crate::progress::{Counts, Progress, Stage};
use crate::summary::{Outcome, Summary};

/// Returns the progress of a job in one line.
#[must_use]
pub fn progress_line(progress: &Progress) -> String {
    let mut line = match (progress.stage, &progress.counts) {
        (Stage::Submitting, _) => "submitting".to_owned(),
        (Stage::Submitted, _) => "waiting for the master to start".to_owned(),
        (Stage::Running | Stage::Ended, Some(counts)) => counts_line(counts),
        (Stage::Running | Stage::Ended, None) => {
            format!("{:.0} % done", f64::from(progress.fraction) * 100.0)
        }
    };
    if let Some(silent_ms) = progress.rm_silent_ms {
        let seconds = silent_ms / 1000;
        put(
            &mut line,
            format_args!("; no answer from the ResourceManager for {seconds} s"),
        );
    }
    line
}

fn counts_line(counts: &Counts) -> String {
    let mut line = format!("{} of {} done", counts.ended(), counts.tasks);
    let parts = [
        (counts.running, "running"),
        (counts.queued, "queued"),
        (counts.waiting, "waiting for room"),
        (counts.failed, "failed"),
        (counts.evicted, "evicted"),
        (counts.shed, "shed"),
        (counts.preempted, "preempted"),
        (counts.lost, "lost"),
        (counts.promoted, "promoted"),
    ];
    for (count, what) in parts.into_iter().filter(|(count, _)| *count > 0) {
        put(&mut line, format_args!(", {count} {what}"));
    }
    line
}

/// Returns the result of a job as a table and a list of failures. Ends with a line break.
#[must_use]
pub fn summary_table(summary: &Summary) -> String {
    let counts = &summary.counts;
    let outcome = match summary.outcome {
        Outcome::Succeeded => "succeeded",
        Outcome::Failed => "failed",
        Outcome::Stopped => "was stopped",
    };
    let mut table = format!("the job {outcome} after {}\n", duration(summary.wall_ms));
    let left = counts.tasks.saturating_sub(counts.ended());
    let rows = [
        ("containers", counts.tasks.to_string()),
        ("succeeded", counts.succeeded.to_string()),
        ("failed", counts.failed.to_string()),
        ("not finished", left.to_string()),
        ("queue wait p50", wait(summary.queue_wait_p50_ms)),
        ("queue wait p99", wait(summary.queue_wait_p99_ms)),
        ("evictions", counts.evicted.to_string()),
        ("sheds", counts.shed.to_string()),
        ("preemptions", counts.preempted.to_string()),
        ("losses", counts.lost.to_string()),
        ("promotions", counts.promoted.to_string()),
    ];
    for (name, value) in rows {
        put(&mut table, format_args!("  {name:<15}{value:>10}\n"));
    }
    if counts.retyped > 0 {
        let retyped = counts.retyped;
        put(
            &mut table,
            format_args!(
                "  {retyped} came in another execution type than asked for: \
                 is opportunistic allocation enabled at the ResourceManager?\n"
            ),
        );
    }
    put_failures(&mut table, summary);
    table
}

fn put_failures(table: &mut String, summary: &Summary) {
    for failure in &summary.failures {
        let number = failure.task;
        put(
            table,
            format_args!("  container {number}: {}", printable(&failure.reason)),
        );
        if !failure.container.is_empty() {
            let (container, node) = (printable(&failure.container), printable(&failure.node));
            put(table, format_args!(" ({container} on {node})"));
        }
        if !failure.log_url.is_empty() {
            put(
                table,
                format_args!("\n    logs: {}", printable(&failure.log_url)),
            );
        }
        table.push('\n');
    }
    let told = u32::try_from(summary.failures.len()).unwrap_or(u32::MAX);
    let untold = summary.counts.failed.saturating_sub(told);
    if untold > 0 {
        put(table, format_args!("  and {untold} more\n"));
    }
}

fn wait(wait_ms: Option<u64>) -> String {
    wait_ms.map_or_else(|| "-".to_owned(), duration)
}

/// Formats milliseconds below ten seconds, tenths of seconds below two minutes, then minutes.
fn duration(ms: u64) -> String {
    match ms {
        0..10_000 => format!("{ms} ms"),
        10_000..120_000 => format!("{}.{} s", ms / 1000, ms % 1000 / 100),
        _ => format!("{} min {} s", ms / 60_000, ms % 60_000 / 1000),
    }
}

/// Replaces the control characters of a foreign text, which could steer a terminal.
fn printable(text: &str) -> String {
    let plain = |c: char| if c.is_control() { ' ' } else { c };
    text.chars().map(plain).collect()
}

fn put(text: &mut String, arguments: std::fmt::Arguments<'_>) {
    text.write_fmt(arguments)
        .expect("writing to a String cannot fail");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::summary::Failure;

    fn summary() -> Summary {
        Summary {
            outcome: Outcome::Failed,
            counts: Counts {
                tasks: 4,
                succeeded: 1,
                failed: 2,
                evicted: 7,
                ..Counts::default()
            },
            queue_wait_p50_ms: Some(22),
            queue_wait_p99_ms: None,
            wall_ms: 61_250,
            failures: vec![Failure {
                task: 3,
                container: "container_1_0001_01_000002".to_owned(),
                node: "n:1".to_owned(),
                exit_status: Some(3),
                reason: "exit status 3\u{1b}[2J".to_owned(),
                log_url: "http://n:2/logs".to_owned(),
            }],
        }
    }

    #[test]
    fn a_line_names_only_what_there_is() {
        let mut progress = Progress::default();
        assert_eq!(progress_line(&progress), "submitting");
        progress.stage = Stage::Submitted;
        assert_eq!(progress_line(&progress), "waiting for the master to start");
        progress.stage = Stage::Running;
        progress.fraction = 0.256;
        assert_eq!(progress_line(&progress), "26 % done");
        progress.counts = Some(summary().counts);
        progress.rm_silent_ms = Some(2_900);
        assert_eq!(
            progress_line(&progress),
            "3 of 4 done, 2 failed, 7 evicted; no answer from the ResourceManager for 2 s"
        );
    }

    #[test]
    fn a_table_tells_all_counts_and_where_to_look() {
        let table = summary_table(&summary());
        for expected in [
            "the job failed after 61.2 s\n",
            "  not finished            1\n",
            "  queue wait p50      22 ms\n",
            "  queue wait p99          -\n",
            "  evictions               7\n",
            "  container 3: exit status 3 [2J (container_1_0001_01_000002 on n:1)\n    logs: http://n:2/logs\n",
            "  and 1 more\n",
        ] {
            assert!(table.contains(expected), "{expected:?} is not in\n{table}");
        }
    }

    #[test]
    fn containers_of_another_type_are_told_of_when_there_are_any() {
        let mut summary = summary();
        assert!(!summary_table(&summary).contains("another"));
        summary.counts.retyped = 2;
        let table = summary_table(&summary);
        assert!(
            table.contains("  2 came in another execution type"),
            "{table}"
        );
    }

    #[test]
    fn durations_have_the_unit_that_fits() {
        assert_eq!(duration(9_999), "9999 ms");
        assert_eq!(duration(10_050), "10.0 s");
        assert_eq!(duration(120_000), "2 min 0 s");
    }
}
