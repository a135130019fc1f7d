//! Counters of one role over all nodes (Slider: `RoleStatus`).

use std::collections::BTreeSet;

use records::ContainerId;

use crate::container_outcome::ContainerOutcome;

/// Most ids of failed containers that a role keeps between two resets. Enough to look at the logs
/// of some; the counters count all.
const FAILED_CONTAINERS_MAX: usize = 100;

/// Most characters of a failure text that a role keeps.
const FAILURE_MESSAGE_CHARS_MAX: usize = 1_000;

/// Counters of one role. Outstanding requests are counted by their tracker.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RoleStatus {
    /// Containers that the role should have.
    pub desired: u32,
    /// Containers accepted and not completed.
    pub actual: u32,
    /// Containers whose release is submitted and not completed.
    pub releasing: u32,
    /// Containers of an anti-affine role that no ask in flight covers.
    pub pending_anti_affine: u32,
    /// Number of confirmed starts.
    pub started: u64,
    /// Number of completed releases.
    pub completed: u64,
    /// Containers ever asked for.
    pub total_requested: u64,
    /// Failures of every kind, of the application and of nodes.
    pub failed: u64,
    /// Failures since the last reset that count towards the limit of the application.
    pub failed_recently: u32,
    /// Failed starts, and failures soon after a start.
    pub start_failed: u64,
    /// Failures by exceeded limits.
    pub limits_exceeded: u64,
    /// Failures of nodes.
    pub node_failed: u64,
    /// Evicted containers, which are no failures.
    pub preempted: u64,
    /// Text of the last failure, cut to a length that fits a page.
    pub failure_message: Option<String>,
    /// Containers that failed since the last reset: the first hundred.
    pub failed_containers: BTreeSet<ContainerId>,
}

impl RoleStatus {
    /// Counts the end of a container that was not being released.
    pub(crate) fn complete(
        &mut self,
        container: ContainerId,
        outcome: ContainerOutcome,
        short_lived: bool,
        diagnostics: &str,
    ) {
        match outcome {
            ContainerOutcome::Completed => return,
            ContainerOutcome::Preempted => {
                self.preempted += 1;
                return;
            }
            ContainerOutcome::NodeFailure => self.node_failed += 1,
            ContainerOutcome::FailedLimitsExceeded => self.limits_exceeded += 1,
            ContainerOutcome::Failed => {}
        }
        self.failed += 1;
        if outcome.is_charged_to_role() {
            self.failed_recently = self.failed_recently.saturating_add(1);
            self.start_failed += u64::from(short_lived);
        }
        if self.failed_containers.len() < FAILED_CONTAINERS_MAX {
            self.failed_containers.insert(container);
        }
        self.failure_message = Some(
            diagnostics
                .chars()
                .take(FAILURE_MESSAGE_CHARS_MAX)
                .collect(),
        );
    }

    /// Forgets the recent failures. Lifetime counters stay.
    pub(crate) fn reset_failed_recently(&mut self) {
        self.failed_recently = 0;
        self.failed_containers.clear();
    }
}

#[cfg(test)]
mod tests {
    use records::ApplicationId;

    use super::*;

    /// Returns failed, failed recently, failed starts, exceeded limits, node failures, preemptions.
    fn counters(outcome: ContainerOutcome, short_lived: bool) -> [u64; 6] {
        let mut status = RoleStatus::default();
        let container = ApplicationId::new(1, 1).attempt(1).container(1);
        status.complete(container, outcome, short_lived, "text");
        [
            status.failed,
            status.failed_recently.into(),
            status.start_failed,
            status.limits_exceeded,
            status.node_failed,
            status.preempted,
        ]
    }

    #[test]
    fn outcomes_count_as_in_the_table() {
        use ContainerOutcome::{Completed, Failed, FailedLimitsExceeded, NodeFailure, Preempted};
        for (outcome, short_lived, expected) in [
            (Completed, false, [0, 0, 0, 0, 0, 0]),
            (Completed, true, [0, 0, 0, 0, 0, 0]),
            (Failed, false, [1, 1, 0, 0, 0, 0]),
            (Failed, true, [1, 1, 1, 0, 0, 0]),
            (FailedLimitsExceeded, false, [1, 1, 0, 1, 0, 0]),
            (FailedLimitsExceeded, true, [1, 1, 1, 1, 0, 0]),
            (NodeFailure, false, [1, 0, 0, 0, 1, 0]),
            (NodeFailure, true, [1, 0, 0, 0, 1, 0]),
            (Preempted, false, [0, 0, 0, 0, 0, 1]),
            (Preempted, true, [0, 0, 0, 0, 0, 1]),
        ] {
            assert_eq!(
                counters(outcome, short_lived),
                expected,
                "{outcome:?} {short_lived}"
            );
        }
    }

    #[test]
    fn a_role_that_fails_for_ever_stays_small() {
        let mut status = RoleStatus::default();
        let attempt = ApplicationId::new(1, 1).attempt(1);
        for number in 0..10_000 {
            let text = "x".repeat(5_000);
            status.complete(
                attempt.container(number),
                ContainerOutcome::Failed,
                true,
                &text,
            );
        }
        assert_eq!(status.failed, 10_000);
        assert_eq!(status.failed_containers.len(), FAILED_CONTAINERS_MAX);
        assert_eq!(
            status.failure_message.map(|text| text.len()),
            Some(FAILURE_MESSAGE_CHARS_MAX)
        );
    }
}
