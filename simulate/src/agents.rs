//! Level *agents*: the cores of whole NodeManagers, the core of the embedded ResourceManager, and
//! the pipelines of the proxies, with the messages between them.
//!
//! ```text
//!  world's events ─▶ Agents ─┬▶ Agent      `node_core`, its session and keys: one for each node
//!                            ├▶ mini_rm    the ResourceManager's core
//!                            └▶ Master     protocol of a job's ApplicationMaster, and its pipeline
//! ```
//!
//! Messages between masters, proxies and the ResourceManager are encoded and decoded as on the
//! wire; tokens are signed and verified. Every call is answered at once: what takes time is the
//! world's, which is that of level *decisions*.

mod looks;
mod master;
mod node;
mod resource_manager;

use std::collections::BTreeMap;

use records::{ContainerId, EpochMillis, ExecutionType, MonoMillis, Now};
use sched::{KnownNode, KnownNodes, Placement, RemoteNode};
use sim::Streams;
use sim_agent::Start;
use std::sync::Arc;
use wire::proto::hadoop_yarn::ContainerLaunchContextProto;
use wire::token::Token;

use self::master::{Master, Pipeline};
use self::node::Agent;
use self::resource_manager::ResourceManager;
use crate::arm::{CLUSTER_TIMESTAMP, MasterCall, Placed, application_of, job_of, scheduler_config};
use crate::measure::Cost;
use crate::node::{News, node_id};
use crate::scenario::{Arm, NodeKind, Policy, Scenario};
use crate::world::{Answer, Level};

/// Command of every container: what it does is the world's.
const COMMAND: &str = "task";

/// Returns the time on the clocks of all machines, which agree.
fn at(now: MonoMillis) -> Now {
    let elapsed = i64::try_from(now.0).unwrap_or(i64::MAX);
    Now {
        mono: now,
        wall: EpochMillis(CLUSTER_TIMESTAMP.saturating_add(elapsed)),
    }
}

/// Tokens to start a container with.
struct Ticket {
    nm_token: Token,
    start: Start,
    is_master: bool,
}

pub(crate) struct Agents {
    rm: ResourceManager,
    nodes: Vec<Agent>,
    masters: BTreeMap<usize, Master>,
    tickets: BTreeMap<ContainerId, Ticket>,
    /// Containers of masters that the ResourceManager starts.
    masters_placed: Vec<Placed>,
    pipeline: Pipeline,
    look_ms: u64,
    cost: Cost,
}

impl Agents {
    pub(crate) fn new(scenario: &Scenario, arm: &Arm, streams: Streams) -> Self {
        let kinds = scenario.cluster.each_node().enumerate();
        let nodes: Vec<Agent> = kinds
            .map(|(number, kind)| Agent::new(number, kind, scheduler_config(arm, kind)))
            .collect();
        let placement = placement_of(arm.policy);
        let known: KnownNodes = (0..nodes.len()).map(known_node).collect();
        let seed = streams.stream("placement", 0).seed();
        Self {
            rm: ResourceManager::new(&arm.settings, placement.is_some(), seed, at(MonoMillis(0))),
            nodes,
            masters: BTreeMap::new(),
            tickets: BTreeMap::new(),
            masters_placed: Vec::new(),
            pipeline: Pipeline::new(placement, Arc::new(known)),
            look_ms: match placement {
                Some(Placement::Look) => arm.settings.look_ms,
                Some(Placement::Spread | Placement::ListOrder) | None => 0,
            },
            cost: Cost::default(),
        }
    }

    /// Takes the masters that the ResourceManager launches.
    fn take_launches(&mut self) {
        for launch in self.rm.take_launches() {
            let Some(node) = crate::node::number_of(&launch.node) else {
                continue;
            };
            let id = launch.container;
            if let Some(master) = self.masters.get_mut(&job_of(&id)) {
                master.runs_on(node);
            }
            let ticket = Ticket {
                nm_token: launch.nm_token,
                start: Start {
                    token: launch.container_token,
                    context: launch.context,
                },
                is_master: true,
            };
            self.tickets.insert(id, ticket);
            self.masters_placed.push(Placed::guaranteed(id, node));
        }
    }
}

/// Returns how proxies place; `None`: the ResourceManager does.
const fn placement_of(policy: Policy) -> Option<Placement> {
    match policy {
        Policy::Spread => Some(Placement::Spread),
        Policy::ListOrder => Some(Placement::ListOrder),
        Policy::Look => Some(Placement::Look),
        Policy::Central
        | Policy::HadoopCentral
        | Policy::HadoopDistributed
        | Policy::Random
        | Policy::Looks
        | Policy::Reservations
        | Policy::SparrowEarly
        | Policy::SparrowLate
        | Policy::GuaranteedFifo
        | Policy::GuaranteedFair
        | Policy::GuaranteedShortest
        | Policy::OmniscientFifo
        | Policy::OmniscientShortest => None,
    }
}

