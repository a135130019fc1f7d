//! Nodes of the ResourceManager's last list, and the containers that this attempt has placed on
//! them since.
//!
//! The list tells which nodes are the least loaded, not by how much. It lags by a heartbeat of the
//! attempt, a heartbeat of the nodes and the time between two sorts. Containers placed within that
//! time are therefore remembered and count against a node: an attempt with frequent heartbeats does
//! not send everything to the node at the head of the list.

use std::collections::{BTreeMap, BTreeSet};

use records::{MonoMillis, NodeId};

use super::Locality;
use super::ask::Ask;
use super::places::Places;

/// Most nodes of a list that are used. Hadoop offers ten by default; a node takes one container per
/// heartbeat of an attempt unless its host is asked for, so more would only help attempts that want
/// more at once.
pub const REMOTE_NODES_MAX: usize = 200;

/// Milliseconds until the list reflects a placed container: a heartbeat of the node and a sort at
/// the ResourceManager, a second each by default.
const SHOWS_AFTER_MS: u64 = 2_000;

/// Node in the ResourceManager's list (Hadoop: `RemoteNode`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoteNode {
    /// Host and port of the NodeManager.
    pub node_id: NodeId,
    /// Address of the node's web pages, as `host:port`.
    pub http_address: String,
    /// Path of the node's rack.
    pub rack: String,
    /// Partition of the node (node label); the default one is the empty text.
    pub partition: String,
}

/// The last list of nodes and the containers placed since.
#[derive(Clone, Debug, Default)]
pub(super) struct RemoteNodes {
    /// Least loaded nodes first, each once.
    nodes: Vec<RemoteNode>,
    received: Option<MonoMillis>,
    /// Containers that the list does not reflect yet, by node. Covers nodes offered within
    /// [`SHOWS_AFTER_MS`].
    given: BTreeMap<NodeId, u32>,
    given_since: MonoMillis,
}

impl RemoteNodes {
    /// Replaces the list, even by an empty one.
    pub(super) fn replace(&mut self, mut nodes: Vec<RemoteNode>, now: MonoMillis) {
        let mut seen = BTreeSet::new();
        let is_new: Vec<bool> = nodes
            .iter()
            .map(|node| seen.insert(&node.node_id))
            .collect();
        let mut is_new = is_new.into_iter();
        nodes.retain(|_| is_new.next().unwrap_or(false));
        nodes.truncate(REMOTE_NODES_MAX);
        self.nodes = nodes;
        self.received = Some(now);
    }

    /// Returns the time at which the list came.
    pub(super) const fn received(&self) -> Option<MonoMillis> {
        self.received
    }

    /// Returns whether there is a list that is at most `age_max_ms` old.
    pub(super) fn is_fresh(&self, now: MonoMillis, age_max_ms: u64) -> bool {
        self.received
            .is_some_and(|received| now.since(received) <= age_max_ms)
    }

    /// Starts one heartbeat of the attempt: returns the candidates, without excluded hosts.
    pub(super) fn turn(
        &mut self,
        blacklist: &BTreeSet<String>,
        shares: Shares,
        now: MonoMillis,
    ) -> Turn<'_> {
        if now.since(self.given_since) >= SHOWS_AFTER_MS {
            self.given.clear();
            self.given_since = now;
        }
        let mut candidates: Vec<Candidate<'_>> = self
            .nodes
            .iter()
            .filter(|node| !blacklist.contains(&node.node_id.host))
            .map(|node| Candidate {
                node,
                given: self.given.get(&node.node_id).copied().unwrap_or(0),
                used: 0,
            })
            .collect();
        // Stable sort: nodes with equal counts keep the list's order.
        candidates.sort_by_key(|candidate| candidate.given);
        let mut partitions = Partitions::default();
        for (at, Candidate { node, .. }) in candidates.iter().enumerate() {
            let partition = partitions.get_or_add(&node.partition);
            partition.all.push(at);
            let host = partition.by_host.entry(&node.node_id.host);
            host.or_default().push(at);
            partition.by_rack.entry(&node.rack).or_default().push(at);
            partition.open += usize::from(shares.elsewhere > 0);
        }
        Turn {
            candidates,
            partitions,
            shares,
            given: &mut self.given,
        }
    }
}

struct Candidate<'a> {
    node: &'a RemoteNode,
    /// Containers of earlier heartbeats that the list does not reflect.
    given: u32,
    /// Containers of this heartbeat.
    used: u32,
}

