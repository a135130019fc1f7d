//! Nodes of the cluster that this node knows: which there are, which of them answer looks, and when
//! the ResourceManager is asked for all of them. Pure.
//!
//! Nodes come from the ResourceManager alone: from its lists, which have a few, at once, and from
//! `getClusterNodes`, which has all, at intervals. Those that it reports as lost, unhealthy or
//! leaving go. A node that does not answer a look is left out for a while, unless none answers.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use records::{MonoMillis, NodeId, Resource};
use sched::{KnownNode, KnownNodes, NodeList, RemoteNode};

use super::news::KnownView;
use crate::node_lists::is_usable;

/// Most nodes that are known. The largest clusters have some ten thousand.
pub(super) const NODES_MAX: usize = 50_000;

/// Bytes that the nodes of a cluster may cost their ResourceManager per second, all together.
const CLUSTER_BYTES_PER_SECOND: u64 = 1_000_000;

/// Calls that the nodes of a cluster may make per second, all together.
const CLUSTER_CALLS_PER_SECOND: u64 = 10;

/// Bytes of an answer for each node, until one has been measured.
const NODE_BYTES: u64 = 200;

/// Shortest time between two questions for all nodes.
const INTERVAL_MIN_MS: u64 = 10_000;

/// Longest time between two questions. A cluster of 50,000 nodes comes to 5.8 days.
pub(super) const INTERVAL_MAX_MS: u64 = 7 * 86_400_000;

/// Time without looks after a node's first failure; doubled with each further one.
const PAUSE_MIN_MS: u64 = 1_000;

/// Longest time without looks at a node.
const PAUSE_MAX_MS: u64 = 60_000;

/// Longest time without looks at a node that answers, but later than calls wait: a Java node does
/// so while its code is new to it, and on a busy machine.
const PAUSE_LATE_MAX_MS: u64 = 4_000;

/// Failures in a row of any nodes after which looks are taken to fail everywhere.
const FAILURES_MAX: u32 = 10;

/// Time without any look after that; doubled each time, up to [`BLIND_MAX_MS`].
const BLIND_MIN_MS: u64 = 5_000;

/// Longest time without any look.
const BLIND_MAX_MS: u64 = 300_000;

/// Node of the ResourceManager's answer to `getClusterNodes`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ReportedNode {
    pub(super) node: RemoteNode,
    /// Resources that the node offers; `None` if the answer has none.
    pub(super) capability: Option<Resource>,
}

/// Outcome of a look for the call that made it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Answered,
    /// The node may answer after the call has gone on.
    Late,
    Failed,
}

/// Change of what looks come to, for a log line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// No node has answered for some time.
    Blind,
    /// A node has answered again.
    Sees,
}

#[derive(Debug)]
struct Entry {
    known: KnownNode,
    capability: Option<Resource>,
    /// Time at which the node joined.
    joined: MonoMillis,
    /// Looks in a row that failed.
    failures: u32,
    /// End of the time without looks.
    pause: Option<MonoMillis>,
    /// Whether the node has answered the last look of which the end is known.
    speaks: bool,
}

impl Entry {
    /// Notes what a look has come to. Returns whether a pause has begun or ended.
    fn looked(&mut self, outcome: Outcome, now: MonoMillis) -> bool {
        let longest = match outcome {
            Outcome::Answered => {
                self.failures = 0;
                self.speaks = true;
                return self.pause.take().is_some();
            }
            Outcome::Late if self.speaks => PAUSE_LATE_MAX_MS,
            Outcome::Late => PAUSE_MAX_MS,
            Outcome::Failed => {
                self.speaks = false;
                PAUSE_MAX_MS
            }
        };
        self.failures = self.failures.saturating_add(1);
        self.pause = Some(now + doubled(PAUSE_MIN_MS, self.failures, longest));
        true
    }
}

/// Times of the questions for all nodes.
#[derive(Clone, Copy, Debug, Default)]
struct Questions {
    /// Time of the next one; `None` before the first demand.
    next: Option<MonoMillis>,
    /// Begin of the one that is not answered.
    asking: Option<MonoMillis>,
    /// Bytes for each node, measured by the last answer.
    node_bytes: Option<u64>,
    failures: u32,
    /// Whether other nodes ask at the same time, because of a new ResourceManager.
    in_step: bool,
}

