//! The simulated world: makes all parts from a scenario, and passes each event to the part that it
//! is for.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use records::{ApplicationAttemptId, ContainerId};
use sim::{Distribution, LinkModel, Network, Random, Streams};

use crate::checkers::{FINISHES, Facts};
use crate::context::Context;
use crate::event::{Call, Client, Event, Host, Reply, Request};
use crate::fault::Fault;
use crate::faults;
use crate::finding::Finding;
use crate::master::{Master, Next};
use crate::node::Node;
use crate::observation::Observation;
use crate::rm::ResourceManager;
use crate::scenario::{self, Scenario};
use crate::watch::{Violation, Watch};

/// Virtual milliseconds after the run's length within which everything must have come to its end.
const PATIENCE_MS: u64 = 1_800_000;

/// Milliseconds between two looks at whether the run is complete.
const LOOK_MS: u64 = 5_000;

/// Network without faults.
const CALM: LinkModel = LinkModel {
    delay_ms: Distribution::Uniform(1, 5),
    loss_per_million: 0,
    duplicate_per_million: 0,
};

/// A commit of a slow disk, in milliseconds.
const SLOW_COMMIT: Distribution = Distribution::LogUniform(500, 10_000);

/// Result of a run.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The seed.
    pub seed: u64,
    /// First violation of a property; `None`: none was violated.
    pub violation: Option<Violation>,
    /// Number of events.
    pub events: u64,
    /// Number of facts that checkers saw.
    pub observed: u64,
    /// Number of containers that came to an AM.
    pub containers: u64,
    /// Kinds of effects that agents have performed.
    pub performed: BTreeSet<&'static str>,
    /// Virtual milliseconds.
    pub virtual_ms: u64,
}

/// Runs a scenario to its end or to the first violation.
///
/// # Panics
/// When the root directory cannot be opened, or the code under test panics.
#[must_use]
pub fn run(scenario: &Scenario) -> Outcome {
    let mut world = World::new(scenario);
    world.run(|_, _| {});
    world.outcome()
}

/// Runs a scenario as [`run`] does, and shows what each node holds after each event, with the
/// virtual time.
///
/// # Panics
/// As [`run`] does.
pub fn run_and_look(scenario: &Scenario, look: impl FnMut(u64, &[Node])) -> Outcome {
    let mut world = World::new(scenario);
    world.run(look);
    world.outcome()
}

struct World<'a> {
    scenario: &'a Scenario,
    streams: Streams,
    context: Context,
    nodes: Vec<Node>,
    rm: ResourceManager,
    masters: BTreeMap<ApplicationAttemptId, Master>,
    /// Gaps between applications.
    submissions: Random,
    next_look_ms: u64,
}

impl<'a> World<'a> {
    fn new(scenario: &'a Scenario) -> Self {
        let streams = Streams::new(scenario.seed);
        let network = Network::new(scenario.link, streams.stream("network", 0));
        let facts = Facts {
            capacity: scenario::CAPACITY,
            nodes: scenario.size.nodes,
            sigkill_delay_ms: scenario::SIGKILL_DELAY_MS,
        };
        let watch = Watch::new(&facts, scenario.only);
        let root = dir_handle::DirHandle::open_ambient(Path::new("/"));
        let root = Arc::new(root.expect("the root directory can be opened"));
        let mut context = Context::new(network, watch, scenario.planted);
        let node = |index: usize| {
            let number = index as u64;
            let randoms = (
                streams.stream("machine", number),
                streams.stream("node", number),
            );
            let config = scenario.node_config(index, &root);
            Node::new(index, config, scenario.pace, scenario.failures, randoms)
        };
        let mut nodes: Vec<Node> = (0..scenario.size.nodes).map(node).collect();
        let rm = ResourceManager::new(scenario.rm_config(), streams.stream("rm", 0));
        rm.begin_ticks(&mut context);
        nodes.iter_mut().for_each(|node| node.start(&mut context));
        faults::plan(scenario, &mut streams.stream("faults", 0), &mut context);
        context.queue.push_in(1_000, Event::Submit);
        Self {
            scenario,
            streams,
            context,
            nodes,
            rm,
            masters: BTreeMap::new(),
            submissions: streams.stream("submissions", 0),
            next_look_ms: 0,
        }
    }

    fn outcome(&self) -> Outcome {
        let context = &self.context;
        Outcome {
            seed: self.scenario.seed,
            violation: context.watch.violation().cloned(),
            events: context.queue.events(),
            observed: context.watch.observed(),
            containers: context.watch.allocated(),
            performed: context.performed.clone(),
            virtual_ms: context.now_ms(),
        }
    }

    fn run(&mut self, mut look: impl FnMut(u64, &[Node])) {
        let until = self.scenario.until_ms();
        while let Some(event) = self.context.queue.pop() {
            self.dispatch(event);
            self.take_masters();
            if self.context.watch.violation().is_some() {
                return;
            }
            let now = self.context.now_ms();
            look(now, &self.nodes);
            if now >= until && now >= self.next_look_ms {
                self.next_look_ms = now + LOOK_MS;
                if self.is_quiet() {
                    self.context.watch.end(now);
                    return;
                }
                if now > until + PATIENCE_MS {
                    self.report_unfinished(now);
                    return;
                }
            }
        }
    }

