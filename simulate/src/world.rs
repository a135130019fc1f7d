//! One run of an arm: the loop over events in virtual time.

mod decisions;
mod delays;
mod failures;
mod late;
mod level;
mod masters;
mod pauses;
mod probes;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use records::{ContainerExitStatus, ContainerId, ExecutionType, MonoMillis};
use sim::{EventQueue, Streams};

use crate::arm::{Letter, job_of};
use crate::job::Job;
use crate::measure::{ContainerSums, JobOutcome, Meter, Outcome, Window};
use crate::node::News;
use crate::scenario::{Arm, Scenario};

use self::delays::Delayed;
use self::failures::Failing;
use self::masters::{Ended, Master};

pub(crate) use self::decisions::Decisions;
pub(crate) use self::level::{Answer, Level};

/// Interval at which the queues of all nodes are looked at for the result.
const SAMPLE_MS: u64 = 1_000;

enum Event {
    JobArrives(usize),
    /// A call of a job's master; those of an earlier attempt are not made.
    MasterCalls {
        job: usize,
        attempt: u32,
    },
    /// The answer to a call has waited for offers.
    Answers {
        job: usize,
        attempt: u32,
    },
    /// A message between a proxy and a node arrives.
    Arrives(Box<Letter>),
    NodeBeats {
        node: usize,
        in_turn: bool,
    },
    NodeTick(usize),
    Sort,
    Sample,
    Start(ContainerId),
    Launched(ContainerId),
    Exits(ContainerId),
    /// A probe that has a place learns what it runs.
    Binds(ContainerId),
    NodeFails(usize),
    NodeReturns(usize),
    /// The ResourceManager has waited long enough for a heartbeat of a node, unless that has failed
    /// again since.
    NodeExpires {
        node: usize,
        failure: u32,
    },
    /// A start call to a node that was down is given up.
    StartFails(ContainerId),
    /// The cancelling of a probe reaches its node.
    Cancels(ContainerId),
    /// A container is frozen.
    Frozen(ContainerId),
    /// A container that was frozen runs again.
    Thawed(ContainerId),
}

/// Work of a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Work {
    Task(usize),
    /// Probe that has not got a task.
    Probe,
    /// Task of the job's master.
    Master,
}

impl Work {
    /// Returns the number by which the launch is drawn: that of the task.
    const fn launch_number(self) -> usize {
        match self {
            Self::Task(task) => task,
            Self::Probe => 0,
            Self::Master => MASTER_LAUNCH,
        }
    }
}

/// Number of a master's launch: above that of any task.
const MASTER_LAUNCH: usize = (1 << 24) - 1;

/// Container that has not ended.
struct Live {
    node: usize,
    work: Work,
    /// Whether it has reached its node.
    has_arrived: bool,
    execution_type: ExecutionType,
    /// Time at which it reached its node.
    arrived_ms: u64,
    /// Whether its launch was ordered.
    is_launching: bool,
    /// Whether its process runs.
    runs: bool,
    /// Time at which its process began to run, without the time for which it was frozen.
    launched_ms: u64,
    /// Time at which its processes end, once known, unless they are frozen.
    exits_ms: Option<u64>,
    /// Time since when it is frozen.
    frozen_ms: Option<u64>,
    /// Time of the last answer to an order to freeze or thaw it.
    pause_answer_ms: u64,
}

impl Live {
    /// Returns how long its process has run.
    fn ran_ms(&self, now: MonoMillis) -> u64 {
        let until = if self.runs {
            Some(now.0)
        } else {
            self.frozen_ms
        };
        until.map_or(0, |until| until - self.launched_ms)
    }
}

/// Node as the world sees it.
#[derive(Clone, Copy, Debug, Default)]
struct Site {
    /// Whether a heartbeat out of turn is under way.
    beats_out_of_turn: bool,
    /// Time of the tick that is under way.
    tick_at: Option<MonoMillis>,
}

