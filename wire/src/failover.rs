//! Calls to the active one of several ResourceManagers, repeated until it answers.
//!
//! [`plan`] decides where and when to try, and is pure. [`Link`] holds the connection and makes
//! single tries. [`FailoverClient`] joins both for callers whose calls may be carried out twice. A
//! node, which makes each heartbeat anew, has a loop of its own over a [`Plan`] and a [`Link`].
//!
//! Source: Hadoop's `RMProxy`, `ConfiguredRMFailoverProxyProvider`,
//! `RetryPolicies.failoverOnNetworkException`.

mod link;
pub mod plan;

use std::time::Duration;

use bytes::Bytes;
use prost::Message as _;
use thiserror::Error;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout_at};

pub use self::link::{CallError, Endpoints, Link, LinkConfig, RawCall};
pub use self::plan::{Failed, Failure, Pauses, Plan, Policy, Reaction, Reactions, Step};
use crate::client::BoxedError;
use crate::exception::HadoopException;
use crate::service::Method;
use crate::token::Token;

/// Why a call has no answer.
#[derive(Debug, Error)]
pub enum FailoverError {
    /// The failure is final: a refusal by the active ResourceManager, or an answer that is of no
    /// use.
    #[error(transparent)]
    Call(Box<CallError>),
    /// No ResourceManager answered within the limit or by the deadline.
    #[error("no ResourceManager has answered for {} s", .waited.as_secs())]
    GaveUp {
        /// Time since the first try.
        waited: Duration,
        /// Failure of the last try; `None` when the deadline cut it off.
        source: Option<Box<CallError>>,
    },
}

impl FailoverError {
    /// Whether the active ResourceManager refused with this exception.
    #[must_use]
    pub fn is(&self, exception: HadoopException) -> bool {
        match self {
            Self::Call(error) => error.source.remote().is_some_and(|e| e.is(exception)),
            Self::GaveUp { .. } => false,
        }
    }
}

/// A client of the active one of several ResourceManagers.
#[derive(Debug)]
pub struct FailoverClient {
    link: Link,
    plan: Plan,
    silence: watch::Sender<Option<Duration>>,
}

impl FailoverClient {
    /// Returns a client that opens its first connection with the first call.
    #[must_use]
    pub fn new(config: LinkConfig, policy: Policy) -> Self {
        Self {
            plan: Plan::new(policy, config.endpoints.count()),
            link: Link::new(config),
            silence: watch::Sender::new(None),
        }
    }

    /// Time for which no ResourceManager has answered; `None` while one does. Sent with each
    /// failure.
    #[must_use]
    pub fn silence(&self) -> watch::Receiver<Option<Duration>> {
        self.silence.subscribe()
    }

    /// Connects with this token from the next call on; returns whether it is a new one.
    pub fn set_token(&mut self, token: Token) -> bool {
        self.link.set_token(token)
    }

    /// Makes a call that may be carried out twice, until there is an answer or the policy's limit
    /// is reached.
    ///
    /// # Errors
    /// [`FailoverError`].
    pub async fn call<M: Method>(
        &mut self,
        request: &M::Request,
    ) -> Result<M::Response, FailoverError> {
        let call = RawCall::of::<M>(request);
        self.repeat(&call, None, M::Response::decode).await
    }

    /// Makes an encoded call that may be carried out twice, until `decode` accepts an answer, at
    /// the latest until `deadline`. Failures of earlier calls do not count towards the policy's
    /// limit.
    ///
    /// # Errors
    /// [`FailoverError`].
    pub async fn call_raw<T, E: Into<BoxedError>>(
        &mut self,
        call: &RawCall,
        deadline: Instant,
        decode: impl Fn(Bytes) -> Result<T, E>,
    ) -> Result<T, FailoverError> {
        self.plan.answered();
        self.repeat(call, Some(deadline), decode).await
    }

    async fn repeat<T, E: Into<BoxedError>>(
        &mut self,
        call: &RawCall,
        deadline: Option<Instant>,
        decode: impl Fn(Bytes) -> Result<T, E>,
    ) -> Result<T, FailoverError> {
        let first_began = Instant::now();
        loop {
            let began = Instant::now();
            if !self.link.is_open_to(self.plan.endpoint()) {
                self.plan.move_to(self.link.endpoints().active());
            }
            let endpoint = self.plan.endpoint();
            let attempt = self.link.call_raw(endpoint, call, &decode);
            let answer = match deadline {
                Some(deadline) => timeout_at(deadline, attempt).await,
                None => Ok(attempt.await),
            };
            let error = match answer {
                Ok(Ok(answer)) => {
                    self.answered();
                    return Ok(answer);
                }
                Ok(Err(error)) => error,
                Err(_) => {
                    self.link.close();
                    self.link.endpoints().turn_from(endpoint);
                    return Err(FailoverError::GaveUp {
                        waited: first_began.elapsed(),
                        source: None,
                    });
                }
            };
            let failed = Failed {
                failure: error.failure(),
                began,
                deadline,
            };
            self.after_failure(endpoint, failed, error).await?;
        }
    }

    /// Returns after the pause before the next try, or with the error if there is none.
    async fn after_failure(
        &mut self,
        endpoint: usize,
        failed: Failed,
        error: CallError,
    ) -> Result<(), FailoverError> {
        let now = Instant::now();
        let step = self.plan.failed(failed, now, &mut rand::rng());
        if self.plan.endpoint() != endpoint {
            self.link.endpoints().turn_from(endpoint);
        }
        let error = Box::new(error);
        match step {
            Step::Return => {
                self.answered();
                Err(FailoverError::Call(error))
            }
            Step::GiveUp { waited } => Err(FailoverError::GaveUp {
                waited,
                source: Some(error),
            }),
            Step::Retry { pause, .. } => {
                tracing::debug!(%error, reason = %error.source, ?pause, "the ResourceManager does not answer");
                self.silence.send_replace(self.plan.failing_for(now));
                sleep(pause).await;
                Ok(())
            }
        }
    }

    fn answered(&mut self) {
        self.plan.answered();
        self.silence
            .send_if_modified(|silence| silence.take().is_some());
    }
}

#[cfg(test)]
mod tests;