/// Candidates by place, as indexes in ascending order. An ask finds its candidates without visiting
/// all others: an attempt may have many asks that no candidate satisfies.
#[derive(Default)]
struct Partition<'a> {
    all: Vec<usize>,
    by_host: BTreeMap<&'a str, Vec<usize>>,
    by_rack: BTreeMap<&'a str, Vec<usize>>,
    /// Number of candidates that still take containers of asks that do not name their host.
    open: usize,
}

/// Partitions by name. The default one has the empty text as its name and is usually the only one.
/// It is kept apart from the map because comparing two empty texts is slow: they have no address in
/// memory, and over such addresses the C library's comparison for AVX-512 takes a quarter of a
/// microsecond, a hundred times as long as over a name.
#[derive(Default)]
struct Partitions<'a> {
    default: Partition<'a>,
    named: BTreeMap<&'a str, Partition<'a>>,
}

impl<'a> Partitions<'a> {
    fn get(&self, name: &str) -> Option<&Partition<'a>> {
        if name.is_empty() {
            return Some(&self.default);
        }
        self.named.get(name)
    }

    fn get_or_add(&mut self, name: &'a str) -> &mut Partition<'a> {
        if name.is_empty() {
            return &mut self.default;
        }
        self.named.entry(name).or_default()
    }
}

/// Returns the candidates at places of an ask, in no particular order. Walks over the shorter of
/// the two lists.
fn at_places<'b>(
    index: &'b BTreeMap<&str, Vec<usize>>,
    places: &'b Places,
) -> impl Iterator<Item = usize> + 'b {
    let is_longer = places.len() > index.len();
    let named = places.iter().filter(move |_| !is_longer);
    let named = named.filter(|(_, line)| line.count > 0);
    let named = named.filter_map(|(name, _)| index.get(name.as_str()));
    let present = index.iter().filter(move |_| is_longer);
    let present = present.filter(|(name, _)| places.get(name).is_some_and(|line| line.count > 0));
    let present = present.map(|(_, candidates)| candidates);
    named.chain(present).flatten().copied()
}

/// Most containers for one node in one heartbeat of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shares {
    /// Bound for asks that name the node's host.
    pub(super) local: u32,
    /// Bound for asks that name only its rack, or no place.
    pub(super) elsewhere: u32,
}

/// Choice of nodes during one heartbeat.
pub(super) struct Turn<'a> {
    candidates: Vec<Candidate<'a>>,
    partitions: Partitions<'a>,
    shares: Shares,
    given: &'a mut BTreeMap<NodeId, u32>,
}

impl<'a> Turn<'a> {
    /// Chooses and counts the node for the next container of an ask; `None` if the ask gets none in
    /// this heartbeat. If the hosts that the ask names have reached their share, the ask waits
    /// instead of using another node.
    pub(super) fn take(&mut self, ask: &Ask) -> Option<(&'a RemoteNode, Locality)> {
        let (at, locality) = self.choose(ask)?;
        let candidate = &mut self.candidates[at];
        candidate.used += 1;
        let node = candidate.node;
        let given = candidate.given.saturating_add(candidate.used);
        if candidate.used == self.shares.elsewhere {
            self.partitions.get_or_add(&node.partition).open -= 1;
        }
        match self.given.get_mut(&node.node_id) {
            Some(known) => *known = given,
            None => {
                self.given.insert(node.node_id.clone(), given);
            }
        }
        Some((node, locality))
    }

    fn choose(&self, ask: &Ask) -> Option<(usize, Locality)> {
        let partition = self.partitions.get(ask.partition())?;
        let mut is_named = false;
        let local = at_places(&partition.by_host, &ask.hosts).inspect(|_| is_named = true);
        if let Some(at) = self.least_used(local, self.shares.local) {
            return Some((at, Locality::NodeLocal));
        }
        if is_named || partition.open == 0 {
            return None;
        }
        let on_rack = at_places(&partition.by_rack, &ask.racks)
            .filter(|at| ask.wants_rack(&self.candidates[*at].node.rack));
        if let Some(at) = self.least_used(on_rack, self.shares.elsewhere) {
            return Some((at, Locality::RackLocal));
        }
        if !ask.wants_any() {
            return None;
        }
        let all = || partition.all.iter().copied();
        let unused = all().find(|at| self.candidates[*at].used == 0);
        let at = unused.or_else(|| self.least_used(all(), self.shares.elsewhere))?;
        Some((at, Locality::OffSwitch))
    }

