//! A node's machine: processes of containers, which outlive the agent, and the keeper's memory of
//! those that have ended.

use std::collections::BTreeMap;

use keeper::{FoundStart, ProcessIdentity};
use records::{ApplicationId, ContainerId, ContainerName, Resource};
use sched::ContainerSpec;
use sim::Random;

use crate::context::Context;
use crate::event::MachineEvent;
use crate::observation::Observation;
use crate::plan::{Plan, Work};

/// Exit statuses of processes that a signal has ended.
const TERMINATED: i32 = 143;
const KILLED: i32 = 137;

/// Milliseconds in which a process ends after a signal, at most.
const SIGTERM_MS: u64 = 80;
const SIGKILL_MS: u64 = 15;

/// First process of a container.
#[derive(Debug)]
struct Process {
    identity: ProcessIdentity,
    size: Resource,
    plan: Plan,
    /// Milliseconds left when it last began to run.
    left_ms: u64,
    /// Virtual time at which it last began to run; `None`: it is frozen.
    runs_since: Option<u64>,
    /// Number of changes to its end.
    change: u32,
    is_dying: bool,
    /// Whether it got SIGKILL, after which no other signal changes anything.
    is_killed: bool,
}

/// First process that has ended.
#[derive(Debug)]
struct Ended {
    identity: ProcessIdentity,
    size: Resource,
    status: i32,
}

/// Child that an agent left to its keeper.
#[derive(Debug)]
struct Left {
    id: ContainerId,
    size: Resource,
    identity: ProcessIdentity,
    /// Whether it lived when the agent ended, so that the keeper could read its environment.
    was_alive: bool,
}

/// A machine.
#[derive(Debug)]
pub struct Machine {
    node: usize,
    /// Number of boots.
    pub boot: u32,
    next_pid: i32,
    processes: BTreeMap<ContainerId, Process>,
    /// Ended first processes whose status nobody has stored yet.
    ended: BTreeMap<ContainerId, Ended>,
    left: Vec<Left>,
    random: Random,
}

impl Machine {
    /// Returns a machine without processes.
    #[must_use]
    pub const fn new(node: usize, random: Random) -> Self {
        Self {
            node,
            boot: 1,
            next_pid: 100,
            processes: BTreeMap::new(),
            ended: BTreeMap::new(),
            left: Vec::new(),
            random,
        }
    }

    /// Starts the process of a container.
    pub fn spawn(
        &mut self,
        spec: ContainerSpec,
        plan: Plan,
        context: &mut Context,
    ) -> ProcessIdentity {
        self.next_pid += 1;
        let identity = ProcessIdentity {
            pid: self.next_pid,
            start_time: context.now_ms() + 1,
        };
        let node = self.node;
        let (id, resource) = (spec.id, spec.resource);
        context.observe(Observation::ProcessStarted { node, id, resource });
        if plan.work == Work::Master {
            context.born_masters.push((id, node));
        }
        let left_ms = match plan.work {
            // The answer to the launch comes first.
            Work::Task { run_ms, .. } => run_ms.max(5),
            Work::Master => u64::MAX,
        };
        let process = Process {
            identity,
            size: resource,
            plan,
            left_ms,
            runs_since: Some(context.now_ms()),
            change: 0,
            is_dying: false,
            is_killed: false,
        };
        self.processes.insert(id, process);
        self.plan_end(id, context);
        identity
    }

    fn plan_end(&self, id: ContainerId, context: &mut Context) {
        let Some(process) = self.processes.get(&id) else {
            return;
        };
        if let Work::Task { status, .. } = process.plan.work {
            let ends = MachineEvent::Ends {
                id,
                change: process.change,
                status,
                by_itself: true,
            };
            context.machine_in(process.left_ms, self.node, self.boot, ends);
        }
    }

    /// Returns whether a container has a process.
    #[must_use]
    pub fn lives(&self, id: ContainerId) -> bool {
        self.processes.contains_key(&id)
    }

