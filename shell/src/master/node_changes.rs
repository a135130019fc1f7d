//! Changes of containers that their nodes do not have yet. Pure.
//!
//! Until a node has the token of a change, the ResourceManager counts a container that does not
//! exist like this. So a change waits until its node has it or its container has ended: one call of
//! a node at a time, with everything that waits for the node, and pauses between failures.

use std::collections::BTreeMap;

use records::{ContainerId, MonoMillis, NodeId};
use wire::proto::hadoop_common::TokenProto;

/// Pause after the first failed call of a node, in milliseconds. Doubles with each failure.
const FIRST_PAUSE_MS: u64 = 500;

/// Longest pause, in milliseconds.
const PAUSE_MAX_MS: u64 = 30_000;

/// Most changes in one call of a node.
const BATCH_MAX: usize = 100;

/// A container and the token of its change.
pub(super) type Change = (ContainerId, TokenProto);

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Queue {
    waiting: BTreeMap<ContainerId, TokenProto>,
    is_unanswered: bool,
    next: MonoMillis,
    failures: u32,
}

/// Changes that wait, by node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct NodeChanges {
    nodes: BTreeMap<NodeId, Queue>,
}

impl NodeChanges {
    /// Adds a change, which replaces an older one of its container.
    pub(super) fn add(&mut self, node: &NodeId, (id, token): Change) {
        let queue = self.nodes.entry(node.clone()).or_default();
        queue.waiting.insert(id, token);
    }

    /// Removes the change of a container that has ended.
    pub(super) fn remove(&mut self, node: &NodeId, id: ContainerId) {
        if let Some(queue) = self.nodes.get_mut(node) {
            queue.waiting.remove(&id);
            if queue.waiting.is_empty() && !queue.is_unanswered {
                self.nodes.remove(node);
            }
        }
    }

    /// Returns the calls that are due.
    pub(super) fn due(&mut self, now: MonoMillis) -> Vec<(NodeId, Vec<Change>)> {
        let nodes = self.nodes.iter_mut();
        let due = nodes.filter(|(_, queue)| !queue.is_unanswered && queue.next <= now);
        let calls = due.map(|(node, queue)| {
            queue.is_unanswered = true;
            let changes = queue.waiting.iter().take(BATCH_MAX);
            let changes = changes.map(|(id, token)| (*id, token.clone()));
            (node.clone(), changes.collect())
        });
        calls.collect()
    }

    /// Records the answer to a call: the changes that need not be sent again, and whether others of
    /// the call must.
    pub(super) fn answered(
        &mut self,
        node: &NodeId,
        settled: &[Change],
        has_failed: bool,
        now: MonoMillis,
    ) {
        let Some(queue) = self.nodes.get_mut(node) else {
            return;
        };
        queue.is_unanswered = false;
        for (id, token) in settled {
            // Another change may have come during the call.
            if queue.waiting.get(id) == Some(token) {
                queue.waiting.remove(id);
            }
        }
        if has_failed {
            let doubled = FIRST_PAUSE_MS << queue.failures.min(16);
            queue.next = now + doubled.min(PAUSE_MAX_MS);
            queue.failures += 1;
        } else {
            queue.next = now;
            queue.failures = 0;
        }
        if queue.waiting.is_empty() {
            self.nodes.remove(node);
        }
    }

    /// Returns the time of the next call.
    pub(super) fn next_wake(&self) -> Option<MonoMillis> {
        let queues = self.nodes.values();
        queues
            .filter(|queue| !queue.is_unanswered)
            .map(|queue| queue.next)
            .min()
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::master::testing::{container, node};

    fn change(id: i64, version: u8) -> Change {
        let identifier = Bytes::copy_from_slice(&[version]);
        let token = TokenProto {
            identifier,
            ..TokenProto::default()
        };
        (container(id), token)
    }

    #[test]
    fn a_change_is_sent_until_the_node_has_it_with_growing_pauses() {
        let (mut changes, node) = (NodeChanges::default(), node(1));
        changes.add(&node, change(2, 1));
        let mut now = MonoMillis(0);
        let mut pauses = Vec::new();
        for _ in 0..50 {
            assert_eq!(changes.due(now), [(node.clone(), vec![change(2, 1)])]);
            assert_eq!(changes.next_wake(), None, "one call at a time");
            changes.answered(&node, &[], true, now);
            let next = changes.next_wake().unwrap();
            pauses.push(next.since(now));
            now = next;
        }
        assert_eq!(pauses[..4], [500, 1_000, 2_000, 4_000]);
        assert_eq!(pauses[49], PAUSE_MAX_MS);
        let calls = changes.due(now);
        changes.answered(&node, &calls[0].1, false, now);
        assert_eq!(changes, NodeChanges::default());
    }

    #[test]
    fn any_number_of_changes_waits_and_no_other_node_waits_for_them() {
        let (mut changes, now) = (NodeChanges::default(), MonoMillis(0));
        for id in 0..1_000 {
            changes.add(&node(1), change(id, 1));
        }
        changes.add(&node(2), change(1_000, 1));
        let first = changes.due(now);
        assert_eq!(first[1], (node(2), vec![change(1_000, 1)]));
        let mut sent = 0;
        let mut calls = first;
        while let Some((node, call)) = calls.pop() {
            assert!(call.len() <= BATCH_MAX);
            sent += call.len();
            changes.answered(&node, &call, false, now);
            calls.extend(changes.due(now));
        }
        assert_eq!(sent, 1_001);
    }

    #[test]
    fn a_change_that_comes_during_a_call_is_sent_too_and_an_ended_container_has_none() {
        let (mut changes, now) = (NodeChanges::default(), MonoMillis(0));
        changes.add(&node(1), change(2, 1));
        let calls = changes.due(now);
        changes.add(&node(1), change(2, 2));
        changes.answered(&node(1), &calls[0].1, false, now);
        assert_eq!(changes.due(now), [(node(1), vec![change(2, 2)])]);
        changes.remove(&node(1), container(2));
        changes.answered(&node(1), &[], true, now);
        assert_eq!(changes, NodeChanges::default());
    }
}
