//! An agent: the shipped core and the shipped session with the ResourceManager, and a model of the
//! threads and tasks around them.

mod calls;
mod effects;
mod heartbeats;
mod kind;
mod proxies;
mod recorded;
mod start;
mod told;

pub use kind::KINDS;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use container_runtime::launch::LaunchEvent;
use container_runtime::monitor::{MemoryExceeded, MemoryKind};
use keeper::ProcessIdentity;
use node_core::{Delivery, WorkerEvent};
use node_manager::recovery::{RecordSink, RecordWrite};
use records::{ContainerId, ContainerName, Now};
use sim::{Clock, Disk, Random, Write};
use sim_agent::Shell;

use self::proxies::Proxies;
use self::recorded::Recorded;
use self::told::Told;
use crate::context::Context;
use crate::event::{AgentEvent, Call, Client, Host, Reply, Request};
use crate::machine::Machine;
use crate::node_config::{Failures, Pace};

/// Buffer of the key writer, which is shared with the table of keys.
#[derive(Debug, Default)]
struct KeyBuffer(Mutex<Vec<RecordWrite>>);

impl KeyBuffer {
    fn take(&self) -> Vec<RecordWrite> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl RecordSink for KeyBuffer {
    fn write(&self, write: RecordWrite) {
        let mut writes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        writes.push(write);
    }
}

/// Parts of a node that outlive its agent.
pub struct Ground<'a> {
    /// The machine.
    pub machine: &'a mut Machine,
    /// Disk of the node.
    pub disk: &'a mut Disk,
    /// Random numbers of the node.
    pub random: &'a mut Random,
    /// Durations of its work.
    pub pace: &'a Pace,
    /// Failures of its work.
    pub failures: &'a Failures,
}

/// Changes that wait for a commit.
enum Waiting {
    /// An answer to a call, with what it promises.
    Answer(Call, Reply, Vec<ContainerId>, Promise),
    /// A request to the ResourceManager.
    Send(Box<Request>, Pending),
    /// The memory of an exit status, which the store has now, with the pid of the process.
    Reap(ContainerId, Option<i32>),
}

/// Promise of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Promise {
    Started,
    Stopped,
    Nothing,
}

/// Call to the ResourceManager under way.
#[derive(Debug)]
enum Pending {
    Registration,
    Heartbeat(Delivery),
}

/// Progress of the loop of heartbeats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Loop {
    /// Registers next.
    Registering,
    /// Sends heartbeats.
    Beating,
    /// Waits for the end of its containers before it registers.
    Resyncing,
}

/// An agent.
pub struct Agent {
    node: usize,
    /// Number of this start of the node's agent.
    pub incarnation: u32,
    clock: Clock,
    shell: Shell,
    keys: Arc<KeyBuffer>,
    stage: Loop,
    keeps_containers_on_resync: bool,
    pending: Option<(u64, Pending)>,
    /// Whether a request waits for a commit.
    is_sending: bool,
    waiting: VecDeque<(u64, Waiting)>,
    /// Virtual time of the next beat.
    beat_at: u64,
    earliest_beat: u64,
    /// A container has ended: the next heartbeat comes as early as allowed.
    beats_early: bool,
    tick_at: Option<u64>,
    /// Containers whose launch is under way.
    launching: BTreeSet<ContainerId>,
    /// Containers of them that are to end, and whether by SIGKILL.
    unwanted: BTreeMap<ContainerId, bool>,
    /// Processes that an earlier agent left and that belong to no container, until they are gone.
    leftovers: BTreeMap<ContainerName, BTreeSet<ProcessIdentity>>,
    /// Virtual time of the last answer of the cgroups' owner, which answers in order.
    frozen_at: u64,
    queue_limit: Option<usize>,
    /// Proxies of other nodes.
    proxies: Proxies,
    /// Knowledge of the workers that answer nothing.
    told: Told,
    /// Record of the scheduler's events, played again as it comes.
    recorded: Recorded,
    /// An open directory, in place of those of containers.
    directory: Arc<dir_handle::DirHandle>,
}

impl Agent {
    fn now(&self, context: &Context) -> Now {
        self.clock.now(context.now_ms())
    }

    /// Sets the machine's wall clock.
    pub const fn set_clock(&mut self, ahead_ms: i64) {
        self.clock.ahead_ms = ahead_ms;
    }

    const fn client(&self) -> Client {
        Client::Agent(self.node, self.incarnation)
    }

