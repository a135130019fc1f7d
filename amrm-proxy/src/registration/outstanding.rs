//! What a ResourceManager has to be told again when it has forgotten an attempt: everything that its AM has said and that is
//! not done.
//!
//! Each call's part is taken in when the ResourceManager has answered the call, so that nothing stays here that it has
//! refused; what an answer brought is taken off when the AM has it. Lines are kept as they came, with fields that this
//! version does not know.
//!
//! Source: `AMRMClientRelayer`, `AMRMClientImpl`, of whose tables these are the counterparts.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use prost::Message as _;
use records::ContainerId;
use wire::proto::hadoop_yarn::{
    ContainerIdProto, ContainerProto, ContainerStatusProto, RejectedSchedulingRequestProto,
    ResourceBlacklistRequestProto, UpdateContainerErrorProto, UpdateContainerRequestProto,
    UpdatedContainerProto,
};
use wire::raw_message::RawMessage;

use super::asks::{Asks, weight};
use crate::fields::{allocate_request, allocate_response, blacklist_request};

/// Most memory that an attempt's part takes, in bytes, about. An AM that asks for each of 10,000 hosts at five priorities
/// stays below; a node has AMs by the dozen.
pub(super) const WEIGHT_MAX: usize = 16 * 1024 * 1024;

/// Fields of a request that say something that lasts.
const LASTING: [u32; 5] = [
    allocate_request::ASK,
    allocate_request::RELEASE,
    allocate_request::BLACKLIST,
    allocate_request::UPDATE_REQUESTS,
    allocate_request::SCHEDULING_REQUESTS,
];

/// Fields of an answer that take something off.
pub(super) const ANSWERING: [u32; 5] = [
    allocate_response::ALLOCATED_CONTAINERS,
    allocate_response::COMPLETED_CONTAINERS,
    allocate_response::UPDATE_ERRORS,
    allocate_response::UPDATED_CONTAINERS,
    allocate_response::REJECTED_SCHEDULING_REQUESTS,
];

/// Why what an AM has said is not kept whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Unkept {
    #[error("it takes more than {WEIGHT_MAX} bytes")]
    TooMuch,
    #[error("a part of it cannot be read")]
    Unreadable,
}

/// Messages of the AM about containers, one for each.
type ByContainer = BTreeMap<ContainerId, Box<[u8]>>;

/// See the module.
#[derive(Clone, Debug, Default)]
pub(super) struct Outstanding {
    asks: Asks,
    releases: ByContainer,
    updates: ByContainer,
    blacklist: BTreeSet<Box<str>>,
    used: usize,
}

/// Whether a request says something that lasts. Most do not.
pub(super) fn is_lasting(message: &RawMessage) -> bool {
    LASTING.iter().any(|field| message.count(*field) > 0)
}

fn id_of(id: Option<&ContainerIdProto>) -> Option<ContainerId> {
    ContainerId::try_from(id?).ok()
}

fn released(line: &Bytes) -> Option<ContainerId> {
    id_of(ContainerIdProto::decode(line.clone()).ok().as_ref())
}

fn updated(line: &Bytes) -> Option<ContainerId> {
    let update = UpdateContainerRequestProto::decode(line.clone()).ok()?;
    id_of(Some(&update.container_id))
}

impl Outstanding {
    pub(super) fn is_empty(&self) -> bool {
        self.asks.is_empty()
            && self.releases.is_empty()
            && self.updates.is_empty()
            && self.blacklist.is_empty()
    }

    /// Whether nothing is counted as used.
    #[cfg(test)]
    pub(super) const fn weighs_nothing(&self) -> bool {
        self.used == 0
    }

    /// Takes in what the AM has said in a request that was answered.
    ///
    /// # Errors
    /// [`Unkept`]: what is here is then not all that is outstanding.
    pub(super) fn take_in(&mut self, message: &RawMessage) -> Result<(), Unkept> {
        for line in message.all(allocate_request::ASK) {
            let stated = self.asks.state(&line, &mut self.used);
            self.checked(stated)?;
        }
        for line in message.all(allocate_request::SCHEDULING_REQUESTS) {
            let stated = self.asks.state_constrained(&line, &mut self.used);
            self.checked(stated)?;
        }
        for line in message.all(allocate_request::RELEASE) {
            let kept = keep(&mut self.releases, released(&line), &line, &mut self.used);
            self.checked(kept)?;
        }
        for line in message.all(allocate_request::UPDATE_REQUESTS) {
            let kept = keep(&mut self.updates, updated(&line), &line, &mut self.used);
            self.checked(kept)?;
        }
        if let Some(list) = message.message(allocate_request::BLACKLIST) {
            let list = ResourceBlacklistRequestProto::decode(list);
            self.take_blacklist(list.map_err(|_| Unkept::Unreadable)?)?;
        }
        Ok(())
    }

    fn checked(&self, read: Option<()>) -> Result<(), Unkept> {
        read.ok_or(Unkept::Unreadable)?;
        if self.used > WEIGHT_MAX {
            return Err(Unkept::TooMuch);
        }
        Ok(())
    }

