//! Status of opportunistic containers for the ResourceManager, computed from the index.

use crate::config::ContainerSchedulerConfig;
use crate::index::Index;
use crate::view::OpportunisticContainersStatus;

/// Computes the status that a heartbeat reports.
pub(crate) fn opportunistic_status(
    config: &ContainerSchedulerConfig,
    index: &Index,
    estimated_wait_ms: Option<u64>,
) -> OpportunisticContainersStatus {
    let utilization = index.utilization();
    let used = utilization.opportunistic.to_resource();
    OpportunisticContainersStatus {
        running_opport_containers: count(utilization.opportunistic_count),
        opport_memory_used_mb: used.memory_mb,
        opport_cores_used: used.vcores,
        queued_opport_containers: count(index.opportunistic().len()),
        wait_queue_length: count(index.guaranteed().len() + index.opportunistic().len()),
        estimated_queue_wait_ms: estimated_wait_ms.map(|ms| u32::try_from(ms).unwrap_or(u32::MAX)),
        opport_queue_capacity: count(config.reported_queue_capacity()),
    }
}

/// Returns what a node that is drained reports, so that a ResourceManager places no opportunistic
/// container on it: a queue that is full, by which the comparators of queue lengths leave it out
/// (Hadoop: `ClusterNode.isQueueFull`), and no estimate, by which `QUEUE_WAIT_TIME` does
/// (`NodeQueueLoadMonitor.updateNode`). The capacity stays, because a ResourceManager reads it
/// once.
pub(crate) fn of_drained(status: OpportunisticContainersStatus) -> OpportunisticContainersStatus {
    let full = status.opport_queue_capacity.max(1);
    OpportunisticContainersStatus {
        wait_queue_length: status.wait_queue_length.max(full),
        estimated_queue_wait_ms: None,
        ..status
    }
}

/// Converts a count. Counts are bounded by [`crate::CONTAINERS_MAX`]; the clamp only satisfies the
/// type.
fn count(containers: usize) -> u32 {
    u32::try_from(containers).unwrap_or(u32::MAX)
}
