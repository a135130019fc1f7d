//! The AM's asks line by line, as the ResourceManager knows them: the latest count of each line,
//! less the containers received.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use prost::Message as _;
use wire::proto::hadoop_yarn::{
    ContainerProto, ExecutionTypeProto, ExecutionTypeRequestProto, NodeIdProto, PriorityProto,
    ResourceProto, ResourceRequestProto, SchedulingRequestProto,
};
use wire::raw_message::RawMessage;

use crate::fields::{resource_request, resource_sizing, scheduling_request};

/// Maximum of sizes in one group that are searched for the one that a container answers. The
/// ResourceManager keeps only one size per group. For an AM that asks for more sizes than this, the
/// remembered counts may stay too high.
const SIZES_LOOKED_AT_MAX: usize = 1_000;

/// Attributes that an ask shares with the containers that answer it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Group {
    priority: i32,
    allocation_request_id: i64,
    execution_type: i32,
}

impl Group {
    fn of_ask(
        priority: Option<&PriorityProto>,
        allocation_request_id: i64,
        kind: Option<&ExecutionTypeRequestProto>,
    ) -> Self {
        Self {
            priority: priority.map_or(0, PriorityProto::priority),
            allocation_request_id,
            execution_type: kind
                .and_then(|kind| kind.execution_type)
                .unwrap_or(ExecutionTypeProto::Guaranteed.into()),
        }
    }

    fn of_container(container: &ContainerProto) -> Self {
        let guaranteed = ExecutionTypeProto::Guaranteed.into();
        Self {
            priority: container
                .priority
                .as_ref()
                .map_or(0, PriorityProto::priority),
            allocation_request_id: container.allocation_request_id(),
            execution_type: container.execution_type.unwrap_or(guaranteed),
        }
    }
}

/// Requested location of a container. An ask's total is its line for any location.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    Anywhere,
    /// Name of a host, or of a rack if it begins with a slash.
    At(Box<str>),
}

/// Key of an ask's line. Lines for any location come first in their group.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct AskKey {
    group: Group,
    place: Place,
    /// Encoded capability as the AM wrote it, with all its resource types.
    capability: Box<[u8]>,
}

/// Key of an ask with placement constraints (Hadoop:
/// `AMRMClientUtils.isMatchingSchedulingRequests`).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct ConstrainedKey {
    group: Group,
    tags: BTreeSet<String>,
}

/// A line as received, and the number of its containers that are still wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Line {
    bytes: Box<[u8]>,
    stated: i32,
    left: i32,
    /// Memory and virtual cores of one container.
    size: (i64, i32),
    /// Position in the order of statements. Lines are restated in that order, since a later line
    /// may replace an earlier one at the ResourceManager.
    order: u64,
}

/// Decoded content of a line.
struct Stated<K> {
    key: K,
    count: i32,
    size: (i64, i32),
}

/// Lines by key. Methods that change lines adjust the caller's total of used memory.
#[derive(Clone, Debug)]
struct Lines<K>(BTreeMap<K, Line>);

impl<K> Default for Lines<K> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

/// Returns the approximate memory of a line: its bytes, the parts repeated in its key, and the
/// overhead of map and allocations.
pub(super) const fn weight(bytes: &[u8]) -> usize {
    200 + 2 * bytes.len()
}

impl<K: Ord> Lines<K> {
    /// Replaces a line; a count of 0 removes it.
    fn state(&mut self, stated: Stated<K>, bytes: &Bytes, order: u64, used: &mut usize) {
        let Stated { key, count, size } = stated;
        let replaced = if count > 0 {
            let line = Line {
                // Copied, because the received bytes keep the whole request alive.
                bytes: Box::from(&bytes[..]),
                stated: count,
                left: count,
                size,
                order,
            };
            *used += weight(bytes);
            self.0.insert(key, line)
        } else {
            self.0.remove(&key)
        };
        if let Some(replaced) = replaced {
            *used -= weight(&replaced.bytes);
        }
    }

    /// Lowers a line's count. Returns `false` if there is no such line.
    fn lower(&mut self, key: K, by: i32, used: &mut usize) -> bool {
        let Entry::Occupied(mut line) = self.0.entry(key) else {
            return false;
        };
        let left = line.get().left.saturating_sub(by);
        if left > 0 {
            line.get_mut().left = left;
        } else {
            *used -= weight(&line.remove().bytes);
        }
        true
    }

    /// Returns the lines without those in `but`, in the order in which they were stated. `recount`
    /// writes the remaining count into a line.
    fn restated(
        &self,
        but: &BTreeSet<K>,
        recount: impl Fn(&Bytes, u64) -> Option<Bytes>,
    ) -> Vec<Bytes> {
        let mut lines: Vec<_> = self
            .0
            .iter()
            .filter(|(key, _)| !but.contains(key))
            .map(|(_, line)| line)
            .collect();
        lines.sort_unstable_by_key(|line| line.order);
        let say = |line: &Line| {
            let bytes = Bytes::copy_from_slice(&line.bytes);
            if line.left == line.stated {
                return bytes;
            }
            let left = u64::from(line.left.unsigned_abs());
            // The line was decoded when it was stored, so it can be decoded now.
            recount(&bytes, left).unwrap_or(bytes)
        };
        lines.into_iter().map(say).collect()
    }
}

/// Table of an attempt's asks, with and without placement constraints.
#[derive(Clone, Debug, Default)]
pub(super) struct Asks {
    plain: Lines<AskKey>,
    constrained: Lines<ConstrainedKey>,
    stated: u64,
}

