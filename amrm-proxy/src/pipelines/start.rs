//! Start of an AM: the request, the proxy's decision, and the outcome that the caller reports.

use std::fmt;
use std::sync::Arc;

use records::ApplicationAttemptId;
use thiserror::Error;
use wire::credentials::{Credentials, CredentialsError, SecretBytes, replace_kind};
use wire::exception::{HadoopException, RemoteException};
use wire::secrets::attempt_of;
use wire::token::{Token, kind};

use super::{AmrmProxy, PIPELINES_MAX};
use crate::config::{OptIn, TokenPolicy};
use crate::pipeline::Pipeline;

/// Start of an AM, as requested from this node.
#[derive(Clone, Debug)]
pub struct AmStart<'a> {
    /// Attempt in the AM's container token.
    pub attempt: ApplicationAttemptId,
    /// User in the AM's container token.
    pub user: &'a str,
    /// Tags of the application, from the AM's environment.
    pub tags: Vec<String>,
    /// Role history that the AM's environment opts in to; `None` for none.
    pub role_history: Option<OptIn>,
    /// Serialized credentials that the AM is to be started with.
    pub credentials: &'a [u8],
}

/// Decision of the proxy about an AM's start.
#[derive(Debug)]
pub enum Admission {
    /// The AM has no AMRMToken and cannot call the ResourceManager, so it is not proxied.
    NoToken,
    /// The AM is proxied, and must be started with these credentials.
    Admitted {
        /// Credentials, with the local token in place of the ResourceManager's unless the AM keeps
        /// that. Secret.
        credentials: SecretBytes,
        /// Handle through which the caller reports the outcome of the start.
        start: PendingStart,
    },
}

/// Start of an AM whose outcome is open. The AM's pipeline exists from the beginning, so that the
/// AM can call at once. If dropped without [`succeeded`](Self::succeeded), the start was refused:
/// the pipeline ends unless another start of the same AM has succeeded or is open.
pub struct PendingStart {
    pub(super) proxy: Arc<AmrmProxy>,
    pub(super) pipeline: Arc<Pipeline>,
}

impl fmt::Debug for PendingStart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PendingStart")
            .field(&self.pipeline.identity.attempt)
            .finish()
    }
}

impl PendingStart {
    /// Reports that the AM has started. Ends the pipelines of earlier attempts of its application.
    pub fn succeeded(self) {
        let attempt = self.pipeline.identity.attempt;
        let mut pipelines = self.proxy.lock();
        for pipeline in pipelines.mark_started(attempt, &self.pipeline) {
            tracing::info!(attempt = %pipeline.identity.attempt, by = %attempt, "a later attempt has started; the pipeline ends");
            self.proxy.end(&pipeline);
        }
    }
}

impl Drop for PendingStart {
    fn drop(&mut self) {
        let attempt = self.pipeline.identity.attempt;
        let mut pipelines = self.proxy.lock();
        if let Some(pipeline) = pipelines.settle_start(attempt, &self.pipeline) {
            tracing::info!(%attempt, "the ApplicationMaster was not started; the pipeline ends");
            self.proxy.end(&pipeline);
        }
    }
}

/// AMRMToken of the ResourceManager that an AM's start brings, and the credentials for the AM.
pub(super) struct GivenTokens {
    pub(super) rm_token: Token,
    pub(super) credentials: SecretBytes,
}

impl AmrmProxy {
    /// Returns the ResourceManager's AMRMToken in an AM's credentials, and the credentials that the
    /// AM is to be started with; `None` without such a token.
    pub(super) fn given_tokens(
        &self,
        start: &AmStart<'_>,
    ) -> Result<Option<GivenTokens>, AdmitError> {
        let attempt = start.attempt;
        let unreadable = |source| AdmitError::Credentials { attempt, source };
        match self.config.token {
            TokenPolicy::Replace => {
                // Alias and service are empty, as in the ResourceManager's token: the AM's library
                // fills in the address that it connects to.
                let token = self.shared.tokens.local().token_for(attempt);
                let replaced = replace_kind(start.credentials, "", &token).map_err(unreadable)?;
                let rm_token = replaced.removed.into_iter().next();
                Ok(rm_token.map(|rm_token| GivenTokens {
                    rm_token,
                    credentials: replaced.stream,
                }))
            }
            TokenPolicy::Keep => {
                let found = Credentials::read(start.credentials).map_err(unreadable)?;
                // The ResourceManager's has the empty alias, which comes first. A job may bring
                // others, which are no tokens of this attempt or no better.
                let is_own = |token: &Token| {
                    let names = attempt_of(&token.identifier);
                    token.kind == kind::AM_RM_TOKEN && names.is_ok_and(|named| named == attempt)
                };
                let rm_token = found.tokens.into_values().find(is_own);
                Ok(rm_token.map(|rm_token| GivenTokens {
                    rm_token,
                    credentials: SecretBytes(start.credentials.to_vec()),
                }))
            }
        }
    }
}

/// Reason for which an AM cannot be proxied.
#[derive(Debug, Error)]
pub enum AdmitError {
    /// The AM's credentials cannot be read.
    #[error("the credentials of {attempt} cannot be read")]
    Credentials {
        /// Attempt of the AM.
        attempt: ApplicationAttemptId,
        /// Problem in the credentials.
        #[source]
        source: CredentialsError,
    },
    /// The node has the maximum of pipelines.
    #[error("this node has {PIPELINES_MAX} proxied ApplicationMasters and accepts no more")]
    TooMany,
    /// A later attempt of the application has started on this node.
    #[error("{attempt} is not started: {by} has started on this node")]
    Superseded {
        /// Attempt that is refused.
        attempt: ApplicationAttemptId,
        /// Later attempt of the same application.
        by: ApplicationAttemptId,
    },
}

impl From<AdmitError> for RemoteException {
    fn from(error: AdmitError) -> Self {
        Self::new(HadoopException::YarnException, error.to_string())
    }
}
