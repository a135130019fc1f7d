//! Latency of one decision while 10,000 opportunistic containers wait and 100 run.
//!
//! Unit: time per decision, from an event to its last action. It must stay below 10 µs: visiting
//! everything that waits would be too slow. Only the decision is timed, not the events that refill
//! the queue to 10,000. The estimate of a heartbeat, once a second, does visit everything and may
//! take milliseconds.

use std::hint::black_box;
use std::time::{Duration, Instant};

use criterion::{Criterion, criterion_group, criterion_main};
use records::{ContainerExitStatus, ContainerId, ExecutionType, Now, Resource};
use sched::{
    Action, ContainerScheduler, ContainerSchedulerConfig, ContainerSpec, Event, KillReason, Note,
    QUEUE_LENGTH_MAX, QueueOrder,
};
use test_support::ids::container_of;

/// Memory of each container in mebibytes; a hundred containers fill the node.
const MEMORY_MB: u64 = 1_024;

struct Node {
    scheduler: ContainerScheduler,
    actions: Vec<Action>,
    last_number: i64,
    order: QueueOrder,
    spent: Duration,
}

impl Node {
    /// Creates a node on which a hundred opportunistic containers run and the queue is full but for
    /// `free` places.
    fn busy(free: usize) -> Self {
        Self::ordered(QueueOrder::Fifo, free)
    }

    /// The same under an order. A thousand attempts have ten containers each in the queue.
    fn ordered(order: QueueOrder, free: usize) -> Self {
        let config = ContainerSchedulerConfig {
            queue_length_max: QUEUE_LENGTH_MAX,
            queue_order: order,
            ..ContainerSchedulerConfig::default()
        };
        let mut node = Self {
            scheduler: ContainerScheduler::new(config, Resource::new(100 * MEMORY_MB, 100)),
            actions: Vec::new(),
            last_number: 0,
            order,
            spent: Duration::ZERO,
        };
        for _ in 0..100 {
            let id = node.arrive(ExecutionType::Opportunistic);
            node.feed(Event::Launched(id));
        }
        for _ in 0..QUEUE_LENGTH_MAX - free {
            node.arrive(ExecutionType::Opportunistic);
        }
        node
    }

    /// One application in the order of arrival, which does not look at it; a thousand in turns
    /// under others.
    fn application(&self) -> i32 {
        match self.order {
            QueueOrder::Fifo => 7,
            QueueOrder::Shortest | QueueOrder::LeastLeft => {
                i32::try_from(self.last_number % 1_000).unwrap_or(7)
            }
        }
    }

    fn spec(&mut self, execution_type: ExecutionType) -> ContainerSpec {
        self.last_number += 1;
        ContainerSpec {
            id: container_of(self.application(), self.last_number),
            resource: Resource::new(MEMORY_MB, 1),
            execution_type,
            version: 0,
        }
    }

    fn feed(&mut self, event: Event) {
        self.actions.clear();
        self.scheduler
            .handle(event, Now::default(), &mut self.actions)
            .expect("every event of the bench is legal");
    }

    #[expect(clippy::disallowed_methods, reason = "a benchmark measures time")]
    fn timed(&mut self, event: Event) {
        let start = Instant::now();
        self.feed(black_box(event));
        self.spent += start.elapsed();
        black_box(&self.actions);
    }

    fn arrive(&mut self, execution_type: ExecutionType) -> ContainerId {
        let spec = self.spec(execution_type);
        self.feed(Event::Start(spec));
        self.feed(Event::Localized(spec.id));
        spec.id
    }

    fn exited(id: ContainerId) -> Event {
        Event::Exited {
            id,
            status: ContainerExitStatus::SUCCESS,
            diagnostics: String::new(),
        }
    }

    fn forget(&mut self, id: ContainerId) {
        self.feed(Event::CleanedUp(id));
        self.feed(Event::Forget(id));
    }

    fn launched(&self) -> ContainerId {
        let launched = |action: &Action| {
            if let Action::Launch(id) = action {
                Some(*id)
            } else {
                None
            }
        };
        self.actions
            .iter()
            .find_map(launched)
            .expect("the completion starts a container")
    }

    fn evicted(&self) -> ContainerId {
        let evicted = |action: &Action| {
            if let Action::Note(Note::Evicted { id, .. }) = action {
                Some(*id)
            } else {
                None
            }
        };
        self.actions
            .iter()
            .find_map(evicted)
            .expect("the arrival evicts a container")
    }
}

/// Measures: an opportunistic container is localized and joins the queue.
fn arrival(order: QueueOrder, iterations: u64) -> Duration {
    let mut node = Node::ordered(order, 1);
    for _ in 0..iterations {
        let spec = node.spec(ExecutionType::Opportunistic);
        node.feed(Event::Start(spec));
        node.timed(Event::Localized(spec.id));
        node.feed(Event::Kill {
            id: spec.id,
            reason: KillReason::ApplicationMaster,
        });
        node.forget(spec.id);
    }
    node.spent
}

/// Measures: a process ends, and the head of the queue starts in its place.
fn completion(order: QueueOrder, iterations: u64) -> Duration {
    let mut node = Node::ordered(order, 0);
    let mut running = node.evictable();
    for _ in 0..iterations {
        node.timed(Node::exited(running));
        let next = node.launched();
        node.feed(Event::Launched(next));
        node.forget(running);
        node.arrive(ExecutionType::Opportunistic);
        running = next;
    }
    node.spent
}

/// Measures: a guaranteed container is localized, and a victim is evicted for it.
fn guaranteed_arrival(iterations: u64) -> Duration {
    let mut node = Node::busy(0);
    for _ in 0..iterations {
        let spec = node.spec(ExecutionType::Guaranteed);
        node.feed(Event::Start(spec));
        node.timed(Event::Localized(spec.id));
        let victim = node.evicted();
        node.feed(Node::exited(victim));
        node.forget(victim);
        node.feed(Node::exited(spec.id));
        let next = node.launched();
        node.feed(Event::Launched(next));
        node.forget(spec.id);
        node.arrive(ExecutionType::Opportunistic);
    }
    node.spent
}

/// Measures the estimate of a heartbeat, which visits every container that runs or waits.
fn estimate(iterations: u64) -> Duration {
    let mut node = Node::busy(1);
    for _ in 0..iterations {
        node.timed(Event::EstimateWaits);
    }
    node.spent
}

impl Node {
    /// Returns one of the running containers.
    fn evictable(&self) -> ContainerId {
        let mut views = self.scheduler.containers();
        views
            .find(|view| view.state.can_evict().is_some())
            .expect("a hundred containers run")
            .spec
            .id
    }
}

fn decisions(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("decision with 10,000 queued");
    for order in QueueOrder::ALL {
        let name = |what: &str| match order {
            QueueOrder::Fifo => what.to_owned(),
            QueueOrder::Shortest | QueueOrder::LeastLeft => format!("{what}, {order}"),
        };
        group.bench_function(name("arrival"), |bencher| {
            bencher.iter_custom(|iterations| arrival(order, iterations));
        });
        group.bench_function(name("completion"), |bencher| {
            bencher.iter_custom(|iterations| completion(order, iterations));
        });
    }
    group.bench_function("guaranteed arrival with reclaim", |bencher| {
        bencher.iter_custom(guaranteed_arrival);
    });
    group.finish();
    let mut group = criterion.benchmark_group("heartbeat with 10,000 queued");
    group.bench_function("estimate of the wait", |bencher| {
        bencher.iter_custom(estimate);
    });
    group.finish();
}

criterion_group!(benches, decisions);
criterion_main!(benches);
