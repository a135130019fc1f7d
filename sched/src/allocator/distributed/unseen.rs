//! Containers for nodes of which no look has shown the load: by the attempt's own containers there.

use std::collections::{BTreeMap, VecDeque};

use super::DistributedOpportunisticContainerAllocator;
use crate::allocator::remote_nodes::{KnownNode, RemoteNodes};
use crate::look::LookPlaced;

/// Containers that a heartbeat places on nodes of which no look has shown the load.
pub(super) type Used = BTreeMap<KnownNode, u32>;

/// Returns whether a node of which no look has shown the load may get one more container of an
/// attempt: fewer than `share` in this heartbeat, and fewer than `max` in all.
fn has_share(nodes: &RemoteNodes, node: &KnownNode, (share, max): (u32, u32), used: &Used) -> bool {
    let new = used_on(used, node);
    let live = nodes.live_on(&node.node().node_id);
    new < share && live.saturating_add(new) < max
}

/// Gives a node one more container if it [may get it](has_share); returns whether it did.
pub(super) fn take_share(
    nodes: &RemoteNodes,
    node: &KnownNode,
    bounds: (u32, u32),
    used: &mut Used,
) -> bool {
    let takes = has_share(nodes, node, bounds, used);
    if takes {
        *used.entry(node.clone()).or_default() += 1;
    }
    takes
}

fn used_on(used: &Used, node: &KnownNode) -> u32 {
    used.get(node).copied().unwrap_or(0)
}

impl DistributedOpportunisticContainerAllocator {
    /// Chooses nodes for containers of whose drawn nodes none was seen, as long as there are nodes
    /// with a share left. One of unknown load gets no more of this attempt's than its places and
    /// its queue may take.
    pub(super) fn by_own_counts(
        &self,
        placed: &LookPlaced<KnownNode>,
        limit: u32,
        used: &mut Used,
    ) -> VecDeque<KnownNode> {
        let LookPlaced {
            unseen: pairs,
            unknown,
            ..
        } = placed;
        let share = self.config.elsewhere_max.get();
        let is_open = |node: &KnownNode, used: &Used| {
            let places = unknown.get(node);
            let max = places.map_or(u32::MAX, |places| places.saturating_add(limit));
            has_share(&self.nodes, node, (share, max), used)
        };
        let mut others = pairs.iter().flatten();
        let mut chosen = VecDeque::with_capacity(pairs.len());
        for pair in pairs {
            let open = pair.iter().filter(|node| is_open(node, used));
            let standing = |node: &&KnownNode| {
                let id = &node.node().node_id;
                let given = self.nodes.live_on(id).saturating_add(used_on(used, node));
                (given, self.nodes.rank(id))
            };
            let node = open.min_by_key(standing);
            let node = node.or_else(|| others.find(|node| is_open(node, used)));
            if let Some(node) = node {
                *used.entry(node.clone()).or_default() += 1;
                chosen.push_back(node.clone());
            }
        }
        chosen
    }
}
