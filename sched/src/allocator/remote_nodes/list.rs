//! Lists of nodes as values that attempts share.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::hash::{BuildHasherDefault, DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use records::NodeId;

use super::node::RemoteNode;

/// Most nodes of a list that are used, the first ones. Five times the largest clusters: the bound
/// is for memory. A list of so many takes about 20 MB, once for all attempts of a node.
pub const REMOTE_NODES_MAX: usize = 50_000;

/// Node of the cluster. Cheap to clone; compared by its id.
#[derive(Clone, Debug)]
pub struct KnownNode(Arc<RemoteNode>);

impl KnownNode {
    /// Returns the node with its addresses.
    #[must_use]
    pub fn node(&self) -> &RemoteNode {
        &self.0
    }

    /// Returns whether there are other clones of this value.
    #[must_use]
    pub fn is_shared(&self) -> bool {
        Arc::strong_count(&self.0) > 1
    }
}

impl From<RemoteNode> for KnownNode {
    fn from(node: RemoteNode) -> Self {
        Self(Arc::new(node))
    }
}

impl Borrow<NodeId> for KnownNode {
    fn borrow(&self) -> &NodeId {
        &self.0.node_id
    }
}

impl Hash for KnownNode {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.node_id.hash(state);
    }
}

impl Ord for KnownNode {
    fn cmp(&self, other: &Self) -> Ordering {
        if Arc::ptr_eq(&self.0, &other.0) {
            return Ordering::Equal;
        }
        self.0.node_id.cmp(&other.0.node_id)
    }
}

impl PartialOrd for KnownNode {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for KnownNode {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.0.node_id == other.0.node_id
    }
}

impl Eq for KnownNode {}

/// A list of the ResourceManager's: nodes, the least loaded first, each once, at most
/// [`REMOTE_NODES_MAX`]. Clones share everything, and are recognized as the same list without a
/// look at their nodes.
#[derive(Clone, Debug, Default)]
pub struct NodeList(Arc<Nodes>);

#[derive(Debug, Default)]
struct Nodes {
    in_order: Vec<KnownNode>,
    ranks: Ranks,
}

/// Position of each node. A long list is searched for thousands of nodes when it comes; in an
/// ordered map each search would compare ten names.
#[expect(
    clippy::disallowed_types,
    reason = "only searched, so that its order, the same in each run, decides nothing"
)]
type Ranks = std::collections::HashMap<KnownNode, usize, BuildHasherDefault<DefaultHasher>>;

impl NodeList {
    /// Returns the nodes in their order.
    #[must_use]
    pub fn nodes(&self) -> &[KnownNode] {
        &self.0.in_order
    }

    /// Returns whether the other one is a clone of this list. Equal lists may be different ones.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Returns the position of a node.
    pub(in crate::allocator) fn rank(&self, node: &NodeId) -> Option<usize> {
        self.0.ranks.get(node).copied()
    }
}

impl PartialEq for NodeList {
    fn eq(&self, other: &Self) -> bool {
        self.is_same(other) || self.nodes() == other.nodes()
    }
}

impl Eq for NodeList {}

impl FromIterator<KnownNode> for NodeList {
    fn from_iter<T: IntoIterator<Item = KnownNode>>(nodes: T) -> Self {
        let mut list = Nodes::default();
        for node in nodes {
            if list.in_order.len() == REMOTE_NODES_MAX {
                break;
            }
            let rank = list.in_order.len();
            if !list.ranks.contains_key(&node) {
                list.ranks.insert(node.clone(), rank);
                list.in_order.push(node);
            }
        }
        Self(Arc::new(list))
    }
}

impl From<Vec<RemoteNode>> for NodeList {
    fn from(nodes: Vec<RemoteNode>) -> Self {
        nodes.into_iter().map(KnownNode::from).collect()
    }
}

#[cfg(test)]
mod tests {
    use test_support::ids::node;

    use super::*;

    fn known(host: &str) -> KnownNode {
        KnownNode::from(RemoteNode {
            node_id: node(host),
            http_address: String::new(),
            rack: String::new(),
            partition: String::new(),
        })
    }

    #[test]
    fn a_list_has_each_node_once_and_a_bounded_number() {
        let nodes = ["a", "b", "a"].map(known).into_iter();
        let many = (0..REMOTE_NODES_MAX).map(|number| known(&number.to_string()));
        let list: NodeList = nodes.chain(many).collect();
        assert_eq!(list.nodes().len(), REMOTE_NODES_MAX);
        let ranks = ["a", "b", "0", "49997", "49998"].map(|host| list.rank(&node(host)));
        assert_eq!(
            ranks,
            [Some(0), Some(1), Some(2), Some(REMOTE_NODES_MAX - 1), None]
        );
    }

    #[test]
    fn clones_are_the_same_list_and_equal_ones_are_not() {
        let list: NodeList = ["a", "b"].map(known).into_iter().collect();
        assert!(list.is_same(&list.clone()));
        assert!(!list.is_same(&list.nodes().iter().cloned().collect()));
        assert!(!NodeList::default().is_same(&NodeList::default()));
    }
}
