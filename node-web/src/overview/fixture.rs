//! A small overview for the tests of its readers.

use std::sync::Arc;
use std::time::Duration;

use amrm_proxy::attempts::{AttemptActivity, AttemptNumbers, GivenContainers, LookTotals};
use amrm_proxy::call::Timing;
use amrm_proxy::distributed_scheduler::Gauges;
use node_view::overview::{
    Decision, History, ListedContainer, Listing, NodeOverview, RecentDecisions,
};
use node_view::snapshot::{Counts, NodeNumbers, RmContact};
use records::{EpochMillis, ExecutionType, MonoMillis, Now, Resource};
use sched::{
    ContainerQueuingLimit, ContainerSpec, ContainerState, ContainerSummary, Note,
    OpportunisticContainersStatus,
};

use super::Overview;
use crate::fixture::{about, container_id};

/// Two minutes after the start: one container of each type runs, two wait, the RM allows four; the
/// second was queued.
pub(crate) fn overview() -> Overview {
    let now = Now {
        mono: MonoMillis(120_000),
        wall: EpochMillis(1_700_000_120_000),
    };
    let counts = Counts {
        running_guaranteed: 1,
        running_opportunistic: 1,
        waiting: 2,
    };
    let mut history = History::default();
    history.record(MonoMillis(60_000), counts);
    let mut decisions = RecentDecisions::default();
    let queued = Note::Queued {
        id: container_id(4),
        execution_type: ExecutionType::Opportunistic,
        position: 2,
        missing: records::Resource::new(0, 0),
    };
    decisions.push(EpochMillis(1_700_000_070_000), Decision::Registered);
    decisions.push(EpochMillis(1_700_000_110_000), Decision::Note(queued));
    let node = NodeOverview {
        about: Arc::new(about()),
        rm: (RmContact::Registered, MonoMillis(1_000)),
        numbers: NodeNumbers {
            total: Resource::new(8192, 8),
            allocated: Resource::new(2048, 4),
            counts,
            opportunistic: OpportunisticContainersStatus {
                opport_queue_capacity: 20,
                estimated_queue_wait_ms: Some(12_000),
                ..OpportunisticContainersStatus::default()
            },
            queuing_limit: Some(ContainerQueuingLimit {
                max_queue_length: Some(4),
                max_queue_wait_time_ms: None,
            }),
            takes_opportunistic: true,
            ..NodeNumbers::default()
        },
        running: Listing {
            first: vec![
                running(1, ExecutionType::Guaranteed),
                running(2, ExecutionType::Opportunistic),
            ],
            total: 2,
        },
        waiting: Listing {
            first: vec![waiting(3, 80_000), waiting(4, 110_000)],
            total: 2,
        },
        history,
        decisions: decisions.newest_first().cloned().collect(),
    };
    Overview {
        now,
        node,
        uses: Arc::default(),
        masters: None,
    }
}

/// An AM of `carol` that has called for a minute.
pub(crate) fn master(id: i32) -> AttemptActivity {
    AttemptActivity {
        attempt: test_support::ids::attempt(id),
        user: "carol".to_owned(),
        numbers: AttemptNumbers {
            calls: 1_200,
            last_call_at: Some(MonoMillis(119_200)),
            took: Timing {
                total: Duration::from_micros(1_200 * 1_553),
                rm: Duration::from_micros(1_200 * 1_500),
            },
            given: GivenContainers {
                node_local: 100,
                rack_local: 15,
                off_switch: 5,
            },
            throttled: 3,
            relabelled: 0,
            promotions_asked: 2,
            looks: LookTotals {
                asked: 9,
                answered: 8,
                held_back: 5,
                unseen: 1,
            },
            gauges: Gauges {
                containers_outstanding: 20,
                nodes_at: Some(MonoMillis(118_000)),
                containers_live: 12,
            },
        },
    }
}

/// An opportunistic container of `bob` that waits since then.
pub(crate) fn waiting(id: i64, since_ms: u64) -> ListedContainer {
    ListedContainer {
        user: "bob".to_owned(),
        summary: ContainerSummary {
            spec: spec(id, ExecutionType::Opportunistic, Resource::new(512, 1)),
            state: ContainerState::Queued {
                place: sched::QueuePlace::fifo(1),
            },
            since: MonoMillis(since_ms),
        },
    }
}

fn running(id: i64, execution_type: ExecutionType) -> ListedContainer {
    ListedContainer {
        user: "alice".to_owned(),
        summary: ContainerSummary {
            spec: spec(id, execution_type, Resource::new(1024, 2)),
            state: ContainerState::Running { order: 1 },
            since: MonoMillis(60_000),
        },
    }
}

fn spec(id: i64, execution_type: ExecutionType, resource: Resource) -> ContainerSpec {
    ContainerSpec {
        id: container_id(id),
        execution_type,
        resource,
        version: 0,
    }
}
