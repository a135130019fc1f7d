//! Latency of an allocation on a thousand nodes.
//!
//! Unit: time per call, which allocates 1,000 containers or, on a full cluster, the one that was
//! just released. An RM that allocates 5,000 containers a second has 200 µs for each, most of them
//! for tokens and the wire, so the decision must stay below 10 µs, and below 50 µs where the job
//! still names a thousand hosts: visiting every node for each container would be too slow.

use std::hint::black_box;

use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use records::{
    ApplicationAttemptId, ContainerId, MonoMillis, NodeId, Priority, Resource, ResourceName,
    ResourceRequest,
};
use sched::{
    GuaranteedAllocator, NodeLoad, NodeLoadConfig, NodeLoadMonitor,
    OpportunisticContainerAllocator, OpportunisticContainerContext, SplitMix64,
};
use test_support::ids;

const NODES: u32 = 1_000;
const NOW: MonoMillis = MonoMillis(0);
const ATTEMPT: ApplicationAttemptId = ids::attempt(7);

fn node_id(node: u32) -> NodeId {
    NodeId {
        host: format!("node-{node:04}.example.org"),
        port: 8041,
    }
}

fn rack(node: u32) -> String {
    format!("/rack-{}", node / 40)
}

fn ask(resource_name: ResourceName, num_containers: u32) -> ResourceRequest {
    let size = Resource::new(1_024, 1);
    ResourceRequest {
        resource_name,
        ..ResourceRequest::on_any_node(Priority(20), size, num_containers)
    }
}

/// Returns the asks of a job that prefers its data: `per_host` containers on each host.
fn everywhere(per_host: u32) -> Vec<ResourceRequest> {
    let hosts = (0..NODES).map(|node| ask(ResourceName::Host(node_id(node).host), per_host));
    let racks = (0..NODES / 40).map(|at| ask(ResourceName::Rack(rack(at * 40)), per_host * 40));
    let total = ask(ResourceName::Any, per_host * NODES);
    hosts.chain(racks).chain([total]).collect()
}

fn next_id(last: &mut i64) -> ContainerId {
    *last += 1;
    ATTEMPT.container(*last)
}

/// Creates a cluster with resources for eight containers on each node.
fn cluster(requests: &[ResourceRequest]) -> GuaranteedAllocator {
    let mut allocator = GuaranteedAllocator::new();
    for node in 0..NODES {
        allocator.add_node(node_id(node), rack(node), Resource::new(8_192, 8));
    }
    allocator.add_attempt(ATTEMPT);
    allocator
        .update_asks(ATTEMPT, requests, NOW)
        .expect("asks within bounds");
    allocator
}

fn guaranteed(c: &mut Criterion) {
    for (name, requests) in [
        ("anywhere", vec![ask(ResourceName::Any, 1_000)]),
        ("near data", everywhere(1)),
    ] {
        let allocator = cluster(&requests);
        c.bench_function(&format!("1,000 guaranteed, {name}"), |b| {
            b.iter_batched_ref(
                || (allocator.clone(), 0),
                |(allocator, last)| black_box(allocator.allocate(|_| next_id(last))),
                BatchSize::LargeInput,
            );
        });
    }
    let mut allocator = cluster(&everywhere(100_000));
    let mut last = 0;
    let mut running = allocator.allocate(|_| next_id(&mut last));
    c.bench_function("one released and given again, 1,000 hosts wanted", |b| {
        b.iter(|| {
            let at = running.len() / 2;
            allocator.release(running.swap_remove(at).container_id);
            running.extend(allocator.allocate(|_| next_id(&mut last)));
        });
    });
}

fn opportunistic(c: &mut Criterion) {
    let mut monitor = NodeLoadMonitor::new(NodeLoadConfig::default(), NOW);
    let load = NodeLoad {
        queue_capacity: 1_000,
        ..NodeLoad::default()
    };
    for node in 0..NODES {
        monitor.update(&node_id(node), &rack(node), &load, NOW);
    }
    monitor.sort(NOW);
    for (name, requests) in [
        ("anywhere", vec![ask(ResourceName::Any, 1_000)]),
        ("near data", everywhere(1)),
    ] {
        let mut context = OpportunisticContainerContext::new();
        context
            .update_asks(&requests, NOW)
            .expect("asks within bounds");
        let allocator = OpportunisticContainerAllocator::default();
        c.bench_function(&format!("1,000 opportunistic, {name}"), |b| {
            b.iter_batched_ref(
                || (context.clone(), monitor.clone(), SplitMix64::new(1), 0),
                |(context, monitor, random, last)| {
                    black_box(allocator.allocate(context, monitor, random, || next_id(last)))
                },
                BatchSize::LargeInput,
            );
        });
    }
    calls(c, &monitor);
    c.bench_function("sort 1,000 nodes", |b| b.iter(|| monitor.sort(NOW)));
}

/// Calls of an attempt that asks for nothing or for ten, of which a cluster has thousands a second,
/// with all nodes offered. Half of them take no more after the first ten.
fn calls(c: &mut Criterion, monitor: &NodeLoadMonitor) {
    let config = NodeLoadConfig {
        nodes_used: 1_000,
        ..NodeLoadConfig::default()
    };
    let mut offered = NodeLoadMonitor::new(config, NOW);
    for (at, (id, node)) in (0_u32..).zip(monitor.nodes()) {
        let load = NodeLoad {
            queue_capacity: if at % 2 == 0 { 1_000 } else { 1 },
            ..NodeLoad::default()
        };
        offered.update(id, &node.rack, &load, NOW);
    }
    offered.sort(NOW);
    let allocator = OpportunisticContainerAllocator::default();
    for (name, wanted) in [("no", 0), ("10", 10), ("1,000", 1_000)] {
        let mut context = OpportunisticContainerContext::new();
        context
            .update_asks(&[ask(ResourceName::Any, wanted)], NOW)
            .expect("asks within bounds");
        c.bench_function(&format!("{name} opportunistic, 1,000 nodes offered"), |b| {
            b.iter_batched_ref(
                || (context.clone(), offered.clone(), SplitMix64::new(1), 0),
                |(context, monitor, random, last)| {
                    black_box(allocator.allocate(context, monitor, random, || next_id(last)))
                },
                BatchSize::LargeInput,
            );
        });
    }
}

criterion_group!(benches, guaranteed, opportunistic);
criterion_main!(benches);
