//! Containers and decisions for the tests of the story.

use records::{ContainerExitStatus, ContainerId, EpochMillis, ExecutionType};
use sched::{Completion, Note, ShedReason};
use test_support::ids::container_of;

use super::tally::{Happened, What};

/// This container of the first attempt of this application.
pub(super) const fn id(application: i32, number: i64) -> ContainerId {
    container_of(application, (1 << 40) + number)
}

pub(super) const fn happened(at: i64, node: usize, what: What) -> Happened {
    Happened {
        at: EpochMillis(at),
        node,
        what,
    }
}

pub(super) const fn queued(id: ContainerId) -> What {
    What::Decided(Note::Queued {
        id,
        execution_type: ExecutionType::Opportunistic,
        position: 1,
        missing: records::Resource::new(0, 0),
    })
}

pub(super) const fn started(id: ContainerId, queue_wait_ms: u64) -> What {
    What::Decided(Note::Started {
        id,
        execution_type: ExecutionType::Opportunistic,
        queue_wait_ms,
        reported_wait_ms: None,
        estimated_wait_ms: None,
        resumed: false,
    })
}

pub(super) const fn evicted(id: ContainerId, for_container: ContainerId, ran_ms: u64) -> What {
    What::Decided(Note::Evicted {
        id,
        for_container,
        paused: false,
        ran_ms,
    })
}

pub(super) const fn shed(id: ContainerId, limit: usize) -> What {
    What::Decided(Note::Shed {
        id,
        reason: ShedReason::QueueLength { limit },
    })
}

pub(super) const fn completed(id: ContainerId, status: i32) -> What {
    What::Completed(Completion {
        id,
        exit_status: ContainerExitStatus(status),
        execution_type: ExecutionType::Opportunistic,
    })
}
