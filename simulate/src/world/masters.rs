//! ApplicationMasters: a model. They ask again for what was refused, shed or evicted, and begin a
//! stage when they have learnt of the last end of those before it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use records::{ContainerExitStatus, ContainerId, ExecutionType, MonoMillis};

use super::{Answer, Event, Level, Live, Work, World};
use crate::arm::{MasterCall, Placed, job_of};
use crate::job::{Job, Progress};

/// End of a container, as its node knows it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ended {
    pub(super) task: usize,
    pub(super) succeeded: bool,
    pub(super) at_ms: u64,
}

/// Tasks without a container, with the time since when.
#[derive(Debug, Default)]
pub(super) struct Pending {
    guaranteed: VecDeque<(usize, u64)>,
    opportunistic: VecDeque<(usize, u64)>,
}

impl Pending {
    const fn queue(&mut self, execution_type: ExecutionType) -> &mut VecDeque<(usize, u64)> {
        match execution_type {
            ExecutionType::Guaranteed => &mut self.guaranteed,
            ExecutionType::Opportunistic => &mut self.opportunistic,
        }
    }
}

/// ApplicationMaster of a job.
pub(super) struct Master<'a> {
    job: &'a Job,
    /// Whether it asks for guaranteed containers only.
    is_guaranteed: bool,
    pending: Pending,
    /// Ends that the master knows.
    progress: Progress<'a>,
    /// Ends until the master learns of them.
    pub(super) ends: BTreeMap<ContainerId, Ended>,
    /// Container of the master itself.
    pub(super) container: Option<ContainerId>,
    /// Masters that the job has had before.
    pub(super) attempt: u32,
    /// Probes without a place.
    pub(super) probes: BTreeSet<ContainerId>,
}

impl<'a> Master<'a> {
    /// Returns the master of a job that arrives.
    fn new(job: &'a Job, is_guaranteed: bool, now_ms: u64) -> Self {
        let (progress, tasks) = Progress::new(job);
        let mut master = Self {
            job,
            is_guaranteed,
            pending: Pending::default(),
            progress,
            ends: BTreeMap::new(),
            container: None,
            attempt: 0,
            probes: BTreeSet::new(),
        };
        for task in tasks.into_iter().flatten() {
            master.wants(task, now_ms);
        }
        master
    }

    /// Has a task wait for a container.
    pub(super) fn wants(&mut self, task: usize, now_ms: u64) {
        let is_guaranteed = self.is_guaranteed || self.job.asks_for_guaranteed(task);
        let execution_type = if is_guaranteed {
            ExecutionType::Guaranteed
        } else {
            ExecutionType::Opportunistic
        };
        let queue = self.pending.queue(execution_type);
        queue.push_back((task, now_ms));
    }

    /// Returns whether a task waits that a probe could run.
    pub(super) fn has_for_probes(&self) -> bool {
        !self.pending.opportunistic.is_empty()
    }

    /// Takes the first task that waits for a container of this type, with the time since when.
    pub(super) fn next(&mut self, execution_type: ExecutionType) -> Option<(usize, u64)> {
        self.pending.queue(execution_type).pop_front()
    }

    /// Notes the end of a container, of which the master has not learnt.
    pub(super) fn ends(&mut self, id: ContainerId, end: Ended) {
        self.ends.insert(id, end);
    }

    /// Learns of ends. Returns the number of tasks of stages that begin.
    fn learn(&mut self, ended: &[(ContainerId, ContainerExitStatus)], now_ms: u64) -> u64 {
        let mut begun = 0;
        for (id, _) in ended {
            let Some(end) = self.ends.remove(id) else {
                continue;
            };
            if !end.succeeded {
                self.wants(end.task, end.at_ms);
                continue;
            }
            for tasks in self.progress.ended(end.task) {
                begun += tasks.len() as u64;
                for task in tasks {
                    self.wants(task, now_ms);
                }
            }
        }
        begun
    }
}

fn count(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}

