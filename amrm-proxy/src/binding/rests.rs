//! Nodes that get no reservations for a while.

use std::collections::BTreeMap;

use records::{MonoMillis, NodeId};

/// First rest of a node, in milliseconds.
const FIRST_MS: u64 = 30_000;

/// Longest rest. Java's nodes write a line to their log for each attempt to call them.
const LONGEST_MS: u64 = 3_600_000;

/// Most nodes that are remembered; those whose rest ends first are forgotten first.
const NODES_MAX: usize = 20_000;

#[derive(Clone, Copy, Debug)]
struct Rest {
    until: MonoMillis,
    length_ms: u64,
}

/// Nodes that take no reservations, each with its rest.
#[derive(Clone, Debug, Default)]
pub(super) struct Rests {
    nodes: BTreeMap<NodeId, Rest>,
}

impl Rests {
    /// Begins the rest of a node that has taken no reservation: twice as long as the last one.
    /// While it rests, further failures are those of messages that were on their way.
    pub(super) fn begin(&mut self, node: NodeId, now: MonoMillis) {
        let before = self.nodes.get(&node);
        if before.is_some_and(|before| now < before.until) {
            return;
        }
        let length_ms = before.map_or(FIRST_MS, |before| 2 * before.length_ms);
        let length_ms = length_ms.min(LONGEST_MS);
        let until = MonoMillis(now.0.saturating_add(length_ms));
        if self.nodes.len() >= NODES_MAX && before.is_none() {
            let first = self.nodes.iter().min_by_key(|(_, rest)| rest.until);
            let first = first.map(|(node, _)| node.clone());
            first.map(|first| self.nodes.remove(&first));
        }
        self.nodes.insert(node, Rest { until, length_ms });
    }

    /// Ends the rest of a node, which has taken a reservation.
    pub(super) fn ended(&mut self, node: &NodeId) {
        self.nodes.remove(node);
    }

    /// Returns whether a node rests.
    pub(super) fn has(&self, node: &NodeId, now: MonoMillis) -> bool {
        let rest = self.nodes.get(node);
        rest.is_some_and(|rest| now < rest.until)
    }

    /// Returns whether no node rests, or has rested and not taken a reservation since.
    pub(super) fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }
}
