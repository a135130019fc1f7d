//! One host of the cluster with its state, label and entries (Slider: `NodeInstance`).

use std::sync::Arc;

use crate::node_entry::NodeEntry;
use crate::role::RoleId;

/// State of a node as the ResourceManager reports it (Hadoop: `NodeState`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NodeState {
    /// Registered, first heartbeat not seen.
    New,
    /// Healthy. Assumed of a node until it is reported otherwise.
    #[default]
    Running,
    /// Failed its health check.
    Unhealthy,
    /// Finishing its containers; gets no new ones.
    Decommissioning,
    /// Excluded by an operator.
    Decommissioned,
    /// Silent for longer than its lease.
    Lost,
    /// Restarted and registered again.
    Rebooted,
    /// Stopped in an orderly way.
    Shutdown,
}

impl NodeState {
    /// Returns whether new containers may be asked for on the node.
    ///
    /// Slider's `NodeInstance.isOnline` also accepts SHUTDOWN, which it predates, and
    /// DECOMMISSIONING, where an ask would never be satisfied.
    #[must_use]
    pub const fn accepts_work(self) -> bool {
        match self {
            Self::New | Self::Running | Self::Rebooted => true,
            Self::Unhealthy
            | Self::Decommissioning
            | Self::Decommissioned
            | Self::Lost
            | Self::Shutdown => false,
        }
    }
}

/// Host of the cluster. Two NodeManagers on one host are one instance.
///
/// Holds only what decides a placement. Rack, web address and health text are for display and stay
/// with the caller.
#[derive(Clone, Debug)]
pub struct NodeInstance {
    host: Arc<str>,
    pub(crate) state: NodeState,
    /// Label of the last report; `None` before the first one, the empty text for no label.
    pub(crate) label: Option<Arc<str>>,
    entries: Vec<NodeEntry>,
}

impl NodeInstance {
    pub(crate) const fn new(host: Arc<str>) -> Self {
        Self {
            host,
            state: NodeState::Running,
            label: None,
            entries: Vec::new(),
        }
    }

    /// Returns the host name, which identifies the node. The port of a node id is not part of it.
    #[must_use]
    pub const fn host(&self) -> &Arc<str> {
        &self.host
    }

    /// Returns the state of the last report.
    #[must_use]
    pub const fn state(&self) -> NodeState {
        self.state
    }

    /// Returns the label of the last report, or the empty text for none.
    #[must_use]
    pub fn label(&self) -> &str {
        self.label.as_deref().unwrap_or("")
    }

    /// Returns the entries of the roles that ran, or were asked for, on the node, by role.
    #[must_use]
    pub fn entries(&self) -> &[NodeEntry] {
        &self.entries
    }

    /// Returns the entry of a role, or `None` if the role never ran on the node. Creates nothing:
    /// Slider's `canHost` creates an entry per question, and each of them is saved.
    #[must_use]
    pub fn entry(&self, role: RoleId) -> Option<&NodeEntry> {
        let at = self.find(role).ok()?;
        self.entries.get(at)
    }

    pub(crate) fn entry_mut(&mut self, role: RoleId) -> Option<&mut NodeEntry> {
        let at = self.find(role).ok()?;
        self.entries.get_mut(at)
    }

    /// Adds an entry, or replaces the one of the same role. Returns whether it is new.
    pub(crate) fn insert(&mut self, entry: NodeEntry) -> bool {
        match self.find(entry.role()) {
            Ok(at) => {
                self.entries[at] = entry;
                false
            }
            Err(at) => {
                // A vector that doubles would waste a third of the memory of all entries.
                self.entries.reserve_exact(1);
                self.entries.insert(at, entry);
                true
            }
        }
    }

    fn find(&self, role: RoleId) -> Result<usize, usize> {
        self.entries.binary_search_by_key(&role, NodeEntry::role)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_about_a_role_creates_no_entry() {
        let node = NodeInstance::new("n1".into());
        assert_eq!(node.entry(RoleId::MAX), None);
        assert!(node.entries().is_empty());
    }

    #[test]
    fn entries_are_sparse_and_in_the_order_of_roles() {
        let mut node = NodeInstance::new("n1".into());
        for role in [40_000, 2, 7] {
            assert!(node.insert(NodeEntry::new(RoleId::new(role).unwrap())));
        }
        let roles: Vec<_> = node.entries().iter().map(|e| e.role().number()).collect();
        assert_eq!(roles, [2, 7, 40_000]);
    }

    #[test]
    fn a_node_is_running_and_without_label_until_it_is_reported() {
        let node = NodeInstance::new("n1".into());
        assert!(node.state().accepts_work());
        assert_eq!(node.label(), "");
    }

    #[test]
    fn unusable_states_accept_no_work() {
        for (state, accepts) in [
            (NodeState::New, true),
            (NodeState::Running, true),
            (NodeState::Rebooted, true),
            (NodeState::Unhealthy, false),
            (NodeState::Decommissioning, false),
            (NodeState::Decommissioned, false),
            (NodeState::Lost, false),
            (NodeState::Shutdown, false),
        ] {
            assert_eq!(state.accepts_work(), accepts, "{state:?}");
        }
    }
}
