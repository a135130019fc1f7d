//! What one run came to: every job, and sums over containers and time.

use crate::job::Job;
use crate::numbers::{float, float_of, ratio};
use crate::waits::Waits;

/// Job of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JobOutcome {
    /// Arrival, in milliseconds since the begin.
    pub arrives_ms: u64,
    /// Number of tasks.
    pub tasks: u64,
    /// Sum of the tasks' lengths in milliseconds.
    pub work_ms: u64,
    /// Whether all tasks ask for guaranteed containers.
    pub is_guaranteed: bool,
    /// Time at which the master has learnt of the last end; `None`: unfinished.
    pub finished_ms: Option<u64>,
}

impl JobOutcome {
    pub(crate) fn new(job: &Job) -> Self {
        Self {
            arrives_ms: job.arrives_ms,
            tasks: job.task_ms.len() as u64,
            work_ms: job.work_ms(),
            is_guaranteed: job.is_guaranteed(),
            finished_ms: None,
        }
    }
}

/// Sums over the containers of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ContainerSums {
    /// Tasks of all jobs.
    pub tasks: u64,
    /// Containers that a node turned away.
    pub refused: u64,
    /// Containers removed from a queue.
    pub shed: u64,
    /// Running containers killed for a guaranteed one.
    pub evicted: u64,
    /// Running containers frozen for a guaranteed one.
    pub paused: u64,
    /// Containers lost with their node, or not started because it was down.
    pub node_lost: u64,
    /// Milliseconds of run that evictions and lost nodes discarded.
    pub lost_ms: u64,
    /// Waits of tasks at their master, each try for itself.
    pub am_wait_ms: Waits,
    /// Waits of containers on a node, also of those that were shed.
    pub node_wait_ms: Waits,
}

/// Means over the measured time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TimeMeans {
    /// Length of the measured time in milliseconds.
    pub span_ms: u64,
    /// Share of the places in which the process of a task runs.
    pub used: f64,
    /// Share of the places in which a master runs.
    pub masters: f64,
    /// Share of the places that are free while a task waits anywhere.
    pub wasted: f64,
    /// Mean length of the queues.
    pub queue_mean: f64,
    /// Standard deviation of the queues at one moment, averaged.
    pub queue_stdev: f64,
}

/// Cost of an arm to the ResourceManager and to the proxies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// Calls that the ResourceManager answered.
    pub rm_calls: u64,
    /// Entries of lists of nodes that its answers carried.
    pub list_entries: u64,
    /// Looks at nodes.
    pub looks: u64,
}

/// Quantities over time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TimeLines {
    /// Use of the places each second from the begin, from 0 to 1.
    pub used: Vec<f64>,
    /// Time of the first look at the queues, in milliseconds; the others follow each second.
    pub queues_from_ms: u64,
    /// Mean length of the queues at each look.
    pub queue_means: Vec<f64>,
    /// Standard deviation of the queues at each look.
    pub queue_stdevs: Vec<f64>,
}

/// Result of one run.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// Jobs in the order of arrival.
    pub jobs: Vec<JobOutcome>,
    /// Sums over containers.
    pub containers: ContainerSums,
    /// Means over the measured time.
    pub means: TimeMeans,
    /// Calls and looks of the whole run.
    pub cost: Cost,
    /// Heartbeats of nodes.
    pub node_heartbeats: u64,
    /// Virtual time at which the run ended.
    pub ended_ms: u64,
    /// Values over time.
    pub used_each_second: TimeLines,
    /// Events handled.
    pub events: u64,
}

/// Time over which means are taken.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Window {
    pub(crate) from_ms: u64,
    pub(crate) to_ms: u64,
}

/// Sums that grow with the time.
#[derive(Debug)]
pub(crate) struct Meter {
    places: u64,
    window: Window,
    now_ms: u64,
    /// Processes of tasks that run.
    pub(crate) running: u64,
    /// Masters that run in containers.
    pub(crate) masters: u64,
    /// Places of nodes that are down.
    pub(crate) down: u64,
    /// Tasks that have arrived and whose process does not run, nor has ended.
    pub(crate) waiting: u64,
    used_area: f64,
    masters_area: f64,
    wasted_area: f64,
    second_area: f64,
    lines: TimeLines,
}

impl Meter {
    pub(crate) fn new(places: u64, window: Window) -> Self {
        Self {
            places,
            window,
            now_ms: 0,
            running: 0,
            masters: 0,
            down: 0,
            waiting: 0,
            used_area: 0.0,
            masters_area: 0.0,
            wasted_area: 0.0,
            second_area: 0.0,
            lines: TimeLines::default(),
        }
    }

