//! Decides which ResourceManager a call goes to next, after which pause, and when to give up.
//!
//! Pure: the caller passes failures, times and a source of random numbers in, and gets a [`Step`]
//! back.
//!
//! ```text
//!            Leave: the next endpoint ┐              every endpoint has failed once more
//!  failed ──▶ Stay:  the same one     ├─▶ count it ──▶ pause (doubles, jittered) ──▶ Retry
//!         └─▶ Again: the same one, neither counted nor paused ─────────────────────▶ Retry
//!         └─▶ Return: the failure is the answer           GiveUp ◀── the limit or the deadline
//! ```
//!
//! Hadoop waits `yarn.resourcemanager.connect.retry-interval.ms`, 30 s by default, between two
//! rounds. Here pauses start short and grow; the configured interval applies when it is shorter.

use std::time::Duration;

use rand::{Rng, RngExt as _};
use tokio::time::Instant;

use crate::client::RpcError;
use crate::exception::HadoopException;

/// The pauses between rounds, jitter aside; each is twice as long as the one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pauses {
    /// Pause after the first round.
    pub first: Duration,
    /// Longest pause, however many rounds have failed.
    pub max: Duration,
}

impl Pauses {
    /// The pauses of nodes. A restarted ResourceManager waits 10 s for its nodes
    /// (`work-preserving-recovery.scheduling-wait-ms`) and then allocates what the late ones still
    /// use, so the longest pause is half of that. 10,000 nodes that wait for it then send 2,700
    /// calls a second in total, fewer than their heartbeats.
    pub const NODE: Self = Self {
        first: Duration::from_secs(1),
        max: Duration::from_secs(5),
    };
}

/// Kinds of failures, by what they say about the ResourceManager that was called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// A connection that was open before the call is lost. Servers close idle connections, so this
    /// says nothing about the server.
    Stale,
    /// The network, or no server: no address, no connection, no answer.
    Unreachable,
    /// `StandbyException`: another ResourceManager is the active one.
    Standby,
    /// `RetriableException` of the active ResourceManager.
    Busy,
    /// Another exception of the active ResourceManager, or a request that is too long for any of
    /// them.
    Refused,
    /// An answer that is not Hadoop's protocol, or a server that cannot prove itself.
    Unusable,
}

impl Failure {
    /// Classifies the failure of a call; `reused`: the connection was open before it.
    #[must_use]
    pub fn of(error: &RpcError, reused: bool) -> Self {
        match error {
            RpcError::ConnectionLost { .. } if reused => Self::Stale,
            RpcError::Dial(_) | RpcError::ConnectionLost { .. } | RpcError::Timeout { .. } => {
                Self::Unreachable
            }
            RpcError::Remote(e) if e.is(HadoopException::Standby) => Self::Standby,
            RpcError::Remote(e) if e.is(HadoopException::Retriable) => Self::Busy,
            RpcError::Remote(_) | RpcError::RequestTooLong(_) => Self::Refused,
            RpcError::Sasl { .. } | RpcError::Decode { .. } => Self::Unusable,
        }
    }

    /// Whether an active ResourceManager answered, so that its connection is good and another
    /// endpoint no better.
    #[must_use]
    pub const fn is_of_active(self) -> bool {
        match self {
            Self::Busy | Self::Refused => true,
            Self::Stale | Self::Unreachable | Self::Standby | Self::Unusable => false,
        }
    }
}

/// Consequences of a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reaction {
    /// The failure is the call's answer.
    Return,
    /// The same endpoint again, at once and not counted.
    Again,
    /// The same endpoint again.
    Stay,
    /// The next endpoint.
    Leave,
}

/// The reactions that differ between callers. An endpoint that is unreachable or on standby is
/// always left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reactions {
    /// Reaction to [`Failure::Stale`].
    pub stale: Reaction,
    /// Reaction to [`Failure::Busy`].
    pub busy: Reaction,
    /// Reaction to [`Failure::Refused`].
    pub refused: Reaction,
    /// Reaction to [`Failure::Unusable`].
    pub unusable: Reaction,
}

impl Reactions {
    /// The reactions for calls that may be carried out twice: as Hadoop's clients, which take a
    /// refusal and a failed authentication as final.
    pub const REPEATABLE: Self = Self {
        stale: Reaction::Again,
        busy: Reaction::Leave,
        refused: Reaction::Return,
        unusable: Reaction::Return,
    };

    const fn to(self, failure: Failure) -> Reaction {
        match failure {
            Failure::Stale => self.stale,
            Failure::Unreachable | Failure::Standby => Reaction::Leave,
            Failure::Busy => self.busy,
            Failure::Refused => self.refused,
            Failure::Unusable => self.unusable,
        }
    }
}