    /// Returns the containers of an application that have processes.
    pub fn processes_of(
        &self,
        id: ApplicationId,
    ) -> impl Iterator<Item = (ContainerId, ProcessIdentity)> {
        let processes = self.processes.iter();
        let processes = processes.filter(move |(of, _)| of.application_id() == id);
        processes.map(|(of, process)| (*of, process.identity))
    }

    /// Returns the number of children that the keeper remembers, ended or not.
    #[must_use]
    pub fn remembered(&self) -> usize {
        self.left.len() + self.ended.len()
    }

    /// Returns whether a process exists.
    #[must_use]
    pub fn has(&self, identity: ProcessIdentity) -> bool {
        let mut processes = self.processes.values();
        processes.any(|process| process.identity == identity)
    }

    /// Returns one of the containers whose processes are tasks.
    pub fn any_task(&self, random: &mut Random) -> Option<ContainerId> {
        let tasks = self.processes.iter();
        let tasks = tasks.filter(|(_, process)| process.plan.work != Work::Master);
        let ids: Vec<ContainerId> = tasks.map(|(id, _)| *id).collect();
        random.pick(&ids).copied()
    }

    /// Freezes or thaws a container. Returns false if it has no process, or one that is ending.
    pub fn freeze(&mut self, id: ContainerId, freeze: bool, context: &mut Context) -> bool {
        let now = context.now_ms();
        let Some(process) = self.processes.get_mut(&id) else {
            return false;
        };
        if process.is_dying {
            return false;
        }
        let is_frozen = freeze;
        match (process.runs_since, freeze) {
            (Some(since), true) => {
                process.left_ms = process.left_ms.saturating_sub(now - since);
                process.runs_since = None;
                process.change += 1;
            }
            (None, false) => {
                process.runs_since = Some(now);
                process.change += 1;
                self.plan_end(id, context);
            }
            (Some(_), false) | (None, true) => return true,
        }
        let node = self.node;
        context.observe(Observation::Frozen {
            node,
            id,
            is_frozen,
        });
        true
    }

    /// Sends SIGTERM or SIGKILL to the processes of a container.
    pub fn signal(&mut self, id: ContainerId, by_force: bool, context: &mut Context) {
        let (node, boot) = (self.node, self.boot);
        let Some(process) = self.processes.get_mut(&id) else {
            return;
        };
        let (longest, status) = if by_force {
            (SIGKILL_MS, KILLED)
        } else {
            (SIGTERM_MS, TERMINATED)
        };
        let is_ignored = !by_force && (process.plan.ignores_term || process.is_dying);
        if is_ignored || process.is_killed {
            return;
        }
        let stuck_ms = if by_force { process.plan.stuck_ms } else { 0 };
        process.is_dying = true;
        process.is_killed = by_force;
        process.change += 1;
        let ends = MachineEvent::Ends {
            id,
            change: process.change,
            status,
            by_itself: false,
        };
        let delay = stuck_ms + self.random.below(longest);
        context.machine_in(delay, node, boot, ends);
    }

    /// Sends a signal behind the answer to the launch.
    pub fn signal_later(&self, id: ContainerId, by_force: bool, context: &mut Context) {
        let signal = MachineEvent::Signal(id, by_force);
        context.machine_in(5, self.node, self.boot, signal);
    }

    /// Ends the process of an AM, which has finished.
    pub fn exit(&mut self, id: ContainerId, status: i32, context: &mut Context) {
        if let Some(process) = self.processes.get_mut(&id).filter(|p| !p.is_dying) {
            process.change += 1;
            let ends = MachineEvent::Ends {
                id,
                change: process.change,
                status,
                by_itself: true,
            };
            context.machine_in(1, self.node, self.boot, ends);
        }
    }

