//! One task per container: follows orders while the leader runs, reads its exit status, ends the
//! processes that it left behind, reaps it.
//!
//! The leader is reaped **last**. While it is a zombie, its pid and so its process group cannot be
//! given to anybody else, and signals to the group cannot hit a stranger. Everything else is
//! signalled through a handle on the process that was compared with what was seen in `/proc`.

use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use localize::{ContainerFolder, UserName};
use records::{ContainerExitStatus, ContainerId};
use tokio::io::unix::AsyncFd;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until, timeout, timeout_at};

use super::blocking::blocking;
use super::confined_end;
use super::context::LaunchEvent;
use super::debug_info::DebugTicket;
use super::finish::Finished;
use super::leader::WatchedLeader;
use super::process_tree::Process;
use super::registered::register;
use super::registry::Order;
use super::scanner::{Found, Scope, Sight};
use super::shared::{PanicAlarm, Shared};
use super::spawn::Leader;
use super::survivors::Survivors;
use super::sweep::{GIVE_UP, Sweep, WAITED_FOR_MAX, signal_member};
use super::tracer::{Looks, describe, end_tracers};
use crate::isolation::Confined;

/// Maximum time that an order waits for a scan. A scan takes milliseconds; when `/proc` hangs, the
/// process group is signalled without it.
const SCAN_WAIT: Duration = Duration::from_secs(1);
/// Pause between two scans when there is no handle to wait for.
const PAUSE: Duration = Duration::from_millis(5);
/// Pause before a look that is to confirm that nothing is left.
const CONFIRM: Duration = Duration::from_millis(1);
/// Maximum number of processes remembered from an order to the end.
const SEEN_MAX: usize = 4_096;
/// Lead time before SIGKILL at which the process tree is scanned, so that the scan (about 10 µs
/// for each process of the machine) does not delay the kill.
const SCAN_LEAD: Duration = Duration::from_millis(50);
/// Maximum age of a scan that a SIGKILL may rely on. Processes that a container starts outside its
/// group after the scan are still found when the leader has ended, unless they have changed both
/// session and environment.
const SCAN_AGE_MAX: Duration = Duration::from_millis(100);
/// Time for the rest of a process group to end after its leader.
const SETTLE: Duration = Duration::from_millis(5);
/// A container whose process exists.
pub(super) struct Watch {
    pub(super) id: ContainerId,
    /// User whose turns the work on its files takes.
    pub(super) user: UserName,
    pub(super) leader: WatchedLeader,
    pub(super) orders: watch::Receiver<Order>,
    pub(super) log_dir: ContainerFolder,
    pub(super) debug_info: Option<DebugTicket>,
    /// Cgroups of the container. They list every process, so no scan of `/proc` is needed.
    pub(super) confined: Option<Confined>,
    /// Processes of the container at the last scan, followed by those of earlier scans. Once their
    /// parents are gone, this list may be the only link to the container.
    pub(super) seen: Vec<Process>,
    /// Time of the last scan ahead of a SIGKILL.
    pub(super) foreseen: Option<Instant>,
}

/// Registers a leader with the runtime, in whose context this must be called. On failure it is
/// killed.
pub(super) fn watchable(leader: Leader) -> Result<AsyncFd<Leader>, (i32, std::io::Error)> {
    register(leader).map_err(|refused| {
        let (leader, error) = refused.into_parts();
        let pid = leader.pid();
        leader.abandon();
        (pid, error)
    })
}

impl Watch {
    /// Watches from the launch to the end.
    pub(super) async fn run(mut self, shared: Arc<Shared>, launched: Option<LaunchEvent>) {
        let _alarm = PanicAlarm(Arc::clone(&shared.broken));
        if let Some(launched) = launched {
            shared.report(launched).await;
        }
        let has_ended = self.until_leader_ends(&shared).await;
        let status = if has_ended {
            self.leader.status().await
        } else {
            Some(ContainerExitStatus::FORCE_KILLED)
        };
        let left = self.end_left_overs(&shared, has_ended).await;
        let status = match status {
            Some(status) => status,
            None => self.status_at_last(&shared).await,
        };
        let Self { id, leader, .. } = self;
        let pid = leader.pid();
        let survivors = left.map(|members| {
            shared.registry.survives(id, pid);
            let groups = self.confined.as_ref().map(Confined::cgroups);
            Survivors {
                id,
                leader: None,
                leader_pid: pid,
                groups: groups.unwrap_or_default(),
                members,
            }
        });
        shared.registry.remove(id);
        let survivors = part_with(id, leader, has_ended, survivors, &shared);
        let note = survivors.as_ref().map(Survivors::text);
        if let Some(note) = &note {
            tracing::warn!(container = %id, "{}", note.trim_end());
            shared.report(LaunchEvent::ProcessesStay(id)).await;
        }
        // Whoever waits for the room does not wait for disks and for what is left to be removed.
        shared.report(LaunchEvent::ProcessesGone(id)).await;
        let processes_stay = survivors.is_some();
        if let Some(survivors) = survivors {
            tokio::spawn(survivors.until_gone(Arc::clone(&shared)));
        }
        if let Some(ticket) = self.debug_info {
            ticket.finished().await;
        }
        let finished = Finished {
            id,
            pid,
            status,
            ordered: *self.orders.borrow() > Order::Run,
            processes_stay,
            user: self.user,
            confined: self.confined,
            log_dir: self.log_dir,
        };
        let (status, diagnostics) = finished.files(&shared).await;
        shared
            .report(LaunchEvent::Exited {
                id,
                status,
                cause: diagnostics.executor + note.as_deref().unwrap_or_default(),
                diagnostics: diagnostics.exit_code,
            })
            .await;
    }

