//! Means by which containers outlive the agent that launches them.

use std::sync::Arc;

use keeper::{StartSlot, StartSlots};
use records::Resource;
use sched::ContainerSpec;

use super::context::LaunchPlan;
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
    pub(super) fn claim(&self, plan: &LaunchPlan) -> Result<StartSlot, LaunchError> {
        let remark = plan.spec.as_ref().map(remark_of).unwrap_or_default();
        let slot = self.starts.claim(&plan.container_id.to_string(), &remark);
        slot.map_err(LaunchError::Note)
    }
}

/// Returns the remark on a container's process: memory in mebibytes, and cores.
fn remark_of(spec: &ContainerSpec) -> String {
    let Resource { memory_mb, vcores } = spec.resource;
    format!("{memory_mb} {vcores}")
}

/// Reads the size of a container from the remark on its process; `None`: it says none.
#[must_use]
pub fn size_in(remark: &str) -> Option<Resource> {
    let (memory_mb, vcores) = remark.split_once(' ')?;
    Some(Resource::new(memory_mb.parse().ok()?, vcores.parse().ok()?))
}