    /// Handles the end of a process, and returns which it was. `None`: the end has been moved.
    pub fn ends(
        &mut self,
        id: ContainerId,
        change: u32,
        (status, by_itself): (i32, bool),
        context: &mut Context,
    ) -> Option<ProcessIdentity> {
        let process = self.processes.get(&id)?;
        let identity = process.identity;
        if process.change != change {
            return None;
        }
        if process.plan.work == Work::Master {
            context.gone_masters.push(id.attempt);
        }
        let ended = Ended {
            identity,
            size: process.size,
            status,
        };
        self.processes.remove(&id);
        self.ended.insert(id, ended);
        let node = self.node;
        context.observe(Observation::ProcessEnded {
            node,
            id,
            status,
            by_itself,
        });
        Some(identity)
    }

    /// Returns the status of an ended process that nobody has stored yet.
    #[must_use]
    pub fn ended(&self, id: ContainerId, identity: ProcessIdentity) -> Option<i32> {
        let ended = self.ended.get(&id)?;
        (ended.identity == identity).then_some(ended.status)
    }

    /// Forgets the status of an ended process, which is stored. `pid`: the process; `None`: the
    /// container's last.
    pub fn release(&mut self, name: ContainerName, pid: Option<i32>) {
        let is_meant = |identity: &ProcessIdentity| pid.is_none_or(|pid| identity.pid == pid);
        self.ended
            .retain(|of, ended| of.name() != name || !is_meant(&ended.identity));
        self.left
            .retain(|left| left.id.name() != name || !is_meant(&left.identity));
    }

    /// The agent ends: its children fall to the keeper.
    pub fn agent_ends(&mut self) {
        let alive = self.processes.iter();
        let alive = alive.map(|(id, process)| Left {
            id: *id,
            size: process.size,
            identity: process.identity,
            was_alive: true,
        });
        let ended = self.ended.iter().map(|(id, ended)| Left {
            id: *id,
            size: ended.size,
            identity: ended.identity,
            was_alive: false,
        });
        for child in alive.chain(ended) {
            if self.left.iter().all(|left| left.identity != child.identity) {
                self.left.push(child);
            }
        }
    }

    /// Returns the notes of the children that agents have left, in the order of their starts, as
    /// [`keeper::StartSlots`] does. `knows_ended`: whether those that had ended before their agent
    /// are among them.
    #[must_use]
    pub fn noted(&self, knows_ended: bool) -> Vec<FoundStart> {
        let known = self.left.iter();
        let mut known: Vec<&Left> = known.filter(|left| knows_ended || left.was_alive).collect();
        known.sort_by_key(|left| (left.identity.start_time, left.identity.pid));
        let noted = known.into_iter().map(|left| {
            let Resource { memory_mb, vcores } = left.size;
            let noted = FoundStart::of(&left.id.to_string(), left.identity);
            noted.with_remark(&format!("{memory_mb} {vcores}"))
        });
        noted.collect()
    }

    /// Kills a process that belongs to no container. It ends after its plan's time or this one, in
    /// milliseconds.
    pub fn kill_leftover(
        &mut self,
        identity: ProcessIdentity,
        stuck_ms: u64,
        context: &mut Context,
    ) {
        let found = self.processes.iter_mut();
        let found = found.filter(|(_, process)| process.identity == identity);
        let stuck = found.map(|(id, process)| {
            process.plan.stuck_ms = process.plan.stuck_ms.max(stuck_ms);
            *id
        });
        let ids: Vec<ContainerId> = stuck.collect();
        for id in ids {
            self.signal(id, true, context);
        }
    }

    /// The machine ends with all of its processes.
    pub fn crash(&mut self, context: &mut Context) {
        self.boot += 1;
        let node = self.node;
        self.ended.clear();
        self.left.clear();
        let processes = std::mem::take(&mut self.processes);
        for id in processes.keys() {
            context.observe(Observation::ProcessEnded {
                node,
                id: *id,
                status: KILLED,
                by_itself: false,
            });
        }
        let masters = processes.iter();
        let masters = masters.filter(|(_, process)| process.plan.work == Work::Master);
        context
            .gone_masters
            .extend(masters.map(|(id, _)| id.attempt));
    }
}