/// Returns a node as a directory of the cluster's nodes has it.
fn known_node(number: usize) -> KnownNode {
    let node_id = node_id(number);
    let http_address = format!("{}:{}", node_id.host, sim_agent::HTTP_PORT);
    KnownNode::from(RemoteNode {
        node_id,
        http_address,
        rack: mini_rm::nodes::DEFAULT_RACK.to_owned(),
        partition: String::new(),
    })
}

/// Returns the launch context of a container.
fn launch_context() -> ContainerLaunchContextProto {
    ContainerLaunchContextProto {
        command: vec![COMMAND.to_owned()],
        ..ContainerLaunchContextProto::default()
    }
}

impl Level for Agents {
    fn begin(&mut self, now: MonoMillis) {
        for node in &mut self.nodes {
            node.register(&mut self.rm, at(now));
        }
    }

    fn kind(&self, node: usize) -> NodeKind {
        self.nodes[node].kind
    }

    fn queue_lengths(&self) -> impl Iterator<Item = usize> + Clone {
        self.nodes.iter().map(Agent::queue_length)
    }

    fn start(
        &mut self,
        node: usize,
        id: ContainerId,
        _execution_type: ExecutionType,
        now: MonoMillis,
        news: &mut Vec<News>,
    ) {
        let Some(ticket) = self.tickets.remove(&id) else {
            return;
        };
        let started = self.nodes[node].start(&ticket.nm_token, ticket.start, at(now), news);
        if ticket.is_master {
            self.rm.master_launched(id.attempt, started, at(now));
            self.take_launches();
        }
    }

    fn launched(&mut self, node: usize, id: ContainerId, now: MonoMillis, news: &mut Vec<News>) {
        self.nodes[node].launched(id, at(now), news);
    }

    fn exit(&mut self, node: usize, id: ContainerId, now: MonoMillis, news: &mut Vec<News>) {
        self.nodes[node].exit(id, at(now), news);
    }

    fn frozen(
        &mut self,
        node: usize,
        id: ContainerId,
        now: MonoMillis,
        news: &mut Vec<News>,
    ) -> bool {
        self.nodes[node].frozen(id, at(now), news)
    }

    fn thawed(&mut self, node: usize, id: ContainerId, now: MonoMillis, news: &mut Vec<News>) {
        self.nodes[node].thawed(id, at(now), news);
    }

    fn next_deadline(&self, node: usize) -> Option<MonoMillis> {
        self.nodes[node].next_deadline()
    }

    fn tick(&mut self, node: usize, now: MonoMillis, news: &mut Vec<News>) {
        self.nodes[node].tick(at(now), news);
    }

    fn has_ends(&self, node: usize) -> bool {
        self.nodes[node].beats_now
    }

    fn beat(&mut self, node: usize, now: MonoMillis, news: &mut Vec<News>) {
        self.nodes[node].beat(&mut self.rm, at(now), news);
        self.take_launches();
    }

    fn sort(&mut self, now: MonoMillis) {
        self.rm.tick(at(now));
        self.take_launches();
    }

    fn job_arrives(&mut self, job: usize, now: MonoMillis) {
        let attempt = application_of(job).attempt(1);
        let master = Master::new(attempt, self.pipeline.of(attempt));
        self.masters.insert(job, master);
        self.rm
            .submit(attempt.application_id, launch_context(), at(now));
        self.take_launches();
    }

    fn masters_placed(&mut self) -> Vec<Placed> {
        std::mem::take(&mut self.masters_placed)
    }

    fn call(&mut self, call: &MasterCall) -> Answer {
        let Some(master) = self.masters.get_mut(&call.job) else {
            return Answer::default();
        };
        let mut cluster = master::Cluster {
            rm: &mut self.rm,
            nodes: &self.nodes,
            look_ms: self.look_ms,
            cost: &mut self.cost,
        };
        let granted = master.call(call, &mut cluster);
        let placed = granted.containers.into_iter().map(|granted| {
            let ticket = Ticket {
                nm_token: granted.nm_token,
                start: Start {
                    token: granted.token,
                    context: launch_context(),
                },
                is_master: false,
            };
            self.tickets.insert(granted.placed.id, ticket);
            granted.placed
        });
        let answer = Answer {
            placed: placed.collect(),
            ended: granted.ended,
        };
        self.take_launches();
        answer
    }

    fn release(&mut self, id: ContainerId) {
        self.tickets.remove(&id);
        if let Some(master) = self.masters.get_mut(&job_of(&id)) {
            master.release(id);
        }
    }

    fn job_ends(&mut self, job: usize, now: MonoMillis) {
        if let Some(mut master) = self.masters.remove(&job) {
            let mut cluster = master::Cluster {
                rm: &mut self.rm,
                nodes: &self.nodes,
                look_ms: self.look_ms,
                cost: &mut self.cost,
            };
            master.finish(now, &mut cluster);
        }
    }

    fn answer_delay_ms(&self) -> u64 {
        self.look_ms
    }

    fn cost(&self) -> Cost {
        self.cost
    }
}