impl<L: Level> World<'_, L> {
    pub(super) fn job_arrives(&mut self, job: usize, now: MonoMillis) {
        let master = Master::new(&self.jobs[job], self.is_guaranteed, now.0);
        let pending = &master.pending;
        let waiting = pending.guaranteed.len() + pending.opportunistic.len();
        self.meter.waiting += waiting as u64;
        self.masters[job] = Some(master);
        self.level.job_arrives(job, now);
        self.start_masters(now);
        if !self.has_masters {
            let phase = self.delays.am_phase();
            let attempt = 0;
            self.events
                .push_in(phase, Event::MasterCalls { job, attempt });
        }
    }

    /// Has a master call once it has started.
    pub(super) fn master_is_launched(&mut self, job: usize) {
        self.meter.masters += 1;
        if let Some(master) = &self.masters[job] {
            let (start, attempt) = (self.delays.master_start(), master.attempt);
            self.events
                .push_in(start, Event::MasterCalls { job, attempt });
        }
    }

    /// Starts the containers of masters that the ResourceManager has placed. A master's first call
    /// comes when it has started.
    pub(super) fn start_masters(&mut self, now: MonoMillis) {
        for given in self.level.masters_placed() {
            if let Some(master) = &mut self.masters[job_of(&given.id)] {
                master.container = Some(given.id);
                self.begin_container(given, Work::Master, 0, now);
            }
        }
    }

    pub(super) fn master_calls(&mut self, job: usize, attempt: u32, now: MonoMillis) {
        let Some(master) = &mut self.masters[job] else {
            return;
        };
        if master.attempt != attempt {
            return;
        }
        let container = master.container.and_then(|id| self.live.get(&id));
        let call = MasterCall {
            job,
            node: container.map(|live| live.node),
            wanted: count(master.pending.opportunistic.len()),
            wanted_guaranteed: count(master.pending.guaranteed.len()),
            probes: count(master.probes.len()),
            now,
        };
        let Answer { placed, ended } = self.level.call(&call);
        for given in placed {
            self.assign(job, given, now);
        }
        self.send_letters();
        self.answer_later(job, attempt);
        self.start_masters(now);
        let Some(master) = &mut self.masters[job] else {
            return;
        };
        // What begins now is asked for with the next call.
        self.meter.waiting += master.learn(&ended, now.0);
        if master.progress.is_over() {
            let container = master.container;
            self.masters[job] = None;
            self.level.job_ends(job, now);
            if let Some(id) = container {
                self.end_master(id, now);
            }
            self.outcomes[job].finished_ms = Some(now.0);
            self.unfinished -= 1;
        } else {
            let interval = self.delays.am_heartbeat();
            self.events
                .push_in(interval, Event::MasterCalls { job, attempt });
        }
    }

    /// Gives a container to the first task that waits.
    pub(super) fn assign(&mut self, job: usize, given: Placed, now: MonoMillis) {
        let Some(master) = &mut self.masters[job] else {
            return;
        };
        let work = if given.is_probe {
            master.probes.insert(given.id);
            Work::Probe
        } else {
            let Some((task, since)) = master.next(given.execution_type) else {
                self.level.release(given.id);
                return;
            };
            self.sums.am_wait_ms += now.0 - since;
            Work::Task(task)
        };
        self.begin_container(given, work, self.level.answer_delay_ms(), now);
    }

    /// Ends the process of a master whose job is over.
    fn end_master(&mut self, id: ContainerId, now: MonoMillis) {
        if let Some(live) = self.live.get_mut(&id) {
            live.exits_ms = Some(now.0);
            self.events.push_in(0, Event::Exits(id));
        }
    }

    /// Has a container reach its node with a start call, which is made after a delay.
    fn begin_container(&mut self, given: Placed, work: Work, delay_ms: u64, now: MonoMillis) {
        let live = Live {
            node: given.node,
            work,
            has_arrived: false,
            execution_type: given.execution_type,
            arrived_ms: 0,
            is_launching: false,
            runs: false,
            launched_ms: 0,
            exits_ms: None,
            frozen_ms: None,
            pause_answer_ms: 0,
        };
        self.live.insert(given.id, live);
        let call_ms = delay_ms + self.delays.start_call();
        if call_ms == 0 {
            self.start(given.id, now);
        } else {
            let event = Event::Start(given.id);
            self.events.push_in(call_ms, event);
        }
    }
}
