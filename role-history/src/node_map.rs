//! Every known node of the cluster, and for each role the nodes that may be asked for, most
//! recently used first (Slider: `NodeMap`, and `RoleHistory.recentNodes`).
//!
//! Two facts about a node and a role are kept apart:
//! - *listed* is a fact of the entry: the role ran there, and the node became free again
//! - *ready* is derived: listed, available, in use, with the role's label and below the threshold
//!   of failures
//!
//! Slider has one list per role and skips unreliable nodes on each walk, so a thousand lost nodes
//! at its head cost a thousand steps per ask. Here a role's list holds its ready nodes alone. A
//! node that becomes ready again returns to the place that its last use gives it. Every change of
//! an entry or a node goes through [`NodeMap::update`] or [`NodeMap::report`], which take the node
//! off the lists, change it, and put it back: nothing can drift.

use std::cmp::{Ordering, Reverse};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use records::EpochMillis;

use crate::node_entry::NodeEntry;
use crate::node_index::NodeIndex;
use crate::node_instance::{NodeInstance, NodeState};
use crate::ready_list::ReadyList;
use crate::role::{Role, RoleId};

/// Part of a role's definition that decides which nodes are ready.
#[derive(Clone, Debug)]
struct Rule {
    consults_history: bool,
    strict: bool,
    node_failure_threshold: Option<u32>,
    label: Option<Arc<str>>,
}

impl Rule {
    fn of(role: &Role) -> Self {
        Self {
            consults_history: role.placement_policy.consults_history(),
            strict: role.placement_policy.is_strict(),
            node_failure_threshold: role.node_failure_threshold,
            label: role.label.clone(),
        }
    }

    /// Returns whether the node's label is the role's. A role without label runs anywhere.
    fn accepts_label(&self, label: &str) -> bool {
        self.label.as_deref().is_none_or(|wanted| wanted == label)
    }

    /// Returns whether recent failures rule the node out for the role.
    fn is_unreliable(&self, entry: &NodeEntry) -> bool {
        self.node_failure_threshold
            .is_some_and(|threshold| u32::from(entry.failed_recently()) > threshold)
    }

    fn is_ready(&self, node: &NodeInstance, entry: &NodeEntry) -> bool {
        // Before its first report a node's label is unknown. The role ran there, so it matched.
        let label_matches = node
            .label
            .as_deref()
            .is_none_or(|label| self.accepts_label(label));
        entry.is_listed()
            && entry.is_available()
            && self.consults_history
            && label_matches
            && (self.strict || (node.state.accepts_work() && !self.is_unreliable(entry)))
    }
}

#[derive(Clone, Debug)]
struct RoleNodes {
    rule: Rule,
    ready: ReadyList,
    /// Nodes that the role ran on and that are not ready.
    others: BTreeSet<NodeIndex>,
}

/// Effect of a node report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ReportEffect {
    /// Whether the report may have made the node a better choice than before: a new node, one that
    /// came back, or a new label.
    pub(crate) significant: bool,
    /// Whether the node stopped accepting work.
    pub(crate) lost: bool,
}

/// Known nodes by host name.
#[derive(Clone, Debug, Default)]
pub struct NodeMap {
    nodes: Vec<NodeInstance>,
    by_host: BTreeMap<Arc<str>, NodeIndex>,
    /// Every label seen, so that nodes share its text.
    labels: BTreeSet<Arc<str>>,
    roles: BTreeMap<RoleId, RoleNodes>,
    recently_failed: BTreeSet<(NodeIndex, RoleId)>,
    entries: usize,
}

impl NodeMap {
    /// Adds a role that no node has run. A role of the same id is replaced.
    pub(crate) fn add_role(&mut self, role: &Role) {
        let rule = Rule::of(role);
        let nodes = RoleNodes {
            rule,
            ready: ReadyList::default(),
            others: BTreeSet::new(),
        };
        self.roles.insert(role.id, nodes);
    }

    /// Returns the node of a host, or `None` for an unknown host.
    #[must_use]
    pub fn get(&self, host: &str) -> Option<&NodeInstance> {
        self.find(host).map(|node| self.node(node))
    }

    /// Returns all nodes by host name.
    pub fn iter(&self) -> impl Iterator<Item = &NodeInstance> {
        self.by_host.values().map(|&node| self.node(node))
    }

    /// Returns the number of nodes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Returns whether no node is known.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Returns the number of entries of all nodes.
    #[must_use]
    pub const fn entries(&self) -> usize {
        self.entries
    }

    /// Returns the nodes that the role would ask for now, in this order.
    pub fn ready(&self, role: RoleId) -> impl Iterator<Item = &NodeInstance> {
        let list = self.roles.get(&role).map(|role| role.ready.iter());
        list.into_iter().flatten().map(|node| self.node(node))
    }

