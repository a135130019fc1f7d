//! Figures of the study as they are kept: CSV with a line for each arm of a cell.

use std::fmt::Write as _;

use thiserror::Error;

use super::plan::{Cell, cells};
use crate::figures::FIGURES;
use crate::scenario::{Arm, Scenario};
use crate::summary::{ArmSummary, Estimate, Settling};

/// Figures of an arm in a cell.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Name of the cell.
    pub cell: String,
    /// Policy of the arm.
    pub policy: String,
    /// Nodes on the list that the arm reads; 0: it reads none.
    pub list: usize,
    /// Number of seeds that have run.
    pub seeds: usize,
    /// Whether the runs have settled.
    pub settling: Settling,
    /// Estimate of each of [`FIGURES`].
    pub figures: Vec<Estimate>,
}

/// Error for a text that is not the figures of the study.
#[derive(Debug, Error, PartialEq, Eq)]
#[error("line {line}: {reason}")]
pub struct StoredError {
    line: usize,
    reason: String,
}

impl Row {
    /// Returns the row of an arm of a cell.
    #[must_use]
    pub fn new(cell: &Cell, arm: &Arm, summary: &ArmSummary) -> Self {
        Self {
            cell: cell.name(),
            policy: arm.policy.as_str().to_owned(),
            list: arm.list(),
            seeds: summary.seeds,
            settling: summary.settling,
            figures: summary.figures.clone(),
        }
    }

    /// Returns whether the row is that of an arm of a cell.
    #[must_use]
    pub fn is_of(&self, cell: &Cell, arm: &Arm) -> bool {
        self.cell == cell.name() && self.policy == arm.policy.as_str() && self.list == arm.list()
    }

    /// Returns the figures of a recomputation that are outside of the row's intervals, in words.
    /// What is stored is rounded.
    #[must_use]
    pub fn left_by(&self, found: &[Estimate]) -> Vec<String> {
        let pairs = FIGURES.iter().zip(&self.figures).zip(found);
        let left = pairs.filter(|((_, stored), found)| {
            let width = stored.half_width.unwrap_or(0.0);
            let rounding = 1e-5 + stored.mean.abs() * 1e-5;
            (stored.mean - found.mean).abs() > width + rounding
        });
        left.map(|((figure, stored), found)| {
            let width = stored.half_width.unwrap_or(0.0);
            let (name, mean, found) = (figure.name, stored.mean, found.mean);
            format!(
                "{} {} {}: {name} {found}, stored {mean} ± {width}",
                self.cell, self.policy, self.list
            )
        })
        .collect()
    }
}

fn head() -> String {
    let mut head = "cell,policy,list,seeds,settling".to_owned();
    for figure in FIGURES {
        let name = figure.name;
        // Writing to a string cannot fail.
        let _ = write!(head, ",{name},{name}_half");
    }
    head
}

/// Returns rows as CSV, in the order of the plan.
#[must_use]
pub fn csv(rows: &[Row]) -> String {
    let mut out = head();
    out.push('\n');
    for cell in cells() {
        for row in rows.iter().filter(|row| row.cell == cell.name()) {
            let (name, policy, settling) = (&row.cell, &row.policy, row.settling.as_str());
            let _ = write!(out, "{name},{policy},{},{},{settling}", row.list, row.seeds);
            for estimate in &row.figures {
                let width = estimate.half_width.map_or_else(String::new, short);
                let _ = write!(out, ",{},{width}", short(estimate.mean));
            }
            out.push('\n');
        }
    }
    out
}

/// Returns a number with at most six decimals.
fn short(value: f64) -> String {
    let text = format!("{value:.6}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Reads what [`csv`] has written.
///
/// # Errors
/// The first line that is not such a row.
pub fn read(text: &str) -> Result<Vec<Row>, StoredError> {
    let mut lines = (1..).zip(text.lines());
    let first = lines.next().map(|(_, line)| line);
    if first != Some(&*head()) {
        let reason = "other figures than those of this program".to_owned();
        return Err(StoredError { line: 1, reason });
    }
    lines
        .map(|(line, text)| {
            row(text).map_err(|reason| StoredError {
                line,
                reason: reason.to_owned(),
            })
        })
        .collect()
}

fn row(text: &str) -> Result<Row, &'static str> {
    let fields: Vec<&str> = text.split(',').collect();
    let [cell, policy, list, seeds, settling, figures @ ..] = &*fields else {
        return Err("too few fields");
    };
    if figures.len() != 2 * FIGURES.len() {
        return Err("not a field for each figure and its interval");
    }
    let number = |text: &str| text.parse::<f64>().map_err(|_| "not a number");
    let figures = figures.chunks(2).map(|pair| {
        Ok(Estimate {
            mean: number(pair[0])?,
            half_width: match pair[1] {
                "" => None,
                width => Some(number(width)?),
            },
        })
    });
    let all = [
        Settling::Settles,
        Settling::DoesNotSettle,
        Settling::TooShort,
    ];
    let of_text = |known: &Settling| known.as_str() == *settling;
    Ok(Row {
        cell: (*cell).to_owned(),
        policy: (*policy).to_owned(),
        list: list.parse().map_err(|_| "not a number of nodes")?,
        seeds: seeds.parse().map_err(|_| "not a number of seeds")?,
        settling: all.into_iter().find(of_text).ok_or("unknown settling")?,
        figures: figures.collect::<Result<_, &'static str>>()?,
    })
}

/// Returns the row of an arm of a cell.
#[must_use]
pub fn row_of<'a>(rows: &'a [Row], cell: &Cell, arm: &Arm) -> Option<&'a Row> {
    rows.iter().find(|row| row.is_of(cell, arm))
}

/// Returns the rows without those of an arm of a cell that `new` replaces, and `new`.
#[must_use]
pub fn merged(mut rows: Vec<Row>, new: Vec<Row>) -> Vec<Row> {
    let same = |one: &Row, other: &Row| {
        one.cell == other.cell && one.policy == other.policy && one.list == other.list
    };
    rows.retain(|row| !new.iter().any(|new| same(row, new)));
    rows.extend(new);
    rows
}

/// Returns the rows of a cell that has run.
#[must_use]
pub fn rows_of(cell: &Cell, scenario: &Scenario, summaries: &[ArmSummary]) -> Vec<Row> {
    let arms = scenario.arms.iter().zip(summaries);
    arms.filter(|(_, summary)| summary.seeds > 0)
        .map(|(arm, summary)| Row::new(cell, arm, summary))
        .collect()
}