pub(crate) struct World<'a, L> {
    delays: Delayed,
    sorting_interval_ms: u64,
    drain_limit_ms: u64,
    jobs: &'a [Job],
    level: L,
    sites: Vec<Site>,
    masters: Vec<Option<Master<'a>>>,
    /// Whether every container is guaranteed.
    is_guaranteed: bool,
    /// Whether masters have containers.
    has_masters: bool,
    unfinished: usize,
    live: BTreeMap<ContainerId, Live>,
    failing: Failing,
    events: EventQueue<Event>,
    meter: Meter,
    outcomes: Vec<JobOutcome>,
    sums: ContainerSums,
    node_heartbeats: u64,
}

impl<'a, L: Level> World<'a, L> {
    pub(crate) fn new(
        scenario: &Scenario,
        arm: &Arm,
        level: L,
        jobs: &'a [Job],
        window: Window,
        streams: Streams,
    ) -> Self {
        let last_arrival = jobs.last().map_or(0, |job| job.arrives_ms);
        let head_start = arm.settings.sorting_interval_ms;
        let window = Window {
            from_ms: window.from_ms + head_start,
            to_ms: window.to_ms + head_start,
        };
        Self {
            delays: Delayed::new(&scenario.delays, &scenario.masters, streams),
            sorting_interval_ms: arm.settings.sorting_interval_ms,
            drain_limit_ms: last_arrival.saturating_add(scenario.run.drain_limit_s * 1_000),
            jobs,
            level,
            sites: vec![Site::default(); scenario.cluster.node_count()],
            masters: jobs.iter().map(|_| None).collect(),
            is_guaranteed: arm.policy.is_guaranteed(),
            has_masters: scenario.masters.container,
            unfinished: jobs.len(),
            live: BTreeMap::new(),
            failing: Failing::new(scenario, streams),
            events: EventQueue::default(),
            meter: Meter::new(scenario.cluster.all_places(), window),
            outcomes: jobs.iter().map(JobOutcome::new).collect(),
            sums: ContainerSums {
                tasks: jobs.iter().map(|job| job.task_ms.len() as u64).sum(),
                ..ContainerSums::default()
            },
            node_heartbeats: 0,
        }
    }

    /// Runs until every job has ended or the limit after the last arrival is reached.
    pub(crate) fn run(mut self) -> Outcome {
        self.begin();
        while self.unfinished > 0
            && let Some(event) = self.events.pop()
        {
            let now_ms = self.events.now_ms();
            if now_ms > self.drain_limit_ms {
                break;
            }
            self.meter.advance(now_ms);
            self.handle(event, MonoMillis(now_ms));
        }
        Outcome {
            jobs: self.outcomes,
            containers: self.sums,
            means: self.meter.means(),
            cost: self.level.cost(),
            node_heartbeats: self.node_heartbeats,
            ended_ms: self.events.now_ms(),
            events: self.events.events(),
            used_each_second: self.meter.into_each_second(),
        }
    }

    /// Starts the heartbeats, each node's at its own phase. Every node has registered before the
    /// first job arrives.
    fn begin(&mut self) {
        self.level.begin(MonoMillis(0));
        for node in 0..self.sites.len() {
            self.node_beats(node, MonoMillis(0));
            let phase = self.delays.node_phase();
            let event = Event::NodeBeats {
                node,
                in_turn: true,
            };
            self.events.push_at(phase, event);
            self.schedule_failure(node);
        }
        self.events.push_at(0, Event::Sort);
        self.events.push_at(0, Event::Sample);
        for (number, job) in self.jobs.iter().enumerate() {
            // The first sort is over before the first job can come.
            let at = job.arrives_ms + self.sorting_interval_ms;
            self.outcomes[number].arrives_ms = at;
            self.events.push_at(at, Event::JobArrives(number));
        }
    }

