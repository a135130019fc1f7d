//! Figures of an arm that are known from elsewhere: published, measured or simulated otherwise.

use serde::Deserialize;

use super::problem::ScenarioProblem;
use crate::figures::{FIGURES, column};

/// Figure from elsewhere.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Known {
    /// Label of the arm that it is compared with.
    pub arm: String,
    /// Name of the figure, as in CSV files.
    pub figure: String,
    /// Value, in the unit of the figure.
    pub value: f64,
    /// Source of the value.
    pub source: String,
}

impl Known {
    /// Returns the position of the figure in [`FIGURES`].
    pub(crate) fn column(&self) -> Option<usize> {
        column(&self.figure)
    }
}

/// Returns what is wrong with the known figures of a scenario whose arms have these labels.
pub(super) fn problems(all: &[Known], labels: &[String]) -> Vec<ScenarioProblem> {
    let mut found = Vec::new();
    for (number, known) in (1..).zip(all) {
        let mut add = |key: &str, reason: String| {
            let key = format!("known {number}.{key}");
            found.push(ScenarioProblem { key, reason });
        };
        if !labels.contains(&known.arm) {
            let labels = labels.join("; ");
            add("arm", format!("{:?} is none of: {labels}", known.arm));
        }
        if known.column().is_none() {
            let names: Vec<&str> = FIGURES.iter().map(|figure| figure.name).collect();
            add(
                "figure",
                format!("{:?} is none of: {}", known.figure, names.join(" ")),
            );
        }
        if !known.value.is_finite() {
            add("value", "not a finite number".to_owned());
        }
    }
    found
}
