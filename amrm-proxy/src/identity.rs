//! Identity of a proxied attempt, its stored record, and what all parts of its pipeline share.

use std::sync::Arc;

use records::ApplicationAttemptId;
use tokio_util::sync::CancellationToken;
use wire::proto::hadoop_common::TokenProto;
use wire::token::Token;

use crate::attempts::PublishedNumbers;
use crate::master_tokens::KeptTokens;
use crate::role_history::opt_in::OptIn;
use crate::store::{IdentityRecord, OptInRecord, Part, Record as _};

/// Identity of an attempt, and the ResourceManager's AMRMTokens.
pub(crate) const IDENTITY: Part = Part::new("master");

/// Attempt that a pipeline belongs to, with its application's user, tags and choice of a role
/// history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AttemptIdentity {
    pub(crate) attempt: ApplicationAttemptId,
    pub(crate) user: String,
    pub(crate) tags: Vec<String>,
    pub(crate) role_history: Option<OptIn>,
}

/// Attempt as interceptors and their performers know it from the start.
#[derive(Clone, Debug)]
pub(crate) struct Attempt {
    pub(crate) identity: AttemptIdentity,
    /// Numbers for readers, who must not wait for a call.
    pub(crate) numbers: Arc<PublishedNumbers>,
    /// Cancelled when the pipeline ends.
    pub(crate) ended: CancellationToken,
}

impl Attempt {
    pub(crate) fn new(identity: AttemptIdentity) -> Self {
        Self {
            identity,
            numbers: Arc::default(),
            ended: CancellationToken::new(),
        }
    }
}

impl AttemptIdentity {
    /// Encodes the record from which a restarted agent rebuilds the pipeline. `kept`: tokens that
    /// the AM may show, unless it has local ones.
    pub(crate) fn to_stored(&self, rm_token: &Token, kept: Option<KeptTokens>) -> Vec<u8> {
        let record = IdentityRecord {
            user: self.user.clone(),
            tags: self.tags.clone(),
            rm_token: Some(TokenProto::from(rm_token.clone())),
            role_history: self.role_history.clone().map(OptInRecord::from),
            keeps_token: kept.is_some(),
            previous_token: kept.and_then(|kept| Some(kept.previous?.into())),
        };
        record.to_stored()
    }

    /// Reads a record: the identity, the ResourceManager's token, and the tokens that the AM may
    /// show, unless it has local ones.
    pub(crate) fn from_stored(
        attempt: ApplicationAttemptId,
        stored: &[u8],
    ) -> Option<(Self, Token, Option<KeptTokens>)> {
        let IdentityRecord {
            user,
            tags,
            rm_token,
            role_history,
            keeps_token,
            previous_token,
        } = IdentityRecord::from_stored(stored)?;
        let identity = Self {
            attempt,
            user,
            tags,
            role_history: role_history.map(OptIn::from),
        };
        let rm_token = Token::from(rm_token?);
        // The AM has the tokens that it was started with, whatever is configured now.
        let kept = keeps_token.then(|| KeptTokens {
            newest: rm_token.clone(),
            previous: previous_token.map(Token::from),
        });
        Some((identity, rm_token, kept))
    }
}
