//! What every part of the world shares: the event queue, the network and the observer.

use std::collections::BTreeSet;

use records::{ApplicationAttemptId, ContainerId};
use sim::{EventQueue, Network};

use crate::checkers::WORKERS;
use crate::event::{AgentEvent, Call, Client, Event, Host, MachineEvent, Reply, Request};
use crate::finding::{Checked, Finding};
use crate::observation::Observation;
use crate::planted::Planted;
use crate::watch::Watch;

/// Milliseconds after which a caller gives up on an answer.
const CALL_TIMEOUT_MS: u64 = 3_000;

/// Shared parts of the world.
pub struct Context {
    /// Events to come.
    pub queue: EventQueue<Event>,
    /// Network.
    pub network: Network<Host>,
    /// Observer.
    pub watch: Watch,
    /// Containers whose AMs have come to be, and their nodes, until the world takes them.
    pub born_masters: Vec<(ContainerId, usize)>,
    /// AMs that have ended, until the world takes them.
    pub gone_masters: Vec<ApplicationAttemptId>,
    /// Kinds of effects that agents have performed.
    pub performed: BTreeSet<&'static str>,
    /// Fault planted on purpose.
    pub planted: Option<Planted>,
    calls: u64,
}

impl Context {
    /// Returns shared parts at the begin of a run.
    #[must_use]
    pub fn new(network: Network<Host>, watch: Watch, planted: Option<Planted>) -> Self {
        Self {
            queue: EventQueue::default(),
            network,
            watch,
            born_masters: Vec::new(),
            gone_masters: Vec::new(),
            performed: BTreeSet::new(),
            planted,
            calls: 0,
        }
    }

    /// Returns the virtual time in milliseconds.
    #[must_use]
    pub const fn now_ms(&self) -> u64 {
        self.queue.now_ms()
    }

    /// Returns whether this fault is planted.
    #[must_use]
    pub fn is_planted(&self, planted: Planted) -> bool {
        self.planted == Some(planted)
    }

    /// Shows a fact to the checkers.
    pub fn observe(&mut self, observation: Observation) {
        let now = self.now_ms();
        self.watch.observe(now, observation);
    }

    /// Records a violation that the world itself has noticed.
    pub fn violated(&mut self, checker: &'static str, id: ContainerId, what: String) {
        let now = self.now_ms();
        self.watch.violated(checker, now, Finding::of(id, what));
    }

    /// Records a claim about a node's workers that is false.
    pub fn check(&mut self, checked: Checked) {
        if let Err(finding) = checked {
            let now = self.now_ms();
            self.watch.violated(WORKERS, now, finding);
        }
    }

    /// Makes a call; an answer or [`Event::Timeout`] follows. Returns its number.
    pub fn call(&mut self, client: Client, from: Host, to: Host, request: Request) -> u64 {
        self.calls += 1;
        let call = Call {
            client,
            from,
            number: self.calls,
        };
        let mut delays = self.network.deliveries(from, to);
        if let (Some(first), second) = (delays.next(), delays.next()) {
            if let Some(second) = second {
                let again = Event::Request(to, call, request.clone());
                self.queue.push_in(second, again);
            }
            self.queue.push_in(first, Event::Request(to, call, request));
        }
        self.queue.push_in(CALL_TIMEOUT_MS, Event::Timeout(call));
        self.calls
    }

    /// Sends the answer to a call.
    pub fn reply(&mut self, from: Host, call: Call, reply: Reply) {
        // A second copy of an answer would be ignored, as its call is over then.
        if let Some(delay) = self.network.deliveries(from, call.from).next() {
            self.queue.push_in(delay, Event::Reply(call, reply));
        }
    }

    /// Adds an event of an agent.
    pub fn agent_in(&mut self, delay_ms: u64, node: usize, incarnation: u32, event: AgentEvent) {
        self.queue
            .push_in(delay_ms, Event::Agent(node, incarnation, event));
    }

    /// Adds an event of a machine.
    pub fn machine_in(&mut self, delay_ms: u64, node: usize, boot: u32, event: MachineEvent) {
        self.queue
            .push_in(delay_ms, Event::Machine(node, boot, event));
    }
}
