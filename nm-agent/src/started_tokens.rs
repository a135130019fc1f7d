//! Container tokens that were used to start a container, remembered until they expire: each starts once. Pure.
//!
//! Hadoop: `NMContainerTokenSecretManager.recentlyStartedContainerTracker`.

use std::collections::{BTreeMap, BTreeSet};

use records::{ContainerId, EpochMillis};

/// Tokens remembered. Hadoop's tokens live 10 minutes; 300 starts a second for that long are 180,000 entries of about
/// 100 bytes. Beyond the bound starts are refused, since forgetting one would let its token be used twice.
pub const STARTED_TOKENS_MAX: usize = 500_000;

/// Why a token may not start its container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenUse {
    /// First use; remembered from now on.
    First,
    /// Used before.
    Again,
    /// [`STARTED_TOKENS_MAX`] unexpired tokens are remembered.
    Full,
}

/// The started containers whose tokens have not expired.
#[derive(Debug, Default)]
pub struct StartedTokens {
    by_id: BTreeMap<ContainerId, EpochMillis>,
    by_expiry: BTreeSet<(EpochMillis, ContainerId)>,
}

impl StartedTokens {
    /// Whether the token of `id` was used before and has not expired yet.
    pub fn is_used(&mut self, id: &ContainerId, now: EpochMillis) -> bool {
        self.expire(now);
        self.by_id.contains_key(id)
    }

    /// Records the use of the token of `id`, valid until `expiry`.
    pub fn use_once(&mut self, id: ContainerId, expiry: EpochMillis, now: EpochMillis) -> TokenUse {
        if self.is_used(&id, now) {
            return TokenUse::Again;
        }
        if self.by_id.len() >= STARTED_TOKENS_MAX {
            return TokenUse::Full;
        }
        self.by_id.insert(id, expiry);
        self.by_expiry.insert((expiry, id));
        TokenUse::First
    }

    /// Forgets `id`: its start was refused after all.
    pub fn forget(&mut self, id: &ContainerId) {
        if let Some(expiry) = self.by_id.remove(id) {
            self.by_expiry.remove(&(expiry, *id));
        }
    }

    fn expire(&mut self, now: EpochMillis) {
        while let Some(&(expiry, id)) = self.by_expiry.first() {
            if expiry >= now {
                break;
            }
            self.by_expiry.pop_first();
            self.by_id.remove(&id);
        }
    }
}

#[cfg(test)]
mod tests {
    use records::{ApplicationAttemptId, ApplicationId};

    use super::*;

    fn id(n: i64) -> ContainerId {
        let application_id = ApplicationId {
            cluster_timestamp: 1,
            id: 1,
        };
        ContainerId {
            attempt: ApplicationAttemptId {
                application_id,
                attempt_id: 1,
            },
            id: n,
        }
    }

    #[test]
    fn a_token_starts_its_container_once_until_it_expires() {
        let mut tokens = StartedTokens::default();
        assert_eq!(
            tokens.use_once(id(1), EpochMillis(100), EpochMillis(0)),
            TokenUse::First
        );
        assert_eq!(
            tokens.use_once(id(1), EpochMillis(100), EpochMillis(100)),
            TokenUse::Again
        );
        assert_eq!(
            tokens.use_once(id(2), EpochMillis(300), EpochMillis(101)),
            TokenUse::First
        );
        assert!(!tokens.is_used(&id(1), EpochMillis(101)));
        assert_eq!(
            tokens.by_id.len(),
            1,
            "the expired entry is gone from memory"
        );
    }

    #[test]
    fn a_refused_start_may_be_tried_again() {
        let mut tokens = StartedTokens::default();
        assert_eq!(
            tokens.use_once(id(1), EpochMillis(100), EpochMillis(0)),
            TokenUse::First
        );
        tokens.forget(&id(1));
        assert_eq!(
            tokens.use_once(id(1), EpochMillis(100), EpochMillis(0)),
            TokenUse::First
        );
    }
}
