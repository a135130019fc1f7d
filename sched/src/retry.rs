//! Retries of a container whose process failed (Hadoop: `ContainerRetryContext` and
//! `SlidingWindowRetryPolicy`).

use std::collections::{BTreeSet, VecDeque};

use records::{ContainerExitStatus, MonoMillis};
use serde::{Deserialize, Serialize};

/// Most failures within the validity interval of a policy. A policy that allows more gets this
/// many, because the time of each is kept: 8 KB for a container.
pub const FAILURES_IN_WINDOW_MAX: u32 = 1_000;

/// Exit statuses of failures that a policy covers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum RetryOn {
    /// Covers no failure (`NEVER_RETRY`).
    #[default]
    Never,
    /// Covers every failure (`RETRY_ON_ALL_ERRORS`).
    AllErrors,
    /// Covers failures with one of these exit statuses (`RETRY_ON_SPECIFIC_ERROR_CODES`).
    ErrorCodes(BTreeSet<i32>),
}

/// Policy by which a failed container is started again in its allocation (Hadoop:
/// `ContainerRetryContext`). The default never retries.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContainerRetryContext {
    /// Failures after which the container is started again.
    pub on: RetryOn,
    /// Most retries; `None` (the wire's -1): no limit.
    pub max_retries: Option<u32>,
    /// Milliseconds from a failure to the next start, raised to
    /// [`crate::ContainerSchedulerConfig::retry_minimum_interval_ms`].
    pub interval_ms: u64,
    /// Milliseconds after which a failure no longer counts; `None` (the wire's -1): each failure
    /// counts for ever.
    pub failures_validity_ms: Option<u64>,
}

impl ContainerRetryContext {
    /// Returns whether some failure leads to a retry.
    #[must_use]
    pub fn can_retry(&self) -> bool {
        self.on != RetryOn::Never && self.max_retries != Some(0)
    }

    /// Returns whether a failure with this status is covered.
    fn covers(&self, status: ContainerExitStatus) -> bool {
        is_failure(status)
            && match &self.on {
                RetryOn::Never => false,
                RetryOn::AllErrors => true,
                RetryOn::ErrorCodes(codes) => codes.contains(&status.0),
            }
    }
}

/// Returns whether a process with this exit status failed. Success and ends by SIGTERM or SIGKILL
/// are no failures (Hadoop: `ContainerImpl.shouldRetry`).
pub(crate) fn is_failure(status: ContainerExitStatus) -> bool {
    status != ContainerExitStatus::SUCCESS && !status.is_signalled()
}

/// Retry that was granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Retry {
    /// Milliseconds until the next start.
    pub(crate) after_ms: u64,
    /// Retries that the policy would still grant after this one; `None`: no limit.
    pub(crate) remaining: Option<u32>,
}

/// Retries that a container has been granted by its policy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GrantedRetries {
    /// Number of them, unless the policy has no limit.
    pub count: u32,
    /// Times of those within the policy's validity interval, oldest first; at most
    /// [`FAILURES_IN_WINDOW_MAX`]. Empty if each failure counts for ever.
    pub recent: Vec<MonoMillis>,
}

/// Policy of one container with the retries so far.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Retries {
    policy: ContainerRetryContext,
    /// Retries granted, unless the policy has no limit.
    granted: u32,
    /// Times of the retries within the validity interval, oldest first.
    recent: VecDeque<MonoMillis>,
    /// Retries were granted in an earlier run of the agent, and the policy is not known yet.
    is_recovered: bool,
}

impl Retries {
    /// Returns the counters of a container that has not failed yet.
    pub(crate) fn new(policy: ContainerRetryContext) -> Self {
        Self {
            policy,
            granted: 0,
            recent: VecDeque::new(),
            is_recovered: false,
        }
    }

    /// Returns the counters of a container of an earlier run, whose policy follows.
    pub(crate) fn recovered(retries: GrantedRetries) -> Self {
        let max = usize::try_from(FAILURES_IN_WINDOW_MAX).unwrap_or(usize::MAX);
        let beyond = retries.recent.len().saturating_sub(max);
        Self {
            policy: ContainerRetryContext::default(),
            granted: retries.count,
            recent: retries.recent.into_iter().skip(beyond).collect(),
            is_recovered: true,
        }
    }

    /// Follows a policy, under which no failure counts yet but those of an earlier run.
    pub(crate) fn follow(&mut self, policy: ContainerRetryContext) {
        if std::mem::take(&mut self.is_recovered) {
            self.policy = policy;
        } else {
            *self = Self::new(policy);
        }
    }

    /// Returns the retries that were granted.
    pub(crate) fn granted(&self) -> GrantedRetries {
        GrantedRetries {
            count: self.granted,
            recent: self.recent.iter().copied().collect(),
        }
    }

    /// Returns the policy.
    pub(crate) fn policy(&self) -> &ContainerRetryContext {
        &self.policy
    }

