//! Looks of the nodes' proxies before they place. Every node that is up answers; containers reach
//! their nodes `look-ms` later than in other arms, when what was seen is as old.
//!
//! A node whose kind has a `news-age-ms` answers with a copy of its load, as Java's nodes do in
//! `/jmx`; the first look after that time makes it anew. What ships does not use the copy: the node
//! has answered, but its load is unknown. With `uses-old-news` the copy is taken for the load of
//! the moment.

use records::{MonoMillis, Resource};
use sched::{
    DistributedOpportunisticContainerAllocator, KnownNode, KnownNodes, LookAnswer, RemoteNode,
    Sight,
};

use super::placer::MasterCall;
use crate::node::{Node, SIZE, node_id, number_of};
use crate::scenario::Settings;

/// Returns a node as the ResourceManager tells it.
pub(super) fn remote(number: usize) -> RemoteNode {
    RemoteNode {
        node_id: node_id(number),
        http_address: String::new(),
        rack: "/rack".to_owned(),
        partition: String::new(),
    }
}

pub(super) struct Looks {
    look_ms: u64,
    holds_back: bool,
    uses_old_news: bool,
    /// Opportunistic containers that may wait on a node, as nodes are configured.
    queue_length: usize,
    all: Vec<KnownNode>,
    /// Nodes that are not lost.
    known: KnownNodes,
    /// Copy of each node's load, with the time at which it was made.
    copies: Vec<Option<(MonoMillis, Sight)>>,
}

impl Looks {
    pub(super) fn new(settings: &Settings, nodes: usize) -> Self {
        let all: Vec<KnownNode> = (0..nodes).map(remote).map(KnownNode::from).collect();
        Self {
            look_ms: settings.look_ms,
            holds_back: settings.holds_back,
            uses_old_news: settings.uses_old_news,
            queue_length: settings.queue_length,
            known: all.iter().cloned().collect(),
            all,
            copies: vec![None; nodes],
        }
    }

    pub(super) const fn look_ms(&self) -> u64 {
        self.look_ms
    }

    /// Allocates the containers of a call. `limit`: what the ResourceManager has published for
    /// queues. Returns the number of looks.
    pub(super) fn place(
        &mut self,
        allocator: &mut DistributedOpportunisticContainerAllocator,
        call: &MasterCall,
        limit: Option<usize>,
        nodes: &[Node],
    ) -> u64 {
        let Some(mut plan) = allocator.plan_looks(&self.known, call.now) else {
            return 0;
        };
        let asked = plan.nodes().len();
        for position in 0..asked {
            let number = number_of(&plan.nodes()[position].node().node_id);
            let answer = number.and_then(|number| self.answer(number, nodes, call.now));
            if let Some(answer) = answer {
                plan.hears(position, answer);
            }
        }
        let limit = limit.map_or(self.queue_length, |limit| limit.min(self.queue_length));
        let limit = self.holds_back.then_some(limit);
        allocator.allocate_seen(plan, limit, call.now + self.look_ms);
        asked as u64
    }

    /// Returns the answer of a node; `None` if it is down.
    fn answer(&mut self, number: usize, nodes: &[Node], now: MonoMillis) -> Option<LookAnswer> {
        let node = nodes.get(number)?;
        let fresh = node.sight(now)?;
        let age_max_ms = node.kind.news_age_ms;
        if age_max_ms == 0 {
            return Some(LookAnswer::Seen(fresh));
        }
        if !self.uses_old_news {
            let places = node.kind.places;
            let free = Resource::new(SIZE.memory_mb * u64::from(places), SIZE.vcores * places);
            return Some(LookAnswer::Unknown { free });
        }
        let copy = self.copies.get_mut(number)?;
        let is_kept = copy.is_some_and(|(made, _)| now.since(made) < age_max_ms);
        if !is_kept {
            *copy = Some((now, fresh));
        }
        copy.map(|(_, sight)| {
            LookAnswer::Seen(Sight {
                seen_at: now,
                ..sight
            })
        })
    }

    /// Takes the numbers of the nodes that are not lost.
    pub(super) fn know(&mut self, directory: &[usize]) {
        let nodes = directory.iter().filter_map(|number| self.all.get(*number));
        self.known = nodes.cloned().collect();
    }
}
