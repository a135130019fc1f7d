//! Which nodes an AM has NMTokens for. The ResourceManager gives none for containers that this node gave out, so this node does:
//! one for each node, and again when the key has rolled. Pure.

use std::collections::{BTreeMap, BTreeSet};

use prost::Message as _;
use records::NodeId;
use wire::proto::hadoop_yarn::NmTokenProto;
use wire::raw_message::RawMessage;

use super::containers;
use crate::fields::allocate_response;
use crate::interceptor::Context;

/// Nodes whose NMTokens an attempt is known to have. Beyond, tokens are sent again, which does no harm.
const KNOWN_MAX: usize = 20_000;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct NmTokens {
    /// The key's id if the token was made here, `None` if it is the ResourceManager's.
    known: BTreeMap<NodeId, Option<i32>>,
}

impl NmTokens {
    /// The AM has registered anew and may have lost what it had.
    pub(super) fn forget(&mut self) {
        self.known.clear();
    }

    /// Remembers which nodes the ResourceManager gives the AM tokens for.
    pub(super) fn note(&mut self, message: &RawMessage) {
        for token in message.all(allocate_response::NM_TOKENS) {
            let token = NmTokenProto::decode(token).ok();
            let node = token.and_then(|token| token.node_id);
            if let Some(node) = node.and_then(|node| NodeId::try_from(&node).ok()) {
                self.remember(node, None);
            }
        }
    }

    fn remember(&mut self, node: NodeId, key_id: Option<i32>) {
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
            let known = self.known.get(node);
            if known.is_some_and(|own| own.is_none_or(|own| own == key_id)) {
                continue;
            }
            let token = containers::encode_nm_token(context.attempt, node, context.user, keys);
            made.push(token);
            self.remember((*node).clone(), Some(key_id));
        }
        made
    }
}