/// The directory of a node, for all its attempts.
#[derive(Debug, Default)]
pub(super) struct Directory {
    nodes: BTreeMap<NodeId, Entry>,
    /// List whose nodes are all known; `None` if nodes have gone since.
    list: Option<NodeList>,
    questions: Questions,
    /// First container id of the ResourceManager's epoch; another one is another ResourceManager.
    epoch: Option<i64>,
    /// Failed looks since the last call of which a look was answered.
    failures: u32,
    /// Times that looks were given up since the last that was answered.
    times_blind: u32,
    blind_until: Option<MonoMillis>,
    view: KnownView,
    /// Whether the view lacks a change.
    is_changed: bool,
    /// Time at which the view changes without news, because pauses end.
    changes_at: Option<MonoMillis>,
}

/// Returns the time between two questions of one node, so that all nodes of the cluster together
/// stay within the bounds.
fn interval_ms(nodes: u64, node_bytes: u64) -> u64 {
    let bytes = nodes.saturating_mul(nodes).saturating_mul(node_bytes);
    let for_bytes = bytes.saturating_mul(1_000) / CLUSTER_BYTES_PER_SECOND;
    let for_calls = nodes.saturating_mul(1_000) / CLUSTER_CALLS_PER_SECOND;
    for_bytes
        .max(for_calls)
        .clamp(INTERVAL_MIN_MS, INTERVAL_MAX_MS)
}

/// Returns the end of the `times`-th pause of a kind, each twice as long as the one before.
fn doubled(first_ms: u64, times: u32, max_ms: u64) -> u64 {
    let factor = 1_u64.checked_shl(times.saturating_sub(1).min(40));
    first_ms.saturating_mul(factor.unwrap_or(1)).min(max_ms)
}

impl Directory {
    /// Adds nodes of one of the ResourceManager's lists. Attempts tell the same list one after the
    /// other.
    pub(super) fn listed(&mut self, list: &NodeList, now: MonoMillis) {
        let known = self.list.as_ref();
        if known.is_some_and(|known| known.is_same(list)) {
            return;
        }
        for known in list.nodes() {
            if !self.nodes.contains_key(&known.node().node_id) {
                self.join(known.clone(), None, now);
            }
        }
        self.list = Some(list.clone());
    }

    fn join(&mut self, known: KnownNode, capability: Option<Resource>, now: MonoMillis) {
        if self.nodes.len() >= NODES_MAX || !is_usable(known.node()) {
            return;
        }
        let id = known.node().node_id.clone();
        let entry = Entry {
            capability,
            joined: now,
            failures: 0,
            pause: None,
            speaks: false,
            known,
        };
        self.nodes.insert(id, entry);
        self.is_changed = true;
    }

    /// Removes nodes that take no containers any more.
    pub(super) fn gone(&mut self, nodes: &BTreeSet<NodeId>) {
        self.list = None;
        for node in nodes {
            self.is_changed |= self.nodes.remove(node).is_some();
        }
    }

    /// Notes the epoch of the ResourceManager; `None` if it is unknown, because the answer was
    /// lost. A new one ignores containers on nodes that have not registered with it, so that what
    /// its predecessor knew is forgotten. Returns whether that has happened.
    pub(super) fn resource_manager(&mut self, epoch: Option<i64>) -> bool {
        let is_first = self.epoch.is_none();
        if epoch.is_some() && (self.epoch == epoch || is_first) {
            self.epoch = epoch;
            return false;
        }
        self.epoch = epoch.or(self.epoch);
        self.nodes.clear();
        self.list = None;
        self.is_changed = true;
        self.questions = Questions {
            in_step: true,
            node_bytes: self.questions.node_bytes,
            ..Questions::default()
        };
        true
    }

    /// Returns the directory of an agent that has started again. `known`: epoch of the
    /// ResourceManager, and bytes of its answer for each node. `next`: time of the next question.
    pub(super) fn restored(
        nodes: Vec<ReportedNode>,
        known: (Option<i64>, Option<u64>),
        next: MonoMillis,
        now: MonoMillis,
    ) -> Self {
        let (epoch, node_bytes) = known;
        let mut directory = Self {
            epoch,
            questions: Questions {
                next: Some(next),
                node_bytes,
                ..Questions::default()
            },
            ..Self::default()
        };
        for ReportedNode { node, capability } in nodes {
            directory.join(node.into(), capability, now);
        }
        directory
    }

    /// Returns the epoch of the ResourceManager.
    pub(super) const fn epoch(&self) -> Option<i64> {
        self.epoch
    }

