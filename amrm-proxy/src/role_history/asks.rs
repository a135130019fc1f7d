//! An AM's asks for containers on any node, and the lines that name nodes in their place.
//!
//! The ResourceManager keeps a count for each resource name of an ask: hosts, racks and `*`. A
//! container on a named host lowers all three, and none is allocated beyond the count of `*`. So
//! the AM's own count of `*` always stays, and naming nodes adds lines and changes flags:
//!
//! ```text
//!  AM               *    3                      strict           relaxed
//!  this node        n1   1                      relax            relax
//!                   n7   1                      relax            relax
//!                   /r1  2                      do not relax     relax
//!                   *    3   (the AM's line)    do not relax     relax
//! ```
//!
//! Only hosts of the history are used while `*` does not relax. To give them up, `*` is sent again
//! with its flag changed, and with the count that is still wanted. If the ResourceManager has
//! allocated a container that no answer has brought yet, that count is too high by one; the answer
//! shows it, the count is sent once more, and a container allocated meanwhile is surplus.
//!
//! Source: Hadoop `LocalityAppPlacementAllocator`, `RegularContainerAllocator`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use prost::Message as _;
use wire::proto::hadoop_yarn::{
    ContainerProto, ExecutionTypeProto, PriorityProto, ResourceRequestProto,
};
use wire::raw_message::RawMessage;

use super::named::{NamedLines, is_rack};
use crate::fields::{allocate_request, resource_request};

/// Maximum of asks of one attempt. Further ones pass unchanged.
const ASKS_MAX: usize = 1_000;

/// Resource name of a line for any node (Hadoop: `ResourceRequest.ANY`).
const ANY: &str = "*";

/// Longest line that is kept and repeated, in bytes.
const LINE_BYTES_MAX: usize = 4_096;

/// Attributes that an ask shares with the containers that answer it (Hadoop:
/// `SchedulerRequestKey`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct AskKey {
    pub(super) priority: i32,
    pub(super) request_id: i64,
    pub(super) execution_type: i32,
}

impl AskKey {
    fn of(ask: &ResourceRequestProto) -> Self {
        let kind = ask.execution_type_request.as_ref();
        Self {
            priority: ask.priority.as_ref().map_or(0, PriorityProto::priority),
            request_id: ask.allocation_request_id(),
            execution_type: kind
                .and_then(|kind| kind.execution_type)
                .unwrap_or(ExecutionTypeProto::Guaranteed.into()),
        }
    }

    pub(super) fn of_container(container: &ContainerProto) -> Self {
        let guaranteed = ExecutionTypeProto::Guaranteed.into();
        let priority = container.priority.as_ref();
        Self {
            priority: priority.map_or(0, PriorityProto::priority),
            request_id: container.allocation_request_id(),
            execution_type: container.execution_type.unwrap_or(guaranteed),
        }
    }

    pub(super) fn is_guaranteed(self) -> bool {
        self.execution_type == i32::from(ExecutionTypeProto::Guaranteed)
    }
}

/// Ask of the AM for containers on any node.
#[derive(Clone, Debug, Default)]
pub(super) struct Ask {
    /// The AM's line for any node, as it stated it last.
    pub(super) any: Box<[u8]>,
    /// Containers that the AM wants and has not got.
    pub(super) wanted: u32,
    /// Whether the AM names places or labels itself. Its asks then pass unchanged.
    pub(super) is_left_to_am: bool,
    /// Lines that name nodes in its place.
    pub(super) named: NamedLines,
    /// Whether the count of `*` was sent again since the AM stated it.
    pub(super) is_resent: bool,
    /// Whether containers came with the answer to a call that sent the count of `*` again: the
    /// ResourceManager's count is too high by their number.
    is_count_stale: bool,
    /// Whether the current call sends the count of `*` again.
    is_resent_now: bool,
}

/// Line that this node added to a call.
#[derive(Clone, Debug)]
struct Added {
    key: AskKey,
    is_any: bool,
    line: Bytes,
}

/// Asks of one attempt by their keys.
#[derive(Clone, Debug, Default)]
pub(super) struct Asks {
    by_key: BTreeMap<AskKey, Ask>,
    /// Lines that the last call named nodes with. A retry of the call repeats them: it is ignored
    /// if the ResourceManager has executed the call before.
    added: Vec<Added>,
}

