//! The containers that this agent launches or runs, the order given for each, and the processes
//! that may be signalled.
//!
//! A container is in here from the moment its launch is queued until its session leader is about to
//! be reaped. As long as it is in here with a pid, that pid is a process (or a zombie) of ours that
//! nobody else reaps, so neither the pid nor its process group can have been given to anybody else:
//! that is what makes signalling by number safe. The lock is held for table operations and one
//! `kill(2)`, never while waiting.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry as MapEntry;
use std::sync::{Mutex, MutexGuard, PoisonError};

use keeper::ProcessIdentity;
use records::ContainerId;
use sched::ContainerSpec;
use tokio::sync::watch;

use super::context::ContainerSignal;
use super::leader::signal_group_of;
use super::process::signal_group;
use super::spawn::Leader;

/// The scheduler's order for a container. Orders only get stronger.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Order {
    /// Run until its own end.
    Run,
    /// SIGTERM, or do not start at all.
    Terminate,
    /// SIGKILL, or do not start at all.
    ForceKill,
}

/// A container with a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunningProcess {
    /// Id of the container.
    pub container_id: ContainerId,
    /// Session leader and process group.
    pub pid: i32,
    /// Size and type since the launch or the last update; `None`: its launch named none.
    pub spec: Option<ContainerSpec>,
}

/// A signal that somebody asked for, with the user whose container it is for.
pub(super) struct SignalRequest {
    pub(super) user: String,
    pub(super) command: ContainerSignal,
}

impl SignalRequest {
    /// Signals the group of `leader`, and returns the line for the container's diagnostics (Hadoop:
    /// `ContainerLaunch.signalContainer`).
    fn send(&self, id: ContainerId, leader: i32) -> String {
        let (number, _) = self.command.signal();
        self.describe(id, leader, signal_group(leader, number))
    }

    fn send_adopted(&self, id: ContainerId, leader: ProcessIdentity) -> String {
        let (number, _) = self.command.signal();
        self.describe(id, leader.pid, signal_group_of(leader, number))
    }

    fn describe(&self, id: ContainerId, leader: i32, sent: bool) -> String {
        let Self { user, command } = self;
        let (_, name) = command.signal();
        let result = if sent { "success" } else { "failed" };
        let command = command.as_str();
        format!(
            "Sent signal {command} ({name}) to pid {leader} as user {user} for container {id}, result={result}"
        )
    }
}

struct Entry {
    spec: Option<ContainerSpec>,
    order: watch::Sender<Order>,
    process: Process,
}

enum Process {
    /// Not known yet: the launch waits, or the process runs already and its number is on the way.
    /// Keeps the signals that were asked for meanwhile, at most one of each kind.
    Awaited(Vec<SignalRequest>),
    /// The session leader while it exists, even as a zombie.
    Leader(i32),
    /// The session leader that an earlier agent started. Somebody else reaps it.
    Adopted(ProcessIdentity),
}

impl Entry {
    fn leader(&self) -> Option<i32> {
        match self.process {
            Process::Awaited(_) => None,
            Process::Leader(leader) => Some(leader),
            Process::Adopted(leader) => Some(leader.pid),
        }
    }
}

/// The table. Its size is bounded by the scheduler, which knows at most so many containers.
#[derive(Default)]
pub(super) struct Registry {
    entries: Mutex<BTreeMap<ContainerId, Entry>>,
    /// Leaders that have ended and are not reaped yet, so that the keeper would still learn their
    /// status.
    ended: Mutex<BTreeMap<ContainerId, Leader>>,
    /// Containers of which processes survive SIGKILL, with the pids of their leaders. Their ends
    /// were reported all the same.
    surviving: Mutex<BTreeMap<ContainerId, i32>>,
    /// Leaders that have ended and that a tracer keeps from being reaped.
    traced: Mutex<Vec<Leader>>,
}

impl Registry {
    /// A panic while the lock is held leaves at worst a finished table operation behind: the table
    /// stays usable.
    fn lock(&self) -> MutexGuard<'_, BTreeMap<ContainerId, Entry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes room for a container of this size and type. `None` when it is in here already, or
    /// something of its last launch survives.
    pub(super) fn insert(
        &self,
        id: ContainerId,
        spec: Option<ContainerSpec>,
    ) -> Option<watch::Receiver<Order>> {
        if self.lock_surviving().contains_key(&id) {
            return None;
        }
        match self.lock().entry(id) {
            MapEntry::Occupied(_) => None,
            MapEntry::Vacant(vacant) => {
                let (order, orders) = watch::channel(Order::Run);
                vacant.insert(Entry {
                    spec,
                    order,
                    process: Process::Awaited(Vec::new()),
                });
                Some(orders)
            }
        }
    }

