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

    /// Takes in the lines of one request; see [`OutstandingAsks::update`].
    pub(super) fn update_asks(
        &mut self,
        requests: &[ResourceRequest],
        now: MonoMillis,
    ) -> Result<(), AskError> {
        self.asks.update(requests, now)
    }

    /// Whether [`update_blacklist`](Self::update_blacklist) would take this.
    pub(super) fn check_blacklist(
        &self,
        additions: &[String],
        removals: &[String],
    ) -> Result<(), AskError> {
        additions.iter().try_for_each(|host| check_name(host))?;
        let removed: BTreeSet<&String> = removals.iter().collect();
        let added: BTreeSet<&String> = additions.iter().collect();
        let stay = |host: &&String| !removed.contains(host) && !added.contains(host);
        // A list that grows by nothing is not refused.
        if added.is_empty()
            || self.blacklist.iter().filter(stay).count() + added.len() <= BLACKLIST_MAX
        {
            Ok(())
        } else {
            Err(AskError::BlacklistTooLong)
        }
    }

    /// Removals first: a host in both lists ends up on the blacklist, as in Hadoop. Nothing changes if it is refused.
    pub(super) fn update_blacklist(
        &mut self,
        additions: &[String],
        removals: &[String],
    ) -> Result<(), AskError> {
        self.check_blacklist(additions, removals)?;
        for host in removals {
            self.blacklist.remove(host);
        }
        self.blacklist.extend(additions.iter().cloned());
        Ok(())
    }
}
