//! What no policy can beat: a scheduler without delays that knows everything. Tasks start in any
//! free place at once, and a job ends with its last task.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;

use sim::EventQueue;

use crate::job::{Job, Progress};
use crate::measure::{ContainerSums, Cost, JobOutcome, Meter, Outcome, Window};
use crate::scenario::{Cluster, NodeKind};
use crate::waits::Waits;

/// Order in which jobs are served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// The job that came first.
    Fifo,
    /// The job with the least work that has not ended.
    ShortestRemaining,
}

enum Event {
    Arrives(usize),
    Ends {
        job: usize,
        task: usize,
        /// Kind of the node.
        kind: usize,
    },
}

struct Open<'a> {
    job: &'a Job,
    progress: Progress<'a>,
    /// Tasks that may start and have not, with the time since when.
    pending: VecDeque<(Range<usize>, u64)>,
    left_ms: u64,
}

struct Places<'a> {
    order: Order,
    /// Kinds of nodes with their free places, the fastest first.
    free: Vec<(NodeKind, u64)>,
    /// Jobs that have arrived and not ended.
    jobs: BTreeMap<usize, Open<'a>>,
    /// Jobs with tasks that may start, the next one to be served first.
    waiting: BTreeSet<(u64, usize)>,
    events: EventQueue<Event>,
    meter: Meter,
    waits: Waits,
}

impl<'a> Places<'a> {
    /// Changes a job and its place among those that wait. `change` returns the tasks that may start
    /// because of it. A job whose last task has ended is forgotten.
    fn change(&mut self, number: usize, change: impl FnOnce(&mut Open<'a>) -> Vec<Range<usize>>) {
        let now_ms = self.events.now_ms();
        let Some(mut open) = self.jobs.remove(&number) else {
            return;
        };
        self.waiting.remove(&(self.rank(&open), number));
        for tasks in change(&mut open) {
            self.meter.waiting += tasks.len() as u64;
            open.pending.push_back((tasks, now_ms));
        }
        if !open.pending.is_empty() {
            self.waiting.insert((self.rank(&open), number));
        }
        if !open.progress.is_over() {
            self.jobs.insert(number, open);
        }
    }

    const fn rank(&self, open: &Open<'_>) -> u64 {
        match self.order {
            Order::Fifo => 0,
            Order::ShortestRemaining => open.left_ms,
        }
    }

    fn arrives(&mut self, number: usize, job: &'a Job) {
        let (progress, tasks) = Progress::new(job);
        let open = Open {
            job,
            progress,
            pending: VecDeque::new(),
            left_ms: job.work_ms(),
        };
        self.jobs.insert(number, open);
        self.change(number, |_| tasks);
    }

    /// Takes the end of a task.
    fn ends(&mut self, number: usize, task: usize, kind: usize) {
        self.free[kind].1 += 1;
        self.meter.running -= 1;
        self.change(number, |open| {
            open.left_ms -= open.job.task_ms[task];
            open.progress.ended(task)
        });
    }

    fn fill(&mut self) {
        let now_ms = self.events.now_ms();
        while let Some(kind) = self.free.iter().position(|(_, free)| *free > 0)
            && let Some((rank, number)) = self.waiting.first().copied()
            && let Some(open) = self.jobs.get_mut(&number)
        {
            let Some((tasks, since_ms)) = open.pending.front_mut() else {
                self.waiting.remove(&(rank, number));
                continue;
            };
            let (task, since_ms) = (tasks.start, *since_ms);
            tasks.start += 1;
            if tasks.start == tasks.end {
                open.pending.pop_front();
            }
            if open.pending.is_empty() {
                self.waiting.remove(&(rank, number));
            }
            let task_ms = self.free[kind].0.time_of(open.job.task_ms[task]);
            self.free[kind].1 -= 1;
            self.meter.running += 1;
            self.meter.waiting -= 1;
            self.waits += now_ms - since_ms;
            let job = number;
            self.events
                .push_in(task_ms, Event::Ends { job, task, kind });
        }
    }
}

/// Runs the jobs on the places of a cluster. A task starts on the fastest that is free.
pub(crate) fn run(jobs: &[Job], order: Order, nodes: &Cluster, window: Window) -> Outcome {
    let mut outcomes: Vec<JobOutcome> = jobs.iter().map(JobOutcome::new).collect();
    let mut free: Vec<(NodeKind, u64)> = (nodes.kinds())
        .map(|kind| (kind, kind.all_places()))
        .collect();
    free.sort_by(|(one, _), (other, _)| other.speed.total_cmp(&one.speed));
    let mut cluster = Places {
        order,
        free,
        jobs: BTreeMap::new(),
        waiting: BTreeSet::new(),
        events: EventQueue::default(),
        meter: Meter::new(nodes.all_places(), window),
        waits: Waits::default(),
    };
    for (number, job) in jobs.iter().enumerate() {
        cluster
            .events
            .push_at(job.arrives_ms, Event::Arrives(number));
    }
    while let Some(event) = cluster.events.pop() {
        let now_ms = cluster.events.now_ms();
        cluster.meter.advance(now_ms);
        match event {
            Event::Arrives(number) => cluster.arrives(number, &jobs[number]),
            Event::Ends { job, task, kind } => {
                cluster.ends(job, task, kind);
                if !cluster.jobs.contains_key(&job) {
                    outcomes[job].finished_ms = Some(now_ms);
                }
            }
        }
        cluster.fill();
    }
    let tasks = outcomes.iter().map(|job| job.tasks).sum();
    Outcome {
        jobs: outcomes,
        containers: ContainerSums {
            tasks,
            am_wait_ms: cluster.waits,
            ..ContainerSums::default()
        },
        means: cluster.meter.means(),
        cost: Cost::default(),
        node_heartbeats: 0,
        ended_ms: cluster.events.now_ms(),
        events: cluster.events.events(),
        used_each_second: cluster.meter.into_each_second(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(arrives_ms: u64, task_ms: &[u64]) -> Job {
        Job::of(arrives_ms, task_ms.to_vec())
    }

    fn finished(order: Order, jobs: &[Job]) -> Vec<u64> {
        let window = Window {
            from_ms: 0,
            to_ms: u64::MAX,
        };
        let nodes = Cluster {
            nodes: 1,
            places: 2,
            speed: 1.0,
            news_age_ms: 0,
            more: Vec::new(),
            resource_manager: crate::scenario::RmKind::default(),
        };
        let outcome = run(jobs, order, &nodes, window);
        let ends = outcome.jobs.iter().map(|job| job.finished_ms.unwrap());
        ends.collect()
    }

    #[test]
    fn the_job_with_the_least_work_left_is_served_first() {
        let jobs = [job(0, &[10, 10, 10, 10]), job(1, &[5, 5])];
        assert_eq!(finished(Order::Fifo, &jobs), [20, 25]);
        assert_eq!(finished(Order::ShortestRemaining, &jobs), [25, 15]);
    }
}