    /// Returns the time of the next question; `None` if none has been asked.
    pub(super) const fn next_question(&self) -> Option<MonoMillis> {
        self.questions.next
    }

    /// Returns the bytes of the last answer for each node.
    pub(super) const fn node_bytes(&self) -> Option<u64> {
        self.questions.node_bytes
    }

    /// Returns all nodes with what they offer.
    pub(super) fn reported(&self) -> impl Iterator<Item = (&RemoteNode, Option<Resource>)> {
        let entries = self.nodes.values();
        entries.map(|entry| (entry.known.node(), entry.capability))
    }

    /// Notes that an attempt asks for containers. Returns whether the ResourceManager is to be
    /// asked for all nodes now; its answer goes to [`answered`](Self::answered), and a failure to
    /// [`failed`](Self::failed). `cluster`: number of nodes, from its answers to attempts. `draw`
    /// returns a random number up to a bound.
    pub(super) fn wanted(
        &mut self,
        cluster: Option<u64>,
        now: MonoMillis,
        draw: impl FnOnce(u64) -> u64,
    ) -> bool {
        let nodes = cluster.unwrap_or(0).max(self.count());
        let node_bytes = self.questions.node_bytes.unwrap_or(NODE_BYTES);
        let Questions { next, asking, .. } = self.questions;
        if asking.is_some() {
            return false;
        }
        let due = next.unwrap_or_else(|| {
            let interval = interval_ms(nodes, node_bytes);
            // The nodes of a small cluster may ask all at once. Attempts begin at any time, but
            // after a new ResourceManager all go on together.
            match (self.questions.in_step, interval > INTERVAL_MIN_MS) {
                (_, false) => now,
                (true, true) => now + draw(interval),
                (false, true) => now + draw(INTERVAL_MIN_MS),
            }
        });
        self.questions.next = Some(due);
        if now < due {
            return false;
        }
        self.questions.asking = Some(now);
        true
    }

    fn count(&self) -> u64 {
        u64::try_from(self.nodes.len()).unwrap_or(u64::MAX)
    }

    /// Replaces the nodes by those of the ResourceManager's answer, which had this many bytes.
    /// Nodes that have joined since the question stay. Returns whether the answer is used.
    pub(super) fn answered(
        &mut self,
        nodes: Vec<ReportedNode>,
        bytes: u64,
        now: MonoMillis,
        draw: impl FnOnce(u64) -> u64,
    ) -> bool {
        // A new ResourceManager came in between.
        let Some(asked) = self.questions.asking.take() else {
            return false;
        };
        self.list = None;
        let mut before = std::mem::take(&mut self.nodes);
        for ReportedNode { node, capability } in nodes {
            match before.remove(&node.node_id) {
                Some(entry) if *entry.known.node() == node => {
                    let entry = Entry {
                        capability,
                        ..entry
                    };
                    self.nodes.insert(node.node_id, entry);
                }
                _ => self.join(node.into(), capability, now),
            }
        }
        let others = before
            .into_iter()
            .filter(|(_, entry)| entry.joined >= asked);
        for (id, entry) in others.take(NODES_MAX.saturating_sub(self.nodes.len())) {
            self.nodes.entry(id).or_insert(entry);
        }
        self.is_changed = true;
        let count = self.count();
        let node_bytes = bytes.div_ceil(count.max(1)).max(1);
        let interval = interval_ms(count, node_bytes);
        self.questions = Questions {
            next: Some(now + interval + draw(interval / 2)),
            node_bytes: Some(node_bytes),
            ..Questions::default()
        };
        true
    }

    /// Notes that the ResourceManager has not answered, or with something that cannot be used.
    /// Returns whether this is the first failure in a row, for a log line.
    pub(super) fn failed(&mut self, now: MonoMillis, draw: impl FnOnce(u64) -> u64) -> bool {
        if self.questions.asking.take().is_none() {
            return false;
        }
        self.questions.failures = self.questions.failures.saturating_add(1);
        let node_bytes = self.questions.node_bytes.unwrap_or(NODE_BYTES);
        let interval = interval_ms(self.count(), node_bytes);
        let pause = doubled(interval, self.questions.failures, INTERVAL_MAX_MS);
        self.questions.next = Some(now + pause + draw(pause / 2));
        self.questions.failures == 1
    }

