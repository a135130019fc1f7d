//! No container id is given out twice, whatever restarts.

use std::collections::BTreeSet;

use records::ContainerId;

use super::Checker;
use crate::finding::{Checked, Finding};
use crate::observation::Observation;

/// The property.
#[derive(Debug, Default)]
pub(super) struct UniqueIds {
    allocated: BTreeSet<ContainerId>,
}

impl Checker for UniqueIds {
    fn name(&self) -> &'static str {
        "unique-ids"
    }

    fn observe(&mut self, _: u64, observation: &Observation) -> Checked {
        match observation {
            Observation::Allocated { id, .. } | Observation::MasterLaunched { id, .. }
                if !self.allocated.insert(*id) =>
            {
                Err(Finding::of(*id, "was given out a second time"))
            }
            _ => Ok(()),
        }
    }
}
