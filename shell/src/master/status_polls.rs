//! Schedule of the polls of nodes for the status of containers that have not been seen running.
//! Pure.
//!
//! No message reports the start of a queued container to its AM, which has to poll. It polls often
//! for a container that was just accepted and ever less often for one that waits, so that each wait
//! is known to within a quarter of itself.

use std::collections::BTreeMap;

use records::{ContainerId, MonoMillis, NodeId};

/// Shortest interval between two polls of one node, in milliseconds; the resolution of short waits.
pub const POLL_MIN_MS: u64 = 20;

/// Longest interval, in milliseconds; the resolution of long waits.
pub const POLL_MAX_MS: u64 = 1_000;

/// Divisor of the youngest wait: the quotient is the interval.
const POLL_SHARE: u64 = 4;

/// Limit on the average number of containers in polls of one node per millisecond.
const POLLED_PER_MS: u64 = 2;

/// Limit on containers in one poll. The answer holds the diagnostics of each, of 10,000 characters
/// at most.
const POLL_BATCH_MAX: usize = 500;

/// Pause after a node could not be reached, in milliseconds. If it is lost, the ResourceManager
/// will report that.
const UNREACHED_MS: u64 = 1_000;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct NodePolls {
    /// Time since which the node has each container.
    waiting: BTreeMap<ContainerId, MonoMillis>,
    is_unanswered: bool,
    next: MonoMillis,
    /// Last container of the last poll, when there were more: the next poll continues after it.
    resume_after: Option<ContainerId>,
}

/// Containers that have not been seen running, by node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct StatusPolls {
    nodes: BTreeMap<NodeId, NodePolls>,
}

impl StatusPolls {
    /// Adds a container that a node has accepted.
    pub(super) fn add(&mut self, node: &NodeId, id: ContainerId, now: MonoMillis) {
        let soon = now + POLL_MIN_MS;
        let poll = self.nodes.entry(node.clone()).or_default();
        poll.next = if poll.waiting.is_empty() {
            soon
        } else {
            poll.next.min(soon)
        };
        poll.waiting.insert(id, now);
    }

    /// Removes a container that runs or has ended. Returns the time since which it waited; `None`
    /// if it did not.
    pub(super) fn remove(&mut self, node: &NodeId, id: ContainerId) -> Option<MonoMillis> {
        let poll = self.nodes.get_mut(node)?;
        let since = poll.waiting.remove(&id);
        if poll.waiting.is_empty() && !poll.is_unanswered {
            self.nodes.remove(node);
        }
        since
    }

    /// Records that a node has answered, or could not be reached.
    pub(super) fn answered(&mut self, node: &NodeId, is_reached: bool, now: MonoMillis) {
        let Some(poll) = self.nodes.get_mut(node) else {
            return;
        };
        poll.is_unanswered = false;
        if poll.waiting.is_empty() {
            self.nodes.remove(node);
            return;
        }
        let youngest = poll.waiting.values().max().copied().unwrap_or(now);
        let asked = u64::try_from(poll.waiting.len().min(POLL_BATCH_MAX)).unwrap_or(u64::MAX);
        let least = POLL_MIN_MS.max(asked / POLLED_PER_MS);
        let pause = (now.since(youngest) / POLL_SHARE).clamp(least, POLL_MAX_MS);
        poll.next = now + if is_reached { pause } else { UNREACHED_MS };
    }

    /// Returns the polls that are due, and marks them as unanswered.
    pub(super) fn due(&mut self, now: MonoMillis) -> Vec<(NodeId, Vec<ContainerId>)> {
        let mut due = Vec::new();
        for (node, poll) in &mut self.nodes {
            if !poll.is_unanswered && !poll.waiting.is_empty() && poll.next <= now {
                poll.is_unanswered = true;
                due.push((node.clone(), poll.batch()));
            }
        }
        due
    }

    /// Returns the time at which the next poll is due.
    pub(super) fn next_wake(&self) -> Option<MonoMillis> {
        let asking = self.nodes.values();
        let asking = asking.filter(|poll| !poll.is_unanswered && !poll.waiting.is_empty());
        asking.map(|poll| poll.next).min()
    }
}

impl NodePolls {
    /// Returns the next containers in turn.
    fn batch(&mut self) -> Vec<ContainerId> {
        let after = self.resume_after.take();
        let is_behind = |id: &&ContainerId| after.is_none_or(|after| **id > after);
        let mut batch: Vec<ContainerId> = self.waiting.keys().filter(is_behind).copied().collect();
        if batch.is_empty() {
            batch = self.waiting.keys().copied().collect();
        }
        if batch.len() > POLL_BATCH_MAX {
            batch.truncate(POLL_BATCH_MAX);
            self.resume_after = batch.last().copied();
        }
        batch
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::master::testing::{container, node};

    #[test]
    fn pauses_grow_with_the_wait_between_their_bounds() {
        let (mut polls, node) = (StatusPolls::default(), node(1));
        polls.add(&node, container(2), MonoMillis(0));
        assert_eq!(polls.next_wake(), Some(MonoMillis(POLL_MIN_MS)));
        for (at, next) in [(20, 40), (400, 500), (100_000, 101_000)] {
            assert_eq!(polls.due(MonoMillis(at)).len(), 1);
            assert_eq!(polls.next_wake(), None, "one question at a time");
            polls.answered(&node, true, MonoMillis(at));
            assert_eq!(polls.next_wake(), Some(MonoMillis(next)));
        }
    }

    #[test]
    fn a_node_that_cannot_be_reached_is_left_alone_for_a_second() {
        let (mut polls, node) = (StatusPolls::default(), node(1));
        polls.add(&node, container(2), MonoMillis(0));
        assert_eq!(polls.due(MonoMillis(20)).len(), 1);
        polls.answered(&node, false, MonoMillis(30));
        assert_eq!(polls.next_wake(), Some(MonoMillis(30 + UNREACHED_MS)));
    }

    #[test]
    fn a_container_that_runs_is_not_asked_about() {
        let (mut polls, node) = (StatusPolls::default(), node(1));
        polls.add(&node, container(2), MonoMillis(5));
        assert_eq!(polls.remove(&node, container(2)), Some(MonoMillis(5)));
        assert_eq!(polls.remove(&node, container(2)), None);
        assert_eq!(polls, StatusPolls::default());
    }

    #[test]
    fn many_containers_are_asked_about_in_turns() {
        let (mut polls, node) = (StatusPolls::default(), node(1));
        for id in 0..1_200 {
            polls.add(&node, container(id), MonoMillis(0));
        }
        let mut asked = BTreeSet::new();
        for turn in 0..3 {
            let at = MonoMillis(turn * 10_000 + 20);
            let due = polls.due(at);
            assert!(due[0].1.len() <= POLL_BATCH_MAX);
            asked.extend(due[0].1.iter().copied());
            polls.answered(&node, true, at);
        }
        assert_eq!(asked.len(), 1_200);
    }
}