    /// Notes what looks at nodes at once have come to. Returns a change to be logged.
    pub(super) fn looked<'a>(
        &mut self,
        nodes: impl IntoIterator<Item = (&'a NodeId, Outcome)>,
        now: MonoMillis,
    ) -> Option<Change> {
        let (mut answered, mut failed) = (0_u32, 0_u32);
        for (node, outcome) in nodes {
            let entry = self.nodes.get_mut(node);
            match outcome {
                Outcome::Answered => answered += 1,
                // A busy node. Where all are, their lateness costs a call no more than its wait.
                Outcome::Late if entry.as_ref().is_some_and(|entry| entry.speaks) => {}
                Outcome::Late | Outcome::Failed => failed += 1,
            }
            if let Some(entry) = entry {
                self.is_changed |= entry.looked(outcome, now);
            }
        }
        if answered > 0 {
            let was_blind = self.times_blind > 0;
            self.is_changed |= was_blind;
            self.failures = 0;
            self.times_blind = 0;
            self.blind_until = None;
            return was_blind.then_some(Change::Sees);
        }
        self.failures = self.failures.saturating_add(failed);
        let is_blind = self.blind_until.is_some_and(|until| now < until);
        if self.failures < FAILURES_MAX || is_blind {
            return None;
        }
        self.times_blind = self.times_blind.saturating_add(1);
        self.blind_until = Some(now + doubled(BLIND_MIN_MS, self.times_blind, BLIND_MAX_MS));
        self.is_changed = true;
        (self.times_blind == 1).then_some(Change::Blind)
    }

    /// Notes that a look has ended for which its call has not waited, and whether the node has
    /// answered it.
    pub(super) fn ended_late(&mut self, node: &NodeId, is_answered: bool, now: MonoMillis) {
        let Some(entry) = self.nodes.get_mut(node) else {
            return;
        };
        let spoke = std::mem::replace(&mut entry.speaks, is_answered);
        self.is_changed |= spoke != is_answered && entry.pause.is_some();
        if let Some(until) = entry.pause.filter(|_| is_answered) {
            let soon = until.min(now + PAUSE_LATE_MAX_MS);
            entry.pause = Some(soon);
            self.is_changed = true;
        }
    }

    /// Returns whether a node has answered the last look of which the end is known.
    pub(super) fn speaks(&self, node: &NodeId) -> bool {
        self.nodes.get(node).is_some_and(|entry| entry.speaks)
    }

    /// Returns what a node offers at most; `None` if that is unknown.
    pub(super) fn capability(&self, node: &NodeId) -> Option<Resource> {
        self.nodes.get(node)?.capability
    }

    /// Returns whether this is the name of another host of the cluster than that of `node`.
    pub(super) fn is_other_host(&self, name: &str, node: &NodeId) -> bool {
        let first = NodeId {
            host: name.to_owned(),
            port: 0,
        };
        let mut from = self.nodes.range(first..);
        name != node.host && from.next().is_some_and(|(known, _)| known.host == name)
    }

    /// Returns the nodes to place on. The same value as before, unless something has changed.
    pub(super) fn view(&mut self, now: MonoMillis) -> &KnownView {
        if self.is_changed || self.changes_at.is_some_and(|at| at <= now) {
            self.make_view(now);
        }
        &self.view
    }

    fn make_view(&mut self, now: MonoMillis) {
        for entry in self.nodes.values_mut() {
            entry.pause.take_if(|until| *until <= now);
        }
        self.blind_until.take_if(|until| *until <= now);
        let pauses = self.nodes.values().filter_map(|entry| entry.pause);
        self.changes_at = pauses.chain(self.blind_until).min();
        let is_anyone_awake = self.nodes.values().any(|entry| entry.pause.is_none());
        // Nodes that are late are better than none.
        let is_used = |entry: &&Entry| match is_anyone_awake {
            true => entry.pause.is_none(),
            false => entry.speaks,
        };
        let is_blind = self.blind_until.is_some();
        let answers_looks = !is_blind && self.nodes.values().any(|entry| is_used(&entry));
        let all = self.nodes.values();
        let used = all.filter(|entry| !answers_looks || is_used(entry));
        let nodes: KnownNodes = used.map(|entry| entry.known.clone()).collect();
        self.view = KnownView {
            binds_late: false,
            nodes: Arc::new(nodes),
            answers_looks,
        };
        self.is_changed = false;
    }
}

#[cfg(test)]
mod tests;