    /// Returns the status of a leader that nobody knew in time: its tracer may have ended with what
    /// the leader left behind, or be the user's, and then it is ended now.
    async fn status_at_last(&self, shared: &Shared) -> ContainerExitStatus {
        let (pid, agent) = (self.leader.pid(), shared.agent);
        blocking(move || end_tracers(&[pid], agent)).await;
        self.leader.status().await.unwrap_or_else(|| {
            // Somebody else has reaped our child, or traces it. Hadoop says the same when it cannot
            // find an exit code.
            tracing::error!(pid, container = %self.id, left = describe(&[pid]), "the exit status is lost");
            LOST
        })
    }

    /// Follows orders until the leader has ended, or has not within its time after SIGKILL. Returns
    /// whether it has.
    async fn until_leader_ends(&mut self, shared: &Shared) -> bool {
        let mut obeyed = Order::Run;
        let mut look_at = None;
        let (mut killed, mut looks) = (None, Looks::default());
        loop {
            let order = *self.orders.borrow_and_update();
            if order > obeyed {
                self.obey(order, shared).await;
                obeyed = order;
                let foresees_kill = order == Order::Terminate && self.confined.is_none();
                let wait = shared.sigkill_delay.checked_sub(SCAN_LEAD);
                look_at = wait
                    .filter(|_| foresees_kill)
                    .map(|wait| Instant::now() + wait);
                killed = (order == Order::ForceKill).then(Instant::now);
            }
            if let Some(killed) = killed
                && looks.is_due(Instant::now())
            {
                if killed.elapsed() >= GIVE_UP {
                    return false;
                }
                self.insist(shared).await;
            }
            let next_look = killed.map(|killed| looks.next(killed));
            tokio::select! {
                biased;
                () = self.leader.ended() => return true,
                changed = self.orders.changed() => if changed.is_err() {
                    self.leader.ended().await;
                    return true;
                },
                () = until(look_at) => {
                    look_at = None;
                    self.foreseen = self.look(shared).await.then(Instant::now);
                }
                () = until(next_look) => {}
            }
        }
    }

    /// Kills once more, and ends whoever keeps the processes from ending by tracing them.
    async fn insist(&self, shared: &Shared) {
        let mut pids = vec![self.leader.pid()];
        self.leader.signal_group(libc::SIGKILL);
        match &self.confined {
            Some(confined) => pids.extend(confined_end::kill_again(confined).await),
            None => pids.extend(self.seen.iter().map(|member| member.pid)),
        }
        let agent = shared.agent;
        blocking(move || end_tracers(&pids, agent)).await;
    }

    /// Looks who belongs to it; whether it could be seen in time.
    async fn look(&mut self, shared: &Shared) -> bool {
        let leader = self.leader.pid();
        let search = shared.scanner.members(self.id, leader, Scope::Everything);
        let Ok(found) = timeout(SCAN_WAIT, search).await else {
            return false;
        };
        let mut found = found.members;
        let is_new = |old: &&Process| {
            let key = (old.pid, old.start_time);
            let place = found.binary_search_by_key(&key, |member| (member.pid, member.start_time));
            place.is_err()
        };
        let before: Vec<Process> = self.seen.iter().filter(is_new).copied().collect();
        found.extend(before);
        found.truncate(SEEN_MAX);
        self.seen = found;
        true
    }

    /// Signals the group and, by name, whoever left it. They are looked for first, if that was not
    /// just done: when their parent is gone, some could no longer be found.
    async fn obey(&mut self, order: Order, shared: &Shared) {
        let leader = self.leader.pid();
        if let Some(confined) = &self.confined {
            match confined_end::obey(confined, order, leader).await {
                Ok(is_inside) => {
                    // It may have left: containers run as the agent's own user, who may write to
                    // any cgroup of theirs.
                    if !is_inside || order == Order::ForceKill {
                        self.leader.signal_group(signal_of(order));
                    }
                    return;
                }
                Err(error) => {
                    let error = crate::error_chain(&error);
                    tracing::warn!(container = %self.id, error, "signalled without its cgroup");
                }
            }
        }
        if self.foreseen.is_none_or(|at| at.elapsed() > SCAN_AGE_MAX) {
            self.look(shared).await;
        }
        let signal = signal_of(order);
        self.leader.signal_group(signal);
        for member in self.seen.iter().filter(|member| member.group != leader) {
            signal_member(member, signal);
        }
    }

