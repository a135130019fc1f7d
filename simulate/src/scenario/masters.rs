//! Containers of ApplicationMasters in a scenario.

use serde::Deserialize;

use crate::delay::Delay;

/// ApplicationMasters.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Masters {
    /// Whether each takes a place of its own, in a guaranteed container, until its job has ended.
    /// Otherwise they run outside the cluster.
    pub container: bool,
    /// Time from the first instruction of its process to its first call.
    pub start_ms: Delay,
    /// Percentage of the places that masters may take together; further jobs wait
    /// (`yarn.scheduler.capacity.maximum-am-resource-percent`). One master always may run.
    pub share_percent: u32,
}

impl Default for Masters {
    fn default() -> Self {
        Self {
            container: false,
            start_ms: Delay::fixed(0),
            share_percent: 10,
        }
    }
}

impl Masters {
    /// Returns how many masters may run at a time on so many places; `None`: they take no place.
    pub(crate) fn most(&self, places: u64) -> Option<u64> {
        let share = u64::from(self.share_percent);
        let most = (places / 100 * share + places % 100 * share / 100).max(1);
        self.container.then_some(most)
    }

    /// Returns what headlines say of them; empty if they take no place.
    pub(crate) fn described(&self) -> String {
        if !self.container {
            return String::new();
        }
        format!(
            ", each in a container and started in {} (at most {} % of the places)",
            self.start_ms, self.share_percent
        )
    }
}
