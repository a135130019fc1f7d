//! A container that an AM knows to be started gets one process: neither a repeated call nor a
//! restart of the agent starts a second one.
//!
//! A second process is right in three cases, when the first is over: its AM had it launched again;
//! its agent ended before the start was answered, so nothing was promised and the AM may repeat the
//! call; or the machine ended, and nobody had been told of the first one's end. What a machine has
//! done since its last commit, it forgets, and a launch does not wait for a commit.

use std::collections::BTreeMap;

use records::ContainerId;

use super::Checker;
use crate::finding::{Checked, Finding};
use crate::observation::Observation;

/// The property.
#[derive(Debug, Default)]
pub(super) struct StartedOnce {
    starts: BTreeMap<ContainerId, Start>,
}

#[derive(Debug, Default)]
struct Start {
    /// Node of the process; `None`: there was none yet.
    node: Option<usize>,
    is_acknowledged: bool,
    is_over: bool,
    is_told: bool,
    may_be_repeated: bool,
    /// Whether its AM had it launched again.
    restarts: bool,
}

impl Checker for StartedOnce {
    fn name(&self) -> &'static str {
        "started-once"
    }

    fn observe(&mut self, _: u64, observation: &Observation) -> Checked {
        if let Observation::StartAcknowledged { id, .. } = observation {
            self.starts.entry(*id).or_default().is_acknowledged = true;
        } else if let Observation::Restarts { id, .. } = observation {
            self.starts.entry(*id).or_default().restarts = true;
        } else if let Observation::ProcessEnded { id, .. } = observation {
            self.starts.entry(*id).or_default().is_over = true;
        } else if let Observation::EndTold { id, .. } = observation {
            self.starts.entry(*id).or_default().is_told = true;
        } else if let Observation::AgentGone { node, with_machine } = observation {
            let here = self.starts.values_mut();
            for start in here.filter(|start| start.node == Some(*node)) {
                let is_forgotten = *with_machine && !start.is_told;
                start.may_be_repeated |= is_forgotten || !start.is_acknowledged;
            }
        } else if let Observation::ProcessStarted { id, node, .. } = observation {
            let start = self.starts.entry(*id).or_default();
            if start.node.is_some() && !(start.is_over && (start.may_be_repeated || start.restarts))
            {
                return Err(Finding::of(*id, "started a second time"));
            }
            *start = Start {
                node: Some(*node),
                is_acknowledged: start.is_acknowledged,
                restarts: start.restarts,
                ..Start::default()
            };
        }
        Ok(())
    }
}