    fn handle(&mut self, event: Event, now: MonoMillis) {
        match event {
            Event::JobArrives(job) => self.job_arrives(job, now),
            Event::MasterCalls { job, attempt } => self.master_calls(job, attempt, now),
            Event::Answers { job, attempt } => self.answers(job, attempt, now),
            Event::Arrives(letter) => self.arrives(*letter, now),
            Event::NodeBeats { node, in_turn } => {
                if in_turn {
                    let next = Event::NodeBeats { node, in_turn };
                    let interval = self.delays.node_heartbeat();
                    self.events.push_in(interval, next);
                } else {
                    self.sites[node].beats_out_of_turn = false;
                }
                if self.level.is_up(node) {
                    self.node_beats(node, now);
                }
            }
            Event::NodeTick(node) => {
                if self.sites[node].tick_at == Some(now) {
                    self.sites[node].tick_at = None;
                    let mut news = Vec::new();
                    self.level.tick(node, now, &mut news);
                    self.hear(node, &news, now);
                }
            }
            Event::Sort => {
                self.level.sort(now);
                self.events.push_in(self.sorting_interval_ms, Event::Sort);
            }
            Event::Sample => {
                if self.meter.is_measured() {
                    self.meter.sample_queues(self.level.queue_lengths());
                }
                self.events.push_in(SAMPLE_MS, Event::Sample);
            }
            Event::Start(id) => self.start(id, now),
            Event::Launched(id) => self.launched(id, now),
            Event::Exits(id) => self.exits(id, now),
            Event::Binds(id) => self.bind(id, now),
            Event::Cancels(id) => self.cancel(id, now),
            Event::Frozen(id) => self.frozen(id, now),
            Event::Thawed(id) => self.thawed(id, now),
            Event::NodeFails(node) => self.node_fails(node, now),
            Event::NodeReturns(node) => self.node_returns(node, now),
            Event::NodeExpires { node, failure } => self.node_expires(node, failure, now),
            Event::StartFails(id) => self.start_fails(id, now),
        }
    }

    fn start(&mut self, id: ContainerId, now: MonoMillis) {
        if self.is_needless(id) {
            return;
        }
        let Some(live) = self.live.get_mut(&id) else {
            return;
        };
        if !self.level.is_up(live.node) {
            self.events
                .push_in(self.failing.connect_ms, Event::StartFails(id));
            return;
        }
        live.arrived_ms = now.0;
        live.has_arrived = true;
        let (node, execution_type) = (live.node, live.execution_type);
        let mut news = Vec::new();
        self.level.start(node, id, execution_type, now, &mut news);
        self.hear(node, &news, now);
    }

    fn launched(&mut self, id: ContainerId, now: MonoMillis) {
        let Some(live) = self.live.get_mut(&id) else {
            return;
        };
        live.runs = true;
        live.launched_ms = now.0;
        let (node, work) = (live.node, live.work);
        if live.exits_ms.is_none()
            && let Work::Task(task) = work
        {
            let length_ms = self.jobs[job_of(&id)].task_ms[task];
            let ends = now.0 + self.level.kind(node).time_of(length_ms);
            live.exits_ms = Some(ends);
            self.events.push_at(ends, Event::Exits(id));
        }
        if work == Work::Master {
            self.master_is_launched(job_of(&id));
        } else {
            self.meter.running += 1;
            self.meter.waiting -= 1;
        }
        let mut news = Vec::new();
        self.level.launched(node, id, now, &mut news);
        self.hear(node, &news, now);
    }

    fn exits(&mut self, id: ContainerId, now: MonoMillis) {
        let Some(live) = self.live.get(&id) else {
            return;
        };
        // A kill or a pause has moved the end to another time.
        if live.exits_ms != Some(now.0) || live.frozen_ms.is_some() {
            return;
        }
        let node = live.node;
        let mut news = Vec::new();
        self.level.exit(node, id, now, &mut news);
        self.hear(node, &news, now);
    }

