//! A node of a list, and the rules by which one is chosen.

use records::NodeId;

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

/// Choice of the node for a container whose ask does not name the node's host
/// (`yarn.nodemanager.agent.amrmproxy.placement`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// The better of two random nodes (Mitzenmacher, "How Useful Is Old Information?", IEEE TPDS
    /// 2000) among those of the lists of the last `REMEMBERED_MS`: the one with fewer containers
    /// of this attempt, then the one higher on the list. A node that refused a container is left
    /// alone for five seconds, and refusals lower what the attempt places at once (`RefusalLimit`).
    Spread,
    /// Hadoop's choice: the nodes of the last list in its order. All attempts of the cluster place
    /// on the same few nodes.
    ListOrder,
    /// Nodes of the whole cluster that were looked at just before
    /// ([`LookPlacer`](crate::LookPlacer)). Racks that the ask names come first, as under `Spread`.
    Look,
}
