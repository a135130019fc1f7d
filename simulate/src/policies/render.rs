//! The part of `docs/policies.md` that is made from the figures of the study, and its plots.

use std::fmt::Write as _;

use super::plan::{Cell, PARTS, Part, cells};
use super::stored::{Row, row_of};
use crate::figures::{FIGURES, column};
use crate::page::chart::{Bar, standalone_bars};
use crate::scenario::{Arm, Scenario};
use crate::summary::{Estimate, Settling};

/// Line before the part of the page that is made.
pub const BEGIN: &str =
    "<!-- made by `cargo run --release -p simulate --example policies`: change nothing here -->";
/// Line after it.
pub const END: &str = "<!-- end of what is made -->";

/// Load whose figures are shown whole, and in plots.
const SHOWN_LOAD: f64 = 0.8;

/// Workloads whose figures are shown whole, and in plots.
const SHOWN: [&str; 2] = ["two", "facebook"];

/// Returns a page with its made part replaced; `None` if the page has not both lines.
#[must_use]
pub fn replaced(page: &str, made: &str) -> Option<String> {
    let (before, rest) = page.split_once(BEGIN)?;
    let (_, after) = rest.split_once(END)?;
    Some(format!("{before}{BEGIN}\n\n{made}\n{END}{after}"))
}

/// Returns the made part of the page.
#[must_use]
pub fn made(rows: &[Row]) -> String {
    let mut out = String::new();
    // Writing to a string cannot fail.
    let _ = write_parts(&mut out, rows);
    out
}

fn write_parts(out: &mut String, rows: &[Row]) -> std::fmt::Result {
    for part in PARTS {
        let of_part: Vec<(Cell, Scenario)> = cells()
            .filter(|cell| cell.part == part)
            .filter_map(|cell| Some((cell, cell.scenario().ok()?)))
            .collect();
        write_part(out, part, &of_part, rows)?;
    }
    Ok(())
}

fn write_part(
    out: &mut String,
    part: &Part,
    of_part: &[(Cell, Scenario)],
    rows: &[Row],
) -> std::fmt::Result {
    let Some((_, first)) = of_part.first() else {
        return Ok(());
    };
    writeln!(out, "### {} nodes\n", part.nodes)?;
    let delays = &first.delays;
    writeln!(
        out,
        "{}; heartbeat of masters {}, of nodes {}{}, launch {} (profile {}). \
         Median of the job completion times in seconds.\n",
        first.cluster.described(),
        delays.am_heartbeat,
        delays.node_heartbeat,
        if delays.out_of_band {
            " and at ends"
        } else {
            ""
        },
        delays.launch,
        delays.profile,
    )?;
    let mut loads: Vec<f64> = of_part.iter().map(|(cell, _)| cell.load).collect();
    loads.sort_by(f64::total_cmp);
    loads.dedup();
    for load in loads {
        let at_load: Vec<&(Cell, Scenario)> = of_part
            .iter()
            .filter(|(cell, _)| is_same(cell.load, load))
            .collect();
        write_medians(out, load, &at_load, rows)?;
    }
    for (cell, scenario) in of_part.iter().filter(|(cell, _)| is_shown(cell)) {
        write_whole(out, cell, scenario, rows)?;
    }
    write_missing(out, of_part, rows)
}

fn is_same(one: f64, other: f64) -> bool {
    (one - other).abs() < f64::EPSILON
}

fn is_shown(cell: &Cell) -> bool {
    SHOWN.contains(&cell.workload.name) && is_same(cell.load, SHOWN_LOAD)
}

/// Writes the medians of each arm under each workload at a load.
fn write_medians(
    out: &mut String,
    load: f64,
    at_load: &[&(Cell, Scenario)],
    rows: &[Row],
) -> std::fmt::Result {
    let has_run = |cell: &Cell| rows.iter().any(|row| row.cell == cell.name());
    if !at_load.iter().any(|(cell, _)| has_run(cell)) {
        // The part names it among what has not run.
        return Ok(());
    }
    let names: Vec<&str> = at_load.iter().map(|(cell, _)| cell.workload.name).collect();
    writeln!(out, "| Load {load} | {} |", names.join(" | "))?;
    writeln!(out, "|---|{}", "---|".repeat(names.len()))?;
    let arms = at_load.first().map_or(&[][..], |(_, first)| &first.arms);
    for arm in arms {
        write!(out, "| {} ({}) |", arm.label(), arm.policy.nature())?;
        for (cell, _) in at_load {
            let row = row_of(rows, cell, arm);
            write!(out, " {} |", row.map_or_else(|| "–".to_owned(), median))?;
        }
        writeln!(out)?;
    }
    writeln!(out)
}