    /// The removals last, as the ResourceManager takes them.
    fn take_blacklist(&mut self, list: ResourceBlacklistRequestProto) -> Result<(), Unkept> {
        for host in list.blacklist_additions {
            let host_weight = weight(host.as_bytes());
            if self.blacklist.insert(host.into()) {
                self.used += host_weight;
                self.checked(Some(()))?;
            }
        }
        for host in list.blacklist_removals {
            if self.blacklist.remove(host.as_str()) {
                self.used -= weight(host.as_bytes());
            }
        }
        Ok(())
    }

    /// The AM has a field of an answer. What cannot be read takes nothing off.
    pub(super) fn take_off(&mut self, field: u32, content: Bytes) {
        match field {
            allocate_response::ALLOCATED_CONTAINERS => {
                if let Ok(container) = ContainerProto::decode(content) {
                    self.asks.given(&container, &mut self.used);
                }
            }
            allocate_response::COMPLETED_CONTAINERS => {
                let status = ContainerStatusProto::decode(content).ok();
                let ended = status.and_then(|status| id_of(status.container_id.as_ref()));
                self.forget(ended, true);
            }
            allocate_response::UPDATE_ERRORS => {
                let error = UpdateContainerErrorProto::decode(content).ok();
                let request = error.and_then(|error| error.update_request);
                self.forget(request.and_then(|r| id_of(Some(&r.container_id))), false);
            }
            allocate_response::UPDATED_CONTAINERS => {
                let updated = UpdatedContainerProto::decode(content).ok();
                let id = updated.and_then(|updated| id_of(updated.container.id.as_ref()));
                self.forget(id, false);
            }
            allocate_response::REJECTED_SCHEDULING_REQUESTS => {
                if let Ok(rejected) = RejectedSchedulingRequestProto::decode(content) {
                    self.asks.rejected(rejected.request, &mut self.used);
                }
            }
            _ => {}
        }
    }

    /// The change of a container is answered, or the container has ended.
    fn forget(&mut self, id: Option<ContainerId>, has_ended: bool) {
        let Some(id) = id else {
            return;
        };
        let release = has_ended.then(|| self.releases.remove(&id)).flatten();
        for line in [release, self.updates.remove(&id)].into_iter().flatten() {
            self.used -= weight(&line);
        }
    }

    /// Says everything again in a request, before what that says itself, which counts more.
    pub(super) fn say_again(&self, message: &mut RawMessage) {
        use allocate_request::{ASK, BLACKLIST, RELEASE, SCHEDULING_REQUESTS, UPDATE_REQUESTS};
        let asks = self.asks.again(message.all(ASK));
        put_before(message, ASK, asks);
        let constrained = self
            .asks
            .again_constrained(message.all(SCHEDULING_REQUESTS));
        put_before(message, SCHEDULING_REQUESTS, constrained);
        let releases = but_for(
            &self.releases,
            message.all(RELEASE).map(|line| released(&line)),
        );
        put_before(message, RELEASE, releases);
        let updates = message.all(UPDATE_REQUESTS).map(|line| updated(&line));
        let updates = but_for(&self.updates, updates);
        put_before(message, UPDATE_REQUESTS, updates);
        if self.blacklist.is_empty() {
            return;
        }
        let said = message.message(BLACKLIST).unwrap_or_default();
        if let Ok(mut list) = RawMessage::parse(said) {
            let texts = |field| -> BTreeSet<Bytes> { list.all(field).collect() };
            let now = [
                texts(blacklist_request::ADDITIONS),
                texts(blacklist_request::REMOVALS),
            ];
            let hosts = self.blacklist.iter().map(|host| host.as_bytes());
            let hosts = hosts.filter(|host| !now.iter().any(|said| said.contains(*host)));
            let hosts = hosts.map(Bytes::copy_from_slice).collect();
            put_before(&mut list, blacklist_request::ADDITIONS, hosts);
            message.set(BLACKLIST, &list.encode());
        }
    }
}

fn keep(
    kept: &mut ByContainer,
    id: Option<ContainerId>,
    line: &Bytes,
    used: &mut usize,
) -> Option<()> {
    *used += weight(line);
    if let Some(replaced) = kept.insert(id?, Box::from(&line[..])) {
        *used -= weight(&replaced);
    }
    Some(())
}

/// The lines of containers that are not spoken of now.
fn but_for(kept: &ByContainer, now: impl Iterator<Item = Option<ContainerId>>) -> Vec<Bytes> {
    let now: BTreeSet<_> = now.flatten().collect();
    kept.iter()
        .filter(|(id, _)| !now.contains(id))
        .map(|(_, line)| Bytes::copy_from_slice(line))
        .collect()
}

/// Puts these before the others of this number.
fn put_before(message: &mut RawMessage, number: u32, mut lines: Vec<Bytes>) {
    if lines.is_empty() {
        return;
    }
    lines.extend(message.all(number));
    message.retain(number, |_| false);
    message.extend(number, lines);
}