    fn is_quiet(&self) -> bool {
        self.rm.unfinished() == 0 && self.nodes.iter().all(|node| node.live_containers() == 0)
    }

    fn report_unfinished(&mut self, now: u64) {
        let unfinished = self.rm.unfinished();
        let busy = self.nodes.iter().enumerate();
        let mut busy = busy.filter(|(_, node)| node.live_containers() > 0);
        let node = busy.next().map(|(index, _)| index);
        let masters: Vec<String> = self.masters.values().map(Master::describe).collect();
        let what = format!(
            "{unfinished} applications are not over, containers live on node {node:?}, AMs: {masters:?}"
        );
        let held = self.masters.values().find_map(Master::any_held);
        let finding = Finding {
            what,
            containers: held.into_iter().collect(),
            node,
        };
        self.context.watch.violated(FINISHES, now, finding);
    }

    fn dispatch(&mut self, event: Event) {
        let context = &mut self.context;
        match event {
            Event::Request(Host::Rm, call, request) => self.rm.called(call, request, context),
            Event::Request(Host::Node(node), call, request) => {
                self.called(node, call, request);
            }
            Event::Reply(call, reply) => self.replied(call, Some(reply)),
            Event::Timeout(call) => self.replied(call, None),
            Event::Agent(node, incarnation, event) => {
                self.nodes[node].agent_event(incarnation, event, context);
            }
            Event::Machine(node, boot, event) => {
                self.nodes[node].machine_event(boot, event, context);
            }
            Event::Master(attempt) => {
                if let Some(master) = self.masters.get_mut(&attempt) {
                    master.wake(context);
                }
            }
            Event::RmTick(incarnation) => self.rm.tick(incarnation, context),
            Event::Submit => {
                self.rm.submit(context);
                let gap = Distribution::Exponential(self.scenario.submission_ms);
                let gap = gap.sample(&mut self.submissions);
                if context.now_ms() + gap < self.scenario.submissions_until_ms() {
                    context.queue.push_in(gap, Event::Submit);
                }
            }
            Event::Fault(fault) => self.fault(fault),
        }
    }

    fn called(&mut self, node: usize, call: Call, request: Request) {
        self.nodes[node].called(call, request, &mut self.context);
    }

    fn replied(&mut self, call: Call, reply: Option<Reply>) {
        let context = &mut self.context;
        match call.client {
            Client::Agent(node, incarnation) => {
                self.nodes[node].replied(incarnation, call.number, reply, context);
            }
            Client::Launcher(incarnation) => {
                self.rm.launched(incarnation, call.number, reply, context);
            }
            Client::Master(attempt) => {
                let Some(master) = self.masters.get_mut(&attempt) else {
                    return;
                };
                if let Next::Exit(status) = master.replied(call.number, reply, context) {
                    let (node, container) = (master.node, master.container);
                    self.nodes[node].exit(container, status, context);
                }
            }
        }
    }

    /// Takes AMs whose processes have begun or ended.
    fn take_masters(&mut self) {
        for (container, node) in std::mem::take(&mut self.context.born_masters) {
            self.master_born(container, node);
        }
        for attempt in std::mem::take(&mut self.context.gone_masters) {
            self.masters.remove(&attempt);
            self.context.observe(Observation::MasterGone(attempt));
        }
    }

    fn master_born(&mut self, container: ContainerId, node: usize) {
        let attempt = container.attempt;
        let number = u64::from(attempt.application_id.id.unsigned_abs()) << 8;
        let number = number + u64::from(attempt.attempt_id.unsigned_abs());
        let random = self.streams.stream("master", number);
        let master = Master::new(container, node, self.context.now_ms(), random);
        self.masters.insert(attempt, master);
        self.context.queue.push_in(200, Event::Master(attempt));
    }

    fn fault(&mut self, fault: Fault) {
        let context = &mut self.context;
        let other_of = |other: Option<usize>| other.map_or(Host::Rm, Host::Node);
        match fault {
            Fault::AgentCrash(node, down_ms) => self.nodes[node].crash(false, down_ms, context),
            Fault::MachineCrash(node, down_ms) => self.nodes[node].crash(true, down_ms, context),
            Fault::Cut {
                node,
                other,
                from_node,
                to_node,
                for_ms,
            } => {
                let (here, there) = (Host::Node(node), other_of(other));
                if from_node {
                    context.network.cut(here, there);
                }
                if to_node {
                    context.network.cut(there, here);
                }
                let heal = Event::Fault(Fault::Heal(node, other));
                context.queue.push_in(for_ms, heal);
            }
            Fault::Heal(node, other) => {
                let (here, there) = (Host::Node(node), other_of(other));
                context.network.heal(here, there);
                context.network.heal(there, here);
            }
            Fault::SetClock(node, ahead_ms) => self.nodes[node].set_clock(ahead_ms),
            Fault::SlowDisk(node, for_ms) => {
                self.nodes[node].pace.commit = SLOW_COMMIT;
                let normal = Event::Fault(Fault::NormalDisk(node));
                context.queue.push_in(for_ms, normal);
            }
            Fault::NormalDisk(node) => self.nodes[node].pace.commit = self.scenario.pace.commit,
            Fault::Memory(node) => self.nodes[node].exceed_memory(context),
            Fault::RmRestart => self.rm.restart(context),
            Fault::Over => {
                context.network.heal_all();
                context.network.set_link(CALM);
            }
        }
    }
}
