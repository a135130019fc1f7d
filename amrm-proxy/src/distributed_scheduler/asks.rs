//! The opportunistic asks of a request: extracted, checked and lowered to the counts still wanted.
//! Pure.

use std::collections::BTreeMap;

use bytes::Bytes;
use prost::Message as _;
use records::{NodeId, Priority, Resource, ResourceName, ResourceRequest};
use sched::{AskError, DistributedAllocation};
use wire::convert::ConvertError;
use wire::exception::{HadoopException, RemoteException};
use wire::proto::hadoop_yarn::{ExecutionTypeProto, ResourceRequestProto};
use wire::raw_message::RawMessage;

use crate::fields::{allocate_request, execution_type_request, resource_request};
use crate::sizes::wants_other_resources;

/// Reason for refusing asks. The texts are those of Hadoop's ResourceManager for guaranteed asks.
#[derive(Debug, thiserror::Error)]
pub(super) enum BadAsk {
    /// A line without required fields, or with a negative count.
    #[error("Invalid resource request, {0}")]
    Unreadable(#[from] ConvertError),
    /// A line that is no valid message.
    #[error("Invalid resource request, {0}")]
    Broken(#[from] prost::DecodeError),
    /// Asks beyond the allocator's limits.
    #[error("Invalid resource request, {0}")]
    Table(#[from] AskError),
}

impl From<BadAsk> for RemoteException {
    fn from(error: BadAsk) -> Self {
        Self::new(HadoopException::InvalidResourceRequest, error.to_string())
    }
}

/// Reason for refusing a blacklist.
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

/// Returns whether a line asks for an opportunistic container. Only the execution type is decoded,
/// so a line without one and an unreadable line go to the ResourceManager.
fn is_opportunistic(ask: &Bytes) -> bool {
    let kind = RawMessage::parse(ask.clone())
        .ok()
        .and_then(|ask| ask.message(resource_request::EXECUTION_TYPE_REQUEST))
        .and_then(|kind| RawMessage::parse(kind).ok())
        .and_then(|kind| kind.int32(execution_type_request::EXECUTION_TYPE));
    kind == Some(ExecutionTypeProto::Opportunistic.into())
}

/// Decodes an opportunistic line; `None` if the ResourceManager has to answer it. The allocator
/// cuts a container above the maximum, as Hadoop's does (`OpportunisticContainerAllocator`).
fn read_line(line: &Bytes) -> Result<Option<ResourceRequest>, BadAsk> {
    let proto = ResourceRequestProto::decode(&**line)?;
    if wants_other_resources(&proto) {
        return Ok(None);
    }
    Ok(Some(ResourceRequest::try_from(&proto)?))
}

/// Removes and returns the opportunistic lines that this node answers, in their order. After an
/// error the request must not be used.
pub(super) fn take(message: &mut RawMessage) -> Result<Vec<ResourceRequest>, BadAsk> {
    let mut taken = Ok(Vec::new());
    message.retain(allocate_request::ASK, |line| {
        let Ok(asks) = &mut taken else {
            return true;
        };
        if !is_opportunistic(line) {
            return true;
        }
        match read_line(line) {
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

/// Key of an ask as far as its containers determine it: priority, allocation request id, memory,
/// virtual cores.
type AskKey = (Priority, i64, u64, u32);

/// Containers that were allocated but not delivered to the AM, which still counts them as wanted.
#[derive(Debug, Default)]
pub(super) struct Undelivered {
    totals: BTreeMap<AskKey, u32>,
    hosts: BTreeMap<(AskKey, String), u32>,
}

impl Undelivered {
    pub(super) fn of<'a>(given: impl Iterator<Item = &'a DistributedAllocation>) -> Self {
        let mut undelivered = Self::default();
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
            *undelivered.totals.entry(key).or_default() += 1;
            *undelivered.hosts.entry((key, host.clone())).or_default() += 1;
        }
        undelivered
    }

    /// Lowers the AM's stated counts by the undelivered containers. A line for a rack stays: the
    /// total bounds it.
    pub(super) fn lower(&self, asks: &mut [ResourceRequest]) {
        if self.totals.is_empty() {
            return;
        }
        for ask in asks {
            let key = key_of(ask.priority, ask.allocation_request_id, ask.capability);
            let undelivered = match &ask.resource_name {
                ResourceName::Any => self.totals.get(&key),
                ResourceName::Host(host) => self.hosts.get(&(key, host.clone())),
                ResourceName::Rack(_) => None,
            };
            ask.num_containers = ask
                .num_containers
                .saturating_sub(undelivered.copied().unwrap_or(0));
        }
    }
}

/// Makes the key from the requested size, so that two sizes answered by equal containers stay two
/// asks. The allocator treats zero memory or cores as one.
fn key_of(priority: Priority, allocation_request_id: i64, asked: Resource) -> AskKey {
    let (memory_mb, vcores) = (asked.memory_mb.max(1), asked.vcores.max(1));
    (priority, allocation_request_id, memory_mb, vcores)
}
