//! Nodes of the ResourceManager's lists, and the containers that this attempt has placed on them.
//!
//! The list tells which nodes are the least loaded, not by how much. It lags by a heartbeat of the
//! attempt, a heartbeat of the nodes and the time between two sorts. Containers placed within that
//! time are therefore remembered and count against a node: an attempt with frequent heartbeats does
//! not send everything to the node at the head of the list.

mod list;
mod node;
mod preference;
mod refusal_limit;
mod resting;
mod turn;

use std::collections::{BTreeMap, BTreeSet};

use records::{MonoMillis, NodeId};

use crate::random::SplitMix64;

pub use self::list::{KnownNode, NodeList, REMOTE_NODES_MAX};
pub use self::node::{Placement, RemoteNode};
pub use self::preference::HostPreferences;
use self::refusal_limit::RefusalLimit;
use self::resting::Resting;
use self::turn::Candidate;
pub(super) use self::turn::{Shares, Taken, Turn};

/// Milliseconds until the list reflects a placed container: a heartbeat of the node and a sort at
/// the ResourceManager, a second each by default.
const SHOWS_AFTER_MS: u64 = 2_000;

/// Milliseconds for which a node of an earlier list stays a candidate. A list has a few of the
/// cluster's nodes, others with each sort, so the lists of half a minute know many more.
const REMEMBERED_MS: u64 = 30_000;

/// Most nodes of earlier lists that are remembered, together with those of a shorter list. The
/// nodes seen longest ago are forgotten first. A longer list has enough without them.
const REMEMBERED_MAX: usize = 2_000;

/// Most containers whose end is awaited. Further ones are not counted against their node.
const LIVE_MAX: usize = 20_000;

/// Node of an earlier list that is not on the last one.
#[derive(Clone, Debug)]
struct Remembered {
    node: KnownNode,
    /// Position in the last list that had the node.
    rank: usize,
    /// Time at which that list came.
    seen: MonoMillis,
}

/// Container that has not ended.
#[derive(Clone, Debug)]
struct Live {
    node: NodeId,
    placed: MonoMillis,
}

/// Nodes to place on, and the containers placed on them.
#[derive(Clone, Debug)]
pub(super) struct RemoteNodes {
    placement: Placement,
    /// The last list.
    list: NodeList,
    /// Nodes of the last list that were reported since as taking no containers.
    gone: BTreeSet<NodeId>,
    /// Nodes of earlier lists, those seen longest ago first. Unused under
    /// [`Placement::ListOrder`].
    earlier: Vec<Remembered>,
    /// Whether the last list had no node: none has a free place then, not even an earlier one.
    is_list_empty: bool,
    received: Option<MonoMillis>,
    /// Containers that the list does not reflect yet, by node. Covers nodes offered within
    /// [`SHOWS_AFTER_MS`]. Used under [`Placement::ListOrder`].
    given: BTreeMap<NodeId, u32>,
    given_since: MonoMillis,
    /// Containers that have not ended, by number, and their count by node. Unused under
    /// [`Placement::ListOrder`].
    live: BTreeMap<i64, Live>,
    live_count: BTreeMap<NodeId, u32>,
    refusal_limit: RefusalLimit,
    /// Mean run time of the containers that have ended, in milliseconds; `None` before the first.
    /// The last end has a weight of an eighth.
    run_time_ms: Option<u64>,
    resting: Resting,
    random: SplitMix64,
}

impl RemoteNodes {
    /// Creates the nodes of an attempt without a list. Random choices follow from `seed`.
    pub(super) fn new(placement: Placement, seed: u64) -> Self {
        Self {
            placement,
            list: NodeList::default(),
            gone: BTreeSet::new(),
            earlier: Vec::new(),
            is_list_empty: true,
            received: None,
            given: BTreeMap::new(),
            given_since: MonoMillis(0),
            live: BTreeMap::new(),
            live_count: BTreeMap::new(),
            refusal_limit: RefusalLimit::new(),
            run_time_ms: None,
            resting: Resting::default(),
            random: SplitMix64::new(seed),
        }
    }

