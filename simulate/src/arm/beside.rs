//! Guaranteed containers beside the opportunistic ones of an arm. The ResourceManager places them
//! as if there were no others, and nodes end opportunistic ones to make room.

use records::{ContainerExitStatus, ContainerId, MonoMillis};
use sched::{ContainerQueuingLimit, NodeLoad};

use super::placer::{MasterCall, Placed, Placer};
use super::reserving::Reserving;
use crate::measure::Cost;
use crate::node::Node;

pub(super) struct Beside {
    guaranteed: Box<dyn Placer>,
    opportunistic: Box<dyn Placer>,
}

impl Beside {
    pub(super) fn new(guaranteed: Box<dyn Placer>, opportunistic: Box<dyn Placer>) -> Self {
        Self {
            guaranteed,
            opportunistic,
        }
    }
}

impl Placer for Beside {
    fn node_beats(
        &mut self,
        node: usize,
        load: &NodeLoad,
        ended: &[(ContainerId, ContainerExitStatus)],
        now: MonoMillis,
    ) {
        self.guaranteed.node_beats(node, load, ended, now);
        self.opportunistic.node_beats(node, load, ended, now);
    }

    fn job_arrives(&mut self, job: usize, now: MonoMillis) {
        self.guaranteed.job_arrives(job, now);
        self.opportunistic.job_arrives(job, now);
    }

    fn master_calls(
        &mut self,
        call: &MasterCall,
        ended: &[(ContainerId, ContainerExitStatus)],
        nodes: &[Node],
    ) -> Vec<Placed> {
        let mut placed = self.guaranteed.master_calls(call, ended, nodes);
        placed.extend(self.opportunistic.master_calls(call, ended, nodes));
        placed
    }

    fn release(&mut self, id: ContainerId) {
        self.guaranteed.release(id);
    }

    fn node_is_lost(&mut self, node: usize) {
        self.guaranteed.node_is_lost(node);
        self.opportunistic.node_is_lost(node);
    }

    fn node_joins(&mut self, node: usize) {
        self.guaranteed.node_joins(node);
        self.opportunistic.node_joins(node);
    }

    fn masters_placed(&mut self) -> Vec<Placed> {
        self.guaranteed.masters_placed()
    }

    fn reserving(&self) -> Option<&Reserving> {
        self.opportunistic.reserving()
    }

    fn reserving_mut(&mut self) -> Option<&mut Reserving> {
        self.opportunistic.reserving_mut()
    }

    fn answer_delay_ms(&self) -> u64 {
        self.opportunistic.answer_delay_ms()
    }

    fn job_ends(&mut self, job: usize, now: MonoMillis) {
        self.guaranteed.job_ends(job, now);
        self.opportunistic.job_ends(job, now);
    }

    fn tick(&mut self, now: MonoMillis) {
        self.guaranteed.tick(now);
        self.opportunistic.tick(now);
    }

    fn queuing_limit(&self) -> ContainerQueuingLimit {
        self.opportunistic.queuing_limit()
    }

    /// Returns the cost of the arm: both kinds of containers are asked for with the same calls.
    fn cost(&self) -> Cost {
        self.opportunistic.cost()
    }
}
