//! Numbers that stand for nodes.

/// Number of a node within its [`NodeMap`](crate::node_map::NodeMap). Nodes are never removed, so
/// numbers stay valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct NodeIndex(pub(crate) u32);
