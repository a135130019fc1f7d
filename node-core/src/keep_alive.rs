//! Ended applications whose tokens the ResourceManager is to keep, since their logs are not up yet
//! (Hadoop: `NodeStatusUpdaterImpl.createKeepAliveApplicationList`). Pure.

use std::collections::BTreeMap;

use records::{ApplicationId, MonoMillis};

/// When each application is to be named again.
#[derive(Debug, Default)]
pub(super) struct KeepAlive(BTreeMap<ApplicationId, MonoMillis>);

impl KeepAlive {
    /// Returns which of the applications that `wait` a heartbeat has to name: each when it is seen
    /// first, by this agent, and again after 0.7 to 0.9 of the interval after which the
    /// ResourceManager cancels tokens. Others are forgotten.
    pub(super) fn due(
        &mut self,
        wait: impl Iterator<Item = ApplicationId>,
        interval_ms: u64,
        now: MonoMillis,
    ) -> Vec<ApplicationId> {
        let mut due = Vec::new();
        let before = std::mem::take(&mut self.0);
        self.0 = wait
            .map(|id| {
                let at = before.get(&id).copied().unwrap_or(now);
                if at > now {
                    return (id, at);
                }
                due.push(id);
                (id, now + pause_ms(id, interval_ms))
            })
            .collect();
        due
    }

    /// Names all again with the next heartbeat: one without an answer may not have been read.
    pub(super) fn not_answered(&mut self) {
        self.0.clear();
    }
}

/// Returns the time to the next naming. Applications differ in it, so that the namings of a node do
/// not fall together.
fn pause_ms(id: ApplicationId, interval_ms: u64) -> u64 {
    let spread = u64::from(id.id.unsigned_abs()) * 37 % 200;
    (interval_ms / 1000).saturating_mul(700 + spread)
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTERVAL_MS: u64 = 600_000;

    fn id(number: i32) -> ApplicationId {
        ApplicationId {
            cluster_timestamp: 1,
            id: number,
        }
    }

    #[test]
    fn an_application_is_named_at_once_and_again_before_its_tokens_end() {
        let mut keep_alive = KeepAlive::default();
        let mut named = Vec::new();
        for second in 0..1800 {
            let now = MonoMillis(second * 1000);
            if !keep_alive
                .due([id(7)].into_iter(), INTERVAL_MS, now)
                .is_empty()
            {
                named.push(second);
            }
        }
        assert_eq!(named[0], 0);
        assert!(named.len() >= 3, "{named:?}");
        for pair in named.windows(2) {
            assert!((420..=541).contains(&(pair[1] - pair[0])), "{named:?}");
        }
    }

    #[test]
    fn one_that_waits_no_more_is_not_named_and_an_unanswered_heartbeat_counts_as_none() {
        let mut keep_alive = KeepAlive::default();
        let now = MonoMillis(5);
        let both = || [id(1), id(2)].into_iter();
        assert_eq!(keep_alive.due(both(), INTERVAL_MS, now), [id(1), id(2)]);
        assert!(keep_alive.due(both(), INTERVAL_MS, now).is_empty());
        let late = MonoMillis(INTERVAL_MS);
        assert_eq!(
            keep_alive.due([id(2)].into_iter(), INTERVAL_MS, late),
            [id(2)]
        );
        assert!(
            keep_alive
                .due([id(2)].into_iter(), INTERVAL_MS, late)
                .is_empty()
        );
        keep_alive.not_answered();
        assert_eq!(
            keep_alive.due([id(2)].into_iter(), INTERVAL_MS, late),
            [id(2)]
        );
    }
}
