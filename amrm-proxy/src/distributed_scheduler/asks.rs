//! The opportunistic part of an AM's asks: found, checked, and brought to what is really still wanted. Pure.

use std::collections::BTreeMap;

use bytes::Bytes;
use prost::Message as _;
use records::{NodeId, Priority, Resource, ResourceName, ResourceRequest};
use sched::{AskError, ContainerAllocation, ResourceLimits};
use wire::convert::ConvertError;
use wire::exception::{HadoopException, RemoteException};
use wire::proto::hadoop_yarn::{ExecutionTypeProto, ResourceRequestProto};
use wire::raw_message::RawMessage;

use crate::fields::{allocate_request, execution_type_request, resource_request};

/// Why asks are not taken; the AM is told as Hadoop's ResourceManager tells it of guaranteed ones.
#[derive(Debug, thiserror::Error)]
pub(super) enum BadAsk {
    /// No ask, or one for fewer than none.
    #[error("Invalid resource request, {0}")]
    Unreadable(#[from] ConvertError),
    /// The message itself.
    #[error("Invalid resource request, {0}")]
    Broken(#[from] prost::DecodeError),
    /// A container that does not exist. Hadoop's node would give a smaller one, which the AM cannot match to its ask.
    #[error(
        "Invalid resource request! Cannot allocate containers: requested {asked}, the largest is {max}"
    )]
    TooLarge { asked: Resource, max: Resource },
    /// More than is kept.
    #[error("Invalid resource request, {0}")]
    Table(#[from] AskError),
}

impl From<BadAsk> for RemoteException {
    fn from(error: BadAsk) -> Self {
        Self::new(HadoopException::InvalidResourceRequest, error.to_string())
    }
}

/// Whether a line asks for an opportunistic container. Only the type is looked at, so a line without one, and a broken one,
/// go on to the ResourceManager.
fn is_opportunistic(ask: &Bytes) -> bool {
    let kind = RawMessage::parse(ask.clone())
        .ok()
        .and_then(|ask| ask.message(resource_request::EXECUTION_TYPE_REQUEST))
        .and_then(|kind| RawMessage::parse(kind).ok())
        .and_then(|kind| kind.int32(execution_type_request::EXECUTION_TYPE));
    kind == Some(ExecutionTypeProto::Opportunistic.into())
}

/// Reads the opportunistic lines of a request, in their order.
pub(super) fn read(
    message: &RawMessage,
    limits: Option<&ResourceLimits>,
) -> Result<Vec<ResourceRequest>, BadAsk> {
    message
        .all(allocate_request::ASK)
        .filter(is_opportunistic)
        .map(|line| {
            let ask = ResourceRequest::try_from(&ResourceRequestProto::decode(line)?)?;
            let (asked, count) = (ask.capability, ask.num_containers);
            match limits.map(|limits| limits.maximum) {
                Some(max) if count > 0 && !asked.fits_in(max) => {
                    Err(BadAsk::TooLarge { asked, max })
                }
                Some(_) | None => Ok(ask),
            }
        })
        .collect()
}

/// Takes the opportunistic lines out of a request.
pub(super) fn take_out(message: &mut RawMessage) {
    message.retain(allocate_request::ASK, |ask| !is_opportunistic(ask));
}

/// What tells asks apart that a container can be an answer to.
type AskKey = (Priority, i64, u64, u32);

/// Containers that were allocated and that the AM has not heard of: it still counts them as asked for.
#[derive(Debug, Default)]
pub(super) struct Unheard {
    totals: BTreeMap<AskKey, u32>,
    hosts: BTreeMap<(AskKey, String), u32>,
}

impl Unheard {
    pub(super) fn of<'a>(allocations: impl Iterator<Item = &'a ContainerAllocation>) -> Self {
        let mut unheard = Self::default();
        for allocation in allocations {
            let key = key_of(
                allocation.priority,
                allocation.allocation_request_id,
                allocation.resource,
            );
            let NodeId { host, .. } = &allocation.node_id;
            *unheard.totals.entry(key).or_default() += 1;
            *unheard.hosts.entry((key, host.clone())).or_default() += 1;
        }
        unheard
    }

    /// Lowers the counts that the AM states by what it has not heard of. A line for a rack stays: the total bounds it.
    pub(super) fn lower(&mut self, asks: &mut [ResourceRequest], limits: &ResourceLimits) {
        if self.totals.is_empty() {
            return;
        }
        for ask in asks {
            let size = limits.normalize(ask.capability);
            let key = key_of(ask.priority, ask.allocation_request_id, size);
            let unheard = match &ask.resource_name {
                ResourceName::Any => self.totals.get(&key),
                ResourceName::Host(host) => self.hosts.get(&(key, host.clone())),
                ResourceName::Rack(_) => None,
            };
            ask.num_containers = ask
                .num_containers
                .saturating_sub(unheard.copied().unwrap_or(0));
        }
    }
}

fn key_of(priority: Priority, allocation_request_id: i64, size: Resource) -> AskKey {
    (priority, allocation_request_id, size.memory_mb, size.vcores)
}
