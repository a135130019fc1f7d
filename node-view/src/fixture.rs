//! Facts about one node, for tests of this crate's users.

use records::{EpochMillis, NodeId};

use crate::snapshot::{About, MemoryChecks, NodeHealth, Versions};

/// Returns the facts about the node `node-1.example`, which is healthy.
#[must_use]
pub fn about() -> About {
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
