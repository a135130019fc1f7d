//! Results as text: a table for people, CSV for programs.

use std::fmt::Write as _;

use crate::figures::{FIGURES, Figure};
use crate::numbers::float;
use crate::recommend::in_words;
use crate::runner::Results;
use crate::scenario::Scenario;
use crate::summary::{ArmSummary, Estimate, Settling};

/// Columns of the table, in blocks that fit a terminal; together all of [`FIGURES`].
const BLOCKS: [&[&str]; 3] = [
    &[
        "jct_p50_s",
        "jct_mean_s",
        "jct_p95_s",
        "jct_p99_s",
        "jct_largest_s",
        "jct_single_s",
        "jct_guaranteed_s",
        "unfinished",
    ],
    &[
        "used",
        "masters",
        "wasted",
        "refused",
        "shed",
        "evicted",
        "paused",
        "node_lost",
        "lost_s",
        "am_wait_s",
        "node_wait_s",
    ],
    &[
        "queue_mean",
        "queue_stdev",
        "rm_calls_s",
        "heartbeats_s",
        "rm_bytes_s",
        "list_entries_s",
        "looks_node_s",
        "proxy_cpu",
    ],
];

/// Returns the table of all arms.
#[must_use]
pub fn table(scenario: &Scenario, arms: &[ArmSummary]) -> String {
    let mut out = String::new();
    // Writing to a string cannot fail.
    let _ = write_table(&mut out, scenario, arms);
    out
}

fn write_table(
    out: &mut String,
    scenario: &Scenario,
    arms: &[ArmSummary],
) -> Result<(), std::fmt::Error> {
    writeln!(out, "{}", headline(scenario))?;
    for (number, names) in BLOCKS.iter().enumerate() {
        let columns: Vec<(usize, &Figure)> = names
            .iter()
            .filter_map(|name| FIGURES.iter().enumerate().find(|(_, f)| f.name == *name))
            .collect();
        let mut rows = vec![head(&columns, number == 0)];
        rows.extend(arms.iter().map(|arm| row(arm, &columns, number == 0)));
        writeln!(out)?;
        write_aligned(out, &rows)?;
    }
    let recommendation = in_words(arms);
    if !recommendation.is_empty() {
        writeln!(out, "\n{recommendation}")?;
    }
    if !scenario.known.is_empty() {
        writeln!(out)?;
        write_aligned(out, &beside_known(scenario, arms))?;
    }
    if arms
        .iter()
        .any(|arm| arm.settling == Settling::DoesNotSettle)
    {
        writeln!(
            out,
            "\nAn arm that does not settle has no completion time of its own: jobs take the longer, \
             the longer the stream lasts."
        )?;
    }
    Ok(())
}

/// Returns what every result states beside its figures.
#[must_use]
pub fn headline(scenario: &Scenario) -> String {
    let (delays, workload) = (&scenario.delays, &scenario.workload);
    format!(
        "{}\n{}{}, {}, {} {}; heartbeat of masters {}{}, \
         of nodes {}{}, launch {} (profile {}{}); the first {} % of the jobs are left out{}",
        scenario.title,
        scenario.cluster.described(),
        scenario.failures.described(),
        workload.described(),
        scenario.run.seeds,
        if scenario.run.seeds == 1 {
            "seed"
        } else {
            "seeds"
        },
        delays.am_heartbeat,
        scenario.masters.described(),
        delays.node_heartbeat,
        if delays.out_of_band {
            " and at ends"
        } else {
            ""
        },
        delays.launch,
        delays.profile,
        if delays.is_changed { ", changed" } else { "" },
        scenario.run.warm_up_percent,
        scenario.run.level.described(),
    )
}

fn head(columns: &[(usize, &Figure)], is_first: bool) -> Vec<String> {
    let mut cells = vec!["arm".to_owned()];
    cells.extend(columns.iter().map(|(_, figure)| figure.heading.to_owned()));
    if is_first {
        cells.push("p50 against first".to_owned());
        cells.push(String::new());
    }
    cells
}

fn row(arm: &ArmSummary, columns: &[(usize, &Figure)], is_first: bool) -> Vec<String> {
    let mut cells = vec![format!("{} ({})", arm.label, arm.nature)];
    for (column, figure) in columns {
        let estimate = arm.figures[*column];
        let decimals = figure.decimals;
        let mut cell = format!("{:.decimals$}", estimate.mean);
        if figure.name == "jct_p50_s"
            && let Some(half_width) = estimate.half_width
        {
            let _ = write!(cell, " ± {half_width:.decimals$}");
        }
        cells.push(cell);
    }
    if is_first {
        cells.push(arm.against_first.map_or_else(String::new, percent));
        cells.push(arm.settling.as_str().to_owned());
    }
    cells
}

