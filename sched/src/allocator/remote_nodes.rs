//! The nodes that the ResourceManager offered last, and what this attempt has given them since.
//!
//! The list says which nodes are the least loaded, not by how much, and it is old by a heartbeat of the attempt, one of
//! the nodes and the time between two sorts. So what was given out within that time is remembered and counts against a
//! node: an attempt that speaks often does not send all it wants to the node that leads the list.

use std::collections::{BTreeMap, BTreeSet};

use records::{MonoMillis, NodeId};

use super::Locality;
use super::ask::Ask;

/// Most nodes of a list that are looked at. Hadoop offers ten by default; a node takes one container per heartbeat of an
/// attempt unless its host is asked for, so more would only serve attempts that want more at once.
pub const REMOTE_NODES_MAX: usize = 200;

/// Milliseconds after which the list shows what was given out: a heartbeat of the node and a sort at the ResourceManager,
/// a second each by default.
const SHOWS_AFTER_MS: u64 = 2_000;

/// A node as the ResourceManager offers it (Hadoop: `RemoteNode`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoteNode {
    /// Its id.
    pub node_id: NodeId,
    /// Where its pages are, as `host:port`.
    pub http_address: String,
    /// Its rack, a path.
    pub rack: String,
    /// Its partition (node label); the default one is the empty text.
    pub partition: String,
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub(super) struct RemoteNodes {
    /// The least loaded first, each once.
    nodes: Vec<RemoteNode>,
    received: Option<MonoMillis>,
    /// Containers that the list does not show yet. Of nodes that were offered within the time that this takes.
    given: BTreeMap<NodeId, u32>,
    given_since: MonoMillis,
}

impl RemoteNodes {
    /// A new list takes the place of the last, an empty one too.
    pub(super) fn replace(&mut self, nodes: Vec<RemoteNode>, now: MonoMillis) {
        let mut seen = BTreeSet::new();
        self.nodes = nodes
            .into_iter()
            .filter(|node| seen.insert(node.node_id.clone()))
            .take(REMOTE_NODES_MAX)
            .collect();
        self.received = Some(now);
    }

    /// When the list came.
    pub(super) const fn received(&self) -> Option<MonoMillis> {
        self.received
    }

    /// Whether there is a list and it is not older than this.
    pub(super) fn is_fresh(&self, now: MonoMillis, age_max_ms: u64) -> bool {
        self.received
            .is_some_and(|received| now.since(received) <= age_max_ms)
    }

    /// The nodes for one heartbeat of the attempt, without hosts that it does not want.
    pub(super) fn turn(&mut self, blacklist: &BTreeSet<String>, now: MonoMillis) -> Turn<'_> {
        if now.since(self.given_since) >= SHOWS_AFTER_MS {
            self.given.clear();
            self.given_since = now;
        }
        let given = |node: &RemoteNode| self.given.get(&node.node_id).copied().unwrap_or(0);
        let mut candidates: Vec<Candidate<'_>> = self
            .nodes
            .iter()
            .filter(|node| !blacklist.contains(&node.node_id.host))
            .map(|node| Candidate { node, used: 0 })
            .collect();
        // Stable: among nodes that were given as much, the list's order counts.
        candidates.sort_by_key(|candidate| given(candidate.node));
        Turn {
            candidates,
            given: &mut self.given,
        }
    }
}

struct Candidate<'a> {
    node: &'a RemoteNode,
    /// Containers it got in this turn.
    used: u32,
}

/// How many containers one node gets in one heartbeat of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shares {
    /// Where its host is asked for.
    pub(super) local: u32,
    /// Where its rack is, or nothing.
    pub(super) elsewhere: u32,
}

/// One heartbeat's choices.
pub(super) struct Turn<'a> {
    candidates: Vec<Candidate<'a>>,
    given: &'a mut BTreeMap<NodeId, u32>,
}

impl<'a> Turn<'a> {
    /// The node for the next container of an ask, which is counted; `None` if it gets none in this turn. Where a host
    /// that the ask names has had its share, the ask waits for it rather than go elsewhere.
    pub(super) fn take(&mut self, ask: &Ask, shares: Shares) -> Option<(&'a RemoteNode, Locality)> {
        let partition = ask.partition();
        let mut best: Option<(usize, Locality)> = None;
        let mut waits = false;
        for (at, candidate) in self.candidates.iter().enumerate() {
            let node = candidate.node;
            if node.partition != partition {
                continue;
            }
            let locality = if ask.names_hosts() && ask.wants_host(&node.node_id.host) {
                Locality::NodeLocal
            } else if ask.wants_rack(&node.rack) {
                Locality::RackLocal
            } else if ask.wants_any() {
                Locality::OffSwitch
            } else {
                continue;
            };
            let share = match locality {
                Locality::NodeLocal => shares.local,
                Locality::RackLocal | Locality::OffSwitch => shares.elsewhere,
            };
            if candidate.used >= share {
                waits |= locality == Locality::NodeLocal;
                continue;
            }
            let is_better = best.is_none_or(|(other, nearest)| {
                (locality, candidate.used) < (nearest, self.candidates[other].used)
            });
            if is_better {
                best = Some((at, locality));
            }
        }
        let (at, locality) =
            best.filter(|(_, locality)| !waits || *locality == Locality::NodeLocal)?;
        let candidate = &mut self.candidates[at];
        candidate.used += 1;
        let node = candidate.node;
        let given = self.given.entry(node.node_id.clone()).or_default();
        *given = given.saturating_add(1);
        Some((node, locality))
    }
}