    /// Moves to a later time. Between two calls nothing has changed.
    pub(crate) fn advance(&mut self, now_ms: u64) {
        let from = self.now_ms.max(self.window.from_ms);
        let to = now_ms.min(self.window.to_ms);
        let taken = self.running + self.masters + self.down;
        let free = self.places.saturating_sub(taken);
        if from < to {
            let length = float(to - from);
            self.used_area += length * float(self.running);
            self.masters_area += length * float(self.masters);
            self.wasted_area += length * float(free.min(self.waiting));
        }
        while self.now_ms < now_ms {
            let second_ends = (self.now_ms / 1_000 + 1) * 1_000;
            let until = now_ms.min(second_ends);
            self.second_area += float(until - self.now_ms) * float(self.running);
            self.now_ms = until;
            if until == second_ends {
                let used = self.second_area / (1_000.0 * float(self.places));
                self.lines.used.push(used);
                self.second_area = 0.0;
            }
        }
    }

    /// Returns whether the present counts for the means.
    pub(crate) const fn is_measured(&self) -> bool {
        self.window.from_ms <= self.now_ms && self.now_ms <= self.window.to_ms
    }

    /// Takes the lengths of all queues at this moment.
    pub(crate) fn sample_queues(&mut self, lengths: impl Iterator<Item = usize> + Clone) {
        let count = float_of(lengths.clone().count());
        let mean = ratio(lengths.clone().map(float_of).sum(), count);
        let squares: f64 = lengths
            .map(|length| (float_of(length) - mean).powi(2))
            .sum();
        if self.lines.queue_means.is_empty() {
            self.lines.queues_from_ms = self.now_ms;
        }
        self.lines.queue_means.push(mean);
        self.lines.queue_stdevs.push(ratio(squares, count).sqrt());
    }

    pub(crate) fn means(&self) -> TimeMeans {
        let span_ms = self
            .now_ms
            .min(self.window.to_ms)
            .saturating_sub(self.window.from_ms);
        let area = float(span_ms) * float(self.places);
        let mean = |all: &[f64]| ratio(all.iter().sum(), float_of(all.len()));
        TimeMeans {
            span_ms,
            used: ratio(self.used_area, area),
            masters: ratio(self.masters_area, area),
            wasted: ratio(self.wasted_area, area),
            queue_mean: mean(&self.lines.queue_means),
            queue_stdev: mean(&self.lines.queue_stdevs),
        }
    }

    pub(crate) fn into_each_second(self) -> TimeLines {
        self.lines
    }
}

/// Returns the range of the jobs that are measured, by their order of arrival.
#[must_use]
pub fn measured(jobs: usize, warm_up_percent: u64, tail_percent: u64) -> std::ops::Range<usize> {
    let part = |percent: u64| {
        let percent = usize::try_from(percent).unwrap_or(100).min(100);
        jobs / 100 * percent + jobs % 100 * percent / 100
    };
    let (from, tail) = (part(warm_up_percent), part(tail_percent));
    from..jobs.saturating_sub(tail).max(from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn use_and_waste_are_means_over_the_window_alone() {
        let mut meter = Meter::new(
            10,
            Window {
                from_ms: 1_000,
                to_ms: 3_000,
            },
        );
        meter.running = 10;
        meter.advance(1_500);
        (meter.running, meter.masters, meter.down, meter.waiting) = (4, 3, 2, 2);
        meter.advance(9_500);
        let means = meter.means();
        assert_eq!(means.span_ms, 2_000);
        assert!((means.used - (0.25 + 0.75 * 0.4)).abs() < 1e-9, "{means:?}");
        assert!((means.masters - 0.75 * 0.3).abs() < 1e-9, "{means:?}");
        // One place is free for the two that wait.
        assert!((means.wasted - 0.75 * 0.1).abs() < 1e-9, "{means:?}");
        let each_second = meter.into_each_second().used;
        assert_eq!(each_second.len(), 9);
        assert!((each_second[1] - 0.7).abs() < 1e-9, "{each_second:?}");
    }

    #[test]
    fn the_begin_and_the_end_of_the_jobs_are_left_out() {
        assert_eq!(measured(200, 20, 10), 40..180);
        assert_eq!(measured(3, 20, 0), 0..3);
        assert_eq!(measured(0, 20, 20), 0..0);
    }
}
