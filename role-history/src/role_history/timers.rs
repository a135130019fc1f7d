//! What happens by itself: escalation of placed asks, and the reset of recent failures (Slider:
//! `OutstandingRequestTracker.escalateOutstandingRequests`, `AppState.resetFailureCounts`).

use records::Now;

use super::RoleHistory;
use crate::action::Action;

impl RoleHistory {
    /// Does what is due. Call at [`next_deadline`](Self::next_deadline), or more often.
    ///
    /// Slider looks every 30 s, so an ask waits for up to twice its timeout. Here each ask is
    /// relaxed at its deadline.
    pub fn on_tick(&mut self, now: Now, actions: &mut Vec<Action>) {
        for request in self.outstanding.expired(now.mono) {
            self.escalate(request, actions);
        }
        if self.next_reset.is_some_and(|at| at <= now.mono) {
            self.reset_failed_recently();
            // From now, not from the last reset: a process that slept owes no resets.
            let window = self.config.failure_window_ms;
            self.next_reset = window.map(|window| now.mono + window.get());
            self.review(now, actions);
        }
    }

    fn reset_failed_recently(&mut self) {
        for state in self.roles.values_mut() {
            state.status.reset_failed_recently();
        }
        self.nodes.reset_failed_recently();
    }
}
