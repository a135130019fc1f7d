//! One task per container: follows orders while the leader runs, reads its exit status, ends the
//! processes that it left behind, reaps it.
//!
//! The leader is reaped **last**. While it is a zombie, its pid and so its process group cannot be
//! given to anybody else, and signals to the group cannot hit a stranger. Everything else is
//! signalled through a handle on the process that was compared with what was seen in `/proc`.

use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use localize::ContainerFolder;
use records::{ContainerExitStatus, ContainerId};
use tokio::io::Interest;
use tokio::io::unix::{AsyncFd, AsyncFdRegisterError};
use tokio::sync::{Notify, mpsc, watch};
use tokio::time::{Instant, sleep_until, timeout, timeout_at};

use super::confined_end;
use super::context::LaunchEvent;
use super::debug_info::DebugTicket;
use super::diagnostics::StderrPattern;
use super::finish::{Finished, Finishing};
use super::leader::WatchedLeader;
use super::process_tree::Process;
use super::registry::{Order, Registry};
use super::scanner::{Scanner, Scope};
use super::spawn::Leader;
use super::sweep::{GIVE_UP, Sweep, WAITED_FOR_MAX, signal_member};
use crate::isolation::Confined;

/// Maximum time that an order waits for a scan. A scan takes milliseconds; when `/proc` hangs, the
/// process group is signalled without it.
const SCAN_WAIT: Duration = Duration::from_secs(1);
/// Pause between two scans when there is no handle to wait for.
const PAUSE: Duration = Duration::from_millis(5);
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
/// State shared by all watch tasks.
pub(super) struct Shared {
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
    fn done_with(&self, id: ContainerId, leader: Leader) {
        let reaped = if self.keeps_ended {
            self.registry.keep_ended(id, leader)
        } else {
            Some(leader)
        };
        if let Some(leader) = reaped {
            reap(id, leader);
        }
    }
}

/// Reaps a leader that has ended.
pub(super) fn reap(id: ContainerId, leader: Leader) {
    let pid = leader.pid();
    if let Err(error) = leader.reap() {
        tracing::error!(pid, %error, container = %id, "cannot reap a container's process");
    }
}

/// A container whose process exists.
pub(super) struct Watch {
    pub(super) id: ContainerId,
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

/// A type that opens its descriptor when it is made and closes it when it is dropped, and names no
/// other meanwhile.
pub(super) trait OwnsHandle: AsRawFd {}
impl OwnsHandle for Leader {}
impl OwnsHandle for OwnedFd {}

#[expect(
    unsafe_code,
    reason = "tokio has no registration that knows who owns a descriptor"
)]
pub(super) fn register<T: OwnsHandle>(handle: T) -> Result<AsyncFd<T>, AsyncFdRegisterError<T>> {
    // SAFETY: such a type keeps one descriptor open for as long as it lives, and the registration
    // owns it.
    unsafe { AsyncFd::register_with_interest(handle, Interest::READABLE) }
}

impl Watch {
    /// Watches from the launch to the end.
    pub(super) async fn run(mut self, shared: Arc<Shared>, launched: Option<LaunchEvent>) {
        let _alarm = PanicAlarm(Arc::clone(&shared.broken));
        if let Some(launched) = launched {
            shared.report(launched).await;
        }
        self.until_leader_ends(&shared).await;
        let status = self.leader.status().await;
        self.end_left_overs(&shared).await;
        let pid = self.leader.pid();
        shared.registry.remove(self.id);
        if let WatchedLeader::Child(leader) = self.leader {
            shared.done_with(self.id, leader.into_inner());
        }
        // Whoever waits for the room does not wait for disks and for what is left to be removed.
        shared.report(LaunchEvent::ProcessesGone(self.id)).await;
        if let Some(ticket) = self.debug_info {
            ticket.finished().await;
        }
        let status = status.unwrap_or_else(|| {
            // Somebody else has reaped our child. Hadoop says the same when it cannot find an exit
            // code.
            tracing::error!(pid, container = %self.id, "the exit status is lost");
            LOST
        });
        let finished = Finished {
            id: self.id,
            pid,
            status,
            ordered: *self.orders.borrow() > Order::Run,
            confined: self.confined,
            log_dir: self.log_dir,
        };
        let (status, diagnostics) = finished.files(&shared).await;
        shared
            .report(LaunchEvent::Exited {
                id: self.id,
                status,
                cause: diagnostics.executor,
                diagnostics: diagnostics.exit_code,
            })
            .await;
    }

    async fn until_leader_ends(&mut self, shared: &Shared) {
        let mut obeyed = Order::Run;
        let mut look_at = None;
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
            }
            let look_due = async {
                match look_at {
                    Some(at) => sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                () = self.leader.ended() => return,
                changed = self.orders.changed() => if changed.is_err() {
                    self.leader.ended().await;
                    return;
                },
                () = look_due => {
                    look_at = None;
                    self.foreseen = self.look(shared).await.then(Instant::now);
                }
            }
        }
    }

    /// Looks who belongs to it; whether it could be seen in time.
    async fn look(&mut self, shared: &Shared) -> bool {
        let leader = self.leader.pid();
        let search = shared.scanner.members(self.id, leader, Scope::Everything);
        let Ok(mut found) = timeout(SCAN_WAIT, search).await else {
            return false;
        };
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
    async fn end_left_overs(&mut self, shared: &Shared) {
        if let Some(confined) = &self.confined {
            confined_end::end_left_overs(confined, &mut self.orders, shared.sigkill_delay).await;
            // And then, as without a cgroup, what left it.
        }
        let leader = self.leader.pid();
        self.settle().await;
        let mut sweep = Sweep::new(shared.sigkill_delay);
        loop {
            let members = self.left_overs(shared, leader).await;
            if members.is_empty() {
                return;
            }
            if *self.orders.borrow_and_update() == Order::ForceKill {
                sweep.kill_now();
            }
            let now = Instant::now();
            if sweep.gives_up(now) {
                tracing::warn!(container = %self.id, left = members.len(), "processes survive SIGKILL");
                return;
            }
            let handles = sweep.signal(&self.leader, &members, now);
            let all_ended = timeout_at(sweep.look_again(now), ended_all(handles));
            tokio::select! {
                // Whether they ended or not: the next look tells.
                _ = all_ended => {}
                // After a stronger order, too; and nobody can order once the registry is gone.
                Ok(()) = self.orders.changed() => {}
            }
        }
    }

    /// Returns the processes found now, and those that were found when an order came and still
    /// live.
    async fn left_overs(&mut self, shared: &Shared, leader: i32) -> Vec<Process> {
        let search = shared.scanner.members(self.id, leader, Scope::LeftOvers);
        // There is no hurry here as with an order: a slow scan is better than a process overlooked.
        let found = timeout(GIVE_UP, search).await.unwrap_or_else(|_late| {
            tracing::warn!(container = %self.id, "it cannot be seen in time what a container left behind");
            Vec::new()
        });
        self.seen.retain(|seen| {
            Process::read(seen.pid)
                .is_some_and(|now| now.start_time == seen.start_time && !now.is_zombie)
        });
        let mut members: Vec<_> = found.into_iter().chain(self.seen.iter().copied()).collect();
        members.sort_unstable_by_key(|member| (member.pid, member.start_time));
        members.dedup_by_key(|member| (member.pid, member.start_time));
        members
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
