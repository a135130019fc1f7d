//! AMRMTokens that open the proxy's port: local ones, which this node signs, and kept ones, which
//! the ResourceManager has signed.
//!
//! With [`TokenPolicy::Keep`](crate::config::TokenPolicy::Keep) an AM keeps the ResourceManager's
//! token. This node has not the key, but it has the token itself, with its password: from the AM's
//! launch context, and later ones from the ResourceManager's answers. So a token is known by its
//! identifier. The newest of an attempt is valid, and the one before it, with which the AM may
//! still be connected. An attempt has tokens of one sort for its whole life.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use records::ApplicationAttemptId;
use wire::exception::{HadoopException, RemoteException};
use wire::rpc::{SecretManager, Verified};
use wire::secrets::{AmrmTokenSecretManager, attempt_of};
use wire::token::{Token, kind};

/// Tokens of the ResourceManager that an AM uses at this proxy, too.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptTokens {
    /// Token that the ResourceManager sent last.
    pub newest: Token,
    /// Token before it.
    pub previous: Option<Token>,
}

#[derive(Debug)]
struct Kept {
    user: String,
    tokens: KeptTokens,
    /// Whether a restarted agent would know the newest one. Before that the AM must not have it: it
    /// would give up the previous one, and the next agent would refuse it.
    is_stored: bool,
}

/// AMRMTokens of all attempts on this node.
#[derive(Debug)]
pub struct MasterTokens {
    local: AmrmTokenSecretManager,
    /// Attempts with kept tokens; the others have local ones.
    kept: Mutex<BTreeMap<ApplicationAttemptId, Kept>>,
}

impl MasterTokens {
    pub(crate) const fn new(local: AmrmTokenSecretManager) -> Self {
        Self {
            local,
            kept: Mutex::new(BTreeMap::new()),
        }
    }

    /// Returns the local tokens.
    #[must_use]
    pub const fn local(&self) -> &AmrmTokenSecretManager {
        &self.local
    }

    /// Makes the ResourceManager's tokens of an attempt valid. They are stored already, or the AM
    /// has them from elsewhere.
    pub(crate) fn keep(&self, attempt: ApplicationAttemptId, user: &str, tokens: KeptTokens) {
        let kept = Kept {
            user: user.to_owned(),
            tokens,
            is_stored: true,
        };
        self.lock().insert(attempt, kept);
    }

    /// Makes the attempt's tokens invalid.
    pub(crate) fn revoke(&self, attempt: ApplicationAttemptId) {
        self.local.revoke(attempt);
        self.lock().remove(&attempt);
    }

    /// Takes a renewed token of the ResourceManager. Returns the attempt's tokens, which have to be
    /// stored; `None` if it has local ones.
    pub(crate) fn renew(&self, attempt: ApplicationAttemptId, token: &Token) -> Option<KeptTokens> {
        let mut attempts = self.lock();
        let kept = attempts.get_mut(&attempt)?;
        if kept.tokens.newest != *token {
            let previous = std::mem::replace(&mut kept.tokens.newest, token.clone());
            kept.tokens.previous = Some(previous);
            kept.is_stored = false;
        }
        Some(kept.tokens.clone())
    }

    /// Notes that an attempt's tokens are stored, unless there is a newer one by now.
    pub(crate) fn stored(&self, attempt: ApplicationAttemptId, newest: &Token) {
        let mut attempts = self.lock();
        if let Some(kept) = attempts.get_mut(&attempt)
            && kept.tokens.newest == *newest
        {
            kept.is_stored = true;
        }
    }