    fn node_beats(&mut self, node: usize, now: MonoMillis) {
        self.node_heartbeats += 1;
        let mut news = Vec::new();
        self.level.beat(node, now, &mut news);
        self.hear(node, &news, now);
        self.start_masters(now);
    }

    /// Follows what a node has done, and has it send its heartbeat where something ended.
    fn hear(&mut self, node: usize, news: &[News], now: MonoMillis) {
        for one in news {
            match *one {
                News::Launching(id) => {
                    let Some(live) = self.live.get_mut(&id) else {
                        continue;
                    };
                    live.is_launching = true;
                    match live.work {
                        Work::Task(_) => {
                            self.sums.node_wait_ms += now.0 - live.arrived_ms;
                            self.launch(id);
                        }
                        Work::Probe => self.ask_for_task(id),
                        Work::Master => self.launch(id),
                    }
                }
                News::Ending(id) => self.end(id, now),
                News::Refused(_) => self.sums.refused += 1,
                News::Shed(_) => self.sums.shed += 1,
                News::Evicted(_, ran_ms) => {
                    self.sums.evicted += 1;
                    self.sums.lost_ms += ran_ms;
                }
                News::Freezing(id) => self.freezing(id, now),
                News::Thawing(id) => self.thawing(id, now),
                News::Completed(id, status) => self.completed(id, status, now),
            }
        }
        self.settle(node, now);
        let out_of_band = self.delays.out_of_band;
        let site = &mut self.sites[node];
        if out_of_band && !site.beats_out_of_turn && self.level.has_ends(node) {
            site.beats_out_of_turn = true;
            let event = Event::NodeBeats {
                node,
                in_turn: false,
            };
            self.events.push_in(0, event);
        }
    }

    fn launch(&mut self, id: ContainerId) {
        let work = self.live.get(&id).map_or(Work::Probe, |live| live.work);
        let delay_ms = self.delays.launch(job_of(&id), work.launch_number());
        self.events.push_in(delay_ms, Event::Launched(id));
    }

    fn schedule_tick(&mut self, node: usize) {
        let site = &mut self.sites[node];
        if let Some(due) = self.level.next_deadline(node)
            && site.tick_at.is_none_or(|at| due < at)
        {
            site.tick_at = Some(due);
            self.events.push_at(due.0, Event::NodeTick(node));
        }
    }

    /// Has the processes of a killed container end after a delay, or, where none exists yet, after
    /// its launch.
    fn end(&mut self, id: ContainerId, now: MonoMillis) {
        let Some(live) = self.live.get_mut(&id) else {
            return;
        };
        let earliest = if live.runs || live.frozen_ms.take().is_some() {
            0
        } else {
            self.delays.launch(job_of(&id), live.work.launch_number()) + 1
        };
        let exits = now.0 + self.delays.kill().max(earliest);
        live.exits_ms = Some(exits);
        self.events.push_at(exits, Event::Exits(id));
    }

    fn completed(&mut self, id: ContainerId, status: ContainerExitStatus, now: MonoMillis) {
        let Some(live) = self.live.remove(&id) else {
            return;
        };
        let task = match live.work {
            Work::Task(task) => task,
            Work::Probe => {
                self.forget_probe(id);
                return;
            }
            Work::Master => {
                self.meter.masters -= u64::from(live.runs);
                return;
            }
        };
        self.meter.running -= u64::from(live.runs);
        if status != ContainerExitStatus::SUCCESS {
            if live.runs {
                self.meter.waiting += 1;
            }
            if !live.is_launching {
                self.sums.node_wait_ms += now.0 - live.arrived_ms;
            }
        }
        let end = Ended {
            task,
            succeeded: status == ContainerExitStatus::SUCCESS,
            at_ms: now.0,
        };
        if let Some(master) = &mut self.masters[job_of(&id)] {
            master.ends(id, end);
        }
    }
}
