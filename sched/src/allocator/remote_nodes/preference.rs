//! Hosts that asks prefer beyond the places that they name, and the rule for giving one up.
//!
//! A preferred host is worth a wait, but not any wait. A list of nodes has no waiting times, so the
//! wait is estimated: each container that this attempt has on the host beyond those on the least
//! used candidate delays the new one by the mean run time of the attempt's containers. If that is
//! longer than the bound, the ask prefers other nodes. While no container has ended, run times are
//! unknown and one such container is too many. Nodes that refused a container, or that the
//! ResourceManager no longer lists, are no candidates at all, whoever prefers them.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use records::Priority;

/// Attributes of the asks that share a preference: priority and allocation request id.
pub(super) type PreferenceKey = (Priority, i64);

/// Preferred hosts of an attempt's asks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostPreferences {
    by_ask: BTreeMap<PreferenceKey, Vec<Arc<str>>>,
    wait_max_ms: u64,
}

impl HostPreferences {
    /// Creates preferences without hosts. A preferred host is given up for an estimated wait of
    /// more than `wait_max_ms`.
    #[must_use]
    pub const fn new(wait_max_ms: u64) -> Self {
        Self {
            by_ask: BTreeMap::new(),
            wait_max_ms,
        }
    }

    /// Sets the hosts for the asks of a priority and allocation request id, the most preferred
    /// first.
    pub fn set(&mut self, priority: Priority, allocation_request_id: i64, hosts: Vec<Arc<str>>) {
        self.by_ask.insert((priority, allocation_request_id), hosts);
    }

    /// Returns whether no ask prefers a host.
    pub(in crate::allocator) fn is_empty(&self) -> bool {
        self.by_ask.is_empty()
    }

    pub(super) fn hosts(&self, key: PreferenceKey) -> Option<&[Arc<str>]> {
        self.by_ask.get(&key).map(Vec::as_slice)
    }

    /// Returns whether this number of containers more than elsewhere is worth the wait.
    pub(super) fn accepts(&self, more_containers: u32, run_time_ms: Option<u64>) -> bool {
        let wait_ms = match (more_containers, run_time_ms) {
            (0, _) => 0,
            (_, None) => u64::MAX,
            (more, Some(run_time_ms)) => run_time_ms.saturating_mul(u64::from(more)),
        };
        wait_ms <= self.wait_max_ms
    }
}

/// Preferences during one heartbeat: the candidates on preferred hosts that may still be taken.
pub(super) struct Preferred<'a> {
    pub(super) preferences: &'a HostPreferences,
    /// Mean run time of the attempt's containers; `None` while none has ended.
    pub(super) run_time_ms: Option<u64>,
    /// Candidates by ask, found with the first container of the ask. A candidate that cannot take a
    /// container now cannot take one later in the heartbeat and is removed.
    pub(super) candidates: BTreeMap<PreferenceKey, VecDeque<usize>>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_preferred_host_is_given_up_for_a_longer_wait_than_the_bound() {
        let preferences = HostPreferences::new(30_000);
        assert!(preferences.accepts(0, None));
        assert!(!preferences.accepts(1, None));
        assert!(preferences.accepts(3, Some(10_000)));
        assert!(!preferences.accepts(4, Some(10_000)));
        assert!(!preferences.accepts(u32::MAX, Some(u64::MAX)));
    }
}