    /// Records that the container's session leader exists, and sends it the signals that were
    /// asked for before. Returns their lines for the container's diagnostics.
    pub(super) fn started(&self, id: ContainerId, leader: i32) -> Vec<String> {
        let mut entries = self.lock();
        let Some(entry) = entries.get_mut(&id) else {
            return Vec::new();
        };
        let lines = match &entry.process {
            Process::Awaited(kept) => kept.iter().map(|kept| kept.send(id, leader)).collect(),
            Process::Leader(_) | Process::Adopted(_) => Vec::new(),
        };
        entry.process = Process::Leader(leader);
        lines
    }

    /// Makes room for a container of an earlier agent. `None` when it is in here already.
    pub(super) fn adopt(
        &self,
        spec: ContainerSpec,
        leader: ProcessIdentity,
    ) -> Option<watch::Receiver<Order>> {
        let orders = self.insert(spec.id, Some(spec))?;
        if let Some(entry) = self.lock().get_mut(&spec.id) {
            entry.process = Process::Adopted(leader);
        }
        Some(orders)
    }

    fn lock_ended(&self) -> MutexGuard<'_, BTreeMap<ContainerId, Leader>> {
        self.ended.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps a leader that has ended from being reaped. Returns the container's leader before,
    /// whom nobody has released.
    pub(super) fn keep_ended(&self, id: ContainerId, leader: Leader) -> Option<Leader> {
        self.lock_ended().insert(id, leader)
    }

    /// Gives back a leader that was kept, if it has this pid or none is named.
    pub(super) fn take_ended(&self, id: ContainerId, pid: Option<i32>) -> Option<Leader> {
        let mut ended = self.lock_ended();
        let kept = ended.get(&id)?;
        let is_meant = pid.is_none_or(|pid| kept.pid() == pid);
        is_meant.then(|| ended.remove(&id)).flatten()
    }

    /// Returns whether this is a leader, alive or not yet reaped.
    pub(super) fn is_leader(&self, pid: i32) -> bool {
        let is_leader = |entry: &Entry| entry.leader() == Some(pid);
        self.lock().values().any(is_leader)
            || self.lock_ended().values().any(|leader| leader.pid() == pid)
            || self.lock_surviving().values().any(|leader| *leader == pid)
            || self.lock_traced().iter().any(|leader| leader.pid() == pid)
    }

    fn lock_surviving(&self) -> MutexGuard<'_, BTreeMap<ContainerId, i32>> {
        self.surviving
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Records that processes of a container outlive it, so that it is not launched beside them
    /// and nobody else reaps its leader. Comes before [`remove`](Self::remove).
    pub(super) fn survives(&self, id: ContainerId, leader: i32) {
        self.lock_surviving().insert(id, leader);
    }

    /// Records that they are gone.
    pub(super) fn survived(&self, id: ContainerId) {
        self.lock_surviving().remove(&id);
    }

    fn lock_traced(&self) -> MutexGuard<'_, Vec<Leader>> {
        self.traced.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reaps a leader that has ended, as soon as its tracer lets go of it.
    pub(super) fn reap(&self, leader: Leader) {
        self.lock_traced().extend(leader.reap());
    }

    /// Reaps the leaders whose tracers have let go of them.
    pub(super) fn reap_traced(&self) {
        let mut traced = self.lock_traced();
        let left: Vec<Leader> = traced.drain(..).filter_map(Leader::reap).collect();
        *traced = left;
    }

    /// Returns the size and type of a container; `None`: its launch named none, or it is not in
    /// here.
    pub(super) fn spec(&self, id: ContainerId) -> Option<ContainerSpec> {
        self.lock().get(&id)?.spec
    }

    /// Changes the size and type of a container, if it is in here.
    pub(super) fn change(&self, spec: ContainerSpec) {
        if let Some(entry) = self.lock().get_mut(&spec.id) {
            entry.spec = Some(spec);
        }
    }

    /// Forgets a container. Must come before its leader is reaped.
    pub(super) fn remove(&self, id: ContainerId) {
        self.lock().remove(&id);
    }

    /// Strengthens the order for a container; `false` when it is not in here. Never lost: whoever
    /// launches or watches the container reads the strongest order so far.
    pub(super) fn order(&self, id: ContainerId, order: Order) -> bool {
        let entries = self.lock();
        let Some(entry) = entries.get(&id) else {
            return false;
        };
        entry.order.send_if_modified(|current| {
            let stronger = order > *current;
            *current = order.max(*current);
            stronger
        });
        true
    }

