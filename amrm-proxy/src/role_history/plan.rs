//! Nodes of one role's asks, kept up with the history one ask at a time.
//!
//! A role has up to ten thousand asks outstanding, and a call of its AM changes a few of them. So a
//! plan is never made anew: each action of the history changes its ask, and the hosts that it
//! touched are collected until the next call names nodes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use records::MonoMillis;
use role_history::RequestId;

/// Hosts of a role's asks. The oldest asks are the guaranteed ask's share; opportunistic containers
/// prefer the hosts of the others.
#[derive(Clone, Debug, Default)]
pub(super) struct RolePlan {
    /// Number of containers that the guaranteed ask wants.
    share: usize,
    /// Hosts of the guaranteed ask, at most `share`.
    named: BTreeMap<RequestId, Arc<str>>,
    /// Hosts of later asks.
    rest: BTreeMap<RequestId, Arc<str>>,
    /// Containers by host in `named`.
    counts: BTreeMap<Arc<str>, u32>,
    /// Hosts whose count may have changed.
    touched: BTreeSet<Arc<str>>,
    /// Asks without a host, with their times.
    open: BTreeMap<RequestId, MonoMillis>,
    /// Asks that accept any node by now.
    relaxed: BTreeSet<RequestId>,
}

impl RolePlan {
    /// Adds an ask for a container on a host, or anywhere.
    pub(super) fn add(&mut self, ask: RequestId, host: Option<Arc<str>>, now: MonoMillis) {
        let Some(host) = host else {
            self.open.insert(ask, now);
            return;
        };
        let is_early = match self.named.last_key_value() {
            Some((last, _)) if ask < *last => true,
            Some(_) | None => self.rest.is_empty() && self.named.len() < self.share,
        };
        if is_early {
            self.insert_named(ask, host);
            self.balance();
        } else {
            self.rest.insert(ask, host);
        }
    }

    /// Notes that an ask accepts any node.
    pub(super) fn relax(&mut self, ask: RequestId) {
        self.relaxed.insert(ask);
    }

    /// Removes an ask, which was answered or withdrawn.
    pub(super) fn remove(&mut self, ask: RequestId) {
        self.open.remove(&ask);
        self.relaxed.remove(&ask);
        if let Some(host) = self.named.remove(&ask) {
            self.uncount(host);
            self.balance();
        } else {
            self.rest.remove(&ask);
        }
    }

    /// Sets the number of containers that the guaranteed ask wants. Returns whether that changes
    /// its hosts.
    pub(super) fn set_share(&mut self, share: u32) -> bool {
        self.share = usize::try_from(share).unwrap_or(usize::MAX);
        let before = self.named.len();
        self.balance();
        self.named.len() != before
    }

    /// Makes every host one whose count may have changed: another ask names them now.
    pub(super) fn touch_all(&mut self) {
        self.touched.extend(self.counts.keys().cloned());
    }

    /// Moves asks between the two parts until the first has its share.
    fn balance(&mut self) {
        while self.named.len() > self.share
            && let Some((ask, host)) = self.named.pop_last()
        {
            self.uncount(Arc::clone(&host));
            self.rest.insert(ask, host);
        }
        while self.named.len() < self.share
            && let Some((ask, host)) = self.rest.pop_first()
        {
            self.insert_named(ask, host);
        }
    }

    fn insert_named(&mut self, ask: RequestId, host: Arc<str>) {
        *self.counts.entry(Arc::clone(&host)).or_default() += 1;
        self.touched.insert(Arc::clone(&host));
        self.named.insert(ask, host);
    }

    fn uncount(&mut self, host: Arc<str>) {
        if let Some(count) = self.counts.get_mut(&host) {
            *count -= 1;
            if *count == 0 {
                self.counts.remove(&host);
            }
        }
        self.touched.insert(host);
    }

    /// Returns the hosts whose count may have changed since the last call, with their counts.
    pub(super) fn take_touched(&mut self) -> Vec<(Arc<str>, u32)> {
        let touched = std::mem::take(&mut self.touched).into_iter();
        let count = |host: &Arc<str>| self.counts.get(host).copied().unwrap_or(0);
        touched
            .map(|host| (Arc::clone(&host), count(&host)))
            .collect()
    }

    /// Returns the hosts that are left for opportunistic containers, in the order of their asks.
    pub(super) fn rest(&self) -> impl Iterator<Item = &Arc<str>> {
        self.rest.values()
    }

    /// Returns the time of the oldest ask without a host.
    pub(super) fn first_open(&self) -> Option<MonoMillis> {
        self.open.first_key_value().map(|(_, &at)| at)
    }

    /// Returns whether an ask accepts any node by now, so that all of them do.
    pub(super) fn is_relaxed(&self) -> bool {
        !self.relaxed.is_empty()
    }
}

#[cfg(test)]
mod tests;
