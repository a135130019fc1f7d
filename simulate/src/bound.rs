//! What no policy can beat: a scheduler without delays that knows everything. Tasks start in any
//! free place at once, and a job ends with its last task.

use std::collections::BTreeSet;

use sim::EventQueue;

use crate::arm::Cost;
use crate::measure::{ContainerSums, JobOutcome, Meter, Outcome, Window};
use crate::waits::Waits;
use crate::workload::Job;

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
    Ends { job: usize, task_ms: u64 },
}

struct Progress<'a> {
    job: &'a Job,
    /// Tasks that have started.
    started: usize,
    /// Tasks that have ended.
    ended: usize,
    left_ms: u64,
}

struct Cluster<'a> {
    order: Order,
    free: u64,
    jobs: Vec<Progress<'a>>,
    /// Jobs with tasks that have not started, the next one to be served first.
    waiting: BTreeSet<(u64, usize)>,
    events: EventQueue<Event>,
}

impl Cluster<'_> {
    fn key(&self, number: usize) -> (u64, usize) {
        let left = match self.order {
            Order::Fifo => 0,
            Order::ShortestRemaining => self.jobs[number].left_ms,
        };
        (left, number)
    }

    fn fill(&mut self, meter: &mut Meter, waits: &mut Waits) {
        while self.free > 0
            && let Some(next) = self.waiting.first().copied()
        {
            let job = &mut self.jobs[next.1];
            let task_ms = job.job.task_ms[job.started];
            job.started += 1;
            if job.started == job.job.task_ms.len() {
                self.waiting.remove(&next);
            }
            self.free -= 1;
            meter.running += 1;
            meter.waiting -= 1;
            *waits += self.events.now_ms() - job.job.arrives_ms;
            let job = next.1;
            self.events.push_in(task_ms, Event::Ends { job, task_ms });
        }
    }
}

/// Runs the jobs on so many places.
pub(crate) fn run(jobs: &[Job], order: Order, places: u64, window: Window) -> Outcome {
    let mut meter = Meter::new(places, window);
    let mut outcomes: Vec<JobOutcome> = jobs.iter().map(JobOutcome::new).collect();
    let progress = |job| Progress {
        job,
        started: 0,
        ended: 0,
        left_ms: job.work_ms(),
    };
    let mut cluster = Cluster {
        order,
        free: places,
        jobs: jobs.iter().map(progress).collect(),
        waiting: BTreeSet::new(),
        events: EventQueue::default(),
    };
    let mut am_wait_ms = Waits::default();
    for (number, job) in jobs.iter().enumerate() {
        cluster
            .events
            .push_at(job.arrives_ms, Event::Arrives(number));
    }
    while let Some(event) = cluster.events.pop() {
        let now_ms = cluster.events.now_ms();
        meter.advance(now_ms);
        match event {
            Event::Arrives(number) => {
                meter.waiting += outcomes[number].tasks;
                cluster.waiting.insert(cluster.key(number));
            }
            Event::Ends { job, task_ms } => {
                let key = cluster.key(job);
                let waits = cluster.waiting.remove(&key);
                let progress = &mut cluster.jobs[job];
                progress.left_ms -= task_ms;
                progress.ended += 1;
                if progress.ended == progress.job.task_ms.len() {
                    outcomes[job].finished_ms = Some(now_ms);
                }
                if waits {
                    cluster.waiting.insert(cluster.key(job));
                }
                cluster.free += 1;
                meter.running -= 1;
            }
        }
        cluster.fill(&mut meter, &mut am_wait_ms);
    }
    let tasks = outcomes.iter().map(|job| job.tasks).sum();
    Outcome {
        jobs: outcomes,
        containers: ContainerSums {
            tasks,
            am_wait_ms,
            ..ContainerSums::default()
        },
        means: meter.means(),
        cost: Cost::default(),
        node_heartbeats: 0,
        ended_ms: cluster.events.now_ms(),
        events: cluster.events.events(),
        used_each_second: meter.into_each_second(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(arrives_ms: u64, task_ms: &[u64]) -> Job {
        let task_ms = task_ms.to_vec();
        Job {
            arrives_ms,
            task_ms,
        }
    }

    fn finished(order: Order, jobs: &[Job]) -> Vec<u64> {
        let window = Window {
            from_ms: 0,
            to_ms: u64::MAX,
        };
        let outcome = run(jobs, order, 2, window);
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
