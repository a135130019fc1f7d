//! Container that a node allocated, with all that it takes to ask for it again.

use records::{ExecutionTypeRequest, Resource, ResourceName, ResourceRequest};

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
