//! A container as the scheduler knows it before it has done anything.

use records::{ContainerId, ExecutionType, Resource};
use serde::{Deserialize, Serialize};

/// Container as its token describes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContainerSpec {
    /// Id, unique on the node.
    pub id: ContainerId,
    /// Resources that are reserved for the container (guaranteed) or that it may use while they are
    /// free (opportunistic).
    pub resource: Resource,
    /// Whether the resources are reserved.
    pub execution_type: ExecutionType,
    /// Version of the token: 0 at first, higher with each update of the container.
    pub version: i32,
}
