//! The observer of a run: passes facts to the checkers, keeps the last ones for the report, and
//! stops at the first violation.

use std::collections::{BTreeSet, VecDeque};
use std::fmt;

use crate::checkers::{self, Checker};
use crate::finding::Finding;
use crate::observation::Observation;

/// Facts kept for the report of a violation.
const TRACE_MAX: usize = 20_000;

/// Lines of a report.
const REPORT_LINES_MAX: usize = 60;

/// Property that a checker has seen violated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Name of the checker.
    pub checker: &'static str,
    /// Virtual time in milliseconds.
    pub at_ms: u64,
    /// Claim that is false.
    pub what: String,
    /// The last facts about the container or node, one per line, the oldest first.
    pub trace: Vec<String>,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} at {} ms: {}", self.checker, self.at_ms, self.what)?;
        for line in &self.trace {
            writeln!(f, "    {line}")?;
        }
        Ok(())
    }
}

/// Observer of a run.
pub struct Watch {
    checkers: Vec<Box<dyn Checker>>,
    /// The only property that counts; `None`: all count.
    only: Option<&'static str>,
    trace: VecDeque<(u64, Observation)>,
    violation: Option<Violation>,
    observed: u64,
    allocated: u64,
}

impl Watch {
    /// Returns an observer with all checkers, or only the one of this name.
    #[must_use]
    pub fn new(world: &checkers::Facts, only: Option<&'static str>) -> Self {
        let mut checkers = checkers::all(world);
        checkers.retain(|checker| only.is_none_or(|only| checker.name() == only));
        Self {
            checkers,
            only,
            trace: VecDeque::new(),
            violation: None,
            observed: 0,
            allocated: 0,
        }
    }

    /// Shows a fact to all checkers.
    pub fn observe(&mut self, at_ms: u64, observation: Observation) {
        if self.violation.is_some() {
            return;
        }
        self.observed += 1;
        self.allocated += u64::from(matches!(observation, Observation::Allocated { .. }));
        let mut found = None;
        for checker in &mut self.checkers {
            if let Err(finding) = checker.observe(at_ms, &observation) {
                found = Some((checker.name(), finding));
                break;
            }
        }
        if self.trace.len() == TRACE_MAX {
            self.trace.pop_front();
        }
        self.trace.push_back((at_ms, observation));
        if let Some((checker, finding)) = found {
            self.violated(checker, at_ms, finding);
        }
    }

    /// Lets all checkers look at what should have happened by the end.
    pub fn end(&mut self, at_ms: u64) {
        if self.violation.is_some() {
            return;
        }
        let checked = self.checkers.iter_mut();
        let mut checked = checked.map(|checker| (checker.name(), checker.end(at_ms)));
        let found = checked.find_map(|(name, checked)| Some((name, checked.err()?)));
        if let Some((checker, finding)) = found {
            self.violated(checker, at_ms, finding);
        }
    }

    /// Records a violation that the world itself has noticed.
    pub fn violated(&mut self, checker: &'static str, at_ms: u64, finding: Finding) {
        if self.only.is_some_and(|only| only != checker) {
            return;
        }
        let of_containers = |observation: &Observation| {
            let container = observation.container();
            container.is_some_and(|id| finding.containers.contains(&id))
        };
        let facts = self.trace.iter().map(|(_, observation)| observation);
        let nodes = facts.filter(|fact| of_containers(fact));
        let nodes: BTreeSet<usize> = nodes.filter_map(Observation::node).collect();
        let is_end = |observation: &Observation| {
            if let Observation::AgentGone { node, .. } = observation {
                return nodes.contains(node);
            }
            matches!(observation, Observation::ResourceManagerRestarted)
        };
        let concerns = |observation: &Observation| {
            of_containers(observation)
                || is_end(observation)
                || finding
                    .node
                    .is_some_and(|node| observation.node() == Some(node))
        };
        let lines = self.trace.iter().rev();
        let lines = lines.filter(|(_, observation)| concerns(observation));
        let mut trace: Vec<String> = lines
            .take(REPORT_LINES_MAX)
            .map(|(at, observation)| format!("{at:>8} {observation:?}"))
            .collect();
        trace.reverse();
        self.violation.get_or_insert(Violation {
            checker,
            at_ms,
            what: finding.what,
            trace,
        });
    }

    /// Returns the first violation.
    #[must_use]
    pub const fn violation(&self) -> Option<&Violation> {
        self.violation.as_ref()
    }

    /// Returns the number of containers that came to an AM.
    #[must_use]
    pub const fn allocated(&self) -> u64 {
        self.allocated
    }

    /// Returns the number of facts so far.
    #[must_use]
    pub const fn observed(&self) -> u64 {
        self.observed
    }
}
