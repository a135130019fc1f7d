//! A small node for the tests of this crate's readers.

use std::sync::Arc;

use node_view::snapshot::{ContainerSnapshot, NodeNumbers, NodeSnapshot, RmContact};
use records::{ApplicationId, ContainerExitStatus, ContainerId, ExecutionType, Resource};
use sched::ContainerState;

pub(crate) use node_view::fixture::about;

pub(crate) const APP: ApplicationId = test_support::ids::application(7);

/// The container of this number in the first attempt of [`APP`].
pub(crate) const fn container_id(id: i64) -> ContainerId {
    APP.attempt(1).container(id)
}

/// A running guaranteed container of `alice`.
pub(crate) fn container(id: i64) -> ContainerSnapshot {
    ContainerSnapshot {
        id: container_id(id),
        user: "alice".to_owned(),
        state: ContainerState::Running { order: 1 },
        exit_status: ContainerExitStatus::INVALID,
        diagnostics: String::new(),
        resource: Resource::new(1024, 2),
        execution_type: ExecutionType::Guaranteed,
    }
}

/// A registered node without containers.
pub(crate) fn node() -> NodeSnapshot {
    NodeSnapshot {
        about: Arc::new(about()),
        rm: RmContact::Registered,
        numbers: NodeNumbers {
            total: Resource::new(8192, 8),
            allocated: Resource::new(1024, 2),
            takes_opportunistic: true,
            ..NodeNumbers::default()
        },
        applications: Vec::new(),
        containers: Vec::new(),
        uses: Arc::default(),
    }
}