    /// Changes the choice of nodes. That of Hadoop knows the last list alone.
    pub(super) fn set_placement(&mut self, placement: Placement) {
        self.placement = placement;
        if placement == Placement::ListOrder {
            self.earlier.clear();
        }
    }

    /// Forgets the nodes, but not the containers on them. A new ResourceManager knows only nodes
    /// that have registered with it, and ignores containers elsewhere.
    pub(super) fn forget(&mut self) {
        self.list = NodeList::default();
        self.earlier.clear();
    }

    /// Replaces the list, even by an empty one. Costs nothing for the same list again: each call of
    /// an AM brings one, but the ResourceManager sorts only once a second.
    pub(super) fn replace(&mut self, list: NodeList, now: MonoMillis) {
        self.is_list_empty = list.nodes().is_empty();
        let gone = std::mem::take(&mut self.gone);
        if !list.is_same(&self.list) {
            let last = std::mem::replace(&mut self.list, list);
            self.remember(&last, &gone);
        }
        // In the order of their times.
        let is_old = |known: &Remembered| now.since(known.seen) > REMEMBERED_MS;
        let old = self.earlier.partition_point(is_old);
        self.earlier.drain(..old);
        self.resting.forget_old(now);
        self.received = Some(now);
    }

    /// Remembers the nodes of the last list that the present one lacks, unless they have gone.
    fn remember(&mut self, last: &NodeList, gone: &BTreeSet<NodeId>) {
        let Some(seen) = self
            .received
            .filter(|_| self.placement != Placement::ListOrder)
        else {
            return;
        };
        let list = &self.list;
        let is_listed = |node: &KnownNode| list.rank(&node.node().node_id).is_some();
        self.earlier.retain(|known| !is_listed(&known.node));
        let missing = last.nodes().iter().enumerate();
        let missing = missing.filter(|(_, node)| !is_listed(node));
        let missing = missing.filter(|(_, known)| !gone.contains(&known.node().node_id));
        self.earlier.extend(missing.map(|(rank, node)| Remembered {
            node: node.clone(),
            rank,
            seen,
        }));
        let room = REMEMBERED_MAX.saturating_sub(list.nodes().len());
        self.earlier
            .drain(..self.earlier.len().saturating_sub(room));
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

    /// Removes nodes that take no containers any more from the candidates.
    pub(super) fn remove(&mut self, gone: &BTreeSet<NodeId>) {
        if gone.is_empty() {
            return;
        }
        let listed = gone.iter().filter(|node| self.list.rank(node).is_some());
        self.gone.extend(listed.cloned());
        self.earlier
            .retain(|known| !gone.contains(&known.node.node().node_id));
    }

    /// Returns the most containers that this heartbeat may place after the refusals so far.
    pub(super) fn next_limit(&mut self) -> u32 {
        match self.placement {
            Placement::ListOrder => u32::MAX,
            Placement::Spread | Placement::Look => self.refusal_limit.next_heartbeat(),
        }
    }

    /// Counts the containers of one heartbeat against their nodes until their ends.
    pub(super) fn placed<'a>(
        &mut self,
        containers: impl ExactSizeIterator<Item = (i64, &'a NodeId)>,
        now: MonoMillis,
    ) {
        let count = u32::try_from(containers.len()).unwrap_or(u32::MAX);
        self.refusal_limit.set_placed(count);
        match self.placement {
            Placement::ListOrder => {}
            Placement::Spread | Placement::Look => {
                for (container, node) in containers.take(LIVE_MAX - self.live.len()) {
                    let node = node.clone();
                    *self.live_count.entry(node.clone()).or_default() += 1;
                    self.live.insert(container, Live { node, placed: now });
                }
            }
        }
    }

    /// Learns the run time of a container that ends now, queueing included.
    pub(super) fn learn_run_time(&mut self, container: i64, now: MonoMillis) {
        if let Some(Live { placed, .. }) = self.live.get(&container) {
            let ran_ms = now.since(*placed);
            let mean = self
                .run_time_ms
                .map_or(ran_ms, |mean| mean - mean / 8 + ran_ms / 8);
            self.run_time_ms = Some(mean);
        }
    }

    /// Returns the mean run time of the containers that have ended; `None` before the first.
    pub(super) const fn run_time_ms(&self) -> Option<u64> {
        self.run_time_ms
    }

    /// Removes a container that has ended from the count of its node. `refused_at` is set if the
    /// node turned it away or removed it from its queue.
    pub(super) fn ended(&mut self, container: i64, refused_at: Option<MonoMillis>) {
        let Some(Live { node, placed }) = self.live.remove(&container) else {
            return;
        };
        if let Some(count) = self.live_count.get_mut(&node) {
            *count -= 1;
            if *count == 0 {
                self.live_count.remove(&node);
            }
        }
        let Some(now) = refused_at else {
            self.resting.ran(&node);
            return;
        };
        self.refusal_limit.count_refusal(placed, now);
        self.resting.refused(node, self.placement, now);
    }

    /// Returns whether a node refused a container so short a time ago that it gets none.
    pub(super) fn is_resting(&self, node: &NodeId, now: MonoMillis) -> bool {
        self.resting.is_resting(node, now)
    }

    /// Returns the containers that have not ended, with their nodes and the times at which they
    /// were placed. Not known under [`Placement::ListOrder`].
    pub(super) fn live(&self) -> impl Iterator<Item = (&NodeId, MonoMillis)> {
        let live = self.live.values();
        live.map(|container| (&container.node, container.placed))
    }

    /// Returns whether any node may be resting.
    pub(super) fn has_resting(&self) -> bool {
        self.resting.has_any()
    }

    /// Returns the number of the attempt's containers on a node that have not ended. Not counted
    /// under [`Placement::ListOrder`].
    pub(super) fn live_on(&self, node: &NodeId) -> u32 {
        self.live_count.get(node).copied().unwrap_or(0)
    }

    /// Returns the position of a node on the last list; behind all others if it is not there.
    pub(super) fn rank(&self, node: &NodeId) -> usize {
        self.list.rank(node).unwrap_or(usize::MAX)
    }

    /// Starts one heartbeat of the attempt: returns the candidates, without excluded hosts.
    /// `names_places`: whether there are asks that name or prefer places; under
    /// [`Placement::Look`] others need no candidates.
    pub(super) fn turn(
        &mut self,
        blacklist: &BTreeSet<String>,
        shares: Shares,
        names_places: bool,
        now: MonoMillis,
    ) -> Turn<'_> {
        if now.since(self.given_since) >= SHOWS_AFTER_MS {
            self.given.clear();
            self.given_since = now;
        }
        let is_used = match self.placement {
            Placement::ListOrder | Placement::Spread => !self.is_list_empty,
            Placement::Look => !self.is_list_empty && names_places,
        };
        let candidates = if is_used {
            let counts = match self.placement {
                Placement::ListOrder => &self.given,
                Placement::Spread | Placement::Look => &self.live_count,
            };
            let mut candidates = listed(&self.list, counts, &self.gone, &self.resting, now);
            let earlier = self.earlier.iter().rev();
            candidates.extend(
                earlier
                    .filter(|known| now.since(known.seen) <= REMEMBERED_MS)
                    .map(|known| (known.rank, known.node.node()))
                    .filter(|(_, node)| !self.resting.is_resting(&node.node_id, now))
                    .map(|(rank, node)| Candidate {
                        node,
                        rank,
                        given: counts.get(&node.node_id).copied().unwrap_or(0),
                        used: 0,
                    }),
            );
            if !blacklist.is_empty() {
                candidates.retain(|candidate| !blacklist.contains(&candidate.node.node_id.host));
            }
            candidates
        } else {
            Vec::new()
        };
        Turn::new(
            self.placement,
            candidates,
            shares,
            &mut self.given,
            &mut self.random,
        )
    }
}