    /// Returns the nodes with an entry of the role: first those that it would ask for now, in this
    /// order, then the others, in no order.
    pub fn of_role(&self, role: RoleId) -> impl Iterator<Item = &NodeInstance> {
        let others = self.roles.get(&role).map(|role| role.others.iter());
        let others = others.into_iter().flatten().map(|&node| self.node(node));
        self.ready(role).chain(others)
    }

    /// Returns the number of nodes with an entry of the role.
    #[must_use]
    pub fn count_of_role(&self, role: RoleId) -> usize {
        let nodes = self.roles.get(&role);
        nodes.map_or(0, |nodes| nodes.ready.len() + nodes.others.len())
    }

    /// Returns the number of nodes that recent failures rule out, by role. Takes as long as there
    /// are nodes with recent failures.
    #[must_use]
    pub fn count_unreliable(&self) -> BTreeMap<RoleId, usize> {
        let mut counts = BTreeMap::new();
        for &(node, role) in &self.recently_failed {
            if self.is_unreliable(self.node(node), role) {
                *counts.entry(role).or_default() += 1;
            }
        }
        counts
    }

    /// Returns whether recent failures rule the node out for the role.
    #[must_use]
    pub fn is_unreliable(&self, node: &NodeInstance, role: RoleId) -> bool {
        match (self.roles.get(&role), node.entry(role)) {
            (Some(role), Some(entry)) => role.rule.is_unreliable(entry),
            (None, _) | (_, None) => false,
        }
    }

    pub(crate) fn find(&self, host: &str) -> Option<NodeIndex> {
        self.by_host.get(host).copied()
    }

    pub(crate) fn node(&self, node: NodeIndex) -> &NodeInstance {
        &self.nodes[node.0 as usize]
    }

    pub(crate) fn entry(&self, node: NodeIndex, role: RoleId) -> Option<&NodeEntry> {
        self.node(node).entry(role)
    }

    /// Returns the time at which the role last used the host; 0 for never.
    pub(crate) fn last_used(&self, host: &str, role: RoleId) -> EpochMillis {
        let node = self.find(host);
        let entry = node.and_then(|node| self.entry(node, role));
        entry.map_or(EpochMillis(0), NodeEntry::last_used)
    }

    pub(crate) fn get_or_create(&mut self, host: &str) -> NodeIndex {
        if let Some(node) = self.find(host) {
            return node;
        }
        let node = u32::try_from(self.nodes.len()).expect("fewer than 2^32 hosts fit into memory");
        let host: Arc<str> = host.into();
        self.by_host.insert(host.clone(), NodeIndex(node));
        self.nodes.push(NodeInstance::new(host));
        NodeIndex(node)
    }

    /// Returns the first ready node of the role.
    pub(crate) fn first_ready(&self, role: RoleId) -> Option<NodeIndex> {
        self.roles.get(&role)?.ready.first()
    }

    /// Returns the nodes where an anti-affine role may get its next container, by host name
    /// (Slider: `RoleHistory.findNodeForNewAAInstance`). Neither failures nor last uses count.
    pub(crate) fn anti_affine_candidates(&self, role: RoleId) -> Vec<NodeIndex> {
        let Some(RoleNodes { rule, .. }) = self.roles.get(&role) else {
            return Vec::new();
        };
        let fits = |node: &NodeInstance| {
            node.state.accepts_work()
                && rule.accepts_label(node.label())
                && node.entry(role).is_none_or(NodeEntry::is_available)
        };
        let nodes = self.by_host.values().copied();
        nodes.filter(|&node| fits(self.node(node))).collect()
    }

    /// Changes the entry of a role on a node, which is created if it does not exist.
    pub(crate) fn update(
        &mut self,
        node: NodeIndex,
        role: RoleId,
        change: impl FnOnce(&mut NodeEntry),
    ) {
        self.unindex(node, role);
        let instance = &mut self.nodes[node.0 as usize];
        if instance.entry(role).is_none() {
            instance.insert(NodeEntry::new(role));
            self.entries += 1;
        }
        if let Some(entry) = instance.entry_mut(role) {
            change(entry);
        }
        self.index(node, role);
    }

    /// Adds the entries of a loaded history to those that exist. A million single changes would
    /// take seconds, so the lists are built once, at the end.
    pub(crate) fn restore<'a>(
        &mut self,
        entries: impl IntoIterator<Item = (&'a str, RoleId, EpochMillis)>,
    ) {
        let mut last: Option<NodeIndex> = None;
        for (host, role, last_used) in entries {
            // Files are in the order of hosts, so most entries are on the node of the one before.
            let node = last
                .filter(|&node| self.node(node).host().as_ref() == host)
                .unwrap_or_else(|| self.get_or_create(host));
            last = Some(node);
            let instance = &mut self.nodes[node.0 as usize];
            match instance.entry_mut(role) {
                Some(known) => known.merge_last_use(last_used),
                None => {
                    instance.insert(NodeEntry::restored(role, last_used));
                    self.entries += 1;
                }
            }
        }
        self.index_all();
    }

