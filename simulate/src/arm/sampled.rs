//! Models: placement on nodes drawn at random, without a list of the ResourceManager.
//!
//! With looks, a call draws two nodes for each container that it wants, learns how many containers
//! each of them has at that moment, and puts the containers on the least loaded of all, counting
//! those that it has just put there. Without looks, each container goes to a node drawn at random.
//!
//! Sparrow (Ousterhout et al., SOSP 2013), with two probes for each task: with early binding, the
//! tasks go to the least loaded of the nodes drawn (batch sampling). With late binding, a probe
//! waits in the queue of each node drawn; the first to get a place take the tasks, and the others
//! are dropped. Here, as on YARN, a job's master sends them with its heartbeat.

use std::collections::BTreeSet;

use records::{ContainerExitStatus, ContainerId, MonoMillis};
use sched::{ContainerQueuingLimit, NodeLoad, NodeLoadMonitor};
use sim::{Random, Streams};

use super::{Cost, MasterCall, Placed, Placer, application_of, monitor, update};
use crate::node::{Node, node_id};
use crate::scenario::Settings;

/// Nodes that are looked at for each container.
const LOOKS: u32 = 2;

/// Use of the nodes drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// One node for each container.
    Random,
    /// Two nodes for each container; the least loaded, with what was just put there.
    Looks,
    /// Two nodes for each container; the least loaded at the time of the call.
    Batch,
    /// A probe on each of two nodes for each container.
    Probes,
}

pub(super) struct Sampled {
    /// The ResourceManager's, for the limit of the queues.
    monitor: NodeLoadMonitor,
    mode: Mode,
    /// Numbers of the nodes that are not lost.
    directory: Vec<usize>,
    last_id: i64,
    random: Random,
    cost: Cost,
}

impl Sampled {
    pub(super) fn new(settings: &Settings, mode: Mode, nodes: usize, streams: Streams) -> Self {
        Self {
            monitor: monitor(settings),
            mode,
            directory: (0..nodes).collect(),
            last_id: 0,
            random: streams.stream("placement", 0),
            cost: Cost::default(),
        }
    }

    /// Draws a node; without any that is not lost, the first.
    fn draw(&mut self) -> usize {
        self.random.pick(&self.directory).copied().unwrap_or(0)
    }

    /// Returns the nodes that get a container or a probe.
    fn choose(&mut self, call: &MasterCall<'_>, nodes: &[Node]) -> Vec<usize> {
        let wanted = call.wanted;
        match self.mode {
            Mode::Random => (0..wanted).map(|_| self.draw()).collect(),
            Mode::Looks => self.look(wanted, nodes),
            Mode::Batch => self.sample(wanted, nodes),
            // Every probe that waits can take a task: more are needed only if there are fewer.
            Mode::Probes if call.probes >= wanted => Vec::new(),
            Mode::Probes => {
                let missing = wanted.saturating_mul(LOOKS) - call.probes;
                (0..missing).map(|_| self.draw()).collect()
            }
        }
    }

    /// Returns the least loaded of the nodes drawn. A node drawn twice can be taken twice.
    fn sample(&mut self, wanted: u32, nodes: &[Node]) -> Vec<usize> {
        let looks = u64::from(wanted) * u64::from(LOOKS);
        self.cost.looks += looks;
        let mut drawn: Vec<usize> = (0..looks).map(|_| self.draw()).collect();
        drawn.retain(|number| nodes[*number].is_up);
        drawn.sort_by_key(|number| nodes[*number].load_now());
        drawn.truncate(usize::try_from(wanted).unwrap_or(usize::MAX));
        drawn
    }

    fn look(&mut self, wanted: u32, nodes: &[Node]) -> Vec<usize> {
        let looks = u64::from(wanted) * u64::from(LOOKS);
        self.cost.looks += looks;
        let mut seen = BTreeSet::new();
        // Among equals the one drawn first: an order by number would favour some nodes.
        let mut by_load: BTreeSet<(u32, u64, usize)> = (0..looks)
            .map(|look| (look, self.draw()))
            .filter(|(_, number)| nodes[*number].is_up && seen.insert(*number))
            .map(|(look, number)| (nodes[number].load_now(), look, number))
            .collect();
        let mut chosen = Vec::new();
        for _ in 0..wanted {
            let Some((load, look, number)) = by_load.pop_first() else {
                break;
            };
            by_load.insert((load.saturating_add(1), look, number));
            chosen.push(number);
        }
        chosen
    }
}

impl Placer for Sampled {
    fn node_beats(
        &mut self,
        node: usize,
        load: &NodeLoad,
        _ended: &[(ContainerId, ContainerExitStatus)],
        now: MonoMillis,
    ) {
        update(&mut self.monitor, node, load, now);
    }

    fn job_arrives(&mut self, _job: usize, _now: MonoMillis) {}

    fn master_calls(&mut self, call: &MasterCall<'_>, nodes: &[Node]) -> Vec<Placed> {
        self.cost.rm_calls += 1;
        let attempt = application_of(call.job).attempt(1);
        let chosen = self.choose(call, nodes);
        let is_probe = self.mode == Mode::Probes;
        let placed = chosen.into_iter().map(|node| {
            self.last_id += 1;
            Placed {
                is_probe,
                ..Placed::opportunistic(attempt.container(self.last_id), node)
            }
        });
        placed.collect()
    }

    fn node_is_lost(&mut self, node: usize) {
        self.monitor.remove(&node_id(node));
        self.directory.retain(|known| *known != node);
    }

    fn node_joins(&mut self, node: usize) {
        self.directory.push(node);
    }

    fn job_ends(&mut self, _job: usize) {}

    fn tick(&mut self, now: MonoMillis) {
        self.monitor.tick(now);
    }

    fn queuing_limit(&self) -> ContainerQueuingLimit {
        match self.mode {
            Mode::Random | Mode::Looks => self.monitor.queuing_limit(),
            Mode::Batch | Mode::Probes => ContainerQueuingLimit {
                max_queue_length: None,
                max_queue_wait_time_ms: None,
            },
        }
    }

    fn cost(&self) -> Cost {
        self.cost
    }
}
