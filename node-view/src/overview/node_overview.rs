//! Overview of the node for people who watch it, bounded whatever the node holds: lists are cut,
//! with the number of what they leave out.

use std::sync::Arc;

use records::MonoMillis;
use sched::{ContainerState, ContainerSummary};

use super::history::History;
use super::recent::RecentDecision;
use crate::snapshot::{About, NodeNumbers, RmContact};

/// Containers named in each list: about a screen. A queue may hold ten thousand, and each event of
/// the live page carries the list; the head is what matters, and all are on `/node/allContainers`.
pub const LISTED_MAX: usize = 25;

/// State of the node that a glance should show: equal as long as nothing has changed, however much
/// time has passed.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeOverview {
    /// Facts about the node.
    pub about: Arc<About>,
    /// Contact to the RM, and since when.
    pub rm: (RmContact, MonoMillis),
    /// Numbers of the node.
    pub numbers: NodeNumbers,
    /// Containers that hold resources, in the order of their ids.
    pub running: Listing<ListedContainer>,
    /// Containers that wait, in the order in which they would start.
    pub waiting: Listing<ListedContainer>,
    /// Counts over the last minutes.
    pub history: History,
    /// Recent decisions, newest first.
    pub decisions: Vec<RecentDecision>,
}

/// The first few of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listing<T> {
    /// At most [`LISTED_MAX`], in the list's order.
    pub first: Vec<T>,
    /// How many the list has in all.
    pub total: usize,
}

impl<T> Listing<T> {
    /// Cuts a list of `total`.
    #[must_use]
    pub fn cut(all: impl Iterator<Item = T>, total: usize) -> Self {
        Self {
            first: all.take(LISTED_MAX).collect(),
            total,
        }
    }

    /// How many are not named.
    #[must_use]
    pub fn more(&self) -> usize {
        self.total.saturating_sub(self.first.len())
    }
}

/// A container in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedContainer {
    /// User who submitted the application. Chosen by a peer.
    pub user: String,
    /// Id, size, type and state of the container.
    pub summary: ContainerSummary,
}

impl ListedContainer {
    /// Returns whether the container has a frozen process.
    #[must_use]
    pub const fn is_paused(&self) -> bool {
        matches!(self.summary.state, ContainerState::Paused { .. })
    }

    /// Returns what the container does, in a word for people and JSON.
    #[must_use]
    pub const fn progress(&self) -> &'static str {
        match self.summary.state {
            ContainerState::Localizing => "localizing",
            ContainerState::Queued { .. } => "queued",
            ContainerState::Launching { .. } => "starting",
            ContainerState::Running { .. } => "running",
            ContainerState::Pausing => "pausing",
            ContainerState::Paused { .. } => "paused",
            ContainerState::Resuming { .. } => "resuming",
            ContainerState::Relaunching { .. } => "relaunching",
            ContainerState::Restarting => "restarting",
            ContainerState::Killing { .. }
            | ContainerState::Gone { .. }
            | ContainerState::Completing(_) => "ending",
            ContainerState::Done(_) => "done",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_list_is_cut_and_says_how_much_is_missing() {
        let list = Listing::cut(0..10_000, 10_000);
        assert_eq!(list.first.len(), LISTED_MAX);
        assert_eq!(list.first[0], 0);
        assert_eq!(list.more(), 10_000 - LISTED_MAX);
        assert_eq!(Listing::cut(0..3, 3).more(), 0);
    }
}
