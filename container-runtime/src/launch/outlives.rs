//! Means by which containers outlive the agent that launches them.

use std::sync::Arc;

use keeper::{StartSlot, StartSlots};
use records::ContainerId;

use super::error::LaunchError;
use super::leader::SharedExits;

/// Records that another agent will read.
#[derive(Clone, Debug)]
pub struct Outlives {
    /// Records of the keepers of earlier agents.
    pub exits: SharedExits,
    /// File in which each container's process notes that it exists.
    pub starts: Arc<StartSlots>,
}

impl Outlives {
    /// Takes a slot for a process that is about to be started.
    pub(super) fn claim(&self, id: ContainerId) -> Result<StartSlot, LaunchError> {
        let slot = self.starts.claim(&id.to_string());
        slot.map_err(LaunchError::Note)
    }
}
