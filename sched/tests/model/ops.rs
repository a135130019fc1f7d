//! Operations on a node, and their probabilities.

use proptest::prelude::*;
use records::ExecutionType;
use sched::{
    ContainerSchedulerConfig, KillReason, OpportunisticContainersQueuePolicy, QueueOrder,
    VictimsOrder, VmemPmemRatio,
};

use crate::shell::Luck;

/// An operation before its container is selected.
#[derive(Clone, Debug)]
pub(crate) enum Op {
    Start(Draw),
    RetryPolicy {
        which: usize,
        retries: u32,
    },
    RunProfile {
        which: usize,
        user: u32,
        command: u32,
        hint_ms: Option<u64>,
    },
    Restart {
        which: usize,
    },
    StartAgain {
        which: usize,
    },
    Answer {
        which: usize,
        luck: Luck,
    },
    Exit {
        which: usize,
        status: i32,
    },
    Kill {
        which: usize,
        reason: KillReason,
    },
    KillApplication {
        application: i32,
        reason: KillReason,
    },
    Update {
        which: usize,
        size: Option<Draw>,
        newer: i32,
    },
    NodeResource {
        memory_mb: u64,
        vcores: u32,
    },
    QueuingLimit(Option<usize>, Option<u64>),
    EstimateWaits,
    Order(QueueOrder, u32),
    Forget {
        which: usize,
    },
    Annotate {
        which: usize,
    },
    FrozenMemory {
        which: usize,
        held_mb: u64,
    },
    Advance {
        ms: u64,
    },
    Stray {
        which: usize,
        kind: usize,
    },
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Draw {
    pub(crate) memory_mb: u64,
    pub(crate) vcores: u32,
    pub(crate) execution_type: ExecutionType,
}

fn order() -> impl Strategy<Value = (QueueOrder, u32)> {
    (prop::sample::select(QueueOrder::ALL.as_slice()), 1_u32..12)
}

fn draw() -> impl Strategy<Value = Draw> {
    let kind = prop_oneof![
        Just(ExecutionType::Guaranteed),
        Just(ExecutionType::Opportunistic)
    ];
    (0_u64..=40, 0_u32..=3, kind).prop_map(|(memory_mb, vcores, execution_type)| Draw {
        memory_mb,
        vcores,
        execution_type,
    })
}

fn luck() -> impl Strategy<Value = Luck> {
    prop_oneof![
        12 => Just(Luck::Good),
        2 => Just(Luck::Bad),
        1 => prop_oneof![Just(0), Just(7)].prop_map(Luck::OwnStatus),
    ]
}

fn reason() -> impl Strategy<Value = KillReason> {
    prop_oneof![
        Just(KillReason::ApplicationMaster),
        Just(KillReason::ResourceManager),
        Just(KillReason::ApplicationFinished),
        Just(KillReason::ApplicationNotRunning),
        Just(KillReason::Shutdown),
        Just(KillReason::ExceededVmem),
        Just(KillReason::ExceededPmem),
    ]
}

/// Draws any operation, common ones more often.
pub(crate) fn op() -> impl Strategy<Value = Op> {
    let any = any::<usize>;
    let status = prop_oneof![4 => Just(0), 1 => Just(1), 1 => Just(137), 1 => Just(143)];
    prop_oneof![
        20 => draw().prop_map(Op::Start),
        5 => (any(), 0_u32..4).prop_map(|(which, retries)| Op::RetryPolicy { which, retries }),
        6 => (any(), 0_u32..2, 0_u32..3, prop::option::of(1_u64..1_000)).prop_map(
            |(which, user, command, hint_ms)| Op::RunProfile { which, user, command, hint_ms }
        ),
        3 => any().prop_map(|which| Op::Restart { which }),
        1 => any().prop_map(|which| Op::StartAgain { which }),
        60 => (any(), luck()).prop_map(|(which, luck)| Op::Answer { which, luck }),
        5 => (any(), status).prop_map(|(which, status)| Op::Exit { which, status }),
        3 => (any(), reason()).prop_map(|(which, reason)| Op::Kill { which, reason }),
        1 => (0..3, reason())
            .prop_map(|(application, reason)| Op::KillApplication { application, reason }),
        6 => (any(), prop::option::of(draw()), -1..4)
            .prop_map(|(which, size, newer)| Op::Update { which, size, newer }),
        1 => (50_u64..150, 4_u32..12)
            .prop_map(|(memory_mb, vcores)| Op::NodeResource { memory_mb, vcores }),
        2 => (prop::option::of(0_usize..6), prop::option::of(0_u64..150_000))
            .prop_map(|(length, wait_ms)| Op::QueuingLimit(length, wait_ms)),
        2 => Just(Op::EstimateWaits),
        1 => order().prop_map(|(order, factor)| Op::Order(order, factor)),
        3 => any().prop_map(|which| Op::Forget { which }),
        1 => any().prop_map(|which| Op::Annotate { which }),
        2 => (any(), 0_u64..30).prop_map(|(which, held_mb)| Op::FrozenMemory { which, held_mb }),
        6 => (0_u64..200).prop_map(|ms| Op::Advance { ms }),
        4 => (any(), 0_usize..10).prop_map(|(which, kind)| Op::Stray { which, kind }),
    ]
}

/// Draws any configuration of the scheduler.
pub(crate) fn config() -> impl Strategy<Value = ContainerSchedulerConfig> {
    let policy = prop_oneof![
        3 => Just(OpportunisticContainersQueuePolicy::ByQueueLen),
        1 => Just(OpportunisticContainersQueuePolicy::ByResources),
    ];
    let length = prop_oneof![1 => Just(0_usize), 5 => 1_usize..8];
    let vmem_check = prop::option::of(Just(VmemPmemRatio::DEFAULT));
    let delay_ms = prop_oneof![1 => Just(0_u64), 3 => Just(250)];
    let pause = (
        any::<bool>(),
        1_u64..1_000,
        prop_oneof![Just(0_u64), 80_u64..200],
    );
    let victims = prop_oneof![Just(VictimsOrder::Newest), Just(VictimsOrder::LeastWaste)];
    let order = prop_oneof![2 => Just((QueueOrder::Fifo, 10)), 3 => order()];
    (
        policy,
        length,
        pause,
        vmem_check,
        delay_ms,
        (order, victims),
    )
        .prop_map(
            |(
                queue_policy,
                queue_length_max,
                pause,
                vmem_check,
                delay_ms,
                (order, victims_order),
            )| {
                let (queue_order, queue_bound_factor) = order;
                let (use_pause_for_preemption, pause_max_ms, memory_ceiling_mb) = pause;
                ContainerSchedulerConfig {
                    queue_policy,
                    queue_length_max,
                    queue_order,
                    queue_bound_factor,
                    victims_order,
                    use_pause_for_preemption,
                    pause_max_ms,
                    memory_ceiling_mb,
                    vmem_check,
                    sigkill_delay_ms: delay_ms,
                    retry_minimum_interval_ms: delay_ms / 2,
                    ..ContainerSchedulerConfig::default()
                }
            },
        )
}
