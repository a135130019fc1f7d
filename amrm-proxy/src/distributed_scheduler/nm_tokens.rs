//! Which nodes an AM has NMTokens for. The ResourceManager gives none for containers that this node gave out, so this node does:
//! one for each node, and again when the key has rolled. Pure.

use std::collections::{BTreeMap, BTreeSet};

use prost::Message as _;
use records::NodeId;
use wire::proto::hadoop_yarn::{NmTokenIdentifierProto, NmTokenProto};
use wire::raw_message::RawMessage;

use super::containers;
use crate::fields::allocate_response;
use crate::interceptor::Context;

/// Nodes whose NMTokens an attempt is known to have. Beyond, tokens are sent again, which does no harm.
const KNOWN_MAX: usize = 20_000;

/// The node that a token of the ResourceManager is for, and the key it was signed with.
fn read(token: NmTokenProto) -> Option<(NodeId, i32)> {
    let identifier = NmTokenIdentifierProto::decode(&*token.token?.identifier).ok()?;
    Some((NodeId::try_from(&token.node_id?).ok()?, identifier.key_id?))
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct NmTokens {
    /// The id of the key that the newest token for a node was signed with, here or by the ResourceManager: both use the same
    /// keys.
    known: BTreeMap<NodeId, i32>,
}

impl NmTokens {
    /// The AM has registered anew and may have lost what it had.
    pub(super) fn forget(&mut self) {
        self.known.clear();
    }

    /// Remembers which nodes the ResourceManager gives the AM tokens for.
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

    /// One token, encoded, for each of these nodes that the AM has none for, or one of a key that is no more.
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
