//! Every container ends exactly once towards its AM: no end is told twice, none is told of a
//! container that the AM never got, and an AM that lives to the end of the run learns of all.

use std::collections::{BTreeMap, BTreeSet};

use records::{ApplicationAttemptId, ContainerId};

use super::Checker;
use crate::observation::Observation;
use crate::watch::{Checked, Finding};

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
                self.open.entry(id.attempt).or_default().insert(*id);
            }
            Observation::Completed { attempt, id, .. } => {
                if !self.ended.insert(*id) {
                    return Err(Finding::of(*id, "its AM is told of its end a second time"));
                }
                let open = self.open.get_mut(attempt);
                if !open.is_some_and(|open| open.remove(id)) {
                    return Err(Finding::of(
                        *id,
                        format!("ended, and {attempt} never got it"),
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
