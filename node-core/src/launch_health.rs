//! Launches as a sign of the node's health. Pure: outcomes and time in, a finding out.
//!
//! A node on which no process can be started fails each container within a millisecond, is free
//! again, and gets the next one: it would swallow job after job. So after some launches in a row
//! that failed for the node's own reasons the node is unhealthy, and gets no containers. It cannot
//! learn then that it is well again, except from containers that it still has. So after a pause it
//! counts as healthy: the next launch decides, and each further failure doubles the pause.
//!
//! Failures of a container's own, such as a command that does not exist, never count.

use records::MonoMillis;

/// Launches in a row that fail before the node is unhealthy. A shortage that passes fails fewer.
const FAILURES_MAX: u32 = 10;

/// First pause, in milliseconds. A ResourceManager ends the containers of an unhealthy node, which
/// frees what was missing within seconds.
const PAUSE_FIRST_MS: u64 = 60_000;

/// Longest pause, in milliseconds.
const PAUSE_MAX_MS: u64 = 10 * 60_000;

/// Outcomes of the last launches.
#[derive(Debug)]
pub(super) struct LaunchHealth {
    /// Failures for the node's own reasons since the last success.
    failures: u32,
    /// Cause of the last of them.
    cause: String,
    /// End of the pause; `None`: the node is healthy.
    pause_ends: Option<MonoMillis>,
    next_pause_ms: u64,
}

impl Default for LaunchHealth {
    fn default() -> Self {
        Self {
            failures: 0,
            cause: String::new(),
            pause_ends: None,
            next_pause_ms: PAUSE_FIRST_MS,
        }
    }
}

impl LaunchHealth {
    /// Counts a launch that failed for a reason of the node.
    pub(super) fn failed(&mut self, cause: &str, now: MonoMillis) {
        self.failures = self.failures.saturating_add(1);
        if self.failures < FAILURES_MAX || self.pause_ends.is_some() {
            return;
        }
        cause.clone_into(&mut self.cause);
        self.pause_ends = Some(now + self.next_pause_ms);
        self.next_pause_ms = (2 * self.next_pause_ms).min(PAUSE_MAX_MS);
    }

    /// Forgets the failures: a process was started.
    pub(super) fn succeeded(&mut self) {
        if self.failures > 0 {
            *self = Self::default();
        }
    }

    /// Returns the end of the pause.
    pub(super) const fn deadline(&self) -> Option<MonoMillis> {
        self.pause_ends
    }

    /// Ends the pause if it is over. Then one more failure begins the next.
    pub(super) fn tick(&mut self, now: MonoMillis) {
        if self.pause_ends.is_some_and(|ends| ends <= now) {
            self.pause_ends = None;
            self.failures = FAILURES_MAX - 1;
        }
    }

    /// Returns why the node is unhealthy; `None`: it is not, for all that launches tell.
    pub(super) fn complaint(&self) -> Option<String> {
        let cause = &self.cause;
        self.pause_ends
            .map(|_| format!("the last {FAILURES_MAX} or more launches failed: {cause}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fail(health: &mut LaunchHealth, times: u32, now_ms: u64) {
        for _ in 0..times {
            health.failed("no processes", MonoMillis(now_ms));
        }
    }

    #[test]
    fn only_failures_without_a_success_between_them_count() {
        let mut health = LaunchHealth::default();
        fail(&mut health, FAILURES_MAX - 1, 0);
        health.succeeded();
        fail(&mut health, FAILURES_MAX - 1, 0);
        assert_eq!((health.complaint(), health.deadline()), (None, None));
        fail(&mut health, 1, 0);
        let complaint = health.complaint().unwrap();
        assert!(complaint.ends_with("failed: no processes"), "{complaint}");
        health.succeeded();
        assert_eq!((health.complaint(), health.deadline()), (None, None));
    }

    #[test]
    fn after_each_pause_one_launch_decides_and_pauses_grow_within_a_limit() {
        let mut health = LaunchHealth::default();
        fail(&mut health, FAILURES_MAX, 0);
        let mut now_ms = 0;
        for pause_ms in [60_000, 120_000, 240_000, 480_000, 600_000, 600_000] {
            assert_eq!(health.deadline(), Some(MonoMillis(now_ms + pause_ms)));
            // A failure during the pause changes nothing.
            fail(&mut health, 5, now_ms + 1);
            health.tick(MonoMillis(now_ms + pause_ms - 1));
            assert!(health.complaint().is_some());
            now_ms += pause_ms;
            health.tick(MonoMillis(now_ms));
            assert_eq!(health.complaint(), None);
            fail(&mut health, 1, now_ms);
        }
        health.succeeded();
        fail(&mut health, FAILURES_MAX, 0);
        assert_eq!(health.deadline(), Some(MonoMillis(PAUSE_FIRST_MS)));
    }
}
