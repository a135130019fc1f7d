//! Container that a node allocated, with all that it takes to ask for it again.

use records::{
    ContainerId, ExecutionType, ExecutionTypeRequest, Resource, ResourceName, ResourceRequest,
};

use crate::allocator::ask::{Ask, AskKey};
use crate::allocator::remote_nodes::RemoteNode;
use crate::allocator::{ContainerAllocation, Locality};

/// Container allocated on this node, with the data for its token and its message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DistributedAllocation {
    /// Allocated container, in the size that its token states.
    pub container: ContainerAllocation,
    /// Web address of the container's node, as `host:port`.
    pub http_address: String,
    /// Partition of the container's node; the default one is the empty text.
    pub partition: String,
    /// Ask that the container satisfies.
    pub origin: AskOrigin,
}

/// Properties of a satisfied ask that the container does not have: enough to ask again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AskOrigin {
    /// Size asked for.
    pub capability: Resource,
    /// Whether the ask accepted any node.
    pub relax_locality: bool,
    /// Rack whose line the container satisfies.
    pub rack: Option<String>,
}

impl DistributedAllocation {
    /// Answers an ask, which is lowered, with a container of this size on a node.
    pub(super) fn answer(
        key: &AskKey,
        ask: &mut Ask,
        container_id: ContainerId,
        (node, locality): (&RemoteNode, Locality),
        resource: Resource,
    ) -> Self {
        let names_rack = ask.wants_rack(&node.rack);
        let origin = AskOrigin {
            capability: key.capability(),
            relax_locality: ask.relax_locality,
            rack: names_rack.then(|| node.rack.clone()),
        };
        ask.answer(&node.node_id.host, &node.rack, locality);
        Self {
            container: ContainerAllocation {
                container_id,
                node_id: node.node_id.clone(),
                resource,
                priority: key.priority,
                allocation_request_id: key.allocation_request_id,
                execution_type: ExecutionType::Opportunistic,
                locality,
                relax_locality: true,
                asked_at: ask.asked_at(),
            },
            http_address: node.http_address.clone(),
            partition: node.partition.clone(),
            origin,
        }
    }

    /// Returns the lines of an ask for this container alone.
    pub(super) fn ask_again(&self) -> impl Iterator<Item = ResourceRequest> {
        let Self {
            container,
            partition,
            origin,
            ..
        } = self;
        let host = (container.locality == Locality::NodeLocal)
            .then(|| ResourceName::Host(container.node_id.host.clone()));
        let rack = origin.rack.clone().map(ResourceName::Rack);
        let total = (ResourceName::Any, origin.relax_locality);
        let places = [host, rack].into_iter().flatten().map(|name| (name, true));
        [total]
            .into_iter()
            .chain(places)
            .map(|(resource_name, relax_locality)| ResourceRequest {
                priority: container.priority,
                resource_name,
                capability: origin.capability,
                num_containers: 1,
                relax_locality,
                allocation_request_id: container.allocation_request_id,
                execution_type_request: ExecutionTypeRequest::default(),
                node_label_expression: (!partition.is_empty()).then(|| partition.clone()),
            })
    }
}