    /// Most of a group ends together with its leader: a moment's patience spares another look at
    /// all of `/proc`.
    async fn settle(&self) {
        let handles = self.seen.iter().take(WAITED_FOR_MAX);
        let handles: Vec<_> = handles
            .filter_map(|member| signal_member(member, 0))
            .collect();
        if !handles.is_empty() {
            // Who has not ended by then is found by the look that follows.
            let _ended = timeout(SETTLE, ended_all(handles)).await;
        }
    }

    /// Ends what the leader left behind: SIGTERM, SIGKILL after the configured delay (Hadoop:
    /// `ContainerCleanup`, which also runs after a normal exit, but for the process group only).
    /// Returns the processes that are left when the time for that is over, apart from the leader,
    /// which may be the only one; `None`: nothing is left.
    async fn end_left_overs(&mut self, shared: &Shared, has_ended: bool) -> Option<Vec<Process>> {
        let mut is_empty = has_ended;
        let patience = |is_empty| if is_empty { GIVE_UP } else { Duration::ZERO };
        if let Some(confined) = &self.confined {
            let times = (shared.sigkill_delay, patience(is_empty));
            let orders = &mut self.orders;
            let ended = confined_end::end_left_overs(confined, orders, times, shared.agent);
            is_empty &= ended.await;
            // And then, as without a cgroup, what left it.
        }
        let leader = self.leader.pid();
        self.settle().await;
        let mut sweep = Sweep::new(shared.sigkill_delay, patience(is_empty));
        let mut looks = Looks::default();
        loop {
            if !is_empty || *self.orders.borrow_and_update() == Order::ForceKill {
                sweep.kill_now();
            }
            let is_doomed = sweep.kills(Instant::now());
            let scope = if is_doomed {
                Scope::Doomed
            } else {
                Scope::LeftOvers
            };
            let found = shared.left_overs(self.id, leader, scope, &self.seen).await;
            let Found { members, sight } = found;
            let now = Instant::now();
            if members.is_empty() && sight != Sight::Passing {
                if sweep.is_over(sight == Sight::Certain) {
                    return (!is_empty).then_some(members);
                }
                sleep(CONFIRM).await;
                continue;
            }
            if sweep.gives_up(now) {
                return Some(members);
            }
            let handles = sweep.signal(&self.leader, &members, now);
            if sweep.kills(now) && looks.is_due(now) {
                let (pids, agent) = (
                    members.iter().map(|each| each.pid).collect::<Vec<_>>(),
                    shared.agent,
                );
                blocking(move || end_tracers(&pids, agent)).await;
            }
            let all_ended = timeout_at(sweep.look_again(now), ended_all(handles));
            tokio::select! {
                // Whether they ended or not: the next look tells.
                _ = all_ended => {}
                // After a stronger order, too; and nobody can order once the registry is gone.
                Ok(()) = self.orders.changed() => {}
            }
        }
    }
}

/// Reaps or keeps a leader that has ended. Another goes on with what survives.
fn part_with(
    id: ContainerId,
    leader: WatchedLeader,
    has_ended: bool,
    survivors: Option<Survivors>,
    shared: &Shared,
) -> Option<Survivors> {
    match (leader, survivors) {
        (leader, Some(survivors)) if !has_ended => Some(Survivors {
            leader: Some(leader),
            ..survivors
        }),
        (WatchedLeader::Child(leader), survivors) => {
            shared.done_with(id, leader.into_inner());
            survivors
        }
        (WatchedLeader::Adopted(_), survivors) => survivors,
    }
}

/// Waits until a time; `None`: for ever.
async fn until(at: Option<Instant>) {
    match at {
        Some(at) => sleep_until(at).await,
        None => std::future::pending().await,
    }
}

/// Exit status of a container whose exit code is not known (Hadoop:
/// `ContainerExecutor.ExitCode.LOST`).
const LOST: ContainerExitStatus = ContainerExitStatus(154);

fn signal_of(order: Order) -> i32 {
    match order {
        Order::Run => 0,
        Order::Terminate => libc::SIGTERM,
        Order::ForceKill => libc::SIGKILL,
    }
}

/// Waits until the process behind a handle has ended.
async fn ended<T: AsRawFd>(process: &AsyncFd<T>) {
    if let Err(error) = process.readable().await {
        // Only when the runtime is shutting down, and then this task is dropped at its next wait.
        tracing::debug!(%error, "cannot wait for a process");
        std::future::pending::<()>().await;
    }
}

async fn ended_all(handles: Vec<OwnedFd>) {
    if handles.is_empty() {
        // The processes have ended since the scan, or may not be signalled. The pause keeps the
        // next scan from following at once.
        tokio::time::sleep(PAUSE).await;
    }
    for handle in handles {
        match register(handle) {
            Ok(process) => ended(&process).await,
            // No readiness for this handle: the next scan decides.
            Err(_refused) => std::future::pending().await,
        }
    }
}
