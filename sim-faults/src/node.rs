//! A node: its machine, its disk, and its agent while that runs.

use records::ContainerId;
use sim::{Clock, Disk, Random};

use crate::agent::{Agent, Ground};
use crate::context::Context;
use crate::event::{AgentEvent, Call, MachineEvent, Reply, Request};
use crate::machine::Machine;
use crate::node_config::{Failures, NodeConfig, Pace};
use crate::observation::Observation;

/// Milliseconds between the end of a process and the report on its output.
const READING_MS: u64 = 40;

/// State of a node at a moment, on its disk and in the memory of its agent and keeper.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Holds {
    /// Size of the committed records in bytes.
    pub store_bytes: usize,
    /// Number of committed records.
    pub records: usize,
    /// Number of applications that the agent knows.
    pub applications: usize,
    /// Number of containers that the agent knows, ended or not.
    pub containers: usize,
    /// Number of them that wait in a queue.
    pub waiting: usize,
    /// Number of processes that the keeper remembers.
    pub remembered: usize,
}

/// A node.
pub struct Node {
    index: usize,
    config: NodeConfig,
    machine: Machine,
    disk: Disk,
    random: Random,
    /// Durations of work; a slow disk changes them.
    pub pace: Pace,
    failures: Failures,
    agent: Option<Agent>,
    incarnations: u32,
    ahead_ms: i64,
}

impl Node {
    /// Returns a node whose agent has not started.
    #[must_use]
    pub fn new(
        index: usize,
        config: NodeConfig,
        pace: Pace,
        failures: Failures,
        randoms: (Random, Random),
    ) -> Self {
        Self {
            index,
            config,
            machine: Machine::new(index, randoms.0),
            disk: Disk::default(),
            random: randoms.1,
            pace,
            failures,
            agent: None,
            incarnations: 0,
            ahead_ms: 0,
        }
    }

    /// Returns whether the agent runs.
    #[must_use]
    pub const fn is_up(&self) -> bool {
        self.agent.is_some()
    }

    /// Returns the number of containers that are not done; those of a node without an agent count
    /// as one.
    #[must_use]
    pub fn live_containers(&self) -> usize {
        self.agent.as_ref().map_or(1, Agent::live_containers)
    }

    /// Returns what the node holds.
    #[must_use]
    pub fn holds(&self) -> Holds {
        let entries = self.agent.as_ref().map(Agent::entries);
        let (applications, containers, waiting) = entries.unwrap_or_default();
        Holds {
            store_bytes: self.disk.bytes(),
            records: self.disk.record_count(),
            applications,
            containers,
            waiting,
            remembered: self.machine.remembered(),
        }
    }

    fn with_agent(
        &mut self,
        context: &mut Context,
        act: impl FnOnce(&mut Agent, &mut Ground<'_>, &mut Context),
    ) {
        let mut ground = Ground {
            machine: &mut self.machine,
            disk: &mut self.disk,
            random: &mut self.random,
            pace: &self.pace,
            failures: &self.failures,
        };
        if let Some(agent) = &mut self.agent {
            act(agent, &mut ground, context);
        }
    }

    /// Starts the agent, unless it runs.
    pub fn start(&mut self, context: &mut Context) {
        if self.agent.is_some() {
            return;
        }
        self.incarnations += 1;
        let clock = Clock {
            started_ms: context.now_ms(),
            ahead_ms: self.ahead_ms,
        };
        let mut ground = Ground {
            machine: &mut self.machine,
            disk: &mut self.disk,
            random: &mut self.random,
            pace: &self.pace,
            failures: &self.failures,
        };
        let agent = Agent::start(
            self.index,
            self.incarnations,
            clock,
            &self.config,
            &mut ground,
            context,
        );
        self.agent = Some(agent);
    }

    /// Ends the agent without warning, and with it the machine if asked for. It starts again after
    /// `down_ms`.
    pub fn crash(&mut self, with_machine: bool, down_ms: u64, context: &mut Context) {
        if self.agent.take().is_none() {
            return;
        }
        let node = self.index;
        context.observe(Observation::AgentGone { node, with_machine });
        let commit_succeeds = self.random.chance(500_000);
        self.disk.crash(commit_succeeds);
        if with_machine {
            self.machine.crash(context);
        } else {
            self.machine.agent_ends();
        }
        let boot = self.machine.boot;
        context.machine_in(down_ms, node, boot, MachineEvent::AgentStarts);
    }

    /// Sets the wall clock.
    pub fn set_clock(&mut self, ahead_ms: i64) {
        self.ahead_ms = ahead_ms;
        if let Some(agent) = &mut self.agent {
            agent.set_clock(ahead_ms);
        }
    }

    /// Handles an event of the agent of this incarnation.
    pub fn agent_event(&mut self, incarnation: u32, event: AgentEvent, context: &mut Context) {
        self.with_agent(context, |agent, ground, context| {
            if agent.incarnation == incarnation {
                agent.handle(event, ground, context);
            }
        });
    }

    /// Handles an event of the machine since this boot.
    pub fn machine_event(&mut self, boot: u32, event: MachineEvent, context: &mut Context) {
        if boot != self.machine.boot {
            return;
        }
        match event {
            MachineEvent::AgentStarts => self.start(context),
            MachineEvent::Signal(id, by_force) => self.machine.signal(id, by_force, context),
            MachineEvent::Ends {
                id,
                change,
                status,
                by_itself,
            } => {
                let ended = self.machine.ends(id, change, (status, by_itself), context);
                if let Some(identity) = ended {
                    let reading_ms = self.random.below(READING_MS);
                    self.with_agent(context, |agent, ground, context| {
                        if agent.is_of_leftover(id, identity) {
                            agent.report_ended_leftovers(ground, context);
                        } else {
                            agent.report_end(id, status, reading_ms, context);
                        }
                    });
                }
            }
        }
    }

    /// Handles a call, unless no agent runs.
    pub fn called(&mut self, call: Call, request: Request, context: &mut Context) {
        self.with_agent(context, |agent, ground, context| {
            agent.called(call, request, ground, context);
        });
    }

    /// Handles an answer, or its absence.
    pub fn replied(
        &mut self,
        incarnation: u32,
        number: u64,
        reply: Option<Reply>,
        context: &mut Context,
    ) {
        self.with_agent(context, |agent, ground, context| {
            if agent.incarnation != incarnation {
                return;
            }
            match reply {
                Some(reply) => agent.replied(number, reply, ground, context),
                None => agent.timed_out(number, ground, context),
            }
        });
    }

    /// Reports that a container has used too much memory.
    pub fn exceed_memory(&mut self, context: &mut Context) {
        let Some(id) = self.machine.any_task(&mut self.random) else {
            return;
        };
        self.with_agent(context, |agent, ground, context| {
            agent.exceed_memory(id, ground, context);
        });
    }

    /// Ends the process of an AM.
    pub fn exit(&mut self, id: ContainerId, status: i32, context: &mut Context) {
        self.machine.exit(id, status, context);
    }
}
