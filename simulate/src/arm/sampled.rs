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
use sim::{Random, Streams};

use super::managed::{Allocator, ResourceManager, Shipped};
use super::placer::{MasterCall, Placed};
use crate::measure::Cost;
use crate::node::Node;

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
    mode: Mode,
    random: Random,
}

impl Sampled {
    pub(super) fn new(mode: Mode, streams: Streams) -> Self {
        Self {
            mode,
            random: streams.stream("placement", 0),
        }
    }

    /// Draws a node; without any that is not lost, the first.
    fn draw(&mut self, directory: &[usize]) -> usize {
        self.random.pick(directory).copied().unwrap_or(0)
    }

    /// Returns the nodes that get a container or a probe.
    fn choose(
        &mut self,
        call: &MasterCall,
        nodes: &[Node],
        rm: &mut ResourceManager<Shipped>,
    ) -> Vec<usize> {
        let (wanted, directory) = (call.wanted, &*rm.directory);
        match self.mode {
            Mode::Random => (0..wanted).map(|_| self.draw(directory)).collect(),
            Mode::Looks => self.look(wanted, nodes, directory, &mut rm.cost),
            Mode::Batch => self.sample(wanted, nodes, directory, &mut rm.cost),
            // Every probe that waits can take a task: more are needed only if there are fewer.
            Mode::Probes if call.probes >= wanted => Vec::new(),
            Mode::Probes => {
                let missing = wanted.saturating_mul(LOOKS) - call.probes;
                (0..missing).map(|_| self.draw(directory)).collect()
            }
        }
    }

    /// Returns the least loaded of the nodes drawn. A node drawn twice can be taken twice.
    fn sample(
        &mut self,
        wanted: u32,
        nodes: &[Node],
        directory: &[usize],
        cost: &mut Cost,
    ) -> Vec<usize> {
        let looks = u64::from(wanted) * u64::from(LOOKS);
        cost.looks += looks;
        let mut drawn: Vec<usize> = (0..looks).map(|_| self.draw(directory)).collect();
        drawn.retain(|number| nodes[*number].is_up);
        drawn.sort_by_key(|number| nodes[*number].load_now());
        drawn.truncate(usize::try_from(wanted).unwrap_or(usize::MAX));
        drawn
    }

    fn look(
        &mut self,
        wanted: u32,
        nodes: &[Node],
        directory: &[usize],
        cost: &mut Cost,
    ) -> Vec<usize> {
        let looks = u64::from(wanted) * u64::from(LOOKS);
        cost.looks += looks;
        let mut seen = BTreeSet::new();
        // Among equals the one drawn first: an order by number would favour some nodes.
        let mut by_load: BTreeSet<(u32, u64, usize)> = (0..looks)
            .map(|look| (look, self.draw(directory)))
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

impl Allocator for Sampled {
    type Loads = Shipped;
    type Job = ();

    fn begin(&mut self, _job: usize, _rm: &mut ResourceManager<Shipped>, _now: MonoMillis) {}

    fn allocate(
        &mut self,
        (): &mut Self::Job,
        call: &MasterCall,
        _ended: &[(ContainerId, ContainerExitStatus)],
        nodes: &[Node],
        rm: &mut ResourceManager<Shipped>,
    ) -> Vec<Placed> {
        let is_probe = self.mode == Mode::Probes;
        let chosen = self.choose(call, nodes, rm).into_iter();
        let place = |node| Placed {
            is_probe,
            ..rm.place(call.job, node)
        };
        chosen.map(place).collect()
    }

    fn has_limit(&self) -> bool {
        matches!(self.mode, Mode::Random | Mode::Looks)
    }
}
