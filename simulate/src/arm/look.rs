//! Placement by the nodes' proxies after looks at nodes: `sched`'s, one for each job, over all
//! nodes of the cluster. Every node that is up answers a look; containers reach their nodes
//! `look-ms` later than in other arms, when what was seen is as old. A container of which neither
//! node has answered stays an ask.

use records::MonoMillis;
use sched::{LookPlacer, LookTerms, Sight};
use sim::{Random, Streams};

use super::managed::{Allocator, Loads as _, ResourceManager, Shipped};
use super::placer::{MasterCall, Placed};
use crate::node::{Node, SIZE};
use crate::scenario::Settings;

pub(super) struct Looked {
    look_ms: u64,
    holds_back: bool,
    /// Seeds of the jobs' placers.
    random: Random,
}

impl Looked {
    pub(super) fn new(settings: &Settings, streams: Streams) -> Self {
        Self {
            look_ms: settings.look_ms,
            holds_back: settings.holds_back,
            random: streams.stream("placement", 0),
        }
    }
}

impl Allocator for Looked {
    type Loads = Shipped;
    type Job = LookPlacer<usize>;

    fn begin(
        &mut self,
        _job: usize,
        _rm: &mut ResourceManager<Shipped>,
        _now: MonoMillis,
    ) -> Self::Job {
        LookPlacer::new(self.random.below(u64::MAX))
    }

    fn allocate(
        &mut self,
        placer: &mut Self::Job,
        call: &MasterCall<'_>,
        nodes: &[Node],
        rm: &mut ResourceManager<Shipped>,
    ) -> Vec<Placed> {
        let mut round = placer.draw(&rm.directory, call.wanted);
        rm.cost.looks += round.wants().len() as u64;
        let wants = round.wants();
        let sights: Vec<Option<Sight>> = wants.map(|node| nodes[*node].sight(call.now)).collect();
        for (position, sight) in sights.into_iter().enumerate() {
            if let Some(sight) = sight {
                round.sees(position, sight);
            }
        }
        let limit = rm.loads.queuing_limit();
        let terms = LookTerms {
            size: SIZE,
            max_queue_length: limit.max_queue_length,
            holds_back: self.holds_back,
        };
        let placed = placer.place(round, &terms, call.now + self.look_ms);
        let placed = placed.nodes.into_iter();
        placed.map(|node| rm.place(call.job, node)).collect()
    }

    fn answer_delay_ms(&self) -> u64 {
        self.look_ms
    }
}
