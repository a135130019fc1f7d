//! Cells of the study: a cluster, a workload and a load, with every arm that is compared there.

use crate::numbers::{float, float_of, whole};
use crate::scenario::{Arm, Policy, Scenario, ScenarioError};

/// Places of each node.
const PLACES: u32 = 8;

/// Cluster of one size, with what runs on it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Part {
    /// Number of nodes.
    pub nodes: usize,
    /// Number of seeds.
    pub seeds: u64,
    /// Tasks of a job, where the kind of jobs has a fixed number.
    pub tasks: u32,
    /// Workloads.
    pub workloads: &'static [Workload],
    /// Arms: policies with the number of nodes on the list that they read.
    pub arms: &'static [(&'static str, usize)],
}

/// Jobs with the loads at which they run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Workload {
    /// Name in tables and files.
    pub name: &'static str,
    /// Kind of the jobs, as in scenarios.
    kind: &'static str,
    /// Length of a task in milliseconds, where the kind has a fixed one.
    task_ms: u64,
    /// Number of jobs.
    count: u64,
    /// Loads.
    pub loads: &'static [f64],
}

const fn jobs(
    name: &'static str,
    kind: &'static str,
    count: u64,
    loads: &'static [f64],
) -> Workload {
    Workload {
        name,
        kind,
        task_ms: 10_000,
        count,
        loads,
    }
}

const fn even(name: &'static str, task_ms: u64, count: u64, loads: &'static [f64]) -> Workload {
    Workload {
        task_ms,
        ..jobs(name, "even", count, loads)
    }
}

const USUAL: &[f64] = &[0.8];
const LOADS: &[f64] = &[0.5, 0.8, 0.95];

const fn all_jobs(count: u64, facebook: u64, loads: &'static [f64]) -> [Workload; 8] {
    [
        jobs("two", "two", count, loads),
        jobs("mixed", "mixed", count, loads),
        jobs("heavy", "heavy", count, loads),
        jobs("facebook", "facebook", facebook, loads),
        even("1 s", 1_000, count, loads),
        even("5 s", 5_000, count, loads),
        even("10 s", 10_000, count, loads),
        even("50 s", 50_000, count, loads),
    ]
}

/// Every part of the study, the smallest cluster first.
pub const PARTS: &[Part] = &[
    Part {
        nodes: 10,
        seeds: 10,
        tasks: 20,
        workloads: &all_jobs(100, 100, USUAL),
        arms: &[
            ("look", 0),
            ("spread", 10),
            ("list-order", 10),
            ("central", 10),
            ("hadoop-central", 10),
            ("hadoop-distributed", 10),
            ("random", 0),
            ("looks", 0),
            ("sparrow-early", 0),
            ("sparrow-late", 0),
            ("guaranteed-fifo", 0),
            ("guaranteed-fair", 0),
            ("guaranteed-shortest", 0),
            ("omniscient-fifo", 0),
            ("omniscient-shortest", 0),
        ],
    },
    Part {
        nodes: 100,
        seeds: 10,
        tasks: 100,
        workloads: &all_jobs(200, 300, LOADS),
        arms: &[
            ("look", 0),
            ("spread", 10),
            ("spread", 100),
            ("list-order", 10),
            ("list-order", 100),
            ("central", 10),
            ("central", 100),
            ("hadoop-central", 10),
            ("hadoop-central", 100),
            ("hadoop-distributed", 10),
            ("hadoop-distributed", 100),
            ("random", 0),
            ("looks", 0),
            ("sparrow-early", 0),
            ("sparrow-late", 0),
            ("guaranteed-fifo", 0),
            ("guaranteed-fair", 0),
            ("guaranteed-shortest", 0),
            ("omniscient-fifo", 0),
            ("omniscient-shortest", 0),
        ],
    },
    Part {
        nodes: 1_000,
        seeds: 10,
        tasks: 100,
        workloads: &[
            jobs("two", "two", 1_000, LOADS),
            jobs("heavy", "heavy", 2_000, USUAL),
            jobs("facebook", "facebook", 1_000, USUAL),
        ],
        arms: &[
            ("look", 0),
            ("spread", 10),
            ("spread", 100),
            ("spread", 1_000),
            ("central", 10),
            ("central", 1_000),
            ("hadoop-distributed", 10),
            ("random", 0),
            ("guaranteed-fair", 0),
            ("omniscient-shortest", 0),
        ],
    },
    Part {
        nodes: 10_000,
        seeds: 3,
        tasks: 100,
        workloads: &[jobs("two", "two", 4_000, USUAL)],
        arms: &[
            ("look", 0),
            ("spread", 1_000),
            ("central", 10_000),
            ("random", 0),
            ("guaranteed-fair", 0),
            ("omniscient-shortest", 0),
        ],
    },
];