    /// Grants a retry after a failure at `now`, if the policy covers the status and has a retry
    /// left.
    pub(crate) fn grant(&mut self, status: ContainerExitStatus, now: MonoMillis) -> Option<Retry> {
        if !self.policy.covers(status) {
            return None;
        }
        let remaining = match (self.policy.max_retries, self.policy.failures_validity_ms) {
            (None, _) => None,
            (Some(max), None) => {
                let remaining = max.saturating_sub(self.granted).checked_sub(1)?;
                self.granted = self.granted.saturating_add(1);
                Some(remaining)
            }
            (Some(max), Some(validity_ms)) => {
                self.recent.retain(|at| now.since(*at) <= validity_ms);
                let max = usize::try_from(max.min(FAILURES_IN_WINDOW_MAX)).unwrap_or(usize::MAX);
                let remaining = max.saturating_sub(self.recent.len()).checked_sub(1)?;
                self.recent.push_back(now);
                self.granted = self.granted.saturating_add(1);
                Some(u32::try_from(remaining).unwrap_or(u32::MAX))
            }
        };
        Some(Retry {
            after_ms: self.policy.interval_ms,
            remaining,
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn policy(on: RetryOn, max_retries: Option<u32>) -> ContainerRetryContext {
        ContainerRetryContext {
            on,
            max_retries,
            ..ContainerRetryContext::default()
        }
    }

    fn remaining(retries: &mut Retries, status: i32, at: u64) -> Option<Option<u32>> {
        let retry = retries.grant(ContainerExitStatus(status), MonoMillis(at));
        retry.map(|retry| retry.remaining)
    }

    #[test]
    fn each_policy_covers_the_errors_that_it_names() {
        let codes = RetryOn::ErrorCodes([3, 137].into());
        for (on, covered) in [
            (RetryOn::Never, vec![]),
            (RetryOn::AllErrors, vec![-1, 1, 3, 255]),
            (codes, vec![3]),
        ] {
            let policy = policy(on, None);
            let statuses = [-1, 0, 1, 3, 137, 143, 255];
            let found = statuses.map(ContainerExitStatus);
            let found = found.into_iter().filter(|status| policy.covers(*status));
            let found: Vec<_> = found.map(|status| status.0).collect();
            assert_eq!(found, covered, "{policy:?}");
        }
    }

    #[test]
    fn the_limit_is_of_retries_and_not_of_starts() {
        let mut retries = Retries::new(policy(RetryOn::AllErrors, Some(2)));
        assert_eq!(remaining(&mut retries, 1, 0), Some(Some(1)));
        assert_eq!(remaining(&mut retries, 1, 0), Some(Some(0)));
        assert_eq!(remaining(&mut retries, 1, 0), None);
        assert!(!policy(RetryOn::AllErrors, Some(0)).can_retry());
    }

    #[test]
    fn a_failure_counts_for_the_validity_interval() {
        let mut retries = Retries::new(ContainerRetryContext {
            failures_validity_ms: Some(100),
            ..policy(RetryOn::AllErrors, Some(1))
        });
        assert_eq!(remaining(&mut retries, 1, 0), Some(Some(0)));
        assert_eq!(remaining(&mut retries, 1, 100), None);
        assert_eq!(remaining(&mut retries, 1, 101), Some(Some(0)));
    }

    #[test]
    fn retries_of_an_earlier_run_count_under_the_policy_that_follows_and_no_other() {
        let forever = policy(RetryOn::AllErrors, Some(2));
        let in_window = ContainerRetryContext {
            failures_validity_ms: Some(100),
            ..forever.clone()
        };
        for policy in [forever, in_window] {
            let mut first = Retries::new(policy.clone());
            assert_eq!(remaining(&mut first, 1, 5), Some(Some(1)));
            let mut next = Retries::recovered(first.granted());
            next.follow(policy.clone());
            assert_eq!(remaining(&mut next, 1, 9), Some(Some(0)), "{policy:?}");
            assert_eq!(remaining(&mut next, 1, 10), None);
            assert_eq!(next.granted().count, 2);
            next.follow(policy);
            assert_eq!(remaining(&mut next, 1, 11), Some(Some(1)));
        }
    }

    proptest! {
        #[test]
        fn no_window_grants_more_than_the_limit(
            max in 0_u32..5,
            validity_ms in 1_u64..50,
            pauses in prop::collection::vec(0_u64..30, 0..60),
        ) {
            let mut retries = Retries::new(ContainerRetryContext {
                failures_validity_ms: Some(validity_ms),
                ..policy(RetryOn::AllErrors, Some(max))
            });
            let mut at = 0;
            let mut granted: Vec<u64> = Vec::new();
            for pause in pauses {
                at += pause;
                let recent = granted.iter().filter(|then| at - **then <= validity_ms).count();
                let expected = recent < usize::try_from(max).unwrap();
                let was_granted = remaining(&mut retries, 1, at).is_some();
                prop_assert_eq!(was_granted, expected);
                if was_granted {
                    granted.push(at);
                }
            }
        }
    }
}
