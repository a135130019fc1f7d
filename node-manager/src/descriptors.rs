//! Division of the descriptors that the process may have open. Pure.
//!
//! Peers must not take the descriptors that launches need: without them every container fails. So
//! each port has a bound that follows from the limit, and half is for everything else: the pipes,
//! logs and pidfds of containers, downloads, the cgroup files and the runtime.

use std::fmt;

/// Connections of web clients at most, as `http_server::Limits` has by default.
const WEB_MAX: usize = 256;

/// Descriptors of each part of the node, out of the limit of open files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Descriptors {
    /// Connections at `yarn.nodemanager.address`, before and after authentication.
    pub container_management: usize,
    /// Connections at `yarn.nodemanager.amrmproxy.address`.
    pub amrm_proxy: usize,
    /// Connections at `yarn.nodemanager.webapp.address`.
    pub web: usize,
    /// Connections at `mapreduce.shuffle.port`, each with an open file.
    pub shuffle: usize,
    /// Descriptors that no peer can take.
    pub kept: usize,
}

impl Descriptors {
    /// Divides a limit of open files: a quarter for container management, an eighth for the proxy,
    /// a sixteenth for web clients and one for reducers, whose connections take two each.
    #[must_use]
    pub fn divide(limit: u64) -> Self {
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let (container_management, amrm_proxy) = (limit / 4, limit / 8);
        let web = (limit / 16).clamp(1, WEB_MAX);
        let shuffle = limit / 32;
        Self {
            container_management,
            amrm_proxy,
            web,
            shuffle,
            kept: limit.saturating_sub(container_management + amrm_proxy + web + 2 * shuffle),
        }
    }
}

impl fmt::Display for Descriptors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "open files: {} connections of containers' masters, {} of the AMRMProxy, {} of web \
             clients, {} of reducers, {} kept for containers",
            self.container_management, self.amrm_proxy, self.web, self.shuffle, self.kept
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_limit_lets_peers_take_more_than_half() {
        for limit in [0, 1, 64, 1_024, 4_096, 1 << 20, u64::MAX] {
            let parts = Descriptors::divide(limit);
            let limit = usize::try_from(limit).unwrap();
            assert!(parts.kept >= limit / 2, "{limit}: {parts:?}");
        }
        assert_eq!(
            Descriptors::divide(4_096),
            Descriptors {
                container_management: 1_024,
                amrm_proxy: 512,
                web: 256,
                shuffle: 128,
                kept: 2_048,
            }
        );
    }
}
