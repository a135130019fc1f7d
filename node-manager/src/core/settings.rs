//! Settings that change while the core runs.

use records::Now;
use sched::Event;

use super::Core;
use crate::reload::CoreSettings;

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
