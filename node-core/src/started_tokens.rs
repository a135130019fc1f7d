//! Container tokens that were used to start a container, remembered until they expire: each starts
//! once. Pure.
//!
//! Hadoop: `NMContainerTokenSecretManager.recentlyStartedContainerTracker`.

use std::collections::{BTreeMap, BTreeSet};

use records::{ContainerId, ContainerName, EpochMillis};

use crate::effect::Effect;
use crate::end::{End, Part};

/// Tokens remembered. Hadoop's tokens live 10 minutes; 300 starts a second for that long are
/// 180,000 entries of about 100 bytes. Beyond the bound starts are refused, since forgetting one
/// would let its token be used twice.
pub const STARTED_TOKENS_MAX: usize = 500_000;

/// The started containers whose tokens have not expired.
#[derive(Debug, Default)]
pub struct StartedTokens {
    by_id: BTreeMap<ContainerName, EpochMillis>,
    by_expiry: BTreeSet<(EpochMillis, ContainerName)>,
}

impl StartedTokens {
    /// Whether the token of `id` was used before and has not expired yet.
    pub fn is_used(&mut self, id: &ContainerId, now: EpochMillis) -> bool {
        self.expire(now);
        self.by_id.contains_key(&id.name())
    }

    /// Whether no further token can be remembered, so that none may be used.
    pub fn is_full(&mut self, now: EpochMillis) -> bool {
        self.expire(now);
        self.by_id.len() >= STARTED_TOKENS_MAX
    }

    /// Records that the token of `id`, valid until `expiry`, has started its container. A longer
    /// memory of the container stays.
    pub fn remember(&mut self, id: ContainerName, expiry: EpochMillis) {
        let known = self.by_id.get(&id);
        let expiry = known.map_or(expiry, |known| expiry.max(*known));
        if let Some(before) = self.by_id.insert(id, expiry) {
            self.by_expiry.remove(&(before, id));
        }
        self.by_expiry.insert((expiry, id));
    }

    /// Returns the time until which a container's token counts as used; `None`: it does not.
    #[must_use]
    pub fn expiry(&self, id: &ContainerId) -> Option<EpochMillis> {
        self.by_id.get(&id.name()).copied()
    }

    /// Forgets the tokens that have expired, and returns their containers.
    pub fn take_expired(&mut self, now: EpochMillis) -> Vec<ContainerName> {
        let mut expired = Vec::new();
        while let Some(&(expiry, id)) = self.by_expiry.first() {
            if expiry >= now {
                break;
            }
            self.by_expiry.pop_first();
            self.by_id.remove(&id);
            expired.push(id);
        }
        expired
    }

    fn expire(&mut self, now: EpochMillis) {
        drop(self.take_expired(now));
    }
}

impl Part for StartedTokens {
    fn ended(&mut self, end: &End<'_>, _: &mut Vec<Effect>) {
        if let Some((_, expiry)) = end.token {
            self.remember(end.id().name(), expiry);
        }
    }
}

#[cfg(test)]
mod tests {
    use test_support::ids::container as id;

    use super::*;

    #[test]
    fn a_token_starts_its_container_once_until_it_expires() {
        let mut tokens = StartedTokens::default();
        assert!(!tokens.is_used(&id(1), EpochMillis(0)));
        tokens.remember(id(1).name(), EpochMillis(100));
        assert!(tokens.is_used(&id(1), EpochMillis(100)));
        assert!(!tokens.is_used(&id(1), EpochMillis(101)));
        assert!(
            tokens.by_id.is_empty() && tokens.by_expiry.is_empty(),
            "the expired entry is gone from memory"
        );
    }

    #[test]
    fn a_container_is_remembered_for_the_longest_of_its_tokens() {
        let mut tokens = StartedTokens::default();
        tokens.remember(id(1).name(), EpochMillis(100));
        tokens.remember(id(1).name(), EpochMillis(300));
        tokens.remember(id(1).name(), EpochMillis(200));
        assert!(tokens.is_used(&id(1), EpochMillis(300)));
        assert!(!tokens.is_used(&id(1), EpochMillis(301)));
        assert!(tokens.by_expiry.is_empty());
    }

    #[test]
    fn the_memory_of_used_tokens_is_bounded_and_frees_itself() {
        let mut tokens = StartedTokens::default();
        for n in 0..STARTED_TOKENS_MAX {
            assert!(!tokens.is_full(EpochMillis(0)));
            tokens.remember(id(i64::try_from(n).unwrap()).name(), EpochMillis(100));
        }
        assert!(tokens.is_full(EpochMillis(100)));
        assert!(!tokens.is_full(EpochMillis(101)));
    }
}
