//! Random sequences of an RM's events, against models that compute the sums the slow way: no node
//! is over capacity, no attempt gets more or other containers than it asked for, every count
//! decreases exactly, and the same inputs give the same outputs.

mod asked;
mod guaranteed;
mod opportunistic;

use proptest::prelude::*;
use records::{
    ApplicationAttemptId, ContainerId, ExecutionTypeRequest, NodeId, Priority, Resource,
    ResourceName, ResourceRequest,
};
use test_support::ids::attempt;

const RACKS: u16 = 2;
const HOSTS: u16 = 4;

/// Node number. Each host has two, with ports 0 and 1.
#[derive(Clone, Copy, Debug)]
struct Node(u16);

impl Node {
    fn any() -> impl Strategy<Value = Self> {
        (0..HOSTS * 2).prop_map(Self)
    }

    fn id(self) -> NodeId {
        NodeId {
            host: format!("host{}", self.0 / 2),
            port: self.0 % 2,
        }
    }

    /// Returns the rack, which the nodes of a host share.
    fn rack(self) -> String {
        format!("/rack{}", self.0 / 2 % RACKS)
    }
}

/// Returns ids that never repeat, from one counter for all attempts.
fn next_id(last: &mut i64, attempt: ApplicationAttemptId) -> ContainerId {
    *last += 1;
    attempt.container(*last)
}

fn host_name() -> impl Strategy<Value = String> {
    (0..HOSTS + 1).prop_map(|host| format!("host{host}"))
}

fn resource_name() -> impl Strategy<Value = ResourceName> {
    prop_oneof![
        3 => Just(ResourceName::Any),
        1 => (0..RACKS).prop_map(|rack| ResourceName::Rack(format!("/rack{rack}"))),
        2 => host_name().prop_map(ResourceName::Host),
    ]
}

/// Draws the lines of one ask. Few keys and places, so that lines replace each other and several
/// are satisfied together.
fn ask() -> impl Strategy<Value = Vec<ResourceRequest>> {
    let line = (resource_name(), 0..6_u32, prop::bool::weighted(0.7));
    let lines = prop::collection::vec(line, 1..6);
    (0..2_i32, 0..2_i64, 1..3_u64, 1..3_u32, lines).prop_map(
        |(priority, allocation_request_id, memory_mb, vcores, lines)| {
            let request = |(resource_name, num_containers, relax_locality)| ResourceRequest {
                priority: Priority(priority),
                resource_name,
                capability: Resource::new(memory_mb, vcores),
                num_containers,
                relax_locality,
                allocation_request_id,
                execution_type_request: ExecutionTypeRequest::default(),
                node_label_expression: None,
            };
            lines.into_iter().map(request).collect()
        },
    )
}

fn requests() -> impl Strategy<Value = Vec<ResourceRequest>> {
    prop::collection::vec(ask(), 1..4).prop_map(|asks| asks.concat())
}
