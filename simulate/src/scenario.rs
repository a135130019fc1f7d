//! Scenarios: cluster, delays, workload, arms and seeds of a simulation, as TOML.

mod arm;
mod check;
mod cluster;
mod delays;
mod failures;
mod known;
mod level;
mod masters;
mod problem;
mod read;
mod suggest;
mod sweep;

use serde::Deserialize;
use thiserror::Error;

use crate::workload::WorkloadSpec;

pub use arm::{Arm, Comparator, Nature, Order, Policy, Settings};
pub use cluster::{Cluster, NodeKind, RmKind};
pub use delays::{Delays, PROFILES};
pub use failures::Failures;
pub use known::Known;
pub use level::Level;
pub use masters::Masters;
pub use problem::ScenarioProblem;

/// Error for a text that is not a scenario.
#[derive(Debug, Error)]
pub enum ScenarioError {
    /// The text is not TOML, or a key or value is not one of a scenario. Names line and column,
    /// and the nearest key that is accepted.
    #[error("{0}{near}", near = suggest::near(.0))]
    Syntax(#[from] toml::de::Error),
    /// Values that cannot be simulated, each with its key.
    #[error("{}", list(.0))]
    Problems(Vec<ScenarioProblem>),
}

fn list(problems: &[ScenarioProblem]) -> String {
    let lines: Vec<String> = problems.iter().map(ToString::to_string).collect();
    lines.join("\n")
}

/// Simulation to run: every arm with every seed.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Scenario {
    /// Title of tables and pages.
    pub title: String,
    /// Nodes.
    pub cluster: Cluster,
    /// Delays of messages, launches and heartbeats.
    #[serde(default)]
    pub delays: Delays,
    /// Jobs.
    pub workload: WorkloadSpec,
    /// Failures of nodes.
    #[serde(default)]
    pub failures: Failures,
    /// ApplicationMasters.
    #[serde(default)]
    pub masters: Masters,
    /// Seeds and bounds of the runs.
    #[serde(default)]
    pub run: Run,
    /// Figures from elsewhere, to stand beside those of the simulation.
    #[serde(default)]
    pub known: Vec<Known>,
    /// Policies to compare.
    #[serde(rename = "arm")]
    pub arms: Vec<Arm>,
}

/// Seeds and bounds of the runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Run {
    /// Level of the simulation.
    pub level: Level,
    /// First seed.
    pub first_seed: u64,
    /// Number of seeds; arms share each seed's arrivals and task lengths.
    pub seeds: u64,
    /// Percentage of the jobs, in the order of arrival, that are left out at the begin.
    pub warm_up_percent: u64,
    /// Percentage of the jobs, in the order of arrival, that are left out at the end, because fewer
    /// and fewer others run beside them.
    pub tail_percent: u64,
    /// Virtual time after the last arrival at which a run ends, with whatever jobs are unfinished.
    pub drain_limit_s: u64,
}

impl Default for Run {
    fn default() -> Self {
        Self {
            level: Level::default(),
            first_seed: 1,
            seeds: 10,
            warm_up_percent: 20,
            tail_percent: 0,
            drain_limit_s: 3_600,
        }
    }
}

impl Scenario {
    /// Returns the seeds of the runs.
    pub fn seeds(&self) -> impl Iterator<Item = u64> + use<> {
        let first = self.run.first_seed;
        (0..self.run.seeds).map(move |number| first.wrapping_add(number))
    }
}