/// Returns the candidates of a list. Costs a few instructions for each node, and a look at the list
/// for each entry of the other tables: those of an attempt are shorter.
fn listed<'a>(
    list: &'a NodeList,
    counts: &BTreeMap<NodeId, u32>,
    gone: &BTreeSet<NodeId>,
    resting: &Resting,
    now: MonoMillis,
) -> Vec<Candidate<'a>> {
    let mut candidates: Vec<Candidate<'a>> = (0..)
        .zip(list.nodes())
        .map(|(rank, known)| Candidate {
            node: known.node(),
            rank,
            given: 0,
            used: 0,
        })
        .collect();
    for (node, count) in counts {
        if let Some(rank) = list.rank(node) {
            candidates[rank].given = *count;
        }
    }
    let out: BTreeSet<usize> = gone
        .iter()
        .chain(resting.at(now))
        .filter_map(|node| list.rank(node))
        .collect();
    if !out.is_empty() {
        candidates.retain(|candidate| !out.contains(&candidate.rank));
    }
    candidates
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Number of nodes on a list.
    const LISTED: usize = 200;

    fn list(from: usize) -> Vec<RemoteNode> {
        let nodes = (from..from + LISTED).map(|number| RemoteNode {
            node_id: test_support::ids::node(&number.to_string()),
            http_address: String::new(),
            rack: String::new(),
            partition: String::new(),
        });
        nodes.collect()
    }

    #[test]
    fn containers_whose_end_is_awaited_take_bounded_memory_and_go_with_their_end() {
        let mut nodes = RemoteNodes::new(Placement::Spread, 0);
        let node = list(0).remove(0).node_id;
        let ids: Vec<i64> = (0..).take(LIVE_MAX + 10).collect();
        for part in ids.chunks(LIVE_MAX / 2) {
            nodes.placed(part.iter().map(|id| (*id, &node)), MonoMillis(0));
        }
        assert_eq!(nodes.live.len(), LIVE_MAX);
        for id in ids {
            nodes.ended(id, None);
        }
        assert!(nodes.live.is_empty() && nodes.live_count.is_empty());
    }

    #[test]
    fn the_same_list_again_remembers_nothing_and_brings_back_who_has_gone() {
        let mut nodes = RemoteNodes::new(Placement::Spread, 0);
        let (first, second) = (NodeList::from(list(0)), NodeList::from(list(1)));
        nodes.replace(first.clone(), MonoMillis(0));
        nodes.remove(&BTreeSet::from([first.nodes()[5].node().node_id.clone()]));
        let candidates = |nodes: &mut RemoteNodes| {
            let shares = Shares {
                local: 1,
                elsewhere: 1,
            };
            let none = BTreeSet::new();
            nodes.turn(&none, shares, true, MonoMillis(2)).len()
        };
        assert_eq!(candidates(&mut nodes), LISTED - 1);
        nodes.replace(first.clone(), MonoMillis(1));
        assert_eq!((candidates(&mut nodes), nodes.earlier.len()), (LISTED, 0));
        // The first node is on no list any more. One that has gone is not remembered.
        nodes.replace(second.clone(), MonoMillis(2));
        assert_eq!(candidates(&mut nodes), LISTED + 1);
        nodes.remove(&BTreeSet::from([second.nodes()[0].node().node_id.clone()]));
        nodes.replace(list(2).into(), MonoMillis(2));
        assert_eq!(candidates(&mut nodes), LISTED + 1);
    }

    #[test]
    fn earlier_nodes_take_bounded_memory_and_go_with_their_time() {
        let mut nodes = RemoteNodes::new(Placement::Spread, 0);
        let mut now = MonoMillis(0);
        for number in 0..=REMEMBERED_MAX.div_ceil(LISTED) {
            now = now + 1;
            nodes.replace(list(number * LISTED).into(), now);
            let first = number * LISTED;
            let node = list(first)[0].node_id.clone();
            nodes.resting.refused(node, Placement::Spread, now);
        }
        assert_eq!(
            nodes.list.nodes().len() + nodes.earlier.len(),
            REMEMBERED_MAX
        );
        nodes.replace(NodeList::default(), now + REMEMBERED_MS + 1);
        assert!(nodes.list.nodes().is_empty() && nodes.earlier.is_empty());
        assert!(!nodes.resting.has_any());
    }
}