/// A caller's limits and reactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// Pauses between rounds.
    pub pauses: Pauses,
    /// Longest pause that the configuration allows
    /// (`yarn.resourcemanager.connect.retry-interval.ms`).
    pub interval_max: Duration,
    /// Time without an answer after which to give up (`yarn.resourcemanager.connect.max-wait.ms`);
    /// `None`: never. The last try is at the limit.
    pub give_up_after: Option<Duration>,
    /// Reactions to failures.
    pub reactions: Reactions,
}

/// A failed try of a call.
#[derive(Clone, Copy, Debug)]
pub struct Failed {
    /// Kind of the failure.
    pub failure: Failure,
    /// Time at which the try began.
    pub began: Instant,
    /// Time after which no further try may begin, because the answer would be too late; `None`: no
    /// such time.
    pub deadline: Option<Instant>,
}

/// The next step after a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Step {
    /// Call `endpoint` after `pause`.
    Retry {
        /// Index of the endpoint.
        endpoint: usize,
        /// Time to wait first; often zero.
        pause: Duration,
    },
    /// Take the failure as the answer.
    Return,
    /// Stop trying: the limit or the deadline is reached.
    GiveUp {
        /// Time since the first failed try began.
        waited: Duration,
    },
}

/// The endpoint in use and the failures since the last answer.
#[derive(Clone, Debug)]
pub struct Plan {
    policy: Policy,
    endpoints: usize,
    endpoint: usize,
    since: Option<Instant>,
    failures: usize,
    is_failing: bool,
}

impl Plan {
    /// Returns a plan over so many endpoints that begins with the first.
    #[must_use]
    pub fn new(policy: Policy, endpoints: usize) -> Self {
        Self {
            policy,
            endpoints: endpoints.max(1),
            endpoint: 0,
            since: None,
            failures: 0,
            is_failing: false,
        }
    }

    /// The endpoint that the next call goes to.
    #[must_use]
    pub const fn endpoint(&self) -> usize {
        self.endpoint
    }

    /// Moves to the endpoint that another caller has found to answer.
    pub const fn move_to(&mut self, endpoint: usize) {
        self.endpoint = endpoint % self.endpoints;
    }

    /// Whether the last call failed.
    #[must_use]
    pub const fn is_failing(&self) -> bool {
        self.is_failing
    }

    /// Time since the first of the failures began; `None` when there are none.
    #[must_use]
    pub fn failing_for(&self, now: Instant) -> Option<Duration> {
        Some(now.duration_since(self.since?))
    }

    /// Notes an answer: failures, pauses and the limit begin anew.
    pub const fn answered(&mut self) {
        self.since = None;
        self.failures = 0;
        self.is_failing = false;
    }

    /// Notes a failure that shows an active server: pauses and the limit begin anew.
    pub const fn refused(&mut self) {
        self.answered();
        self.is_failing = true;
    }

    /// Notes a failure, and decides what follows.
    pub fn failed(&mut self, failed: Failed, now: Instant, rng: &mut impl Rng) -> Step {
        match self.policy.reactions.to(failed.failure) {
            Reaction::Return => return Step::Return,
            Reaction::Again => {
                return Step::Retry {
                    endpoint: self.endpoint,
                    pause: Duration::ZERO,
                };
            }
            Reaction::Stay => {}
            Reaction::Leave => self.endpoint = (self.endpoint + 1) % self.endpoints,
        }
        let since = *self.since.get_or_insert(failed.began);
        self.failures = self.failures.saturating_add(1);
        self.is_failing = true;
        let waited = now.duration_since(since);
        let left = self
            .policy
            .give_up_after
            .map_or(Duration::MAX, |limit| limit.saturating_sub(waited));
        let pause = self.pause(rng).min(left);
        let is_late = |deadline: Instant| deadline.duration_since(now) <= pause;
        if left.is_zero() || failed.deadline.is_some_and(is_late) {
            return Step::GiveUp { waited };
        }
        Step::Retry {
            endpoint: self.endpoint,
            pause,
        }
    }

    /// Returns the pause after the failures so far. A pause follows when all endpoints have failed
    /// once more: the active one may be any of them.
    fn pause(&self, rng: &mut impl Rng) -> Duration {
        if !self.failures.is_multiple_of(self.endpoints) {
            return Duration::ZERO;
        }
        let Pauses { first, max } = self.policy.pauses;
        let rounds = self.failures / self.endpoints;
        let doublings = u32::try_from(rounds - 1).unwrap_or(u32::MAX).min(16);
        let pause = first.saturating_mul(1 << doublings);
        let pause = pause.min(max).min(self.policy.interval_max);
        // Half of it is random, so that callers that lost the same ResourceManager do not come back
        // in step.
        pause.mul_f64(rng.random_range(0.5..=1.0))
    }
}

#[cfg(test)]
mod tests;