fn median(row: &Row) -> String {
    let Some(p50) = column("jct_p50_s").and_then(|column| row.figures.get(column)) else {
        return String::new();
    };
    let mark = match row.settling {
        Settling::Settles => "",
        Settling::DoesNotSettle => " ↗",
        Settling::TooShort => " ?",
    };
    format!("{}{mark}", with_width(*p50, decimals(p50.mean)))
}

/// Returns how many decimals of a time tell something.
fn decimals(seconds: f64) -> usize {
    if seconds < 100.0 { 1 } else { 0 }
}

fn with_width(estimate: Estimate, decimals: usize) -> String {
    let mean = estimate.mean;
    match estimate.half_width {
        Some(width) => format!("{mean:.decimals$} ± {width:.decimals$}"),
        None => format!("{mean:.decimals$}"),
    }
}

/// Writes every figure of each arm in a cell, and its plot.
fn write_whole(
    out: &mut String,
    cell: &Cell,
    scenario: &Scenario,
    rows: &[Row],
) -> std::fmt::Result {
    let found: Vec<(&Arm, &Row)> = (scenario.arms.iter())
        .filter_map(|arm| Some((arm, row_of(rows, cell, arm)?)))
        .collect();
    if found.is_empty() {
        return Ok(());
    }
    let (name, load) = (cell.workload.name, cell.load);
    let file = plot_name(cell);
    writeln!(out, "Jobs \"{name}\" at a load of {load}, every figure:\n")?;
    writeln!(out, "![Medians of the job completion times]({file})\n")?;
    let headings: Vec<&str> = FIGURES.iter().map(|figure| figure.heading).collect();
    writeln!(out, "| Arm | seeds | {} |", headings.join(" | "))?;
    writeln!(out, "|---|---|{}", "---|".repeat(headings.len()))?;
    for (arm, row) in found {
        write!(out, "| {} | {} |", arm.label(), row.seeds)?;
        for (figure, estimate) in FIGURES.iter().zip(&row.figures) {
            let decimals = figure.decimals;
            write!(out, " {:.decimals$} |", estimate.mean)?;
        }
        writeln!(out)?;
    }
    writeln!(out)
}

/// Names what of a part has not run, or with fewer seeds.
fn write_missing(out: &mut String, of_part: &[(Cell, Scenario)], rows: &[Row]) -> std::fmt::Result {
    let mut missing = Vec::new();
    let mut fewer = Vec::new();
    for (cell, scenario) in of_part {
        let seeds = usize::try_from(cell.part.seeds).unwrap_or(usize::MAX);
        let found = |arm: &Arm| row_of(rows, cell, arm).map_or(0, |row| row.seeds);
        let none: Vec<&Arm> = (scenario.arms.iter())
            .filter(|arm| found(arm) == 0)
            .collect();
        if none.len() == scenario.arms.len() {
            missing.push(format!("\"{}\" at {}", cell.workload.name, cell.load));
        } else {
            let labels = none.iter().map(|arm| arm.label());
            let at = |label| format!("{label} with \"{}\" at {}", cell.workload.name, cell.load);
            missing.extend(labels.map(at));
        }
        let least = scenario.arms.iter().map(found).filter(|run| *run > 0).min();
        if let Some(run) = least.filter(|run| *run < seeds) {
            fewer.push(format!(
                "\"{}\" at {} ({run})",
                cell.workload.name, cell.load
            ));
        }
    }
    for (what, list) in [
        ("Not run yet", missing),
        ("Run with fewer seeds than planned", fewer),
    ] {
        if !list.is_empty() {
            writeln!(out, "{what}: {}.\n", list.join("; "))?;
        }
    }
    Ok(())
}

/// Returns the path of a cell's plot beside the page.
fn plot_name(cell: &Cell) -> String {
    format!("policies/{}.svg", cell.name())
}

/// Returns the plots with their paths beside the page.
#[must_use]
pub fn plots(rows: &[Row]) -> Vec<(String, String)> {
    let shown = cells().filter(is_shown);
    let plot = |cell: Cell| {
        let scenario = cell.scenario().ok()?;
        let labels: Vec<(String, &Row)> = (scenario.arms.iter())
            .filter_map(|arm| Some((arm.label(), row_of(rows, &cell, arm)?)))
            .collect();
        let p50 = column("jct_p50_s")?;
        let bars: Vec<Bar<'_>> = (labels.iter())
            .map(|(label, row)| Bar {
                label,
                value: row.figures[p50].mean,
                half_width: row.figures[p50].half_width,
                text: median(row),
            })
            .collect();
        let title = format!(
            "{}, load {}: median of the job completion times, s",
            scenario.title, cell.load
        );
        (!bars.is_empty()).then(|| (plot_name(&cell), standalone_bars(&title, &bars)))
    };
    shown.filter_map(plot).collect()
}
