//! Nodes that get nothing for a while, because they have refused containers of the attempt.

use std::collections::BTreeMap;

use records::{MonoMillis, NodeId};

use super::Placement;

/// Milliseconds without a container for a node that refused one. Until then queued containers have
/// started there, or the ResourceManager no longer lists the node.
pub(super) const REST_MS: u64 = 5_000;

/// Longest time without a container for a node that refuses all it gets.
const REST_MAX_MS: u64 = 300_000;

/// Most nodes whose refusals are counted. Others rest for the shortest time.
const COUNTED_MAX: usize = 2_000;

/// Rests of nodes.
#[derive(Clone, Debug, Default)]
pub(super) struct Resting {
    /// Ends of rests, by node.
    until: BTreeMap<NodeId, MonoMillis>,
    /// Rests of a node since a container of the attempt has ended there in another way.
    times: BTreeMap<NodeId, u32>,
}

impl Resting {
    /// Notes that a node has refused a container, or removed it from its queue.
    ///
    /// Under [`Placement::Look`] a node that does nothing else rests twice as long each time: the
    /// room that it tells is not for opportunistic containers. A Java node does not say that it
    /// takes none. Under the other placements the ResourceManager's list says which nodes take
    /// some.
    pub(super) fn refused(&mut self, node: NodeId, placement: Placement, now: MonoMillis) {
        let mut rest_ms = REST_MS;
        if placement == Placement::Look {
            // What is refused meanwhile was placed before.
            if self.is_resting(&node, now) {
                return;
            }
            let times = self.times.get(&node).copied().unwrap_or(0);
            if times > 0 || self.times.len() < COUNTED_MAX {
                self.times.insert(node.clone(), times.saturating_add(1));
            }
            rest_ms = (REST_MS << times.min(16)).min(REST_MAX_MS);
        }
        self.until.insert(node, now + rest_ms);
    }

    /// Notes that a container has ended on a node, which has not refused it.
    pub(super) fn ran(&mut self, node: &NodeId) {
        self.times.remove(node);
    }

    /// Forgets rests that are over.
    pub(super) fn forget_old(&mut self, now: MonoMillis) {
        if !self.until.is_empty() {
            self.until.retain(|_, until| *until > now);
        }
    }

    /// Returns whether any node may be resting.
    pub(super) fn has_any(&self) -> bool {
        !self.until.is_empty()
    }

    /// Returns whether a node gets nothing now.
    pub(super) fn is_resting(&self, node: &NodeId, now: MonoMillis) -> bool {
        self.until.get(node).is_some_and(|until| *until > now)
    }

    /// Returns the nodes that get nothing now.
    pub(super) fn at(&self, now: MonoMillis) -> impl Iterator<Item = &NodeId> {
        let resting = self.until.iter().filter(move |(_, until)| **until > now);
        resting.map(|(node, _)| node)
    }
}

#[cfg(test)]
mod tests {
    use test_support::ids::node;

    use super::*;

    /// Has a node refuse containers; returns the seconds for which it rests after it.
    fn rest_s(resting: &mut Resting, placement: Placement, now: &mut MonoMillis) -> u64 {
        let (id, begin) = (node("a"), *now);
        for _ in 0..3 {
            resting.refused(id.clone(), placement, *now);
        }
        while resting.is_resting(&id, *now) {
            *now = *now + 1_000;
        }
        resting.forget_old(*now);
        now.since(begin) / 1_000
    }

    #[test]
    fn a_node_that_refuses_all_it_gets_rests_longer_and_longer() {
        let mut resting = Resting::default();
        let mut now = MonoMillis(0);
        let rests = [(); 8].map(|()| rest_s(&mut resting, Placement::Look, &mut now));
        assert_eq!(rests, [5, 10, 20, 40, 80, 160, 300, 300]);
        resting.ran(&node("a"));
        let rests = [(); 2].map(|()| rest_s(&mut resting, Placement::Look, &mut now));
        assert_eq!(rests, [5, 10]);
        let mut resting = Resting::default();
        let rests = [(); 3].map(|()| rest_s(&mut resting, Placement::Spread, &mut now));
        assert_eq!(rests, [5; 3]);
    }

    #[test]
    fn rests_take_bounded_memory() {
        let mut resting = Resting::default();
        for number in 0..COUNTED_MAX + 10 {
            let id = node(&number.to_string());
            resting.refused(id, Placement::Look, MonoMillis(0));
        }
        assert_eq!(resting.times.len(), COUNTED_MAX);
        assert_eq!(resting.at(MonoMillis(0)).count(), COUNTED_MAX + 10);
        resting.forget_old(MonoMillis(REST_MS));
        assert!(!resting.has_any());
    }
}
