//! Nodes in an order that their entries define, four bytes each (documents: `AvailableNodes`).
//!
//! The list keeps node numbers only. Callers pass the comparison with each call, because the keys,
//! a last use and a host name, are in the nodes already. A node's keys may change only while the
//! node is off the list; [`NodeMap`](crate::NodeMap) sees to that.

use std::cmp::Ordering;

use crate::node_index::NodeIndex;

/// Most nodes in a chunk. An insertion moves at most 2 KiB, and 100,000 nodes are some 300 chunks.
const CHUNK_MAX: usize = 512;

/// Ordered list, cut into chunks of at most [`CHUNK_MAX`] nodes. No chunk is empty.
#[derive(Clone, Debug, Default)]
pub(crate) struct ReadyList {
    chunks: Vec<Vec<NodeIndex>>,
}

impl ReadyList {
    /// Creates the list of nodes that are in order already.
    pub(crate) fn from_sorted(nodes: &[NodeIndex]) -> Self {
        Self {
            chunks: nodes.chunks(CHUNK_MAX).map(<[_]>::to_vec).collect(),
        }
    }

    /// Returns the first node of the order.
    pub(crate) fn first(&self) -> Option<NodeIndex> {
        self.chunks.first()?.first().copied()
    }

    /// Returns the number of nodes, by a walk over the chunks.
    pub(crate) fn len(&self) -> usize {
        self.chunks.iter().map(Vec::len).sum()
    }

    /// Returns all nodes in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = NodeIndex> + '_ {
        self.chunks.iter().flatten().copied()
    }

    /// Adds a node that is not on the list.
    pub(crate) fn insert(
        &mut self,
        node: NodeIndex,
        order: impl Fn(NodeIndex, NodeIndex) -> Ordering,
    ) {
        let at = self.chunk_of(node, &order);
        let Some(chunk) = self.chunks.get_mut(at) else {
            self.chunks.push(vec![node]);
            return;
        };
        let place = chunk.partition_point(|&other| order(other, node) == Ordering::Less);
        chunk.insert(place, node);
        if chunk.len() > CHUNK_MAX {
            // A list that grows at its end keeps full chunks; elsewhere both halves need space.
            let split = if place + 1 == chunk.len() {
                CHUNK_MAX
            } else {
                CHUNK_MAX / 2
            };
            let rest = chunk.split_off(split);
            chunk.shrink_to_fit();
            self.chunks.insert(at + 1, rest);
        }
    }

    /// Removes a node. Returns whether it was on the list.
    pub(crate) fn remove(
        &mut self,
        node: NodeIndex,
        order: impl Fn(NodeIndex, NodeIndex) -> Ordering,
    ) -> bool {
        let at = self.chunk_of(node, &order);
        let Some(chunk) = self.chunks.get_mut(at) else {
            return false;
        };
        let Ok(place) = chunk.binary_search_by(|&other| order(other, node)) else {
            return false;
        };
        chunk.remove(place);
        self.merge(at);
        true
    }

    /// Returns the number of the last chunk that begins at or before the node.
    fn chunk_of(
        &self,
        node: NodeIndex,
        order: &impl Fn(NodeIndex, NodeIndex) -> Ordering,
    ) -> usize {
        let after = self.chunks.partition_point(|chunk| {
            chunk
                .first()
                .is_some_and(|&first| order(first, node) != Ordering::Greater)
        });
        after.saturating_sub(1)
    }

    /// Joins a chunk with the next one once both are small, so that removals leave no crumbs.
    fn merge(&mut self, at: usize) {
        if self.chunks[at].is_empty() {
            self.chunks.remove(at);
        } else if self
            .chunks
            .get(at + 1)
            .is_some_and(|next| next.len() + self.chunks[at].len() <= CHUNK_MAX / 2)
        {
            let next = self.chunks.remove(at + 1);
            self.chunks[at].extend(next);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn nodes(numbers: impl IntoIterator<Item = u32>) -> Vec<NodeIndex> {
        numbers.into_iter().map(NodeIndex).collect()
    }

    #[test]
    fn an_empty_list_has_no_first_and_removes_nothing() {
        let mut list = ReadyList::default();
        assert_eq!(list.first(), None);
        assert!(!list.remove(NodeIndex(1), |a, b| a.cmp(&b)));
    }

    #[test]
    fn a_list_that_grows_at_its_end_keeps_full_chunks() {
        let mut list = ReadyList::default();
        for number in 0..5_000 {
            list.insert(NodeIndex(number), |a, b| a.cmp(&b));
        }
        assert_eq!(list.chunks.len(), 5_000_usize.div_ceil(CHUNK_MAX));
    }

    #[test]
    fn removals_leave_no_small_chunks() {
        let mut list = ReadyList::default();
        for number in 0..5_000 {
            list.insert(NodeIndex(number), |a, b| a.cmp(&b));
        }
        for number in (0..5_000).filter(|number| number % 100 != 0) {
            assert!(list.remove(NodeIndex(number), |a, b| a.cmp(&b)));
        }
        assert_eq!(list.iter().count(), 50);
        assert!(list.chunks.len() <= 10, "{} chunks", list.chunks.len());
    }

    proptest! {
        #[test]
        fn the_list_is_a_sorted_vector(ops in prop::collection::vec((any::<bool>(), 0_u32..1_500), 0..3_000)) {
            // Descending order, as the order of nodes is unlike that of their numbers.
            let order = |a: NodeIndex, b: NodeIndex| b.cmp(&a);
            let mut list = ReadyList::default();
            let mut toy = std::collections::BTreeSet::new();
            for (insert, number) in ops {
                if insert && toy.insert(number) {
                    list.insert(NodeIndex(number), order);
                } else if !insert {
                    prop_assert_eq!(list.remove(NodeIndex(number), order), toy.remove(&number));
                }
                prop_assert_eq!(list.first(), toy.last().copied().map(NodeIndex));
            }
            prop_assert_eq!(list.iter().collect::<Vec<_>>(), nodes(toy.into_iter().rev()));
            prop_assert!(list.chunks.iter().all(|c| !c.is_empty() && c.len() <= CHUNK_MAX));
        }
    }
}
