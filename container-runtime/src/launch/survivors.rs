//! Processes of a container whose end was not reached in time: they wait for a device, or somebody
//! else's tracer holds them.
//!
//! The container's end is reported without them, and what the container took is withheld from
//! others until they are gone ([`LaunchEvent::ProcessesStay`], [`LaunchEvent::LeftoversGone`]).
//! They are signalled and their tracers looked for again and again, ever more rarely.

use std::sync::Arc;
use std::time::Duration;

use cgroup::Cgroup;
use records::ContainerId;
use tokio::time::{sleep, timeout};

use super::blocking::blocking;
use super::context::LaunchEvent;
use super::leader::WatchedLeader;
use super::process_tree::Process;
use super::scanner::{Scope, Sight};
use super::shared::Shared;
use super::sweep::signal_member;
use super::tracer::{describe, end_tracers};

/// Shortest and longest time between two tries to end them.
const RETRY: Duration = Duration::from_secs(1);
const RETRY_MAX: Duration = Duration::from_secs(30);

/// Processes that SIGKILL did not end within its time.
pub(super) struct Survivors {
    pub(super) id: ContainerId,
    /// First process; `None`: it has ended.
    pub(super) leader: Option<WatchedLeader>,
    /// Pid that the first process has or had.
    pub(super) leader_pid: i32,
    /// Cgroups that are not empty, or may not be.
    pub(super) groups: Vec<Cgroup>,
    /// The others, as of the last look.
    pub(super) members: Vec<Process>,
}

impl Survivors {
    /// Returns the line for the container's diagnostics.
    pub(super) fn text(&self) -> String {
        let mut pids: Vec<i32> = self.leader.iter().map(WatchedLeader::pid).collect();
        pids.extend(self.members.iter().map(|member| member.pid));
        let listed = self.groups.iter().filter_map(|group| group.running().ok());
        pids.extend(listed.flatten());
        pids.sort_unstable();
        pids.dedup();
        format!(
            "Processes of the container survive SIGKILL: {}. What the container took is withheld until they have ended.\n",
            describe(&pids)
        )
    }

    /// Tries to end them until they are gone, and reports that.
    pub(super) async fn until_gone(mut self, shared: Arc<Shared>) {
        let mut pause = RETRY;
        while !self.are_gone(&shared, pause).await {
            pause = (pause * 2).min(RETRY_MAX);
        }
        shared.registry.survived(self.id);
        tracing::info!(container = %self.id, "processes that had survived SIGKILL are gone");
        shared
            .report(LaunchEvent::LeftoversGone(self.id.name()))
            .await;
    }

    /// Waits for a while, and signals whatever is left then. Returns whether nothing is.
    async fn are_gone(&mut self, shared: &Shared, pause: Duration) -> bool {
        let has_ended = match &self.leader {
            Some(leader) => timeout(pause, leader.ended()).await.is_ok(),
            None => {
                sleep(pause).await;
                false
            }
        };
        if has_ended && let Some(WatchedLeader::Child(leader)) = self.leader.take() {
            shared.registry.reap(leader.into_inner());
        }
        let mut pids: Vec<i32> = self.leader.iter().map(WatchedLeader::pid).collect();
        if let Some(leader) = &self.leader {
            leader.signal_group(libc::SIGKILL);
        }
        let found = shared.left_overs(self.id, self.leader_pid, Scope::Doomed, &self.members);
        let found = found.await;
        self.members = found.members;
        for member in &self.members {
            signal_member(member, libc::SIGKILL);
        }
        pids.extend(self.members.iter().map(|member| member.pid));
        let (groups, agent) = (self.groups.clone(), shared.agent);
        let left = blocking(move || {
            for group in &groups {
                // A refusal shows in what is left.
                let _refused = group.kill();
                pids.extend(group.running().unwrap_or_default());
            }
            end_tracers(&pids, agent);
            pids.len()
        });
        left.await == Some(0) && found.sight == Sight::Certain
    }
}
