//! State that every allocator keeps per attempt: outstanding asks and blacklist.

use std::collections::BTreeSet;

use records::{MonoMillis, ResourceRequest};

use super::asks::{AskError, AskRules, BLACKLIST_MAX, OutstandingAsks, check_name};

/// Outstanding asks and blacklist of one attempt.
#[derive(Clone, Debug)]
pub(super) struct AttemptAsks {
    pub(super) asks: OutstandingAsks,
    /// Host names, for the lifetime of the attempt.
    pub(super) blacklist: BTreeSet<String>,
}

impl AttemptAsks {
    pub(super) const fn new(rules: AskRules) -> Self {
        Self {
            asks: OutstandingAsks::new(rules),
            blacklist: BTreeSet::new(),
        }
    }

    /// Applies the lines of one request, as in [`OutstandingAsks::update`].
    pub(super) fn update_asks(
        &mut self,
        requests: &[ResourceRequest],
        now: MonoMillis,
    ) -> Result<(), AskError> {
        self.asks.update(requests, now)
    }

    /// Checks whether [`update_blacklist`](Self::update_blacklist) would accept the change.
    pub(super) fn check_blacklist(
        &self,
        additions: &[String],
        removals: &[String],
    ) -> Result<(), AskError> {
        additions.iter().try_for_each(|host| check_name(host))?;
        let removed: BTreeSet<&String> = removals.iter().collect();
        let added: BTreeSet<&String> = additions.iter().collect();
        let stay = |host: &&String| !removed.contains(host) && !added.contains(host);
        // A change that adds nothing is always accepted.
        if added.is_empty()
            || self.blacklist.iter().filter(stay).count() + added.len() <= BLACKLIST_MAX
        {
            Ok(())
        } else {
            Err(AskError::BlacklistTooLong)
        }
    }

    /// Applies removals first, so that a host in both lists ends up on the blacklist, as in Hadoop.
    /// A rejected change has no effect.
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
