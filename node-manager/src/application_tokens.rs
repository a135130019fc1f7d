//! Tokens of applications, by which file systems of a secure cluster know their users.
//!
//! One thread adds and forgets them; threads that open file systems take them.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use file_worker::Secret;
use node_core::TOKENS_BYTES_MAX;
use records::ApplicationId;
use wire::credentials::Credentials;
use wire::token::Token;

/// Tokens of the applications of this node.
#[derive(Debug, Default)]
pub(crate) struct ApplicationTokens(Mutex<BTreeMap<String, Held>>);

#[derive(Debug)]
struct Held {
    /// Tokens under their services.
    credentials: Credentials,
    /// The same as bytes.
    secret: Secret,
}

impl ApplicationTokens {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Held>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds tokens to those of an application. One replaces that of the same service: whoever
    /// brings it later has the newer one. Returns all of the application, if some have changed.
    pub(crate) fn add(&self, id: ApplicationId, tokens: Vec<Token>) -> Option<Secret> {
        let mut all = self.lock();
        let before = all.get(&id.to_string()).map(|held| &held.credentials);
        let mut credentials = before.cloned().unwrap_or_default();
        for token in tokens {
            credentials.tokens.insert(token.service.clone(), token);
        }
        if before == Some(&credentials) {
            return None;
        }
        let bytes = credentials.write_v0();
        if bytes.len() > TOKENS_BYTES_MAX {
            tracing::warn!(application = %id, bytes = bytes.len(),
                "tokens for file systems are left out, which are more than {TOKENS_BYTES_MAX} bytes with \
                 those before");
            return None;
        }
        let secret = Secret(bytes.into());
        let held = Held {
            credentials,
            secret: secret.clone(),
        };
        all.insert(id.to_string(), held);
        Some(secret)
    }

    /// Forgets the tokens of an application.
    pub(crate) fn forget(&self, id: ApplicationId) {
        self.lock().remove(&id.to_string());
    }

    /// Returns the tokens of the application of this name, as credentials of Hadoop's form.
    pub(crate) fn secret(&self, application: &str) -> Option<Secret> {
        Some(self.lock().get(application)?.secret.clone())
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use wire::token::kind;

    use super::*;

    fn token(service: &str, password: Vec<u8>) -> Token {
        Token {
            identifier: Bytes::from_static(b"identifier"),
            password: password.into(),
            kind: kind::HDFS_DELEGATION_TOKEN.to_owned(),
            service: service.to_owned(),
        }
    }

    fn read(tokens: &ApplicationTokens, id: ApplicationId) -> Vec<Token> {
        let secret = tokens.secret(&id.to_string()).unwrap();
        let credentials = Credentials::read(&secret.0).unwrap();
        credentials.tokens.into_values().collect()
    }

    #[test]
    fn the_last_token_of_a_service_counts_until_the_application_is_forgotten() {
        let (tokens, id) = (ApplicationTokens::default(), ApplicationId::new(1, 1));
        let other = ApplicationId::new(1, 2);
        assert_eq!(tokens.secret(&id.to_string()), None);
        let _changed = tokens.add(id, vec![token("a:1", vec![1]), token("b:1", vec![1])]);
        assert!(tokens.add(id, vec![token("b:1", vec![2])]).is_some());
        assert!(tokens.add(id, vec![token("b:1", vec![2])]).is_none());
        let _changed = tokens.add(other, vec![token("a:1", vec![3])]);
        let expected = [token("a:1", vec![1]), token("b:1", vec![2])];
        assert_eq!(read(&tokens, id), expected);
        assert_eq!(read(&tokens, other), [token("a:1", vec![3])]);
        tokens.forget(id);
        assert_eq!(tokens.secret(&id.to_string()), None);
        assert_eq!(read(&tokens, other).len(), 1);
    }

    #[test]
    fn too_many_bytes_leave_those_before() {
        let (tokens, id) = (ApplicationTokens::default(), ApplicationId::new(1, 1));
        let _changed = tokens.add(id, vec![token("a:1", vec![1])]);
        let _changed = tokens.add(id, vec![token("b:1", vec![0; TOKENS_BYTES_MAX])]);
        assert_eq!(read(&tokens, id), [token("a:1", vec![1])]);
    }
}
