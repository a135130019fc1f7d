//! Guaranteed containers of the embedded ResourceManager: `sched`'s allocator, which places at once
//! where there is room, whichever node that is on. It does not limit the share of masters.

use std::collections::BTreeMap;

use records::{
    ApplicationAttemptId, ContainerExitStatus, ContainerId, MonoMillis, Priority, ResourceRequest,
};
use sched::{GuaranteedAllocator, NodeLoad};

use super::placer::{MasterCall, Placed, Placer, application_of, job_of};
use super::stated::Stated;
use crate::measure::Cost;
use crate::node::{Node, SIZE, node_id, number_of, room_of};
use crate::scenario::Scenario;

/// Rack of every node.
const RACK: &str = "/rack";

/// Number before that of the first container: above those that proxies number.
const ID_START: i64 = 1 << 41;

/// Priority of masters, which come before all others.
const OF_MASTERS: Priority = Priority(0);

/// Priority of guaranteed tasks.
const OF_TASKS: Priority = Priority(2);

pub(super) struct Embedded {
    allocator: GuaranteedAllocator,
    jobs: BTreeMap<usize, Job>,
    last_id: i64,
    masters_placed: Vec<Placed>,
    cost: Cost,
}

#[derive(Debug)]
struct Job {
    attempt: ApplicationAttemptId,
    /// Container of the master, once it is placed.
    master: Option<ContainerId>,
    stated: Stated,
    /// Containers that the next answer carries.
    given: Vec<Placed>,
    /// Containers that the next call gives back.
    releases: Vec<ContainerId>,
}

impl Embedded {
    pub(super) fn new(scenario: &Scenario) -> Self {
        let mut embedded = Self {
            allocator: GuaranteedAllocator::new(),
            jobs: BTreeMap::new(),
            last_id: ID_START,
            masters_placed: Vec::new(),
            cost: Cost::default(),
        };
        for (number, kind) in scenario.cluster.each_node().enumerate() {
            let (id, rack) = (node_id(number), RACK.to_owned());
            embedded.allocator.add_node(id, rack, room_of(kind));
        }
        embedded
    }

    /// Asks for containers. One line is within every bound of an attempt.
    fn ask(&mut self, job: usize, priority: Priority, count: u32, now: MonoMillis) {
        let Some(attempt) = self.jobs.get(&job).map(|job| job.attempt) else {
            return;
        };
        let ask = ResourceRequest::on_any_node(priority, SIZE, count);
        let updated = self.allocator.update_asks(attempt, &[ask], now);
        debug_assert_eq!(updated, Ok(()));
    }

    /// Gives out what is free.
    fn place(&mut self) {
        let last_id = &mut self.last_id;
        let allocations = self.allocator.allocate(|attempt| {
            *last_id += 1;
            attempt.container(*last_id)
        });
        for allocation in allocations {
            let id = allocation.container_id;
            let Some(node) = number_of(&allocation.node_id) else {
                continue;
            };
            let Some(job) = self.jobs.get_mut(&job_of(&id)) else {
                continue;
            };
            let placed = Placed::guaranteed(id, node);
            if job.master.is_none() {
                job.master = Some(id);
                self.masters_placed.push(placed);
            } else {
                job.given.push(placed);
            }
        }
    }
}

impl Placer for Embedded {
    fn node_beats(
        &mut self,
        _node: usize,
        _load: &NodeLoad,
        ended: &[(ContainerId, ContainerExitStatus)],
        _now: MonoMillis,
    ) {
        for (id, _) in ended {
            self.allocator.release(*id);
            let number = job_of(id);
            if self
                .jobs
                .get(&number)
                .is_some_and(|job| job.master == Some(*id))
            {
                self.allocator.remove_attempt(id.attempt);
                self.jobs.remove(&number);
            }
        }
        self.place();
    }

    fn job_arrives(&mut self, job: usize, now: MonoMillis) {
        let attempt = application_of(job).attempt(1);
        self.allocator.add_attempt(attempt);
        let begun = Job {
            attempt,
            master: None,
            stated: Stated::default(),
            given: Vec::new(),
            releases: Vec::new(),
        };
        self.jobs.insert(job, begun);
        self.ask(job, OF_MASTERS, 1, now);
        self.place();
    }

    fn master_calls(
        &mut self,
        call: &MasterCall,
        _ended: &[(ContainerId, ContainerExitStatus)],
        _nodes: &[Node],
    ) -> Vec<Placed> {
        self.cost.rm_calls += 1;
        let Some(job) = self.jobs.get_mut(&call.job) else {
            return Vec::new();
        };
        let releases = std::mem::take(&mut job.releases);
        let stated = job.stated.wants(call.wanted_guaranteed);
        for id in releases {
            self.allocator.release(id);
        }
        if let Some(count) = stated {
            self.ask(call.job, OF_TASKS, count, call.now);
        }
        self.place();
        let Some(job) = self.jobs.get_mut(&call.job) else {
            return Vec::new();
        };
        let given = std::mem::take(&mut job.given);
        job.stated
            .got(u32::try_from(given.len()).unwrap_or(u32::MAX));
        given
    }

    fn release(&mut self, id: ContainerId) {
        if let Some(job) = self.jobs.get_mut(&job_of(&id)) {
            job.releases.push(id);
        }
    }

    /// Nodes do not fail beside this scheduler.
    fn node_is_lost(&mut self, _node: usize) {}

    fn masters_placed(&mut self) -> Vec<Placed> {
        std::mem::take(&mut self.masters_placed)
    }

    /// The master's container holds its place until its node reports the end.
    fn job_ends(&mut self, _job: usize, _now: MonoMillis) {}

    fn tick(&mut self, _now: MonoMillis) {
        self.place();
    }

    fn cost(&self) -> Cost {
        self.cost
    }
}
