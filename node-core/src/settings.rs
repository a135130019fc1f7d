//! Settings that change while the core runs.

use launch_context::ContextLimits;
use records::Now;
use sched::{Event, RuntimeSettings};

use super::Core;

/// Values that the core takes while it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CoreSettings {
    /// Settings of the scheduler.
    pub scheduler: RuntimeSettings,
    /// Value of `yarn.nodemanager.log.retain-seconds`, in milliseconds.
    pub log_retain_ms: u64,
    /// Value of `yarn.nodemanager.duration-to-track-stopped-containers`, milliseconds.
    pub track_stopped_ms: u64,
    /// Limits on launch contexts.
    pub contexts: ContextLimits,
}

impl Core {
    /// Takes new settings in place of the old ones. What has a deadline keeps it: logs of
    /// applications that have ended are deleted at the time that was set then.
    pub fn change_settings(&mut self, settings: CoreSettings, now: Now) {
        let CoreSettings {
            scheduler,
            log_retain_ms,
            track_stopped_ms,
            contexts,
        } = settings;
        self.config.log_retain_ms = log_retain_ms;
        self.config.contexts = contexts;
        self.contexts.set_limits(contexts);
        self.ledger.set_track_stopped_ms(track_stopped_ms);
        self.must_feed(Event::Settings(scheduler), now);
    }
}
