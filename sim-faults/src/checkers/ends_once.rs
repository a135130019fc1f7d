//! Every container ends exactly once towards its AM: no end is told twice, none is told of a
//! container of another AM, and an AM that lives to the end of the run learns of all.
//!
//! As in Hadoop, an AM is told of the end of its container that was lost before an answer carried
//! it. No answer may carry that container afterwards.

use std::collections::{BTreeMap, BTreeSet};

use records::{ApplicationAttemptId, ContainerExitStatus, ContainerId};

use super::Checker;
use crate::finding::{Checked, Finding};
use crate::observation::Observation;

/// The property.
#[derive(Debug, Default)]
pub(super) struct EndsOnce {
    /// Containers without an end, by the AM that got them.
    open: BTreeMap<ApplicationAttemptId, BTreeSet<ContainerId>>,
    ended: BTreeSet<ContainerId>,
}

impl Checker for EndsOnce {
    fn name(&self) -> &'static str {
        "ends-once"
    }

    fn observe(&mut self, _: u64, observation: &Observation) -> Checked {
        match observation {
            Observation::Allocated { id, .. } => {
                if self.ended.contains(id) {
                    return Err(Finding::of(*id, "was given out after its end"));
                }
                self.open.entry(id.attempt).or_default().insert(*id);
            }
            Observation::Completed {
                attempt,
                id,
                status,
            } => {
                if !self.ended.insert(*id) {
                    return Err(Finding::of(*id, "its AM is told of its end a second time"));
                }
                let open = self.open.get_mut(attempt);
                let was_got = open.is_some_and(|open| open.remove(id));
                let is_lost = id.attempt == *attempt && *status == ContainerExitStatus::ABORTED.0;
                if !was_got && !is_lost {
                    return Err(Finding::of(
                        *id,
                        format!("ended with {status}, and {attempt} never got it"),
                    ));
                }
            }
            Observation::MasterGone(attempt) => {
                self.open.remove(attempt);
            }
            _ => {}
        }
        Ok(())
    }

    fn end(&mut self, _: u64) -> Checked {
        let mut left = self.open.values().flatten();
        left.next().map_or(Ok(()), |id| {
            Err(Finding::of(*id, "its AM was never told of its end"))
        })
    }
}