    /// Handles an event.
    pub fn handle(&mut self, event: AgentEvent, ground: &mut Ground<'_>, context: &mut Context) {
        let now = self.now(context);
        match event {
            AgentEvent::Beat => self.beat(ground, context),
            AgentEvent::Tick => {
                if self.tick_at == Some(context.now_ms()) {
                    self.tick_at = None;
                    self.shell.core.tick(now);
                }
            }
            AgentEvent::Committed => {
                ground.disk.end_commit();
                self.committed(ground, context);
            }
            AgentEvent::Work(event) => {
                if let WorkerEvent::LogsUploaded(outcome) = &event {
                    self.told.uploaded(outcome.application);
                }
                self.told.worked(&event);
                self.shell.core.handle(event, now, now.mono.0 * 1_000);
            }
            AgentEvent::Spawn(spec, plan) => self.spawn(spec, plan, ground, context),
            AgentEvent::Freeze(id, freeze) => self.freeze(id, freeze, ground, context),
        }
        self.settle(ground, context);
    }

    /// The monitor finds that a container uses too much memory.
    pub fn exceed_memory(
        &mut self,
        id: ContainerId,
        ground: &mut Ground<'_>,
        context: &mut Context,
    ) {
        let exceeded = MemoryExceeded {
            id,
            kind: MemoryKind::Physical,
            diagnostics: String::new(),
        };
        let event = AgentEvent::Work(WorkerEvent::MemoryExceeded(exceeded));
        self.handle(event, ground, context);
    }

    /// Returns whether a process belongs to nobody, so that its end is no container's: one with the
    /// same id may have been accepted since.
    pub fn is_of_leftover(&self, id: ContainerId, process: ProcessIdentity) -> bool {
        let processes = self.leftovers.get(&id.name());
        processes.is_some_and(|processes| processes.contains(&process))
    }

    /// Reports the containers whose left processes are all gone, and forgets the notes of these.
    pub fn report_ended_leftovers(&mut self, ground: &mut Ground<'_>, context: &mut Context) {
        let lives = |process: &ProcessIdentity| ground.machine.has(*process);
        let over = self.leftovers.iter();
        let over = over.filter(|(_, processes)| !processes.iter().any(lives));
        let over: Vec<ContainerName> = over.map(|(id, _)| *id).collect();
        for id in over {
            for process in self.leftovers.remove(&id).unwrap_or_default() {
                ground.machine.release(id, Some(process.pid));
            }
            self.launch_event(0, LaunchEvent::LeftoversGone(id), context);
        }
    }

    /// Performs the core's effects, and plans what follows: the commit of what they store, and the
    /// next deadline.
    fn settle(&mut self, ground: &mut Ground<'_>, context: &mut Context) {
        for effect in self.shell.core.take_effects() {
            self.perform(effect, ground, context);
        }
        for write in self.keys.take() {
            ground.disk.write(write_of(write));
        }
        self.commit(ground, context);
        if let Some(deadline) = self.shell.core.next_deadline() {
            let at = self.clock.virtual_ms(deadline).max(context.now_ms());
            if self.tick_at.is_none_or(|planned| at < planned) {
                self.tick_at = Some(at);
                let delay = at - context.now_ms();
                context.agent_in(delay, self.node, self.incarnation, AgentEvent::Tick);
            }
        }
    }

    fn commit(&self, ground: &mut Ground<'_>, context: &mut Context) {
        if ground.disk.begin_commit() {
            let delay = ground.pace.commit.sample(ground.random);
            context.agent_in(delay, self.node, self.incarnation, AgentEvent::Committed);
        }
    }

    /// Lets something wait until all changes so far are committed.
    fn after_commit(&mut self, waiting: Waiting, ground: &mut Ground<'_>, context: &mut Context) {
        for write in self.keys.take() {
            ground.disk.write(write_of(write));
        }
        self.waiting.push_back((ground.disk.mark(), waiting));
        self.committed(ground, context);
    }

    /// Goes on with what waited for changes that are committed now.
    fn committed(&mut self, ground: &mut Ground<'_>, context: &mut Context) {
        while let Some((mark, _)) = self.waiting.front() {
            if !ground.disk.is_durable(*mark) {
                break;
            }
            let Some((_, waiting)) = self.waiting.pop_front() else {
                break;
            };
            match waiting {
                Waiting::Answer(call, reply, ids, promise) => {
                    self.promise(&ids, promise, ground, context);
                    context.reply(Host::Node(self.node), call, reply);
                }
                Waiting::Send(request, pending) => {
                    self.is_sending = false;
                    self.tell_ends(&request, context);
                    let from = Host::Node(self.node);
                    let number = context.call(self.client(), from, Host::Rm, *request);
                    self.pending = Some((number, pending));
                }
                Waiting::Reap(id, pid) => ground.machine.release(id.name(), pid),
            }
        }
    }
}

/// Returns a change of records as the simulated disk takes it.
fn write_of(write: RecordWrite) -> Write {
    match write {
        RecordWrite::Put { space, key, value } => Write::Put { space, key, value },
        RecordWrite::Remove { space, key } => Write::Remove { space, key },
        RecordWrite::Clear { space, prefix } => Write::Clear { space, prefix },
    }
}
