//! Division of the descriptors that the process may have open among the ports. Pure.
//!
//! Peers of one port must not take the descriptors of the others: nodes would be lost, and masters
//! not be answered. So each port has a bound that follows from the limit of open files.

use std::fmt;

/// Descriptors of each port, out of the limit of open files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Descriptors {
    /// Connections of clients, at `yarn.resourcemanager.address`.
    pub(crate) client: usize,
    /// Connections of ApplicationMasters, at `yarn.resourcemanager.scheduler.address`.
    pub(crate) scheduler: usize,
    /// Connections of nodes, at `yarn.resourcemanager.resource-tracker.address`.
    pub(crate) tracker: usize,
    /// Connections at `yarn.resourcemanager.webapp.address`.
    pub(crate) web: usize,
    /// Descriptors that no peer can take: for launches of masters and the runtime.
    pub(crate) kept: usize,
}

impl Descriptors {
    /// Divides a limit of open files: a quarter for nodes and one for masters, each of which has a
    /// connection of its own, an eighth for clients, a sixteenth for web clients.
    pub(crate) fn divide(limit: u64) -> Self {
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let (client, scheduler, tracker, web) = (limit / 8, limit / 4, limit / 4, limit / 16);
        Self {
            client,
            scheduler,
            tracker,
            web,
            kept: limit - client - scheduler - tracker - web,
        }
    }
}

impl fmt::Display for Descriptors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "open files: at most {} connections of clients, {} of masters, {} of nodes, {} of web \
             clients, {} kept",
            self.client, self.scheduler, self.tracker, self.web, self.kept
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_limit_lets_peers_take_more_than_eleven_sixteenths() {
        for limit in [0, 1, 64, 1_024, 4_096, 1 << 20, u64::MAX] {
            let parts = Descriptors::divide(limit);
            let limit = usize::try_from(limit).unwrap();
            assert!(parts.kept >= limit / 16 * 5, "{limit}: {parts:?}");
        }
        assert_eq!(
            Descriptors::divide(1_024),
            Descriptors {
                client: 128,
                scheduler: 256,
                tracker: 256,
                web: 64,
                kept: 320,
            }
        );
    }
}
