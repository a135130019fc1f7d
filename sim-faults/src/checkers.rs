//! Properties that every run must have, each in a file of its own. A checker sees facts and keeps a
//! model of its own; it never looks into the code under test.

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "a checker looks at the facts that concern it, and at no others"
)]

mod acknowledged;
mod bounded_kill;
mod ends_once;
mod exit_truth;
mod fifo;
mod kill_order;
mod leftovers;
mod overcommit;
mod queue_limit;
mod queues;
mod started_once;
mod unique_ids;

use records::Resource;

use crate::finding::Checked;
use crate::observation::Observation;

/// Facts about the world that do not change in a run.
#[derive(Clone, Debug)]
pub struct Facts {
    /// Capacity of each node.
    pub capacity: Resource,
    /// Number of nodes.
    pub nodes: usize,
    /// Milliseconds from SIGTERM to SIGKILL.
    pub sigkill_delay_ms: u64,
}

/// Property of a run.
pub trait Checker {
    /// Returns the property's name.
    fn name(&self) -> &'static str;

    /// Looks at a fact.
    ///
    /// # Errors
    /// The property does not hold.
    fn observe(&mut self, at_ms: u64, observation: &Observation) -> Checked;

    /// Looks at the end of a run, when the world has been without faults for a while.
    ///
    /// # Errors
    /// The property does not hold.
    fn end(&mut self, at_ms: u64) -> Checked {
        let _ = at_ms;
        Ok(())
    }
}

/// Name of the property that everything comes to its end, at which the world itself looks.
pub const FINISHES: &str = "finishes";

/// Name of the property that workers are told what is true, which their model looks at.
pub const WORKERS: &str = "workers";

/// Returns all checkers.
#[must_use]
pub fn all(facts: &Facts) -> Vec<Box<dyn Checker>> {
    vec![
        Box::<ends_once::EndsOnce>::default(),
        Box::<exit_truth::ExitTruth>::default(),
        Box::<started_once::StartedOnce>::default(),
        Box::<unique_ids::UniqueIds>::default(),
        Box::<fifo::Fifo>::default(),
        Box::<kill_order::KillOrder>::default(),
        Box::new(overcommit::Overcommit::new(facts)),
        Box::<queue_limit::QueueLimit>::default(),
        Box::<acknowledged::Acknowledged>::default(),
        Box::new(bounded_kill::BoundedKill::new(facts)),
        Box::<leftovers::Leftovers>::default(),
    ]
}
