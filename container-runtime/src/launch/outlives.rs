//! Means by which containers outlive the agent that launches them.

use std::sync::Arc;

use keeper::{StartSlot, StartSlots, StartsError};
use records::{ContainerId, Resource};
use sched::ContainerSpec;

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
    /// Takes a slot for the process of a container that is about to be started, with its size if
    /// that is known.
    pub(super) fn claim(
        &self,
        id: ContainerId,
        spec: Option<&ContainerSpec>,
    ) -> Result<StartSlot, StartsError> {
        let remark = spec.map(remark_of).unwrap_or_default();
        self.starts.claim(&id.to_string(), &remark)
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
