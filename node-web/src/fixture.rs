//! A small node for the tests of this crate's readers.

use std::sync::Arc;

use node_view::snapshot::{
    About, ContainerSnapshot, MemoryChecks, NodeHealth, NodeNumbers, NodeSnapshot, RmContact,
    Versions,
};
use records::{
    ApplicationId, ContainerExitStatus, ContainerId, EpochMillis, ExecutionType, NodeId, Resource,
};
use sched::ContainerState;

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

/// Facts about the node `node-1.example`.
pub(crate) fn about() -> About {
    let node_id = NodeId {
        host: "node-1.example".to_owned(),
        port: 8041,
    };
    let memory_checks = MemoryChecks {
        pmem: true,
        vmem: false,
        vmem_pmem_ratio: 2.1,
    };
    About {
        versions: Versions {
            node_manager: "3.4.2".to_owned(),
            node_manager_build: "3.4.2 from abc".to_owned(),
            hadoop: "3.4.2".to_owned(),
            hadoop_build: "3.4.2 from abc".to_owned(),
            built_on: "2025-08-20T10:30Z",
        },
        health: NodeHealth {
            healthy: true,
            report: String::new(),
            updated_at: EpochMillis(1_700_000_009_000),
        },
        ..About::at_start(node_id, 8042, EpochMillis(1_700_000_000_123), memory_checks)
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
            ..NodeNumbers::default()
        },
        applications: Vec::new(),
        containers: Vec::new(),
    }
}
