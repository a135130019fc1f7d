//! What all watch tasks share: the registry, the scanner, the receiver of their events.

use std::sync::Arc;
use std::time::Duration;

use records::ContainerId;
use tokio::sync::{Notify, mpsc};
use tokio::time::timeout;

use super::context::LaunchEvent;
use super::diagnostics::StderrPattern;
use super::finishing::Finishing;
use super::process_tree::Process;
use super::registry::Registry;
use super::scanner::{Found, Scanner, Scope};
use super::spawn::Leader;
use super::sweep::GIVE_UP;

/// State shared by all watch tasks.
pub(super) struct Shared {
    /// Pid of the agent.
    pub(super) agent: i32,
    pub(super) registry: Arc<Registry>,
    pub(super) scanner: Scanner,
    pub(super) events: mpsc::Sender<LaunchEvent>,
    pub(super) sigkill_delay: Duration,
    pub(super) stderr_pattern: StderrPattern,
    pub(super) stderr_tail_bytes: u64,
    pub(super) finishing: Finishing,
    /// Whether a leader that has ended is kept until the agent has stored its end.
    pub(super) keeps_ended: bool,
    /// Notified when a task panics: then a container's end would never be reported.
    pub(super) broken: Arc<Notify>,
}

/// Guard of a task that may not panic.
pub(super) struct PanicAlarm(pub(super) Arc<Notify>);

impl Drop for PanicAlarm {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.notify_one();
        }
    }
}

impl Shared {
    /// Reports an event. Nobody listens any more when the agent stops; then nobody needs to know.
    pub(super) async fn report(&self, event: LaunchEvent) {
        if self.events.send(event).await.is_err() {
            tracing::debug!("nobody takes launch events any more");
        }
    }

    /// Reaps a leader, or keeps it until [`super::Launcher::release`].
    pub(super) fn done_with(&self, id: ContainerId, leader: Leader) {
        let reaped = if self.keeps_ended {
            self.registry.keep_ended(id, leader)
        } else {
            Some(leader)
        };
        if let Some(leader) = reaped {
            self.registry.reap(leader);
        }
    }

    /// Returns the processes that a look finds without the leader, and those of an earlier look
    /// that still live.
    pub(super) async fn left_overs(
        &self,
        id: ContainerId,
        leader: i32,
        scope: Scope,
        seen: &[Process],
    ) -> Found {
        let search = self.scanner.members(id, leader, scope);
        // There is no hurry here as with an order: a slow scan is better than a process overlooked.
        let mut found = timeout(GIVE_UP, search).await.unwrap_or_else(|_late| {
            tracing::warn!(container = %id, "it cannot be seen in time what a container left behind");
            Found::nothing()
        });
        let still = seen.iter().filter(|seen| {
            Process::read(seen.pid)
                .is_some_and(|now| now.start_time == seen.start_time && !now.has_ended)
        });
        found.members.extend(still);
        found
            .members
            .sort_unstable_by_key(|member| (member.pid, member.start_time));
        found
            .members
            .dedup_by_key(|member| (member.pid, member.start_time));
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_task_that_panics_is_noticed_and_one_that_ends_is_not() {
        let broken = Arc::<Notify>::default();
        drop(PanicAlarm(Arc::clone(&broken)));
        let (quiet, alarm) = (Arc::clone(&broken), PanicAlarm(Arc::clone(&broken)));
        assert!(timeout(Duration::ZERO, quiet.notified()).await.is_err());
        let task = tokio::spawn(async move {
            let _alarm = alarm;
            panic!("on purpose");
        });
        assert!(task.await.is_err());
        broken.notified().await;
    }
}
