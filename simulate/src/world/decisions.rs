//! Level *decisions*: the scheduler of each node, and an arm's placement.

use std::collections::BTreeMap;

use records::{ContainerExitStatus, ContainerId, ExecutionType, MonoMillis};
use sched::RunProfile;

use super::level::{Answer, Level};
use crate::arm::{Letter, MasterCall, Placed, Placer, job_of, scheduler_config};
use crate::hints;
use crate::job::Job;
use crate::measure::Cost;
use crate::node::{News, Node};
use crate::scenario::{Arm, Comparator, NodeKind, Scenario};

pub(crate) struct Decisions {
    pub(super) nodes: Vec<Node>,
    placer: Box<dyn Placer>,
    /// Hints of the containers of each job about their runs; empty: none.
    hints: Vec<RunProfile>,
    /// Ends that the next answer to a job's master tells.
    told: BTreeMap<usize, Vec<(ContainerId, ContainerExitStatus)>>,
}

impl Decisions {
    pub(crate) fn new(
        scenario: &Scenario,
        arm: &Arm,
        placer: Box<dyn Placer>,
        jobs: &[Job],
    ) -> Self {
        let estimates_waits = arm.settings.comparator == Comparator::QueueWaitTime;
        let node = |kind: NodeKind| Node::new(kind, scheduler_config(arm, kind), estimates_waits);
        Self {
            nodes: scenario.cluster.each_node().map(node).collect(),
            placer,
            hints: hints::of_jobs(arm, jobs),
            told: BTreeMap::new(),
        }
    }
}

impl Level for Decisions {
    fn begin(&mut self, _now: MonoMillis) {}

    fn kind(&self, node: usize) -> NodeKind {
        self.nodes[node].kind
    }

    fn queue_lengths(&self) -> impl Iterator<Item = usize> + Clone {
        self.nodes.iter().map(Node::queue_length)
    }

    fn start(
        &mut self,
        node: usize,
        id: ContainerId,
        execution_type: ExecutionType,
        now: MonoMillis,
        news: &mut Vec<News>,
    ) {
        let is_task = execution_type == ExecutionType::Opportunistic;
        let profile = self.hints.get(job_of(&id)).filter(|_| is_task).copied();
        if let Some(reserving) = self.placer.reserving_mut().filter(|_| is_task) {
            reserving.arrived(node, &id);
        }
        self.nodes[node].start(id, execution_type, profile, now, news);
    }

    fn launched(&mut self, node: usize, id: ContainerId, now: MonoMillis, news: &mut Vec<News>) {
        self.nodes[node].launched(id, now, news);
    }

    fn exit(&mut self, node: usize, id: ContainerId, now: MonoMillis, news: &mut Vec<News>) {
        self.nodes[node].exit(id, now, news);
    }

    fn frozen(
        &mut self,
        node: usize,
        id: ContainerId,
        now: MonoMillis,
        news: &mut Vec<News>,
    ) -> bool {
        self.nodes[node].frozen(id, now, news)
    }

    fn thawed(&mut self, node: usize, id: ContainerId, now: MonoMillis, news: &mut Vec<News>) {
        self.nodes[node].thawed(id, now, news);
    }

    fn next_deadline(&self, node: usize) -> Option<MonoMillis> {
        let reserving = self.placer.reserving();
        let of_rooms = reserving.and_then(|reserving| reserving.next_deadline(node));
        let of_node = self.nodes[node].next_deadline();
        of_node.into_iter().chain(of_rooms).min()
    }

    fn tick(&mut self, node: usize, now: MonoMillis, news: &mut Vec<News>) {
        self.nodes[node].tick(now, news);
    }

    fn has_ends(&self, node: usize) -> bool {
        !self.nodes[node].completed.is_empty()
    }

    fn beat(&mut self, node: usize, now: MonoMillis, news: &mut Vec<News>) {
        let load = self.nodes[node].report(now);
        let mut ended = std::mem::take(&mut self.nodes[node].completed);
        // A node tells its ends in the order of ids.
        ended.sort_unstable_by_key(|(id, _)| *id);
        self.placer.node_beats(node, &load, &ended, now);
        for (id, status) in ended {
            self.tell(id, status);
        }
        let limit = self.placer.queuing_limit();
        self.nodes[node].limit(limit, now, news);
    }

    fn sort(&mut self, now: MonoMillis) {
        self.placer.tick(now);
    }

    fn job_arrives(&mut self, job: usize, now: MonoMillis) {
        self.told.insert(job, Vec::new());
        self.placer.job_arrives(job, now);
    }

    fn masters_placed(&mut self) -> Vec<Placed> {
        self.placer.masters_placed()
    }

    fn call(&mut self, call: &MasterCall) -> Answer {
        let told = self.told.get_mut(&call.job);
        let ended = told.map(std::mem::take).unwrap_or_default();
        let placed = self.placer.master_calls(call, &ended, &self.nodes);
        Answer { placed, ended }
    }

    fn release(&mut self, id: ContainerId) {
        self.placer.release(id);
    }

    fn job_ends(&mut self, job: usize, now: MonoMillis) {
        self.told.remove(&job);
        self.placer.job_ends(job, now);
    }

    fn answer_delay_ms(&self) -> u64 {
        self.placer.answer_delay_ms()
    }

    fn answers_late_ms(&self) -> Option<u64> {
        let reserving = self.placer.reserving()?;
        Some(reserving.look_ms())
    }

    fn late_answer(&mut self, job: usize, now: MonoMillis) -> Vec<Placed> {
        let reserving = self.placer.reserving_mut();
        reserving.map_or_else(Vec::new, |reserving| reserving.answer(job, now))
    }

    fn settle(&mut self, node: usize, now: MonoMillis) {
        if let Some(reserving) = self.placer.reserving_mut() {
            reserving.settle(node, &self.nodes, now);
        }
    }

    fn take_letters(&mut self) -> (u64, Vec<Letter>) {
        match self.placer.reserving_mut() {
            Some(reserving) => (reserving.message_ms(), reserving.take_letters()),
            None => (0, Vec::new()),
        }
    }

    fn deliver(&mut self, letter: Letter, now: MonoMillis) -> Option<usize> {
        let reserving = self.placer.reserving_mut()?;
        reserving.deliver(letter, &self.nodes, now)
    }

    fn cost(&self) -> Cost {
        self.placer.cost()
    }

    fn is_up(&self, node: usize) -> bool {
        self.nodes[node].is_up
    }

    fn fail(&mut self, node: usize) -> Vec<(ContainerId, ContainerExitStatus)> {
        if let Some(reserving) = self.placer.reserving_mut() {
            reserving.node_fails(node);
        }
        self.nodes[node].fail()
    }

    fn returns(&mut self, node: usize) {
        self.nodes[node].is_up = true;
        self.placer.node_joins(node);
    }

    fn is_lost(&mut self, node: usize) {
        self.placer.node_is_lost(node);
    }

    fn tell(&mut self, id: ContainerId, status: ContainerExitStatus) {
        if let Some(told) = self.told.get_mut(&job_of(&id)) {
            told.push((id, status));
        }
    }

    fn abandon(&mut self, node: usize, id: ContainerId, now: MonoMillis, news: &mut Vec<News>) {
        self.nodes[node].abandon(id, now, news);
    }

    fn kill(&mut self, node: usize, id: ContainerId, now: MonoMillis, news: &mut Vec<News>) {
        self.nodes[node].kill(id, now, news);
    }
}
