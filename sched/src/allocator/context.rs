//! What both allocators keep per attempt: what it wants and where it wants nothing.

use std::collections::BTreeSet;

use records::{MonoMillis, ResourceRequest};

use super::asks::{AskError, AskRules, BLACKLIST_MAX, OutstandingAsks, check_name};

/// See the module.
#[derive(Clone, Debug)]
pub(super) struct AttemptAsks {
    pub(super) asks: OutstandingAsks,
    /// Host names, for the life of the attempt.
    pub(super) blacklist: BTreeSet<String>,
}

impl AttemptAsks {
    pub(super) const fn new(rules: AskRules) -> Self {
        Self {
            asks: OutstandingAsks::new(rules),
            blacklist: BTreeSet::new(),
        }
    }

    /// All lines of one request, in their order; stops at the first that is refused.
    pub(super) fn update_asks(
        &mut self,
        requests: &[ResourceRequest],
        now: MonoMillis,
    ) -> Result<(), AskError> {
        requests
            .iter()
            .try_for_each(|request| self.asks.update(request, now))
    }

    /// Removals first: a host in both lists ends up on the blacklist, as in Hadoop.
    pub(super) fn update_blacklist(
        &mut self,
        additions: &[String],
        removals: &[String],
    ) -> Result<(), AskError> {
        for host in removals {
            self.blacklist.remove(host);
        }
        for host in additions {
            check_name(host)?;
            if self.blacklist.len() >= BLACKLIST_MAX && !self.blacklist.contains(host) {
                return Err(AskError::BlacklistTooLong);
            }
            self.blacklist.insert(host.clone());
        }
        Ok(())
    }
}
