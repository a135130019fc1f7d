//! Opportunistic containers that wait for a promotion, by node.
//!
//! A promotion takes capacity of the container's own node, so it can be granted only after a change
//! there. A pass therefore visits the changed nodes and no others: tens of thousands of waiting
//! promotions cost nothing while their nodes stay full.

use std::collections::{BTreeMap, BTreeSet};

use records::{ContainerId, NodeId};

/// Waiting promotions. Each container is in it at most once.
#[derive(Debug, Default)]
pub(super) struct Promotions {
    /// Containers of each node, first come first. No list is empty.
    waiting: BTreeMap<NodeId, Vec<ContainerId>>,
    /// Nodes among them with a change since the last pass.
    changed: BTreeSet<NodeId>,
}

impl Promotions {
    /// Adds a container behind those of its node.
    pub(super) fn add(&mut self, node: &NodeId, container: ContainerId) {
        self.waiting
            .entry(node.clone())
            .or_default()
            .push(container);
        self.changed.insert(node.clone());
    }

    /// Notes that capacity of a node may have become free, or that one of its containers ended.
    pub(super) fn note_change(&mut self, node: &NodeId) {
        if self.waiting.contains_key(node) {
            self.changed.insert(node.clone());
        }
    }

    /// Takes the containers of the changed nodes, for a pass, which adds those that must wait on
    /// with [`put_back`](Self::put_back).
    pub(super) fn take_changed(&mut self) -> Vec<(NodeId, Vec<ContainerId>)> {
        std::mem::take(&mut self.changed)
            .into_iter()
            .filter_map(|node| self.waiting.remove_entry(&node))
            .collect()
    }

    /// Restores the containers of a node that still wait, in their order, until its next change.
    pub(super) fn put_back(&mut self, node: NodeId, containers: Vec<ContainerId>) {
        if !containers.is_empty() {
            self.waiting.insert(node, containers);
        }
    }

    /// Returns the number of waiting containers, for tests.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.waiting.values().map(Vec::len).sum()
    }
}

#[cfg(test)]
mod tests {
    use test_support::ids::container;

    use super::*;
    use crate::core::tests::node;

    #[test]
    fn a_pass_visits_the_changed_nodes_only() {
        let mut promotions = Promotions::default();
        for (port, number) in [(1, 1), (2, 2), (1, 3)] {
            promotions.add(&node(port), container(number));
        }
        let first = promotions.take_changed();
        let expected = [
            (node(1), vec![container(1), container(3)]),
            (node(2), vec![container(2)]),
        ];
        assert_eq!(first, expected);
        for (node, left) in first {
            promotions.put_back(node, left);
        }
        assert_eq!(promotions.take_changed(), []);
        promotions.note_change(&node(2));
        promotions.note_change(&node(3));
        assert_eq!(promotions.take_changed(), expected[1..]);
        assert_eq!(promotions.len(), 2);
    }
}