impl Asks {
    /// Forgets everything: the AM registers and states its asks again.
    pub(super) fn clear(&mut self) {
        self.by_key.clear();
        self.added.clear();
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (AskKey, &Ask)> {
        self.by_key.iter().map(|(&key, ask)| (key, ask))
    }

    /// Returns the number of containers that an ask still wants.
    pub(super) fn wanted(&self, key: AskKey) -> u32 {
        self.by_key.get(&key).map_or(0, |ask| ask.wanted)
    }

    /// Adds an ask from before a restart.
    pub(super) fn restore(&mut self, any: &Bytes, wanted: u32, named: NamedLines) {
        let Ok(read) = ResourceRequestProto::decode(any.clone()) else {
            return;
        };
        if let Some(ask) = self.state(AskKey::of(&read), &read, any) {
            ask.wanted = wanted;
            ask.named = named;
        }
    }

    /// Returns the lines that name nodes in the place of an ask.
    pub(super) fn named(&mut self, key: AskKey) -> Option<&mut NamedLines> {
        self.by_key.get_mut(&key).map(|ask| &mut ask.named)
    }

    /// Moves a host to another rack.
    pub(super) fn move_host(&mut self, host: &str, from: &Arc<str>, to: &Arc<str>) {
        for ask in self.by_key.values_mut() {
            ask.named.move_host(host, from, to);
        }
    }

    /// Takes the lines of a request, and returns what they state.
    pub(super) fn state_all(&mut self, message: &RawMessage) -> Stated {
        let mut stated = Stated::default();
        for (line, read) in lines(message) {
            stated.add(&read);
            stated.is_taken |= self.state(AskKey::of(&read), &read, &line).is_some();
        }
        stated
    }

    /// Takes a line. Returns its ask; `None` for one beyond the maximum.
    fn state(
        &mut self,
        key: AskKey,
        stated: &ResourceRequestProto,
        line: &Bytes,
    ) -> Option<&mut Ask> {
        if !self.by_key.contains_key(&key) && self.by_key.len() >= ASKS_MAX {
            return None;
        }
        let ask = self.by_key.entry(key).or_default();
        let wanted = u32::try_from(stated.num_containers()).unwrap_or(0);
        let has_label = !stated.node_label_expression().is_empty();
        if stated.resource_name() != ANY {
            ask.is_left_to_am |= wanted > 0;
            return Some(ask);
        }
        ask.is_left_to_am |= has_label || !stated.relax_locality() || line.len() > LINE_BYTES_MAX;
        if line.len() <= LINE_BYTES_MAX {
            ask.any = Box::from(&line[..]);
        }
        ask.wanted = wanted;
        ask.is_resent = false;
        ask.is_count_stale = false;
        Some(ask)
    }

    /// Counts a container of an answer. Returns whether it is surplus because this node sent its
    /// ask's count again.
    pub(super) fn receive(&mut self, key: AskKey, host: &str, rack: &str) -> bool {
        let Some(ask) = self.by_key.get_mut(&key) else {
            return false;
        };
        if ask.is_resent_now {
            ask.is_count_stale = true;
        }
        if ask.wanted == 0 {
            return ask.is_resent;
        }
        ask.wanted -= 1;
        for place in [host, rack] {
            ask.named.recount(place, |count| count.saturating_sub(1));
        }
        false
    }

    /// Takes back a container of an answer that the AM has not got.
    pub(super) fn take_back(&mut self, key: AskKey, host: &str, rack: &str) {
        let Some(ask) = self.by_key.get_mut(&key) else {
            return;
        };
        ask.wanted += 1;
        for place in [host, rack] {
            ask.named.recount(place, |count| count + 1);
        }
    }

    /// Notes that the ResourceManager has answered the current call.
    pub(super) fn commit(&mut self) {
        for ask in self.by_key.values_mut() {
            ask.named.commit();
        }
    }

    /// Ends the handling of an answer, and drops asks for nothing of which the ResourceManager has
    /// no line.
    pub(super) fn end_call(&mut self) {
        self.by_key.retain(|_, ask| {
            ask.is_resent_now = false;
            ask.wanted > 0 || ask.is_left_to_am || ask.is_resent || !ask.named.is_empty()
        });
    }

    /// Edits the lines of a request, which state this, so that asks name the nodes that are wanted.
    /// Returns whether a line was changed or added.
    pub(super) fn name_nodes(&mut self, message: &mut RawMessage, stated: &Stated) -> bool {
        self.added.clear();
        for (&key, ask) in &mut self.by_key {
            ask.is_resent_now = false;
            let changes = ask.named.begin_call();
            let is_any_stated = stated.any.contains(&key);
            let is_other = |name: &str| !stated.places.contains(&(key, name.to_owned()));
            let changed = changes.places.iter().filter(|(name, _)| is_other(name));
            let add = |line| Added {
                key,
                is_any: false,
                line,
            };
            self.added.extend(changed.filter_map(|(name, count)| {
                let relaxes = !changes.is_strict || !is_rack(name);
                place_line(&ask.any, name, count.unwrap_or(0), relaxes).map(add)
            }));
            if !is_any_stated && (changes.is_flipped || ask.is_count_stale) {
                let line = place_line(&ask.any, ANY, ask.wanted, !changes.is_strict);
                self.added.extend(line.map(|line| Added {
                    is_any: true,
                    ..add(line)
                }));
                ask.is_resent = true;
                ask.is_resent_now = true;
                ask.is_count_stale = false;
            }
        }
        let is_added = !self.added.is_empty();
        self.name_again(message, stated) || is_added
    }

    /// Edits the lines of a request as those of the call before, which it retries. Returns whether
    /// a line of the AM's was changed.
    pub(super) fn name_again(&self, message: &mut RawMessage, stated: &Stated) -> bool {
        let is_edited = self.make_strict(message, stated);
        let added = self.added.iter();
        let added = added.filter(|added| !added.is_any || !stated.any.contains(&added.key));
        let lines: Vec<_> = added.map(|added| added.line.clone()).collect();
        message.extend(allocate_request::ASK, lines);
        is_edited
    }

    /// Makes the AM's own lines for any node strict where their asks are. Returns whether a line
    /// was changed.
    pub(super) fn make_strict(&self, message: &mut RawMessage, stated: &Stated) -> bool {
        let is_strict = |key: &AskKey| {
            let ask = self.by_key.get(key);
            ask.is_some_and(|ask| ask.named.is_strict_in_call())
        };
        let mut is_edited = false;
        if stated.any.iter().any(is_strict) {
            message.edit(allocate_request::ASK, |line| {
                let read = ResourceRequestProto::decode(line.clone()).ok()?;
                if read.resource_name() != ANY || !is_strict(&AskKey::of(&read)) {
                    return None;
                }
                let mut raw = RawMessage::parse(line.clone()).ok()?;
                raw.set_varint(resource_request::RELAX_LOCALITY, 0);
                is_edited = true;
                Some(raw.encode())
            });
        }
        is_edited
    }
}

/// Keys and places of the lines in a request.
#[derive(Debug, Default)]
pub(super) struct Stated {
    any: BTreeSet<AskKey>,
    places: BTreeSet<(AskKey, String)>,
    /// Whether a line was taken as an ask.
    pub(super) is_taken: bool,
}

impl Stated {
    /// Reads what a request states, without taking it as asks.
    pub(super) fn of(message: &RawMessage) -> Self {
        let mut stated = Self::default();
        lines(message).for_each(|(_, read)| stated.add(&read));
        stated
    }

    fn add(&mut self, line: &ResourceRequestProto) {
        let key = AskKey::of(line);
        match line.resource_name() {
            ANY => self.any.insert(key),
            name => self.places.insert((key, name.to_owned())),
        };
    }
}

fn lines(message: &RawMessage) -> impl Iterator<Item = (Bytes, ResourceRequestProto)> {
    let lines = message.all(allocate_request::ASK);
    lines.filter_map(|line| {
        let read = ResourceRequestProto::decode(line.clone()).ok()?;
        Some((line, read))
    })
}

/// Writes a line like the AM's for any node, for another place; `None` without the AM's line.
fn place_line(any: &[u8], name: &str, count: u32, relaxes: bool) -> Option<Bytes> {
    if any.is_empty() {
        return None;
    }
    let mut line = RawMessage::parse(Bytes::copy_from_slice(any)).ok()?;
    line.set(resource_request::RESOURCE_NAME, name.as_bytes());
    line.set_varint(resource_request::NUM_CONTAINERS, u64::from(count));
    line.set_varint(resource_request::RELAX_LOCALITY, u64::from(relaxes));
    Some(line.encode())
}