    /// Returns the token for an AM that has shown an older one; `None` if it has the newest.
    pub(crate) fn renewed_token(
        &self,
        attempt: ApplicationAttemptId,
        presented: &[u8],
    ) -> Option<Token> {
        let attempts = self.lock();
        let Some(kept) = attempts.get(&attempt) else {
            drop(attempts);
            return self.local.renewed_token(attempt, presented);
        };
        let newest = &kept.tokens.newest;
        (kept.is_stored && newest.identifier != presented).then(|| newest.clone())
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<ApplicationAttemptId, Kept>> {
        // A panic elsewhere leaves valid tokens: each change is complete.
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SecretManager for MasterTokens {
    fn kind(&self) -> &'static str {
        kind::AM_RM_TOKEN
    }

    fn retrieve(&self, identifier: &[u8]) -> Result<Verified, RemoteException> {
        let attempt = attempt_of(identifier)?;
        let attempts = self.lock();
        let Some(kept) = attempts.get(&attempt) else {
            drop(attempts);
            return self.local.retrieve(identifier);
        };
        let KeptTokens { newest, previous } = &kept.tokens;
        let mut tokens = [Some(newest), previous.as_ref()].into_iter().flatten();
        let token = tokens.find(|token| token.identifier == identifier);
        let token = token.ok_or_else(|| {
            let text = format!("{attempt} shows a token that this node has not seen");
            RemoteException::new(HadoopException::InvalidToken, text)
        })?;
        Ok(Verified {
            password: token.password.to_vec(),
            user: attempt.to_string(),
            owner: Some(kept.user.clone()),
        })
    }
}

#[cfg(test)]
mod tests {
    use records::MonoMillis;
    use wire::secrets::RollTimes;

    use super::*;
    use crate::testing::ATTEMPT;

    const TIMES: RollTimes = RollTimes {
        interval: 100,
        overlap: 30,
    };

    fn tokens() -> MasterTokens {
        MasterTokens::new(AmrmTokenSecretManager::new(TIMES, MonoMillis(0)))
    }

    /// Returns three tokens of an attempt as a ResourceManager makes them, oldest first.
    fn of_rm(attempt: ApplicationAttemptId) -> [Token; 3] {
        let rm = AmrmTokenSecretManager::new(TIMES, MonoMillis(0));
        // A new key, and after its overlap the next one.
        let steps: [&[u64]; 3] = [&[], &[100], &[130, 200]];
        steps.map(|steps| {
            steps.iter().for_each(|at| rm.tick(MonoMillis(*at)));
            rm.token_for(attempt)
        })
    }

    fn first(newest: Token) -> KeptTokens {
        KeptTokens {
            newest,
            previous: None,
        }
    }

    fn accepts(tokens: &MasterTokens, token: &Token) -> bool {
        let verified = tokens.retrieve(&token.identifier);
        verified.is_ok_and(|verified| verified.password == token.password)
    }

    #[test]
    fn the_newest_token_of_the_resource_manager_is_valid_and_the_one_before_it() {
        let tokens = tokens();
        let [old, new, newer] = of_rm(ATTEMPT);
        tokens.keep(ATTEMPT, "alice", first(old.clone()));
        let valid = || [&old, &new, &newer].map(|token| accepts(&tokens, token));
        assert_eq!(valid(), [true, false, false]);
        for _ in 0..2 {
            let renewed = tokens.renew(ATTEMPT, &new).unwrap();
            assert_eq!(renewed.previous.as_ref(), Some(&old));
            assert_eq!(valid(), [true, true, false]);
        }
        assert!(tokens.renew(ATTEMPT, &newer).is_some());
        assert_eq!(valid(), [false, true, true]);
        let verified = tokens.retrieve(&new.identifier).unwrap();
        assert_eq!(verified.user, ATTEMPT.to_string());
        assert_eq!(verified.owner.as_deref(), Some("alice"));
        tokens.revoke(ATTEMPT);
        assert_eq!(valid(), [false; 3]);
    }

    #[test]
    fn a_renewed_token_is_handed_out_once_it_is_stored_until_the_master_shows_it() {
        let tokens = tokens();
        let [old, new, newer] = of_rm(ATTEMPT);
        tokens.keep(ATTEMPT, "alice", first(old.clone()));
        let for_holder_of = |token: &Token| tokens.renewed_token(ATTEMPT, &token.identifier);
        assert_eq!(for_holder_of(&old), None);
        tokens.renew(ATTEMPT, &new);
        assert_eq!(for_holder_of(&old), None);
        tokens.stored(ATTEMPT, &new);
        assert_eq!(for_holder_of(&old), Some(new.clone()));
        assert_eq!(for_holder_of(&new), None);
        // What is stored late is not the newest any more.
        tokens.renew(ATTEMPT, &newer);
        tokens.stored(ATTEMPT, &new);
        assert_eq!(for_holder_of(&new), None);
    }

    #[test]
    fn an_attempt_has_tokens_of_one_sort() {
        let tokens = tokens();
        let other = ATTEMPT.application_id.attempt(2);
        let [kept, ..] = of_rm(ATTEMPT);
        let [foreign, ..] = of_rm(other);
        tokens.keep(ATTEMPT, "alice", first(kept.clone()));
        let local = tokens.local().activate(other, "alice");
        assert!(accepts(&tokens, &kept) && accepts(&tokens, &local));
        assert!(!accepts(&tokens, &tokens.local().token_for(ATTEMPT)));
        assert!(!accepts(&tokens, &foreign));
        assert_eq!(tokens.renew(other, &foreign), None);
        assert!(!accepts(&tokens, &foreign));
    }
}
