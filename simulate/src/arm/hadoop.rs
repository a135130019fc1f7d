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
use sched::{ContainerQueuingLimit, NodeLoad};
use sim::{Random, Streams};

use self::monitor::Monitor;
use super::{Cost, MasterCall, Placed, Placer, application_of};
use crate::node::Node;
use crate::scenario::Settings;

/// Allocator of Hadoop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Allocator {
    Central,
    Distributed,
}

pub(super) struct Hadoop {
    allocator: Allocator,
    monitor: Monitor,
    nodes_used: usize,
    sorting_interval_ms: u64,
    /// List that answers carry.
    list: Rc<[usize]>,
    /// Time at which the list was taken; `None` while it is empty.
    listed_at: Option<MonoMillis>,
    /// List of each job's last answer, in the order of arrival.
    jobs: Vec<Rc<[usize]>>,
    last_id: i64,
    random: Random,
    cost: Cost,
}

impl Hadoop {
    pub(super) fn new(settings: &Settings, allocator: Allocator, streams: Streams) -> Self {
        Self {
            allocator,
            monitor: Monitor::new(settings),
            nodes_used: settings.nodes_used,
            sorting_interval_ms: settings.sorting_interval_ms,
            list: Rc::default(),
            listed_at: None,
            jobs: Vec::new(),
            last_id: 0,
            random: streams.stream("placement", 0),
            cost: Cost::default(),
        }
    }

    /// Returns the list of an answer.
    fn answer(&mut self, now: MonoMillis) -> Rc<[usize]> {
        let is_old = |listed: MonoMillis| now.0 - listed.0 > self.sorting_interval_ms;
        if self.listed_at.is_none_or(is_old) {
            self.list = self.monitor.select(self.nodes_used).into();
            self.listed_at = (!self.list.is_empty()).then_some(now);
        }
        self.cost.rm_calls += 1;
        self.cost.list_entries += self.list.len() as u64;
        Rc::clone(&self.list)
    }

    fn place_central(&mut self) -> Option<usize> {
        let offered = self.monitor.select(self.nodes_used);
        let first = usize::try_from(self.random.below(offered.len() as u64)).unwrap_or(0);
        for number in 0..offered.len() {
            let offered = self.monitor.select(self.nodes_used);
            let node = offered[(first + number) % offered.len()];
            if self.monitor.compare_and_increment(node) {
                return Some(node);
            }
        }
        None
    }

    fn chosen(&mut self, call: &MasterCall<'_>) -> Vec<usize> {
        let wanted = usize::try_from(call.wanted).unwrap_or(usize::MAX);
        match self.allocator {
            Allocator::Central => {
                self.cost.rm_calls += 1;
                (0..wanted).map_while(|_| self.place_central()).collect()
            }
            Allocator::Distributed => {
                let list = self.answer(call.now);
                let previous = std::mem::replace(&mut self.jobs[call.job], list);
                previous.iter().copied().take(wanted).collect()
            }
        }
    }
}

impl Placer for Hadoop {
    fn node_beats(
        &mut self,
        node: usize,
        load: &NodeLoad,
        _ended: &[(ContainerId, ContainerExitStatus)],
        now: MonoMillis,
    ) {
        self.monitor.update(node, load, now);
    }

    fn job_arrives(&mut self, job: usize, now: MonoMillis) {
        let list = match self.allocator {
            Allocator::Central => Rc::default(),
            Allocator::Distributed => self.answer(now),
        };
        self.jobs.resize(job, Rc::default());
        self.jobs.push(list);
    }

    fn master_calls(&mut self, call: &MasterCall<'_>, _nodes: &[Node]) -> Vec<Placed> {
        let attempt = application_of(call.job).attempt(1);
        let chosen = self.chosen(call);
        let placed = chosen.into_iter().map(|node| {
            self.last_id += 1;
            Placed::opportunistic(attempt.container(self.last_id), node)
        });
        placed.collect()
    }

    fn node_is_lost(&mut self, node: usize) {
        self.monitor.remove(node);
    }

    fn job_ends(&mut self, job: usize) {
        self.jobs[job] = Rc::default();
    }

    fn tick(&mut self, _now: MonoMillis) {
        self.monitor.sort();
    }

    fn queuing_limit(&self) -> ContainerQueuingLimit {
        self.monitor.queuing_limit()
    }

    fn cost(&self) -> Cost {
        self.cost
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn placer(allocator: Allocator, nodes: usize) -> Hadoop {
        let settings = Settings::default();
        let mut hadoop = Hadoop::new(&settings, allocator, Streams::new(1));
        for node in 0..nodes {
            let load = NodeLoad {
                queue_capacity: 15,
                ..NodeLoad::default()
            };
            hadoop.node_beats(node, &load, &[], MonoMillis(0));
        }
        hadoop.tick(MonoMillis(0));
        hadoop.job_arrives(0, MonoMillis(0));
        hadoop
    }

    fn call(wanted: u32, now: u64) -> MasterCall<'static> {
        MasterCall {
            job: 0,
            wanted,
            wanted_guaranteed: 0,
            probes: 0,
            ended: &[],
            now: MonoMillis(now),
        }
    }

    fn nodes_of(placed: &[Placed]) -> Vec<usize> {
        placed.iter().map(|placed| placed.node).collect()
    }

    #[test]
    fn a_proxy_places_at_most_one_container_on_each_node_of_the_list_in_its_order() {
        let mut hadoop = placer(Allocator::Distributed, 12);
        let placed = hadoop.master_calls(&call(100, 1), &[]);
        assert_eq!(nodes_of(&placed), [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
        let placed = hadoop.master_calls(&call(2, 2), &[]);
        assert_eq!(nodes_of(&placed), [0, 1]);
    }

    #[test]
    fn a_proxy_uses_the_list_of_the_answer_before_and_the_list_is_renewed_after_its_interval() {
        let mut hadoop = placer(Allocator::Distributed, 3);
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
            let placed = hadoop.master_calls(&call(1, now), &[]);
            assert_eq!(nodes_of(&placed), [expected], "at {now}");
        }
    }

    #[test]
    fn the_central_allocator_draws_a_node_for_each_container_and_stops_at_full_queues() {
        let mut hadoop = placer(Allocator::Central, 2);
        let placed = nodes_of(&hadoop.master_calls(&call(100, 1), &[]));
        assert_eq!(placed.len(), 30);
        // A ring would alternate.
        assert!(placed[..20].windows(2).any(|pair| pair[0] == pair[1]));
    }
}
