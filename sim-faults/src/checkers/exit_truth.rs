//! What an AM is told of an end is true: a process that ended by itself is reported with its own
//! exit status, and success is reported only of a process that succeeded.

use std::collections::BTreeMap;

use records::{ContainerExitStatus, ContainerId};

use super::Checker;
use crate::finding::{Checked, Finding};
use crate::observation::Observation;

/// The property.
#[derive(Debug, Default)]
pub(super) struct ExitTruth {
    /// Exit status of the processes that are gone.
    exits: BTreeMap<ContainerId, (i32, bool)>,
}

impl Checker for ExitTruth {
    fn name(&self) -> &'static str {
        "exit-truth"
    }

    fn observe(&mut self, _: u64, observation: &Observation) -> Checked {
        match observation {
            Observation::ProcessEnded {
                id,
                status,
                by_itself,
                ..
            } => {
                self.exits.insert(*id, (*status, *by_itself));
            }
            Observation::Completed { id, status, .. } => {
                let exit = self.exits.remove(id);
                let success = ContainerExitStatus::SUCCESS.0;
                if *status == success && exit.is_none_or(|(exit, _)| exit != success) {
                    let what = format!("reported as successful, but its process: {exit:?}");
                    return Err(Finding::of(*id, what));
                }
            }
            _ => {}
        }
        Ok(())
    }
}
