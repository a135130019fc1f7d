//! Keys with which this node signs tokens for all nodes of the cluster.

use wire::token::MasterKey;

/// Master keys with which this node signs tokens. The ResourceManager gives them to all its nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeTokenKeys {
    /// Key that signs container tokens.
    pub container_token: MasterKey,
    /// Key that signs NMTokens.
    pub nm_token: MasterKey,
    /// Identifier of the ResourceManager that this node is registered with; equal on all its nodes.
    pub rm_identifier: i64,
}

/// Source of the keys with which this node signs tokens.
pub trait NodeKeys: Send + Sync + 'static {
    /// Returns the current keys; `None` while the node is not registered.
    fn current(&self) -> Option<NodeTokenKeys>;
}
