//! The opportunistic part of an AM's asks: found, checked, and brought to what is really still wanted. Pure.

use std::collections::BTreeMap;

use bytes::Bytes;
use prost::Message as _;
use records::{NodeId, Priority, Resource, ResourceName, ResourceRequest};
use sched::{AskError, DistributedAllocation, ResourceLimits};
use wire::convert::ConvertError;
use wire::exception::{HadoopException, RemoteException};
use wire::proto::hadoop_yarn::{ExecutionTypeProto, ResourceRequestProto};
use wire::raw_message::RawMessage;

use crate::fields::{allocate_request, execution_type_request, resource_request};
use crate::sizes::wants_other_resources;

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

/// Why a blacklist is not taken.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub(super) struct BadBlacklist(#[from] AskError);

impl From<BadBlacklist> for RemoteException {
    fn from(error: BadBlacklist) -> Self {
        Self::new(
            HadoopException::InvalidResourceBlacklistRequest,
            error.to_string(),
        )
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

/// Reads an opportunistic line; `None` if it is the ResourceManager's to answer.
fn read_line(line: &Bytes, limits: &ResourceLimits) -> Result<Option<ResourceRequest>, BadAsk> {
    let proto = ResourceRequestProto::decode(&**line)?;
    if wants_other_resources(&proto) {
        return Ok(None);
    }
    let ask = ResourceRequest::try_from(&proto)?;
    let (asked, max) = (ask.capability, limits.maximum);
    if ask.num_containers > 0 && !asked.fits_in(max) {
        return Err(BadAsk::TooLarge { asked, max });
    }
    Ok(Some(ask))
}

/// Takes the opportunistic lines out of a request that are answered here, in their order. After an error the request is good
/// for nothing.
pub(super) fn take(
    message: &mut RawMessage,
    limits: &ResourceLimits,
) -> Result<Vec<ResourceRequest>, BadAsk> {
    let mut taken = Ok(Vec::new());
    message.retain(allocate_request::ASK, |line| {
        let Ok(asks) = &mut taken else {
            return true;
        };
        if !is_opportunistic(line) {
            return true;
        }
        match read_line(line, limits) {
            Ok(Some(ask)) => {
                asks.push(ask);
                false
            }
            Ok(None) => true,
            Err(error) => {
                taken = Err(error);
                true
            }
        }
    });
    taken
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
    pub(super) fn of<'a>(given: impl Iterator<Item = &'a DistributedAllocation>) -> Self {
        let mut unheard = Self::default();
        for DistributedAllocation {
            container, origin, ..
        } in given
        {
            let key = key_of(
                container.priority,
                container.allocation_request_id,
                origin.capability,
            );
            let NodeId { host, .. } = &container.node_id;
            *unheard.totals.entry(key).or_default() += 1;
            *unheard.hosts.entry((key, host.clone())).or_default() += 1;
        }
        unheard
    }

    /// Lowers the counts that the AM states by what it has not heard of. A line for a rack stays: the total bounds it.
    pub(super) fn lower(&self, asks: &mut [ResourceRequest]) {
        if self.totals.is_empty() {
            return;
        }
        for ask in asks {
            let key = key_of(ask.priority, ask.allocation_request_id, ask.capability);
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

/// By the size that is asked for: two that the same containers answer are two asks. The allocator takes none for nothing.
fn key_of(priority: Priority, allocation_request_id: i64, asked: Resource) -> AskKey {
    let (memory_mb, vcores) = (asked.memory_mb.max(1), asked.vcores.max(1));
    (priority, allocation_request_id, memory_mb, vcores)
}
