//! Nodes that fail, in a scenario.

use serde::Deserialize;

/// Failures of nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Failures {
    /// Mean time until a node fails, exponential; 0: none does.
    pub up_s: u64,
    /// Time until it is back.
    pub down_s: u64,
    /// Time without a heartbeat after which the ResourceManager takes a node for lost
    /// (`yarn.nm.liveness-monitor.expiry-interval-ms`).
    pub expiry_s: u64,
    /// Time after which a start call to a node that is down fails
    /// (`yarn.client.nodemanager-connect.max-wait-ms`).
    pub connect_s: u64,
}

impl Default for Failures {
    fn default() -> Self {
        Self {
            up_s: 0,
            down_s: 300,
            expiry_s: 600,
            connect_s: 180,
        }
    }
}

impl Failures {
    /// Returns what headlines say of them; empty if there are none.
    pub(crate) fn described(&self) -> String {
        if self.up_s == 0 {
            return String::new();
        }
        format!(
            ", each of which fails every {} s for {} s",
            self.up_s, self.down_s
        )
    }
}
