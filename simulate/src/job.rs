//! A job: its tasks, and the stages in which they may run.

use std::ops::Range;

/// Job: its arrival, the length of each task, and its stages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// Arrival, in milliseconds since the begin.
    pub arrives_ms: u64,
    /// Length of each task in milliseconds, at least 1.
    pub task_ms: Vec<u64>,
    /// Stages; together they have each task once.
    pub stages: Vec<Stage>,
}

/// Tasks that may start at the same time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stage {
    /// Tasks, by their positions in [`Job::task_ms`].
    pub tasks: Range<usize>,
    /// The first so many of the tasks ask for guaranteed containers.
    pub guaranteed: usize,
    /// Stages all of whose tasks must have ended before. All stand before this one.
    pub after: Vec<usize>,
}

impl Job {
    /// Returns a job whose tasks may all start at once.
    #[must_use]
    pub fn of(arrives_ms: u64, task_ms: Vec<u64>) -> Self {
        Self::in_sequence(arrives_ms, task_ms, 1)
    }

    /// Returns a job of so many stages, each of which follows the one before it. The stages have
    /// the same number of tasks, or one more; a job has no more stages than tasks.
    #[must_use]
    pub fn in_sequence(arrives_ms: u64, task_ms: Vec<u64>, stages: usize) -> Self {
        let tasks = task_ms.len();
        let count = stages.clamp(1, tasks.max(1));
        let begin = |stage: usize| tasks / count * stage + (tasks % count).min(stage);
        let stage = |number: usize| Stage {
            tasks: begin(number)..begin(number + 1),
            guaranteed: 0,
            after: number.checked_sub(1).into_iter().collect(),
        };
        let stages = (0..count).map(stage).collect();
        Self {
            arrives_ms,
            task_ms,
            stages,
        }
    }

    /// Returns the work of all tasks in milliseconds.
    #[must_use]
    pub fn work_ms(&self) -> u64 {
        self.task_ms.iter().sum()
    }

    /// Has all tasks ask for guaranteed containers.
    pub(crate) fn ask_for_guaranteed(&mut self) {
        for stage in &mut self.stages {
            stage.guaranteed = stage.tasks.len();
        }
    }

    /// Returns whether all tasks ask for guaranteed containers.
    #[must_use]
    pub fn is_guaranteed(&self) -> bool {
        let is_guaranteed = |stage: &Stage| stage.guaranteed == stage.tasks.len();
        self.stages.iter().all(is_guaranteed)
    }

    /// Returns whether a task asks for a guaranteed container.
    pub(crate) fn asks_for_guaranteed(&self, task: usize) -> bool {
        let stage = &self.stages[self.stage_of(task)];
        task - stage.tasks.start < stage.guaranteed
    }

    /// Returns the stage of a task.
    fn stage_of(&self, task: usize) -> usize {
        let ends_before = |stage: &Stage| stage.tasks.end <= task;
        self.stages.partition_point(ends_before)
    }
}

/// What of a job has ended, as far as somebody knows: which of its tasks may start.
#[derive(Clone, Debug)]
pub(crate) struct Progress<'a> {
    job: &'a Job,
    /// Tasks of all stages that have not ended.
    left: usize,
    /// For each stage its tasks that have not ended.
    left_of: Vec<usize>,
    /// For each stage the stages that it waits for.
    waits: Vec<usize>,
    /// For each stage those that wait for it.
    behind: Vec<Vec<usize>>,
}

impl<'a> Progress<'a> {
    /// Returns a job of which nothing has ended, and the tasks that may start.
    pub(crate) fn new(job: &'a Job) -> (Self, Vec<Range<usize>>) {
        let mut behind = vec![Vec::new(); job.stages.len()];
        for (number, stage) in job.stages.iter().enumerate() {
            for before in &stage.after {
                behind[*before].push(number);
            }
        }
        let mut progress = Self {
            job,
            left: job.task_ms.len(),
            left_of: job.stages.iter().map(|stage| stage.tasks.len()).collect(),
            waits: job.stages.iter().map(|stage| stage.after.len()).collect(),
            behind,
        };
        let first = (0..job.stages.len()).filter(|stage| progress.waits[*stage] == 0);
        let first: Vec<usize> = first.collect();
        let tasks = progress.begin(first);
        (progress, tasks)
    }

    /// Notes the end of a task; returns the tasks that may start because of it.
    pub(crate) fn ended(&mut self, task: usize) -> Vec<Range<usize>> {
        let stage = self.job.stage_of(task);
        self.left -= 1;
        self.left_of[stage] -= 1;
        if self.left_of[stage] > 0 {
            return Vec::new();
        }
        let freed = self.freed_by(stage);
        self.begin(freed)
    }

    /// Returns whether every task has ended.
    pub(crate) const fn is_over(&self) -> bool {
        self.left == 0
    }

    /// Takes the end of a stage; returns the stages that waited for nothing else.
    fn freed_by(&mut self, stage: usize) -> Vec<usize> {
        let behind = std::mem::take(&mut self.behind[stage]);
        let mut freed = Vec::new();
        for follower in behind {
            self.waits[follower] -= 1;
            if self.waits[follower] == 0 {
                freed.push(follower);
            }
        }
        freed
    }

    /// Begins stages; returns their tasks. A stage without tasks ends as it begins.
    fn begin(&mut self, mut stages: Vec<usize>) -> Vec<Range<usize>> {
        let mut tasks = Vec::new();
        let mut next = 0;
        while let Some(stage) = stages.get(next).copied() {
            next += 1;
            if self.left_of[stage] == 0 {
                stages.extend(self.freed_by(stage));
            } else {
                tasks.push(self.job.stages[stage].tasks.clone());
            }
        }
        tasks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sequence_has_even_stages_and_none_without_tasks() {
        let tasks = |tasks: usize, stages| {
            let job = Job::in_sequence(0, vec![1; tasks], stages);
            let ranges = job.stages.into_iter().map(|stage| stage.tasks);
            ranges.collect::<Vec<_>>()
        };
        assert_eq!(tasks(8, 3), [0..3, 3..6, 6..8]);
        assert_eq!(tasks(2, 5), [0..1, 1..2]);
        assert_eq!(tasks(7, 1).len(), 1);
    }

    #[test]
    fn a_stage_begins_with_the_last_end_of_all_that_it_waits_for() {
        let stage = |tasks, after: &[usize]| Stage {
            tasks,
            guaranteed: 0,
            after: after.to_vec(),
        };
        let job = Job {
            arrives_ms: 0,
            task_ms: vec![1; 5],
            stages: vec![
                stage(0..2, &[]),
                stage(2..3, &[]),
                stage(3..3, &[1]),
                stage(3..4, &[0, 1]),
                stage(4..5, &[2]),
            ],
        };
        let (mut progress, first) = Progress::new(&job);
        assert_eq!(first, [0..2, 2..3]);
        assert!(progress.ended(1).is_empty());
        // The third stage has no task, so what waits for it begins with it.
        assert_eq!(progress.ended(2).first(), Some(&(4..5)));
        assert!(!progress.is_over());
        assert_eq!(progress.ended(0).first(), Some(&(3..4)));
        assert!(progress.ended(4).is_empty());
        assert!(progress.ended(3).is_empty() && progress.is_over());
    }
}
