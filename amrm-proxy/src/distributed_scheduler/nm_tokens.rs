//! NMTokens that the AM has, by node. The ResourceManager issues none for containers that this node
//! allocated, so this node does: once for each node, and again when the key has rolled. Pure.

use std::collections::{BTreeMap, BTreeSet};

use prost::Message as _;
use records::NodeId;
use wire::proto::hadoop_yarn::{NmTokenIdentifierProto, NmTokenProto};
use wire::raw_message::RawMessage;

use super::containers;
use crate::fields::allocate_response;
use crate::interceptor::Context;

/// Maximum of nodes per attempt whose NMTokens are remembered. For further nodes tokens are sent
/// repeatedly, which is harmless.
const KNOWN_MAX: usize = 20_000;

/// Reads the node of a ResourceManager's NMToken and the id of the key that signed it.
fn read(token: NmTokenProto) -> Option<(NodeId, i32)> {
    let identifier = NmTokenIdentifierProto::decode(&*token.token?.identifier).ok()?;
    Some((NodeId::try_from(&token.node_id?).ok()?, identifier.key_id?))
}

/// Table of the NMTokens that an AM has received.
#[derive(Debug, Default)]
pub(super) struct NmTokens {
    /// Id of the key that signed the newest token for each node. This node and the ResourceManager
    /// use the same keys.
    known: BTreeMap<NodeId, i32>,
}

impl NmTokens {
    /// Forgets all tokens. Called when the AM has registered anew and may have lost its tokens.
    pub(super) fn forget(&mut self) {
        self.known.clear();
    }

    /// Remembers the NMTokens in an answer of the ResourceManager.
    pub(super) fn note(&mut self, message: &RawMessage) {
        for token in message.all(allocate_response::NM_TOKENS) {
            if let Some((node, key_id)) = NmTokenProto::decode(token).ok().and_then(read) {
                self.remember(node, key_id);
            }
        }
    }

    fn remember(&mut self, node: NodeId, key_id: i32) {
        if self.known.len() < KNOWN_MAX || self.known.contains_key(&node) {
            self.known.insert(node, key_id);
        }
    }

    /// Makes one encoded NMToken for each of these nodes for which the AM has none, or one signed
    /// with an old key.
    pub(super) fn missing(
        &mut self,
        nodes: &BTreeSet<&NodeId>,
        context: &Context<'_>,
    ) -> Vec<Vec<u8>> {
        let Some(keys) = context.keys else {
            return Vec::new();
        };
        let key_id = keys.nm_token.key_id;
        let mut made = Vec::new();
        for node in nodes {
            if self.known.get(node) == Some(&key_id) {
                continue;
            }
            let token = containers::encode_nm_token(context.attempt, node, context.user, keys);
            made.push(token);
            self.remember((*node).clone(), key_id);
        }
        made
    }
}