    /// Builds the lists of all roles anew.
    fn index_all(&mut self) {
        let mut ready: BTreeMap<RoleId, Vec<(EpochMillis, NodeIndex)>> = BTreeMap::new();
        let nodes = &self.nodes;
        for &index in self.by_host.values() {
            let node = &nodes[index.0 as usize];
            for entry in node.entries() {
                let Some(role) = self.roles.get_mut(&entry.role()) else {
                    continue;
                };
                if role.rule.is_ready(node, entry) {
                    role.others.remove(&index);
                    let list = ready.entry(entry.role()).or_default();
                    list.push((entry.last_used(), index));
                } else {
                    role.others.insert(index);
                }
            }
        }
        for (role, nodes) in &mut self.roles {
            let mut list = ready.remove(role).unwrap_or_default();
            // The list is in the order of hosts, which a stable sort keeps among equal times.
            list.sort_by_key(|&(last_used, _)| Reverse(last_used));
            let list: Vec<_> = list.into_iter().map(|(_, node)| node).collect();
            nodes.ready = ReadyList::from_sorted(&list);
        }
    }

    /// Notes the state and label of a node (Slider: `NodeInstance.updateNode`).
    pub(crate) fn report(&mut self, host: &str, state: NodeState, label: &str) -> ReportEffect {
        let is_new = self.find(host).is_none();
        let node = self.get_or_create(host);
        let label = self.intern(label.trim());
        let before = self.node(node);
        let (was_usable, is_usable) = (before.state.accepts_work(), state.accepts_work());
        let relabelled = before.label() != label.as_ref();
        if before.state != state || before.label.as_ref() != Some(&label) {
            let roles: Vec<_> = before.entries().iter().map(NodeEntry::role).collect();
            for &role in &roles {
                self.unindex(node, role);
            }
            let instance = &mut self.nodes[node.0 as usize];
            instance.state = state;
            instance.label = Some(label);
            for role in roles {
                self.index(node, role);
            }
        }
        ReportEffect {
            significant: is_new || (is_usable && (!was_usable || relabelled)),
            lost: was_usable && !is_usable,
        }
    }

    /// Forgets the recent failures of all nodes (Slider: `NodeMap.resetFailedRecently`).
    pub(crate) fn reset_failed_recently(&mut self) {
        for (node, role) in std::mem::take(&mut self.recently_failed) {
            self.update(node, role, NodeEntry::reset_failed_recently);
        }
    }

    /// Returns the nodes where any role failed more often than it accepts.
    pub(crate) fn unreliable(&self) -> BTreeSet<NodeIndex> {
        let failed = self.recently_failed.iter();
        let unreliable = failed.filter(|&&(node, role)| self.is_unreliable(self.node(node), role));
        unreliable.map(|&(node, _)| node).collect()
    }

    fn intern(&mut self, label: &str) -> Arc<str> {
        if let Some(known) = self.labels.get(label) {
            return known.clone();
        }
        let label: Arc<str> = label.into();
        self.labels.insert(label.clone());
        label
    }

    /// Takes a node off the role's list, by the keys that it has at present.
    fn unindex(&mut self, node: NodeIndex, role: RoleId) {
        let nodes = &self.nodes;
        let Some(entry) = nodes[node.0 as usize].entry(role) else {
            return;
        };
        let Some(of_role) = self.roles.get_mut(&role) else {
            return;
        };
        if of_role.rule.is_ready(&nodes[node.0 as usize], entry) {
            let order = |a, b| preferred(nodes, role, a, b);
            of_role.ready.remove(node, order);
        } else {
            of_role.others.remove(&node);
        }
    }

    fn index(&mut self, node: NodeIndex, role: RoleId) {
        let nodes = &self.nodes;
        let Some(entry) = nodes[node.0 as usize].entry(role) else {
            return;
        };
        if entry.failed_recently() > 0 {
            self.recently_failed.insert((node, role));
        }
        let Some(of_role) = self.roles.get_mut(&role) else {
            return;
        };
        if of_role.rule.is_ready(&nodes[node.0 as usize], entry) {
            let order = |a, b| preferred(nodes, role, a, b);
            of_role.ready.insert(node, order);
        } else {
            of_role.others.insert(node);
        }
    }
}

/// Compares two nodes by the role's last use, most recent first, then by host name (Slider:
/// `NodeInstance.Preferred`; ties are arbitrary there).
fn preferred(nodes: &[NodeInstance], role: RoleId, a: NodeIndex, b: NodeIndex) -> Ordering {
    let [a, b] = [a, b].map(|node| &nodes[node.0 as usize]);
    let [used_a, used_b] = [a, b].map(|node| node.entry(role).map_or(-1, |e| e.last_used().0));
    used_b.cmp(&used_a).then_with(|| a.host().cmp(b.host()))
}

#[cfg(test)]
mod tests;