/// Cell of the study: a workload at a load on a cluster.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cell {
    /// Part that the cell is of.
    pub part: &'static Part,
    /// Workload.
    pub workload: &'static Workload,
    /// Load.
    pub load: f64,
}

/// Returns every cell, those of the smallest cluster first.
pub fn cells() -> impl Iterator<Item = Cell> {
    PARTS.iter().flat_map(|part| {
        let of_part = part.workloads.iter().flat_map(|workload| {
            let loads = workload.loads.iter();
            loads.map(move |load| (workload, *load))
        });
        of_part.map(move |(workload, load)| Cell {
            part,
            workload,
            load,
        })
    })
}

impl Cell {
    /// Returns the name of the cell on the command line.
    #[must_use]
    pub fn name(&self) -> String {
        let workload = self.workload.name.replace(' ', "");
        format!("{workload}-{}-{}", self.part.nodes, self.load)
    }

    /// Returns the scenario of the cell.
    ///
    /// # Errors
    /// Never for a cell of [`PARTS`]: a test reads each.
    pub fn scenario(&self) -> Result<Scenario, ScenarioError> {
        let (part, workload) = (self.part, self.workload);
        let arms = part.arms.iter().map(|(policy, list)| match list {
            0 => format!("[[arm]]\npolicy = \"{policy}\"\n"),
            list => format!("[[arm]]\npolicy = \"{policy}\"\nnodes-used = {list}\n"),
        });
        let arms: String = arms.collect();
        Scenario::read(&format!(
            "title = \"Jobs {} on {} nodes\"\n\
             cluster = {{ nodes = {}, places = {PLACES} }}\n\
             workload = {{ jobs = \"{}\", tasks = {}, task-ms = {}, count = {}, load = {:?} }}\n\
             run = {{ seeds = {} }}\n{arms}",
            workload.name,
            part.nodes,
            part.nodes,
            workload.kind,
            part.tasks,
            workload.task_ms,
            workload.count,
            self.load,
            part.seeds,
        ))
    }
}

/// Returns about how long an arm of a scenario takes with all its seeds on one core, in seconds:
/// what a container cost in runs of a release build.
#[must_use]
pub fn seconds_about(scenario: &Scenario, arm: &Arm) -> f64 {
    let containers = scenario.workload.containers_about() * scenario.run.seeds;
    float(containers) * cost_us(scenario.cluster.node_count(), arm) / 1e6
}

/// Returns what a container costs in microseconds: its life and its share of the nodes' heartbeats,
/// more where it is shed and placed again, and, of long lists, what reading them takes.
fn cost_us(nodes: usize, arm: &Arm) -> f64 {
    let list = float_of(arm.list().min(nodes));
    match arm.policy {
        Policy::OmniscientFifo | Policy::OmniscientShortest => 1.0,
        Policy::Look
        | Policy::Looks
        | Policy::Random
        | Policy::SparrowEarly
        | Policy::GuaranteedFifo
        | Policy::GuaranteedFair
        | Policy::GuaranteedShortest => 20.0,
        Policy::SparrowLate | Policy::Reservations => 40.0,
        // Every job reads each list: their number grows with the cluster.
        Policy::Spread | Policy::ListOrder | Policy::HadoopDistributed => {
            40.0 + list * float_of(nodes) / 20_000.0
        }
        Policy::Central | Policy::HadoopCentral => 40.0 + list / 5.0,
    }
}

/// Returns a duration in whole minutes, at least one.
#[must_use]
pub fn minutes(seconds: f64) -> u64 {
    whole((seconds / 60.0).ceil()).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_cell_is_a_scenario_with_a_name_of_its_own() {
        let mut names = BTreeSet::new();
        for cell in cells() {
            let scenario = cell.scenario().unwrap();
            assert_eq!(scenario.arms.len(), cell.part.arms.len());
            assert!(names.insert(cell.name()), "{}", cell.name());
        }
    }
}