/// Returns rows that show the figures known from elsewhere beside those found.
fn beside_known(scenario: &Scenario, arms: &[ArmSummary]) -> Vec<Vec<String>> {
    let head = ["arm", "figure", "found", "known", "off by", "from"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    for known in &scenario.known {
        let arm = arms.iter().find(|arm| arm.label == known.arm);
        let (Some(arm), Some(column)) = (arm, known.column()) else {
            continue;
        };
        let (figure, estimate) = (FIGURES[column], arm.figures[column]);
        let (found, decimals) = (estimate.mean, figure.decimals);
        let width = estimate.half_width;
        let width = width.map_or_else(String::new, |width| format!(" ± {width:.decimals$}"));
        let off = if known.value == 0.0 {
            format!("{:+.decimals$}", found - known.value)
        } else {
            format!("{:+.1} %", (found / known.value - 1.0) * 100.0)
        };
        rows.push(vec![
            known.arm.clone(),
            figure.heading.to_owned(),
            format!("{found:.decimals$}{width}"),
            format!("{:.decimals$}", known.value),
            off,
            known.source.clone(),
        ]);
    }
    rows
}

fn percent(estimate: Estimate) -> String {
    let width = estimate
        .half_width
        .map_or_else(String::new, |width| format!(" ± {:.0}", width * 100.0));
    format!("{:+.0}{width} %", estimate.mean * 100.0)
}

fn write_aligned(out: &mut String, rows: &[Vec<String>]) -> std::fmt::Result {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    for row in rows {
        let mut line = String::new();
        for (number, (cell, width)) in row.iter().zip(&widths).enumerate() {
            if number == 0 {
                write!(line, "{cell:width$}")?;
            } else {
                write!(line, "  {cell:>width$}")?;
            }
        }
        writeln!(out, "{}", line.trim_end())?;
    }
    Ok(())
}

/// Returns every figure of every run as CSV, a line for each.
#[must_use]
pub fn runs_csv(scenario: &Scenario, results: &Results) -> String {
    let names: Vec<&str> = FIGURES.iter().map(|figure| figure.name).collect();
    let mut out = format!("arm,nature,seed,{}\n", names.join(","));
    for (arm, runs) in scenario.arms.iter().zip(&results.runs) {
        for run in runs.iter().flatten() {
            let (label, nature) = (quoted(&arm.label()), arm.policy.nature());
            let _ = write!(out, "{label},{nature},{}", run.seed);
            for value in &run.values {
                let _ = write!(out, ",{value:.6}");
            }
            out.push('\n');
        }
    }
    out
}

/// Returns every job of every run as CSV, a line for each. A job that had not ended has no end.
#[must_use]
pub fn jobs_csv(scenario: &Scenario, results: &Results) -> String {
    let mut out = "arm,seed,job,arrives_s,tasks,guaranteed,work_s,completion_s\n".to_owned();
    for (arm, runs) in scenario.arms.iter().zip(&results.runs) {
        let label = quoted(&arm.label());
        for run in runs.iter().flatten() {
            for (number, job) in run.jobs.iter().enumerate() {
                let seconds = |ms: u64| float(ms) / 1_000.0;
                let took = job.finished_ms.map_or_else(String::new, |finished| {
                    format!("{:.3}", seconds(finished - job.arrives_ms))
                });
                let (arrives, work) = (seconds(job.arrives_ms), seconds(job.work_ms));
                let _ = writeln!(
                    out,
                    "{label},{},{number},{arrives:.3},{},{},{work:.3},{took}",
                    run.seed, job.tasks, job.is_guaranteed
                );
            }
        }
    }
    out
}

/// Quotes a field of CSV (RFC 4180).
fn quoted(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_every_figure_once() {
        let mut shown: Vec<&str> = BLOCKS.concat();
        let mut all: Vec<&str> = FIGURES.iter().map(|figure| figure.name).collect();
        shown.sort_unstable();
        all.sort_unstable();
        assert_eq!(shown, all);
    }

    #[test]
    fn a_field_with_a_comma_or_a_quote_is_quoted() {
        assert_eq!(quoted("spread, list of 10"), "\"spread, list of 10\"");
        assert_eq!(quoted("a \"b\""), "\"a \"\"b\"\"\"");
        assert_eq!(quoted("a"), "a");
    }
}
