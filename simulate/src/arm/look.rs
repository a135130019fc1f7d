//! Placement by the nodes' proxies after looks at nodes: `sched`'s, one for each job, over all
//! nodes of the cluster. Every node that is up answers a look; containers reach their nodes
//! `look-ms` later than in other arms, when what was seen is as old. A container of which neither
//! node has answered stays an ask.

use records::{ContainerExitStatus, ContainerId, MonoMillis};
use sched::{ContainerQueuingLimit, LookPlacer, LookTerms, NodeLoad, NodeLoadMonitor, Sight};
use sim::{Random, Streams};

use super::{Cost, MasterCall, Placed, Placer, application_of, monitor, update};
use crate::node::{Node, SIZE, node_id};
use crate::scenario::Settings;

pub(super) struct Looked {
    /// The ResourceManager's, for the limit of the queues.
    monitor: NodeLoadMonitor,
    look_ms: u64,
    holds_back: bool,
    /// Numbers of the nodes that are not lost.
    directory: Vec<usize>,
    /// Placement of each job, in the order of arrival; `None` after the job's end.
    jobs: Vec<Option<LookPlacer<usize>>>,
    last_id: i64,
    random: Random,
    cost: Cost,
}

impl Looked {
    pub(super) fn new(settings: &Settings, nodes: usize, streams: Streams) -> Self {
        Self {
            monitor: monitor(settings),
            look_ms: settings.look_ms,
            holds_back: settings.holds_back,
            directory: (0..nodes).collect(),
            jobs: Vec::new(),
            last_id: 0,
            random: streams.stream("placement", 0),
            cost: Cost::default(),
        }
    }
}

impl Placer for Looked {
    fn node_beats(
        &mut self,
        node: usize,
        load: &NodeLoad,
        _ended: &[(ContainerId, ContainerExitStatus)],
        now: MonoMillis,
    ) {
        update(&mut self.monitor, node, load, now);
    }

    fn job_arrives(&mut self, job: usize, _now: MonoMillis) {
        let seed = self.random.below(u64::MAX);
        self.jobs.resize(job, None);
        self.jobs.push(Some(LookPlacer::new(seed)));
    }

    fn master_calls(&mut self, call: &MasterCall<'_>, nodes: &[Node]) -> Vec<Placed> {
        self.cost.rm_calls += 1;
        let Some(Some(placer)) = self.jobs.get_mut(call.job) else {
            return Vec::new();
        };
        let mut round = placer.draw(&self.directory, call.wanted);
        self.cost.looks += round.wants().len() as u64;
        let wants = round.wants();
        let sights: Vec<Option<Sight>> = wants.map(|node| nodes[*node].sight(call.now)).collect();
        for (position, sight) in sights.into_iter().enumerate() {
            if let Some(sight) = sight {
                round.sees(position, sight);
            }
        }
        let limit = self.monitor.queuing_limit();
        let terms = LookTerms {
            size: SIZE,
            max_queue_length: limit.max_queue_length,
            holds_back: self.holds_back,
        };
        let placed = placer.place(round, &terms, call.now + self.look_ms);
        let attempt = application_of(call.job).attempt(1);
        let placed = placed.nodes.into_iter().map(|node| {
            self.last_id += 1;
            Placed::opportunistic(attempt.container(self.last_id), node)
        });
        placed.collect()
    }

    fn answer_delay_ms(&self) -> u64 {
        self.look_ms
    }

    fn node_is_lost(&mut self, node: usize) {
        self.monitor.remove(&node_id(node));
        self.directory.retain(|known| *known != node);
    }

    fn node_joins(&mut self, node: usize) {
        self.directory.push(node);
    }

    fn job_ends(&mut self, job: usize) {
        if let Some(placer) = self.jobs.get_mut(job) {
            *placer = None;
        }
    }

    fn tick(&mut self, now: MonoMillis) {
        self.monitor.tick(now);
    }

    fn queuing_limit(&self) -> ContainerQueuingLimit {
        self.monitor.queuing_limit()
    }

    fn cost(&self) -> Cost {
        self.cost
    }
}
