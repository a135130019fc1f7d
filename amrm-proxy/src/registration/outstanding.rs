//! The AM's requests that are not fulfilled, to be restated to a ResourceManager that has forgotten
//! the attempt.
//!
//! A call's requests are added when the ResourceManager has answered the call, so that refused ones
//! are never remembered. An answer removes what it fulfils when the AM has it. Lines are kept as
//! received, including fields that this version does not know.
//!
//! Source: the tables of `AMRMClientRelayer` and `AMRMClientImpl`.

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

/// Maximum memory of one attempt's table, in bytes, approximately. An AM that asks for each of
/// 10,000 hosts at five priorities stays below. A node runs dozens of AMs.
pub(super) const WEIGHT_MAX: usize = 16 * 1024 * 1024;

/// Request fields that stay in force until they are fulfilled or changed.
const LASTING: [u32; 5] = [
    allocate_request::ASK,
    allocate_request::RELEASE,
    allocate_request::BLACKLIST,
    allocate_request::UPDATE_REQUESTS,
    allocate_request::SCHEDULING_REQUESTS,
];

/// Answer fields that fulfil or end a request.
pub(super) const REMOVING: [u32; 5] = [
    allocate_response::ALLOCATED_CONTAINERS,
    allocate_response::COMPLETED_CONTAINERS,
    allocate_response::UPDATE_ERRORS,
    allocate_response::UPDATED_CONTAINERS,
    allocate_response::REJECTED_SCHEDULING_REQUESTS,
];

/// Reason for which an AM's requests cannot all be remembered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum RememberError {
    #[error("it takes more than {WEIGHT_MAX} bytes")]
    TooMuch,
    #[error("a part of it cannot be read")]
    Unreadable,
}

/// Messages of the AM about containers, at most one per container.
type ByContainer = BTreeMap<ContainerId, Box<[u8]>>;

/// Table of the requests that are not fulfilled.
#[derive(Clone, Debug, Default)]
pub(super) struct Outstanding {
    asks: Asks,
    releases: ByContainer,
    updates: ByContainer,
    blacklist: BTreeSet<Box<str>>,
    used: usize,
}

/// Returns whether a request contains a lasting field. Most do not.
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

    /// Returns whether the used memory is counted as zero.
    #[cfg(test)]
    pub(super) const fn weighs_nothing(&self) -> bool {
        self.used == 0
    }

    /// Adds the requests of a call that was answered.
    ///
    /// # Errors
    /// [`RememberError`]; the table is then incomplete.
    pub(super) fn apply_request(&mut self, message: &RawMessage) -> Result<(), RememberError> {
        for line in message.all(allocate_request::ASK) {
            let stated = self.asks.state(&line, &mut self.used);
            self.checked(stated)?;
        }
        for line in message.all(allocate_request::SCHEDULING_REQUESTS) {
            let stated = self.asks.state_constrained(&line, &mut self.used);
            self.checked(stated)?;
        }
        for line in message.all(allocate_request::RELEASE) {
            let kept = insert_line(&mut self.releases, released(&line), &line, &mut self.used);
            self.checked(kept)?;
        }
        for line in message.all(allocate_request::UPDATE_REQUESTS) {
            let kept = insert_line(&mut self.updates, updated(&line), &line, &mut self.used);
            self.checked(kept)?;
        }
        if let Some(list) = message.message(allocate_request::BLACKLIST) {
            let list = ResourceBlacklistRequestProto::decode(list);
            self.take_blacklist(list.map_err(|_| RememberError::Unreadable)?)?;
        }
        Ok(())
    }

    fn checked(&self, read: Option<()>) -> Result<(), RememberError> {
        read.ok_or(RememberError::Unreadable)?;
        if self.used > WEIGHT_MAX {
            return Err(RememberError::TooMuch);
        }
        Ok(())
    }

    /// Applies a blacklist: additions first, then removals, in the ResourceManager's order.
    fn take_blacklist(&mut self, list: ResourceBlacklistRequestProto) -> Result<(), RememberError> {
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

    /// Applies one field of an answer that the AM has received. An unreadable field changes
    /// nothing.
    pub(super) fn apply_answer(&mut self, field: u32, content: Bytes) {
        match field {
            allocate_response::ALLOCATED_CONTAINERS => {
                if let Ok(container) = ContainerProto::decode(content) {
                    self.asks.lower_by_container(&container, &mut self.used);
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

    /// Removes a container's update request, which is answered, and its release if the container
    /// has ended.
    fn forget(&mut self, id: Option<ContainerId>, has_ended: bool) {
        let Some(id) = id else {
            return;
        };
        let release = has_ended.then(|| self.releases.remove(&id)).flatten();
        for line in [release, self.updates.remove(&id)].into_iter().flatten() {
            self.used -= weight(&line);
        }
    }

    /// Adds everything outstanding to a request, before the request's own statements, which take
    /// precedence.
    pub(super) fn restate(&self, message: &mut RawMessage) {
        use allocate_request::{ASK, BLACKLIST, RELEASE, SCHEDULING_REQUESTS, UPDATE_REQUESTS};
        let asks = self.asks.restated(message.all(ASK));
        prepend(message, ASK, asks);
        let constrained = self
            .asks
            .restated_constrained(message.all(SCHEDULING_REQUESTS));
        prepend(message, SCHEDULING_REQUESTS, constrained);
        let releases = lines_except(
            &self.releases,
            message.all(RELEASE).map(|line| released(&line)),
        );
        prepend(message, RELEASE, releases);
        let updates = message.all(UPDATE_REQUESTS).map(|line| updated(&line));
        let updates = lines_except(&self.updates, updates);
        prepend(message, UPDATE_REQUESTS, updates);
        if self.blacklist.is_empty() {
            return;
        }
        let stated = message.message(BLACKLIST).unwrap_or_default();
        if let Ok(mut list) = RawMessage::parse(stated) {
            let texts = |field| -> BTreeSet<Bytes> { list.all(field).collect() };
            let now = [
                texts(blacklist_request::ADDITIONS),
                texts(blacklist_request::REMOVALS),
            ];
            let hosts = self.blacklist.iter().map(|host| host.as_bytes());
            let hosts = hosts.filter(|host| !now.iter().any(|stated| stated.contains(*host)));
            let hosts = hosts.map(Bytes::copy_from_slice).collect();
            prepend(&mut list, blacklist_request::ADDITIONS, hosts);
            message.set(BLACKLIST, &list.encode());
        }
    }
}

fn insert_line(
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

/// Returns the lines of containers that the current request does not mention.
fn lines_except(kept: &ByContainer, now: impl Iterator<Item = Option<ContainerId>>) -> Vec<Bytes> {
    let now: BTreeSet<_> = now.flatten().collect();
    kept.iter()
        .filter(|(id, _)| !now.contains(id))
        .map(|(_, line)| Bytes::copy_from_slice(line))
        .collect()
}

/// Inserts lines before the other occurrences of this field.
fn prepend(message: &mut RawMessage, number: u32, mut lines: Vec<Bytes>) {
    if lines.is_empty() {
        return;
    }
    lines.extend(message.all(number));
    message.retain(number, |_| false);
    message.extend(number, lines);
}
