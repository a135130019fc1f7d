//! Simulations against closed forms, and the claims that hold for every scenario.

#![expect(clippy::unwrap_used, reason = "helpers of tests: they fail with it")]

mod arms;
mod closed_forms;
mod delays;
mod known;
mod levels;
mod models;
mod paper;
mod policies;
mod reservations;
mod results;

use std::sync::atomic::AtomicBool;

use simulate::figures::FIGURES;
use simulate::runner::{Results, run};
use simulate::scenario::Scenario;
use simulate::summary::{ArmSummary, Estimate, summaries};

/// Runs a scenario given as text.
fn results_of(text: &str, threads: usize) -> (Scenario, Results) {
    let scenario = Scenario::read(text).unwrap();
    let results = run(&scenario, threads, &AtomicBool::new(false), &mut |_| ());
    assert!(results.is_complete());
    (scenario, results)
}

fn arms_of(text: &str) -> Vec<ArmSummary> {
    let (scenario, results) = results_of(text, 2);
    summaries(&scenario, &results.runs)
}

/// Returns a figure of an arm by its name in CSV files.
fn figure(arm: &ArmSummary, name: &str) -> Estimate {
    let column = FIGURES.iter().position(|figure| figure.name == name);
    arm.figures[column.unwrap()]
}
