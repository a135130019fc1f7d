//! The node as the live page shows it: the overview of its core, and the AMs that call through it.

use std::sync::Arc;

use amrm_proxy::attempts::ProxiedAttempts;
use node_view::overview::NodeOverview;
use node_view::usage::Uses;
use records::{MonoMillis, Now};

/// Attempts named in the list of those that pass the AMRMProxy: more than a node has, most of the
/// time. Each is a line of some 400 bytes in each event.
pub const MASTERS_LISTED_MAX: usize = 100;

/// The overview of the node with the AMs that call through it, and their time.
#[derive(Clone, Debug, PartialEq)]
pub struct Overview {
    /// Time at which the node looked so.
    pub now: Now,
    /// State of the node.
    pub node: NodeOverview,
    /// Use of containers as measured last.
    pub uses: Arc<Uses>,
    /// Applications whose AMs call the RM through this node, at most [`MASTERS_LISTED_MAX`]
    /// of them; `None` without an AMRMProxy.
    pub masters: Option<ProxiedAttempts>,
}

impl Overview {
    /// Returns the milliseconds from the start of the agent until the overview was made.
    #[must_use]
    pub fn uptime_ms(&self) -> u64 {
        self.ms_since(self.node.about.started_mono)
    }

    /// Returns the milliseconds from `at` until the overview was made.
    #[must_use]
    pub fn ms_since(&self, at: MonoMillis) -> u64 {
        self.now.mono.since(at)
    }

    /// Returns the longest wait of the containers that are listed; `None` when nothing waits.
    #[must_use]
    pub fn longest_wait_ms(&self) -> Option<u64> {
        let waiting = self.node.waiting.first.iter();
        waiting.map(|each| self.ms_since(each.summary.since)).max()
    }

    /// Returns whether a page made from another overview looks different, apart from durations,
    /// which a page counts on by itself.
    #[must_use]
    pub fn differs_from(&self, other: &Self) -> bool {
        self.node != other.node || self.masters != other.masters || self.uses != other.uses
    }
}

#[cfg(test)]
pub(crate) mod fixture;