    /// Terminates what has no process yet, so that it is never launched.
    pub(super) fn terminate_waiting(&self) {
        for entry in self.lock().values().filter(|e| e.leader().is_none()) {
            entry
                .order
                .send_modify(|order| *order = (*order).max(Order::Terminate));
        }
    }

    /// Signals the process group and returns the line for the container's diagnostics. `None` where
    /// nothing is sent: the container is not in here, or its process is still awaited and will be
    /// signalled when it is known.
    pub(super) fn signal(&self, id: ContainerId, request: SignalRequest) -> Option<String> {
        match &mut self.lock().get_mut(&id)?.process {
            Process::Leader(leader) => Some(request.send(id, *leader)),
            Process::Adopted(leader) => Some(request.send_adopted(id, *leader)),
            Process::Awaited(kept) => {
                if kept.iter().all(|kept| kept.command != request.command) {
                    kept.push(request);
                }
                None
            }
        }
    }

    /// Returns all containers with a process, ordered by id.
    pub(super) fn processes(&self) -> Vec<RunningProcess> {
        self.lock()
            .iter()
            .filter_map(|(id, entry)| {
                entry.leader().map(|pid| RunningProcess {
                    container_id: *id,
                    pid,
                    spec: entry.spec,
                })
            })
            .collect()
    }

    /// Containers in here, with a process or still without.
    pub(super) fn len(&self) -> usize {
        self.lock().len()
    }
}

#[cfg(test)]
mod tests {
    use records::{ExecutionType, Resource};

    use super::*;
    use crate::launch::testing::container_id;

    #[test]
    fn an_order_given_before_anybody_listens_is_seen_later() {
        let registry = Registry::default();
        let id = container_id();
        let orders = registry.insert(id, None).unwrap();
        assert!(registry.order(id, Order::Terminate));
        assert_eq!(*orders.borrow(), Order::Terminate);
    }

    #[test]
    fn orders_never_get_weaker() {
        let registry = Registry::default();
        let id = container_id();
        let orders = registry.insert(id, None).unwrap();
        registry.order(id, Order::ForceKill);
        registry.order(id, Order::Terminate);
        assert_eq!(*orders.borrow(), Order::ForceKill);
    }

    #[test]
    fn a_container_is_launched_once_at_a_time() {
        let registry = Registry::default();
        let id = container_id();
        assert!(registry.insert(id, None).is_some());
        assert!(registry.insert(id, None).is_none());
        registry.remove(id);
        assert!(registry.insert(id, None).is_some());
    }

    #[test]
    fn a_process_is_listed_with_the_size_of_its_last_change() {
        let registry = Registry::default();
        let id = container_id();
        let spec = |memory_mb| ContainerSpec {
            id,
            resource: Resource::new(memory_mb, 1),
            execution_type: ExecutionType::Opportunistic,
            version: 0,
        };
        let _orders = registry.insert(id, Some(spec(512)));
        registry.started(id, 4711);
        registry.change(spec(1024));
        assert_eq!(registry.processes()[0].spec, Some(spec(1024)));
        assert_eq!(registry.spec(id), Some(spec(1024)));
        registry.remove(id);
        registry.change(spec(2048));
        assert_eq!(registry.len(), 0);
    }

    fn thread_dump() -> SignalRequest {
        SignalRequest {
            user: "alice".to_owned(),
            command: ContainerSignal::OutputThreadDump,
        }
    }

    #[test]
    fn nothing_is_signalled_without_a_process() {
        let registry = Registry::default();
        let id = container_id();
        assert_eq!(registry.signal(id, thread_dump()), None);
        let _orders = registry.insert(id, None).unwrap();
        assert_eq!(registry.signal(id, thread_dump()), None);
        assert!(!registry.order(container_id(), Order::Terminate));
    }

    #[test]
    fn signals_of_an_awaited_process_are_sent_once_when_it_is_known() {
        let registry = Registry::default();
        let id = container_id();
        let _orders = registry.insert(id, None).unwrap();
        for _ in 0..100 {
            assert_eq!(registry.signal(id, thread_dump()), None);
        }
        // No process group has this number, so that the kernel refuses.
        let leader = i32::MAX;
        let line = format!(
            "Sent signal OUTPUT_THREAD_DUMP (SIGQUIT) to pid {leader} as user alice for container {id}, result=failed"
        );
        assert_eq!(registry.started(id, leader), std::slice::from_ref(&line));
        assert_eq!(registry.signal(id, thread_dump()), Some(line));
    }
}
