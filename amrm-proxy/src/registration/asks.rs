//! What an AM asks for line by line, as the ResourceManager has it: the last word on each line, less what was given for it.

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

/// Sizes of one group that are looked through for the one that a container answers. The ResourceManager itself keeps one for
/// each group; an AM that asks for more sizes than this keeps too high counts.
const SIZES_LOOKED_AT_MAX: usize = 1_000;

/// What the ResourceManager gives containers for, and what a container says of the ask that it answers.
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

/// Where a container is wanted. The total of an ask is the line for anywhere.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    Anywhere,
    /// A host, or a rack if it begins with a slash.
    At(Box<str>),
}

/// Tells lines apart. The lines for anywhere stand first in their group.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct AskKey {
    group: Group,
    place: Place,
    /// As the AM writes it, with whatever types of resources there are.
    capability: Box<[u8]>,
}

/// Tells asks with placement constraints apart (Hadoop: `AMRMClientUtils.isMatchingSchedulingRequests`).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct ConstrainedKey {
    group: Group,
    tags: BTreeSet<String>,
}

/// A line as it came, and how many containers of it are left.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Line {
    bytes: Box<[u8]>,
    stated: i32,
    left: i32,
    /// Memory and virtual cores of a container.
    size: (i64, i32),
    /// Lines are said again in the order in which they were said: to the ResourceManager a later one can take the place
    /// of an earlier one.
    order: u64,
}

/// The AM's word on a line.
struct Said<K> {
    key: K,
    count: i32,
    size: (i64, i32),
}

/// Lines under their keys. What they weigh is told to whoever changes them.
#[derive(Clone, Debug)]
struct Lines<K>(BTreeMap<K, Line>);

impl<K> Default for Lines<K> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

/// Memory that a line takes, about: its bytes, parts of them again in its key, and what maps and allocations add.
pub(super) const fn weight(bytes: &[u8]) -> usize {
    200 + 2 * bytes.len()
}

impl<K: Ord> Lines<K> {
    /// Replaces a line; none wanted removes it.
    fn state(&mut self, said: Said<K>, bytes: &Bytes, order: u64, used: &mut usize) {
        let Said { key, count, size } = said;
        let replaced = if count > 0 {
            let line = Line {
                // A copy: the bytes that came are part of a whole request.
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

    /// So many containers were given; `false` when there is no such line.
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

    /// The lines but for these, in the order in which they were said; `recount` writes a count into one.
    fn again(
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
            // It was read before, so that it can be read now.
            recount(&bytes, left).unwrap_or(bytes)
        };
        lines.into_iter().map(say).collect()
    }
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub(super) struct Asks {
    plain: Lines<AskKey>,
    constrained: Lines<ConstrainedKey>,
    said: u64,
}

fn read_ask(line: &Bytes) -> Option<Said<AskKey>> {
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
    Some(Said {
        key,
        count: ask.num_containers(),
        size,
    })
}

/// Memory and virtual cores.
fn size_of(size: &ResourceProto) -> (i64, i32) {
    (size.memory(), size.virtual_cores())
}

fn read_constrained(line: &Bytes) -> Option<Said<ConstrainedKey>> {
    SchedulingRequestProto::decode(line.clone())
        .ok()
        .map(constrained)
}

fn constrained(ask: SchedulingRequestProto) -> Said<ConstrainedKey> {
    let kind = ask.execution_type.as_ref();
    let group = Group::of_ask(ask.priority.as_ref(), ask.allocation_request_id(), kind);
    let sizing = ask.resource_sizing.unwrap_or_default();
    let tags = ask.allocation_tags.into_iter().collect();
    Said {
        key: ConstrainedKey { group, tags },
        count: sizing.num_allocations(),
        size: sizing.resources.as_ref().map_or((0, 0), size_of),
    }
}

/// Writes how many containers are left into an ask.
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

    /// Takes the AM's word; `None` when the line cannot be read.
    pub(super) fn state(&mut self, line: &Bytes, used: &mut usize) -> Option<()> {
        let said = read_ask(line)?;
        self.said += 1;
        self.plain.state(said, line, self.said, used);
        Some(())
    }

    /// The same of an ask with placement constraints.
    pub(super) fn state_constrained(&mut self, line: &Bytes, used: &mut usize) -> Option<()> {
        let said = read_constrained(line)?;
        self.said += 1;
        self.constrained.state(said, line, self.said, used);
        Some(())
    }

    /// A container was given: one less is asked for in all, and at its host. Which rack it is on is not known here; a line
    /// for a rack stays, and the total bounds it.
    pub(super) fn given(&mut self, container: &ContainerProto, used: &mut usize) {
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

    /// The total that a container is an answer to: of those of its group, the largest that it has room for, since the
    /// ResourceManager rounds up.
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

    /// The ResourceManager has given an ask with placement constraints up.
    pub(super) fn rejected(&mut self, ask: SchedulingRequestProto, used: &mut usize) {
        let Said { key, count, .. } = constrained(ask);
        self.constrained.lower(key, count, used);
    }

    /// The lines to say again, but for those that are said now.
    pub(super) fn again(&self, now: impl Iterator<Item = Bytes>) -> Vec<Bytes> {
        let now = now.filter_map(|line| Some(read_ask(&line)?.key)).collect();
        self.plain.again(&now, recount_ask)
    }

    /// The same of asks with placement constraints.
    pub(super) fn again_constrained(&self, now: impl Iterator<Item = Bytes>) -> Vec<Bytes> {
        let now = now
            .filter_map(|line| Some(read_constrained(&line)?.key))
            .collect();
        self.constrained.again(&now, recount_constrained)
    }
}