fn read_ask(line: &Bytes) -> Option<Stated<AskKey>> {
    let ask = ResourceRequestProto::decode(line.clone()).ok()?;
    let capability = RawMessage::parse(line.clone())
        .ok()?
        .message(resource_request::CAPABILITY)
        .unwrap_or_default();
    let kind = ask.execution_type_request.as_ref();
    let key = AskKey {
        group: Group::of_ask(ask.priority.as_ref(), ask.allocation_request_id(), kind),
        place: match ask.resource_name() {
            "*" => Place::Anywhere,
            name => Place::At(name.into()),
        },
        capability: Box::from(&capability[..]),
    };
    let size = ask.capability.as_ref().map_or((0, 0), size_of);
    Some(Stated {
        key,
        count: ask.num_containers(),
        size,
    })
}

/// Returns memory and virtual cores of a size.
fn size_of(size: &ResourceProto) -> (i64, i32) {
    (size.memory(), size.virtual_cores())
}

fn read_constrained(line: &Bytes) -> Option<Stated<ConstrainedKey>> {
    SchedulingRequestProto::decode(line.clone())
        .ok()
        .map(constrained)
}

fn constrained(ask: SchedulingRequestProto) -> Stated<ConstrainedKey> {
    let kind = ask.execution_type.as_ref();
    let group = Group::of_ask(ask.priority.as_ref(), ask.allocation_request_id(), kind);
    let sizing = ask.resource_sizing.unwrap_or_default();
    let tags = ask.allocation_tags.into_iter().collect();
    Stated {
        key: ConstrainedKey { group, tags },
        count: sizing.num_allocations(),
        size: sizing.resources.as_ref().map_or((0, 0), size_of),
    }
}

/// Writes the number of containers that are still wanted into an ask.
fn recount_ask(line: &Bytes, left: u64) -> Option<Bytes> {
    let mut line = RawMessage::parse(line.clone()).ok()?;
    line.set_varint(resource_request::NUM_CONTAINERS, left);
    Some(line.encode())
}

fn recount_constrained(line: &Bytes, left: u64) -> Option<Bytes> {
    let mut line = RawMessage::parse(line.clone()).ok()?;
    let sizing = line.message(scheduling_request::RESOURCE_SIZING)?;
    let mut sizing = RawMessage::parse(sizing).ok()?;
    sizing.set_varint(resource_sizing::NUM_ALLOCATIONS, left);
    line.set(scheduling_request::RESOURCE_SIZING, &sizing.encode());
    Some(line.encode())
}

impl Asks {
    pub(super) fn is_empty(&self) -> bool {
        self.plain.0.is_empty() && self.constrained.0.is_empty()
    }

    /// Remembers a line of the AM; `None` if it cannot be read.
    pub(super) fn state(&mut self, line: &Bytes, used: &mut usize) -> Option<()> {
        let stated = read_ask(line)?;
        self.stated += 1;
        self.plain.state(stated, line, self.stated, used);
        Some(())
    }

    /// Remembers an ask with placement constraints; `None` if it cannot be read.
    pub(super) fn state_constrained(&mut self, line: &Bytes, used: &mut usize) -> Option<()> {
        let stated = read_constrained(line)?;
        self.stated += 1;
        self.constrained.state(stated, line, self.stated, used);
        Some(())
    }

    /// Counts a received container: one less is wanted in total and on its host. The host's rack is
    /// not known here; a line for a rack stays, and the total bounds it.
    pub(super) fn lower_by_container(&mut self, container: &ContainerProto, used: &mut usize) {
        let group = Group::of_container(container);
        let tags = container.allocation_tags.iter().cloned().collect();
        let key = ConstrainedKey { group, tags };
        if self.constrained.lower(key, 1, used) {
            return;
        }
        let Some(answered) = self.answered_by(group, container) else {
            return;
        };
        let host = container.node_id.as_ref().map_or("", NodeIdProto::host);
        let local = AskKey {
            place: Place::At(host.into()),
            ..answered.clone()
        };
        self.plain.lower(local, 1, used);
        self.plain.lower(answered, 1, used);
    }

    /// Finds the total that a container answers: of its group's lines, the largest size that fits
    /// into the container, since the ResourceManager rounds sizes up.
    fn answered_by(&self, group: Group, container: &ContainerProto) -> Option<AskKey> {
        let room = container.resource.as_ref().map_or((0, 0), size_of);
        let first = AskKey {
            group,
            place: Place::Anywhere,
            capability: Box::default(),
        };
        self.plain
            .0
            .range(first..)
            .take_while(|(key, _)| key.group == group && key.place == Place::Anywhere)
            .take(SIZES_LOOKED_AT_MAX)
            .filter(|(_, line)| line.size.0 <= room.0 && line.size.1 <= room.1)
            .max_by_key(|(_, line)| line.size)
            .map(|(key, _)| key.clone())
    }

    /// Removes an ask with placement constraints that the ResourceManager has rejected.
    pub(super) fn rejected(&mut self, ask: SchedulingRequestProto, used: &mut usize) {
        let Stated { key, count, .. } = constrained(ask);
        self.constrained.lower(key, count, used);
    }

    /// Returns the lines to restate, without those that the current request states itself.
    pub(super) fn restated(&self, now: impl Iterator<Item = Bytes>) -> Vec<Bytes> {
        let now = now.filter_map(|line| Some(read_ask(&line)?.key)).collect();
        self.plain.restated(&now, recount_ask)
    }

    /// Returns the asks with placement constraints to restate, without those of the current
    /// request.
    pub(super) fn restated_constrained(&self, now: impl Iterator<Item = Bytes>) -> Vec<Bytes> {
        let now = now
            .filter_map(|line| Some(read_constrained(&line)?.key))
            .collect();
        self.constrained.restated(&now, recount_constrained)
    }
}
