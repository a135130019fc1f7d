//! Nodes that fail: a model. All that a node has is gone at once; the ResourceManager learns of it
//! when no heartbeat has come for a while, or when the node registers again. Then masters learn
//! which containers are lost, and a job whose master is lost gets another, which knows what the one
//! before had learnt. Containers that the former master had are killed.

use records::{ContainerExitStatus, ContainerId, MonoMillis};
use sim::{Distribution, Random, Streams};

use super::masters::Ended;
use super::{Event, Level, Live, Work, World};
use crate::arm::job_of;
use crate::scenario::Scenario;

/// Failures of all nodes. Those of a node are the same under every arm of a seed.
pub(super) struct Failing {
    up: Distribution,
    down_ms: u64,
    expiry_ms: u64,
    /// Time until a start call to a node that is down fails.
    pub(super) connect_ms: u64,
    /// For each node; empty if none fails.
    nodes: Vec<FailingNode>,
}

struct FailingNode {
    random: Random,
    /// Failures so far.
    failures: u32,
    /// Containers that the last failure has ended, until the ResourceManager learns of it.
    lost: Option<Vec<ContainerId>>,
}

impl Failing {
    pub(super) fn new(scenario: &Scenario, streams: Streams) -> Self {
        let failures = scenario.failures;
        let count = match failures.up_s {
            0 => 0,
            _ => scenario.cluster.node_count(),
        };
        let node = |number: usize| FailingNode {
            random: streams.stream("failures", number as u64),
            failures: 0,
            lost: None,
        };
        Self {
            up: Distribution::Exponential(failures.up_s * 1_000),
            down_ms: failures.down_s * 1_000,
            expiry_ms: failures.expiry_s * 1_000,
            connect_ms: failures.connect_s * 1_000,
            nodes: (0..count).map(node).collect(),
        }
    }
}

impl<L: Level> World<'_, L> {
    /// Has a node fail after a time that is drawn.
    pub(super) fn schedule_failure(&mut self, node: usize) {
        if let Some(failing) = self.failing.nodes.get_mut(node) {
            let up_ms = self.failing.up.sample(&mut failing.random);
            self.events.push_in(up_ms, Event::NodeFails(node));
        }
    }

    pub(super) fn node_fails(&mut self, node: usize, now: MonoMillis) {
        let (down_ms, expiry_ms) = (self.failing.down_ms, self.failing.expiry_ms);
        self.meter.down += u64::from(self.level.kind(node).places);
        let mut lost = Vec::new();
        for (id, _) in self.level.fail(node) {
            // Nobody has learnt of an end without a heartbeat: its task is done again.
            self.lose_end(id, now);
            lost.push(id);
        }
        // The node is empty.
        self.sites[node].beats_out_of_turn = false;
        self.sites[node].tick_at = None;
        let is_on =
            |live: &Live| live.node == node && (live.has_arrived || live.work == Work::Master);
        let ids = self.live.iter().filter(|(_, live)| is_on(live));
        let ids: Vec<ContainerId> = ids.map(|(id, _)| *id).collect();
        for id in ids {
            if self.lose(id, now) {
                lost.push(id);
            }
        }
        let failing = &mut self.failing.nodes[node];
        failing.failures += 1;
        failing.lost = Some(lost);
        let failure = failing.failures;
        self.events.push_in(down_ms, Event::NodeReturns(node));
        self.events
            .push_in(expiry_ms, Event::NodeExpires { node, failure });
    }

    /// Takes back an end that no heartbeat has told.
    fn lose_end(&mut self, id: ContainerId, now: MonoMillis) {
        let job = job_of(&id);
        let Some(master) = &mut self.masters[job] else {
            return;
        };
        if let Some(end) = master.ends.get_mut(&id) {
            if end.succeeded {
                self.meter.waiting += 1;
                self.sums.node_lost += 1;
                self.sums.lost_ms += self.jobs[job].task_ms[end.task];
            }
            (end.succeeded, end.at_ms) = (false, now.0);
        }
    }

    /// Ends a container with its node. Returns whether the ResourceManager has to tell of it.
    fn lose(&mut self, id: ContainerId, now: MonoMillis) -> bool {
        let Some(live) = self.live.remove(&id) else {
            return false;
        };
        match live.work {
            Work::Probe => {
                self.forget_probe(id);
                return false;
            }
            Work::Master => {
                self.meter.masters -= u64::from(live.runs);
                if let Some(master) = &mut self.masters[job_of(&id)] {
                    // It makes no further call.
                    master.attempt += 1;
                }
            }
            Work::Task(task) => {
                self.sums.node_lost += 1;
                self.sums.lost_ms += live.ran_ms(now);
                if live.runs {
                    self.meter.running -= 1;
                    self.meter.waiting += 1;
                } else if !live.is_launching {
                    self.sums.node_wait_ms += now.0 - live.arrived_ms;
                }
                let end = Ended {
                    task,
                    succeeded: false,
                    at_ms: now.0,
                };
                if let Some(master) = &mut self.masters[job_of(&id)] {
                    master.ends(id, end);
                }
            }
        }
        true
    }

    pub(super) fn node_returns(&mut self, node: usize, now: MonoMillis) {
        self.tell_loss(node, now);
        self.meter.down -= u64::from(self.level.kind(node).places);
        self.level.returns(node);
        self.node_beats(node, now);
        self.schedule_failure(node);
    }

    pub(super) fn node_expires(&mut self, node: usize, failure: u32, now: MonoMillis) {
        if self.failing.nodes[node].failures == failure {
            self.tell_loss(node, now);
        }
    }

    /// Has the ResourceManager learn that a node is lost, unless it has.
    fn tell_loss(&mut self, node: usize, now: MonoMillis) {
        let Some(lost) = self.failing.nodes[node].lost.take() else {
            return;
        };
        self.level.is_lost(node);
        for id in lost {
            let job = job_of(&id);
            let master = self.masters[job].as_ref();
            if master.is_some_and(|master| master.container == Some(id)) {
                self.begin_again(job, now);
            } else {
                self.level.tell(id, ContainerExitStatus::ABORTED);
            }
        }
    }

    /// Ends the containers of a job whose master is lost. The ResourceManager starts another.
    fn begin_again(&mut self, job: usize, now: MonoMillis) {
        let Some(master) = &mut self.masters[job] else {
            return;
        };
        master.container = None;
        let all = self.live.iter().filter(|(id, _)| job_of(id) == job);
        let all: Vec<(ContainerId, bool, usize)> = all
            .map(|(id, live)| (*id, live.has_arrived, live.node))
            .collect();
        for (id, has_arrived, node) in all {
            if !has_arrived {
                self.take_back(id, now);
                continue;
            }
            if let Some(live) = self.live.get(&id)
                && live.exits_ms.is_some()
            {
                self.sums.lost_ms += live.ran_ms(now);
            }
            let mut news = Vec::new();
            self.level.kill(node, id, now, &mut news);
            self.hear(node, &news, now);
        }
    }

    /// Has the task of a container that never reached its node wait again.
    fn take_back(&mut self, id: ContainerId, now: MonoMillis) {
        let Some(live) = self.live.remove(&id) else {
            return;
        };
        match (live.work, &mut self.masters[job_of(&id)]) {
            (Work::Task(task), Some(master)) => master.wants(task, now.0),
            (Work::Probe, _) => self.forget_probe(id),
            (Work::Task(_) | Work::Master, _) => {}
        }
    }

    pub(super) fn start_fails(&mut self, id: ContainerId, now: MonoMillis) {
        if self.live.contains_key(&id) {
            self.sums.node_lost += 1;
            self.take_back(id, now);
        }
    }
}