    /// Returns the first of the candidates with the fewest containers, among those below their
    /// share.
    fn least_used(&self, candidates: impl Iterator<Item = usize>, share: u32) -> Option<usize> {
        let with_use = candidates.map(|at| (self.candidates[at].used, at));
        let open = with_use.filter(|(used, _)| *used < share);
        open.min().map(|(_, at)| at)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use records::{Priority, Resource, ResourceName, ResourceRequest};

    use super::*;
    use crate::allocator::asks::{AskRules, OutstandingAsks};

    const HOSTS: [&str; 4] = ["a", "b", "c", "nowhere"];
    const RACKS: [&str; 3] = ["/1", "/2", "/nowhere"];
    const PARTITIONS: [&str; 3] = ["", "gpu", "empty"];

    /// Chooses by visiting every node.
    fn chosen_by_looking(turn: &Turn<'_>, ask: &Ask) -> Option<(usize, Locality)> {
        let mut best = None;
        for (at, candidate) in turn.candidates.iter().enumerate() {
            let node = candidate.node;
            let wants_host = ask.hosts.has(&node.node_id.host);
            let (locality, share) = if node.partition != ask.partition() {
                continue;
            } else if wants_host {
                (Locality::NodeLocal, turn.shares.local)
            } else if ask.wants_rack(&node.rack) {
                (Locality::RackLocal, turn.shares.elsewhere)
            } else if ask.wants_any() {
                (Locality::OffSwitch, turn.shares.elsewhere)
            } else {
                continue;
            };
            let share_is_used = candidate.used >= share;
            let rank = (locality, share_is_used, candidate.used, at);
            let waits = locality == Locality::NodeLocal;
            if waits || !share_is_used {
                best = Some(best.map_or(rank, |other| rank.min(other)));
            }
        }
        let (locality, share_is_used, _, at) = best?;
        (!share_is_used).then_some((at, locality))
    }

    fn any_node() -> impl Strategy<Value = RemoteNode> {
        let host = prop::sample::select(&HOSTS[..3]);
        let rack = prop::sample::select(&RACKS[..2]);
        let partition = prop::sample::select(&PARTITIONS[..2]);
        (host, 1..4_u16, rack, partition).prop_map(|(host, port, rack, partition)| RemoteNode {
            node_id: NodeId {
                host: host.to_owned(),
                port,
            },
            http_address: String::new(),
            rack: rack.to_owned(),
            partition: partition.to_owned(),
        })
    }

    fn any_line() -> impl Strategy<Value = ResourceRequest> {
        let names = [&HOSTS[..], &RACKS, &["*"; 4]].concat();
        let label = prop::sample::select(&PARTITIONS[..]);
        (
            prop::sample::select(names),
            0..4_u32,
            1..4_i32,
            any::<bool>(),
            label,
        )
            .prop_map(
                |(name, count, priority, relax_locality, label)| ResourceRequest {
                    priority: Priority(priority),
                    resource_name: ResourceName::from(name.to_owned()),
                    capability: Resource::new(1, 1),
                    num_containers: count,
                    relax_locality,
                    allocation_request_id: -1,
                    execution_type_request: Default::default(),
                    node_label_expression: Some(label.to_owned()),
                },
            )
    }

    proptest! {
        #[test]
        fn choices_are_those_of_a_look_at_every_node(
            offered in prop::collection::vec(any_node(), 0..12),
            lines in prop::collection::vec(any_line(), 0..12),
            local in 1..4_u32,
            elsewhere in 1..3_u32,
        ) {
            let now = MonoMillis(0);
            let mut nodes = RemoteNodes::default();
            nodes.replace(offered, now);
            let shares = Shares { local, elsewhere };
            let blacklist = BTreeSet::from(["b".to_owned()]);
            let mut turn = nodes.turn(&blacklist, shares, now);
            let mut asks = OutstandingAsks::new(AskRules::Strict);
            asks.update(&lines, now).unwrap();
            let mut differences = Vec::new();
            asks.in_turns(|_, ask| {
                let expected = chosen_by_looking(&turn, ask);
                let expected = expected.map(|(at, locality)| (turn.candidates[at].node, locality));
                let chosen = turn.take(ask);
                if chosen != expected {
                    differences.push((chosen, expected));
                }
                if let Some((node, locality)) = chosen {
                    ask.answer(&node.node_id.host, &node.rack, locality);
                }
                std::ops::ControlFlow::Continue(chosen.is_some())
            });
            prop_assert_eq!(differences, Vec::new());
        }
    }
}
