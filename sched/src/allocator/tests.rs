//! Asks and nodes for the tests of all allocators.

mod asks;
mod distributed;
mod guaranteed;
mod opportunistic;

use records::{
    ApplicationAttemptId, ContainerId, MonoMillis, NodeId, Priority, Resource, ResourceName,
    ResourceRequest,
};
use test_support::ids::{attempt, node as node_id};

use super::{ContainerAllocation, Locality, ResourceLimits};

const RACK_1: &str = "/rack-1";
const RACK_2: &str = "/rack-2";
const SIZE: Resource = Resource::new(1_024, 1);
const T0: MonoMillis = MonoMillis(0);

/// Returns an ask for containers of [`SIZE`] at a place, at priority 1.
fn ask(place: &str, num_containers: u32) -> ResourceRequest {
    ResourceRequest {
        resource_name: ResourceName::from(place.to_owned()),
        ..ResourceRequest::on_any_node(Priority(1), SIZE, num_containers)
    }
}

/// Returns the same ask without relaxed locality.
fn strict(place: &str, num_containers: u32) -> ResourceRequest {
    ResourceRequest {
        relax_locality: false,
        ..ask(place, num_containers)
    }
}

fn at_priority(priority: i32, request: ResourceRequest) -> ResourceRequest {
    ResourceRequest {
        priority: Priority(priority),
        ..request
    }
}

/// Returns a generator of ids in order, from 1.
fn ids() -> impl FnMut(ApplicationAttemptId) -> ContainerId {
    let mut last = 0;
    move |attempt| {
        last += 1;
        attempt.container(last)
    }
}

fn places(allocations: &[ContainerAllocation]) -> Vec<(&str, Locality)> {
    allocations
        .iter()
        .map(|a| (a.node_id.host.as_str(), a.locality))
        .collect()
}

#[test]
fn sizes_are_raised_rounded_up_and_cut() {
    let limits = ResourceLimits {
        minimum: Resource::new(1_024, 1),
        maximum: Resource::new(8_192, 4),
        increment: Resource::new(512, 0),
    };
    for (ask, size) in [
        ((10, 0), (1_024, 1)),
        ((1_025, 2), (1_536, 2)),
        ((8_000, 3), (8_192, 3)),
        ((9_000, 9), (8_192, 4)),
        ((u64::MAX, u32::MAX), (8_192, 4)),
    ] {
        let ask = Resource::new(ask.0, ask.1);
        assert_eq!(limits.normalize(ask), Resource::new(size.0, size.1));
    }
}
