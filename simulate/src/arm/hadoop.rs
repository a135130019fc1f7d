//! Models: the two allocators of opportunistic containers of Hadoop 3.4, where they differ from
//! those that ship here.
//!
//! - Central (`CentralizedOpportunisticContainerAllocator`): each container begins at a node of the
//!   list drawn at random, and takes the first from there whose queue has a free place. A node at
//!   the published limit is offered, and sheds what it gets.
//! - Distributed (`DistributedOpportunisticContainerAllocator`): each call takes the nodes of the
//!   previous answer's list in its order, at most one container on each. The ResourceManager sends
//!   a list that it renews at its own interval, so it can be two intervals old.

mod monitor;

use std::rc::Rc;

use records::{ContainerExitStatus, ContainerId, MonoMillis};
use sim::{Random, Streams};

use super::managed::{Allocator, ResourceManager};
use super::placer::{MasterCall, Placed};
use crate::measure::Cost;
use crate::node::Node;
use crate::scenario::Settings;

pub(super) use self::monitor::Monitor;

/// Allocator of Hadoop's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Central,
    Distributed,
}

pub(super) struct Hadoop {
    kind: Kind,
    nodes_used: usize,
    sorting_interval_ms: u64,
    /// List that answers carry.
    list: Rc<[usize]>,
    /// Time at which the list was taken; `None` while it is empty.
    listed_at: Option<MonoMillis>,
    random: Random,
}

impl Hadoop {
    pub(super) fn new(settings: &Settings, kind: Kind, streams: Streams) -> Self {
        Self {
            kind,
            nodes_used: settings.nodes_used,
            sorting_interval_ms: settings.sorting_interval_ms,
            list: Rc::default(),
            listed_at: None,
            random: streams.stream("placement", 0),
        }
    }

    /// Returns the list of an answer.
    fn answer(&mut self, monitor: &Monitor, cost: &mut Cost, now: MonoMillis) -> Rc<[usize]> {
        let is_old = |listed: MonoMillis| now.0 - listed.0 > self.sorting_interval_ms;
        if self.listed_at.is_none_or(is_old) {
            self.list = monitor.select(self.nodes_used).into();
            self.listed_at = (!self.list.is_empty()).then_some(now);
        }
        cost.list_entries += self.list.len() as u64;
        Rc::clone(&self.list)
    }

    fn place_central(&mut self, monitor: &mut Monitor) -> Option<usize> {
        let offered = monitor.select(self.nodes_used);
        let first = usize::try_from(self.random.below(offered.len() as u64)).unwrap_or(0);
        for number in 0..offered.len() {
            let offered = monitor.select(self.nodes_used);
            let node = offered[(first + number) % offered.len()];
            if monitor.compare_and_increment(node) {
                return Some(node);
            }
        }
        None
    }
}

impl Allocator for Hadoop {
    type Loads = Monitor;
    /// List of the job's last answer.
    type Job = Rc<[usize]>;

    fn begin(
        &mut self,
        _job: usize,
        rm: &mut ResourceManager<Monitor>,
        now: MonoMillis,
    ) -> Self::Job {
        match self.kind {
            Kind::Central => Rc::default(),
            Kind::Distributed => self.answer(&rm.loads, &mut rm.cost, now),
        }
    }

    fn allocate(
        &mut self,
        previous: &mut Self::Job,
        call: &MasterCall,
        _ended: &[(ContainerId, ContainerExitStatus)],
        _nodes: &[Node],
        rm: &mut ResourceManager<Monitor>,
    ) -> Vec<Placed> {
        let wanted = usize::try_from(call.wanted).unwrap_or(usize::MAX);
        let chosen: Vec<usize> = match self.kind {
            Kind::Central => (0..wanted)
                .map_while(|_| self.place_central(&mut rm.loads))
                .collect(),
            Kind::Distributed => {
                let list = self.answer(&rm.loads, &mut rm.cost, call.now);
                let previous = std::mem::replace(previous, list);
                previous.iter().copied().take(wanted).collect()
            }
        };
        let placed = chosen.into_iter();
        placed.map(|node| rm.place(call.job, node)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arm::managed::Managed;
    use crate::arm::placer::Placer as _;
    use sched::NodeLoad;

    fn placer(kind: Kind, nodes: usize) -> Managed<Hadoop> {
        let settings = Settings::default();
        let hadoop = Hadoop::new(&settings, kind, Streams::new(1));
        let mut hadoop = Managed::new(Monitor::new(&settings), nodes, hadoop);
        for node in 0..nodes {
            let load = NodeLoad {
                queue_capacity: 15,
                ..NodeLoad::default()
            };
            hadoop.node_beats(node, &load, &[], MonoMillis(0));
        }
        hadoop.tick(MonoMillis(0));
        // The first call registers the job.
        assert!(hadoop.master_calls(&call(0, 0), &[], &[]).is_empty());
        hadoop
    }

    fn call(wanted: u32, now: u64) -> MasterCall {
        MasterCall {
            job: 0,
            node: None,
            wanted,
            wanted_guaranteed: 0,
            probes: 0,
            now: MonoMillis(now),
        }
    }

    fn nodes_of(placed: &[Placed]) -> Vec<usize> {
        placed.iter().map(|placed| placed.node).collect()
    }

    #[test]
    fn a_proxy_places_at_most_one_container_on_each_node_of_the_list_in_its_order() {
        let mut hadoop = placer(Kind::Distributed, 12);
        let placed = hadoop.master_calls(&call(100, 1), &[], &[]);
        assert_eq!(nodes_of(&placed), [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
        let placed = hadoop.master_calls(&call(2, 2), &[], &[]);
        assert_eq!(nodes_of(&placed), [0, 1]);
    }

    #[test]
    fn a_proxy_uses_the_list_of_the_answer_before_and_the_list_is_renewed_after_its_interval() {
        let mut hadoop = placer(Kind::Distributed, 3);
        let busy = NodeLoad {
            queue_length: 9,
            queue_capacity: 15,
            ..NodeLoad::default()
        };
        hadoop.node_beats(0, &busy, &[], MonoMillis(5));
        hadoop.tick(MonoMillis(1_000));
        // At 1,000 the list is not older than its interval; at 1,001 a new one is taken, which the
        // call after that uses.
        for (now, expected) in [(1_000, 0), (1_001, 0), (1_002, 1)] {
            let placed = hadoop.master_calls(&call(1, now), &[], &[]);
            assert_eq!(nodes_of(&placed), [expected], "at {now}");
        }
    }

    #[test]
    fn the_central_allocator_draws_a_node_for_each_container_and_stops_at_full_queues() {
        let mut hadoop = placer(Kind::Central, 2);
        let placed = nodes_of(&hadoop.master_calls(&call(100, 1), &[], &[]));
        assert_eq!(placed.len(), 30);
        // A ring would alternate.
        assert!(placed[..20].windows(2).any(|pair| pair[0] == pair[1]));
    }
}
